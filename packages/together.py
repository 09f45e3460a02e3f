"""Three programs on one database: in Python, in Node, and the sqlite3 shell, which knows nothing of the other two.

    python3 packages/together.py FOLDER [--all]

FOLDER is what `packages/make.py` filled. Each of the first two is one command to install and one to run, in a
new environment. They have replicas that meet at a hub, and write to them at the same time as the shell writes
to that of the second. In the end all have to show the same, or this fails.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path
from typing import Any, Optional

from tools import Skip, bare, main, new_environment, npm, only, program, reach_registry, run

EACH = 20
"""How many rows each program adds."""

SECONDS = 120
"""How long a program waits for what the others write."""

PYTHON = """
import json, sqlite3, sys, time
import synqlite

url, rows, patience = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
db = sqlite3.connect("python.db", isolation_level=None, timeout=30)
db.execute("CREATE TABLE note(id INTEGER PRIMARY KEY, text TEXT NOT NULL UNIQUE, a INT, b INT, c INT)")
db.execute("INSERT INTO note(text) VALUES('seed')")
replica = synqlite.init("python.db")
replica.sync(url)
print("ready", flush=True)
sys.stdin.readline()
with replica.watch(url, interval=0.5):
    db.execute("INSERT INTO note(text) VALUES('common')")
    for n in range(rows):
        db.execute("INSERT INTO note(text) VALUES(?)", [f"python {n}"])
        time.sleep(0.05)
    db.execute("UPDATE note SET a = 1 WHERE text = 'seed'")
    end = time.monotonic() + patience
    while db.execute("SELECT count(*), max(a + b + c) FROM note").fetchone() != (2 + 3 * rows, 3):
        if time.monotonic() > end:
            break
        time.sleep(0.1)
replica.sync(url)
print(json.dumps({"rows": db.execute("SELECT * FROM note ORDER BY id").fetchall(), "backend": replica.backend,
                  "conflicts": len(replica.conflicts()), "digest": replica.digest().digest}))
"""

NODE = """
import Database from 'better-sqlite3';
import { clone, conflicts, digest, sync, watch } from 'synqlite';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';

