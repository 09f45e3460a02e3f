"""The engine as a process: the command, with `--json`.

This process never opens the database by this way, so it is safe beside any SQLite library that does.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Optional, Union

from ._backend import Direction, Json, Name
from .errors import DefectError, NotInstalledError, UsageError, of_document


POLL = 0.05
"""Seconds between two looks whether a file was written to."""


class Command:
    """Runs the command once for each call."""

    name: Name = "command"

    def __init__(self, program: Path, timeout: float) -> None:
        self._program = program
        self._wait = math.ceil(timeout)

    def init(self, path: str, policies: dict[str, str], history: bool, name: Optional[str]) -> Json:
        options = [f"--policy={key}={value}" for key, value in policies.items()]
        return self._run(["init", *options, *_flag("history", history), *_given("name", name)], path)

    def clone(
        self, remote: str, path: str, token: Optional[str], key_file: Optional[str], name: Optional[str]
    ) -> Json:
        options = [*_given("key-file", key_file), *_given("name", name)]
        return self._run(["clone", *options], remote, path, kept=token)

    def exchange(
        self,
        path: str,
        direction: Direction,
        remote: Optional[str],
        token: Optional[str],
        key_file: Optional[str],
        whole: bool,
        force: bool,
    ) -> Json:
        options = [*_flag("whole", whole), *_flag("force", force), *_given("key-file", key_file)]
        named = [] if remote is None else [remote]
        return self._run([direction, *options], path, *named, token=token)

    def fold(self, path: str) -> Json:
        return self._run(["fold"], path)

    def status(self, path: str) -> Json:
        return self._run(["status"], path)

    def digest(self, path: str) -> Json:
        return self._run(["digest"], path)

    def verify(self, path: str, full: bool) -> Json:
        return self._run(["verify", *_flag("full", full)], path)

    def policies(self, path: str) -> Json:
        return self._run(["policy"], path)

    def set_policy(self, path: str, key: str, value: str) -> Json:
        return self._run(["policy"], path, f"{key}={value}")

    def remotes(self, path: str) -> Json:
        return self._run(["remote", "list"], path)

    def add_remote(
        self, path: str, name: str, url: str, token: Optional[str], key_file: Optional[str]
    ) -> Json:
        options = _given("key-file", key_file)
        return self._run(["remote", "add", *options], path, name, url, kept=token)

    def remove_remote(self, path: str, name: str) -> Json:
        return self._run(["remote", "remove"], path, name)

    def conflicts(self, path: str, closed: bool) -> Json:
        return self._run(["conflicts", *_flag("closed", closed)], path)

    def settle(self, path: str, id: str, verb: str) -> Json:
        return self._run(["conflicts"], path, verb, id)

    def log(self, path: str, limit: int) -> Json:
        return self._run(["log", f"--limit={limit}"], path)

    def undo(self, path: str, selection: Mapping[str, Union[int, str]], dry_run: bool) -> Json:
        options = [f"--{key}={value}" for key, value in selection.items()]
        return self._run(["undo", *options, *_flag("dry-run", dry_run)], path)

    def changes(self, path: str, token: Optional[str], limit: Optional[int]) -> Json:
        options = [] if limit is None else [f"--limit={limit}"]
        since = [] if token is None else [f"--since={token}"]
        return self._run(["changes", *options, *since], path)

    def waits(self, path: str) -> FileTimes:
        return FileTimes(path)

    def _run(
        self,
        words: list[str],
        *operands: str,
        token: Optional[str] = None,
        kept: Optional[str] = None,
    ) -> Json:
        argv = [
            str(self._program),
            *words,
            *([] if kept is None else ["--token-file=-"]),
            "--json",
            "--progress=none",
            f"--wait={self._wait}",
            "--",
            *operands,
        ]
        # The arguments of a process are everybody's to read, its environment and its input are not.
        environment = None if token is None else {**os.environ, "SYNQLITE_TOKEN": token}
        try:
            done = subprocess.run(
                argv,
                input=b"" if kept is None else kept.encode(),
                capture_output=True,
                env=environment,
                creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
            )
        except OSError as e:
            raise NotInstalledError(
                f"the command {self._program} cannot be run: {e.strerror}",
                "Install a wheel of synqlite for this platform, or name another in SYNQLITE_COMMAND",
                str(self._program),
            ) from e
        except ValueError as e:
            raise UsageError(
                f"an argument cannot be given to the command: {e}", "Leave out zero bytes"
            ) from e
        try:
            answer: Json = json.loads(done.stdout)
        except ValueError as e:
            said = done.stderr.decode(errors="replace").strip()
            raise DefectError(
                f"`synqlite {words[0]}` ended with status {done.returncode} and no answer: "
                + (said or "it said nothing"),
                "It is safe to run it again",
            ) from e
        if "error" in answer:
            raise of_document(answer["error"])
        return answer


class FileTimes:
    """Waits, by the times and sizes of the database's files. Of remotes it knows nothing."""

    def __init__(self, path: str) -> None:
        self._files = (path, path + "-wal")
        self._seen: object = None

    def wait(self, seconds: float, remote: Optional[str] = None, token: Optional[str] = None) -> Json:
        end = time.monotonic() + seconds
        while (now := self.mark()) == self._seen:
            left = end - time.monotonic()
            if left <= 0:
                return {"woke": "time"}
            time.sleep(min(POLL, left))
        self._seen = now
        return {"woke": "commit"}

    def mark(self) -> object:
        return tuple(_times(file) for file in self._files)

    def close(self) -> None:
        pass


def _times(file: str) -> object:
    try:
        found = os.stat(file)
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


def _flag(name: str, on: bool) -> list[str]:
    return [f"--{name}"] if on else []


def _given(name: str, value: Optional[str]) -> list[str]:
    return [] if value is None else [f"--{name}={value}"]
