"""The README's programs, run one after another as they stand."""

from __future__ import annotations

import contextlib
import io
import os
import re
import unittest
from pathlib import Path
from typing import Any

from .support import ByExtension, InFolder, environment, hub

README = Path(__file__).resolve().parent.parent / "README.md"


class Readme(InFolder):
    def test_its_programs_print_what_it_says(self) -> None:
        blocks = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
        # Those of the helpers run with the frameworks they are for, in tests of their own.
        blocks = [block for block in blocks if not re.search(r"synqlite\.(sqlalchemy|django)", block)]
        self.assertEqual(len(blocks), 8)
        # By way of the command a live query asks for a connection, which its program does not give.
        by_command = ByExtension.missing() is not None
        blocks = [block for block in blocks if not (by_command and "home.live" in block)]
        names: dict[str, Any] = {}
        before = os.getcwd()
        os.chdir(self.dir)
        os.mkdir("stick")
        self.addCleanup(os.chdir, before)
        printed = io.StringIO()
        with hub(self.dir) as server, environment(NOTES_TOKEN=server.writer, SYNQLITE_TOKEN=None):
            for block in blocks:
                here = block.replace("https://hub.example.org/notes", server.url)
                here = here.replace("file:///media/stick", (self.dir / "stick").as_uri())
                with contextlib.redirect_stdout(printed):
                    exec(compile(here, "README.md", "exec"), names)
        lines = printed.getvalue().splitlines()
        if not by_command:
            lives = ["+ ('oat milk', 1)", "+ ('rent', 0)", "* ('rent', 0) is now ('rent', 1)"]
            self.assertEqual(lines[3:6], lives)
            del lines[3:6]
        self.assertEqual(lines[0], "Merged(inserted=0, updated=1, deleted=0)")
        self.assertEqual(lines[1], "[(1, 'oat milk', 1)]")
        self.assertRegex(lines[2], r"WatchState\(online=True, last_sync=.*, pending=0, error=None\)")
        self.assertRegex(lines[3], r"unique todo \{.*'title': 'tea', 'done': 1\} \{.*'done': 0\}")
        self.assertEqual(lines[4], "0")
        self.assertTrue(lines[5].startswith("later: "), lines[5])
        self.assertEqual(len(lines), 6)
        names["db"].close()


if __name__ == "__main__":
    unittest.main()
