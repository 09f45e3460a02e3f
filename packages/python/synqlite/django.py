"""Replicas of what Django uses.

    from synqlite.django import init

    replica = init()
    replica.sync("file:///media/stick/notes/")

Run `init` once more after migrations that make tables. Django may use a SQLite of its own in place of that of
`sqlite3`, and two in one process lose each other's locks. Then the replica works by way of the command.
"""

from __future__ import annotations

import sqlite3
from typing import Any, Optional

from django.db import connections

from . import replica as _replica
from ._backend import Name
from .errors import UsageError
from .replica import Replica

__all__ = ["init", "open"]


def open(using: str = "default", **options: Any) -> Replica:
    """As `synqlite.open`, of the database of this alias."""
    return _replica.open(_path(using), **{"backend": _backend(using), **options})


def init(using: str = "default", **options: Any) -> Replica:
    """As `synqlite.init`, of the database of this alias."""
    return _replica.init(_path(using), **{"backend": _backend(using), **options})


def _path(using: str) -> str:
    connection = connections[using]
    if connection.vendor != "sqlite":
        raise UsageError(f"{using} is no database of SQLite", "Name one whose engine is SQLite")
    with connection.cursor() as cursor:
        (_, _, path), *_ = cursor.execute("PRAGMA database_list").fetchall()
    if not path:
        raise UsageError(f"{using} is a database in memory", "Name one that is a file")
    return str(path)


def _backend(using: str) -> Optional[Name]:
    return None if connections[using].Database.Connection is sqlite3.Connection else "command"
