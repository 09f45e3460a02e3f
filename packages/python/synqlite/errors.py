"""What can fail, by kind: who can do something about it.

One class for each `code` of the command's JSON errors, so that a program decides by class and never by text.
"""

from __future__ import annotations

from typing import Any, ClassVar, Optional


class Error(Exception):
    """Something failed. `str()` says what failed and what to do next.

    The database is as it was, but for a sync that fails after it has pulled: what came stays merged.
    """

    code: ClassVar[str] = ""

    def __init__(self, message: str, hint: Optional[str] = None, object: Optional[str] = None) -> None:
        super().__init__(message, hint, object)
        self.message = message
        """What failed, on what."""
        self.hint = hint
        """What to do next, where somebody knows."""
        self.object = object
        """The file, table or address concerned."""

    def __str__(self) -> str:
        return f"{self.message}. {self.hint}" if self.hint else self.message


class RefusedError(Error):
    """Refused or failed, for a reason that the others do not name. A hub that denies a token is one."""

    code = "refused"


class UsageError(Error):
    """The arguments do not fit together."""

    code = "usage"


class LockedError(Error):
    """Another connection has the file locked, perhaps one of this program with an open transaction."""

    code = "locked"


class NetworkError(Error):
    """A remote cannot be reached, or does not answer as it should."""

    code = "network"


class ConflictError(Error):
    """What is asked for contradicts what is there: a file that exists, another database, another key.

    Rows that merges displaced are no errors: see `Replica.conflicts`.
    """

    code = "conflict"


class DamagedError(Error):
    """A file or an object is damaged, or not what its name says."""

    code = "damaged"


class DefectError(Error):
    """A defect of SynQLite; please report it."""

    code = "defect"


class NotInstalledError(Error):
    """Neither the extension nor the command is there, or not the one that was asked for."""

    code = "not_installed"


_KINDS: dict[str, type[Error]] = {
    kind.code: kind
    for kind in (
        RefusedError,
        UsageError,
        LockedError,
        NetworkError,
        ConflictError,
        DamagedError,
        DefectError,
    )
}


def of_document(error: dict[str, Any]) -> Error:
    """The error of the `error` object of an answer. A kind of a newer SynQLite is an `Error`."""
    kind, hint = _KINDS.get(str(error.get("code")), Error), error.get("hint")
    if kind is LockedError and "this program" not in (hint or ""):
        # For the command every other connection is another program, and `sqlite3` begins transactions unasked.
        hint = f"{hint or 'Try again'}; if it is this program, commit its transaction first"
    return kind(str(error.get("message")), hint, error.get("object"))
