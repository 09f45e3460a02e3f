"""What the methods of a replica return.

The fields are those of the command's `--json`, by the same names, so that its documentation is theirs. Keys
that are not known here are passed over and those with a default may be absent: a newer or older extension or
command serves the same program.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from datetime import datetime, timezone
from functools import lru_cache
from typing import Any, Optional, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from .errors import DefectError

Value = Union[None, int, float, str]
"""A value of a column. A blob is the text `x'…'` of its hexadecimal digits."""


@dataclass(frozen=True)
class Traffic:
    """What crossed to a remote, or from one."""

    rows: int
    columns: int
    bytes: int


@dataclass(frozen=True)
class Merged:
    """How many visible rows a merge changed."""

    inserted: int
    updated: int
    deleted: int


@dataclass(frozen=True)
class Decision:
    """What a merge decided about one row that was written apart."""

    table: str
    row: str
    what: str
    name: Optional[str] = None


@dataclass(frozen=True)
class SetAside:
    """A batch that cannot be merged. It stays where it is, and is tried again at each pull."""

    name: str
    site: str
    table: str
    why: str
    hint: str
    remote: Optional[str] = None


@dataclass(frozen=True)
class SyncResult:
    """What a sync, push or pull did. `conflicts` counts the records that are open after it.

    `tables` has for each table what `merged` has for all; one in which nothing changed is not among them. `kept`
    counts values that came for tables and columns which are not here. `paused` are tables that are not replicated any
    more, each with the reason.
    """

    sent: Traffic
    received: Traffic
    merged: Merged
    tables: Mapping[str, Merged]
    conflicts: int
    seconds: float
    decisions: tuple[Decision, ...] = ()
    waiting: tuple[str, ...] = ()
    set_aside: tuple[SetAside, ...] = ()
    kept: int = 0
    paused: tuple[Skipped, ...] = ()


@dataclass(frozen=True)
class Written:
    """Who wrote, and when in milliseconds since 1970."""

    site: str
    at_ms: int
    site_name: Optional[str] = None


@dataclass(frozen=True)
class ChangedRow:
    """A row that shows something else.

    `id` is what the row is called here for as long as it exists, whatever its key; `row` is its name for
    people. `change` is "insert", "update" or "delete". `written` is None if nobody wrote to it: it shows something else
    because of what others wrote to other rows. `columns` are those that were written, as far as is known. `former` is
    the number that the row had before a merge gave it the one that it shows, as long as the log tells of it. `exact` has
    literals in SQL of the values that JSON cannot tell from others: blobs, infinity, text that is no UTF-8.
    """

    table: str
    id: str
    row: str
    change: str
    written: Optional[Written] = None
    columns: tuple[str, ...] = ()
    values: Optional[Mapping[str, Value]] = None
    exact: Optional[Mapping[str, str]] = None
    former: Optional[int] = None


@dataclass(frozen=True)
class Changes:
    """What changed. `token` is what to ask with the next time.

    `anew` says that these are all rows, and what was known before is void. `more` says that more have changed
    already.
    """

    changes: tuple[ChangedRow, ...]
    token: str
    anew: bool
    more: bool = False


@dataclass(frozen=True)
class Pending:
    """Changes of a table that are not folded yet."""

    inserted: int
    updated: int
    deleted: int


@dataclass(frozen=True)
class Skipped:
    """A table that is not replicated."""

    name: str
    why: str


@dataclass(frozen=True)
class RemoteStatus:
    """The last exchange with a named remote. `unpushed` counts the folded changes since the last push."""

    name: str
    url: str
    pushed: Optional[datetime]
    pulled: Optional[datetime]
    unpushed: int


@dataclass(frozen=True)
class Kept:
    """Rows for which others wrote to a column that this database does not have, or to a table, where none is named."""

    table: str
    column: Optional[str]
    rows: int


@dataclass(frozen=True)
class Status:
    """Where a replica stands. `unfolded` counts changes that wait for the next sync to be stamped.

    `questions` counts the open conflicts that wait for no answer to another; `decided` closed ones that were
    decided without a question. `uncaptured` names tables that may have been written unnoticed, of which the next
    sync compares all rows.
    """

    site: str
    database: str
    pending: Mapping[str, Pending]
    unfolded: int
    remotes: tuple[RemoteStatus, ...]
    conflicts: int
    arriving: int = 0
    skipped: tuple[Skipped, ...] = ()
    set_aside: tuple[SetAside, ...] = ()
    site_name: Optional[str] = None
    decided: int = 0
    questions: int = 0
    kept: tuple[Kept, ...] = ()
    paused: tuple[Skipped, ...] = ()
    uncaptured: tuple[str, ...] = ()


@dataclass(frozen=True)
class Folded:
    """What a fold stamped."""

    rows: int
    seconds: float
    columns: int = 0
    paused: tuple[Skipped, ...] = ()


@dataclass(frozen=True)
class Digest:
    """Equal on two replicas if and only if they show the same data."""

    digest: str
    tables: Mapping[str, str]


@dataclass(frozen=True)
class Verification:
    """Whether metadata, tables and constraints agree, and what does not."""

    ok: bool
    problems: tuple[str, ...]


@dataclass(frozen=True)
class Remote:
    """A named remote. `token` is "kept" if the replica keeps one; it is never shown."""

    name: str
    url: str
    token: Optional[str] = None
    key_file: Optional[str] = None


@dataclass(frozen=True)
class Stamp:
    """Who wrote, and when: milliseconds since 1970."""

    site: str
    at_ms: int
    site_name: Optional[str] = None


@dataclass(frozen=True)
class Rival:
    """The row that stands in the way of another."""

    shown: Optional[Mapping[str, Value]]
    written: Mapping[str, Stamp]


@dataclass(frozen=True)
class Follower:
    """A record that waits for the answer to another."""

    id: str
    table: str
    row: str
    kind: str
    name: Optional[str] = None


@dataclass(frozen=True)
class Deleted:
    """A deleted row that others need: what it held, and who deleted it. `again`: who inserted it since, if it is
    there and the others refer to its former life."""

    table: str
    row: str
    values: Optional[Mapping[str, Value]] = None
    name: Optional[str] = None
    by: Optional[Stamp] = None
    again: Optional[Stamp] = None


@dataclass(frozen=True)
class Needing:
    """A row for which a deleted one is kept."""

    table: str
    row: str
    name: Optional[str] = None


@dataclass(frozen=True)
class Conflict:
    """A row that does not show what was written, because a declared constraint would break.

    `shown` is None for a hidden row; `displaced` is what was written; `name` is what people know the row by,
    beside its key. `put_behind` says who preferred another row to this one. `deleted` is the deleted row that it is about; where that is the row itself, `needed_by` has
    the first of the `needed` rows for which it is kept. `followers` wait for the answer to this one, as it waits for the one with the id `follows`. Settle it
    with `Replica.settle`.
    """

    id: str
    table: str
    row: str
    kind: str
    shown: Optional[Mapping[str, Value]]
    displaced: Optional[Mapping[str, Value]]
    sites: tuple[Stamp, ...]
    constraint: str = ""
    declared: Optional[str] = None
    winner: Optional[str] = None
    contested: tuple[str, ...] = ()
    written: Optional[Mapping[str, Stamp]] = None
    rival: Optional[Rival] = None
    name: Optional[str] = None
    winner_name: Optional[str] = None
    followers: tuple[Follower, ...] = ()
    put_behind: Optional[Stamp] = None
    deleted: Optional[Deleted] = None
    needed: int = 0
    needed_by: tuple[Needing, ...] = ()
    follows: Optional[str] = None


@dataclass(frozen=True)
class ClosedConflict:
    """A record that is over, and `how` it ended: by a merge, a write, or the verb that settled it.

    `became` says what became of the row, for people to read, where that was seen.
    """

    table: str
    row: str
    kind: str
    what: str
    opened_ms: int
    closed_ms: int
    how: str
    id: Optional[str] = None
    constraint: str = ""
    name: Optional[str] = None
    became: Optional[str] = None


@dataclass(frozen=True)
class Settled:
    """The id of the record that was settled, and how many questions are open still: records that wait for
    the answer to another are none."""

    settled: str
    open: int


@dataclass(frozen=True)
class LogEntry:
    """A change. `columns` has what was written, for people to read: texts stand in quotes."""

    at: datetime
    at_ms: int
    site: str
    table: str
    row: str
    kind: str
    columns: Mapping[str, str]
    site_name: Optional[str] = None
    name: Optional[str] = None


@dataclass(frozen=True)
class Taken:
    """A row of which changes were taken back.

    `change` is what was taken back: the "insert" of a row that is gone, the "delete" of one that is here
    again, or an "update". `columns` are those that got former values, with these.
    """

    table: str
    row: str
    change: str
    columns: Optional[Mapping[str, Value]] = None
    name: Optional[str] = None


@dataclass(frozen=True)
class Left:
    """A change that was left, and `why`.

    `columns` is empty if it is about the whole row; `written` says who has written since, if that is why.
    """

    table: str
    row: str
    columns: tuple[str, ...]
    why: str
    written: Optional[Written] = None


@dataclass(frozen=True)
class Undone:
    """What was taken back, or would be (`dry_run`), and what was left."""

    taken: tuple[Taken, ...]
    left: tuple[Left, ...]
    dry_run: bool


Result = TypeVar("Result")


def read(result: type[Result], document: Mapping[str, Any]) -> Result:
    """A result made of the JSON of an answer."""
    found: dict[str, Any] = {}
    for name, hint, required in _fields(cast(type, result)):
        if name in document:
            found[name] = _value(hint, document[name])
        elif required:
            raise DefectError(
                f"the answer for {result.__name__} has no `{name}`",
                "Use the extension or command of the same version as this package",
            )
    return result(**found)


@lru_cache(maxsize=None)
def _fields(result: type) -> list[tuple[str, Any, bool]]:
    hints = get_type_hints(result)
    required = {f.name for f in fields(result) if f.default is MISSING}
    return [(name, hint, name in required) for name, hint in hints.items()]


def _value(hint: Any, value: Any) -> Any:
    origin, inner = get_origin(hint), get_args(hint)
    if value is None or hint is Value:
        return value
    if origin is Union:
        return _value(inner[0], value)
    if origin is tuple:
        return tuple(_value(inner[0], each) for each in value)
    if origin is Mapping:
        return {key: _value(inner[1], each) for key, each in value.items()}
    if is_dataclass(hint):
        return read(cast(type, hint), value)
    if hint is datetime:
        return datetime.fromisoformat(value).replace(tzinfo=timezone.utc)
    return value
