"""Which references count, and which dead rows they keep. Nothing here depends on what is shown."""

from schema import RESTRICTIVE, SETTING


class References:
    """The references of a state."""

    def __init__(self, rows, schema):
        self.rows, self.schema = rows, schema

    def table(self, rid):
        return self.schema.tables[self.rows[rid].table]

    def register(self, rid, column):
        """The register of the group that a column belongs to."""
        return self.rows[rid].registers.get(self.table(rid).group[column])

    def overridden(self, parent, fk, stamp):
        """R-FK-ONUPDATE: whether a user changed the key of a row after a reference was written."""
        if not self.schema.enforced or fk.on_update not in SETTING or parent not in self.rows:
            return False
        key = self.register(parent, fk.parent_columns[0])
        if key is None or key.previous is None or key.pinned or key.stamp <= stamp:
            return False
        return self.key_differs(parent, fk, key)

    def key_differs(self, parent, fk, register):
        """Whether a write changed the key. One that is spelled otherwise is the same (R-EQUAL), and a
        column that is a reference itself is the same while it is to the same row."""
        values, refs = register.previous
        columns, own = [c for c in fk.parent_columns if c in values], set()
        for other in self.table(parent).foreign_keys:
            before, now = refs.get(other.name), register.refs.get(other.name)
            if set(other.columns) & set(columns) and (before or now):
                own |= set(other.columns)
                if before != now:
                    return True
        key = lambda of: [of[c] if c in columns and c not in own else None for c in fk.parent_columns]
        return fk.key(key(values)) != fk.key(key(register.values))

    def counted(self, rid, fk):
        """The row that a reference means, or None where there is none or it is overridden."""
        register = self.register(rid, fk.columns[0])
        parent = register.refs.get(fk.name) if register else None
        if parent is None:
            return None
        overridden = self.overridden(parent, fk, register.stamp)
        return None if overridden and not self.went(rid, parent, fk, register.stamp) else parent

    def went(self, rid, parent, fk, stamp):
        """R-INC: whether a row went with a former life of its parent, before that got another key."""
        key = self.register(parent, fk.parent_columns[0])
        return self.rows[rid].fell() and stamp < self.rows[parent].reinserted < key.stamp

    def stale(self, rid, fk):
        """R-INC: whether a reference is to a former life of its row."""
        parent = self.counted(rid, fk)
        if parent not in self.rows:
            return False
        return self.register(rid, fk.columns[0]).stamp < self.rows[parent].reinserted

    def outlived(self, rid):
        """Whether a row would go with a former life of one that it refers to under CASCADE."""
        keys = [fk for fk in self.table(rid).foreign_keys if fk.on_delete == "CASCADE"]
        return any(self.stale(rid, fk) for fk in keys)

    def yielded(self, rid, fk):
        """R-COMP: whether a row gave way after it wrote a reference, which then protects nothing."""
        return self.register(rid, fk.columns[0]).stamp <= self.rows[rid].yielded


class Protection:
    """R-PROTECT: the least set of dead rows that are kept because living ones need them."""

    def __init__(self, references, alive):
        self.references, self.rows, self.alive = references, references.rows, alive
        self.kept = set()
        if not references.schema.enforced:
            return
        while True:
            cascaded = self.cascaded()
            more = self.needed(cascaded) - self.kept
            if not more:
                return
            self.kept |= more

    def gone(self, parent, cascaded):
        there = parent in self.alive or parent in self.kept
        return parent in self.rows and (not there or parent in cascaded)

    def cascaded(self):
        """Rows that CASCADE hides, given the rows that are kept (R-FK-CASCADE)."""
        found, grew = set(), True
        while grew:
            grew = False
            for rid in (self.alive | self.kept) - found:
                if any(self.cascades(rid, fk, found) for fk in self.foreign_keys(rid)):
                    found.add(rid)
                    grew = True
        return found

    def cascades(self, rid, fk, cascaded):
        parent = self.references.counted(rid, fk)
        if fk.on_delete != "CASCADE" or parent not in self.rows:
            return False
        stale = rid not in self.kept and self.references.stale(rid, fk)
        return stale or self.gone(parent, cascaded)

    def needed(self, cascaded):
        """Rows that are gone and that a living row refers to, and those that they refer to."""
        waiting, found = [], set()
        for rid in (self.alive | self.kept) - cascaded:
            for fk in self.foreign_keys(rid):
                parent = self.references.counted(rid, fk)
                if parent is None or fk.on_delete not in RESTRICTIVE:
                    continue
                protects = rid in self.kept or not self.references.yielded(rid, fk)
                if protects and self.gone(parent, cascaded):
                    waiting.append(parent)
        while waiting:
            rid = waiting.pop()
            if rid in found:
                continue
            found.add(rid)
            for fk in self.foreign_keys(rid):
                parent = self.references.counted(rid, fk)
                needs = fk.on_delete in RESTRICTIVE + ("CASCADE",)
                if needs and self.gone(parent, cascaded):
                    waiting.append(parent)
        return found

    def foreign_keys(self, rid):
        return self.references.table(rid).foreign_keys
