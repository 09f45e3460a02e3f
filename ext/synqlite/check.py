"""The extension in a stock SQLite that this Python or the sqlite3 shell brings.

    python3 ext/synqlite/check.py EXTENSION [unittest's arguments]

SYNQLITE_COMMAND names the command whose `--json` answers are compared; SYNQLITE_SEED another seed.
Tests of a second SQLite need apsw: `pip install --target DIR apsw`, and PYTHONPATH=DIR. What is
missing is printed as skipped. The locks of two libraries are locks.py's.
"""

import contextlib
import json
import os
import random
import re
import shutil
import sqlite3
import subprocess
import sys
import threading
import time
import unittest
from concurrent.futures import ThreadPoolExecutor

if len(sys.argv) < 2:
    sys.exit(__doc__)

from case import COMMAND, EXTENSION, SCHEMA, SEED, Case, ask, in_both_modes, load, needs_apsw, rows
from live import Live


class Replicas(Case):
    """What the functions do."""

    def test_a_database_becomes_a_replica_and_an_ordinary_one_again(self):
        db = self.connect("home.db")
        db.executescript(SCHEMA)
        before = list(db.iterdump())
        self.assertEqual(ask(db, "synqlite_init()")["site"], ask(db, "synqlite_status()")["site"])
        self.assertNotEqual(list(db.iterdump()), before)
        self.assertTrue(ask(db, "synqlite_deinit()")["removed"])
        self.assertEqual(list(db.iterdump()), before)

    def test_a_failure_is_told_in_parts(self):
        db = self.replica()
        self.assertEqual(rows(db, "SELECT synqlite_failure()"), [(None,)])
        with self.assertRaises(sqlite3.Error) as failed:
            ask(db, "synqlite_remote_add('a. b', 'x')")
        error = ask(db, "synqlite_failure()")["error"]
        self.assertEqual((error["code"], error["status"]), ("refused", 1))
        self.assertEqual(error["message"], "`a. b` cannot be the name of a remote")
        self.assertIn("- _ . and begin", error["hint"])
        self.assertEqual(str(failed.exception), f"synqlite: refused: {error['message']}. {error['hint']}")

    def test_init_takes_its_options(self):
        db = self.connect("home.db")
        db.executescript(SCHEMA + "CREATE TABLE log(a); CREATE TABLE cache(a)")
        said = '{"tables": ["person", "note"], "policies": {"note.stars": "counter"}, "history": true}'
        made = ask(db, "synqlite_init(?)", said)
        self.assertEqual({table["name"] for table in made["tables"]}, {"person", "note"})
        self.assertEqual(ask(db, "synqlite_policy()"), {"policies": {"note.stars": "counter"}})
        for name in "Anne", "Anna":
            db.execute("UPDATE person SET name = ? WHERE id = 1", [name])
            ask(db, "synqlite_fold()")
        log = ask(db, "synqlite_log(2, ?)", '{"table": "person", "row": "1"}')["entries"]
        self.assertEqual([entry["columns"] for entry in log], [{"name": "'Anna'"}, {"name": "'Anne'"}])
        ask(db, "synqlite_deinit()")
        made = ask(db, "synqlite_init(?)", '{"exclude": ["log"]}')
        self.assertEqual({table["name"] for table in made["tables"]}, {"person", "note", "cache"})

    def test_replicas_that_meet_by_path_keep_every_constraint(self):
        home, laptop = self.pair()
        home.execute("UPDATE person SET name = 'Anna' WHERE id = 1")
        home.execute("INSERT INTO person(name, email) VALUES('Eve', 'x@example.org')")
        home.execute("DELETE FROM person WHERE id = 2")
        time.sleep(0.01)
        laptop.execute("UPDATE person SET email = 'anna@example.org' WHERE id = 1")
        laptop.execute("INSERT INTO person(name, email) VALUES('Joe', 'x@example.org')")
        laptop.execute("INSERT INTO note(person, body) VALUES(2, 'of Bob')")
        done = ask(laptop, "synqlite_sync(?)", self.at("home.db"))
        self.assertEqual((done["conflicts"], done["sent"]["rows"], done["received"]["rows"]), (2, 3, 3))
        self.same(home, laptop)
        self.assertEqual(rows(home, "SELECT name, email FROM person ORDER BY id"), [
            ("Anna", "anna@example.org"), ("Eve", "x@example.org")])

    def test_replicas_that_meet_in_a_folder_become_the_same(self):
        home = self.replica()
        place = f"file://{self.folder}/stick/"
        ask(home, "synqlite_remote_add('stick', ?)", place)
        self.assertEqual(ask(home, "synqlite_push('stick')")["sent"]["rows"], 3)
        self.assertEqual(ask(home, "synqlite_clone(?, ?)", place, self.at("phone.db"))["origin"], place)
        phone = self.connect("phone.db")
        phone.execute("INSERT INTO note(person, body) VALUES(2, 'from the phone')")
        self.assertEqual(ask(phone, "synqlite_push()")["sent"]["rows"], 1)
        home.execute("UPDATE person SET name = 'Bobby' WHERE id = 2")
        self.assertEqual(ask(home, "synqlite_pull(?)", place)["merged"]["inserted"], 1)
        self.assertEqual(ask(home, "synqlite_sync('stick')")["sent"]["rows"], 1)
        self.assertEqual(ask(phone, "synqlite_sync()")["merged"]["updated"], 1)
        self.same(home, phone)

    def test_random_writes_on_three_replicas_converge(self):
        draw, (home, laptop), place = random.Random(SEED), self.pair(), f"file://{self.folder}/place/"
        ask(home, "synqlite_clone(?, ?)", self.at("home.db"), self.at("phone.db"))
        all, changed = [home, laptop, self.connect("phone.db")], 0
        for _ in range(40):
            db, n = draw.choice(all), draw.randrange(8)
            sql = draw.choice([
                f"INSERT INTO person(name, email) VALUES('P', '{n}@example.org')",
                f"INSERT INTO note(person, body, stars) SELECT id, 'b', {n % 6} FROM person LIMIT 1 OFFSET {n}",
                f"UPDATE OR IGNORE person SET email = '{n}@example.org' WHERE id % 8 = {draw.randrange(8)}",
                f"UPDATE note SET stars = {n % 6}, person = (SELECT max(id) FROM person) WHERE id % 8 = {n}",
                f"DELETE FROM person WHERE id % 8 = {n}",
            ])
            with contextlib.suppress(sqlite3.IntegrityError):
                changed += max(db.execute(sql).rowcount, 0)
            if draw.random() < 0.2:
                ask(db, "synqlite_sync(?)", draw.choice([place, self.at("home.db")]) if db is not home else place)
        for db in all * 2:
            ask(db, "synqlite_sync(?)", place)
        self.assertGreater(changed, 5)
        self.same(*all)

    def test_what_a_merge_brought_is_seen_by_the_connection_that_called(self):
        home, laptop = self.pair()
        before = rows(laptop, "PRAGMA data_version")
        home.execute("INSERT INTO person(name) VALUES('Eve')")
        ask(laptop, "synqlite_pull()")
        self.assertEqual(rows(laptop, "SELECT name FROM person WHERE id = 3"), [("Eve",)])
        self.assertNotEqual(rows(laptop, "PRAGMA data_version"), before)

    def test_remotes_are_listed_without_their_tokens_and_removed(self):
        home, hub = self.replica(), "http://127.0.0.1:9/notes"
        ask(home, "synqlite_remote_add('hub', ?, ?)", hub, '{"token": "secret"}')
        told = {"remotes": [{"name": "hub", "url": hub, "token": "kept"}]}
        self.assertEqual(ask(home, "synqlite_remotes()"), told)
        self.assertEqual(ask(home, "synqlite_remote_remove('hub')"), {"remotes": []})
        self.assertEqual(os.stat(self.at("home.db")).st_mode & 0o077, 0)

    def test_attached_databases_are_asked_by_name(self):
        """Whatever letters are in the names of the schema and of the file."""
        home, laptop = self.disagree()
        path, name = self.at("zu Haus & öä%20?#.db"), 'my "lap\'top'
        ask(laptop, "synqlite_clone(?, ?)", self.at("laptop.db"), path)
        home.execute("""ATTACH ? AS "my ""lap'top" """, [path])
        of = json.dumps({"schema": name})
        self.assertNotEqual(ask(home, "synqlite_status(?)", of)["site"], ask(home, "synqlite_status()")["site"])
        for table in "synqlite_conflicts", "synqlite_log":
            own = rows(laptop, f"SELECT * FROM {table}")
            self.assertTrue(own)
            self.assertEqual(rows(home, f"SELECT * FROM {table}(?)", name), own)
            self.assertEqual(rows(home, f"SELECT * FROM {table} WHERE schema = ?", name), own)
            sql = f"SELECT p.name, count(*) FROM pragma_database_list p, {table}(p.name) GROUP BY 1"
            self.assertEqual(dict(rows(home, sql)), {"main": len(own), name: len(own)})
        home.execute("""UPDATE "my ""lap'top".person SET name = 'Anna' WHERE id = 1""")
        self.assertEqual(ask(home, "synqlite_push(NULL, ?)", of)["sent"]["rows"], 1)
        self.assertEqual(rows(laptop, "SELECT name FROM person WHERE id = 1"), [("Anna",)])

    @in_both_modes
    def test_what_reads_is_answered_inside_a_transaction_that_reads(self, mode):
        home, _ = self.disagree(mode)
        calls = ["status()", "log(5)", "digest()", "verify()", "conflicts()", "remotes()", "policy()"]
        outside = [ask(home, f"synqlite_{call}") for call in calls]
        home.execute("BEGIN")
        self.assertEqual(rows(home, "SELECT count(*) FROM person"), [(5,)])
        self.assertEqual([ask(home, f"synqlite_{call}") for call in calls], outside)
        self.assertEqual(rows(home, "SELECT count(*) FROM synqlite_conflicts"), [(3,)])
        home.execute("COMMIT")

    def test_the_table_of_the_log_is_the_log(self):
        """What is not folded yet comes first."""
        home = self.replica()
        home.execute("DELETE FROM note")
        names = ["at", "at_ms", "site", "site_name", "table", "row", "kind", "columns", "name"]
        told = [[entry[name] for name in names] for entry in ask(home, "synqlite_log()")["entries"]]
        self.assertEqual(told[0][6], "delete (pending)")
        found = rows(home, "SELECT * FROM synqlite_log")
        self.assertEqual([[*row[:7], json.loads(row[7]), row[8]] for row in found], told)


    @in_both_modes
    def test_what_was_written_here_is_taken_back(self, mode):
        home = self.replica(mode)
        ask(home, "synqlite_init(?)", '{"history": true}')
        home.executescript("UPDATE person SET name = 'Anna' WHERE id = 1; DELETE FROM note")
        would = ask(home, "synqlite_undo(?)", '{"since": "10m", "dry_run": true}')
        self.assertEqual(rows(home, "SELECT name FROM person"), [("Anna",), ("Bob",)])
        self.assertEqual(ask(home, "synqlite_undo(?)", '{"since": "10m"}'), {**would, "dry_run": False})
        self.assertEqual(rows(home, "SELECT name FROM person"), [("Ann",), ("Bob",)])
        self.assertEqual(rows(home, "SELECT id, body FROM note"), [(1, "first")])
        for row in "2", '"2"', "2.0":
            home.execute("UPDATE person SET name = 'Bo' WHERE id = 2")
            done = ask(home, "synqlite_undo(?)", f'{{"table": "person", "row": {row}}}')
            self.assertEqual([(each["row"], each["columns"]) for each in done["taken"]], [("2", {"name": "Bob"})])
        home.execute("DELETE FROM person WHERE id = 2")
        ask(home, "synqlite_fold()")
        at = ask(home, "synqlite_log(1)")["entries"][0]["at"]
        done = ask(home, "synqlite_undo(?)", json.dumps({"at": at, "table": "person", "since": None}))
        self.assertEqual([each["change"] for each in done["taken"]], ["delete"])
        self.assertEqual(rows(home, "SELECT name FROM person"), [("Ann",), ("Bob",)])

    def test_the_guide_to_undo_has_statements_that_run(self):
        db = self.connect("home.db")
        db.executescript("CREATE TABLE todo(id INTEGER PRIMARY KEY, title TEXT); INSERT INTO todo VALUES(3, 'call Ann')")
        ask(db, "synqlite_init(?)", '{"history": true}')
        db.execute("UPDATE todo SET title = 'oops'")
        with open(os.path.join(os.path.dirname(__file__), "../../docs/guides/undo.md")) as guide:
            (statements,) = re.findall(r"```sql\n(.*?)```", guide.read(), re.DOTALL)
        for statement in statements.split(";\n")[:-1]:
            (answer,) = db.execute(statement).fetchone()
            self.assertEqual(json.loads(answer)["taken"][0]["columns"], {"title": "call Ann"})
        self.assertEqual(rows(db, "SELECT title FROM todo"), [("call Ann",)])


