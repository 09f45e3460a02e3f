"""A site: a database that applications write to, the state of its rows, and a clock."""

import sqlite3

import journal
from fold import Fold
from journal import place
from schema import SETTING, Schema
from state import join
from text import quoted
from values import differ
from view import View


class Site:
    """`places` says where the rows are that the site shows: by table and place their identity."""

    def __init__(self, name, policies, lazy):
        self.name, self.policies, self.lazy = name, policies, lazy
        self.state, self.clock, self.born = {}, 0, 0
        self.places, self.view = {}, None
        # Unfolded writes: whether there are any, when the last was, what was shown before.
        self.open, self.ms, self.before = False, 0, {}
        # Whether numbers were pinned since the last fold.
        self.pinned = False
        # Whether it has ever written anything.
        self.told = False

    @staticmethod
    def create(name, schema, policies, lazy, ms):
        """A site with a new database."""
        site = Site(name, policies, lazy)
        site.told = True
        site.connect()
        site.db.executescript(schema)
        site.read_schema()
        site.places = site.before = {table: {} for table in site.schema.tables}
        for table, rows in site.image().items():
            for at in rows:
                journal.note_insert(site.db, site.schema.tables[table], at)
        site.view = View(site.state, site.schema)
        Fold(site, ms).run()
        site.view = View(site.state, site.schema)
        return site

    def clone(self, name):
        """Another site with a copy of the database."""
        site = Site(name, self.policies, self.lazy)
        site.connect(self.db)
        site.state, site.clock, site.view = dict(self.state), self.clock, self.view
        site.places = {table: dict(places) for table, places in self.places.items()}
        site.read_schema()
        return site

    def connect(self, source=None):
        self.db = sqlite3.connect(":memory:", isolation_level=None)
        if source is not None:
            source.backup(self.db)
        # REPLACE fires triggers for the rows that it displaces.
        self.db.execute("PRAGMA recursive_triggers = ON")
        journal.prepare(self.db)

    def read_schema(self):
        self.schema = Schema(self.db, self.policies)
        self.enforce(self.schema.enforced)
        for table in self.schema.tables.values():
            journal.create_triggers(self.db, table, self.schema.enforced)

    def enforce(self, on):
        self.db.execute("PRAGMA foreign_keys = %s" % ("ON" if on else "OFF"))

    def tick(self, ms=0):
        """R-HLC: a stamp later than all that this site has seen, and not before a time."""
        self.clock = max(self.clock + 1, ms)
        return self.clock, self.name

    def change(self, rid):
        """A row's state, to be written to. What other sites or views hold stays as it is."""
        row = self.state[rid] = self.state[rid].copy()
        return row

    def former(self, rid):
        """Groups of a row that show what they were before (R-FALLBACK)."""
        return self.view.former.get(rid, ())

    def image(self):
        """What each table shows, by place."""
        found = {}
        for table in self.schema.tables.values():
            columns = ",".join(map(quoted, table.columns))
            query = "SELECT %s, %s FROM %s" % (place(table), columns, quoted(table.name))
            rows = self.db.execute(query)
            found[table.name] = {row[0]: dict(zip(table.columns, row[1:])) for row in rows}
        return found

    def references(self, table, row, places, group=None):
        """The rows that the foreign keys of a row name now, of one group or of all."""
        found = {}
        for fk in table.foreign_keys if group is None else table.references_in(group):
            values = [row[c] for c in fk.columns]
            found[fk.name] = None
            if any(value is None for value in values):
                continue
            parent = self.schema.tables[fk.parent]
            key = " AND ".join("%s = ?" % quoted(c) for c in fk.parent_columns)
            query = "SELECT %s FROM %s WHERE %s" % (place(parent), quoted(parent.name), key)
            at = self.db.execute(query, values).fetchone()
            if at:
                found[fk.name] = places[parent.name].get(at[0])
        return found

    def references_shown(self, rid, group, row):
        """The rows to which a group referred at the last fold, by what `row` then showed."""
        table, register, found = self.schema.tables[rid[1]], self.state[rid].registers[group], {}
        for fk in table.references_in(group):
            if any(row[c] is None for c in fk.columns):
                found[fk.name] = None
                continue
            wanted = fk.key([row[c] for c in fk.columns])
            places, parents = self.places[fk.parent], self.before[fk.parent].items()
            rows = (
                places[at]
                for at, parent in parents
                if at in places and fk.key([parent[c] for c in fk.parent_columns]) == wanted
            )
            found[fk.name] = next(rows, self.left(register, fk, row))
        return found

    def left(self, register, fk, row):
        """The row that is gone to which a reference still is that shows what was written."""
        rid = register.refs.get(fk.name)
        by_birth = rid is not None and rid[0] == "b"
        return None if by_birth and differ(register.values, row, fk.columns) else rid

    def begin(self):
        """What is shown now is what the next writes are compared with."""
        self.before = self.image()
        journal.clear(self.db)

    def write(self, sql, ms):
        """Runs statements as an application does, in one transaction. Whether they succeeded."""
        if not self.open:
            self.pin()
            self.begin()
            self.open = True
        self.ms = ms
        try:
            self.db.executescript("BEGIN;\n%s;\nCOMMIT" % sql)
            return True
        except sqlite3.Error:
            return False
        finally:
            if self.db.in_transaction:
                self.db.execute("ROLLBACK")
            if not self.lazy:
                self.fold()

    def fold(self):
        if self.open:
            Fold(self, self.ms).run()
            self.open = False
            self.show()

    def pull(self, source):
        """R-FBM on both sides, R-JOIN."""
        source.settle()
        self.settle()
        self.state = join(self.state, source.state)
        self.clock = max(self.clock, source.clock)
        self.show()

    def settle(self):
        if self.open:
            self.fold()
            return
        # Who never told anything pins nothing: nobody may ever hear of it.
        if self.told:
            self.pin()
        if self.pinned:
            self.begin()
            Fold(self, 0).run()
        self.show()

    def pin(self):
        """R-PIN: numbers that were shown become ordinary writes, by table and number."""
        order = self.schema.in_order()
        turn = lambda one: (order.index(one[0][1]), one[1])
        given = sorted(self.view.renumbered.items(), key=turn)
        overridden = []
        for rid, number in given:
            table = self.schema.tables[rid[1]]
            group = table.group[table.alias]
            register = self.state[rid].registers[group]
            if register.values[table.alias] == number:
                continue
            # A pin overrides nothing.
            overridden += self.overridden(rid, group)
            values = {**register.values, table.alias: number}
            previous = (register.values, register.refs)
            row = self.change(rid)
            row.write(group, self.tick(), values, register.refs, previous, pinned=True)
            self.pinned = True
        self.write_overridden(overridden)

    def overridden(self, parent, group):
        """Visible references that a change of a row's key overrides (R-FK-ONUPDATE)."""
        key, found = self.state[parent].registers[group], []
        if key.previous is None or key.pinned:
            return found
        for rid in sorted(self.view.shown):
            table = self.schema.tables[rid[1]]
            for fk in (fk for fk in table.foreign_keys if fk.parent == parent[1]):
                register = self.state[rid].registers[table.group[fk.columns[0]]]
                sets = fk.on_update in SETTING and set(fk.parent_columns) & set(group)
                named = register.refs.get(fk.name) == parent
                if sets and named and register.stamp < key.stamp:
                    found.append((rid, fk))
        return found

    def write_overridden(self, references):
        """R-COMP: what the user saw of them is written with the pin."""
        if not references:
            return
        shown = View(self.state, self.schema).shown
        for rid, fk in references:
            seen = self.view.shown[rid]
            if rid in shown and all(seen[c] == shown[rid][c] for c in fk.columns):
                continue
            table = self.schema.tables[rid[1]]
            group = table.group[fk.columns[0]]
            refs = self.references(table, seen, self.places, group)
            register = self.state[rid].registers[group]
            values = {c: seen[c] for c in group}
            previous = (register.values, register.refs)
            self.change(rid).write(group, self.tick(), values, refs, previous)

    def show(self):
        """R-MAT: the tables become what the view shows. Triggers and foreign keys do nothing."""
        self.view = View(self.state, self.schema)
        self.db.execute("UPDATE _noting SET v = 0")
        self.enforce(False)
        triggers = "SELECT name, sql FROM main.sqlite_master WHERE type = 'trigger'"
        triggers = self.db.execute(triggers).fetchall()
        self.db.execute("BEGIN")
        for name, _ in triggers:
            self.db.execute("DROP TRIGGER main." + quoted(name))
        for table, rid, at in self.remove():
            self.insert(table, rid, at)
        self.raise_sequences()
        for _, sql in triggers:
            self.db.execute(sql)
        self.db.execute("COMMIT")
        self.enforce(self.schema.enforced)
        self.db.execute("UPDATE _noting SET v = 1")
        self.check()

    def remove(self):
        """Removes rows that show something else, and returns those to insert, and where."""
        image, missing = self.image(), []
        for name, table in self.schema.tables.items():
            places = self.places[name]
            wanted = {r: row for r, row in self.view.shown.items() if self.state[r].table == name}
            there = set(places.values())
            for at, row in image[name].items():
                rid = places.get(at)
                if rid in wanted and not differ(wanted[rid], row, table.columns):
                    continue
                query = "DELETE FROM %s WHERE %s = ?" % (quoted(name), place(table))
                self.db.execute(query, (at,))
                places.pop(at, None)
                if rid in wanted:
                    keeps = not table.without_rowid and table.alias is None
                    missing.append((table, rid, at if keeps else None))
            missing += [(table, rid, None) for rid in wanted if rid not in there]
        return missing

    def insert(self, table, rid, at):
        row = self.view.shown[rid]
        names, values = list(map(quoted, table.columns)), [row[c] for c in table.columns]
        if at is not None:
            names, values = ["rowid"] + names, [at] + values
        marks = ",".join("?" * len(values))
        query = "INSERT INTO %s(%s) VALUES(%s)" % (quoted(table.name), ",".join(names), marks)
        at = self.db.execute(query, values).lastrowid
        if table.without_rowid:
            quote = lambda value: self.db.execute("SELECT quote(?)", (value,)).fetchone()[0]
            at = ",".join(quote(row[c]) for c in table.primary)
        self.places[table.name][at] = rid

    def raise_sequences(self):
        """R-REMAP: AUTOINCREMENT goes on after the largest number of its table, and never goes back."""
        for table in (t for t in self.schema.tables.values() if t.autoincrement):
            group = table.group[table.alias]
            mine = [row for row in self.state.values() if row.table == table.name]
            asked = [row.registers[group].values[table.alias] for row in mine]
            given = [n for rid, n in self.view.renumbered.items() if rid[1] == table.name]
            query = "SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = ?"
            (last,) = self.db.execute(query, (table.name,)).fetchone()
            self.db.execute("DELETE FROM sqlite_sequence WHERE name = ?", (table.name,))
            last = max(asked + given + [last])
            self.db.execute("INSERT INTO sqlite_sequence VALUES(?, ?)", (table.name, last))

    def check(self):
        found = self.db.execute("PRAGMA integrity_check").fetchall()
        assert found == [("ok",)], found
        if self.schema.enforced:
            found = self.db.execute("PRAGMA foreign_key_check").fetchall()
            assert not found, found
