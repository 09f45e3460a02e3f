"""Queries that run again when what they read changed, and the rows that changed."""

from __future__ import annotations

import sqlite3
import time
import unittest
from pathlib import Path
from typing import Any, Optional

import synqlite
from synqlite.live import _difference

from .support import ByCommand, ByExtension, Sites, until

QUERY = "SELECT title, done FROM todo ORDER BY title"


class Lives(Sites):
    connects = False

    def live(self, replica: synqlite.Replica, sql: str = QUERY, **options: Any) -> synqlite.Live:
        def connect() -> sqlite3.Connection:
            return sqlite3.connect(replica.path, check_same_thread=False)

        return replica.live(sql, connect=connect if self.connects else None, **options)

    def test_it_tells_the_rows_and_then_what_is_different(self) -> None:
        home, laptop = self.pair()
        told: list[synqlite.Difference] = []
        with self.live(home, key="title", on_change=told.append) as live:
            until(lambda: told)
            self.assertEqual(told[0].rows, (("milk", 0), ("rent", 0)))
            self.assertEqual((told[0].added, told[0].columns), (told[0].rows, ("title", "done")))
            self.execute(Path(home.path), "INSERT INTO todo(title) VALUES('tea')")
            until(lambda: len(told) == 2)
            self.assertEqual((told[1].added, told[1].changed, told[1].removed), ((("tea", 0),), (), ()))
            self.execute(Path(laptop.path), "UPDATE todo SET done = 1 WHERE title = 'milk'")
            self.execute(Path(laptop.path), "DELETE FROM todo WHERE title = 'rent'")
            laptop.push()
            home.pull()
            until(lambda: len(told) == 3)
            self.assertEqual(told[2].changed, ((("milk", 0), ("milk", 1)),))
            self.assertEqual((told[2].added, told[2].removed), ((), (("rent", 0),)))
            self.assertEqual(live.rows, (("milk", 1), ("tea", 0)))
        self.execute(Path(home.path), "DELETE FROM todo")
        time.sleep(0.5)
        self.assertEqual(len(told), 3)

    def test_what_does_not_change_its_rows_is_not_told(self) -> None:
        home, _ = self.pair()
        told: list[synqlite.Difference] = []
        sql = "SELECT count(*) FROM todo WHERE done = ?"
        with self.live(home, sql, parameters=[0], on_change=told.append):
            until(lambda: told)
            self.execute(Path(home.path), "UPDATE todo SET title = 'oat milk' WHERE title = 'milk'")
            home.fold()
            time.sleep(0.5)
            self.assertEqual(len(told), 1)
            self.execute(Path(home.path), "UPDATE todo SET done = 1")
            until(lambda: len(told) == 2)
        self.assertEqual((told[1].added, told[1].removed), (((0,),), ((2,),)))

    def test_a_query_that_fails_is_told_once_and_tried_again(self) -> None:
        home, _ = self.pair()
        told: list[synqlite.Difference] = []
        failed: list[Exception] = []
        with self.live(home, on_change=told.append, on_error=failed.append) as live:
            until(lambda: told)
            self.execute(Path(home.path), "ALTER TABLE todo RENAME TO plan")
            until(lambda: failed)
            self.assertIn("no such table", str(live.error))
            time.sleep(1)
            self.assertEqual(len(failed), 1)
            self.execute(Path(home.path), "ALTER TABLE plan RENAME TO todo")
            until(lambda: live.error is None)
            self.execute(Path(home.path), "DELETE FROM todo")
            until(lambda: live.rows == ())

    def test_it_does_not_write(self) -> None:
        home, _ = self.pair()
        for sql in (
            "DELETE FROM todo RETURNING title",
            "INSERT INTO todo(title) VALUES('tea')",
            "CREATE TEMP TABLE mine(x)",
            "BEGIN IMMEDIATE",
            "SAVEPOINT mine",
            f"ATTACH '{self.dir / 'other.db'}' AS other",
            "VACUUM",
        ):
            failed: list[Exception] = []
            with self.subTest(sql), self.live(home, sql, on_change=lambda _: None, on_error=failed.append):
                until(lambda: failed)
                self.assertIsInstance(failed[0], synqlite.UsageError)
                self.assertEqual(str(failed[0]), "the statement of a live query writes. Give a SELECT")
        self.assertEqual(len(self.rows(home)), 2)
        self.assertFalse((self.dir / "other.db").exists())

    def test_it_reads_virtual_tables(self) -> None:
        home, _ = self.pair()
        self.execute(Path(home.path), "CREATE VIRTUAL TABLE place USING rtree(id, low, high)")
        self.execute(Path(home.path), "INSERT INTO place VALUES(1, 2, 3)")
        self.execute(Path(home.path), "CREATE VIRTUAL TABLE words USING fts5(word)")
        self.execute(Path(home.path), "INSERT INTO words VALUES('milk')")
        told: list[synqlite.Difference] = []
        failed: list[Exception] = []
        sql = "SELECT id, word FROM place JOIN words WHERE words MATCH 'milk'"
        with self.live(home, sql, on_change=told.append, on_error=failed.append):
            until(lambda: told or failed)
            self.assertEqual(failed, [])
            self.execute(Path(home.path), "DELETE FROM words")
            until(lambda: len(told) == 2)
        self.assertEqual([each.rows for each in told], [((1, "milk"),), ()])

    def test_a_callback_that_fails_does_not_end_it(self) -> None:
        home, _ = self.pair()
        told: list[synqlite.Difference] = []

        def fail(what: synqlite.Difference) -> None:
            told.append(what)
            raise SystemExit("the callback is wrong")

        with self.assertLogs("synqlite", "ERROR"), self.live(home, on_change=fail):
            until(lambda: told)
            self.execute(Path(home.path), "DELETE FROM todo")
            until(lambda: len(told) == 2)

    def test_a_key_that_is_no_column_is_an_error(self) -> None:
        home, _ = self.pair()
        failed: list[Exception] = []
        with self.live(home, key="colour", on_change=lambda _: None, on_error=failed.append):
            until(lambda: failed)
        self.assertIsInstance(failed[0], synqlite.UsageError)

    def test_the_rows_that_changed_are_listed(self) -> None:
        home, laptop = self.pair()
        first = home.changes()
        self.assertTrue(first.anew)
        self.assertEqual([row.change for row in first.changes], ["insert", "insert"])
        self.assertEqual(home.changes(first.token).changes, ())
        self.execute(Path(laptop.path), "UPDATE todo SET done = 1 WHERE title = 'milk'")
        self.execute(Path(home.path), "DELETE FROM todo WHERE title = 'rent'")
        laptop.push()
        home.pull()
        later = home.changes(first.token)
        self.assertFalse(later.anew)
        found = {row.change: row for row in later.changes}
        self.assertEqual(set(found), {"update", "delete"})
        self.assertEqual((found["update"].columns, found["update"].table), (("done",), "todo"))
        assert found["update"].values is not None and found["update"].written is not None
        self.assertEqual(found["update"].values["done"], 1)
        self.assertEqual(found["update"].written.site, laptop.status().site)
        part: Optional[synqlite.Changes] = home.changes(limit=1)
        self.assertIsNotNone(part)
        with self.assertRaises(synqlite.Error):
            home.changes("no token")


