"""Runs the recipes of docs/guides/migrations.md and geopackage.md as they stand there, with the real tools.

    run.py SYNQLITE [SECTION...]

A block in `sh` is run by bash, `console` is run and compared, any other is written to the file that
the line before it names. The first block of a section installs the tool; where it cannot be, the
section is skipped, and why is said. Each section has an empty folder of its own; tools go into a
virtual environment there, and into `node_modules`.
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

GUIDES = Path(__file__).resolve().parents[4] / "docs/guides"
# Seconds: to install a tool, and to run any other block.
INSTALL, STEP = 150, 60


def sections(text):
    """Sections that install something: name and blocks, each (file or None, language, code)."""
    for part in re.split(r"^## ", text, flags=re.M)[1:]:
        name, body = part.split("\n", 1)
        blocks = []
        for found in re.finditer(r"(?:^`([^`\n]+)`:\n\n)?^```(\w+)\n(.*?)^```$", body, re.M | re.S):
            blocks.append(found.groups())
        if blocks and " install " in blocks[0][2]:
            yield name, blocks


def bash(code, folder, environment, seconds):
    """Status and output of a script."""
    command = ["bash", "-euo", "pipefail", "-c", code]
    try:
        done = subprocess.run(
            command, cwd=folder, env=environment, timeout=seconds, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )
    except subprocess.TimeoutExpired:
        return None, f"not done in {seconds} s"
    return done.returncode, done.stdout


def reachable(host):
    """Whether a name resolves: better-sqlite3 comes built from there, or takes minutes."""
    import socket

    try:
        socket.getaddrinfo(host, 443)
        return True
    except OSError:
        return False


def install(code, folder, environment):
    """Why the tool cannot be installed, or None."""
    if "pip install" in code:
        status, said = bash("python3 -m venv .venv", folder, environment, INSTALL)
        if status != 0:
            return said
    elif not reachable("github.com"):
        # It has the interface of better-sqlite3, and comes built from the registry of npm.
        code = code.replace("better-sqlite3", "better-sqlite3@npm:libsql --legacy-peer-deps")
        print("  note: libsql stands in for better-sqlite3, which cannot be fetched", flush=True)
    status, said = bash(code, folder, environment, INSTALL)
    return None if status == 0 else said


def masked(text):
    """A text without what differs in every run."""
    return re.sub(r"\b[0-9a-f]{32}\b", "ID", text).rstrip()


def play(name, blocks, synqlite):
    """Runs a section. Returns `right`, `skipped: …` or what went wrong."""
    with tempfile.TemporaryDirectory(prefix="recipe-") as folder:
        path = f"{folder}/.venv/bin:{Path(synqlite).resolve().parent}:{os.environ['PATH']}"
        environment = dict(os.environ, PATH=path, HOME=folder, npm_config_update_notifier="false")
        environment.pop("PYTHONPATH", None)
        why = install(blocks[0][2], folder, environment)
        if why is not None:
            return f"skipped: {name}: {(why.strip() or 'no reason given').splitlines()[-1]}"
        for file, language, code in blocks[1:]:
            if file:
                target = Path(folder, file)
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_text(code)
            elif language == "sh":
                status, said = bash(code, folder, environment, STEP)
                if status != 0:
                    return f"WRONG {name}: {code}{said}"
            elif language == "console":
                for step in code.split("$ ")[1:]:
                    command, want = step.split("\n", 1)
                    said = bash(command, folder, environment, STEP)[1]
                    if masked(said) != masked(want):
                        return f"WRONG {name}: {command}\n{said}instead of\n{want}"
            else:
                return f"WRONG {name}: a block in {language} without a file"
        databases = ["notes.db", "laptop.db"]
        if not Path(folder, databases[0]).exists():
            databases = ["office.gpkg", "field.gpkg"]
        for database in databases:
            status, said = bash(f"synqlite verify --full {database}", folder, environment, STEP)
            if status != 0:
                return f"WRONG {name}: verify says of {database}: {said}"
        digests = [bash(f"synqlite digest {db}", folder, environment, STEP)[1].split()[0]
                   for db in databases]
        if digests[0] != digests[1]:
            return f"WRONG {name}: the digests differ"
    return f"right {name}"


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    results = []
    guides = [GUIDES / "migrations.md", GUIDES / "geopackage.md"]
    for name, blocks in sections("".join(guide.read_text() for guide in guides)):
        if not sys.argv[2:] or name in sys.argv[2:]:
            results.append(play(name, blocks, sys.argv[1]))
            print(results[-1], flush=True)
    if not results:
        sys.exit("error: the guide has no such recipe")
    sys.exit(any(result.startswith("WRONG") for result in results))


main()
