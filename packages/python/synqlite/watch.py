"""Synchronizing in the background.

A watch goes on until it is stopped, whatever fails: each failure is told, and tried again after a pause that
grows. Nothing that happens in its thread is raised anywhere else, and there is no state in which it waits for
more than the interval, or the longest pause, without trying.
"""

from __future__ import annotations

import logging
import os
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from typing import Any, Optional, Union

from ._backend import Waits
from .errors import NetworkError, UsageError
from .results import Status, SyncResult

SLICE = 0.25
"""Seconds of a wait, after which it looks whether it is to stop."""

PAUSES = (0.2, 30.0)
"""Seconds between two attempts while something fails: they double from the first to the last."""

_log = logging.getLogger("synqlite")


@dataclass(frozen=True)
class WatchState:
    """Where a watch stands.

    `online` says whether the remote could be reached when that was last tried. `pending` counts changes that
    are here and not at the remote. `error` is what the last round failed with, None if it did not.
    """

    online: bool = False
    last_sync: Optional[datetime] = None
    pending: int = 0
    error: Optional[Exception] = None


class Watch:
    """Begun by `Replica.watch`. As a context manager it stops at its end."""

    def __init__(
        self,
        *,
        sync: Callable[[Optional[str]], SyncResult],
        status: Callable[[], Status],
        waits: Callable[[], Waits],
        token: Callable[[], Optional[str]],
        remote: Union[None, str, os.PathLike[str]],
        name: str,
        interval: float,
        on_sync: Optional[Callable[[SyncResult], object]],
        on_change: Optional[Callable[[], object]],
        on_error: Optional[Callable[[Exception], object]],
    ) -> None:
        if not interval > 0:
            raise UsageError(f"an interval of {interval} seconds is none", "Give more than 0")
        self._sync, self._status, self._waits, self._ask = sync, status, waits, token
        self._token: Optional[str] = None
        self._remote = "origin" if remote is None else os.fspath(remote)
        self._name, self._interval = name, interval
        self._on_sync, self._on_change, self._on_error = on_sync, on_change, on_error
        self._state = WatchState()
        self._stop = threading.Event()
        # Whatever it does may be cut off at any point, so it does not keep a program from ending.
        self._thread = threading.Thread(target=self._run, name=f"synqlite watch {name}", daemon=True)
        self._thread.start()

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def state(self) -> WatchState:
        """Where it stands now."""
        return self._state

    def stop(self) -> None:
        """Ends it, after the round that is under way. It may be called twice, and in a callback."""
        self.begin_to_stop()
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def begin_to_stop(self) -> None:
        """Has it end, and does not wait for that."""
        self._stop.set()

    def _run(self) -> None:
        failures = 0
        waits: Optional[Waits] = None
        try:
            while not self._stop.is_set():
                waits = waits or self._begin()
                failures = 0 if self._round(waits, failures) else failures + 1
                self._rest(waits, _pause(failures) if failures else self._interval, failures == 0)
        finally:
            if waits is not None:
                waits.close()

    def _begin(self) -> Optional[Waits]:
        try:
            return self._waits()
        except Exception:  # The round has said why, or the next one will.
            return None

    def _round(self, waits: Optional[Waits], failures: int) -> bool:
        before = _mark(waits)
        try:
            self._token = self._ask()
            result = self._sync(self._token)
        except Exception as e:
            online = self._state.online and not isinstance(e, NetworkError)
            self._state = replace(self._state, online=online, error=e)
            if self._on_error is None:
                _log.warning("%s is not synchronized, after %d attempts: %s", self._name, failures + 1, e)
            else:
                self._tell(self._on_error, e)
            # It may have merged before it failed, and answers nothing: the database tells. What is not known may
            # be a change; but to a file that could not be opened nothing came.
            if waits is not None and (before is None or _mark(waits) != before):
                self._changed()
            return False
        self._state = WatchState(online=True, last_sync=datetime.now(timezone.utc))
        if self._on_sync is not None:
            self._tell(self._on_sync, result)
        merged = result.merged
        if merged.inserted or merged.updated or merged.deleted:
            self._changed()
        return True

    def _changed(self) -> None:
        if self._on_change is not None:
            self._tell(self._on_change)

    def _tell(self, callback: Callable[..., object], *what: object) -> None:
        try:
            callback(*what)
        except BaseException:  # SystemExit too would end the thread, and nobody would know.
            _log.exception("a callback of the watch of %s failed; the watch goes on", self._name)

    def _rest(self, waits: Optional[Waits], pause: float, until_due: bool) -> None:
        """Until it is stopped, the time is over, or there is something to exchange."""
        end = time.monotonic() + pause
        woke: object = "time"
        while (left := end - time.monotonic()) > 0 and not self._stop.is_set():
            try:
                # A wake of which the status could not be told is not over.
                woke = self._wait(waits, min(SLICE, left)) if woke == "time" else woke
                if woke == "time":
                    continue
                status = self._status()
            except Exception:  # Such as a lock; the next round says so, if it still is.
                self._stop.wait(min(SLICE, left))
                continue
            unpushed = (r.unpushed for r in status.remotes if self._remote in (r.name, r.url))
            self._state = replace(self._state, pending=status.unfolded + sum(unpushed))
            if woke == "remote" or (until_due and status.unfolded > 0):
                return
            woke = "time"

    def _wait(self, waits: Optional[Waits], seconds: float) -> object:
        if waits is None:
            self._stop.wait(seconds)
            return "time"
        return waits.wait(seconds, self._remote, self._token)["woke"]


def _mark(waits: Optional[Waits]) -> object:
    try:
        return None if waits is None else waits.mark()
    except Exception:  # Such as a file that has just gone.
        return None


def _pause(failures: int) -> float:
    """Drawn by chance, so that sites that lost a hub together do not come back together."""
    first, longest = PAUSES
    return min(longest, first * 2.0 ** min(failures - 1, 30)) * random.uniform(0.5, 1.0)
