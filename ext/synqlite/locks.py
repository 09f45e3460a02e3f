"""Two SQLite libraries in one process on one file, and the extension instead of the second.

    python3 ext/synqlite/locks.py EXTENSION [SECONDS]

A host writes with Python's sqlite3. Something else reads the same file in the same process: nothing,
apsw, which brings an SQLite of its own, or the extension. Another process tries to write. Each case
has a process and a folder of its own:

1. In a write transaction of the host something else reads the file. Is the other process still kept
   from writing, are the host's locks still there, is the row in the file after the commit?
2. The same between two transactions. Then 20 commits: are their rows in the file?
3. Both at random for SECONDS (3), while the other process writes too. Which of the rows that
   anybody was told are in the file are in it?

Ends with status 1 if the extension loses a row or a lock. For apsw: `pip install --target DIR apsw`,
and PYTHONPATH=DIR; without it the cases of two libraries are skipped.
"""

import json
import os
import random
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress

EXTENSION = os.path.abspath(sys.argv[1])
SEED = int(os.environ.get("SYNQLITE_SEED", "0"))
CALM = "PRAGMA synchronous = OFF"
if os.path.isdir("/dev/shm"):
    tempfile.tempdir = "/dev/shm"

# Another process. For each line that it is sent it tries once to write; or it writes for so many seconds.
OUTSIDER = """
import sqlite3, sys, time
path, seconds = sys.argv[1], float(sys.argv[2])
def write(db, name):
    db.execute("BEGIN IMMEDIATE")
    db.execute("INSERT INTO t(name, pad) VALUES(?, 'x')", [name])
    db.execute("COMMIT")
for line in sys.stdin if not seconds else ():
    db = sqlite3.connect(path, isolation_level=None, timeout=0)
    try:
        write(db, line.strip())
        print("writes", flush=True)
    except sqlite3.Error as error:
        print("refused" if "locked" in str(error) else error, flush=True)
    db.close()
if seconds:
    db = sqlite3.connect(path, isolation_level=None, timeout=30)
    db.execute("PRAGMA synchronous = OFF")
    end, n = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        try:
            write(db, f"outsider {n}")
            print(f"outsider {n}")
        except sqlite3.Error as error:
            print("error:", error)
            break
        n += 1
"""

# What is in the file, as a process sees it that has nothing to do with all this.
READER = """
import json, sqlite3, sys
db = sqlite3.connect(sys.argv[1])
try:
    names = [name for name, in db.execute("SELECT name FROM t WHERE name <> ''")]
    faults = [row for row, in db.execute("PRAGMA integrity_check")]
    print(json.dumps([names, "ok" if faults == ["ok"] else "damaged, integrity_check says"]))
except sqlite3.Error as error:
    print(json.dumps([[], str(error)]))
"""


def python(code, *arguments, **more):
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **more)


class Prober:
    """Another process that tries to write when asked."""

    def __init__(self, path):
        self.process, self.tries = python(OUTSIDER, path, 0, bufsize=1), 0

    def ask(self):
        """What it was answered, and which row it wrote if it did."""
        self.tries += 1
        name = f"prober {self.tries}"
        self.process.stdin.write(name + "\n")
        return self.process.stdout.readline().strip(), name


class Nothing:
    """Nobody else reads the file."""

    def __init__(self, path):
        self.path, self.calls = path, 0

    def inside(self, all):
        """What is done in a write transaction of the host."""

    def between(self, all):
        """What is done when none is open."""

    def begin(self, seconds):
        """What goes on meanwhile in another thread."""

    def end(self):
        """Last of all."""


class Second(Nothing):
    """An SQLite of its own in the same process."""

    def inside(self, all):
        import apsw

        self.calls += 1
        db = apsw.Connection(self.path)
        db.set_busy_timeout(0)
        with suppress(apsw.Error):
            list(db.execute("SELECT count(*) FROM t"))
        db.close()

    between = inside


