"""The coroutines: the same answers, and an event loop that goes on."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
import logging
import sqlite3
import threading
import unittest
from pathlib import Path
from typing import Union
from unittest import mock

import synqlite
from synqlite import aio

from .support import ByCommand, ByExtension, Sites, until


class Coroutines(Sites):
    def test_they_do_what_the_methods_do(self) -> None:
        async def run() -> None:
            home = await aio.init(self.database("home.db"), policies={"merge": "whole"}, backend=self.backend)
            await home.add_remote("origin", self.folder())
            self.assertEqual((await home.push()).sent.rows, 2)
            laptop = await aio.clone(self.folder(), self.dir / "laptop.db", backend=self.backend)
            self.execute(Path(home.path), "INSERT INTO todo(title) VALUES('tea')")
            self.assertEqual((await home.status()).unfolded, 1)
            self.assertEqual((await home.fold()).rows, 1)
            await home.sync()
            self.execute(Path(laptop.path), "INSERT INTO todo(title) VALUES('tea')")
            self.assertEqual((await laptop.pull(whole=True)).conflicts, 1)
            (conflict,) = await laptop.conflicts()
            self.assertEqual((await laptop.settle(conflict.id, "discard")).open, 0)
            self.assertEqual((await laptop.closed_conflicts())[0].how, "discard")
            await laptop.sync()
            await home.sync()
            self.assertEqual(await home.digest(), await laptop.digest())
            self.assertTrue((await home.verify(full=True)).ok)
            self.assertEqual(await home.policies(), {"merge": "whole"})
            self.assertEqual((await home.set_policy("fk", "ignore"))["fk"], "ignore")
            self.assertEqual(len(await home.log(limit=1)), 1)
            self.assertEqual([r.name for r in await home.remotes()], ["origin"])
            self.assertEqual(await home.remove_remote("origin"), ())
            async with await aio.open(home.path, backend=self.backend) as again:
                self.assertEqual((again.path, again.backend), (home.path, self.backend))
            with self.assertRaises(synqlite.RefusedError):
                await aio.open(self.dir / "absent.db", backend=self.backend)

        asyncio.run(run())

    def test_the_loop_goes_on_while_a_sync_waits(self) -> None:
        home, _ = self.pair()
        program = sqlite3.connect(home.path)
        program.execute("INSERT INTO todo(title) VALUES('tea')")

        async def run() -> int:
            replica = await aio.open(home.path, timeout=10, backend=self.backend)
            sync = asyncio.create_task(replica.sync())
            beats = 0
            while not sync.done():
                await asyncio.sleep(0.01)
                beats += 1
                if beats == 50:
                    program.commit()
            self.assertEqual((await sync).sent.rows, 1)
            return beats

        self.assertGreaterEqual(asyncio.run(run()), 50)
        program.close()

    def test_a_watch_calls_back_in_the_loop(self) -> None:
        home, laptop = self.pair()
        self.execute(Path(home.path), "INSERT INTO todo(title) VALUES('tea')")
        threads: set[object] = set()

        async def run() -> None:
            replica = await aio.open(home.path, backend=self.backend)
            came, changed, failed = asyncio.Event(), asyncio.Event(), asyncio.Event()

            def on_sync(result: synqlite.SyncResult) -> None:
                threads.add(threading.current_thread())
                came.set()

            def on_change() -> None:
                threads.add(threading.current_thread())
                changed.set()

            def on_error(e: Exception) -> None:
                threads.add(threading.current_thread())
                self.assertIsInstance(e, synqlite.RefusedError)
                failed.set()

            self.execute(Path(laptop.path), "INSERT INTO todo(title) VALUES('rice')")
            laptop.push()
            async with replica.watch(interval=600, on_sync=on_sync, on_change=on_change) as watch:
                await asyncio.wait_for(came.wait(), 15)
                await asyncio.wait_for(changed.wait(), 15)
                self.assertTrue(watch.state.online)
            async with replica.watch("nowhere", interval=600, on_error=on_error):
                await asyncio.wait_for(failed.wait(), 15)

        asyncio.run(run())
        self.assertEqual(threads, {threading.main_thread()})
        self.assertEqual(laptop.pull().merged.inserted, 1)

    def test_a_callback_may_be_a_coroutine(self) -> None:
        home, _ = self.pair()
        told: list[object] = []

        async def run() -> None:
            came = asyncio.Event()

            async def on_sync(result: synqlite.SyncResult) -> None:
                await asyncio.sleep(0)
                told.append(threading.current_thread())
                came.set()

            replica = await aio.open(home.path, backend=self.backend)
            async with replica.watch(interval=600, on_sync=on_sync):
                await asyncio.wait_for(came.wait(), 15)

        asyncio.run(run())
        self.assertEqual(told, [threading.main_thread()])

    def test_what_is_cancelled_twice_ends_all_the_same(self) -> None:
        home, _ = self.pair()

        async def run() -> None:
            replica = await aio.open(home.path, backend=self.backend)

            async def work(begun: Union[aio.Live, aio.Watch]) -> None:
                async with begun:
                    await asyncio.sleep(100)

            query = "SELECT * FROM todo"
            connect = functools.partial(sqlite3.connect, home.path, check_same_thread=False)
            for _ in range(4):
                for begun in (
                    replica.watch(interval=0.1),
                    replica.live(query, on_change=lambda _: None, connect=connect),
                ):
                    task = asyncio.create_task(work(begun))
                    await asyncio.sleep(0)
                    task.cancel()
                    await asyncio.sleep(0)
                    task.cancel()
                    with contextlib.suppress(asyncio.CancelledError):
                        await task

        asyncio.run(run())
        until(lambda: not any(home.path in thread.name for thread in threading.enumerate()))

    def test_a_watch_that_outlives_its_loop_goes_on(self) -> None:
        home, _ = self.pair()
        plain = synqlite.open(home.path, backend=self.backend)

        async def run() -> aio.Watch:
            return aio.Replica(plain).watch(interval=0.1, on_sync=lambda _: None)

        with mock.patch.object(logging.getLogger("synqlite"), "exception") as complained:
            watch = asyncio.run(run())
            first = watch.state.last_sync
            until(lambda: watch.state.last_sync != first)
            again = watch.state.last_sync
            until(lambda: watch.state.last_sync != again)
            plain.close()
        complained.assert_not_called()


class Names(unittest.TestCase):
    def test_both_have_the_same_methods_with_the_same_arguments(self) -> None:
        def public(of: object) -> dict[str, object]:
            named = {n: f for n, f in vars(of).items() if not n.startswith("_") and callable(f)}
            return {n: list(inspect.signature(f).parameters) for n, f in named.items()}

        self.assertEqual(public(aio.Replica), public(synqlite.Replica))
        for name in ("open", "init", "clone"):
            mine, theirs = getattr(aio, name), getattr(synqlite, name)
            self.assertEqual(
                inspect.signature(mine).replace(return_annotation=None),
                inspect.signature(theirs).replace(return_annotation=None),
            )
            self.assertTrue(inspect.iscoroutinefunction(mine))


class CoroutinesByCommand(ByCommand, Coroutines):
    pass


class CoroutinesByExtension(ByExtension, Coroutines):
    pass


del Coroutines

if __name__ == "__main__":
    unittest.main()
