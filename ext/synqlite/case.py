"""What the checks of the extension stand on: connections that load it, replicas, and what must hold of them.

The first argument of whoever runs them is the extension; see check.py.
"""

import json
import os
import random
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
import unittest

EXTENSION = os.path.abspath(sys.argv[1]) if len(sys.argv) > 1 else sys.exit("say which extension: python3 check.py EXTENSION")
COMMAND = os.environ.get("SYNQLITE_COMMAND")
SEED = int(os.environ.get("SYNQLITE_SEED", "0")) or random.randrange(1, 1 << 30)
KINDS = "refused|usage|locked|network|conflict|damaged|defect"
SCHEMA = """
    CREATE TABLE person(id INTEGER PRIMARY KEY, name TEXT NOT NULL, email TEXT UNIQUE);
    CREATE TABLE note(id INTEGER PRIMARY KEY, person INT NOT NULL REFERENCES person(id) ON DELETE CASCADE,
        body TEXT, stars INT DEFAULT 0 CHECK(stars BETWEEN 0 AND 5));
    INSERT INTO person(name, email) VALUES('Ann', 'ann@example.org'), ('Bob', 'bob@example.org');
    INSERT INTO note(person, body) VALUES(1, 'first');
"""
# What a process of its own begins with: connections of either library.
PRELUDE = """
import ctypes, json, sqlite3, sys
def loaded(db):
    db.enable_load_extension(True)
    db.load_extension(sys.argv[1])
    return db
def stock(name):
    return loaded(sqlite3.connect(f"{sys.argv[2]}/{name}", isolation_level=None))
def other(name):
    import apsw
    return loaded(apsw.Connection(f"{sys.argv[2]}/{name}"))
def ask(db, sql, *arguments):
    return json.loads(list(db.execute("SELECT " + sql, arguments))[0][0])
"""
if os.path.isdir("/dev/shm"):
    tempfile.tempdir = "/dev/shm"


def load(db):
    db.enable_load_extension(True)
    db.load_extension(EXTENSION)
    return db


def ask(db, sql, *arguments):
    return json.loads(db.execute(f"SELECT {sql}", arguments).fetchone()[0])


def rows(db, sql, *arguments):
    return db.execute(sql, arguments).fetchall()


def needs_apsw(test):
    """Skips a test where there is no SQLite beside this Python's."""
    try:
        import apsw
    except ImportError:
        return unittest.skip("apsw is missing")(test)
    return unittest.skipUnless(apsw.using_amalgamation, "this apsw uses the system's SQLite")(test)


def in_both_modes(test):
    """Runs a test in WAL and in DELETE mode, each in an empty folder."""
    def run(self):
        for mode in "wal", "delete":
            with self.subTest(mode):
                shutil.rmtree(self.folder)
                os.mkdir(self.folder)
                test(self, mode)
    run.__doc__ = test.__doc__
    return run


class Case(unittest.TestCase):
    """A test with a folder and connections of its own."""

    def setUp(self):
        self.folder, self.open = tempfile.mkdtemp(prefix="synqlite-check-"), []

    def tearDown(self):
        for db in self.open:
            db.close()
        shutil.rmtree(self.folder)

    def at(self, name):
        return f"{self.folder}/{name}"

    def connect(self, name, **more):
        path = name if ":" in name else self.at(name)
        db = sqlite3.connect(path, isolation_level=None, timeout=30, check_same_thread=False, **more)
        self.open.append(db)
        db.execute("PRAGMA foreign_keys = ON")
        return load(db)

    def replica(self, mode="delete"):
        db = self.connect("home.db")
        db.execute(f"PRAGMA journal_mode = {mode}")
        db.executescript(SCHEMA)
        ask(db, "synqlite_init()")
        return db

    def pair(self, mode="delete"):
        """A replica, and a clone of it."""
        home = self.replica(mode)
        ask(home, "synqlite_clone(?, ?)", self.at("home.db"), self.at("laptop.db"))
        laptop = self.connect("laptop.db")
        laptop.execute(f"PRAGMA journal_mode = {mode}")
        return home, laptop

    def disagree(self, mode="delete"):
        """A pair that is synchronized and has three open conflicts."""
        home, laptop = self.pair(mode)
        for n in range(3):
            for db, name in (home, "Eve"), (laptop, "Joe"):
                db.execute("INSERT INTO person(name, email) VALUES(?, ?)", [name, f"{n}@example.org"])
                time.sleep(0.002)
        self.assertEqual(ask(laptop, "synqlite_sync()")["conflicts"], 3)
        return home, laptop

    def message(self, db, sql, *arguments):
        """What SQLite says of a statement that fails."""
        with self.assertRaises(sqlite3.Error) as caught:
            db.execute(sql, arguments).fetchall()
        return str(caught.exception)

    def refused(self, db, kind, what, sql, *arguments):
        """The call fails with `synqlite: KIND: …`, in one line that says `what`."""
        sql = sql if sql.startswith("SELECT") else f"SELECT {sql}"
        text = self.message(db, sql, *arguments)
        self.assertRegex(text, rf"^synqlite: ({KINDS}): \S[^\n]*$")
        self.assertEqual(text.split(": ")[1], kind, text)
        self.assertIn(what, text)

    def same(self, *dbs):
        """All show the same rows, and every constraint holds."""
        digests = [ask(db, "synqlite_digest()")["digest"] for db in dbs]
        self.assertEqual(len(set(digests)), 1, digests)
        shown = [[rows(db, f"SELECT * FROM {table} ORDER BY id") for table in ("person", "note")] for db in dbs]
        self.assertEqual(shown, shown[:1] * len(dbs))
        for db in dbs:
            checks = rows(db, "PRAGMA foreign_key_check") + rows(db, "PRAGMA integrity_check")
            self.assertEqual(checks, [("ok",)])
            self.assertEqual(ask(db, "synqlite_verify(1)"), {"ok": True, "problems": []})

    def python(self, code, *arguments):
        """Runs code in a process of its own; what it prints, in lines."""
        command = [sys.executable, "-c", PRELUDE + code, EXTENSION, self.folder, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, f"status {done.returncode}: {done.stderr}")
        return done.stdout.splitlines()