class Conflicts(Case):
    """What merges displaced, and how it is settled."""

    def test_the_table_and_the_function_list_the_same(self):
        home, laptop = self.disagree()
        told = ask(laptop, "synqlite_conflicts()")["conflicts"]
        names = ["id", "table", "row", "kind", "declared", "winner"]
        cells = "id, tbl, row, kind, declared, winner, shown, displaced, record"
        found = rows(laptop, f"SELECT {cells} FROM synqlite_conflicts")
        self.assertEqual([[record[name] for name in names] for record in told], [[*row[:6]] for row in found])
        self.assertEqual([(record["shown"], record["displaced"], record) for record in told],
                         [(row[6], json.loads(row[7]), json.loads(row[8])) for row in found])
        self.assertEqual({row[3:5] for row in found}, {("unique", "UNIQUE (email)")})
        self.assertEqual(ask(home, "synqlite_conflicts()")["conflicts"], told)

    def test_records_are_settled_one_by_one(self):
        """The first digits of an id are enough."""
        home, laptop = self.disagree()
        ids = [id for id, in rows(laptop, "SELECT id FROM synqlite_conflicts ORDER BY row")]
        name = "SELECT name FROM person WHERE email = '2@example.org'"
        self.assertEqual(rows(laptop, name), [("Eve",)])
        for id, digits, verb, left in zip(ids, (32, 8, 32), ("discard", "accept", "prefer"), (2, 1, 1), strict=True):
            done = ask(laptop, "synqlite_settle(?, ?)", id[:digits], verb)
            self.assertEqual(done, {"settled": id, "open": left})
        self.assertEqual(rows(laptop, name), [("Joe",)])
        ask(laptop, "synqlite_sync()")
        self.same(home, laptop)
        self.assertLessEqual(set(ids), {each["id"] for each in ask(laptop, "synqlite_conflicts(1)")["closed"]})

    @in_both_modes
    def test_records_are_settled_by_a_json_array(self, mode):
        """In WAL mode by one statement."""
        home, laptop = self.disagree(mode)
        ids = rows(laptop, "SELECT json_group_array(id) FROM synqlite_conflicts")[0][0]
        sql = "synqlite_settle((SELECT json_group_array(id) FROM synqlite_conflicts), 'discard')"
        done = ask(laptop, sql) if mode == "wal" else ask(laptop, "synqlite_settle(?, 'discard')", ids)
        self.assertEqual((sorted(done["settled"]), done["open"]), (sorted(json.loads(ids)), 0))
        ask(laptop, "synqlite_sync()")
        self.assertEqual(rows(home, "SELECT count(*) FROM synqlite_conflicts"), [(0,)])
        self.same(home, laptop)

    def test_an_array_has_ids_as_a_single_one_is_given(self):
        _, laptop = self.disagree()
        done = ask(laptop, "synqlite_settle('[\"zz\"]', 'discard')")
        self.assertEqual((done["settled"], done["open"], [each["id"] for each in done["refused"]]), ([], 3, ["zz"]))
        self.assertIn("no open conflict has id zz", done["refused"][0]["why"])
        id = rows(laptop, "SELECT id FROM synqlite_conflicts LIMIT 1")[0][0]
        done = ask(laptop, "synqlite_settle(?, 'discard')", json.dumps([id[:8]]))
        self.assertEqual(done, {"settled": [id], "refused": [], "open": 2})


