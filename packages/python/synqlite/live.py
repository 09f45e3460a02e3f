"""A query that is run again when what it reads changed, by whatever program or merge.

Between two runs everything may have changed more than once; what is told is the difference between the rows
of the two. A failure does not end it: it is told, and the query runs again at the next change.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Callable, Literal, Optional, Protocol, Union

from .errors import RefusedError, UsageError
from .watch import SLICE

Row = tuple[Any, ...]
Parameters = Union[Sequence[Any], Mapping[str, Any]]

_log = logging.getLogger("synqlite")
_READ = 20  # SQLITE_READ
_WRITES = (18, 9, 23, 22, 32, 24, 25)  # INSERT, DELETE, UPDATE, TRANSACTION, SAVEPOINT, ATTACH, DETACH
_OK, _REFUSE = 0, 1


class Source(Protocol):
    """A connection, and when it is worth asking again."""

    sqlite: sqlite3.Connection

    def touched(self, seconds: float) -> Union[Literal["none", "any"], frozenset[str]]:
        """Waits so long at most. The tables that may have changed; "none" if nothing was committed."""

    def close(self) -> None: ...


def plain(connection: sqlite3.Connection) -> sqlite3.Cursor:
    """A cursor whose rows are tuples, whatever the program wants its own to be."""
    cursor = connection.cursor()
    cursor.row_factory = None
    return cursor


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


@dataclass(frozen=True)
class Difference:
    """What is different in the rows of a query. `rows` are all of them, in its order.

    Of a row in `changed` there are the former and the present one, which have the same key. Without a key each is one
    that was removed and one that was added.
    """

    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    added: tuple[Row, ...]
    changed: tuple[tuple[Row, Row], ...]
    removed: tuple[Row, ...]


class Live:
    """Begun by `Replica.live`. As a context manager it stops at its end."""

    def __init__(
        self,
        source: Callable[[], Source],
        sql: str,
        parameters: Parameters,
        *,
        key: tuple[str, ...],
        name: str,
        on_change: Callable[[Difference], object],
        on_error: Optional[Callable[[Exception], object]],
    ) -> None:
        self._source, self._sql, self._parameters = source, sql, parameters
        self._key, self._name = key, name
        self._on_change, self._on_error = on_change, on_error
        self._reads: set[str] = set()
        self._writes = False
        self._last: tuple[tuple[str, ...], tuple[Row, ...]] = ((), ())
        self._told = False
        self._error: Optional[Exception] = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"synqlite live {name}", daemon=True)
        self._thread.start()

    def __enter__(self) -> Live:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def rows(self) -> tuple[Row, ...]:
        """The rows as they were told last."""
        return self._last[1]

    @property
    def error(self) -> Optional[Exception]:
        """What the last run failed with; None if it did not."""
        return self._error

    def stop(self) -> None:
        """Ends it. It may be called twice, and in a callback."""
        self.begin_to_stop()
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def begin_to_stop(self) -> None:
        """Has it end, and does not wait for that."""
        self._stop.set()

    def _run(self) -> None:
        source: Optional[Source] = None
        try:
            while not self._stop.is_set():
                try:
                    source = source or self._source()
                    touched = source.touched(SLICE)
                    if touched == "none" and self._told:
                        continue
                    if self._error or isinstance(touched, str) or not self._reads.isdisjoint(touched):
                        self._ask(source.sqlite)
                    self._error = None
                except Exception as e:
                    self._failed(e)
        finally:
            if source is not None:
                source.close()

    def _ask(self, connection: sqlite3.Connection) -> None:
        cursor = plain(connection)
        # Also because a virtual table that is named for the first time makes statements ready that write: the
        # authorizer below would take them for ours.
        program = cursor.execute("EXPLAIN " + self._sql, self._parameters).fetchall()
        _refuse_what_is_in_no_file(cursor, program)
        # SQLite says what a statement reads when it is made ready, which a new authorizer has it do again.
        self._reads.clear()
        self._writes = False
        connection.set_authorizer(self._authorize)
        try:
            rows: tuple[Row, ...] = tuple(cursor.execute(self._sql, self._parameters).fetchall())
        except sqlite3.DatabaseError as e:
            if self._writes:
                raise UsageError("the statement of a live query writes", "Give a SELECT") from e
            raise
        finally:
            connection.set_authorizer(None)
        if cursor.description is None:
            raise UsageError("the statement of a live query returns no rows", "Give a SELECT")
        columns = tuple(column[0] for column in cursor.description)
        if missing := [name for name in self._key if name not in columns]:
            raise UsageError(f"the query has no column {missing[0]}", "Name columns of its result as the key")
        before = self._last[1] if self._last[0] == columns else ()
        difference = _difference(columns, before, rows, self._key)
        if self._told and before == rows:
            return
        self._last, self._told = (columns, rows), True
        try:
            self._on_change(difference)
        except BaseException:  # SystemExit too would end the thread, and nobody would know.
            _log.exception("a callback of a live query of %s failed; it goes on", self._name)

    def _authorize(self, action: int, first: Optional[str], *_: object) -> int:
        if action == _READ and first is not None:
            self._reads.add(first)
        if action in _WRITES:
            self._writes = True
            return _REFUSE
        return _OK

    def _failed(self, e: Exception) -> None:
        # The same failure again is no news.
        news = str(e) != str(self._error)
        self._error = e
        if news:
            try:
                if self._on_error is None:
                    _log.warning("a live query of %s failed: %s", self._name, e)
                else:
                    self._on_error(e)
            except BaseException:
                _log.exception("a callback of a live query of %s failed; it goes on", self._name)
        self._stop.wait(SLICE)


def _refuse_what_is_in_no_file(cursor: sqlite3.Cursor, program: list[Row]) -> None:
    """Of a temporary table or one in memory nobody tells when it changes.

    The query's program for SQLite's machine says which databases and tables it reads, those of views too.
    """
    used = {p1 for _, step, p1, *_ in program if step == "Transaction"}
    for number, name, file in cursor.execute("PRAGMA database_list").fetchall():
        if file or number not in used:
            continue
        pages = [p2 for _, step, _, p2, p3, *_ in program if (step, p3) == ("OpenRead", number)]
        sql = f"SELECT tbl_name FROM {quoted(name)}.sqlite_master WHERE rootpage = ?"
        table = cursor.execute(sql, pages[:1]).fetchone() if pages else None
        read = f"{name}.{table[0]}" if table else f"a table of {name}"
        raise RefusedError(
            f"the query reads {read}, which is in no file: nobody can tell when it changes",
            "Keep its rows in an ordinary table of a file",
        )


def _difference(
    columns: tuple[str, ...], before: tuple[Row, ...], after: tuple[Row, ...], key: tuple[str, ...]
) -> Difference:
    came, went = Counter(after), Counter(before)
    added, removed = list((came - went).elements()), list((went - came).elements())
    changed: list[tuple[Row, Row]] = []
    if key:
        at = [columns.index(name) for name in key]
        former: dict[Row, list[Row]] = {}
        for row in removed:
            former.setdefault(tuple(row[i] for i in at), []).append(row)
        new = []
        for row in added:
            same = former.get(tuple(row[i] for i in at))
            if same:
                changed.append((same.pop(0), row))
            else:
                new.append(row)
        added, removed = new, [row for rows in former.values() for row in rows]
    return Difference(columns, after, tuple(added), tuple(changed), tuple(removed))
