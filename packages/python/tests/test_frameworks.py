"""The helpers for SQLAlchemy and Django, with the real ones: those of this Python, else in an environment of
their own.

Skipped, with the reason, where they cannot be installed.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import tempfile
import unittest
import venv
from pathlib import Path
from typing import ClassVar, Optional

import synqlite
from synqlite import _files

SOURCE = Path(synqlite.__file__).resolve().parent.parent

ALCHEMY = """
import synqlite
from sqlalchemy import String, create_engine, create_mock_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column
from synqlite.sqlalchemy import init, open

class Base(DeclarativeBase): pass

class Todo(Base):
    __tablename__ = "todo"
    id: Mapped[int] = mapped_column(primary_key=True)
    title: Mapped[str] = mapped_column(String)

engine = create_engine("sqlite:///home.db")
Base.metadata.create_all(engine)
home = init(engine)
laptop = synqlite.clone("home.db", "laptop.db")
with Session(engine) as session:
    session.add(Todo(title="milk"))
    session.flush()
    try:
        open(engine, timeout=1).sync("laptop.db")
        raise SystemExit("a session that is not committed was synchronized")
    except synqlite.LockedError as e:
        assert "commit" in e.hint, e
    session.commit()
assert open(engine).sync("laptop.db").sent.rows == 1
with Session(create_engine("sqlite:///file:laptop.db?uri=true")) as session:
    assert [todo.title for todo in session.query(Todo)] == ["milk"]
    assert open(session.get_bind()).path == laptop.path
for wrong in (create_engine("sqlite://"), create_mock_engine("postgresql://", None)):
    try:
        open(wrong)
        raise SystemExit(f"{wrong} is no file")
    except synqlite.UsageError as e:
        assert "sqlite:///app.db" in str(e)
with engine.connect() as connection, Session(engine) as session:
    for wrong, hint in (
        (connection, "connection.engine"),
        (session, "session.get_bind()"),
        ("sqlite:///home.db", "create_engine"),
        (type("AsyncEngine", (), {"sync_engine": engine})(), "run_sync"),
    ):
        for function in (init, open):
            try:
                function(wrong)
                raise SystemExit(f"{wrong} is no engine")
            except synqlite.UsageError as e:
                assert hint in e.hint and type(wrong).__name__ in e.message, e
import sqlite3, types
other = types.ModuleType("a driver with a SQLite of its own")
vars(other).update({n: v for n, v in vars(sqlite3).items() if not n.startswith("__")})
other.Connection = type("Connection", (sqlite3.Connection,), {})
assert open(create_engine("sqlite:///home.db", module=other)).backend == "command"
print(home.backend)
"""

DJANGO = """
import django, synqlite
from django.conf import settings

def sqlite(name):
    return {"ENGINE": "django.db.backends.sqlite3", "NAME": name}

settings.configure(
    DATABASES={"default": sqlite("home.db"), "laptop": sqlite("laptop.db"), "memory": sqlite(":memory:")},
    INSTALLED_APPS=["django.contrib.contenttypes", "django.contrib.auth"],
)
django.setup()
from django.contrib.auth.models import Group
from django.core.management import call_command
from django.db import transaction
from synqlite.django import init, open

call_command("migrate", verbosity=0)
home = init()
synqlite.clone("home.db", "laptop.db")
Group.objects.create(name="editors")
with transaction.atomic():
    Group.objects.create(name="readers")
    try:
        open(timeout=1).sync("laptop.db")
        raise SystemExit("a transaction that is open was synchronized")
    except synqlite.LockedError:
        pass
laptop = open("laptop")
assert laptop.sync().merged.inserted == 2
assert sorted(g.name for g in Group.objects.using("laptop")) == ["editors", "readers"]
Group.objects.using("laptop").filter(name="editors").delete()
laptop.sync()
assert [g.name for g in Group.objects.all()] == ["readers"]
assert home.digest() == laptop.digest() and home.verify().ok
from django.db import connections
connections["laptop"].Database = type("Driver", (), {"Connection": object})
assert open("laptop").backend == "command"
try:
    open("memory")
    raise SystemExit("a database in memory is no replica")
except synqlite.UsageError:
    pass
print(home.backend)
"""


class Frameworks(unittest.TestCase):
    dir: ClassVar[Path]
    python: ClassVar[str]

    @classmethod
    def setUpClass(cls) -> None:
        if all(importlib.util.find_spec(name) for name in ("sqlalchemy", "django")):
            cls.python = sys.executable
            return
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.dir = Path(folder.name)
        reason = cls.missing()
        if reason is not None:
            print(f"skipped: {cls.__name__}: {reason}", file=sys.stderr)
            raise unittest.SkipTest(reason)

    @classmethod
    def missing(cls) -> Optional[str]:
        if importlib.util.find_spec("ensurepip") is None:
            return "this Python has no pip"
        venv.create(cls.dir / "venv", with_pip=True)
        cls.python = str(cls.dir / "venv/bin/python")
        words = [
            cls.python,
            "-m",
            "pip",
            "install",
            "--quiet",
            "sqlalchemy>=2",
            "django>=4.2",
        ]
        done = subprocess.run(words, capture_output=True, text=True)
        return None if done.returncode == 0 else f"pip says: {done.stderr.strip()[-200:]}"

    def run_program(self, program: str) -> None:
        with tempfile.TemporaryDirectory() as place:
            done = subprocess.run(
                [self.python, "-W", "error::ResourceWarning", "-c", program],
                cwd=place,
                env={**os.environ, "PYTHONPATH": str(SOURCE)},
                capture_output=True,
                text=True,
            )
        self.assertEqual(done.returncode, 0, done.stderr)
        can_load = hasattr(__import__("sqlite3").Connection, "enable_load_extension")
        expected = "extension" if can_load and _files.extension() else "command"
        self.assertEqual(done.stdout.strip(), expected)

    def test_sqlalchemy(self) -> None:
        self.run_program(ALCHEMY)

    def test_sqlalchemy_of_an_earlier_release(self) -> None:
        with tempfile.TemporaryDirectory() as place:
            (Path(place) / "sqlalchemy.py").write_text("__version__ = '1.4.54'")
            done = subprocess.run(
                [self.python, "-c", "import synqlite.sqlalchemy"],
                env={**os.environ, "PYTHONPATH": os.pathsep.join([place, str(SOURCE)])},
                capture_output=True,
                text=True,
            )
        self.assertIn("ImportError: synqlite.sqlalchemy needs SQLAlchemy 2.0 or later", done.stderr)

    def test_django(self) -> None:
        self.run_program(DJANGO)


if __name__ == "__main__":
    unittest.main()