class LivesByExtension(ByExtension, Lives):
    def test_only_tables_that_it_reads_have_it_run_again(self) -> None:
        home = self.init("home.db")
        self.execute(Path(home.path), "CREATE TABLE other(a)")
        synqlite.init(home.path)
        ran: list[object] = []
        told: list[synqlite.Difference] = []
        with home.live("SELECT count(*) FROM todo", on_change=told.append) as live:
            until(lambda: told)
            ask = live._ask
            live._ask = lambda connection: (ran.append(1), ask(connection))  # type: ignore[method-assign, assignment, func-returns-value]
            for n in range(5):
                self.execute(Path(home.path), f"INSERT INTO other VALUES({n})")
                time.sleep(0.05)
            time.sleep(0.3)
            self.assertEqual(ran, [])
            self.execute(Path(home.path), "DELETE FROM todo")
            until(lambda: len(told) == 2)


class LivesByCommand(ByCommand, Lives):
    connects = True

    def test_by_way_of_the_command_the_program_opens_the_file(self) -> None:
        home = self.init("home.db")
        with self.assertRaises(synqlite.UsageError) as refused:
            home.live(QUERY, on_change=lambda _: None)
        self.assertIn("connect=", str(refused.exception))

    def connect(self, home: synqlite.Replica) -> sqlite3.Connection:
        connection = sqlite3.connect(home.path, isolation_level=None)
        connection.row_factory = lambda cursor, row: {c[0]: v for c, v in zip(cursor.description, row)}
        connection.execute("ATTACH ? AS 'the other'", [str(self.dir / "other.db")])
        connection.execute("ATTACH ':memory:' AS kept")
        connection.execute("CREATE TABLE kept.t(x)")
        connection.execute("CREATE TEMP TABLE mine(x)")
        connection.execute("CREATE TEMP VIEW titles AS SELECT title FROM main.todo")
        return connection

    def test_what_changes_in_an_attached_database_is_told(self) -> None:
        home = self.init("home.db")
        other = self.database("other.db")
        told: list[synqlite.Difference] = []
        sql = 'SELECT count(*) FROM "the other".todo JOIN titles'
        with home.live(sql, on_change=told.append, connect=lambda: self.connect(home)) as live:
            until(lambda: live.rows == ((4,),))
            self.execute(other, "INSERT INTO todo(title) VALUES('tea')")
            until(lambda: live.rows == ((6,),))
            self.execute(Path(home.path), "DELETE FROM todo WHERE title = 'milk'")
            until(lambda: live.rows == ((3,),))
        self.assertEqual(len(told), 3)

    def test_what_is_in_no_file_is_refused(self) -> None:
        home = self.init("home.db")
        self.database("other.db")

        def memory() -> sqlite3.Connection:
            connection = sqlite3.connect(":memory:")
            connection.execute("CREATE TABLE t(x)")
            return connection

        for sql, connect, table in (
            ("SELECT title FROM mine JOIN titles", lambda: self.connect(home), "temp.mine"),
            ("SELECT count(*) FROM kept.t", lambda: self.connect(home), "kept.t"),
            ("SELECT * FROM t", memory, "main.t"),
        ):
            told: list[object] = []
            failed: list[Exception] = []
            with home.live(sql, on_change=told.append, on_error=failed.append, connect=connect):
                until(lambda: told or failed)
            self.assertEqual(told, [])
            self.assertIsInstance(failed[0], synqlite.RefusedError)
            self.assertIn(f"the query reads {table}, which is in no file", str(failed[0]))


class Differences(unittest.TestCase):
    def test_rows_count_as_often_as_they_are_there(self) -> None:
        one, two = ("a", 1), ("b", 2)
        found = _difference(("k", "n"), (one, one, two), (one, two, two), ())
        self.assertEqual((found.added, found.changed, found.removed), ((two,), (), (one,)))

    def test_a_key_tells_what_was_changed(self) -> None:
        before, after = (("a", 1), ("b", 1), ("c", 1)), (("b", 2), ("c", 1), ("d", 1))
        found = _difference(("k", "n"), before, after, ("k",))
        self.assertEqual(found.changed, ((("b", 1), ("b", 2)),))
        self.assertEqual((found.added, found.removed), ((("d", 1),), (("a", 1),)))


del Lives

if __name__ == "__main__":
    unittest.main()
