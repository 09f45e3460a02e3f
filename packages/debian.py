"""The Debian package of the command: the program, a manual page for each command, completions for three shells.

It is put together by dpkg-deb out of a folder, so nothing of Debian's but that is needed, and nothing is compiled.
Whoever hands it out is named by DEBFULLNAME and DEBEMAIL, as Debian's own tools have it.
"""

from __future__ import annotations

import email.utils
import gzip
import hashlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from tools import Skip, bare, only, run, synchronize

ROOT = Path(__file__).resolve().parent.parent

LIBRARIES = {
    "libc.so.6": "libc6",
    "libm.so.6": "libc6",
    # Parts of libc.so.6 since 2.34.
    "libdl.so.2": "libc6",
    "libpthread.so.0": "libc6",
    "librt.so.1": "libc6",
    "libutil.so.1": "libc6",
    "libgcc_s.so.1": "libgcc-s1",
    "ld-linux-x86-64.so.2": "libc6",
    "ld-linux-aarch64.so.1": "libc6",
}
"""Which package has each library that the command may ask for."""

COMPLETIONS = {
    "bash": "bash-completion/completions/synqlite",
    "fish": "fish/vendor_completions.d/synqlite.fish",
    "zsh": "zsh/vendor-completions/_synqlite",
}

CONTROL = """\
Package: synqlite
Version: {version}
Architecture: {architecture}
Maintainer: {maintainer}
Installed-Size: {size}
Depends: {depends}
Suggests: sqlite3
Section: database
Priority: optional
Homepage: https://github.com/synqlite/synqlite
Description: makes any SQLite file a replica that synchronizes offline
 Any number of sites edit their copies of a SQLite file offline and merge
 later, directly, through a shared folder, a hub or object storage. Programs
 go on reading and writing the file as before: changes are noted by plain SQL
 triggers. Every constraint of the schema holds after every merge.
"""

COPYRIGHT = """\
Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: SynQLite
Source: https://github.com/synqlite/synqlite

Files: *
Copyright: the authors of SynQLite
License: Apache-2.0
 The whole text is in /usr/share/common-licenses/Apache-2.0 on Debian, and in
 /usr/share/doc/synqlite/LICENSE.
Comment: The program contains SQLite, which is in the public domain, zstd
 (BSD-3-Clause), mimalloc (MIT) and libraries in Rust, each under its own
 license: /usr/share/doc/synqlite/LICENSES.txt.gz has them all.
"""

OVERRIDES = """\
# Whoever unpacks the package elsewhere is to have the license too.
synqlite: extra-license-file *
"""

CHANGELOG = """\
synqlite ({version}) unstable; urgency=medium

  * What is new is in changelog.gz.

 -- {maintainer}  {date}
"""


