"""The archive of this platform, for those who have no package: the command, the extension, manual pages, license."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from pathlib import Path

from tools import WINDOWS, bare, run

ROOT = Path(__file__).resolve().parent.parent

SYSTEMS = {"linux": "linux", "darwin": "macos", "win32": "windows"}
MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}
"""Some systems call machines otherwise than Rust does."""


def here() -> str:
    """What this platform is called in names of archives."""
    machine = platform.machine().lower()
    return f"{SYSTEMS.get(sys.platform, sys.platform)}-{MACHINES.get(machine, machine)}"


def make(into: Path, work: Path) -> None:
    """Puts `synqlite-VERSION-PLATFORM.tar.gz`, on Windows `.zip`, into a folder."""
    command, extension = (Path(os.environ[f"SYNQLITE_{what}"]).resolve() for what in ("COMMAND", "EXTENSION"))
    version = run([command, "--version"], env=bare()).split()[1]
    name = f"synqlite-{version}-{here()}"
    tree = work / name
    tree.mkdir()
    for source, called in ((command, "synqlite"), (extension, "libsynqlite")):
        suffix = source.suffix if source is extension or WINDOWS else ""
        shutil.copyfile(source, tree / f"{called}{suffix}")
        (tree / f"{called}{suffix}").chmod(0o755)
    for document in ("LICENSE", "README.md", "CHANGELOG.md"):
        shutil.copyfile(ROOT / document, tree / document)
    shutil.copyfile(os.environ["SYNQLITE_LICENSES"], tree / "LICENSES.txt")
    if not WINDOWS:
        run([command, "reference", "--man", tree / "man/man1"], env=bare())
    for old in (*into.glob("synqlite-*.tar.gz"), *into.glob("synqlite-*.zip")):
        old.unlink()
    shutil.make_archive(str(into / name), "zip" if WINDOWS else "gztar", work, name)
