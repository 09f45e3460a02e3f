"""On which connection a live query runs, and how it learns that something was committed."""

from __future__ import annotations

import sqlite3
import time
from typing import Any, Callable, Literal, Optional, Union

from ._backend import Backend
from ._extension import Connection
from .errors import UsageError
from .live import Source, plain, quoted

POLL = 0.02
"""Seconds between two looks at `PRAGMA data_version`."""


def of(
    backend: Backend, path: str, connect: Optional[Callable[[], sqlite3.Connection]]
) -> Callable[[], Source]:
    """What makes one, in the thread that uses it."""
    if connect is not None:
        given = connect
        return lambda: Asked(given())

    def waits() -> Source:
        opened = backend.waits(path)
        assert isinstance(opened, Connection)
        return Woken(opened)

    if backend.name != "extension":
        raise UsageError(
            "by way of the command nothing opens the file in this process, and a live query reads it here",
            "If your program uses the SQLite of `sqlite3` only, give connect=lambda: sqlite3.connect(PATH)",
            path,
        )
    return waits


class Woken:
    """By the extension, which says which tables."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.sqlite = connection.sqlite

    def touched(self, seconds: float) -> Union[Literal["none", "any"], frozenset[str]]:
        answer = self._connection.wait(seconds)
        self.sqlite = self._connection.sqlite
        if answer["woke"] == "time":
            return "none"
        tables = answer.get("tables")
        return "any" if tables is None else frozenset(tables)

    def close(self) -> None:
        self._connection.close()


class Asked:
    """By `PRAGMA data_version` of each file of a connection that the program made."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.sqlite = connection
        self._versions: object = None

    def touched(self, seconds: float) -> Union[Literal["none", "any"], frozenset[str]]:
        end = time.monotonic() + seconds
        while (versions := self._look()) == self._versions:
            left = end - time.monotonic()
            if left <= 0:
                return "none"
            time.sleep(min(POLL, left))
        self._versions = versions
        return "any"

    def _look(self) -> list[Any]:
        cursor = plain(self.sqlite)
        # Without a file are temporary tables and databases in memory: these no one else can change.
        names = [name for _, name, file in cursor.execute("PRAGMA database_list").fetchall() if file]
        return [cursor.execute(f"PRAGMA {quoted(name)}.data_version").fetchone() for name in names]

    def close(self) -> None:
        self.sqlite.close()
