"""Replicas of SQLite files: edited offline at any number of sites, merged later.

`open`, `init` and `clone` return a `Replica`. Programs go on reading and writing the file with `sqlite3` as
before; this package is needed only to synchronize. `synqlite.aio` has the same for asyncio.
"""

from __future__ import annotations

from .errors import (
    ConflictError,
    DamagedError,
    DefectError,
    Error,
    LockedError,
    NetworkError,
    NotInstalledError,
    RefusedError,
    UsageError,
)
from .live import Difference, Live
from .replica import Replica, Token, clone, init, open
from .results import (
    ChangedRow,
    Changes,
    ClosedConflict,
    Conflict,
    Decision,
    Digest,
    Folded,
    Follower,
    Kept,
    Left,
    LogEntry,
    Merged,
    Pending,
    Remote,
    RemoteStatus,
    Rival,
    SetAside,
    Settled,
    Skipped,
    Stamp,
    Status,
    SyncResult,
    Taken,
    Traffic,
    Undone,
    Value,
    Verification,
    Written,
)
from .watch import Watch, WatchState

__version__ = "0.1.0"

__all__ = [
    "ChangedRow",
    "Changes",
    "ClosedConflict",
    "Conflict",
    "ConflictError",
    "DamagedError",
    "Decision",
    "DefectError",
    "Difference",
    "Digest",
    "Error",
    "Folded",
    "Follower",
    "Kept",
    "Left",
    "Live",
    "LockedError",
    "LogEntry",
    "Merged",
    "NetworkError",
    "NotInstalledError",
    "Pending",
    "RefusedError",
    "Remote",
    "RemoteStatus",
    "Replica",
    "Rival",
    "SetAside",
    "Settled",
    "Skipped",
    "Stamp",
    "Status",
    "SyncResult",
    "Taken",
    "Token",
    "Traffic",
    "Undone",
    "UsageError",
    "Value",
    "Verification",
    "Watch",
    "WatchState",
    "Written",
    "clone",
    "init",
    "open",
]
