"""Bad input: an error of the right kind, which says what failed and what to do, and nothing is changed."""

from __future__ import annotations

import os
import pickle
import sqlite3
import time
import unittest
from datetime import timedelta
from pathlib import Path
from typing import Any, Callable

import synqlite

from .support import ByCommand, ByExtension, Sites


class Errors(Sites):
    def test_no_such_file(self) -> None:
        path = self.dir / "absent.db"
        acts: list[Callable[[], synqlite.Replica]] = [
            lambda: self.open(path),
            lambda: synqlite.init(path, backend=self.backend),
            lambda: self.clone(str(path), "new.db"),
        ]
        for act in acts:
            with self.assertRaises(synqlite.Error) as absent:
                act()
            self.assertIn(str(path), absent.exception.message)
            self.assertTrue(absent.exception.hint)
        self.assertEqual(os.listdir(self.dir), [])

    def test_not_a_replica(self) -> None:
        path = self.database("plain.db")
        with self.assertRaises(synqlite.RefusedError) as refused:
            self.open(path)
        e = refused.exception
        self.assertEqual((e.code, e.message, e.object), ("refused", f"{path} is not a replica", str(path)))
        self.assertEqual(e.hint, f"Run: synqlite init {path}")
        self.assertEqual(str(e), f"{e.message}. {e.hint}")

    def test_not_a_database(self) -> None:
        path = self.dir / "text.db"
        path.write_text("hello, this is no database at all, but a longer text\n" * 50)
        with self.assertRaises(synqlite.RefusedError) as refused:
            synqlite.init(path, backend=self.backend)
        self.assertIn("not a SQLite database", refused.exception.message)
        with self.assertRaises(synqlite.RefusedError):
            self.open(self.dir)

    def test_a_damaged_file(self) -> None:
        home = self.init("home.db")
        path = Path(home.path)
        path.write_bytes(path.read_bytes()[:5000])
        with self.assertRaises(synqlite.DamagedError):
            self.open(path)

    def test_a_file_that_exists_is_no_place_for_a_clone(self) -> None:
        home = self.init("home.db")
        self.database("other.db")
        with self.assertRaises(synqlite.ConflictError) as exists:
            self.clone(home.path, "other.db")
        self.assertEqual(exists.exception.message, f"{self.dir / 'other.db'} exists already")

    def test_another_database(self) -> None:
        home, other = self.init("home.db"), self.init("other.db")
        before = other.digest()
        self.execute(Path(home.path), "DELETE FROM todo")
        with self.assertRaises(synqlite.ConflictError):
            home.sync(other.path)
        self.assertEqual(other.digest(), before)

    def test_inside_a_transaction(self) -> None:
        home = self.init("home.db")
        laptop = self.clone(home.path, "laptop.db")
        program = sqlite3.connect(laptop.path)
        program.execute("INSERT INTO todo(title) VALUES('tea')")
        impatient = self.open(Path(laptop.path), timeout=1)
        began = time.monotonic()
        with self.assertRaises(synqlite.LockedError) as locked:
            impatient.sync()
        waited = time.monotonic() - began
        self.assertTrue(0.5 < waited < 20, f"it waited {waited} s")
        assert locked.exception.hint is not None
        self.assertIn("commit", locked.exception.hint)
        program.commit()
        self.assertEqual(impatient.sync().sent.rows, 1)
        self.assertEqual(home.digest(), impatient.digest())
        program.close()

    def test_a_database_that_vanished(self) -> None:
        home, laptop = self.pair()
        os.rename(home.path, self.dir / "away.db")
        with self.assertRaises(synqlite.RefusedError) as gone:
            home.sync()
        self.assertEqual(gone.exception.message, f"there is no database at {home.path}")
        self.assertFalse(os.path.exists(home.path))
        os.rename(self.dir / "away.db", home.path)
        self.converge(home, laptop)

    def test_unknown_remotes(self) -> None:
        home = self.init("home.db")
        with self.assertRaises(synqlite.RefusedError) as none:
            home.sync()
        self.assertIn("no remote called origin", none.exception.message)
        with self.assertRaises(synqlite.RefusedError) as unknown:
            home.sync("gopher://example.org/notes")
        self.assertIn("gopher", unknown.exception.message)
        with self.assertRaises(synqlite.RefusedError):
            home.sync("stick")

    def test_a_key_file_that_is_absent(self) -> None:
        home = self.init("home.db")
        with self.assertRaises(synqlite.Error) as absent:
            home.add_remote("origin", self.folder(), key_file=self.dir / "absent.key")
        self.assertIn("absent.key", str(absent.exception))
        self.assertEqual(home.remotes(), ())

    def test_a_full_stop_within_a_sentence_does_not_end_it(self) -> None:
        home = self.init("home.db")
        with self.assertRaises(synqlite.RefusedError) as refused:
            home.add_remote("a. b", "x")
        e = refused.exception
        self.assertEqual(e.message, "`a. b` cannot be the name of a remote")
        self.assertEqual(e.hint, "Use letters, digits and - _ . and begin with a letter or a digit")
        nowhere = str(self.dir / "A. B.db")
        with self.assertRaises(synqlite.RefusedError) as absent:
            home.sync(nowhere)
        self.assertEqual(absent.exception.message, f"there is no database or remote {nowhere}")

    def test_a_bucket_is_left_to_the_command(self) -> None:
        home = self.init("home.db")
        if home.backend == "command":
            return
        with self.assertRaises(synqlite.RefusedError) as refused:
            home.sync("s3://bucket/prefix")
        self.assertIn('backend="command"', refused.exception.hint or "")

    def test_arguments_that_fit_nothing_are_wrong_usage_by_either_backend(self) -> None:
        home = self.init("home.db")
        call: Any = home
        acts: list[Callable[[], object]] = [
            lambda: call.sync(token=5),
            lambda: call.log(-1),
            lambda: call.log(None),
            lambda: call.log(2**63),
            lambda: call.changes(limit=2**63),
            lambda: call.undo(since=timedelta(minutes=1)),
            lambda: call.undo(table="todo", row=True),
        ]
        for act in acts:
            with self.assertRaises(synqlite.UsageError) as wrong:
                act()
            self.assertTrue(wrong.exception.hint)
        path: Any = os.fsencode(home.path)
        self.assertEqual(self.open(path).path, home.path)

    def test_a_clone_goes_to_a_file(self) -> None:
        home = self.init("home.db")
        with self.assertRaises(synqlite.UsageError) as wrong:
            self.clone(home.path, ":memory:")
        self.assertIn(":memory:", wrong.exception.message)
        with self.assertRaises(synqlite.RefusedError) as long:
            self.clone(home.path, "/".join(["d" * 100] * 5 + ["laptop.db"]))
        self.assertIn("longer than SQLite takes", long.exception.message)
        self.assertEqual(os.listdir(self.dir), ["home.db"])

    def test_an_empty_remote(self) -> None:
        home = self.init("home.db")
        with self.assertRaises(synqlite.RefusedError) as refused:
            home.add_remote("e", "")
        self.assertIn("is empty", refused.exception.message)
        self.assertEqual(home.remotes(), ())

    def test_errors_travel_between_processes(self) -> None:
        with self.assertRaises(synqlite.RefusedError) as refused:
            self.open(self.database("plain.db"))
        there = pickle.loads(pickle.dumps(refused.exception))
        self.assertEqual((type(there), str(there)), (synqlite.RefusedError, str(refused.exception)))
        self.assertEqual(there.hint, refused.exception.hint)


class ErrorsByCommand(ByCommand, Errors):
    pass


class ErrorsByExtension(ByExtension, Errors):
    pass


del Errors

if __name__ == "__main__":
    unittest.main()
