"""The extension for programs that follow a database: waiting for a commit, listing what changed, names."""

import json
import os
import subprocess
import sys
import threading
import time

from case import Case, ask, in_both_modes

WRITER = "import sqlite3, sys; db = sqlite3.connect(sys.argv[1]); db.execute(sys.argv[2]); db.commit()"


class Live(Case):
    """What other programs commit is heard, and told row by row."""

    def elsewhere(self, name, sql):
        """Another process, with nothing loaded, runs a statement."""
        subprocess.run([sys.executable, "-c", WRITER, self.at(name), sql], check=True, timeout=60)

    @in_both_modes
    def test_a_commit_of_another_process_wakes_who_waits(self, mode):
        home = self.replica(mode)
        ask(home, "synqlite_wait(0.01)")
        self.assertEqual(ask(home, "synqlite_wait(0.05)"), {"woke": "time"})
        # It is no news that was committed before somebody waits: it is told at once.
        self.elsewhere("home.db", "INSERT INTO note(person, body) VALUES(1, 'one')")
        self.assertEqual(ask(home, "synqlite_wait(30)"), {"woke": "commit", "tables": ["note"]})
        self.assertEqual(ask(home, "synqlite_wait(0.05)"), {"woke": "time"})
        later = threading.Timer(0.2, self.elsewhere, ["home.db", "UPDATE person SET name = 'Eve' WHERE id = 1"])
        later.start()
        woke = ask(home, "synqlite_wait(30)")
        # The table of the latest insert may be named once more.
        self.assertEqual((woke["woke"], set(woke["tables"]) - {"note"}), ("commit", {"person"}))
        later.join()

    def test_a_merge_wakes_who_waits_too(self):
        home, laptop = self.pair("wal")
        ask(home, "synqlite_wait(0.01)")
        laptop.execute("INSERT INTO note(person, body) VALUES(2, 'from afar')")
        ask(laptop, "synqlite_sync()")
        woke = ask(home, "synqlite_wait(30)")
        self.assertEqual(woke["woke"], "commit")
        self.assertTrue(woke["tables"] is None or "note" in woke["tables"], woke)

    def test_who_waits_for_a_remote_is_woken_by_what_there_is_to_send(self):
        home, laptop = self.pair("wal")
        asleep = {"woke": "time", "online": None}
        self.assertEqual(ask(laptop, "synqlite_wait(0.05, 'origin')"), asleep)
        self.elsewhere("laptop.db", "UPDATE person SET name = 'Eve' WHERE id = 1")
        self.assertEqual(ask(laptop, "synqlite_wait(30, 'origin')"), {"woke": "commit", "online": None})
        ask(laptop, "synqlite_sync()")
        ask(laptop, "synqlite_wait(0.05, 'origin')")
        self.assertEqual(ask(laptop, "synqlite_wait(0.05, 'origin')"), asleep)
        self.same(home, laptop)

    def test_a_copy_that_takes_the_place_of_the_file_is_told(self):
        home = self.replica()
        home.execute("VACUUM INTO ?", [self.at("backup.db")])
        ask(home, "synqlite_wait(0.01)")
        os.replace(self.at("backup.db"), self.at("home.db"))
        self.refused(home, "conflict", "is a copy of the replica", "synqlite_wait(30)")

    def test_waiting_is_refused_where_nothing_could_be_heard(self):
        home = self.replica()
        self.refused(home, "usage", "argument 1, the seconds", "synqlite_wait()")
        self.refused(home, "refused", "no database or remote elsewhere", "synqlite_wait(0.01, 'elsewhere')")
        home.execute("BEGIN IMMEDIATE")
        self.refused(home, "locked", "transaction", "synqlite_wait(0.01)")
        home.execute("ROLLBACK")

    @in_both_modes
    def test_changes_are_told_once_whoever_made_them(self, mode):
        home, laptop = self.pair(mode)
        first = ask(home, "synqlite_changes()")
        self.assertEqual((first["anew"], first["more"], len(first["changes"])), (True, False, 3))
        self.elsewhere("home.db", "UPDATE note SET stars = 5 WHERE id = 1")
        laptop.execute("INSERT INTO person(name) VALUES('Joe')")
        ask(laptop, "synqlite_sync()")
        home.execute("DELETE FROM person WHERE id = 2")
        found = ask(home, "synqlite_changes(?)", first["token"])
        told = {(c["table"], c["row"]): (c["change"], c["values"]) for c in found["changes"]}
        self.assertEqual(told["note", "1"], ("update", {"id": 1, "person": 1, "body": "first", "stars": 5}))
        self.assertEqual(told["person", "3"], ("insert", {"id": 3, "name": "Joe", "email": None}))
        self.assertEqual(told["person", "2"], ("delete", None))
        self.assertEqual((len(told), found["anew"]), (3, False))
        again = ask(home, "synqlite_changes(?)", found["token"])
        self.assertEqual((again["changes"], again["more"]), ([], False))
        # In parts, each once.
        seen, token = [], first["token"]
        while True:
            part = ask(home, "synqlite_changes(?, 1)", token)
            seen += [(c["table"], c["row"]) for c in part["changes"]]
            token = part["token"]
            if not part["more"]:
                break
        self.assertEqual(sorted(seen), sorted(told))
        self.refused(home, "refused", "no token", "synqlite_changes('nonsense')")

    def test_sites_have_names(self):
        home = self.connect("home.db")
        home.execute("CREATE TABLE t(id TEXT PRIMARY KEY)")
        ask(home, "synqlite_init(?)", json.dumps({"name": "the office"}))
        names = json.dumps({"name": "the van"})
        ask(home, "synqlite_clone(?, ?, ?)", self.at("home.db"), self.at("van.db"), names)
        van = self.connect("van.db")
        van.execute("INSERT INTO t VALUES('x')")
        ask(van, "synqlite_sync()")
        self.assertEqual(ask(home, "synqlite_status()")["site_name"], "the office")
        self.assertEqual([e["site_name"] for e in ask(home, "synqlite_log(1)")["entries"]], ["the van"])
        self.refused(home, "refused", "1 to 64 characters", "synqlite_init(?)", json.dumps({"name": "a\nb"}))
