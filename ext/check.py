"""The extension in a stock SQLite that this Python or the sqlite3 shell brings.

    python3 ext/check.py EXTENSION [RUNS] [SECONDS]

1. Random statements, savepoints, VACUUM, spills and several databases: the same answers as on
   SQLite's own file system, in this Python and in the shell (RUNS histories).
2. Writers that are killed beside readers, in every mode that allows several: nothing acknowledged
   is lost, no reader sees half a transaction, nobody is blocked (SECONDS for each mode).
3. Commits of two databases that are killed: both have them or neither.
"""

import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time

EXTENSION = os.path.abspath(sys.argv[1])
WRITER = sys.argv[2:3] == ["write"]
RUNS = int(sys.argv[2]) if len(sys.argv) > 2 and not WRITER else 40
SECONDS = float(sys.argv[3]) if len(sys.argv) > 3 and not WRITER else 2
SEED = int(os.environ.get("SYNQLITE_SEED", "0"))
if os.path.isdir("/dev/shm"):
    tempfile.tempdir = "/dev/shm"


def load():
    """Makes vfs=dash known to this process."""
    db = sqlite3.connect(":memory:")
    if not hasattr(db, "enable_load_extension"):
        sys.exit(f"{sys.executable} was built without extensions; try /usr/bin/python3")
    db.enable_load_extension(True)
    db.load_extension(EXTENSION)


def connect(path, mode=None, **more):
    """A connection, on vfs=dash if a mode is given."""
    uri = f"file:{path}" + (f"?vfs=dash&dash={mode}" if mode else "")
    return sqlite3.connect(uri, uri=True, isolation_level=None, timeout=30, **more)


def statement(draw):
    """A random statement on main and other."""
    schema = draw.choice(["main", "other"])
    table, key = f"{schema}.t{draw.randrange(2)}", draw.randrange(60)
    text = f"printf('%.*c', {draw.randrange(900)}, 'x') || {draw.randrange(1000)}"
    return draw.choice([
        "BEGIN", "BEGIN", "COMMIT", "COMMIT", "ROLLBACK",
        f"SAVEPOINT s{draw.randrange(3)}",
        f"ROLLBACK TO s{draw.randrange(3)}",
        f"RELEASE s{draw.randrange(3)}",
        f"VACUUM {schema}",
        f"PRAGMA {schema}.page_size = {512 << draw.randrange(5)}",
        f"PRAGMA {schema}.auto_vacuum = {draw.randrange(3)}",
        f"PRAGMA {schema}.incremental_vacuum(3)",
        f"PRAGMA {schema}.journal_mode = {draw.choice(['delete', 'truncate', 'persist', 'memory'])}",
        f"PRAGMA {schema}.cache_size = {draw.choice([1, 5, 200])}",
        f"PRAGMA {schema}.synchronous = {draw.randrange(4)}",
        f"PRAGMA {schema}.integrity_check",
        f"CREATE TABLE IF NOT EXISTS {table}(a INTEGER PRIMARY KEY, b UNIQUE, c CHECK(c <> 7))",
        f"DROP TABLE IF EXISTS {table}" if draw.randrange(4) == 0 else "SELECT 1",
        f"DELETE FROM {table} WHERE a > {key}",
        f"UPDATE {table} SET b = b || 'y', c = a % {1 + key}",
        f"SELECT count(*), sum(a), min(c), max(b) FROM {table}",
        f"INSERT INTO other.t0 SELECT * FROM main.t0 WHERE a > {key}",
        f"WITH RECURSIVE n(i) AS (SELECT {key} UNION ALL SELECT i + 1 FROM n WHERE i < {key + 150}) "
        f"INSERT OR REPLACE INTO {table} SELECT i, i || {text}, i % 5 FROM n",
    ] + [f"INSERT INTO {table} VALUES({key}, {text}, {draw.randrange(9)})"] * 4)


def history(seed):
    draw = random.Random(seed)
    tables = [f"CREATE TABLE {s}.t{n}(a INTEGER PRIMARY KEY, b, c)" for s in ("main", "other")
              for n in (0, 1)]
    return tables + [statement(draw) for _ in range(150)] + ["COMMIT"]


def ask(db, sql):
    try:
        return db.execute(sql).fetchall()
    except sqlite3.Error as error:
        return str(error)


def in_python(folder, statements, mode):
    db = connect(f"{folder}/main.db", mode)
    other = f"file:{folder}/other.db" + (f"?vfs=dash&dash={mode}" if mode else "")
    db.execute("ATTACH ? AS other", [other])
    answers = [ask(db, sql) for sql in statements]
    db.close()
    return answers


