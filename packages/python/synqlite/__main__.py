"""The command `synqlite`, as the wheel brings it."""

from __future__ import annotations

import os
import subprocess
import sys

from . import _files
from .errors import Error


def main() -> None:
    """Becomes the command, with this process's arguments."""
    try:
        program = _files.command()
    except Error as e:
        sys.exit(f"error: {e}")
    if program is None:
        sys.exit(
            "error: this installation of synqlite is without the command. "
            "Install a wheel of it for this platform, or name the command in SYNQLITE_COMMAND"
        )
    argv = [str(program), *sys.argv[1:]]
    if os.name == "nt":  # There, exec ends before the new program does.
        sys.exit(subprocess.call(argv))
    os.execv(argv[0], argv)


if __name__ == "__main__":
    main()
