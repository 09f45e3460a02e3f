"""Where the extension and the command are: named by the environment, or beside this file in a wheel."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Optional

from .errors import NotInstalledError

_BIN = Path(__file__).resolve().parent / "_bin"


def extension() -> Optional[Path]:
    """The loadable SQLite extension."""
    return _find("SYNQLITE_EXTENSION", ("synqlite.so", "synqlite.dylib", "synqlite.dll"))


def command() -> Optional[Path]:
    """The command."""
    return _find("SYNQLITE_COMMAND", ("synqlite", "synqlite.exe"))


def _find(variable: str, names: tuple[str, ...]) -> Optional[Path]:
    if named := os.environ.get(variable):
        path = Path(named).absolute()
        if not path.is_file():
            raise NotInstalledError(
                f"{variable} names {named}, and there is no such file", "Correct it, or unset it", named
            )
        return path
    return next((path for path in (_BIN / name for name in names) if path.is_file()), None)
