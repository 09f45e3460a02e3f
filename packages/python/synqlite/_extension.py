"""The engine as an extension of the SQLite that `sqlite3` uses, in this process.

A connection of its own for each call: the program's connections stay as they are, and any thread may call.
What it opens is by the same SQLite library as theirs, so no lock is lost.
"""

from __future__ import annotations

import json
import math
import os
import re
import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Optional, Union

from ._backend import Direction, Json, Name
from .errors import Error, RefusedError, of_document

_MEMORY = ":memory:"


def why_not(file: Path) -> Optional[str]:
    """What keeps this Python from loading the extension."""
    if not hasattr(sqlite3.Connection, "enable_load_extension"):
        return "the sqlite3 of this Python cannot load extensions"
    try:
        _connect(_MEMORY, file, 0).close()
    except sqlite3.Error as e:
        return str(e)
    return None


class Extension:
    """Calls a function of the extension for each call."""

    name: Name = "extension"

    def __init__(self, file: Path, timeout: float) -> None:
        self._file = file
        self._timeout = timeout
        self._wait = math.ceil(timeout)

    def init(self, path: str, policies: dict[str, str], history: bool, name: Optional[str]) -> Json:
        options = {"policies": policies, "history": history, **_given(name=name)}
        return self._call(path, "init", options=options)

    def clone(
        self, remote: str, path: str, token: Optional[str], key_file: Optional[str], name: Optional[str]
    ) -> Json:
        options = _given(token=token, key_file=key_file, name=name)
        return self._call(_MEMORY, "clone", remote, path, options=options)

    def exchange(
        self,
        path: str,
        direction: Direction,
        remote: Optional[str],
        token: Optional[str],
        key_file: Optional[str],
        whole: bool,
        force: bool,
    ) -> Json:
        options = {**_given(token=token, key_file=key_file), "whole": whole, "force": force}
        return self._call(path, direction, remote, options=options)

    def fold(self, path: str) -> Json:
        return self._call(path, "fold")

    def status(self, path: str) -> Json:
        return self._call(path, "status")

    def digest(self, path: str) -> Json:
        return self._call(path, "digest")

    def verify(self, path: str, full: bool) -> Json:
        return self._call(path, "verify", int(full))

    def policies(self, path: str) -> Json:
        return self._call(path, "policy")

    def set_policy(self, path: str, key: str, value: str) -> Json:
        return self._call(path, "policy", key, value)

    def remotes(self, path: str) -> Json:
        return self._call(path, "remotes")

    def add_remote(
        self, path: str, name: str, url: str, token: Optional[str], key_file: Optional[str]
    ) -> Json:
        return self._call(path, "remote_add", name, url, options=_given(token=token, key_file=key_file))

    def remove_remote(self, path: str, name: str) -> Json:
        return self._call(path, "remote_remove", name)

    def conflicts(self, path: str, closed: bool) -> Json:
        return self._call(path, "conflicts", int(closed))

    def settle(self, path: str, id: str, verb: str) -> Json:
        return self._call(path, "settle", id, verb)

    def log(self, path: str, limit: int) -> Json:
        return self._call(path, "log", limit)

    def undo(self, path: str, selection: Mapping[str, Union[int, str]], dry_run: bool) -> Json:
        return self._call(path, "undo", options={**selection, "dry_run": dry_run})

    def changes(self, path: str, token: Optional[str], limit: Optional[int]) -> Json:
        return self._call(path, "changes", token, limit)

    def waits(self, path: str) -> Connection:
        return Connection(path, self._file, self._timeout)

    def _call(
        self, path: str, function: str, *arguments: Union[None, int, str], options: Optional[Json] = None
    ) -> Json:
        given = [*arguments, json.dumps({"wait": self._wait, **(options or {})})]
        sql = f"SELECT synqlite_{function}({', '.join('?' * len(given))})"
        try:
            connection = _connect(path, self._file, self._timeout)
        except sqlite3.Error as e:
            raise _error(e, path) from e
        try:
            answer: Json = json.loads(connection.execute(sql, given).fetchone()[0])
        except sqlite3.Error as e:
            raise _error(e, path, connection) from e
        finally:
            connection.close()
        return answer


