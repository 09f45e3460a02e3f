"""Which backend is taken, and what a command or an extension of another version, or none at all, comes to."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import unittest
from pathlib import Path
from unittest import mock

import synqlite
from synqlite import __main__, _choice, _extension, _files

from .support import ByExtension, InFolder, environment


class Choice(InFolder):
    def setUp(self) -> None:
        super().setUp()
        self.path = self.database("home.db")

    def test_an_unknown_backend(self) -> None:
        with self.assertRaises(synqlite.UsageError) as unknown:
            synqlite.init(self.path, backend="server")  # type: ignore[arg-type]
        self.assertIn("'server'", unknown.exception.message)

    def test_a_timeout_is_some_seconds(self) -> None:
        for timeout in (-1, -0.001, float("nan"), float("inf"), 1e300):
            for backend in (None, "command"):
                with self.subTest(timeout), self.assertRaises(synqlite.UsageError) as senseless:
                    synqlite.open(self.path, timeout=timeout, backend=backend)
                self.assertIn(f"a timeout of {timeout} seconds", senseless.exception.message)

    def test_what_the_environment_names_must_be_there(self) -> None:
        for variable in ("SYNQLITE_COMMAND", "SYNQLITE_EXTENSION"):
            with environment(**{variable: "nowhere/synqlite"}):
                with self.assertRaises(synqlite.NotInstalledError) as absent:
                    synqlite.init(self.path, backend="command")
                    synqlite.init(self.path, backend="extension")
                self.assertIn(f"{variable} names nowhere/synqlite", absent.exception.message)

    def test_with_neither_it_says_what_to_do(self) -> None:
        with environment(SYNQLITE_COMMAND=None, SYNQLITE_EXTENSION=None):
            with mock.patch.object(_files, "_BIN", self.dir):
                with self.assertRaises(synqlite.NotInstalledError) as neither:
                    synqlite.init(self.path)
                self.assertIn("Install a wheel", str(neither.exception))
                with self.assertRaises(SystemExit) as ended:
                    __main__.main()
                self.assertIn("SYNQLITE_COMMAND", str(ended.exception.code))

    def test_files_beside_the_package_are_found(self) -> None:
        (self.dir / "synqlite.so").touch()
        (self.dir / "synqlite").touch()
        with environment(SYNQLITE_COMMAND=None, SYNQLITE_EXTENSION=None):
            with mock.patch.object(_files, "_BIN", self.dir):
                self.assertEqual(_files.command(), self.dir / "synqlite")
                self.assertEqual(_files.extension(), self.dir / "synqlite.so")

    def test_without_a_usable_extension_the_command_is_taken(self) -> None:
        broken = self.dir / "synqlite.so"
        broken.write_bytes(b"no library")
        with environment(SYNQLITE_EXTENSION=str(broken)):
            self.assertEqual(synqlite.init(self.path).backend, "command")
            with self.assertRaises(synqlite.NotInstalledError) as unusable:
                synqlite.open(self.path, backend="extension")
            self.assertIn("cannot be used here", unusable.exception.message)

    def test_a_python_that_loads_no_extensions_takes_the_command(self) -> None:
        extension = self.dir / "synqlite.so"
        extension.touch()
        with environment(SYNQLITE_EXTENSION=str(extension)):
            with mock.patch.object(sqlite3, "Connection", object):
                self.assertEqual(synqlite.init(self.path).backend, "command")
                self.assertIn("cannot load", str(_extension.why_not(extension)))


class Preference(ByExtension, InFolder):
    def test_the_extension_is_taken_where_it_can_be_loaded(self) -> None:
        path = self.database("home.db")
        self.assertEqual(synqlite.init(path).backend, "extension")
        self.assertEqual(synqlite.open(path, backend="command").backend, "command")

    def test_no_connection_of_the_program_has_it_loaded(self) -> None:
        path = self.database("home.db")
        program = sqlite3.connect(path)
        synqlite.init(path)
        with self.assertRaises(sqlite3.OperationalError):
            program.execute("SELECT synqlite_version()")
        program.close()


class OtherCommands(InFolder):
    """A script stands for a command of another version, or one that ends badly."""

    def answer(self, script: str) -> synqlite.Replica:
        program = self.dir / "synqlite"
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        with environment(SYNQLITE_COMMAND=str(program)):
            return synqlite.Replica(self.dir / "home.db", _choice.choose("command", 2.5))

    def test_unknown_keys_are_passed_over(self) -> None:
        replica = self.answer("""echo '{"rows": 3, "seconds": 0.5, "pages": {"new": [1]}}'""")
        self.assertEqual(replica.fold(), synqlite.Folded(rows=3, seconds=0.5, columns=0))

    def test_missing_keys_are_a_defect_that_names_them(self) -> None:
        with self.assertRaises(synqlite.DefectError) as lacking:
            self.answer("""echo '{"seconds": 0.5}'""").fold()
        self.assertIn("`rows`", lacking.exception.message)

    def test_every_code_has_its_class_and_an_unknown_one_is_an_error(self) -> None:
        for kind in synqlite.Error.__subclasses__():
            if kind is synqlite.NotInstalledError:
                continue
            replica = self.answer(
                f"""echo '{{"error": {{"code": "{kind.code}", "message": "no", "hint": "rest"}}}}'; exit 1"""
            )
            with self.subTest(kind.code), self.assertRaises(kind) as failed:
                replica.fold()
            self.assertIs(type(failed.exception), kind)
        with self.assertRaises(synqlite.Error) as unknown:
            self.answer(
                """echo '{"error": {"code": "tired", "message": "no", "hint": null}}'; exit 9"""
            ).fold()
        self.assertEqual((type(unknown.exception), str(unknown.exception)), (synqlite.Error, "no"))

    def test_one_that_is_killed_or_says_nothing(self) -> None:
        endings = {"kill -9 $$": "it said nothing", "echo out of luck >&2; exit 7": "out of luck"}
        for script, said in endings.items():
            with self.assertRaises(synqlite.DefectError) as died:
                self.answer(script).fold()
            self.assertIn(said, died.exception.message)

    def test_one_that_cannot_be_run(self) -> None:
        replica = self.answer("exit 0")
        (self.dir / "synqlite").chmod(0o644)
        with self.assertRaises(synqlite.NotInstalledError):
            replica.fold()

    def test_tokens_are_in_the_environment_and_options_before_the_operands(self) -> None:
        """Where others on the machine cannot read them, and where no name is taken for an option."""
        replica = self.answer(
            f"echo \"$SYNQLITE_TOKEN|$*\" > '{self.dir}/seen'; "
            """echo '{"error": {"code": "refused", "message": "no"}}'; exit 1"""
        )
        with self.assertRaises(synqlite.RefusedError):
            replica.sync("--force", token="secret", whole=True)
        seen = (self.dir / "seen").read_text().strip()
        expected = f"secret|sync --whole --json --progress=none --wait=3 -- {self.dir}/home.db --force"
        self.assertEqual(seen, expected)

    def test_a_zero_byte_is_refused(self) -> None:
        with self.assertRaises(synqlite.UsageError):
            self.answer("exit 0").sync("a\0b")


class TheCommandOfThePackage(unittest.TestCase):
    def test_it_becomes_the_command(self) -> None:
        words = [sys.executable, "-m", "synqlite", "conflicts", "--json", "--", "absent.db"]
        here = Path(__file__).resolve().parent.parent
        done = subprocess.run(words, capture_output=True, text=True, cwd=here, env={**os.environ})
        self.assertEqual(done.returncode, 1)
        self.assertIn('"message":"there is no database at absent.db"', done.stdout)


if __name__ == "__main__":
    unittest.main()
