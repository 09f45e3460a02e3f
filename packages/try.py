"""Installs each package where nothing else is, and runs its tests there, on what was installed.

    python3 packages/try.py FOLDER [--all]

FOLDER is what `packages/make.py` filled. What needs a tool or a network that is not there is skipped and says
so; with --all that is a failure. Whatever else goes wrong is one in any case.

better-sqlite3 has to be compiled where nobody offers it for this Node. Where SYNQLITE_PREBUILT names a folder
the outcome is kept there and taken from there.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import together
from tools import WINDOWS, Skip, bare, main, new_environment, npm, only, reach_index, reach_registry, run

HERE = Path(__file__).resolve().parent

BUILDERS = ("drizzle-orm", "knex", "kysely")
"""What programs in Node ask better-sqlite3 through. The package works without, and so do its other tests."""


def python_package(made: Path, work: Path) -> None:
    (wheel,) = only(made, "synqlite-*.whl")
    python = new_environment(work / "venv")
    run([python, "-m", "pip", "install", "--quiet", "--no-index", wheel], env=bare())
    reached = True
    try:
        reach_index(python, work)
        run([python, "-m", "pip", "install", "--quiet", "sqlalchemy>=2", "django>=4.2"], env=bare())
    except Skip as reason:
        reached = False
        print(f"skipped: SQLAlchemy, Django and the making of a wheel: {reason}")
    # Beside the tests there is no source, so they import what is installed.
    tests = work / "tests"
    shutil.copytree(HERE / "python" / "tests", tests, ignore=shutil.ignore_patterns("__pycache__", "test_wheel.py"))
    shutil.copy(HERE / "python" / "README.md", work)
    where = Path(run([python, "-c", "import synqlite; print(synqlite.__file__)"], cwd=work, env=bare()).strip())
    if work / "venv" not in where.parents:
        sys.exit(f"error: the tests would be about {where}, which is not what was installed")
    words = [python, "-m", "unittest", "discover", "-s", "tests", "-t", "."]
    run(words, cwd=work, env=bare(), quiet=False)
    if reached:
        # It makes a wheel itself, out of the source.
        words = [python, "-m", "unittest", "tests.test_wheel"]
        run(words, cwd=HERE / "python", env=binaries(where.parent / "_bin"), quiet=False)


def node_package(made: Path, work: Path) -> None:
    program = npm()
    if shutil.which("sqlite3") is None:
        raise Skip("its tests need the sqlite3 shell")
    reach_registry(program)
    tarballs = only(made, "synqlite-[0-9]*.tgz", "synqlite-[a-z]*.tgz")
    described = json.loads((HERE / "node" / "package.json").read_text())
    beside = {name: f"{name}@{version}" for name, version in described["devDependencies"].items()}
    needed = [asked for name, asked in beside.items() if name not in BUILDERS]
    app = work / "app"
    app.mkdir()
    (app / "package.json").write_text('{ "name": "app", "private": true }')
    prebuilt = together.prebuilt(work)
    run([program, "install", *tarballs, *needed], cwd=app, env=together.with_prebuilt(prebuilt))
    together.keep_prebuilt(app, prebuilt)
    for name in BUILDERS:
        try:
            run([program, "install", beside[name]], cwd=app, env=together.with_prebuilt(prebuilt))
        except subprocess.CalledProcessError as failed:
            said = [line for line in failed.output.splitlines() if "code" in line]
            print(f"skipped: the tests with {name}: npm does not install it: {said[0] if said else 'it says nothing'}")
    # In the package they see its own modules, and by its name the package itself.
    installed = app / "node_modules" / "synqlite"
    shutil.copytree(HERE / "node" / "test", installed / "test", ignore=shutil.ignore_patterns("package.test.js"))
    tests = sorted(str(path) for path in (installed / "test").glob("*.test.js"))
    words = [shutil.which("node"), "--test", "--test-reporter=spec"]
    run([*words, *tests], cwd=app, env=bare(), quiet=False)
    newer = node_with_sqlite(program, app)
    if newer:
        run([newer, *words[1:], installed / "test" / "node-sqlite.test.js"], cwd=app, env=bare(), quiet=False)
    # It packs the source itself.
    (platform,) = (app / "node_modules").glob("synqlite-*")
    env = {**binaries(platform), "NODE_PATH": str(app / "node_modules")}
    run([*words, HERE / "node" / "test" / "package.test.js"], cwd=app, env=env, quiet=False)


def node_with_sqlite(program: str, app: Path) -> str | None:
    """A Node whose `node:sqlite` loads extensions, from npm where the installed one has none; None if that one has."""
    asked = "process.exitCode = process.getBuiltinModule?.('node:sqlite')?.DatabaseSync.prototype.loadExtension ? 0 : 1"
    if subprocess.run([shutil.which("node"), "-e", asked], env=bare(), stderr=subprocess.DEVNULL).returncode == 0:
        return None
    try:
        # Apart from the program, whose better-sqlite3 is compiled for the installed one.
        run([program, "install", "--prefix", app / "newer", "node@24"], env=bare())
        newer = str(app / "newer" / "node_modules" / ".bin" / "node")
        run([newer, "-e", asked], env=bare())
    except subprocess.CalledProcessError as failed:
        said = (failed.output or "it says nothing").strip().splitlines()
        print(f"skipped: the tests with node:sqlite: npm gives no Node that has it: {said[-1]}")
        return None
    return newer


def binaries(folder: Path) -> dict[str, str]:
    """An environment that names the installed binaries, for tests that make packages of them."""
    extension, command = only(folder, "synqlite.[sd][oyl]*", "synqlite.exe" if WINDOWS else "synqlite")
    return bare(SYNQLITE_EXTENSION=extension, SYNQLITE_COMMAND=command)


def attempt(arguments: list[str], all_of_it: bool) -> None:
    made = Path(arguments[0]).resolve()
    for what, each in (
        ("the package for Python", python_package),
        ("the package for Node", node_package),
        ("programs in Python, Node and the shell together", together.together),
    ):
        print(f"-- {what}", flush=True)
        started = time.monotonic()
        with tempfile.TemporaryDirectory() as work:
            try:
                each(made, Path(work).resolve())
            except Skip as reason:
                if all_of_it:
                    sys.exit(f"error: {what}: {reason}")
                print(f"skipped: {what}: {reason}")
        print(f"-- {time.monotonic() - started:.0f} s", flush=True)


if __name__ == "__main__":
    main(attempt, __doc__, 1)