class Extension(Nothing):
    """Calls of the extension, on two connections of the host's own library."""

    READS = [
        "SELECT synqlite_status()",
        "SELECT synqlite_digest()",
        "SELECT synqlite_log(5)",
        "SELECT synqlite_verify()",
        "SELECT synqlite_conflicts()",
        "SELECT count(*) FROM synqlite_log",
        "SELECT count(*) FROM synqlite_conflicts",
    ]
    WRITES = [
        "SELECT synqlite_fold()",
        "SELECT synqlite_sync(:peer)",
        "SELECT synqlite_push(:place)",
        "SELECT synqlite_pull(:place)",
        "SELECT synqlite_sync(:place)",
    ]

    def __init__(self, path):
        super().__init__(path)
        self.peer = f"{path}-peer"
        self.places = {"peer": self.peer, "place": f"file://{os.path.dirname(path)}/place/"}
        self.own, self.other, self.thread = self.connect(), self.connect(), None
        self.own.execute("SELECT synqlite_init()")
        self.own.execute("SELECT synqlite_clone(?, ?)", [path, self.peer])
        self.draw = random.Random(SEED)

    def connect(self):
        db = sqlite3.connect(self.path, isolation_level=None, timeout=30, check_same_thread=False)
        db.enable_load_extension(True)
        db.load_extension(EXTENSION)
        return db

    def call(self, db, sql):
        self.calls += 1
        return db.execute(sql, self.places if ":" in sql else {}).fetchall()

    def inside(self, all):
        for sql in self.READS if all else [self.draw.choice(self.READS)]:
            self.call(self.other, sql)
        # The connection that writes is told so.
        for sql in self.READS[:1] + self.WRITES[:2]:
            self.refused(self.host, sql, ["this connection is writing", "a transaction is open"])
        if all:
            self.calls += 1
            self.refused(self.other, """SELECT synqlite_fold('{"wait": 0}')""", ["is locked by another"])

    def refused(self, db, sql, why):
        try:
            self.call(db, sql)
        except sqlite3.OperationalError as error:
            if not any(each in str(error) for each in why):
                raise
        else:
            raise AssertionError(f"{sql} was not refused")

    def between(self, all):
        for sql in self.READS + self.WRITES if all else [self.draw.choice(self.READS + self.WRITES)]:
            self.call(self.host, sql)

    def begin(self, seconds):
        """Another thread synchronizes all the time."""
        db, end, draw = self.connect(), time.monotonic() + seconds, random.Random(SEED + 1)
        self.failed = []

        def run():
            while time.monotonic() < end:
                try:
                    self.call(db, draw.choice(self.READS + self.WRITES))
                except sqlite3.Error as error:
                    self.failed.append(str(error))
        self.thread = threading.Thread(target=run)
        self.thread.start()

    def end(self):
        if self.thread:
            self.thread.join()
            assert not self.failed, self.failed[:3]
        self.call(self.own, "SELECT synqlite_sync(:peer)")
        digest = self.call(self.own, "SELECT synqlite_digest()")
        self.own.execute("ATTACH ? AS peer", [self.peer])
        there = self.call(self.own, """SELECT synqlite_digest('{"schema": "peer"}')""")
        assert digest == there, "the peer shows other rows"
        problems = self.call(self.own, "SELECT synqlite_verify()")
        assert json.loads(problems[0][0])["ok"], problems


VISITORS = {"nothing": Nothing, "another SQLite": Second, "the extension": Extension}


def locks(path):
    """How many locks this process has on a database, or None where the system does not say."""
    try:
        lines = open("/proc/locks").read().splitlines()
    except OSError:
        return None
    files = [os.stat(each).st_ino for each in (path, path + "-shm") if os.path.exists(each)]
    held = [line for line in lines if f" {os.getpid()} " in line]
    return sum(any(f":{inode} " in line for inode in files) for line in held)


def case(folder, what, mode, name, seconds):
    """One case, in this process. A JSON text for the table."""
    path = f"{folder}/app.db"
    host = sqlite3.connect(path, isolation_level=None, timeout=30)
    host.execute(f"PRAGMA journal_mode = {mode}")
    host.execute(CALM)
    host.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, name, pad)")
    # Large enough that long reads copy the file.
    host.executemany("INSERT INTO t(name, pad) VALUES('', ?)", [["x" * 500]] * 1000)
    if name == "the extension":
        host.enable_load_extension(True)
        host.load_extension(EXTENSION)
    visitor = VISITORS[name](path)
    visitor.host = host
    prober, told, errors = Prober(path), [], {}

    def commit(names, visit):
        """A transaction of the host; its rows are told if it commits."""
        try:
            host.execute("BEGIN IMMEDIATE")
            for each in names:
                host.execute("INSERT INTO t(name, pad) VALUES(?, hex(randomblob(150)))", [each])
            visit()
            host.execute("COMMIT")
            told.extend(names)
        except sqlite3.Error as error:
            if str(error).startswith("synqlite:"):
                raise
            errors[str(error)] = errors.get(str(error), 0) + 1
            with suppress(sqlite3.Error):
                host.execute("ROLLBACK")

    def ask():
        answer, name = prober.ask()
        if answer == "writes":
            told.append(name)
        return answer

    answers, held = [], []

    def look():
        answers.append(ask())
        held.append(locks(path))

    def watched():
        look()
        visitor.inside(True)
        look()

    if what == "in a transaction":
        commit(["host 0"], watched)
    elif what == "between two":
        commit(["host 0"], lambda: None)
        look()
        visitor.between(True)
        look()
        for n in range(20):
            commit([f"host {n + 1}"], lambda: None)
    else:
        storm = python(OUTSIDER, path, seconds)
        visitor.begin(seconds)
        end, n, draw = time.monotonic() + seconds, 0, random.Random(SEED)
        asked = 0

        def visit():
            nonlocal asked
            visitor.inside(False)
            if time.monotonic() > asked + 0.02:
                answers.append(ask())
                asked = time.monotonic()
        while time.monotonic() < end and sum(errors.values()) < 200:
            n += 1
            commit([f"host {n}.{i}" for i in range(5)], visit)
            if draw.random() < 0.3:
                visitor.between(False)
        lines = storm.communicate()[0].splitlines()
        told += [line for line in lines if not line.startswith("error:")]
        errors.update({f"outsider: {line[7:]}": 1 for line in lines if line.startswith("error:")})
    prober.process.communicate()
    if not errors:
        visitor.end()
    names, integrity = json.loads(python(READER, path).communicate()[0])
    print(json.dumps({
        "answers": answers, "locks": held, "told": len(told), "kept": len(set(told) & set(names)),
        "strange": len(set(names) - set(told)), "twice": len(names) - len(set(names)),
        "integrity": integrity, "errors": errors, "calls": visitor.calls,
    }))


