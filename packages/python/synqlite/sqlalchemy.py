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

try:
    from sqlalchemy import Connection, Engine
    from sqlalchemy.exc import DBAPIError, MissingGreenlet
    from sqlalchemy.orm import Session
except ImportError as e:
    raise ImportError(f"synqlite.sqlalchemy needs SQLAlchemy 2.0 or later: {e}") from e

from . import replica as _replica
from ._backend import Name
from .errors import UsageError
from .replica import Replica

__all__ = ["init", "open"]


def open(engine: Engine, **options: Any) -> Replica:
    """As `synqlite.open`."""
    _check(engine)
    return _replica.open(_path(engine), **{"backend": _backend(engine), **options})


def init(engine: Engine, **options: Any) -> Replica:
    """As `synqlite.init`."""
    _check(engine)
    return _replica.init(_path(engine), **{"backend": _backend(engine), **options})


_ASYNC = "With asyncio pass the engine of a connection: await connection.run_sync(lambda c: init(c.engine))"


def _check(engine: object) -> None:
    if isinstance(engine, Engine):
        return
    if any(hasattr(engine, name) for name in ("sync_engine", "sync_connection", "sync_session")):
        hint = _ASYNC
    elif isinstance(engine, Connection):
        hint = "Pass its engine: init(connection.engine)"
    elif isinstance(engine, Session):
        hint = "Pass what it is bound to: init(session.get_bind())"
    else:
        hint = 'Pass one of a file: init(create_engine("sqlite:///app.db"))'
    raise UsageError(f"this is no engine of SQLAlchemy: {type(engine).__name__}", hint)


def _path(engine: Engine) -> str:
    if engine.dialect.name != "sqlite":
        raise UsageError(f"{engine!r} is no engine of SQLite", "Give one of a file: sqlite:///app.db")
    try:
        with engine.connect() as connection:
            (_, _, path), *_ = connection.exec_driver_sql("PRAGMA database_list").all()
    except (DBAPIError, MissingGreenlet) as e:
        # SQLAlchemy 2.1 wraps it.
        if not isinstance(getattr(e, "orig", e), MissingGreenlet):
            raise
        raise UsageError(f"{engine!r} is of an AsyncEngine", _ASYNC) from e
    if not path:
        raise UsageError(f"{engine!r} has a database in memory", "Give one of a file: sqlite:///app.db")
    return str(path)


def _backend(engine: Engine) -> Optional[Name]:
    driver = engine.dialect.dbapi
    return None if getattr(driver, "Connection", None) is sqlite3.Connection else "command"
