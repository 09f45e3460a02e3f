"""The same for asyncio: each method runs in a thread, so that the event loop goes on.

A task that is cancelled stops waiting; what it had begun is finished all the same, as a whole. Callbacks may be
coroutines: each runs as a task of its own, begun in the order of what they are told.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any, Callable, Optional, Union

from . import live as _live
from . import replica as _replica
from . import results
from . import watch as _watch
from ._backend import Name
from .replica import TIMEOUT, Path, Time, Token, Verb

__all__ = ["Live", "Replica", "Watch", "clone", "init", "open"]


async def open(path: Path, *, timeout: float = TIMEOUT, backend: Optional[Name] = None) -> Replica:
    """As `synqlite.open`."""
    return Replica(await asyncio.to_thread(_replica.open, path, timeout=timeout, backend=backend))


async def init(
    path: Path,
    *,
    policies: Optional[Mapping[str, str]] = None,
    history: bool = False,
    name: Optional[str] = None,
    timeout: float = TIMEOUT,
    backend: Optional[Name] = None,
) -> Replica:
    """As `synqlite.init`."""
    made = await asyncio.to_thread(
        _replica.init, path, policies=policies, history=history, name=name, timeout=timeout, backend=backend
    )
    return Replica(made)


async def clone(
    remote: Path,
    path: Path,
    *,
    token: Optional[str] = None,
    key_file: Optional[Path] = None,
    name: Optional[str] = None,
    timeout: float = TIMEOUT,
    backend: Optional[Name] = None,
) -> Replica:
    """As `synqlite.clone`."""
    made = await asyncio.to_thread(
        _replica.clone,
        remote,
        path,
        token=token,
        key_file=key_file,
        name=name,
        timeout=timeout,
        backend=backend,
    )
    return Replica(made)


class Replica:
    """As `synqlite.Replica`. A token may be a plain callable: it is called in a thread."""

    def __init__(self, replica: _replica.Replica) -> None:
        self._replica = replica

    def __repr__(self) -> str:
        return f"<synqlite.aio.Replica {self.path!r} by {self.backend}>"

    async def __aenter__(self) -> Replica:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        await asyncio.to_thread(self._replica.close)

    @property
    def path(self) -> str:
        return self._replica.path

    @property
    def backend(self) -> Name:
        return self._replica.backend

    async def sync(
        self,
        remote: Optional[Path] = None,
        *,
        token: Optional[Token] = None,
        key_file: Optional[Path] = None,
        whole: bool = False,
        force: bool = False,
    ) -> results.SyncResult:
        return await asyncio.to_thread(
            self._replica.sync, remote, token=token, key_file=key_file, whole=whole, force=force
        )

    async def push(
        self,
        remote: Optional[Path] = None,
        *,
        token: Optional[Token] = None,
        key_file: Optional[Path] = None,
        whole: bool = False,
        force: bool = False,
    ) -> results.SyncResult:
        return await asyncio.to_thread(
            self._replica.push, remote, token=token, key_file=key_file, whole=whole, force=force
        )

    async def pull(
        self,
        remote: Optional[Path] = None,
        *,
        token: Optional[Token] = None,
        key_file: Optional[Path] = None,
        whole: bool = False,
        force: bool = False,
    ) -> results.SyncResult:
        return await asyncio.to_thread(
            self._replica.pull, remote, token=token, key_file=key_file, whole=whole, force=force
        )

    async def fold(self) -> results.Folded:
        return await asyncio.to_thread(self._replica.fold)

    async def status(self) -> results.Status:
        return await asyncio.to_thread(self._replica.status)

    async def digest(self) -> results.Digest:
        return await asyncio.to_thread(self._replica.digest)

    async def verify(self, full: bool = False) -> results.Verification:
        return await asyncio.to_thread(self._replica.verify, full)

    async def policies(self) -> dict[str, str]:
        return await asyncio.to_thread(self._replica.policies)

    async def set_policy(self, key: str, value: str) -> dict[str, str]:
        return await asyncio.to_thread(self._replica.set_policy, key, value)

    async def remotes(self) -> tuple[results.Remote, ...]:
        return await asyncio.to_thread(self._replica.remotes)

    async def add_remote(
        self, name: str, url: Path, *, token: Optional[str] = None, key_file: Optional[Path] = None
    ) -> tuple[results.Remote, ...]:
        return await asyncio.to_thread(self._replica.add_remote, name, url, token=token, key_file=key_file)

    async def remove_remote(self, name: str) -> tuple[results.Remote, ...]:
        return await asyncio.to_thread(self._replica.remove_remote, name)

    async def conflicts(self) -> tuple[results.Conflict, ...]:
        return await asyncio.to_thread(self._replica.conflicts)

    async def closed_conflicts(self) -> tuple[results.ClosedConflict, ...]:
        return await asyncio.to_thread(self._replica.closed_conflicts)

    async def settle(self, id: str, verb: Verb) -> results.Settled:
        return await asyncio.to_thread(self._replica.settle, id, verb)

    async def log(self, limit: int = 100) -> tuple[results.LogEntry, ...]:
        return await asyncio.to_thread(self._replica.log, limit)

    async def undo(
        self,
        *,
        table: Optional[str] = None,
        row: Union[None, int, str] = None,
        since: Optional[Time] = None,
        until: Optional[Time] = None,
        at: Optional[Time] = None,
        dry_run: bool = False,
    ) -> results.Undone:
        return await asyncio.to_thread(
            self._replica.undo, table=table, row=row, since=since, until=until, at=at, dry_run=dry_run
        )

    async def changes(self, token: Optional[str] = None, limit: Optional[int] = None) -> results.Changes:
        return await asyncio.to_thread(self._replica.changes, token, limit)

    def live(
        self,
        sql: str,
        parameters: _live.Parameters = (),
        *,
        on_change: Callable[[_live.Difference], object],
        on_error: Optional[Callable[[Exception], object]] = None,
        key: Union[None, str, Sequence[str]] = None,
        connect: Optional[Callable[[], sqlite3.Connection]] = None,
    ) -> Live:
        """As `synqlite.Replica.live`, at once and without waiting; callbacks run in the event loop."""
        loop = asyncio.get_running_loop()
        told = _in(loop, on_change)
        assert told is not None
        return Live(
            self._replica.live(
                sql, parameters, on_change=told, on_error=_in(loop, on_error), key=key, connect=connect
            )
        )

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
        """As `synqlite.Replica.watch`, at once and without waiting; callbacks run in the event loop."""
        loop = asyncio.get_running_loop()
        return Watch(
            self._replica.watch(
                remote,
                interval=interval,
                token=token,
                on_sync=_in(loop, on_sync),
                on_change=_in(loop, on_change),
                on_error=_in(loop, on_error),
            )
        )


class Live:
    """As `synqlite.Live`, with `async with`."""

    def __init__(self, live: _live.Live) -> None:
        self._live = live

    async def __aenter__(self) -> Live:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    @property
    def rows(self) -> tuple[_live.Row, ...]:
        return self._live.rows

    @property
    def error(self) -> Optional[Exception]:
        return self._live.error

    async def stop(self) -> None:
        await _end(self._live)


class Watch:
    """As `synqlite.Watch`, with `async with`."""

    def __init__(self, watch: _watch.Watch) -> None:
        self._watch = watch

    async def __aenter__(self) -> Watch:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    @property
    def state(self) -> _watch.WatchState:
        return self._watch.state

    async def stop(self) -> None:
        await _end(self._watch)


async def _end(what: Union[_live.Live, _watch.Watch]) -> None:
    # Who is cancelled again here waits no longer, and it ends all the same.
    what.begin_to_stop()
    await asyncio.to_thread(what.stop)


_tasks: set[asyncio.Task[object]] = set()
"""What nobody else holds would be forgotten in its midst."""


def _in(
    loop: asyncio.AbstractEventLoop, callback: Optional[Callable[..., object]]
) -> Optional[Callable[..., object]]:
    """The callback, called in the loop. Once that is closed nobody is there to be told."""

    def run(*what: object) -> None:
        assert callback is not None
        outcome = callback(*what)
        if asyncio.iscoroutine(outcome):
            task = loop.create_task(outcome)
            _tasks.add(task)
            task.add_done_callback(_tasks.discard)

    def call(*what: object) -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(run, *what)

    return None if callback is None else call
