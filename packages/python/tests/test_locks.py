"""What this package does in a program's process takes no lock from the program's own connections."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import threading
import time
import unittest
from pathlib import Path
from unittest import mock

import synqlite

from .support import ByCommand, ByExtension, Sites, until

OUTSIDER = """
import sqlite3, sys
try:
    sqlite3.connect(sys.argv[1], timeout=0, isolation_level=None).execute("BEGIN IMMEDIATE")
    print("it may write")
except sqlite3.OperationalError as e:
    print(e)
"""


class Locks(Sites):
    def outsider(self, path: str) -> str:
        words = [sys.executable, "-c", OUTSIDER, path]
        return subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()

    def test_a_write_transaction_keeps_its_lock(self) -> None:
        for mode in ("WAL", "DELETE"):
            with self.subTest(mode):
                home = self.init(f"{mode}.db")
                self.execute(Path(home.path), f"PRAGMA journal_mode = {mode}")
                program = sqlite3.connect(home.path, isolation_level=None)
                program.execute("BEGIN IMMEDIATE")
                program.execute("INSERT INTO todo(title) VALUES('tea')")
                waits = home._backend.waits(home.path)
                waits.wait(0.1, None, None)
                home.status()
                with self.assertRaises(synqlite.LockedError):
                    self.open(Path(home.path), timeout=0).fold()
                waits.close()
                self.assertEqual(self.outsider(home.path), "database is locked")
                program.execute("COMMIT")
                self.assertEqual(self.outsider(home.path), "it may write")
                program.close()
                self.assertEqual(self.execute(Path(home.path), "PRAGMA integrity_check"), [("ok",)])
                self.assertEqual(len(self.rows(home)), 3)

    def test_many_threads_and_a_writer(self) -> None:
        home, laptop = self.pair()
        self.execute(Path(home.path), "PRAGMA journal_mode = WAL")
        patient = self.open(Path(home.path), timeout=60)
        failed: list[Exception] = []

        def call() -> None:
            try:
                for _ in range(5):
                    patient.sync()
                    patient.status()
                    patient.digest()
            except Exception as e:
                failed.append(e)

        threads = [threading.Thread(target=call) for _ in range(4)]
        program = sqlite3.connect(home.path, timeout=60, isolation_level=None)
        for thread in threads:
            thread.start()
        written = 0
        while any(thread.is_alive() for thread in threads):
            program.execute("INSERT INTO todo(title) VALUES(?)", (f"task {written}",))
            written += 1
            # SQLite's locks are not fair: who writes without a pause lets nobody in.
            time.sleep(0.002)
        program.close()
        self.assertEqual(failed, [])
        self.assertEqual(len(self.rows(home)), 2 + written)
        self.converge(home, laptop)
        self.assertEqual(len(self.rows(laptop)), 2 + written)
        self.assertTrue(home.verify(full=True).ok)


class LocksByCommand(ByCommand, Locks):
    def test_nothing_is_opened_in_this_process(self) -> None:
        """So it is safe beside a SQLite that is not that of `sqlite3`."""
        home, laptop = self.pair()
        self.execute(Path(laptop.path), "DELETE FROM todo WHERE id = 1")
        with mock.patch("sqlite3.connect", side_effect=AssertionError("opened here")) as connect:
            laptop.sync()
            with home.watch(interval=600) as watch:
                until(lambda: watch.state.last_sync)
                time.sleep(0.3)
            self.assertEqual(self.open(Path(home.path)).digest(), laptop.digest())
        connect.assert_not_called()


class LocksByExtension(ByExtension, Locks):
    pass


del Locks

if __name__ == "__main__":
    unittest.main()
