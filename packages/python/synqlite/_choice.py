"""Which backend is taken: the extension where this Python can load it, and else the command."""

from __future__ import annotations

import logging
from typing import Optional

from . import _files
from ._backend import Backend, Name
from ._command import Command
from ._extension import Extension, why_not
from .errors import NotInstalledError, UsageError

_log = logging.getLogger("synqlite")


def choose(wanted: Optional[Name], timeout: float) -> Backend:
    """The backend that was asked for; else the extension where this Python can load it, else the command."""
    # The largest that the extension takes; of no number neither comparison holds.
    if not 0 <= timeout <= 1_000_000:
        raise UsageError(f"a timeout of {timeout} seconds is none", "Give a number from 0 to 1,000,000")
    if wanted not in (None, "extension", "command"):
        raise UsageError(f"there is no backend {wanted!r}", 'Say "extension" or "command", or leave it out')
    hindrance = None
    if wanted != "command":
        file = _files.extension()
        hindrance = "it is not installed" if file is None else why_not(file)
        if file is not None and hindrance is None:
            return Extension(file, timeout)
        if wanted == "extension":
            raise NotInstalledError(
                f"the extension of synqlite cannot be used here: {hindrance}",
                'Use backend="command", or a wheel of synqlite in a Python whose sqlite3 can load extensions',
            )
    program = _files.command()
    if program is not None:
        if hindrance and file is not None:
            _log.debug("using the command, since the extension cannot be used: %s", hindrance)
        return Command(program, timeout)
    raise NotInstalledError(
        "the command of synqlite is not installed"
        + (f", and its extension cannot be used here: {hindrance}" if hindrance else ""),
        "Install a wheel of synqlite for this platform, or name the command in SYNQLITE_COMMAND",
    )