def run(what, mode, name, seconds):
    """The same in a process of its own: what loses locks may also be killed for it."""
    with tempfile.TemporaryDirectory(prefix="synqlite-locks-") as folder:
        arguments = [sys.executable, __file__, EXTENSION, "case", folder, what, mode, name, str(seconds)]
        done = subprocess.run(arguments, capture_output=True, text=True, timeout=120 + 10 * seconds)
    try:
        return json.loads(done.stdout)
    except ValueError:
        return {"died": done.stderr.strip().splitlines()[-1:] or [f"status {done.returncode}"]}


def row(what, mode, name, found):
    """A line of the table."""
    if "died" in found:
        return f"{mode:7} {what:17} {name:15} ended: {found['died'][0]}"
    answers = found["answers"]
    if what == "storm":
        seen = f"refused {answers.count('refused')} of {len(answers)}"
    else:
        seen = " -> ".join(answers)
    held = " -> ".join(map(str, found["locks"])) if None not in found["locks"] else ""
    errors = "; ".join(f"{n} x {text}" for text, n in found["errors"].items())
    end = [found["integrity"]]
    if found["strange"]:
        end.append(f"{found['strange']} rows more")
    if errors:
        end.append(errors)
    return (f"{mode:7} {what:17} {name:15} {found['calls']:>5}  {seen:20} {held:9} {found['told']:>6} "
            f"{found['kept']:>6}  {', '.join(end)}")


def faults(what, name, found, alone):
    """What is wrong with a case that is to have none, beside the same with nothing."""
    if "died" in found or "died" in alone:
        return [f"ended: {found.get('died', alone.get('died'))[0]}"]
    wrong = [f"{key}: {found[key]}" for key in ("strange", "twice", "errors") if found[key]]
    if found["kept"] != found["told"]:
        wrong.append(f"{found['told'] - found['kept']} rows are lost")
    if found["integrity"] != "ok":
        wrong.append(found["integrity"])
    if what != "storm" and found["answers"] != alone["answers"]:
        wrong.append(f"the other process was told {found['answers']}, else {alone['answers']}")
    if what == "storm" and set(found["answers"]) != {"refused"}:
        wrong.append(f"the other process was told {found['answers']} in a transaction")
    if found["locks"] != alone["locks"]:
        wrong.append(f"locks are {found['locks']}, else {alone['locks']}")
    if name == "the extension" and not found["calls"]:
        wrong.append("the extension was never called")
    return wrong


def second_library():
    """Why there is no second SQLite here, or None."""
    try:
        import apsw
    except ImportError:
        return "apsw is missing: pip install --target DIR apsw, and PYTHONPATH=DIR"
    if not apsw.using_amalgamation:
        return "this apsw uses the system's SQLite, as sqlite3 does"
    return None


def main():
    seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 3
    if not hasattr(sqlite3.Connection, "enable_load_extension"):
        sys.exit(f"{sys.executable} was built without extensions; try /usr/bin/python3")
    names, why = list(VISITORS), second_library()
    print(f"SQLite {sqlite3.sqlite_version} of {sys.executable}", end="")
    if why:
        print(f"\nskipped: two libraries in one process: {why}")
        names.remove("another SQLite")
    else:
        import apsw
        print(f", and {apsw.sqlite_lib_version()} of apsw {apsw.apsw_version()}")
    print(f"seed {SEED}, storms of {seconds:g} s\n")
    print(f"{'mode':7} {'when':17} {'what reads too':15} {'calls':>5}  {'the other process':20} "
          f"{'locks':9} {'told':>6} {'kept':>6}  in the end")
    bad, lost = [], False
    for mode in ("wal", "delete"):
        for what in ("in a transaction", "between two", "storm"):
            found = {}
            for name in names:
                found[name] = run(what, mode, name, seconds)
                print(row(what, mode, name, found[name]), flush=True)
            for name in ("nothing", "the extension"):
                wrong = faults(what, name, found[name], found["nothing"])
                bad += [f"{mode}, {what}, {name}: {each}" for each in wrong]
            two = found.get("another SQLite", {"told": 0, "kept": 0})
            lost |= "died" in two or two["kept"] < two["told"]
    print()
    if not why:
        print("two libraries: rows were lost" if lost else "two libraries: no row was lost this time")
    for each in bad:
        print(f"error: {each}")
    if not bad:
        print("the extension: every row that was told is there, and no lock was lost")
    sys.exit(1 if bad else 0)


if sys.argv[2:3] == ["case"]:
    case(*sys.argv[3:7], float(sys.argv[7]))
else:
    main()
