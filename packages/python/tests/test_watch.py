"""Synchronizing in the background: soon, in spite of every failure, and without raising into the program."""

from __future__ import annotations

import os
import shutil
import sqlite3
import time
import unittest
from pathlib import Path
from typing import Callable, Optional
from unittest import mock

import synqlite
from synqlite import watch as watching
from synqlite._backend import Waits

from .support import ByCommand, ByExtension, Sites, command, hub, until


class Watches(Sites):
    def test_what_is_written_here_goes_out_at_once(self) -> None:
        home, laptop = self.pair()
        with home.watch(interval=600) as watch:
            until(lambda: watch.state.last_sync)
            self.execute(Path(home.path), "INSERT INTO todo(title) VALUES('tea')")
            until(lambda: laptop.pull().merged.inserted == 1)
            self.execute(Path(home.path), "DELETE FROM todo WHERE title = 'tea'")
            until(lambda: laptop.pull().merged.deleted == 1)
            self.assertTrue(watch.state.online)
            self.assertIsNone(watch.state.error)
        self.assertEqual(home.digest(), laptop.digest())

    def test_what_comes_from_others_is_here_within_the_interval(self) -> None:
        home, laptop = self.pair()
        results: list[synqlite.SyncResult] = []
        with home.watch(interval=0.3, on_sync=results.append):
            until(lambda: results)
            self.execute(Path(laptop.path), "INSERT INTO todo(title) VALUES('tea')")
            laptop.push()
            until(lambda: len(self.rows(home)) == 3)
        self.assertEqual(sum(result.merged.inserted for result in results), 1)

    def test_a_sync_does_not_wake_the_next_one(self) -> None:
        home, _ = self.pair()
        results: list[synqlite.SyncResult] = []
        with home.watch(interval=600, on_sync=results.append):
            until(lambda: results)
            time.sleep(1)
            self.assertEqual(len(results), 1)
            self.execute(Path(home.path), "DELETE FROM todo")
            until(lambda: len(results) == 2)
            time.sleep(1)
            self.assertEqual(len(results), 2)

    def test_a_write_during_a_round_is_seen_after_it(self) -> None:
        home, laptop = self.pair()

        def during(_: synqlite.SyncResult) -> None:
            if len(self.rows(home)) == 2:
                self.execute(Path(home.path), "INSERT INTO todo(title) VALUES('tea')")

        with home.watch(interval=600, on_sync=during):
            until(lambda: laptop.pull().merged.inserted == 1)

    def test_a_hub_goes_away_and_comes_back(self) -> None:
        with hub(self.dir) as server:
            home = self.init("home.db")
            home.add_remote("origin", server.url)
            told: list[Exception] = []
            with home.watch(interval=0.3, token=lambda: server.writer, on_error=told.append) as watch:
                until(lambda: watch.state.online)
                server.stop()
                until(lambda: not watch.state.online)
                self.assertIsInstance(watch.state.error, synqlite.NetworkError)
                last = watch.state.last_sync
                self.assertIsNotNone(last)
                self.execute(Path(home.path), "UPDATE todo SET done = 1")
                until(lambda: watch.state.pending >= 2)
                server.start()
                until(lambda: watch.state.online)
                until(lambda: watch.state.pending == 0)
                self.assertIsNone(watch.state.error)
                assert last is not None and watch.state.last_sync is not None
                self.assertGreater(watch.state.last_sync, last)
            self.assertTrue(told)
            self.assertEqual({type(e) for e in told}, {synqlite.NetworkError})
            laptop = self.clone(server.url, "laptop.db", token=server.writer)
            self.assertEqual(laptop.digest(), home.digest())

    def test_the_token_is_asked_for_anew_after_it_was_refused(self) -> None:
        with hub(self.dir) as server:
            home = self.init("home.db")
            asked: list[str] = []

            def token() -> str:
                if not asked:
                    asked.append("none")
                    raise OSError("the token service is away")
                asked.append("stale" if len(asked) < 3 else server.writer)
                return asked[-1]

            told: list[Exception] = []
            with home.watch(server.url, interval=600, token=token, on_error=told.append) as watch:
                until(lambda: watch.state.online)
            self.assertEqual(asked, ["none", "stale", "stale", server.writer])
            self.assertEqual([type(e) for e in told], [OSError, synqlite.RefusedError, synqlite.RefusedError])

    def test_what_came_is_told_also_by_a_round_that_then_fails(self) -> None:
        with hub(self.dir) as server:
            home = self.init("home.db")
            home.sync(server.url, token=server.writer)
            laptop = self.clone(server.url, "laptop.db", token=server.writer)
            self.execute(Path(laptop.path), "INSERT INTO todo(title) VALUES('cannot be sent')")
            shown: list[object] = []
            changes: list[int] = []
            failed: list[Exception] = []
            tokens = [server.reader]

            def refresh() -> None:
                shown[:] = [title for _, title, _ in self.rows(laptop)]
                changes.append(1)

            with laptop.watch(
                server.url,
                interval=0.3,
                token=lambda: tokens[-1],
                on_change=refresh,
                on_error=failed.append,
            ) as watch:
                until(lambda: failed)
                self.execute(Path(home.path), "INSERT INTO todo(title) VALUES('from home')")
                home.sync(server.url, token=server.writer)
                until(lambda: "from home" in shown)
                later, before = len(failed) + 1, len(changes)
                until(lambda: len(failed) > later)
                self.assertEqual(len(changes), before, "a round that brings nothing tells of no change")
                self.assertEqual({type(e) for e in failed}, {synqlite.RefusedError})
                tokens.append(server.writer)
                until(lambda: watch.state.online and watch.state.pending == 0)
                self.execute(Path(home.path), "INSERT INTO todo(title) VALUES('late')")
                home.sync(server.url, token=server.writer)
                until(lambda: "late" in shown)

    def test_without_on_error_failures_are_logged(self) -> None:
        home = self.init("home.db")
        with self.assertLogs("synqlite", "WARNING") as logged, home.watch(interval=600) as watch:
            until(lambda: watch.state.error)
            until(lambda: len(logged.output) >= 2)
        self.assertIn("no remote called origin", logged.output[0])
        self.assertIn("after 2 attempts", logged.output[1])

    def test_callbacks_that_fail_do_not_end_it(self) -> None:
        home, laptop = self.pair()
        calls: list[object] = []

        def fail(what: object) -> None:
            calls.append(what)
            raise SystemExit("the callback is wrong")

        with self.assertLogs("synqlite", "ERROR") as logged:
            with home.watch(interval=0.2, on_sync=fail):
                until(lambda: len(calls) >= 2)
            with laptop.watch("nowhere", interval=0.2, on_error=fail):
                until(lambda: any(isinstance(call, synqlite.RefusedError) for call in calls))
        self.assertIn("the callback is wrong", logged.output[0])

    def test_a_locked_file_is_tried_again(self) -> None:
        home, laptop = self.pair()
        program = sqlite3.connect(home.path)
        program.execute("INSERT INTO todo(title) VALUES('tea')")
        with self.open(Path(home.path), timeout=1).watch(interval=600, on_error=lambda _: None) as watch:
            until(lambda: isinstance(watch.state.error, synqlite.LockedError))
            program.commit()
            until(lambda: watch.state.online and watch.state.pending == 0)
            self.assertEqual(laptop.pull().merged.inserted, 1)
        program.close()

    def test_a_file_that_vanishes_and_comes_back(self) -> None:
        home, laptop = self.pair()
        with home.watch(interval=0.3, on_error=lambda _: None) as watch:
            until(lambda: watch.state.online)
            os.rename(home.path, self.dir / "away.db")
            until(lambda: watch.state.error)
            self.assertIn("there is no database", str(watch.state.error))
            os.rename(self.dir / "away.db", home.path)
            until(lambda: watch.state.error is None)
            self.execute(Path(home.path), "INSERT INTO todo(title) VALUES('tea')")
            until(lambda: laptop.pull().merged.inserted == 1)

    def test_writes_to_a_file_that_was_replaced_are_noticed(self) -> None:
        home, laptop = self.pair()
        results: list[synqlite.SyncResult] = []
        with home.watch(interval=600, on_sync=results.append):
            until(lambda: results)
            time.sleep(3 * watching.SLICE)
            shutil.copy(home.path, self.dir / "copy.db")
            command("init", "--new-site", str(self.dir / "copy.db"))
            os.replace(self.dir / "copy.db", home.path)
            time.sleep(3 * watching.SLICE)
            self.execute(Path(home.path), "INSERT INTO todo(title) VALUES('tea')")
            until(lambda: laptop.pull().merged.inserted == 1)

    def test_it_can_be_stopped_at_any_time(self) -> None:
        home, _ = self.pair()
        stopped: list[bool] = []

        def stop(_: object) -> None:
            watch.stop()
            stopped.append(True)

        watch = home.watch(interval=600)
        watch.stop()
        watch.stop()
        watch = home.watch(interval=0.1, on_sync=stop)
        until(lambda: stopped)
        time.sleep(0.5)
        self.assertEqual(stopped, [True])
        pausing = home.watch("nowhere", interval=600, on_error=lambda _: None)
        until(lambda: pausing.state.error)
        began = time.monotonic()
        pausing.stop()
        self.assertLess(time.monotonic() - began, 5)

    def test_closing_a_replica_stops_its_watches(self) -> None:
        home, _ = self.pair()
        rounds: list[synqlite.SyncResult] = []
        with home:
            home.watch(interval=0.1, on_sync=rounds.append)
            until(lambda: len(rounds) >= 2)
        after = len(rounds)
        time.sleep(0.5)
        self.assertEqual(len(rounds), after)

    def test_an_interval_of_nothing_is_refused(self) -> None:
        home, _ = self.pair()
        for interval in (0, -1, float("nan")):
            with self.assertRaises(synqlite.UsageError):
                home.watch(interval=interval)