class Refusals(Case):
    """What is not done, and what is said then."""

    def test_a_database_in_memory(self):
        db = self.connect(":memory:")
        for call in "synqlite_status()", "synqlite_init()", "synqlite_sync()", "SELECT * FROM synqlite_log":
            self.refused(db, "refused", "in memory, which nobody else can open. Replicas are files", call)

    def test_a_connection_that_only_reads(self):
        self.pair()
        db = self.connect(f"file:{self.folder}/laptop.db?mode=ro", uri=True)
        self.assertTrue(ask(db, "synqlite_status()") and rows(db, "SELECT * FROM synqlite_log"))
        for call in "sync()", "fold()", "init()", "policy('fk', 'ignore')", "settle('a', 'accept')", \
                "undo('{\"since\": \"1h\", \"dry_run\": true}')":
            self.refused(db, "refused", "main is open for reading only. Open it for writing", f"synqlite_{call}")

    def test_writing_inside_a_transaction(self):
        _, laptop = self.pair()
        what = "a transaction is open on this connection. Commit it or roll it back first"
        for begin in "BEGIN", "BEGIN IMMEDIATE", "SAVEPOINT s":
            laptop.execute(begin)
            for call in "sync()", "push()", "pull()", "fold()", "init()", "deinit()", "remote_remove('origin')", \
                    "undo('{\"since\": \"1h\"}')", "undo('{\"since\": \"1h\", \"dry_run\": true}')":
                self.refused(laptop, "locked", what, f"synqlite_{call}")
            laptop.rollback()
        # Python begins one by itself.
        laptop.isolation_level = "DEFERRED"
        laptop.execute("UPDATE person SET name = 'Anna' WHERE id = 1")
        self.refused(laptop, "locked", what, "synqlite_sync()")
        laptop.commit()
        self.assertEqual(ask(laptop, "synqlite_sync()")["sent"]["rows"], 1)

    def test_reading_inside_a_transaction_that_writes(self):
        _, laptop = self.pair()
        laptop.execute("BEGIN")
        laptop.execute("UPDATE person SET name = 'Anna' WHERE id = 1")
        for call in "synqlite_status()", "synqlite_digest()", "SELECT * FROM synqlite_conflicts":
            self.refused(laptop, "locked", "is writing to the database. Commit or roll back first", call)

    @in_both_modes
    def test_inside_a_statement_that_writes(self, mode):
        """It would wait for itself."""
        _, laptop = self.pair(mode)
        laptop.execute("CREATE TABLE told(x)")
        for call in "sync()", "fold()", "status()":
            with self.assertRaisesRegex(sqlite3.OperationalError, "is writing to the database"):
                laptop.execute(f"INSERT INTO told VALUES(synqlite_{call})")
        laptop.execute("CREATE TEMP TRIGGER noted AFTER UPDATE ON person BEGIN SELECT synqlite_fold(); END")
        with self.assertRaisesRegex(sqlite3.OperationalError, "is writing to the database"):
            laptop.execute("UPDATE person SET name = 'Anna' WHERE id = 1")
        self.assertEqual(rows(laptop, "SELECT count(*) FROM told"), [(0,)])

    @in_both_modes
    def test_a_statement_that_reads_is_in_the_way_in_delete_mode_and_not_in_wal(self, mode):
        _, laptop = self.pair(mode)
        laptop.execute("UPDATE person SET name = 'Anna' WHERE id = 1")
        cursor = laptop.execute("SELECT * FROM person")
        cursor.fetchone()
        if mode == "delete":
            self.refused(laptop, "locked", "is reading the database. Finish it first, or use WAL", "synqlite_sync()")
            cursor.close()
        self.assertEqual(ask(laptop, "synqlite_sync()")["sent"]["rows"], 1)

    def test_what_is_not_there(self):
        home, laptop = self.pair()
        for db, kind, what, calls in [
            (home, "refused", "home.db has no remote called origin. ", ["synqlite_sync()"]),
            (home, "usage", "no database called zz is attached", [
                "synqlite_status('{\"schema\": \"zz\"}')", "SELECT * FROM synqlite_log('zz')"]),
            (laptop, "usage", "no table persons; did you mean person?", [
                "synqlite_log('{\"table\": \"persons\"}')", "synqlite_undo('{\"table\": \"persons\", \"row\": 1}')",
                "synqlite_init('{\"tables\": [\"persons\"]}')"]),
            (laptop, "refused", "or remote nosuch. Check the path; remotes of ", ["synqlite_sync('nosuch')"]),
            (laptop, "usage", "has a zero byte in it", ["synqlite_sync('a' || char(0) || 'b')"]),
            (laptop, "refused", "`ftp` are not supported. Use ", ["synqlite_pull('ftp://host/x')"]),
            (laptop, "refused", "has no remote called usb. ", ["synqlite_remote_remove('usb')"]),
            (laptop, "refused", "called origin already", ["synqlite_remote_add('origin', 'x.db')"]),
            (laptop, "refused", "cannot be the name of a remote. Use letters", ["synqlite_remote_add('a/b', 'x')"]),
            (laptop, "refused", "URL of the remote is empty. Use the path", ["synqlite_remote_add('e', '')"]),
            (laptop, "network", "cannot reach the hub at ", ["synqlite_sync('http://127.0.0.1:9/notes')"]),
        ]:
            for call in calls:
                with self.subTest(call):
                    self.refused(db, kind, what, call)

    def test_unknown_and_malformed_options(self):
        _, laptop = self.pair()
        for function, what, texts in [
            ("sync", "no option forced. Options are token, key_file, whole, force, schema, wait", ['{"forced": true}']),
            ("sync", "the options are no JSON object: ", ['{"force": true', "{force: true}", "{}{}"]),
            ("sync", "option force is to be true or false", ['{"force": 1}']),
            ("sync", "option token is to be a text", ['{"token": 1}']),
            ("sync", "option schema is to be a text", ['{"schema": 1}']),
            ("sync", "zero bytes", ['{"schema": "a\\u0000b"}']),
            ("sync", "option wait is to be a number of seconds", ['{"wait": "1"}', '{"wait": -1}', '{"wait": 1e300}']),
            ("undo", "it is not said which changes. Give since, until or at, or table and row", [
                None, "{}", '{"table": "person"}', '{"since": null}', '{"dry_run": true}']),
            ("undo", "no option before. Options are since, until, at, table, row, dry_run", ['{"before": "1h"}']),
            ("undo", "Give at alone, or since and until", [
                '{"at": "1h", "since": "1h"}', '{"at": "1h", "until": "1h"}']),
            ("undo", "of which table the row is. Give table too", ['{"row": 1}', '{"row": 1, "since": "1h"}']),
            ("undo", "`yesterday` is no point of time. Write it as 2026-11-20", [
                '{"since": "yesterday"}', '{"until": "yesterday"}', '{"at": "yesterday"}']),
            ("undo", "option since is to be a text", ['{"since": 1732622325007}']),
            ("undo", "option row is to be a text", ['{"table": "person", "row": [1]}']),
            ("undo", "option dry_run is to be true or false", ['{"since": "1h", "dry_run": 1}']),
            ("init", "option tables is to be a list of texts", ['{"tables": "person"}', '{"tables": [1]}']),
            ("init", "option policies is to be an object of texts", ['{"policies": ["a"]}', '{"policies": {"fk": 1}}']),
            ("init", "option history is to be true or false", ['{"history": "yes"}']),
        ]:
            for text in texts:
                with self.subTest(text):
                    self.refused(laptop, "usage", what, f"synqlite_{function}(?)", text)
        self.refused(laptop, "refused", "policy fk=perhaps: ", "synqlite_policy('fk', 'perhaps')")

    def test_arguments_of_wrong_types_and_too_many(self):
        home = self.replica()
        for what, calls in [
            ("argument 1 is to be a text", "sync(1); sync(x'61'); remote_remove(1); settle(1, 'accept')"),
            ("argument 1 is to be an integer", "log('many'); log(1.5); verify('full'); conflicts('closed')"),
            (" where 0 may be", "status('x'); version(1); digest('{}', '{}')"),
            (" where 1 may be", "sync('a', 'b')"),
            ("no negative number", "log(-1)"),
            ("argument 1, the remote, is missing", "clone(); clone(NULL, 'a')"),
            ("argument 2, the new file, is missing", "clone('a'); clone('a', NULL)"),
            ("argument 2, the value, is missing", "policy('fk')"),
            ("argument 2, the URL, is missing", "remote_add('a')"),
            ("argument 1, the name, is missing", "remote_remove()"),
            ("argument 1, the id, is missing", "settle()"),
            ("argument 2, what to do, is missing", "settle('a')"),
            ("Say prefer, discard, restore or accept", "settle('a', 'undo')"),
            ("the ids are no JSON array of texts", "settle('[1]', 'accept'); settle('[', 'accept')"),
        ]:
            for call in calls.split("; "):
                with self.subTest(call):
                    self.refused(home, "usage", what, f"synqlite_{call}")

    def test_null_is_no_argument_and_a_schema_may_be_told_twice(self):
        _, laptop = self.pair()
        self.assertEqual(ask(laptop, "synqlite_sync(NULL)")["conflicts"], 0)
        self.assertEqual(ask(laptop, "synqlite_log(NULL)"), ask(laptop, "synqlite_log()"))
        for more in "(NULL)", "('main') WHERE schema = 'main'":
            with self.subTest(more):
                found = rows(laptop, f"SELECT * FROM synqlite_log{more}")
                self.assertEqual(found, rows(laptop, "SELECT * FROM synqlite_log"))

    def test_a_file_that_is_no_replica_or_no_database(self):
        db, home = self.connect("plain.db"), self.replica()
        db.execute("CREATE TABLE t(a)")
        what = "plain.db is not a replica. "
        for call in "synqlite_status()", "synqlite_sync()", "synqlite_remotes()", "SELECT * FROM synqlite_conflicts":
            self.refused(db, "refused", what, call)
        self.refused(home, "refused", what, "synqlite_sync(?)", self.at("plain.db"))
        with open(self.at("text.db"), "w") as file:
            file.write("not a database\n" * 100)
        text = self.connect("text.db")
        for call in "status()", "init()":
            self.refused(text, "refused", "is not a SQLite database, or it is encrypted. ", f"synqlite_{call}")

    def test_a_database_that_vanished_one_copied_by_hand_and_a_clone_onto_one(self):
        home, laptop = self.pair()
        shutil.copy(self.at("home.db"), self.at("copy.db"))
        copy = self.connect("copy.db")
        self.refused(copy, "conflict", "copy.db", "synqlite_sync(?)", self.at("laptop.db"))
        ask(copy, "synqlite_init('{\"new_site\": true}')")
        ask(copy, "synqlite_sync(?)", self.at("laptop.db"))
        os.rename(self.at("home.db"), self.at("elsewhere.db"))
        for db, call in (home, "status()"), (home, "fold()"), (laptop, "sync()"):
            self.refused(db, "refused", "home.db. Check the path", f"synqlite_{call}")
        self.assertFalse(os.path.exists(self.at("home.db")))
        self.refused(copy, "conflict", "laptop.db exists already. Choose another name",
                     "synqlite_clone(?, ?)", self.at("copy.db"), self.at("laptop.db"))

    def in_time(self, db, sql):
        """It waits for others no longer than it was told to."""
        since = time.monotonic()
        self.refused(db, "locked", "home.db is locked by another program. Try again when", sql)
        self.assertLess(time.monotonic() - since, 5)

    def test_a_database_that_others_lock(self):
        home, other = self.replica(), self.connect("home.db")
        other.execute("BEGIN IMMEDIATE")
        self.in_time(home, "synqlite_fold('{\"wait\": 0}')")
        threading.Timer(0.5, other.execute, ["COMMIT"]).start()
        self.assertEqual(ask(home, "synqlite_fold()")["rows"], 0)
        other.execute("BEGIN EXCLUSIVE")
        for call in "status", "fold":
            self.in_time(home, f"synqlite_{call}('{{\"wait\": 0}}')")

    def test_a_writer_that_waits_for_the_reader_who_calls(self):
        """In DELETE mode it lets no other reader in."""
        home, other = self.replica(), self.connect("home.db")
        home.execute("BEGIN")
        self.assertEqual(rows(home, "SELECT count(*) FROM person"), [(2,)])
        other.execute("PRAGMA busy_timeout = 0")
        other.execute("BEGIN IMMEDIATE")
        other.execute("UPDATE person SET name = 'Anna' WHERE id = 1")
        self.assertIn("locked", self.message(other, "COMMIT"))
        self.in_time(home, "synqlite_status('{\"wait\": 0}')")
        home.execute("ROLLBACK")
        other.execute("COMMIT")
        self.assertEqual(ask(home, "synqlite_status()")["unfolded"], 1)

    def test_views_and_triggers_of_a_file_cannot_call(self):
        home = self.replica()
        home.executescript("""
            CREATE VIEW v AS SELECT synqlite_status();
            CREATE TABLE d(a, b DEFAULT (synqlite_version()));
            CREATE TRIGGER r AFTER INSERT ON person BEGIN SELECT synqlite_sync('x'); END""")
        for sql in "SELECT * FROM v", "INSERT INTO d(a) VALUES(1)", "INSERT INTO person(name) VALUES('Eve')":
            self.assertIn("unsafe use of synqlite_", self.message(home, sql))
        self.assertIn("prohibited", self.message(home, "CREATE INDEX i ON person(synqlite_version())"))
        self.assertEqual(rows(home, "SELECT count(*) FROM person"), [(2,)])
        for table in "synqlite_log", "synqlite_conflicts":
            with self.subTest(table):
                home.execute(f"CREATE VIEW v_{table} AS SELECT * FROM {table}")
                self.assertIn("unsafe use of virtual table", self.message(home, f"SELECT * FROM v_{table}"))

    def test_tables_take_one_name_and_are_not_written(self):
        home = self.replica()
        for table in "synqlite_log", "synqlite_conflicts":
            with self.subTest(table):
                self.assertIn("may not be modified", self.message(home, f"DELETE FROM {table}"))
                self.refused(home, "usage", "", f"SELECT * FROM {table}(5)")

    def test_another_file_system_than_sqlites_own(self):
        """Its locks are not those of the connection that the extension opens."""
        self.pair()
        name = f"file:{self.folder}/laptop.db?vfs=unix-dotfile"
        writer, caller = (self.connect(name, uri=True) for _ in range(2))
        writer.execute("BEGIN IMMEDIATE")
        writer.execute("UPDATE person SET name = 'Anna' WHERE id = 1")
        self.assertIn("synqlite: ", self.message(caller, "SELECT synqlite_sync('{\"wait\": 0}')"))
        writer.execute("COMMIT")
        self.assertEqual(rows(writer, "SELECT name FROM person WHERE id = 1"), [("Anna",)])