const [url, rows, patience] = [process.argv[2], Number(process.argv[3]), Number(process.argv[4])];
await clone(url, 'node.db');
const db = new Database('node.db', { timeout: 30000 });
console.log('ready');
await once(process.stdin, 'data');
process.stdin.destroy();
const watching = watch('node.db', url, { interval: 500 });
const add = db.prepare('INSERT INTO note(text) VALUES (?)');
add.run('common');
for (let n = 0; n < rows; n++) {
  add.run(`node ${n}`);
  await sleep(50);
}
db.exec(`UPDATE note SET b = 1 WHERE text = 'seed'`);
const seen = db.prepare('SELECT count(*) AS n, max(a + b + c) AS sum FROM note');
const end = Date.now() + patience * 1000;
for (;;) {
  const { n, sum } = seen.get();
  if ((n === 2 + 3 * rows && sum === 3) || Date.now() > end) break;
  await sleep(100);
}
await watching.stop();
await sync('node.db', url);
console.log(JSON.stringify({
  rows: db.prepare('SELECT * FROM note ORDER BY id').raw().all(),
  conflicts: (await conflicts('node.db')).conflicts.length,
  digest: (await digest('node.db')).digest,
}));
"""


def prebuilt(work: Path) -> Path:
    """Where better-sqlite3 is kept once it is compiled."""
    named = os.environ.get("SYNQLITE_PREBUILT")
    folder = Path(named).resolve() if named else work / "prebuilt"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def with_prebuilt(folder: Path) -> dict[str, str]:
    """An environment in which npm takes it from there."""
    return bare(npm_config_better_sqlite3_local_prebuilds=folder)


def keep_prebuilt(app: Path, folder: Path) -> None:
    """Keeps what an installation compiled, under the name for which its installer looks."""
    package = app / "node_modules" / "better-sqlite3"
    version = json.loads((package / "package.json").read_text())["version"]
    asked = "const p = process; console.log(`node-v${p.versions.modules}-${p.platform}-${p.arch}`)"
    for_whom = run([shutil.which("node"), "-e", asked]).strip()
    file = folder / f"better-sqlite3-v{version}-{for_whom}.tar.gz"
    built = "build/Release/better_sqlite3.node"
    if not file.exists():
        with tarfile.open(file, "w:gz") as tar:
            tar.add(package / built, built)


class Hub:
    """A hub of the command that the wheel brought, as a context."""

    def __init__(self, command: Path, work: Path) -> None:
        store = [command, f"--store={work / 'hub'}"]
        made = run([command, "token", "create", *store[1:], "--database=notes", "--scope=write", "--json"])
        self.token = json.loads(made)["token"]
        words = [command, "serve", *store[1:], "--listen=127.0.0.1:0", "--log=error"]
        self._process = subprocess.Popen([str(word) for word in words], stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self.url = f"http://{self._process.stdout.readline().strip().rpartition('/')[2]}/notes"

    def __enter__(self) -> Hub:
        return self

    def __exit__(self, *_: Any) -> None:
        self._process.terminate()
        self._process.communicate()


def begin(words: list[Any], place: Path, token: str) -> subprocess.Popen[str]:
    """Starts a program and waits until it has its replica."""
    words = [str(word) for word in words]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    process = subprocess.Popen(words, cwd=place, env=bare(SYNQLITE_TOKEN=token), **pipes)
    assert process.stdout is not None
    if process.stdout.readline().strip() != "ready":
        sys.exit(f"error: {words[0]} ended with status {process.wait()} before it had a replica")
    return process


def go(*processes: subprocess.Popen[str]) -> None:
    """From here on they write."""
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()


def outcome(process: subprocess.Popen[str]) -> dict[str, Any]:
    said, _ = process.communicate(timeout=2 * SECONDS)
    if process.returncode != 0:
        sys.exit(f"error: {process.args!r} ended with status {process.returncode}")
    return dict(json.loads(said))


def shell(path: Path, sql: str) -> str:
    return run(["sqlite3", "-bail", "-batch", "-cmd", ".timeout 30000", path, sql]).strip()


def together(made: Path, work: Path) -> None:
    if shutil.which("sqlite3") is None:
        raise Skip("there is no sqlite3 shell")
    wheel, *tarballs = only(made, "synqlite-*.whl", "synqlite-[0-9]*.tgz", "synqlite-[a-z]*.tgz")
    node_modules = npm()
    reach_registry(node_modules)
    places = {name: work / name for name in ("python", "node")}
    for place in places.values():
        place.mkdir()
    python = new_environment(places["python"] / "venv")
    (places["python"] / "notes.py").write_text(PYTHON)
    (places["node"] / "notes.mjs").write_text(NODE)
    version = json.loads((Path(__file__).parent / "node" / "package.json").read_text())["devDependencies"]
    beside = f"better-sqlite3@{version['better-sqlite3']}"

    print(f"python$ pip install {wheel.name}")
    run([python, "-m", "pip", "install", "--quiet", "--no-index", wheel], env=bare())
    print(f"node$   npm install better-sqlite3 {' '.join(each.name for each in tarballs)}", flush=True)
    run([node_modules, "install", beside, *tarballs], cwd=places["node"], env=with_prebuilt(prebuilt(work)))

    databases = {name: places[name] / f"{name}.db" for name in places}
    with Hub(program(places["python"] / "venv", "synqlite"), work) as hub:
        words = [hub.url, EACH, SECONDS]
        print("python$ python notes.py", flush=True)
        first = begin([python, "notes.py", *words], places["python"], hub.token)
        print("node$   node notes.mjs", flush=True)
        second = begin([shutil.which("node"), "notes.mjs", *words], places["node"], hub.token)
        print("shell$  sqlite3 node.db 'INSERT …', again and again", flush=True)
        go(first, second)
        for n in range(EACH):
            shell(databases["node"], f"INSERT INTO note(text) VALUES('shell {n}')")
            time.sleep(0.05)
        shell(databases["node"], "UPDATE note SET c = 1 WHERE text = 'seed'")
        said = {"python": outcome(first), "node": outcome(second)}
    compare(said, databases)


def compare(said: dict[str, dict[str, Any]], databases: dict[str, Path]) -> None:
    """What both programs saw and what the shell sees now, in both files: the same, and all of it."""
    shown: dict[str, Optional[list[Any]]] = {f"the program in {name}": each["rows"] for name, each in said.items()}
    for name, path in databases.items():
        sql = "SELECT json_group_array(json_array(id, text, a, b, c)) FROM (SELECT * FROM note ORDER BY id)"
        shown[f"the shell in {name}.db"] = json.loads(shell(path, sql))
    written = {f"{who} {n}" for who in ("python", "node", "shell") for n in range(EACH)} | {"seed", "common"}
    for who, rows in shown.items():
        assert rows is not None
        lost, extra = written - {row[1] for row in rows}, len(rows) - len(written)
        seed = [row[2:] for row in rows if row[1] == "seed"]
        print(f"{who}: {len(rows)} rows, seed is {seed}")
        if lost or extra or seed != [[1, 1, 1]]:
            sys.exit(f"error: {who} does not see all that was written: without {sorted(lost)}, {extra} too many")
    if len({json.dumps(rows) for rows in shown.values()}) != 1 or len({each["digest"] for each in said.values()}) != 1:
        sys.exit(f"error: they do not show the same: {json.dumps(shown)} {said['python']['digest']}")
    conflicts = {name: each["conflicts"] for name, each in said.items()}
    if set(conflicts.values()) != {1}:
        sys.exit(f"error: the row that both programs added must be the one conflict, and there are {conflicts}")
    print(f"all show the same, and the one conflict; backend in Python: {said['python']['backend']}")


def script(arguments: list[str], all_of_it: bool) -> None:
    with tempfile.TemporaryDirectory() as work:
        try:
            together(Path(arguments[0]).resolve(), Path(work).resolve())
        except Skip as reason:
            if all_of_it:
                sys.exit(f"error: {reason}")
            print(f"skipped: programs together: {reason}")


if __name__ == "__main__":
    main(script, __doc__, 1)