class WatchesByCommand(ByCommand, Watches):
    pass


class WatchesByExtension(ByExtension, Watches):
    pass


class Pauses(unittest.TestCase):
    def test_they_double_up_to_the_longest_and_differ(self) -> None:
        first, longest = watching.PAUSES
        for failures in range(1, 200):
            expected = min(longest, first * 2 ** (failures - 1))
            drawn = [watching._pause(failures) for _ in range(20)]
            self.assertTrue(all(expected / 2 <= pause <= expected for pause in drawn), (failures, drawn))
            self.assertGreater(len(set(drawn)), 1)

    def test_a_round_is_begun_at_the_interval_though_nothing_can_be_looked_at(self) -> None:
        """The file cannot be opened to see commits, and the status cannot be told: rounds go on."""
        rounds: list[float] = []
        sync = counting(rounds)
        failing = mock.Mock(return_value=mock.Mock(wait=mock.Mock(side_effect=OSError("no"))))
        for waits in (mock.Mock(side_effect=OSError("no")), failing):
            rounds.clear()
            watch = make(sync, waits, interval=0.2)
            until(lambda: len(rounds) >= 3)
            watch.stop()
            self.assertTrue(all(b - a >= 0.19 for a, b in zip(rounds, rounds[1:])))

    def test_a_failed_round_after_which_nothing_is_known_may_have_changed_rows(self) -> None:
        for marks in ([1, 2], [1, OSError("replaced")], [OSError("locked"), 1]):
            changes: list[int] = []
            waits = waiting("time")
            waits.return_value.mark.side_effect = marks
            failing = mock.Mock(side_effect=synqlite.NetworkError("away"))
            watch = make(failing, waits, interval=600, on_change=lambda: changes.append(1))
            until(lambda: changes)
            watch.stop()

    def test_a_file_that_nobody_writes_to_is_looked_at_once(self) -> None:
        status = mock.Mock(return_value=mock.Mock(unfolded=0, remotes=()))
        waits = waiting("commit")
        watch = make(mock.Mock(), waits, interval=600, status=status)
        until(lambda: waits.return_value.wait.call_count >= 5)
        watch.stop()
        self.assertEqual(status.call_count, 1)
        waits.return_value.close.assert_called_once()

    def test_a_write_is_not_forgotten_because_it_could_not_be_counted_at_once(self) -> None:
        rounds: list[float] = []
        sync = counting(rounds)
        status = mock.Mock(side_effect=[OSError("locked"), mock.Mock(unfolded=1, remotes=())])
        watch = make(sync, waiting("commit"), interval=600, status=status)
        until(lambda: len(rounds) == 2)
        watch.stop()

    def test_news_of_a_hub_begins_a_round_though_nothing_was_written(self) -> None:
        sync = mock.Mock()
        status = mock.Mock(return_value=mock.Mock(unfolded=0, remotes=()))
        waits = waiting("remote")
        watch = make(sync, waits, interval=600, status=status)
        until(lambda: sync.call_count == 2)
        watch.stop()
        waits.return_value.wait.assert_called_with(mock.ANY, "origin", "secret")


