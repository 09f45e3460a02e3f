"""Taking changes back."""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import re
import sqlite3
import unittest
from pathlib import Path
from typing import Any

import synqlite
from synqlite import aio

from .support import ByCommand, ByExtension, Sites

GUIDE = Path(__file__).resolve().parents[3] / "docs/guides/undo.md"


class Undo(Sites):
    def test_what_was_written_here_is_taken_back(self) -> None:
        home = self.init("home.db", history=True)
        before = self.rows(home)
        self.execute(Path(home.path), "UPDATE todo SET title = 'oops' WHERE id = 1")
        self.execute(Path(home.path), "DELETE FROM todo WHERE id = 2")
        would = home.undo(since="10m", dry_run=True)
        self.assertEqual(len(self.rows(home)), 1)
        done = home.undo(since="10m")
        self.assertEqual((would.taken, would.left, would.dry_run), (done.taken, (), True))
        taken = {(each.table, each.row, each.change) for each in done.taken}
        self.assertEqual(taken, {("todo", "1", "update"), ("todo", "2", "delete")})
        self.assertIn({"title": "milk"}, [taken.columns for taken in done.taken])
        self.assertEqual(self.rows(home), before)

    def test_changes_are_named_by_row_and_by_time(self) -> None:
        home = self.init("home.db", history=True)
        for row in (1, "1", "1.0"):
            self.execute(Path(home.path), "UPDATE todo SET done = 1 WHERE id = 1")
            (taken,) = home.undo(table="todo", row=row).taken
            self.assertEqual((taken.row, taken.columns), ("1", {"done": 0}))
        self.execute(Path(home.path), "UPDATE todo SET done = 2 WHERE id = 2")
        home.fold()
        at = home.log(limit=1)[0].at
        self.assertEqual(home.undo(until=at.replace(year=2020)).taken, ())
        for moment in (at, at.astimezone().replace(tzinfo=None)):
            self.assertEqual(len(home.undo(at=moment, dry_run=True).taken), 1)
        self.assertEqual(len(home.undo(since=at, until=at, table="todo").taken), 1)

    def test_what_others_have_written_since_is_left(self) -> None:
        home, laptop = self.pair()
        self.execute(Path(home.path), "INSERT INTO todo(title) VALUES('tea')")
        home.sync()
        laptop.sync()
        self.execute(Path(laptop.path), "UPDATE todo SET done = 1 WHERE title = 'tea'")
        laptop.sync()
        home.sync()
        undone = home.undo(since="10m")
        (left,) = undone.left
        self.assertEqual((undone.taken, left.table, left.row, left.columns), ((), "todo", "3", ()))
        assert left.written is not None
        self.assertEqual(left.written.site, laptop.status().site)

    def test_bad_input_is_refused_and_changes_nothing(self) -> None:
        home = self.init("home.db")
        self.execute(Path(home.path), "DELETE FROM todo")
        wrong: list[tuple[dict[str, Any], str]] = [
            ({}, "which changes"),
            ({"table": "todo"}, "which changes"),
            ({"dry_run": True}, "which changes"),
            ({"row": 1}, "table"),
            ({"at": "1h", "since": "1h"}, "since"),
            ({"since": "yesterday"}, "`yesterday` is no point of time"),
            ({"until": ""}, "`` is no point of time"),
        ]
        for selection, said in wrong:
            with self.subTest(selection), self.assertRaises(synqlite.UsageError) as refused:
                home.undo(**selection)
            self.assertIn(said, refused.exception.message)
        with self.assertRaises(synqlite.RefusedError):
            home.undo(table="todo", row=9)
        self.assertEqual(self.rows(home), [])

    def test_a_transaction_of_the_program_is_waited_for(self) -> None:
        home = self.init("home.db")
        program = sqlite3.connect(home.path)
        program.execute("DELETE FROM todo")
        hasty = self.open(Path(home.path), timeout=1)
        with self.assertRaises(synqlite.LockedError):
            hasty.undo(since="1h")
        program.commit()
        program.close()
        self.assertEqual(len(hasty.undo(since="1h").taken), 2)

    def test_it_is_a_coroutine_too(self) -> None:
        home = self.init("home.db")
        self.execute(Path(home.path), "DELETE FROM todo")

        async def run() -> None:
            async with await aio.open(home.path, backend=self.backend) as replica:
                self.assertEqual(len((await replica.undo(table="todo", row=1)).taken), 1)

        asyncio.run(run())
        self.assertEqual(self.rows(home), [(1, "milk", 0)])


class UndoByCommand(ByCommand, Undo):
    @unittest.skipUnless(GUIDE.exists(), "the guide is not beside the package")
    def test_the_program_of_the_guide_prints_what_it_says(self) -> None:
        home = self.init("home.db", history=True)
        laptop = self.clone(home.path, "laptop.db")
        self.execute(Path(home.path), "UPDATE todo SET title = 'oops' WHERE id = 2")
        laptop.sync()
        self.execute(Path(laptop.path), "UPDATE todo SET title = 'call Bob' WHERE id = 2")
        laptop.sync()
        (program,) = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)
        said = program.partition("# ")[2].strip().replace("todo 3", "todo 2")
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(self.dir)
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            exec(compile(program, GUIDE.name, "exec"), {})
        self.assertEqual(printed.getvalue().strip(), said)


class UndoByExtension(ByExtension, Undo):
    pass


del Undo

if __name__ == "__main__":
    unittest.main()
