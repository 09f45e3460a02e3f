"""Makes the packages of this platform in a folder: the wheel, both npm packages, an archive, and the one for Debian.

    python3 packages/make.py FOLDER [--all]

SYNQLITE_EXTENSION and SYNQLITE_COMMAND name the loadable extension and the command. Each package has LICENSES.txt,
the licenses of what is compiled into them. Where pip, npm or dpkg cannot be
had it says `skipped`, and why; with --all that is a failure, but for dpkg, which only Debian and its kin have.
Whatever else goes wrong is one in any case.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import archive
import debian
import licenses
from tools import Skip, main, new_environment, npm, reach_index, run

HERE = Path(__file__).resolve().parent


def wheel(into: Path, work: Path) -> None:
    python = new_environment(work / "builder")
    reach_index(python, work)
    # Made from a copy: the build leaves files beside its sources.
    source = work / "python"
    shutil.copytree(HERE / "python", source, ignore=shutil.ignore_patterns("_bin", "__pycache__", ".*_cache"))
    for old in into.glob("synqlite-*.whl"):
        old.unlink()
    run([python, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", into, source])


def npm_packages(into: Path, work: Path) -> None:
    program = npm()
    # npm packs the files that package.json lists, so the sources may stand where they are.
    run([shutil.which("node"), HERE / "node" / "scripts" / "platform.js", work / "platform"])
    for old in into.glob("synqlite-*.tgz"):
        old.unlink()
    for source in (HERE / "node", work / "platform"):
        run([program, "pack", "--silent", "--pack-destination", into, source], cwd=work)


def make(arguments: list[str], all_of_it: bool) -> None:
    (folder,) = arguments
    into = Path(folder).resolve()
    into.mkdir(parents=True, exist_ok=True)
    for variable in ("SYNQLITE_EXTENSION", "SYNQLITE_COMMAND"):
        if not os.path.isfile(os.environ.get(variable, "")):
            sys.exit(f"error: {variable} names no file. Set it to the path of a binary for this platform")
    makers = (
        ("the wheel", wheel),
        ("the npm packages", npm_packages),
        ("the archive", archive.make),
        ("the Debian package", debian.make),
    )
    for what, maker in makers:
        with tempfile.TemporaryDirectory() as work:
            try:
                text = Path(work, "LICENSES.txt").resolve()
                licenses.write(text)
                os.environ["SYNQLITE_LICENSES"] = str(text)
                maker(into, Path(work).resolve())
            except Skip as reason:
                if all_of_it and maker is not debian.make:
                    sys.exit(f"error: {what}: {reason}")
                print(f"skipped: {what}: {reason}", flush=True)
    for made in sorted(into.glob("synqlite[-_]*")):
        print(f"{made.stat().st_size:>10} {made.name}")


if __name__ == "__main__":
    main(make, __doc__, 1)