class Threads(Case):
    """Several connections, several threads."""

    def threads(self, *runs):
        """Runs all at once; a failure is the test's."""
        with ThreadPoolExecutor(len(runs)) as pool:
            for done in [pool.submit(run) for run in runs]:
                done.result()

    def test_many_connections_load_it_at_once(self):
        ready = threading.Barrier(8)

        def run():
            for _ in range(5):
                ready.wait(30)
                self.assertIn("synqlite", ask(self.connect(":memory:"), "synqlite_version()"))
        self.threads(*[run] * 8)

    @in_both_modes
    def test_threads_call_on_connections_of_their_own(self, mode):
        """Two on each of two replicas write, synchronize with a third replica and read."""
        home, laptop = self.pair(mode)
        ask(home, "synqlite_clone(?, ?)", self.at("home.db"), self.at("phone.db"))
        phone = self.connect("phone.db")
        phone.execute(f"PRAGMA journal_mode = {mode}")
        told = []

        def run(name, n):
            db = self.connect(name)
            for i in range(6):
                db.execute("INSERT INTO note(person, body) VALUES(1, ?)", [f"{name} {n} {i}"])
                told.append(f"{name} {n} {i}")
                ask(db, "synqlite_sync(?)", self.at("home.db"))
                ask(db, "synqlite_status()")
                self.assertTrue(ask(db, "synqlite_log(3)")["entries"])
        all = [(name, n) for name in ("laptop.db", "phone.db") for n in range(2)]
        self.threads(*[lambda each=each: run(*each) for each in all])
        for db in laptop, phone, laptop:
            ask(db, "synqlite_sync(?)", self.at("home.db"))
        self.same(home, laptop, phone)
        self.assertEqual({body for body, in rows(home, "SELECT body FROM note")}, {"first", *told})
        self.assertEqual(len(told), 24)

    @in_both_modes
    def test_one_thread_synchronizes_while_another_writes(self, mode):
        home, laptop = self.pair(mode)
        done, told, syncs = threading.Event(), [], []

        def write():
            db = self.connect("laptop.db")
            db.execute("PRAGMA synchronous = OFF")
            while not done.is_set():
                db.execute("INSERT INTO note(person, body) VALUES(1, ?)", [f"note {len(told)}"])
                told.append((time.monotonic(), f"note {len(told)}"))

        def sync():
            end = time.monotonic() + 2
            with contextlib.ExitStack() as then:
                then.callback(done.set)
                while time.monotonic() < end or len(syncs) < 3:
                    since = time.monotonic()
                    ask(laptop, "synqlite_sync()")
                    syncs.append((since, time.monotonic()))
        self.threads(write, sync)
        within = sum(any(since < at < until for since, until in syncs) for at, _ in told)
        self.assertGreater(within, 10, "nobody wrote during a synchronization")
        ask(laptop, "synqlite_sync()")
        self.same(home, laptop)
        bodies = {body for body, in rows(home, "SELECT body FROM note")}
        self.assertEqual(bodies, {"first", *(body for _, body in told)})