def make(into: Path, work: Path) -> None:
    """Puts `synqlite_VERSION_ARCHITECTURE.deb` into a folder."""
    needs("dpkg-deb", "dpkg")
    command = Path(os.environ["SYNQLITE_COMMAND"]).resolve()
    tree = work / "tree"
    share, program = tree / "usr/share", tree / "usr/bin/synqlite"
    documents = share / "doc/synqlite"
    for folder in (program.parent, documents):
        folder.mkdir(parents=True)
    shutil.copyfile(command, program)
    program.chmod(0o755)
    if shutil.which("strip"):
        run(["strip", "--remove-section=.comment", "--remove-section=.note", program])

    version = run([program, "--version"], env=bare()).split()[1] + "-1"
    maintainer = f"{os.environ.get('DEBFULLNAME', 'SynQLite')} <{os.environ.get('DEBEMAIL', 'nobody@example.org')}>"
    stamp = os.environ.get("SOURCE_DATE_EPOCH") or (ROOT / "CHANGELOG.md").stat().st_mtime
    date = email.utils.formatdate(float(stamp))
    pack(documents / "changelog.gz", (ROOT / "CHANGELOG.md").read_text())
    pack(documents / "changelog.Debian.gz", CHANGELOG.format(version=version, maintainer=maintainer, date=date))
    write(documents / "copyright", COPYRIGHT)
    write(documents / "LICENSE", (ROOT / "LICENSE").read_text())
    pack(documents / "LICENSES.txt.gz", Path(os.environ["SYNQLITE_LICENSES"]).read_text(encoding="utf-8"))
    write(share / "lintian/overrides/synqlite", OVERRIDES)
    run([program, "reference", "--man", work / "man"], env=bare())
    for page in sorted((work / "man").iterdir()):
        pack(share / "man/man1" / f"{page.name}.gz", page.read_text())
    for shell, name in COMPLETIONS.items():
        write(share / name, run([program, "completions", shell], env=bare()))

    files = sorted(path for path in tree.rglob("*") if path.is_file())
    architecture = run(["dpkg", "--print-architecture"]).strip()
    control = {
        "version": version,
        "architecture": architecture,
        "maintainer": maintainer,
        "size": sum(-(-path.stat().st_size // 1024) for path in files),
        "depends": depends(program),
    }
    sums = [f"{hashlib.md5(path.read_bytes()).hexdigest()}  {path.relative_to(tree)}\n" for path in files]
    write(tree / "DEBIAN/control", CONTROL.format(**control))
    write(tree / "DEBIAN/md5sums", "".join(sums))
    for folder in (tree, *(path for path in tree.rglob("*") if path.is_dir())):
        folder.chmod(0o755)
    for old in into.glob("synqlite_*.deb"):
        old.unlink()
    made = into / f"synqlite_{version}_{architecture}.deb"
    run(["dpkg-deb", "--root-owner-group", "--build", tree, made])


def depends(program: Path) -> str:
    """What the command needs of the system: with the glibc whose symbols it names, so that an older one is refused."""
    content = program.read_bytes()
    asked = {name.decode() for name in re.findall(rb"\0((?:lib|ld-)[\w+-]+\.so\.\d+)(?=\0)", content)}
    unknown = asked - set(LIBRARIES)
    if unknown:
        sys.exit(f"error: the command needs {sorted(unknown)}. Say in LIBRARIES which packages have them")
    glibc = max(tuple(map(int, found)) for found in re.findall(rb"\0GLIBC_(\d+)\.(\d+)", content))
    packages = {LIBRARIES[name] for name in asked}
    return ", ".join(f"libc6 (>= {glibc[0]}.{glibc[1]})" if each == "libc6" else each for each in sorted(packages))


def needs(*programs: str) -> None:
    for program in programs:
        if shutil.which(program) is None:
            raise Skip(f"there is no {program}")


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o644)


def pack(path: Path, text: str) -> None:
    """Writes a text as gzip, the same bytes for the same text."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(text.encode(), 9, mtime=0))
    path.chmod(0o644)


def attempt(made: Path, work: Path) -> str:
    """Installs the package into an empty root, and looks at what is there."""
    needs("dpkg")
    (package,) = only(made, "synqlite_*.deb")
    root = work / "root"
    for folder in ("info", "updates"):
        (root / "var/lib/dpkg" / folder).mkdir(parents=True)
    (root / "var/lib/dpkg/status").touch()
    dpkg = ["dpkg", f"--root={root}", f"--log={work / 'log'}"]
    # What it needs is on this machine, and not in that root.
    run([*dpkg, "--force-not-root", "--force-depends", "--force-bad-path", "--install", package])
    if changed := run([*dpkg, "--verify", "synqlite"]):
        sys.exit(f"error: installed files are not those of the package: {changed}")
    synchronize(root / "usr/bin/synqlite", work)

    pages = sorted((root / "usr/share/man/man1").iterdir())
    if shutil.which("man"):
        for page in pages:
            said = subprocess.run(["man", "--warnings", "-l", page], env=bare(MANPAGER="cat", LC_ALL="C.UTF-8"),
                                  capture_output=True, text=True, check=True)
            if said.stderr or "SYNOPSIS" not in said.stdout:
                sys.exit(f"error: man has to say of {page.name}: {said.stderr or said.stdout}")
    else:
        print("skipped: how manual pages are set: there is no man")
    if shutil.which("lintian"):
        run(["lintian", "--fail-on=error,warning", "--suppress-tags=initial-upload-closes-no-bugs", package])
    else:
        print("skipped: what Debian says of it: there is no lintian")
    size = package.stat().st_size
    return f"{package.name}: {size} bytes, {len(pages)} manual pages, installed and run in an empty root"
