"""Installs each package of this platform where nothing else is, and has it synchronize two files. No network, no test.

    python3 packages/smoke.py FOLDER [--all]

FOLDER is what `packages/make.py` filled, on this machine or another one of its kind. What needs a tool that is not
there is skipped and says so; with --all that is a failure, but for dpkg. Whatever else goes wrong is one in any case.
"""

from __future__ import annotations

import shutil
import sqlite3
import sys
import tempfile
from pathlib import Path
from typing import Any

import archive
import debian
from tools import WINDOWS, Skip, bare, main, new_environment, npm, only, program, run, synchronize

PYTHON = """
import sqlite3, synqlite
db = sqlite3.connect("home.db")
db.executescript("CREATE TABLE todo(title); INSERT INTO todo VALUES('milk');")
synqlite.init("home.db")
laptop = synqlite.clone("home.db", "laptop.db")
other = sqlite3.connect("laptop.db", isolation_level=None)
other.execute("INSERT INTO todo VALUES('rent')")
laptop.sync()
print(*(title for title, in db.execute("SELECT title FROM todo ORDER BY title")))
"""

NODE = """
import { clone, init, sync } from 'synqlite';
const [, , home, laptop, step] = process.argv;
if (step === 'begin') {
  await init(home);
  await clone(home, laptop);
} else {
  console.log((await sync(laptop)).sent.rows);
}
"""


def unpacked(made: Path, work: Path) -> str:
    (packed,) = only(made, f"synqlite-*-{archive.here()}.{'zip' if WINDOWS else 'tar.gz'}")
    shutil.unpack_archive(packed, work)
    (folder,) = (path for path in work.iterdir() if path.is_dir())
    command = folder / ("synqlite.exe" if WINDOWS else "synqlite")
    command.chmod(0o755)
    contains_licenses(folder / "LICENSES.txt")
    synchronize(command, work)
    loads = hasattr(sqlite3.Connection, "enable_load_extension")
    if loads:
        (extension,) = folder.glob("libsynqlite.*")
        load(extension)
    return f"{packed.name}: the command synchronizes" + (", the extension loads" if loads else "")


def load(extension: Path) -> None:
    db = sqlite3.connect(":memory:")
    db.enable_load_extension(True)
    # Without its suffix SQLite takes that of the platform, and the entry point from the name.
    db.load_extension(str(extension.with_suffix("")))
    db.execute("SELECT synqlite_version()").fetchone()
    db.close()


def wheel(made: Path, work: Path) -> str:
    (package,) = only(made, "synqlite-*.whl")
    python = new_environment(work / "venv")
    run([python, "-m", "pip", "install", "--quiet", "--no-index", package], env=bare())
    where = run([python, "-c", "import synqlite; print(synqlite.__file__)"], cwd=work, env=bare()).strip()
    contains_licenses(Path(where).with_name("_bin") / "LICENSES.txt")
    expect(run([python, "-c", PYTHON], cwd=work, env=bare()), "milk rent")
    synchronize(program(work / "venv", "synqlite"), work / "venv")
    return f"{package.name}: the module synchronizes, and so does the command"


def node(made: Path, work: Path) -> str:
    packages = only(made, "synqlite-[0-9]*.tgz", "synqlite-[a-z]*.tgz")
    (work / "package.json").write_text('{ "name": "app", "private": true }')
    # Offline: neither asks for anything that is not here.
    run([npm(), "install", "--offline", "--no-audit", "--no-fund", *packages], cwd=work, env=bare())
    (licenses,) = (work / "node_modules").glob("synqlite-*/LICENSES.txt")
    contains_licenses(licenses)
    (work / "todo.mjs").write_text(NODE)
    home, laptop = work / "home.db", work / "laptop.db"
    db = sqlite3.connect(home)
    db.executescript("CREATE TABLE todo(title); INSERT INTO todo VALUES('milk');")
    words = [shutil.which("node"), work / "todo.mjs", home, laptop]
    run([*words, "begin"], cwd=work, env=bare())
    other = sqlite3.connect(laptop, isolation_level=None)
    other.execute("INSERT INTO todo VALUES('rent')")
    other.close()
    expect(run([*words, "end"], cwd=work, env=bare()), "1")
    expect(str(db.execute("SELECT count(*) FROM todo").fetchone()[0]), "2")
    db.close()
    return f"{packages[0].name} and {packages[1].name}: synchronize by the command"


def contains_licenses(path: Path) -> None:
    """Whether the license of a library of C is there, which only the sources of a crate have."""
    if "Meta Platforms" not in path.read_text(encoding="utf-8"):
        sys.exit(f"error: {path} lacks the license of zstd")


def expect(said: str, wanted: str) -> None:
    if said.strip() != wanted:
        sys.exit(f"error: it says {said!r}, and should {wanted!r}")


def smoke(arguments: list[str], all_of_it: bool) -> None:
    made = Path(arguments[0]).resolve()
    attempts: tuple[tuple[str, Any], ...] = (
        ("the archive", unpacked),
        ("the wheel", wheel),
        ("the npm packages", node),
        ("the Debian package", debian.attempt),
    )
    for what, each in attempts:
        with tempfile.TemporaryDirectory() as work:
            try:
                print(each(made, Path(work).resolve()), flush=True)
            except Skip as reason:
                if all_of_it and each is not debian.attempt:
                    sys.exit(f"error: {what}: {reason}")
                print(f"skipped: {what}: {reason}", flush=True)


if __name__ == "__main__":
    main(smoke, __doc__, 1)
