"""Rows that merges displaced: listed in full, and settled on all sites."""

from __future__ import annotations

import unittest
from pathlib import Path

import synqlite

from .support import ByCommand, ByExtension, Sites


class Conflicts(Sites):
    def collide(self) -> tuple[synqlite.Replica, synqlite.Replica]:
        """Both sites add a row called tea; home's is the earlier."""
        home, laptop = self.pair()
        self.execute(Path(home.path), "INSERT INTO todo(title) VALUES('tea')")
        home.sync()
        self.execute(Path(laptop.path), "INSERT INTO todo(title, done) VALUES('tea', 1)")
        self.assertEqual(laptop.sync().conflicts, 1)
        home.sync()
        return home, laptop

    def test_a_hidden_row_is_listed_in_full(self) -> None:
        home, laptop = self.collide()
        (conflict,) = home.conflicts()
        self.assertEqual((conflict.table, conflict.kind, conflict.constraint), ("todo", "unique", "title"))
        self.assertEqual(conflict.declared, "UNIQUE (title)")
        self.assertIsNone(conflict.shown)
        assert conflict.displaced is not None and conflict.rival is not None
        self.assertEqual((conflict.displaced["title"], conflict.displaced["done"]), ("tea", 1))
        self.assertEqual(conflict.contested, ("title",))
        self.assertEqual([stamp.site for stamp in conflict.sites], [laptop.status().site])
        assert conflict.rival.shown is not None
        self.assertEqual(conflict.rival.shown["done"], 0)
        self.assertEqual(conflict.rival.written["title"].site, home.status().site)
        self.assertEqual(laptop.conflicts(), home.conflicts())
        self.assertEqual(home.status().conflicts, 1)

    def test_one_that_is_settled_is_settled_on_all_sites(self) -> None:
        home, laptop = self.collide()
        (conflict,) = home.conflicts()
        self.assertEqual(home.settle(conflict.id, "discard"), synqlite.Settled(settled=conflict.id, open=0))
        self.converge(home, laptop)
        self.assertEqual(laptop.conflicts(), ())
        self.assertEqual([row[1:] for row in self.rows(laptop)], [("milk", 0), ("rent", 0), ("tea", 0)])
        closed = home.closed_conflicts()[0]
        self.assertEqual((closed.id, closed.how, closed.kind), (conflict.id, "discard", "unique"))
        self.assertGreaterEqual(closed.closed_ms, closed.opened_ms)

    def test_the_first_digits_of_an_id_will_do(self) -> None:
        home, _ = self.collide()
        (conflict,) = home.conflicts()
        home.settle(conflict.id[:8], "prefer")
        done = [row[2] for row in self.rows(home) if row[1] == "tea"]
        self.assertEqual(done, [1])

    def test_it_closes_by_itself_when_its_obstacle_goes(self) -> None:
        home, laptop = self.collide()
        self.execute(Path(home.path), "UPDATE todo SET title = 'green tea' WHERE title = 'tea'")
        self.converge(home, laptop)
        self.assertEqual((home.conflicts(), laptop.conflicts()), ((), ()))
        self.assertEqual(len(self.rows(laptop)), 4)

    def test_a_restored_parent(self) -> None:
        home = self.init("home.db")
        self.execute(
            Path(home.path),
            "CREATE TABLE step(id INTEGER PRIMARY KEY, todo INT REFERENCES todo(id) ON DELETE CASCADE)",
        )
        home = synqlite.init(home.path, backend=self.backend)
        laptop = self.clone(home.path, "laptop.db")
        self.execute(Path(home.path), "INSERT INTO step(todo) VALUES(1)")
        self.execute(Path(laptop.path), "DELETE FROM todo WHERE id = 1")
        laptop.sync()
        (conflict,) = laptop.conflicts()
        laptop.settle(conflict.id, "restore")
        laptop.sync()
        self.assertEqual(self.rows(home)[0][1], "milk")
        self.assertEqual(self.execute(Path(home.path), "SELECT todo FROM step"), [(1,)])
        self.assertEqual(laptop.digest(), home.digest())

    def test_what_cannot_be_settled_so_says_why(self) -> None:
        home, _ = self.collide()
        (conflict,) = home.conflicts()
        with self.assertRaises(synqlite.RefusedError) as refused:
            home.settle("ffff" if not conflict.id.startswith("ffff") else "0000", "prefer")
        self.assertIn("no open conflict", refused.exception.message)
        with self.assertRaises(synqlite.RefusedError) as refused:
            home.settle(conflict.id, "restore")
        self.assertIn("restore", refused.exception.message)
        with self.assertRaises(synqlite.UsageError) as wrong:
            home.settle(conflict.id, "show")  # type: ignore[arg-type]
        self.assertIn("prefer", str(wrong.exception))
        self.assertEqual(home.conflicts(), (conflict,))


class ConflictsByCommand(ByCommand, Conflicts):
    pass


class ConflictsByExtension(ByExtension, Conflicts):
    pass


del Conflicts

if __name__ == "__main__":
    unittest.main()
