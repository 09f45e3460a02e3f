"""A replica: a SQLite file that synchronizes.

A `Replica` keeps no connection and no lock. Every method opens the file, does one thing and lets go, so it
may be called from any thread, and the program's own connections are its own.
"""

from __future__ import annotations

import logging
import os
import sqlite3
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from typing import Any, Callable, Literal, Optional, Union
from weakref import WeakSet

from . import _choice, results
from . import _sources as sources
from ._backend import Backend, Direction, Json, Name
from .errors import UsageError
from .live import Difference, Live
from .watch import Watch

Token = Union[str, Callable[[], Optional[str]]]
"""A token of a hub, or what returns one: it is called anew for each attempt."""

Path = Union[str, "os.PathLike[str]"]
Time = Union[str, datetime]
"""A time as `synqlite log` shows it, in UTC, or how long ago, such as "10m"; or the `at` of a log entry."""

Verb = Literal["prefer", "discard", "restore", "accept"]
TIMEOUT = 5.0
"""Seconds, as many as `sqlite3.connect` waits."""

_VERBS = ("prefer", "discard", "restore", "accept")
_log = logging.getLogger("synqlite")


def open(path: Path, *, timeout: float = TIMEOUT, backend: Optional[Name] = None) -> Replica:
    """The replica in a file. It fails if the file is none.

    `timeout` is for how many seconds, rounded up to whole ones, a file is waited for that another connection
    has locked. `backend` says "extension" or "command"; the better one that works here if absent.
    """
    replica = Replica(path, _choice.choose(backend, timeout))
    replica.status()
    return replica


def init(
    path: Path,
    *,
    policies: Optional[Mapping[str, str]] = None,
    history: bool = False,
    name: Optional[str] = None,
    timeout: float = TIMEOUT,
    backend: Optional[Name] = None,
) -> Replica:
    """Makes a SQLite file a replica. Its tables and rows stay as they are; once more, it takes in new tables.

    `history` keeps every change for `Replica.log`, not only the latest of each cell. What the program should
    look at, such as columns that look like references, is logged to the logger `synqlite`. `name` is what people
    read where it says who wrote what; the machine's if absent.
    """
    chosen = _choice.choose(backend, timeout)
    replica = Replica(path, chosen)
    said = {key: str(value) for key, value in (policies or {}).items()}
    answer = chosen.init(replica.path, said, history, name)
    for note in answer.get("notes", ()):
        _log.warning("%s: %s", replica.path, note)
    return replica


def clone(
    remote: Path,
    path: Path,
    *,
    token: Optional[str] = None,
    key_file: Optional[Path] = None,
    name: Optional[str] = None,
    timeout: float = TIMEOUT,
    backend: Optional[Name] = None,
) -> Replica:
    """Makes a new replica, in a file that must not exist, of what a remote holds; that becomes its `origin`.

    A token is kept in the file, which becomes its owner's alone. One in the environment variable
    SYNQLITE_TOKEN is used and not kept.
    """
    chosen = _choice.choose(backend, timeout)
    replica = Replica(path, chosen)
    chosen.clone(os.fspath(remote), replica.path, token, _path(key_file), name)
    return replica