class Hosts(Case):
    """Which programs load it."""

    def test_it_is_loaded_twice_in_one_process(self):
        home, other = load(self.replica()), self.connect("home.db")
        self.assertEqual(ask(home, "synqlite_status()"), ask(other, "synqlite_status()"))
        home.close()
        self.assertEqual(ask(other, "synqlite_version()")["sqlite"], sqlite3.sqlite_version)

    def test_it_loads_by_the_name_of_the_library(self):
        shutil.copy(EXTENSION if os.path.exists(EXTENSION) else EXTENSION + ".so", self.at("libsynqlite.so"))
        code = """if True:
            sys.argv[1] = sys.argv[2] + "/libsynqlite"
            print(ask(stock("a.db"), "synqlite_version()")["synqlite"])"""
        self.assertRegex(self.python(code)[0], r"^\d+\.\d+\.\d+$")

    def test_the_sqlite3_shell_loads_it(self):
        if not shutil.which("sqlite3"):
            self.skipTest("there is no sqlite3")
        lines = f"""
            .load {EXTENSION}
            {SCHEMA}
            SELECT json_extract(synqlite_init(), '$.tables[0].rows');
            SELECT json_extract(synqlite_clone('home.db', 'laptop.db'), '$.rows');
            UPDATE person SET name = 'Anna' WHERE id = 1;
            SELECT json_extract(synqlite_sync('laptop.db'), '$.sent.rows');
            SELECT kind, columns FROM synqlite_log LIMIT 1;
            SELECT synqlite_sync('nosuch');"""
        lines = "\n".join(line.strip() for line in lines.splitlines())
        done = subprocess.run(["sqlite3", "home.db"], input=lines, capture_output=True, text=True, cwd=self.folder)
        self.assertEqual(done.stdout.splitlines(), ["2", "3", "1", "update|{\"name\":\"'Anna'\"}"])
        self.assertIn("synqlite: refused: there is no database or remote nosuch. ", done.stderr)

    def test_an_sqlite_that_is_too_old_is_refused(self):
        """The table of functions that it gives, made by hand: the version and mprintf are enough."""
        import ctypes.util
        name = ctypes.util.find_library("sqlite3")
        if not name or ctypes.sizeof(ctypes.c_void_p) != 8:
            self.skipTest("there is no shared library of SQLite to take mprintf from")
        code = """if True:
            real = ctypes.CDLL(sys.argv[3])
            real.sqlite3_mprintf.restype = ctypes.c_void_p
            extension = ctypes.CDLL(sys.argv[1] if sys.argv[1].endswith(".so") else sys.argv[1] + ".so")
            version = ctypes.CFUNCTYPE(ctypes.c_int)(lambda: int(sys.argv[4]))
            table = (ctypes.c_void_p * 400)()
            table[67] = ctypes.cast(version, ctypes.c_void_p)
            table[69] = ctypes.cast(real.sqlite3_mprintf, ctypes.c_void_p)
            message = ctypes.c_char_p()
            print(extension.sqlite3_synqlite_init(None, ctypes.byref(message), table), message.value.decode())"""
        for number, text in ("3037002", "3.37.2"), ("3008000", "3.8.0"):
            what = f"1 synqlite: usage: this program has SQLite {text}. SynQLite needs 3.38 or later"
            self.assertEqual(self.python(code, name, number), [what])

    @needs_apsw
    def test_a_second_sqlite_in_the_process_is_refused(self):
        import apsw
        what = ("synqlite: usage: another SQLite library in this process has loaded SynQLite already. Two of them "
                "drop each other's locks on a file; load it from one only")
        code = """if True:
            first, second = (stock, other) if sys.argv[3] == "stock" else (other, stock)
            db = first("home.db")
            for _ in range(2):
                try:
                    print("loaded", second("home.db"))
                except Exception as error:
                    print(error)
            print(ask(db, "synqlite_version()")["sqlite"])
            print(ask(db, "synqlite_fold()")["rows"])"""
        self.replica()
        for first, version in ("stock", sqlite3.sqlite_version), ("apsw", apsw.sqlite_lib_version()):
            with self.subTest(first):
                lines = self.python(code, first)
                self.assertEqual([what in line for line in lines[:2]], [True, True], lines)
                self.assertEqual(lines[2:], [version, "0"])

    @needs_apsw
    def test_another_sqlite_may_be_the_only_one_and_its_update_hook_is_not_told_of_merges(self):
        code = """if True:
            home = other("home.db")
            list(home.execute("CREATE TABLE t(a INTEGER PRIMARY KEY, b)"))
            ask(home, "synqlite_init()")
            ask(home, "synqlite_clone(?, ?)", f"{sys.argv[2]}/home.db", f"{sys.argv[2]}/laptop.db")
            laptop, seen = other("laptop.db"), []
            laptop.set_update_hook(lambda *what: seen.append(what[3]))
            list(home.execute("INSERT INTO t VALUES(2, 3)"))
            print(ask(laptop, "synqlite_sync()")["merged"]["inserted"], seen)
            list(laptop.execute("INSERT INTO t VALUES(7, 7)"))
            print(7 in seen, list(laptop.execute("SELECT count(*) FROM t")))"""
        self.assertEqual(self.python(code), ["1 []", "True [(2,)]"])


