"""Puts the extension and the command into the wheel, and tags it for the platform they are for.

Both are named by the environment and nothing is compiled or fetched: a wheel is either whole or not made. So may be
the licenses of what they contain (SYNQLITE_LICENSES), which go beside them. The tag is `py3-none-PLATFORM`, since neither speaks to Python itself.
"""

from __future__ import annotations

import os
import re
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SUFFIXES = (".so", ".dylib", ".dll")


class Binaries(BuildHookInterface):  # type: ignore[type-arg]
    """Runs for wheels only."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return
        extension = _named("SYNQLITE_EXTENSION", "the loadable extension, a file *.so, *.dylib or *.dll")
        command = _named("SYNQLITE_COMMAND", "the command synqlite")
        if extension.suffix not in SUFFIXES:
            raise SystemExit(f"{extension}, which SYNQLITE_EXTENSION names, is no *.so, *.dylib or *.dll")
        if not os.access(command, os.X_OK):
            raise SystemExit(
                f"{command}, which SYNQLITE_COMMAND names, cannot be executed. Run: chmod +x {command}"
            )
        suffix = ".exe" if command.suffix == ".exe" else ""
        build_data["force_include"][str(extension)] = f"synqlite/_bin/synqlite{extension.suffix}"
        build_data["force_include"][str(command)] = f"synqlite/_bin/synqlite{suffix}"
        if licenses := os.environ.get("SYNQLITE_LICENSES"):
            build_data["force_include"][licenses] = "synqlite/_bin/LICENSES.txt"
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{_platform(extension, command)}"


def _named(variable: str, what: str) -> Path:
    path = Path(os.environ.get(variable, ""))
    if not path.is_file():
        raise SystemExit(
            f"{variable} names no file, so there would be no binary in the wheel. "
            f"Set it to the path of {what}, built for the platform of the wheel"
        )
    return path.resolve()


def _platform(*binaries: Path) -> str:
    """This platform; on Linux with the glibc that the binaries need, so that pip refuses an older one."""
    platform = re.sub("[-.]", "_", sysconfig.get_platform())
    needed = [
        (int(major), int(minor))
        for binary in binaries
        for major, minor in re.findall(rb"\0GLIBC_(\d+)\.(\d+)", binary.read_bytes())
    ]
    if not platform.startswith("linux_") or not needed:
        return platform
    major, minor = max(needed)
    return f"manylinux_{major}_{minor}_{platform.removeprefix('linux_')}"