class Replica:
    """Made by `open`, `init` or `clone`. As a context manager it stops at its end what it began."""

    def __init__(self, path: Path, backend: Backend) -> None:
        self._path = os.fsdecode(os.path.abspath(path))
        self._backend = backend
        self._watches: WeakSet[Union[Watch, Live]] = WeakSet()

    def __repr__(self) -> str:
        return f"<synqlite.Replica {self._path!r} by {self.backend}>"

    def __enter__(self) -> Replica:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stops the watches and live queries that it began. Nothing else is open."""
        for watch in list(self._watches):
            watch.stop()

    @property
    def path(self) -> str:
        """The file."""
        return self._path

    @property
    def backend(self) -> Name:
        """By what: the "extension", in the SQLite of `sqlite3`, or the "command", a process for each call."""
        return self._backend.name

    def sync(
        self,
        remote: Optional[Path] = None,
        *,
        token: Optional[Token] = None,
        key_file: Optional[Path] = None,
        whole: bool = False,
        force: bool = False,
    ) -> results.SyncResult:
        """Pulls, then pushes. The remote is a name, a path or a URL; `origin` if absent.

        `whole` merges in one transaction however much comes. `force` merges changes that are stamped more
        than five minutes ahead of this machine's clock.
        """
        return self._exchange("sync", remote, token, key_file, whole, force)

    def push(
        self,
        remote: Optional[Path] = None,
        *,
        token: Optional[Token] = None,
        key_file: Optional[Path] = None,
        whole: bool = False,
        force: bool = False,
    ) -> results.SyncResult:
        """Sends local changes; with the same arguments as `sync`."""
        return self._exchange("push", remote, token, key_file, whole, force)

    def pull(
        self,
        remote: Optional[Path] = None,
        *,
        token: Optional[Token] = None,
        key_file: Optional[Path] = None,
        whole: bool = False,
        force: bool = False,
    ) -> results.SyncResult:
        """Fetches what the remote has and merges it; with the same arguments as `sync`."""
        return self._exchange("pull", remote, token, key_file, whole, force)

    def fold(self) -> results.Folded:
        """Stamps what was written since the last time. A sync does it by itself."""
        return results.read(results.Folded, self._backend.fold(self._path))

    def status(self) -> results.Status:
        """What waits to be sent, the last exchange with each remote, how many conflicts are open."""
        return results.read(results.Status, self._backend.status(self._path))

    def digest(self) -> results.Digest:
        """Equal on two replicas if and only if they show the same data."""
        return results.read(results.Digest, self._backend.digest(self._path))

    def verify(self, full: bool = False) -> results.Verification:
        """Checks metadata, tables, constraints; with `full` also what every row shows, which takes longer."""
        return results.read(results.Verification, self._backend.verify(self._path, full))

    def policies(self) -> dict[str, str]:
        """The policies in force, by key."""
        return _policies(self._backend.policies(self._path))

    def set_policy(self, key: str, value: str) -> dict[str, str]:
        """Sets one, on all sites once they have synchronized; returns those in force."""
        return _policies(self._backend.set_policy(self._path, key, value))

    def remotes(self) -> tuple[results.Remote, ...]:
        """The named remotes."""
        return _remotes(self._backend.remotes(self._path))

    def add_remote(
        self,
        name: str,
        url: Path,
        *,
        token: Optional[str] = None,
        key_file: Optional[Path] = None,
    ) -> tuple[results.Remote, ...]:
        """Adds one. A token is kept in the file, which becomes its owner's alone; of a key only the path."""
        answer = self._backend.add_remote(self._path, name, os.fspath(url), token, _path(key_file))
        return _remotes(answer)

    def remove_remote(self, name: str) -> tuple[results.Remote, ...]:
        """Removes one; what it refers to stays as it is."""
        return _remotes(self._backend.remove_remote(self._path, name))

    def conflicts(self) -> tuple[results.Conflict, ...]:
        """The open records: rows that do not show what was written."""
        answer = self._backend.conflicts(self._path, False)
        return tuple(results.read(results.Conflict, each) for each in answer["conflicts"])

    def closed_conflicts(self) -> tuple[results.ClosedConflict, ...]:
        """The records that are over, the latest first; 1,000 at most."""
        answer = self._backend.conflicts(self._path, True)
        return tuple(results.read(results.ClosedConflict, each) for each in answer["closed"])

    def settle(self, id: str, verb: Verb) -> results.Settled:
        """Settles a record, on all sites once they have synchronized; the first digits of its id will do.

        "prefer" gives the row what it asked for. "discard" deletes the hidden row. "restore" brings back the
        deleted row that it refers to. "accept" takes what is shown for what was meant.
        """
        if verb not in _VERBS:
            raise UsageError(f"a conflict cannot be settled by {verb!r}", f"Say one of {', '.join(_VERBS)}")
        return results.read(results.Settled, self._backend.settle(self._path, id, verb))

    def log(self, limit: int = 100) -> tuple[results.LogEntry, ...]:
        """The latest changes, newest first: who wrote what, and when."""
        answer = self._backend.log(self._path, _count(limit))
        return tuple(results.read(results.LogEntry, each) for each in answer["entries"])

    def undo(
        self,
        *,
        table: Optional[str] = None,
        row: Union[None, int, str] = None,
        since: Optional[Time] = None,
        until: Optional[Time] = None,
        at: Optional[Time] = None,
        dry_run: bool = False,
    ) -> results.Undone:
        """Takes back what was written on this site, as far as nobody has written since; `left` has the rest.

        `since` and `until` name a span of time, `at` just one millisecond. `row`, with its `table`, is a
        primary key as SQL writes it; without a time its latest change is meant. `dry_run` only tells what
        would be done.
        """
        if isinstance(row, bool):
            raise UsageError(f"{row} is no key of a row", "Give a number, or the key as SQL writes it")
        times = {key: _time(time) for key, time in (("since", since), ("until", until), ("at", at))}
        said = {**times, "table": table, "row": row}
        selection = {key: value for key, value in said.items() if value is not None}
        return results.read(results.Undone, self._backend.undo(self._path, selection, dry_run))

    def changes(self, token: Optional[str] = None, limit: Optional[int] = None) -> results.Changes:
        """The rows that show something else than at the answer that `token` is of, whoever changed them; all
        rows without one. It folds first, so that what any program has committed is among them.

        After `limit` rows it stops as soon as it can go on from there; `more` says that it did.
        """
        most = None if limit is None else _count(limit)
        return results.read(results.Changes, self._backend.changes(self._path, token, most))

    def live(
        self,
        sql: str,
        parameters: Union[Sequence[Any], Mapping[str, Any]] = (),
        *,
        on_change: Callable[[Difference], object],
        on_error: Optional[Callable[[Exception], object]] = None,
        key: Union[None, str, Sequence[str]] = None,
        connect: Optional[Callable[[], sqlite3.Connection]] = None,
    ) -> Live:
        """Runs a query now and each time that a table it reads changed, whoever changed it, in a thread of its
        own. `on_change` gets what is different in its rows, first all of them. See `Live`.

        `key` names the columns that tell a row from others; with them a row that was changed is told as such, not
        as one that went and one that came. `connect` opens the database, where the package does not. What it has
        attached counts too; a query of a temporary table or of one in memory is refused, and a statement that writes.
        """
        live = Live(
            sources.of(self._backend, self._path, connect),
            sql,
            parameters,
            key=(key,) if isinstance(key, str) else tuple(key or ()),
            name=self._path,
            on_change=on_change,
            on_error=on_error,
        )
        self._watches.add(live)
        return live

    def watch(
        self,
        remote: Optional[Path] = None,
        *,
        interval: float = 5.0,
        token: Optional[Token] = None,
        on_sync: Optional[Callable[[results.SyncResult], object]] = None,
        on_change: Optional[Callable[[], object]] = None,
        on_error: Optional[Callable[[Exception], object]] = None,
    ) -> Watch:
        """Synchronizes in a thread: at once, when a program has committed or a hub has something new, and each
        `interval` seconds.

        `on_sync` and `on_error` are called in that thread after each round, `on_change` after a round since which
        rows may show something else: also after one that fails, which may have merged before. See `Watch`.
        """
        watch = Watch(
            sync=lambda asked: self.sync(remote, token=asked),
            status=self.status,
            waits=lambda: self._backend.waits(self._path),
            token=lambda: _ask(token),
            remote=remote,
            name=self._path,
            interval=interval,
            on_sync=on_sync,
            on_change=on_change,
            on_error=on_error,
        )
        self._watches.add(watch)
        return watch

    def _exchange(
        self,
        direction: Direction,
        remote: Optional[Path],
        token: Optional[Token],
        key_file: Optional[Path],
        whole: bool,
        force: bool,
    ) -> results.SyncResult:
        named = None if remote is None else os.fspath(remote)
        answer = self._backend.exchange(
            self._path, direction, named, _ask(token), _path(key_file), whole, force
        )
        return results.read(results.SyncResult, answer)


def _ask(token: Optional[Token]) -> Optional[str]:
    found = token() if callable(token) else token
    if not isinstance(found, (str, type(None))):
        hint = "Give what `synqlite token create` printed"
        raise UsageError(f"a token is text, and this is {type(found).__name__}", hint)
    return found or None


def _count(limit: int) -> int:
    if not isinstance(limit, int) or not 0 <= limit < 2**63:
        raise UsageError(f"{limit!r} is no limit", "Give a whole number, 0 or more")
    return limit


def _time(time: Optional[Time]) -> Optional[str]:
    if isinstance(time, (str, type(None))):
        return time
    if not isinstance(time, datetime):
        hint = 'Give a datetime, or how long ago it was as text, such as "10m"'
        raise UsageError(f"{time!r} is no time", hint)
    return time.astimezone(timezone.utc).isoformat(" ", "milliseconds").partition("+")[0]


def _path(path: Optional[Path]) -> Optional[str]:
    return None if path is None else os.path.abspath(path)


def _policies(answer: Json) -> dict[str, str]:
    return dict(answer["policies"])


def _remotes(answer: Json) -> tuple[results.Remote, ...]:
    return tuple(results.read(results.Remote, each) for each in answer["remotes"])
