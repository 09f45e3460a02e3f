"""What a fold makes of the writes since the last one: identities, and registers with stamps (R-CAP)."""

import journal
from local_wins import LocalWins
from references import References
from schema import RESTRICTIVE
from state import Row
from values import comparable, differ, identical


class Fold:
    """One fold. All its writes have one stamp; what it writes on its own account is later."""

    def __init__(self, site, ms):
        self.site, self.schema, self.ms = site, site.schema, ms
        # Where rows were and what they showed at the last fold; where they are and what they show.
        self.before, self.places_before = site.before, site.places
        self.places = {table: {} for table in self.schema.tables}
        # New rows: (table, place, identity).
        self.new = []
        # Rows that CASCADE deleted, and groups that foreign keys set: they follow from their parents.
        self.cascaded, self.set_groups = [], []
        # References that keys overrode which were written again.
        self.overridden = []
        # Rows that the user deleted, with None, or updated, with the groups that he wrote.
        self.became = []

    def run(self):
        site = self.site
        entries = journal.entries(site.db)
        if not entries and not site.pinned:
            return
        clock, rows = site.clock, dict(site.state)
        # A fold that only pins numbers has their time.
        self.now = site.tick(self.ms) if entries else (site.clock, site.name)
        self.after = site.image()
        self.changes = journal.Changes(entries, site.places)
        self.name_rows()
        self.write_deleted()
        self.write_inserted()
        self.write_updated()
        self.keep_overridden()
        self.keep_emptied()
        site.places = self.places
        self.rebind()
        self.unify()
        LocalWins(self).run()
        if site.state == rows:
            # Nothing changed, so no time passed.
            site.clock = clock
        if site.state != rows or site.pinned:
            # A seal, after what was written, that no other site's clock can show.
            site.tick()
            site.told = True
        site.pinned = False

    def references(self, table, row, group=None):
        return self.site.references(table, row, self.places, group)

    def name_rows(self):
        """Gives each row that is there its identity: the one that it had, or a new one."""
        order = [self.schema.tables[name] for name in self.schema.in_order()]
        found = {table.name: [] for table in order}
        for table in order:
            for at, rid in self.changes.now[table.name].items():
                if at not in self.after[table.name]:
                    continue
                if rid is None:
                    found[table.name].append(at)
                else:
                    self.places[table.name][at] = rid
        self.there = {rid for places in self.places.values() for rid in places.values()}
        for table in order:
            for at in sorted(found[table.name], key=str):
                rid = self.identity(table, self.after[table.name][at])
                self.places[table.name][at] = rid
                self.there.add(rid)
                self.new.append((table, at, rid))
        self.new_rids = {rid for _, _, rid in self.new}

    def identity(self, table, row):
        """R-ID-KEY, R-ID-BIRTH."""
        if table.identity == "birth" or any(row[c] is None for c in table.primary):
            self.site.born += 1
            return ("b", table.name, self.site.name, "%08d" % self.site.born)
        references, parts, covered = self.references(table, row), [], set()
        for fk in table.foreign_keys:
            within = set(fk.columns) <= set(table.primary) and table.tells_apart(fk)
            if within and references[fk.name]:
                # Not the value: rows of two parents that collide stay two.
                parts.append(("r", fk.name, str(references[fk.name])))
                covered |= set(fk.columns)
        for column in (c for c in table.primary if c not in covered):
            collation = table.collations.get(column, "BINARY")
            parts.append(("v", column, str(comparable(row[column], collation))))
        # The shorter key is the smaller, as in the engine's bytes.
        key = str(sorted(parts))
        key = "%06d%s" % (len(key), key)
        generation = 0
        while ("k", table.name, key, "%04d" % generation) in self.there:
            generation += 1
        return ("k", table.name, key, "%04d" % generation)

    def write_deleted(self):
        gone = {rid for rid, cascaded in self.changes.deleted.items() if not cascaded}
        self.became += [(rid, None) for rid in gone | self.changes.replaced & self.there]
        for rid, cascaded in self.changes.deleted.items():
            if rid in self.there:
                # It was inserted again after that, so no delete is the later (R-EXIST).
                continue
            if cascaded:
                self.cascaded.append(rid)
                if self.site.state[rid].alive():
                    self.site.change(rid).fall(self.now)
            else:
                self.site.change(rid).delete(self.now)
        for rid in self.changes.replaced & self.there:
            row = self.site.change(rid)
            row.insert(self.now)
            row.reinserted = self.now

    def write_inserted(self):
        for table, at, rid in self.new:
            if rid in self.site.state:
                row = self.site.change(rid)
                row.reinserted = self.now
            else:
                row = self.site.state[rid] = Row(rid)
            row.insert(self.now)
            shown = self.after[table.name][at]
            for group in table.groups:
                values = {c: shown[c] for c in group}
                refs = self.references(table, shown, group)
                if rid in self.changes.deleted and group in row.registers:
                    # What was deleted and inserted again writes what is different.
                    register = row.registers[group]
                    if not differ(register.values, values, group) and all(
                        register.refs.get(name) == parent for name, parent in refs.items()
                    ):
                        continue
                row.write(group, self.now, values, refs)

    def write_updated(self):
        """R-CAP: only groups that show something else are written, with what they showed before."""
        for table in self.schema.tables.values():
            before = {rid: at for at, rid in self.places_before[table.name].items()}
            for at, rid in self.places[table.name].items():
                if rid not in before or rid in self.new_rids:
                    continue
                old, new = self.before[table.name][before[rid]], self.after[table.name][at]
                written = [g for g in table.groups if self.write_group(table, rid, g, old, new)]
                if written:
                    self.became.append((rid, written))
                    self.write_rest_of_keys(table, rid, set(written), new)

    def write_group(self, table, rid, group, old, new):
        """Writes a group that the user changed. Whether it did."""
        changed = differ(old, new, group)
        if not changed:
            return False
        refs = self.references(table, new, group)
        shown = self.site.references_shown(rid, group, old)
        followed = set()
        for fk in table.references_in(group):
            parent = refs[fk.name]
            follows = self.follows(rid, fk, old, parent, shown[fk.name])
            if follows and self.spelled(rid, fk, parent, new):
                followed |= set(fk.columns)
        if set(changed) <= followed:
            self.set_groups.append((rid, group, old, new, refs))
            return False
        values, previous = {c: new[c] for c in group}, ({c: old[c] for c in group}, shown)
        self.overridden += self.site.overridden(rid, group)
        row = self.site.change(rid)
        row.write(group, self.now, values, refs, previous)
        if not row.alive():
            # R-COMP: it was shown for a row that needed it, and the user goes on with it.
            row.revive(self.now)
        return True

    def follows(self, rid, fk, old, parent, shown):
        """R-REF, R-FK-ACTION: whether a reference has another value without a write of the user, because
        its row has another key or a foreign key acted."""
        if fk.name in self.changes.acted.get(rid, ()):
            return True
        if parent is None or any(old[c] is None for c in fk.columns):
            return False
        group = self.schema.tables[rid[1]].group[fk.columns[0]]
        written = self.site.state[rid].registers[group].refs.get(fk.name)
        former = group in self.site.former(rid)
        return written == parent and not former or shown == parent

    def spelled(self, rid, fk, parent, new):
        """R-SPELL: whether a reference shows the key of its row as it would by itself."""
        key = self.shows(parent) if parent is not None else None
        if key is None:
            return True
        register = self.site.state[rid].registers[self.schema.tables[rid[1]].group[fk.columns[0]]]
        written = [register.values[c] for c in fk.columns]
        spelled = fk.spelled(written, [key[c] for c in fk.parent_columns])
        return identical(spelled, [new[c] for c in fk.columns])

    def write_rest_of_keys(self, table, rid, written, shown):
        """R-PINKEY."""
        former = set(self.site.former(rid))
        for key in table.written_keys():
            groups = {table.group[c] for c in key.columns}
            for group in (groups - written) & former if groups & written else ():
                values, refs = {c: shown[c] for c in group}, self.references(table, shown, group)
                self.site.change(rid).write(group, self.now, values, refs)

    def keep_overridden(self):
        """R-COMP: what a key overrode stays so where the same key is written again in another spelling."""
        places = {rid: at for at_of in self.places_before.values() for at, rid in at_of.items()}
        now = {rid: at for at_of in self.places.values() for at, rid in at_of.items()}
        for rid, fk in self.overridden:
            if rid not in places or rid not in now:
                continue
            table, group = rid[1], self.schema.tables[rid[1]].group[fk.columns[0]]
            old, new = self.before[table][places[rid]], self.after[table][now[rid]]
            if not differ(old, new, group):
                refs = self.references(self.schema.tables[table], new, group)
                self.set_groups.append((rid, group, old, new, refs))

    def keep_emptied(self):
        """R-COMP: whom CASCADE brought to a key with a NULL in it stays there when its row gets another or goes."""
        for table in self.schema.tables.values():
            places = {rid: at for at, rid in self.places_before[table.name].items()}
            for at, rid in self.places[table.name].items():
                for fk in table.foreign_keys if rid in places else ():
                    old = self.before[table.name][places[rid]]
                    new, group = self.after[table.name][at], table.group[fk.columns[0]]
                    if self.emptied(rid, fk, new, group):
                        refs = self.references(table, new, group)
                        self.set_groups.append((rid, group, old, new, refs))

    def emptied(self, rid, fk, row, group):
        register = self.site.state[rid].registers[group]
        parent = register.refs.get(fk.name)
        kept = fk.declared and self.schema.enforced and fk.on_update == "CASCADE"
        showed = self.showed(parent) if parent is not None and kept else None
        if showed is None or register.stamp == self.now:
            return False
        key = [showed[c] for c in fk.parent_columns]
        null = [value is None for value in key]
        return any(null) and null == [row[c] is None for c in fk.columns]

    def rebind(self):
        """R-REBIND: a row that still shows the key which its parent left refers to the row which has it
        now, and one that was there before its parent had the key, or lived again, to that parent. Where
        nothing keeps a reference, it ends with the key that its row had."""
        for table in self.schema.tables.values():
            for at, rid in self.places[table.name].items():
                row = self.after[table.name][at]
                for fk in table.foreign_keys:
                    if self.left(table, rid, row, fk) or self.early(table, rid, row, fk):
                        group = table.group[fk.columns[0]]
                        values = {c: row[c] for c in group}
                        refs = self.references(table, row, group)
                        self.site.change(rid).write(group, self.now, values, refs)

    def unify(self):
        """R-UNIFY: what became of a row becomes of those for which it stood."""
        view, followers = self.site.view, {}
        for rid in sorted(view.stand_in):
            if view.hidden.get(rid) == "unique" and rid not in self.there:
                followers.setdefault(view.represented(rid), []).append(rid)
        for first, groups in self.became:
            table = self.schema.tables[first[1]]
            read = {table.group[c] for key in table.unique for c in key.columns}
            taken = [g for g in groups or () if g in read and not set(g) & set(table.primary)]
            for rid in followers.get(first, ()):
                if groups is None and self.site.state[rid].alive():
                    self.site.change(rid).delete(self.site.tick())
                for group in taken:
                    row = self.shows(first)
                    values, refs = {c: row[c] for c in group}, self.references(table, row, group)
                    self.site.change(rid).write(group, self.site.tick(), values, refs)

    def left(self, table, rid, row, fk):
        """Whether the row that a reference meant has left the key that the reference still shows."""
        group = table.group[fk.columns[0]]
        register = self.site.state[rid].registers[group]
        was = register.refs.get(fk.name)
        if was is None or register.stamp == self.now:
            return False
        now = self.references(table, row, group)[fk.name]
        if now == was:
            return False
        kept = fk.declared and self.schema.enforced
        if now is None and (kept or was in self.changes.deleted):
            return False
        own, parent = self.showed(rid), self.showed(was)
        if own is None or differ(own, row, fk.columns) or parent is None:
            return False
        key, named = [parent[c] for c in fk.parent_columns], [row[c] for c in fk.columns]
        if None in named or fk.key(key) != fk.key(named):
            return False
        shows = self.shows(was)
        moved = shows is not None and differ(parent, shows, fk.parent_columns)
        return was in self.changes.deleted or bool(moved)

    def early(self, table, rid, row, fk):
        """Whether a kept reference was written before this fold, and its row got the key that it shows, or
        lived again, in it. What it shows must be what was written, not what an action made of it."""
        group = table.group[fk.columns[0]]
        register = self.site.state[rid].registers[group]
        if not fk.declared or not self.schema.enforced or register.stamp == self.now:
            return False
        parent = self.references(table, row, group)[fk.name]
        if parent is None or differ(register.values, row, fk.columns):
            return False
        was = register.refs.get(fk.name)
        if was is None:
            return True
        reinserted = self.site.state[parent].reinserted == self.now
        again = reinserted and fk.on_delete not in RESTRICTIVE
        references = References(self.site.state, self.schema)
        took = references.register(parent, fk.parent_columns[0]).stamp == self.now
        changed = took and references.overridden(parent, fk, register.stamp)
        return was == parent and (again or changed)

    def showed(self, rid):
        """What a row showed at the last fold."""
        places = self.places_before[rid[1]].items()
        return next((self.before[rid[1]].get(at) for at, one in places if one == rid), None)

    def shows(self, rid):
        """What a row shows now."""
        places = self.places[rid[1]].items()
        return next((self.after[rid[1]][at] for at, one in places if one == rid), None)
