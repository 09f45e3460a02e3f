"""What the tests share: folders of their own, programs that write with plain `sqlite3`, a hub.

The command is the one that SYNQLITE_COMMAND names or that lies in the package; without it every test fails.
The extension may be absent, or this Python unable to load one: then its tests are skipped, and say why.
"""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import tempfile
import time
import unittest
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Callable, Optional

import synqlite
from synqlite import _files
from synqlite._backend import Name
from synqlite._extension import why_not

SCHEMA = """
    CREATE TABLE todo(id INTEGER PRIMARY KEY, title TEXT NOT NULL UNIQUE, done INT DEFAULT 0);
    INSERT INTO todo(title) VALUES('milk'), ('rent');
"""


def command(*arguments: str) -> Any:
    """What the command answers, for what the package has no method for."""
    program = _files.command()
    assert program is not None, "set SYNQLITE_COMMAND to the command"
    done = subprocess.run([program, *arguments, "--json"], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def until(what: Callable[[], object], seconds: float = 15.0) -> None:
    """Waits until it holds."""
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, f"it did not come to hold within {seconds} s"
        time.sleep(0.02)


class InFolder(unittest.TestCase):
    """A folder of its own for each test."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.dir = Path(folder.name).resolve()

    def execute(self, path: Path, sql: str) -> list[Any]:
        """What a program does that knows nothing of this package."""
        connection = sqlite3.connect(path)
        try:
            with connection:
                return connection.execute(sql).fetchall()
        finally:
            connection.close()

    def database(self, name: str) -> Path:
        path = self.dir / name
        connection = sqlite3.connect(path)
        connection.executescript(SCHEMA)
        connection.close()
        return path


class Sites(InFolder):
    """Replicas, by one of the backends. Subclasses say which."""

    backend: Name

    def init(self, name: str, **options: Any) -> synqlite.Replica:
        return synqlite.init(self.database(name), backend=self.backend, **options)

    def clone(self, remote: str, name: str, **options: Any) -> synqlite.Replica:
        return synqlite.clone(remote, self.dir / name, backend=self.backend, **options)

    def open(self, path: Path, **options: Any) -> synqlite.Replica:
        return synqlite.open(path, backend=self.backend, **options)

    def folder(self) -> str:
        return (self.dir / "shared").as_uri() + "/"

    def pair(self) -> tuple[synqlite.Replica, synqlite.Replica]:
        """Two replicas of one database, which meet in a folder that both call origin."""
        home = self.init("home.db")
        home.add_remote("origin", self.folder())
        home.sync()
        return home, self.clone(self.folder(), "laptop.db")

    def converge(self, one: synqlite.Replica, other: synqlite.Replica) -> None:
        for replica in (one, other, one, other):
            replica.sync()
        self.assertEqual(one.digest(), other.digest())

    def rows(self, replica: synqlite.Replica) -> list[Any]:
        return self.execute(Path(replica.path), "SELECT id, title, done FROM todo ORDER BY id")


class ByCommand:
    """The tests, by the command."""

    backend: Name = "command"


class ByExtension:
    """The tests, by the extension; skipped where it is not, or cannot be loaded."""

    backend: Name = "extension"

    @staticmethod
    def missing() -> Optional[str]:
        """Why it cannot be used here, if it cannot."""
        file = _files.extension()
        return "SYNQLITE_EXTENSION is not set" if file is None else why_not(file)

    @classmethod
    def setUpClass(cls) -> None:
        reason = cls.missing()
        if reason is not None:
            print(f"skipped: {cls.__name__}: {reason}", file=sys.stderr)
            raise unittest.SkipTest(reason)


class Hub:
    """A hub, which a test may stop and start again at the same address."""

    def __init__(self, store: Path) -> None:
        self._store = store
        self._process: Optional[subprocess.Popen[str]] = None
        self._address = "127.0.0.1:0"
        # A hub that runs takes up to a second to notice a new one.
        self.writer, self.reader = self._token("write"), self._token("read")

    @property
    def url(self) -> str:
        return f"http://{self._address}/notes"

    def _token(self, scope: str) -> str:
        answer = command("token", "create", f"--store={self._store}", "--database=notes", f"--scope={scope}")
        return str(answer["token"])

    def start(self) -> None:
        program = _files.command()
        assert program is not None
        words: list[Path | str] = [
            program,
            "serve",
            f"--store={self._store}",
            f"--listen={self._address}",
            "--log=error",
        ]
        self._process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self._address = self._process.stdout.readline().strip().rpartition("/")[2]

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.communicate()
            self._process = None


@contextmanager
def hub(folder: Path) -> Iterator[Hub]:
    """A hub that runs."""
    found = Hub(folder / "hub")
    found.start()
    try:
        yield found
    finally:
        found.stop()


@contextmanager
def environment(**variables: Optional[str]) -> Iterator[None]:
    """With these variables set, or unset where None."""
    before = {name: os.environ.get(name) for name in variables}

    def put(values: dict[str, Optional[str]]) -> None:
        for name, value in values.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value

    put(variables)
    try:
        yield
    finally:
        put(before)
