"""The two ways to the engine.

Two SQLite libraries in one process lose each other's locks on a file, and then commits that were
acknowledged. So the engine comes in only as an extension of the SQLite that Python's `sqlite3` uses already,
or stays outside, in a process of its own. This package never links or loads a SQLite.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Optional, Protocol, Union

Json = dict[str, Any]
Name = Literal["extension", "command"]
Direction = Literal["sync", "push", "pull"]


class Waits(Protocol):
    """Waits, again and again, until another connection commits to a file, at next to no cost."""

    def wait(self, seconds: float, remote: Optional[str], token: Optional[str]) -> Json:
        """For so long at most. `woke` is "time" if nothing happened.

        With a remote only what there is to exchange with it counts, as far as is known.
        """

    def mark(self) -> object:
        """Equal to an earlier one if nobody has committed since. None if that cannot be told now."""

    def close(self) -> None:
        """Lets go of the file."""


class Backend(Protocol):
    """What both do. Each answer is the JSON of the command's `--json`; failures are raised."""

    name: Name

    def init(self, path: str, policies: dict[str, str], history: bool, name: Optional[str]) -> Json: ...
    def clone(
        self, remote: str, path: str, token: Optional[str], key_file: Optional[str], name: Optional[str]
    ) -> Json: ...
    def exchange(
        self,
        path: str,
        direction: Direction,
        remote: Optional[str],
        token: Optional[str],
        key_file: Optional[str],
        whole: bool,
        force: bool,
    ) -> Json: ...
    def fold(self, path: str) -> Json: ...
    def status(self, path: str) -> Json: ...
    def digest(self, path: str) -> Json: ...
    def verify(self, path: str, full: bool) -> Json: ...
    def policies(self, path: str) -> Json: ...
    def set_policy(self, path: str, key: str, value: str) -> Json: ...
    def remotes(self, path: str) -> Json: ...
    def add_remote(
        self, path: str, name: str, url: str, token: Optional[str], key_file: Optional[str]
    ) -> Json: ...
    def remove_remote(self, path: str, name: str) -> Json: ...
    def conflicts(self, path: str, closed: bool) -> Json: ...
    def settle(self, path: str, id: str, verb: str) -> Json: ...
    def log(self, path: str, limit: int) -> Json: ...
    def undo(self, path: str, selection: Mapping[str, Union[int, str]], dry_run: bool) -> Json: ...
    def changes(self, path: str, token: Optional[str], limit: Optional[int]) -> Json: ...
    def waits(self, path: str) -> Waits: ...