@unittest.skipUnless(COMMAND, "SYNQLITE_COMMAND does not name a command")
class Command(Case):
    """The command and the extension, on the same files."""

    def command(self, *arguments, status=0):
        done = subprocess.run([COMMAND, *arguments, "--json"], capture_output=True, text=True, cwd=self.folder)
        self.assertEqual(done.returncode, status, done.stderr)
        return json.loads(done.stdout)

    def shape(self, json):
        """The keys of an answer, at every depth; of a list those of the first."""
        if isinstance(json, dict):
            return {key: self.shape(value) for key, value in json.items()}
        return [self.shape(each) for each in json[:1]] if isinstance(json, list) else None

    def test_what_reads_gives_the_answers_of_the_command(self):
        _, db = self.disagree()
        ask(db, "synqlite_policy('note.stars', 'counter')")
        ask(db, "synqlite_remote_add('stick', ?)", f"file://{self.folder}/stick/")
        db.executescript("UPDATE person SET name = 'Anna' WHERE id = 1; CREATE VIEW v AS SELECT 1")
        for call, command in [
            ("status()", "status"), ("digest()", "digest"), ("verify()", "verify"), ("policy()", "policy"),
            ("remotes()", "remote list"), ("conflicts()", "conflicts"), ("conflicts(1)", "conflicts --closed"),
            ("log()", "log"), ("log(2)", "log --limit 2"), ("log(0)", "log --limit 0"),
            ("log('{\"table\": \"person\", \"row\": \"1\"}')", "log --table person --row 1"),
        ]:
            with self.subTest(call):
                told = self.command(*command.split(), self.at("laptop.db"))
                self.assertEqual(ask(db, f"synqlite_{call}"), told)

    def test_what_writes_gives_the_keys_of_the_command(self):
        answers = {"command": {}, "extension": {}}
        for who, found in answers.items():
            home, laptop, stick = self.at(f"{who}-home.db"), self.at(f"{who}-laptop.db"), f"file://{self.folder}/{who}/"
            db = there = self.connect(f"{who}-home.db")
            db.executescript(SCHEMA + "CREATE VIEW v AS SELECT 1")

            def call(arguments, sql, *values):
                name = arguments[0]
                found[name] = ask(there, sql, *values) if who == "extension" else self.command(*arguments)
            call(["init", home], "synqlite_init()")
            call(["clone", home, laptop], "synqlite_clone(?, ?)", home, laptop)
            there = self.connect(f"{who}-laptop.db")
            for each, name in (db, "Eve"), (there, "Joe"):
                each.execute("INSERT INTO person(name, email) VALUES(?, 'x@example.org')", [name])
                each.execute("UPDATE person SET name = ? WHERE id = 1", [name])
            call(["fold", laptop], "synqlite_fold()")
            call(["sync", laptop], "synqlite_sync()")
            call(["push", laptop, stick], "synqlite_push(?)", stick)
            call(["pull", laptop, stick], "synqlite_pull(?)", stick)
            call(["policy", laptop, "fk=ignore"], "synqlite_policy('fk', 'ignore')")
            id = ask(there, "synqlite_conflicts()")["conflicts"][0]["id"]
            call(["conflicts", laptop, "accept", id], "synqlite_settle(?, 'accept')", id)
            there.execute("DELETE FROM note")
            call(["undo", laptop, "--since", "1h", "--table", "note"],
                 "synqlite_undo(?)", '{"since": "1h", "table": "note"}')
            call(["deinit", laptop], "synqlite_deinit()")
        for name, answer in answers["command"].items():
            with self.subTest(name):
                self.assertEqual(self.shape(answers["extension"][name]), self.shape(answer))
        self.assertTrue(answers["extension"]["sync"]["decisions"])

    def test_failures_are_those_of_the_command(self):
        home, there = self.replica(), self.connect("plain.db")
        there.execute("CREATE TABLE t(a)")
        path, plain = self.at("home.db"), self.at("plain.db")
        for db, call, arguments, status in [
            (there, "status()", ["status", plain], 1),
            (home, "sync('nosuch')", ["sync", path, "nosuch"], 1),
            (home, "sync('http://127.0.0.1:9/x')", ["sync", path, "http://127.0.0.1:9/x"], 4),
            (home, "undo()", ["undo", path], 2),
            (home, "undo('{\"since\": \"soon\"}')", ["undo", path, "--since", "soon"], 2),
            (home, "undo('{\"table\": \"person\", \"row\": 9}')", ["undo", path, "--table", "person", "--row", "9"], 1),
            (home, f"clone('x.db', '{plain}')", ["clone", "x.db", plain], 5),
        ]:
            with self.subTest(call):
                error = self.command(*arguments, status=status)["error"]
                self.refused(db, error["code"], error["message"], f"synqlite_{call}")


if __name__ == "__main__":
    if not hasattr(sqlite3.Connection, "enable_load_extension"):
        sys.exit(f"{sys.executable} was built without extensions; try /usr/bin/python3")
    print(f"SQLite {sqlite3.sqlite_version} of {sys.executable}, seed {SEED}", flush=True)
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
