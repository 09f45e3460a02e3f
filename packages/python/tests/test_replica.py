"""What a replica tells of itself, and what can be set."""

from __future__ import annotations

import os
import sqlite3
import stat
import unittest
from datetime import datetime, timedelta, timezone
from pathlib import Path

import synqlite
from synqlite import _files

from .support import ByCommand, ByExtension, Sites, environment


class Replicas(Sites):
    def test_a_file_is_found_again(self) -> None:
        home = self.init("home.db")
        with self.open(Path(home.path)) as again:
            self.assertEqual(again.status().site, home.status().site)
            self.assertEqual((again.path, again.backend), (home.path, self.backend))
            self.assertEqual(repr(again), f"<synqlite.Replica {home.path!r} by {self.backend}>")

    def test_a_relative_path_stays_what_it_was(self) -> None:
        home = self.init("home.db")
        before = os.getcwd()
        os.chdir(self.dir)
        try:
            again = self.open(Path("home.db"))
        finally:
            os.chdir(before)
        self.assertEqual(again.status(), home.status())

    def test_names_that_mean_something_elsewhere(self) -> None:
        for name in ("-v", "a b?mode=ro#c%41.db", "quote'\".db", "größe Ω.db", "a. b.db", "file:x.db"):
            with self.subTest(name):
                home = self.init(name)
                laptop = self.clone(home.path, f"{name} clone")
                self.execute(Path(laptop.path), "DELETE FROM todo")
                laptop.sync()
                self.assertEqual(self.rows(home), [])

    def test_init_sets_policies_and_keeps_history(self) -> None:
        home = self.init("home.db", policies={"todo.done": "counter", "todo.delete": "last"}, history=True)
        self.assertEqual(home.policies(), {"todo.done": "counter", "todo.delete": "last"})
        for title in ("tea", "cake"):
            self.execute(Path(home.path), f"UPDATE todo SET title = '{title}' WHERE id = 1")
            home.fold()
        log = home.log()
        self.assertEqual([e.columns for e in log[:2]], [{"title": "'cake'"}, {"title": "'tea'"}])

    def test_sites_have_names(self) -> None:
        home = synqlite.init(self.database("home.db"), backend=self.backend, name="Ann's laptop")
        van = synqlite.clone(home.path, self.dir / "van.db", backend=self.backend, name="-van")
        self.execute(Path(van.path), "UPDATE todo SET title = 'tea' WHERE id = 1")
        van.sync()
        self.assertEqual((home.status().site_name, van.status().site_name), ("Ann's laptop", "-van"))
        self.assertEqual(home.log(limit=1)[0].site_name, "-van")
        with self.assertRaises(synqlite.RefusedError):
            synqlite.clone(home.path, self.dir / "bad.db", backend=self.backend, name="two\nlines")

    def test_init_again_takes_in_new_tables(self) -> None:
        home = self.init("home.db")
        self.execute(Path(home.path), "CREATE TABLE tag(name TEXT PRIMARY KEY)")
        again = synqlite.init(home.path, backend=self.backend)
        self.assertEqual(again.status().site, home.status().site)
        self.assertEqual(set(again.digest().tables), {"tag", "todo"})

    def test_what_init_points_out_is_logged(self) -> None:
        self.database("home.db")
        self.execute(self.dir / "home.db", "CREATE TABLE step(id INTEGER PRIMARY KEY, todo_id INTEGER)")
        with self.assertLogs("synqlite", "WARNING") as logged:
            synqlite.init(self.dir / "home.db", backend=self.backend)
        self.assertIn("todo_id", "".join(logged.output))

    def test_policies(self) -> None:
        home, laptop = self.pair()
        self.assertEqual(home.policies(), {})
        self.assertEqual(home.set_policy("merge", "whole"), {"merge": "whole"})
        self.converge(home, laptop)
        self.assertEqual(laptop.policies(), {"merge": "whole"})
        with self.assertRaises(synqlite.RefusedError) as refused:
            home.set_policy("merge", "never")
        self.assertIn("merge=never", refused.exception.message)

    def test_remotes(self) -> None:
        home = self.init("home.db")
        self.assertEqual(home.remotes(), ())
        home.add_remote("stick", self.folder())
        found = home.add_remote("hub", "https://hub.example.org/notes", token="synq_secret")
        self.assertEqual([(r.name, r.token) for r in found], [("hub", "kept"), ("stick", None)])
        self.assertEqual(stat.S_IMODE(Path(home.path).stat().st_mode), 0o600)
        self.assertEqual(home.remove_remote("hub"), (synqlite.Remote("stick", self.folder()),))
        self.assertNotIn(b"synq_secret", Path(home.path).read_bytes())
        with self.assertRaises(synqlite.RefusedError) as refused:
            home.remove_remote("hub")
        self.assertIn("no remote called hub", refused.exception.message)
        with self.assertRaises(synqlite.RefusedError):
            home.sync()

    def test_status(self) -> None:
        home = self.init("home.db")
        home.add_remote("origin", self.folder())
        self.execute(Path(home.path), "UPDATE todo SET done = 1")
        self.execute(Path(home.path), "CREATE VIEW open AS SELECT * FROM todo WHERE done = 0")
        before = home.status()
        self.assertEqual(before.pending, {"todo": synqlite.Pending(inserted=0, updated=2, deleted=0)})
        self.assertEqual((before.unfolded, before.conflicts, before.arriving), (2, 0, 0))
        self.assertEqual([s.name for s in before.skipped], ["open"])
        (origin,) = before.remotes
        self.assertEqual((origin.name, origin.url, origin.pushed), ("origin", self.folder(), None))
        self.assertEqual(home.fold().rows, 2)
        self.assertGreaterEqual(home.status().remotes[0].unpushed, 2)
        home.sync()
        after = home.status()
        self.assertEqual((after.pending, after.unfolded, after.remotes[0].unpushed), ({}, 0, 0))
        pushed = after.remotes[0].pushed
        assert pushed is not None
        self.assertLess(abs(datetime.now(timezone.utc) - pushed), timedelta(minutes=1))

    def test_log(self) -> None:
        home = self.init("home.db")
        self.execute(Path(home.path), "INSERT INTO todo(title) VALUES('tea')")
        self.execute(Path(home.path), "DELETE FROM todo WHERE id = 2")
        newest, second = home.log(limit=2)
        self.assertEqual((second.table, second.row, second.columns["title"]), ("todo", "3", "'tea'"))
        self.assertEqual(newest.kind, "delete (pending)")
        self.assertEqual(newest.site, home.status().site)
        self.assertEqual(newest.at.timestamp(), newest.at_ms / 1000)

    def test_verify_finds_what_was_written_past_the_triggers(self) -> None:
        home = self.init("home.db")
        self.assertTrue(home.verify().ok)
        connection = sqlite3.connect(home.path)
        names = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'trigger'").fetchall()
        for (name,) in names:
            connection.execute(f'DROP TRIGGER "{name}"')
        connection.execute("UPDATE todo SET title = 'unnoticed' WHERE id = 1")
        connection.commit()
        connection.close()
        found = home.verify()
        self.assertFalse(found.ok)
        self.assertTrue(found.problems)

    def test_both_backends_answer_the_same(self) -> None:
        home = self.init("home.db", history=True)
        home.add_remote("origin", self.folder())
        home.sync()
        self.execute(Path(home.path), "DELETE FROM todo WHERE id = 1")
        other = synqlite.open(home.path, backend="command")
        self.assertEqual(home.status(), other.status())
        self.assertEqual(home.log(), other.log())
        self.assertEqual(home.digest(), other.digest())
        self.assertEqual(home.remotes(), other.remotes())


class ReplicasByCommand(ByCommand, Replicas):
    def test_the_command_is_the_one_that_the_environment_names(self) -> None:
        home = self.init("home.db")
        program = _files.command()
        assert program is not None
        link = self.dir / "another"
        link.symlink_to(program)
        with environment(SYNQLITE_COMMAND=str(link)):
            again = self.open(Path(home.path))
        link.unlink()
        with self.assertRaises(synqlite.NotInstalledError) as gone:
            again.status()
        self.assertIn(str(link), gone.exception.message)


class ReplicasByExtension(ByExtension, Replicas):
    pass


del Replicas

if __name__ == "__main__":
    unittest.main()
