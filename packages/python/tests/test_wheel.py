"""The wheel: built, installed where nothing else is, and used there.

It needs pip, and what pip needs to get the build tool; where pip is not, it is skipped and says so. Where
there is no extension a file that is none stands for it, and the program in the wheel takes the command.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
import venv
import zipfile
from pathlib import Path
from typing import ClassVar

from synqlite import _files

SOURCE = Path(__file__).resolve().parent.parent

PROGRAM = """
import sqlite3, synqlite
print(synqlite.__file__)
db = sqlite3.connect("home.db", isolation_level=None)
db.execute("CREATE TABLE todo(id INTEGER PRIMARY KEY, title TEXT)")
home = synqlite.init("home.db")
laptop = synqlite.clone("home.db", "laptop.db")
db.execute("INSERT INTO todo(title) VALUES('milk')")
assert laptop.sync().merged.inserted == 1
assert laptop.digest() == home.digest()
print(home.backend)
"""


class Wheel(unittest.TestCase):
    dir: ClassVar[Path]
    wheel: ClassVar[Path]
    source: ClassVar[Path]
    real_extension: ClassVar[bool]

    @classmethod
    def setUpClass(cls) -> None:
        if importlib.util.find_spec("pip") is None or importlib.util.find_spec("ensurepip") is None:
            print(f"skipped: {cls.__name__}: this Python has no pip", file=sys.stderr)
            raise unittest.SkipTest("this Python has no pip")
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.dir = Path(folder.name).resolve()
        extension = _files.extension()
        cls.real_extension = extension is not None
        if extension is None:
            extension = cls.dir / "synqlite.so"
            extension.write_bytes(b"no library")
        command = _files.command()
        assert command is not None, "set SYNQLITE_COMMAND to the command"
        cls.source = cls.dir / "source"
        shutil.copytree(SOURCE, cls.source, ignore=shutil.ignore_patterns("_bin", "__pycache__", ".*_cache"))
        done = cls.build(SYNQLITE_EXTENSION=str(extension), SYNQLITE_COMMAND=str(command))
        assert done.returncode == 0, done.stdout + done.stderr
        (cls.wheel,) = (cls.dir / "dist").glob("*.whl")

    @classmethod
    def build(cls, **variables: str) -> subprocess.CompletedProcess[str]:
        environment = {k: v for k, v in os.environ.items() if not k.startswith("SYNQLITE_")}
        words = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--quiet", f"--wheel-dir={cls.dir}/dist"]
        return subprocess.run(
            [*words, str(cls.source)], env={**environment, **variables}, capture_output=True, text=True
        )

    def test_it_is_for_one_platform_and_any_python(self) -> None:
        name, version, python, abi, platform = self.wheel.stem.split("-")
        self.assertEqual((name, python, abi), ("synqlite", "py3", "none"))
        self.assertNotEqual(platform, "any")
        command = _files.command()
        assert command is not None
        if b"GLIBC_2" in command.read_bytes():
            self.assertRegex(platform, r"^manylinux_2_\d+_\w+$")
        self.assertTrue(version)

    def test_it_has_the_binaries_the_types_and_the_licence_and_no_tests(self) -> None:
        with zipfile.ZipFile(self.wheel) as wheel:
            names = {name.split("/", 1)[1] if ".dist-info" in name else name for name in wheel.namelist()}
        self.assertTrue({"synqlite/_bin/synqlite", "synqlite/py.typed", "licenses/LICENSE"} <= names, names)
        self.assertTrue(any(name.startswith("synqlite/_bin/synqlite.") for name in names), names)
        self.assertFalse([name for name in names if name.startswith("tests")])

    def test_a_program_runs_where_only_the_wheel_is(self) -> None:
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("SYNQLITE_", "PYTHON"))}
        venv.create(self.dir / "venv", with_pip=True)
        bin = self.dir / "venv" / "bin"
        install: list[Path | str] = [
            bin / "python",
            "-m",
            "pip",
            "install",
            "--quiet",
            "--no-index",
            self.wheel,
        ]
        subprocess.run(install, check=True, env=environment, capture_output=True)
        place = self.dir / "place"
        place.mkdir()
        done = subprocess.run(
            [bin / "python", "-I", "-c", PROGRAM], cwd=place, env=environment, capture_output=True, text=True
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        file, backend = done.stdout.split()
        self.assertTrue(file.startswith(str(self.dir / "venv")), file)
        can_load = hasattr(__import__("sqlite3").Connection, "enable_load_extension")
        self.assertEqual(backend, "extension" if can_load and self.real_extension else "command")
        listed = subprocess.run(
            [bin / "synqlite", "remote", "list", "laptop.db"],
            cwd=place,
            env=environment,
            capture_output=True,
            text=True,
        )
        self.assertEqual(listed.stdout.strip(), f"origin  {place / 'home.db'}", listed.stderr)
        absent = subprocess.run(
            [bin / "synqlite", "status", "absent.db"], cwd=place, env=environment, capture_output=True
        )
        self.assertEqual(absent.returncode, 1)

    def test_without_the_binaries_none_is_made(self) -> None:
        text = self.dir / "synqlite.txt"
        text.write_text("no program")
        library = self.dir / "some.so"
        library.write_bytes(b"")
        for variables, said in (
            ({}, "SYNQLITE_EXTENSION names no file"),
            ({"SYNQLITE_EXTENSION": str(library)}, "SYNQLITE_COMMAND names no file"),
            ({"SYNQLITE_EXTENSION": str(text), "SYNQLITE_COMMAND": sys.executable}, "is no *.so"),
            ({"SYNQLITE_EXTENSION": str(library), "SYNQLITE_COMMAND": str(text)}, "cannot be executed"),
        ):
            with self.subTest(said):
                done = self.build(**variables)
                self.assertNotEqual(done.returncode, 0)
                self.assertIn(said, done.stdout + done.stderr)
        self.assertEqual(list((self.dir / "dist").glob("*.whl")), [self.wheel])


if __name__ == "__main__":
    unittest.main()