def counting(rounds: list[float]) -> mock.Mock:
    """A sync that notes when it was called."""

    def sync(_: object) -> mock.Mock:
        rounds.append(time.monotonic())
        return mock.Mock()

    return mock.Mock(side_effect=sync)


def waiting(first: str) -> mock.Mock:
    """Wakes once, and then only because of the time."""
    answers = [{"woke": first}]

    def wait(seconds: float, *_: object) -> dict[str, str]:
        if answers:
            return answers.pop()
        time.sleep(min(seconds, 0.01))
        return {"woke": "time"}

    return mock.Mock(return_value=mock.Mock(wait=mock.Mock(side_effect=wait)))


def make(
    sync: Callable[[Optional[str]], synqlite.SyncResult],
    waits: Callable[[], Waits],
    interval: float,
    status: Callable[[], synqlite.Status] = mock.Mock(side_effect=OSError("no")),
    on_change: Optional[Callable[[], object]] = None,
) -> synqlite.Watch:
    return synqlite.Watch(
        sync=sync,
        status=status,
        waits=waits,
        token=lambda: "secret",
        remote=None,
        name="a test",
        interval=interval,
        on_sync=None,
        on_change=on_change,
        on_error=None,
    )


del Watches

if __name__ == "__main__":
    unittest.main()
