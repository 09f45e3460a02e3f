"""What the scripts that make packages and try them share. Nothing but Python is needed for it."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any, Callable, Optional

WINDOWS = os.name == "nt"


class Skip(Exception):
    """A tool is not there, or the network is not. Its text says which."""


def main(work: Callable[[list[str], bool], None], usage: Optional[str], arguments: int) -> None:
    """Runs a script: its arguments, and whether --all was among them. A program that fails ends it."""
    words = [word for word in sys.argv[1:] if word != "--all"]
    if len(words) != arguments or any(word.startswith("-") for word in words):
        sys.exit(usage)
    try:
        work(words, "--all" in sys.argv)
    except subprocess.CalledProcessError as failed:
        sys.exit(f"error: {' '.join(map(str, failed.cmd))}: status {failed.returncode}\n{failed.output or ''}")


def bare(**variables: Any) -> dict[str, str]:
    """The environment without what would lead to other files than those that were installed."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("SYNQLITE_", "PYTHON", "NODE_"))}
    return {**kept, **{name: str(value) for name, value in variables.items()}}


def run(words: list[Any], *, quiet: bool = True, **options: Any) -> str:
    """Runs a program to its end; its output, both kinds, is shown only if it fails, or if not `quiet`."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT} if quiet else {}
    sys.stdout.flush()
    done = subprocess.run([str(word) for word in words], check=True, text=True, **pipes, **options)
    return done.stdout or ""


def new_environment(folder: Path) -> Path:
    """An empty virtual environment with pip; returns its Python."""
    if importlib.util.find_spec("ensurepip") is None:
        raise Skip(f"{sys.executable} has no ensurepip, so no virtual environment can be made")
    run([sys.executable, "-m", "venv", folder], env=bare())
    return program(folder, "python")


def program(environment: Path, name: str) -> Path:
    """A program of a virtual environment."""
    return environment / ("Scripts" if WINDOWS else "bin") / (f"{name}.exe" if WINDOWS else name)


def reach_index(python: Path, work: Path) -> None:
    """Raises unless pip can fetch the build tool. Later failures of pip are not about the network."""
    words = [python, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", work / "reached", "hatchling"]
    try:
        run(words, env=bare())
    except subprocess.CalledProcessError as failed:
        said = failed.output.strip().splitlines()
        raise Skip(f"pip reaches no index: {said[-1] if said else 'it says nothing'}") from None


def npm() -> str:
    """The path of npm, where there is a Node that it runs on."""
    found = shutil.which("npm")
    if found is None or shutil.which("node") is None:
        raise Skip("there is no npm" if found is None else "there is no node")
    return found


def reach_registry(npm: str) -> None:
    """Raises unless npm can ask for a package. Later failures of npm are not about the network."""
    try:
        run([npm, "view", "better-sqlite3", "version"])
    except subprocess.CalledProcessError as failed:
        said = [line for line in failed.output.splitlines() if "code" in line]
        raise Skip(f"npm reaches no registry: {said[0] if said else 'it says nothing'}") from None


def only(folder: Path, *patterns: str) -> list[Path]:
    """The one file for each pattern."""
    found: list[Path] = []
    for pattern in patterns:
        matching = sorted(folder.glob(pattern))
        if len(matching) != 1:
            raise Skip(f"{folder} has {len(matching)} files {pattern}")
        found += matching
    return found


def synchronize(command: Path, work: Path) -> None:
    """Two replicas and a row that crosses, by a command that was installed."""
    home, laptop = work / "home.db", work / "laptop.db"
    db = sqlite3.connect(home)
    db.executescript("CREATE TABLE todo(title); INSERT INTO todo VALUES('milk');")
    for words in (["init", home], ["clone", home, laptop]):
        run([command, *words], env=bare())
    with sqlite3.connect(laptop) as other:
        other.execute("INSERT INTO todo VALUES('rent')")
    other.close()
    run([command, "sync", laptop], env=bare())
    found = [title for (title,) in db.execute("SELECT title FROM todo ORDER BY title")]
    db.close()
    if found != ["milk", "rent"]:
        sys.exit(f"error: after the synchronization there is {found}")