def in_shell(folder, statements, mode):
    end = f"?vfs=dash&dash={mode}" if mode else "?vfs=unix"
    lines = [f".load {EXTENSION}", f".open file:{folder}/main.db{end}",
             f"ATTACH 'file:{folder}/other.db{end}' AS other;"]
    lines += [sql + ";" for sql in statements]
    done = subprocess.run(["sqlite3"], input="\n".join(lines), capture_output=True, text=True)
    return done.stdout, done.stderr


def dump(path):
    """What a stock program finds."""
    db = connect(path)
    assert ask(db, "PRAGMA integrity_check") == [("ok",)], path
    return list(db.iterdump())


def equal(run, host):
    for seed in range(SEED, SEED + RUNS):
        mode = ["strict", "fast", "shadow", "shadow-x"][seed % 4]
        with tempfile.TemporaryDirectory() as here, tempfile.TemporaryDirectory() as there:
            statements = history(seed)
            ours, theirs = run(here, statements, mode), run(there, statements, None)
            assert ours == theirs, f"{host}, seed {seed}, {mode}: {ours}\n\n{theirs}"
            for name in ("main.db", "other.db"):
                same = dump(f"{here}/{name}") == dump(f"{there}/{name}")
                assert same, f"{host}, seed {seed}, {mode}: {name}"
    print(f"{host}: {RUNS} histories have the same answers and leave the same databases")


def write(path, other, mode, name):
    """Counts up in one or two databases for ever, and notes what is acknowledged."""
    load()
    notes = open(f"{path}.{name}", "a", buffering=1)
    db = connect(path, mode)
    if other:
        db.execute("ATTACH ? AS other", [f"file:{other}?vfs=dash&dash={mode}"])
    while True:
        db.execute("BEGIN IMMEDIATE")
        n = db.execute("SELECT n FROM count WHERE name = ?", [name]).fetchone()[0] + 1
        db.execute("UPDATE count SET n = ?, pad = hex(randomblob(700)) WHERE name = ?", [n, name])
        db.execute("UPDATE total SET n = n + 1")
        if other:
            db.execute("UPDATE other.total SET n = n + 1")
        db.execute("COMMIT")
        notes.write(f"{n}\n")


def storm(mode, two):
    with tempfile.TemporaryDirectory() as folder:
        path, other = f"{folder}/app.db", f"{folder}/other.db" if two else ""
        names = ["a", "b", "c"]
        db = connect(path, mode)
        db.executescript("CREATE TABLE count(name, n, pad); CREATE TABLE total(n); "
                         "INSERT INTO total VALUES(0)")
        db.executemany("INSERT INTO count VALUES(?, 0, '')", [[name] for name in names])
        if two:
            db.execute("ATTACH ? AS other", [f"file:{other}?vfs=dash&dash={mode}"])
            db.executescript("CREATE TABLE other.total(n); INSERT INTO other.total VALUES(0)")
        def start(name):
            arguments = [sys.executable, __file__, EXTENSION, "write", path, other, mode, name]
            return subprocess.Popen(arguments, stderr=subprocess.DEVNULL)
        def look():
            sql = "SELECT (SELECT n FROM total), (SELECT sum(n) FROM count)"
            total, sums = db.execute(sql).fetchone()
            assert total == sums, f"{mode}: half a transaction, {total} and {sums}"
        draw, kills, looks = random.Random(SEED), 0, 0
        writers = {name: start(name) for name in names}
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            until = time.monotonic() + draw.uniform(0.1, 0.3)
            while time.monotonic() < until:
                look()
                looks += 1
                time.sleep(0.001)
            name = draw.choice(names)
            writers[name].send_signal(signal.SIGKILL)
            writers[name].wait()
            kills += 1
            writers[name] = start(name)
        for writer in writers.values():
            writer.kill()
            writer.wait()
        look()
        done = db.execute("SELECT n FROM total").fetchone()[0]
        if two:
            both = db.execute("SELECT n FROM other.total").fetchone()[0]
            assert both == done, f"{mode}: {done} in one database and {both} in the other"
        for name in names:
            notes = open(f"{path}.{name}").read().split() if os.path.exists(f"{path}.{name}") else []
            n = db.execute("SELECT n FROM count WHERE name = ?", [name]).fetchone()[0]
            acknowledged = int(notes[-1]) if notes else 0
            assert acknowledged <= n <= acknowledged + 1 + kills, f"{mode}: {name} {n} {acknowledged}"
        assert ask(db, "PRAGMA integrity_check") == [("ok",)]
        db.close()
        dump(path)
        what = "two databases" if two else "one database"
        print(f"{mode}, {what}: {kills} kills, {done} commits, {looks} looks, nothing lost")
        assert kills > 2 and done > 5


if WRITER:
    write(*sys.argv[3:7])
load()
print(f"SQLite {sqlite3.sqlite_version} of {sys.executable}")
equal(in_python, "Python")
equal(in_shell, "sqlite3")
for each in ("strict", "fast", "shadow"):
    storm(each, False)
    storm(each, True)