class Connection:
    """Waits on a connection that stays open; a query can be run on it between two waits."""

    def __init__(self, path: str, file: Path, timeout: float) -> None:
        self._path, self._file, self._timeout = path, file, timeout
        self._inode, self.sqlite = self._open()

    def wait(self, seconds: float, remote: Optional[str] = None, token: Optional[str] = None) -> Json:
        # A file that was replaced has another number, and the old one would never change again.
        if _inode(self._path) != self._inode:
            self.sqlite.close()
            self._inode, self.sqlite = self._open()
        options = json.dumps({"wait": math.ceil(self._timeout), **_given(token=token)})
        try:
            sql = "SELECT synqlite_wait(?, ?, ?)"
            answer: Json = json.loads(self.sqlite.execute(sql, (seconds, remote, options)).fetchone()[0])
        except sqlite3.Error as e:
            raise _error(e, self._path, self.sqlite) from e
        return answer

    def mark(self) -> object:
        if not os.path.exists(self._path):
            return "absent"
        # A file that was replaced must not be asked: SQLite would take the journal of the other for its own.
        if _inode(self._path) != self._inode:
            return None
        # Nobody is waited for: what cannot be read now is no reason to be late.
        self.sqlite.execute("PRAGMA busy_timeout = 0")
        try:
            return self.sqlite.execute("PRAGMA data_version").fetchone()
        except sqlite3.Error:
            return None
        finally:
            self.sqlite.execute(f"PRAGMA busy_timeout = {round(self._timeout * 1000)}")

    def close(self) -> None:
        self.sqlite.close()

    def _open(self) -> tuple[object, sqlite3.Connection]:
        return _inode(self._path), _connect(self._path, self._file, self._timeout)


def _inode(path: str) -> object:
    found = os.stat(path)
    return found.st_dev, found.st_ino


def _uri(path: str) -> str:
    return Path(path).as_uri() + "?mode=rw"


def _connect(path: str, extension: Path, timeout: float) -> sqlite3.Connection:
    if path != _MEMORY and not os.path.isfile(path):
        raise RefusedError(f"there is no database at {path}", "Check the path", path)
    where = path if path == _MEMORY else _uri(path)
    # Without an isolation level `sqlite3` begins no transaction by itself; inside one nothing synchronizes.
    connection = sqlite3.connect(where, timeout, uri=True, isolation_level=None, check_same_thread=False)
    try:
        connection.enable_load_extension(True)
        connection.load_extension(str(extension))
        connection.enable_load_extension(False)
    except BaseException:
        connection.close()
        raise
    return connection


def _given(**options: Optional[str]) -> Json:
    return {name: value for name, value in options.items() if value is not None}


def _error(e: sqlite3.Error, path: str, connection: Optional[sqlite3.Connection] = None) -> Error:
    """What failed. Errors of the extension are `synqlite: CODE: WHAT. HINT`; others are SQLite's own."""
    text = str(e)
    told = re.fullmatch(r"synqlite: (\w+): (.*)", text, re.DOTALL)
    code, text = told.groups() if told else ("refused", text)
    if told and connection and (document := _document(connection, text)):
        if str(document.get("object")).startswith("s3://"):
            document["hint"] = 'Say backend="command": the extension reaches no buckets'
        return of_document(document)
    what, _, hint = text.rpartition(". ")
    about = path if path != _MEMORY and path in text else None
    return of_document(
        {"code": code, "message": what or hint, "hint": hint if what else None, "object": about}
    )


def _document(connection: sqlite3.Connection, text: str) -> Optional[Json]:
    """The failure of this text, in parts. None if the extension is of an earlier release."""
    try:
        (told,) = connection.execute("SELECT synqlite_failure()").fetchone()
    except sqlite3.Error:
        return None
    error: Json = json.loads(told)["error"] if told else {}
    parts = [part for part in (error.get("message"), error.get("hint")) if part]
    return error if ". ".join(parts) == text else None
