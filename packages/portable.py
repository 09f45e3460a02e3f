"""Builds the command and the extension for Linux with a glibc as old as 2.28, on any Linux of the same processor.

    python3 packages/portable.py FOLDER

What is linked against the glibc of this machine asks for one as new. zig, which pip fetches, has the symbols of the
older ones: 2.28 is that of Debian 10, Ubuntu 18.10 and RHEL 8, and of wheels for manylinux_2_28.
"""

from __future__ import annotations

import os
import platform
import shutil
import sys
import tempfile
from pathlib import Path

from tools import Skip, main, new_environment, program, reach_index, run

HERE = Path(__file__).resolve().parent
GLIBC = "2.28"
BUILDER = ["cargo-zigbuild==0.24.1", "ziglang==0.17.1"]


def stub(python: Path, work: Path) -> None:
    """An empty library: the extension is linked with `-lsqlite3`, of which it needs nothing, and the linker drops it."""
    source = work / "stub.c"
    source.write_text("")
    run([python, "-m", "ziglang", "cc", "-shared", "-o", work / "libsqlite3.so", source])


def make(arguments: list[str], _: bool) -> None:
    into = Path(arguments[0]).resolve()
    if not sys.platform.startswith("linux"):
        sys.exit("error: there is a glibc on Linux only")
    target = f"{platform.machine()}-unknown-linux-gnu"
    built = Path(os.environ.get("CARGO_TARGET_DIR", HERE.parent / "target")).resolve() / "portable"
    with tempfile.TemporaryDirectory() as temporary:
        work = Path(temporary).resolve()
        try:
            python = new_environment(work / "builder")
            reach_index(python, work)
        except Skip as reason:
            sys.exit(f"error: {reason}")
        run([python, "-m", "pip", "install", "--quiet", *BUILDER])
        stub(python, work)
        path = f"{program(work / 'builder', 'python').parent}{os.pathsep}{os.environ['PATH']}"
        environment = {**os.environ, "PATH": path, "SQLITE3_LIB_DIR": str(work), "CARGO_TARGET_DIR": str(built)}
        build = ["cargo-zigbuild", "zigbuild", "--locked", "--target", f"{target}.{GLIBC}"]
        for what in (
            ["--profile", "dist", "-p", "synqlite", "--bins"],
            ["--release", "--manifest-path", "ext/Cargo.toml", "-p", "synqlite-extension"],
        ):
            run([*build, *what], env=environment, cwd=HERE.parent, quiet=False)
    into.mkdir(parents=True, exist_ok=True)
    for made in (built / target / "dist" / "synqlite", built / target / "release" / "libsynqlite.so"):
        shutil.copy2(made, into)
        print(into / made.name)


if __name__ == "__main__":
    main(make, __doc__, 1)
