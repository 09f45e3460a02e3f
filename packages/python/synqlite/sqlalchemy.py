"""Replicas of what a SQLAlchemy engine uses.

    from synqlite.sqlalchemy import init

    replica = init(engine)
    replica.sync("file:///media/stick/notes/")

The engine's driver may bring a SQLite of its own, and two in one process lose each other's locks. Then the
replica works by way of the command.
"""

from __future__ import annotations

import sqlite3
from typing import Any, Optional

from sqlalchemy import Engine

from . import replica as _replica
from ._backend import Name
from .errors import UsageError
from .replica import Replica

__all__ = ["init", "open"]


def open(engine: Engine, **options: Any) -> Replica:
    """As `synqlite.open`."""
    return _replica.open(_path(engine), **{"backend": _backend(engine), **options})


def init(engine: Engine, **options: Any) -> Replica:
    """As `synqlite.init`."""
    return _replica.init(_path(engine), **{"backend": _backend(engine), **options})


def _path(engine: Engine) -> str:
    if engine.dialect.name != "sqlite":
        raise UsageError(f"{engine!r} is no engine of SQLite", "Give one of a file: sqlite:///app.db")
    with engine.connect() as connection:
        (_, _, path), *_ = connection.exec_driver_sql("PRAGMA database_list").all()
    if not path:
        raise UsageError(f"{engine!r} has a database in memory", "Give one of a file: sqlite:///app.db")
    return str(path)


def _backend(engine: Engine) -> Optional[Name]:
    driver = engine.dialect.dbapi
    return None if getattr(driver, "Connection", None) is sqlite3.Connection else "command"
