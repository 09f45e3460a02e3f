"""Replicas that are written apart and converge, over each kind of remote."""

from __future__ import annotations

import sqlite3
import stat
import threading
import unittest
from pathlib import Path

import synqlite

from .support import ByCommand, ByExtension, Sites, command, environment, hub, until


class Sync(Sites):
    def test_what_is_written_apart_is_on_both(self) -> None:
        home, laptop = self.pair()
        self.execute(Path(home.path), "UPDATE todo SET title = 'oat milk' WHERE id = 1")
        self.execute(Path(laptop.path), "UPDATE todo SET done = 1 WHERE id = 1")
        self.execute(Path(laptop.path), "DELETE FROM todo WHERE id = 2")
        self.assertNotEqual(home.digest(), laptop.digest())
        self.converge(home, laptop)
        self.assertEqual(self.rows(home), [(1, "oat milk", 1)])
        self.assertEqual(self.rows(laptop), [(1, "oat milk", 1)])
        self.assertEqual(home.verify(full=True), synqlite.Verification(ok=True, problems=()))

    def test_results_count_what_crossed(self) -> None:
        home, laptop = self.pair()
        self.execute(Path(home.path), "INSERT INTO todo(title) VALUES('stamps'), ('call Ann')")
        self.execute(Path(home.path), "UPDATE todo SET done = 1 WHERE id = 2")
        pushed = home.push()
        self.assertEqual((pushed.sent.rows, pushed.received.rows), (3, 0))
        self.assertGreater(pushed.sent.bytes, 0)
        pulled = laptop.pull()
        self.assertEqual(pulled.merged, synqlite.Merged(inserted=2, updated=1, deleted=0))
        self.assertEqual(pulled.tables, {"todo": pulled.merged})
        self.assertEqual((pulled.received.rows, pulled.conflicts, pulled.waiting), (3, 0, ()))
        self.assertGreater(pulled.seconds, 0)
        self.assertEqual(home.push().sent.rows, 0)

    def test_decisions_are_told(self) -> None:
        home, laptop = self.pair()
        self.execute(Path(home.path), "UPDATE todo SET title = 'oat milk' WHERE id = 1")
        self.execute(Path(laptop.path), "UPDATE todo SET title = 'soy milk' WHERE id = 1")
        home.sync()
        (decision,) = laptop.sync(whole=True, force=True).decisions
        self.assertEqual((decision.table, decision.row), ("todo", "1"))
        self.assertIn("'oat milk'", decision.what)

    def test_another_replica_is_a_remote_by_its_path(self) -> None:
        home = self.init("home.db")
        laptop = self.clone(home.path, "laptop.db")
        self.execute(Path(laptop.path), "DELETE FROM todo")
        laptop.sync()
        self.assertEqual(self.rows(home), [])
        self.execute(Path(home.path), "INSERT INTO todo(title) VALUES('tea')")
        home.sync(Path(laptop.path))
        self.assertEqual([title for _, title, _ in self.rows(laptop)], ["tea"])

    def test_a_program_writes_all_the_while_in_wal_mode(self) -> None:
        self.write_all_the_while("WAL")

    def test_a_program_writes_all_the_while_in_delete_mode(self) -> None:
        self.write_all_the_while("DELETE")

    def write_all_the_while(self, mode: str) -> None:
        home, laptop = self.pair()
        self.execute(Path(home.path), f"PRAGMA journal_mode = {mode}")
        failed: list[Exception] = []
        written = 0
        stop = threading.Event()

        def write() -> None:
            nonlocal written
            connection = sqlite3.connect(home.path, timeout=60, isolation_level=None)
            try:
                while not stop.wait(0.001):
                    connection.execute("INSERT INTO todo(title) VALUES(?)", (f"task {written}",))
                    written += 1
            except Exception as e:
                failed.append(e)
            finally:
                connection.close()

        sent: list[int] = []

        def several(rows: int) -> bool:
            """Whether several syncs have met something to send."""
            sent.append(rows)
            return sum(1 for rows in sent if rows) >= 5

        writer = threading.Thread(target=write)
        writer.start()
        try:
            until(lambda: several(home.sync().sent.rows))
            arrived = laptop.sync().merged.inserted
        finally:
            stop.set()
            writer.join()
        self.assertEqual(failed, [])
        self.assertEqual(arrived, sum(sent))
        self.converge(home, laptop)
        self.assertEqual(len(self.rows(laptop)), 2 + written)
        self.assertEqual(self.execute(Path(home.path), "PRAGMA integrity_check"), [("ok",)])
        self.assertTrue(home.verify().ok)

    def test_the_programs_open_connections_stay_usable(self) -> None:
        home, laptop = self.pair()
        reader = sqlite3.connect(home.path)
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM todo").fetchone()
        self.execute(Path(laptop.path), "PRAGMA journal_mode = WAL")
        writer = sqlite3.connect(laptop.path)
        writer.execute("INSERT INTO todo(title) VALUES('tea')")
        writer.commit()
        laptop.sync()
        writer.execute("INSERT INTO todo(title) VALUES('cake')")
        writer.commit()
        reader.rollback()
        self.converge(home, laptop)
        self.assertEqual(reader.execute("SELECT count(*) FROM todo").fetchone(), (4,))
        self.assertEqual(writer.execute("SELECT count(*) FROM todo").fetchone(), (4,))
        reader.close()
        writer.close()

    def test_a_hub(self) -> None:
        with hub(self.dir) as server:
            token = server.writer
            home = self.init("home.db")
            home.push(server.url, token=token)
            laptop = self.clone(server.url, "laptop.db", token=token)
            self.execute(Path(laptop.path), "INSERT INTO todo(title) VALUES('tea')")
            self.assertEqual(laptop.sync().sent.rows, 1)
            self.assertEqual(home.sync(server.url, token=lambda: token).merged.inserted, 1)
            self.assertEqual(home.digest(), laptop.digest())

    def test_a_clone_keeps_a_token_and_not_that_of_the_environment(self) -> None:
        with hub(self.dir) as server, environment(SYNQLITE_TOKEN=None):
            self.init("home.db").push(server.url, token=server.writer)
            kept = self.clone(server.url, "kept.db", token=server.writer)
            with environment(SYNQLITE_TOKEN=server.writer):
                lent = self.clone(server.url, "lent.db")
            self.assertEqual(kept.remotes()[0].token, "kept")
            self.assertEqual(stat.S_IMODE(Path(kept.path).stat().st_mode), 0o600)
            self.assertIsNone(lent.remotes()[0].token)
            kept.sync()
            with self.assertRaises(synqlite.RefusedError):
                lent.sync()
            lent.sync(token=server.writer)

    def test_a_token_for_one_call_goes_before_the_others(self) -> None:
        with hub(self.dir) as server, environment(SYNQLITE_TOKEN=server.writer):
            home = self.init("home.db")
            home.add_remote("origin", server.url, token=server.writer)
            with self.assertRaises(synqlite.RefusedError):
                home.sync(token="synq_wrong")
            home.sync()

    def test_a_callable_is_called_anew_for_each_attempt(self) -> None:
        with hub(self.dir) as server:
            home = self.init("home.db")
            tokens = iter(["stale", server.writer, server.reader])
            with self.assertRaises(synqlite.RefusedError):
                home.push(server.url, token=lambda: next(tokens))
            home.push(server.url, token=lambda: next(tokens))
            self.execute(Path(home.path), "DELETE FROM todo")
            with self.assertRaises(synqlite.RefusedError) as refused:
                home.push(server.url, token=lambda: next(tokens))
            self.assertIn("write", str(refused.exception))

    def test_no_token_and_a_wrong_one_are_refused_and_say_what_to_do(self) -> None:
        with hub(self.dir) as server, environment(SYNQLITE_TOKEN=None):
            home = self.init("home.db")
            for token in (None, "", "synq_wrong", lambda: None):
                with self.subTest(token=token), self.assertRaises(synqlite.RefusedError) as refused:
                    home.sync(server.url, token=token)
                self.assertIn("token", refused.exception.message)
                self.assertTrue(refused.exception.hint)
            with environment(SYNQLITE_TOKEN=server.writer):
                self.assertEqual(home.sync(server.url).sent.rows, 2)

    def test_a_hub_that_is_away(self) -> None:
        with hub(self.dir) as server:
            home = self.init("home.db")
            home.add_remote("origin", server.url, token=server.writer)
            home.sync()
            server.stop()
            self.execute(Path(home.path), "DELETE FROM todo WHERE id = 1")
            with self.assertRaises(synqlite.NetworkError) as away:
                home.sync()
            self.assertIn(server.url, str(away.exception))
            self.assertTrue(away.exception.hint)
            server.start()
            self.assertEqual(home.sync().sent.rows, 1)

    def test_a_sealed_folder(self) -> None:
        key = self.dir / "notes.key"
        command("key", "new", str(key))
        home = self.init("home.db")
        home.add_remote("origin", self.folder(), key_file=key)
        home.push(key_file=key)
        home.push("origin", key_file=str(key))
        with self.assertRaises(synqlite.RefusedError) as sealed:
            self.clone(self.folder(), "laptop.db")
        self.assertIn("sealed", sealed.exception.message)
        laptop = self.clone(self.folder(), "laptop.db", key_file=key)
        self.assertEqual(laptop.remotes()[0].key_file, str(key))
        self.execute(Path(laptop.path), "DELETE FROM todo WHERE id = 1")
        self.converge(laptop, home)

    def test_a_key_for_one_call(self) -> None:
        key = self.dir / "notes.key"
        command("key", "new", str(key))
        home = self.init("home.db")
        home.push(self.folder(), key_file=key)
        laptop = self.clone(self.folder(), "laptop.db", key_file=key)
        self.assertEqual(home.digest(), laptop.digest())


class SyncByCommand(ByCommand, Sync):
    pass


class SyncByExtension(ByExtension, Sync):
    pass


del Sync

if __name__ == "__main__":
    unittest.main()
