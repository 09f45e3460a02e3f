"""R-COMP: what a fold writes so that the view shows what the user sees.

Nothing that the user wrote is taken back by a fold. Rows that the user cannot see, or sees
otherwise, give way: their claims count from now.
"""

from schema import SETTING
from values import differ
from view import View

# Far more than there are rows in a history: the rounds come to an end by themselves.
ROUNDS = 1000


class LocalWins:
    """What a fold writes so that its user's writes stay."""

    def __init__(self, fold):
        self.fold, self.site, self.schema = fold, fold.site, fold.schema
        # What the user sees, by identity.
        self.seen = {}
        for table, places in fold.places.items():
            self.seen.update((rid, fold.after[table][at]) for at, rid in places.items())
        self.set_groups = list(fold.set_groups)
        # Who gave way to whom.
        self.gave_way = set()
        # Rows that did not give way because one above them was.
        self.waited = set()

    def run(self):
        for _ in range(ROUNDS):
            self.view = View(self.site.state, self.schema)
            # Who stands in the way of whom.
            self.rivals = []
            changed = self.write_what_was_set()
            changed = self.delete_cascaded() or changed
            self.unprotect()
            changed = self.keep_seen(changed)
            changed = self.make_way(changed) or changed
            if not changed:
                return
        raise RuntimeError("what a fold writes on its own account does not come to an end")

    def table(self, rid):
        return self.schema.tables[rid[1]]

    def differs(self, rid):
        """Whether the user sees a row otherwise than the view shows it, or does not see it."""
        if rid not in self.seen or rid not in self.view.shown:
            return True
        return bool(differ(self.seen[rid], self.view.shown[rid], self.seen[rid]))

    def age(self, rid):
        row = self.site.state[rid]
        return max(row.inserted, row.yielded), rid

    def write(self, rid, group, previous=None, stamp=None):
        """Writes what the user sees of a group."""
        seen, table = self.seen[rid], self.table(rid)
        refs = self.fold.references(table, seen, group)
        values = {c: seen[c] for c in group}
        self.site.change(rid).write(group, stamp or self.site.tick(), values, refs, previous)

    def write_what_was_set(self):
        """What a foreign key did and the view does not show is written."""
        changed = False
        for one in list(self.set_groups):
            rid, group, old, new, refs = one
            shown = self.view.shown.get(rid)
            if shown is not None and not differ(shown, new, group):
                continue
            previous = ({c: old[c] for c in group}, self.site.state[rid].registers[group].refs)
            values = {c: new[c] for c in group}
            self.site.change(rid).write(group, self.site.tick(), values, refs, previous)
            self.set_groups.remove(one)
            changed = True
        return changed

    def delete_cascaded(self):
        """A row that CASCADE deleted and that the view shows all the same is deleted."""
        changed = False
        for rid in self.fold.cascaded:
            if rid in self.view.shown and self.site.state[rid].alive():
                self.site.change(rid).delete(self.site.tick())
                changed = True
        return changed

    def unprotect(self):
        """Rows that the user cannot see protect none that the user deleted."""
        for dead in self.fold.changes.deleted:
            if dead not in self.view.shown or dead in self.seen or self.site.state[dead].alive():
                continue
            for rid, row in self.site.state.items():
                refers = [r for r in row.registers.values() if dead in r.refs.values()]
                protects = any(r.stamp > row.yielded for r in refers)
                if rid not in self.seen and row.alive() and protects:
                    self.rivals.append((rid, dead))

    def keep_seen(self, changed):
        """Rows that the user sees are shown, and as the user sees them. Whether anything changed."""
        for rid in self.seen:
            if rid in self.view.shown:
                rival = self.number_taken_by(rid)
                if rival is not None:
                    self.rivals.append((rival, rid))
                    continue
                changed = self.keep_references(rid) or changed
            else:
                if self.view.hidden.get(rid, "").startswith(("fk", "row_constraint")):
                    changed = self.bind_anew(rid) or changed
                if not self.site.state[rid].alive():
                    # It was shown for a row that needed it, and the user ended that.
                    self.site.change(rid).revive(self.site.tick())
                    changed = True
            rival = self.rival(rid) if self.loses(rid) else None
            if rival is None:
                continue
            again = rival in self.seen and (rival, rid) in self.gave_way
            if (rid, rival) in self.gave_way or again:
                changed = self.write_unshown(rid) or changed
            else:
                self.rivals.append((rival, rid))
        return changed

    def make_way(self, changed):
        """Who stands in the way gives way. A row that the user sees does so only where no hidden one is,
        and nothing else had to be written: it may not have to be then."""
        hidden = [pair for pair in self.rivals if pair[0] not in self.seen]
        pairs = hidden or ([] if changed else self.rivals)
        hanging = self.hanging({rival for rival, _ in pairs}) - self.waited
        self.waited |= hanging
        for rival, rid in pairs:
            if rival not in hanging:
                self.gave_way.add((rival, rid))
        yielded = {rival for rival, _ in pairs} - hanging
        for rival in sorted(yielded, key=self.age):
            self.site.change(rival).yielded = self.site.tick()
        return bool(pairs)

    def hanging(self, rids):
        """Those of some rows that refer to another of them, and it not to them. They may be hidden with it,
        and then stand in nobody's way."""
        above = {rid: self.above(rid) for rid in rids}
        hangs = lambda rid: any(p in above and rid not in above[p] for p in above[rid] - {rid})
        return {rid for rid in rids if hangs(rid)}

    def above(self, rid):
        """The rows without which a row is hidden."""
        found, waiting = set(), [rid]
        while waiting:
            child = waiting.pop()
            for fk in self.table(child).foreign_keys:
                parent = self.view.references.counted(child, fk)
                needs = self.schema.enforced and fk.declared and fk.on_delete not in SETTING
                if needs and parent in self.view.rows and parent not in found:
                    found.add(parent)
                    waiting.append(parent)
        return found

    def number_taken_by(self, rid):
        """Who would show the number of a row."""
        table, shown = self.table(rid), self.view.shown
        if not table.numbered() or shown[rid][table.alias] == self.seen[rid][table.alias]:
            return None
        number = self.seen[rid][table.alias]
        others = (o for o in shown if o[1] == rid[1] and shown[o][table.alias] == number)
        rival = next(others, None)
        return rival if rival is not None and self.differs(rival) else None

    def keep_references(self, rid):
        """A reference that shows something else is written as the user sees it. Not one to a row that
        comes back with another key, nor one that had stepped aside (R-RETURN), nor one that shows how
        the key of its row is spelled now (R-SPELL)."""
        table, seen, changed = self.table(rid), self.seen[rid], False
        key = lambda fk, row: fk.key([row[c] for c in fk.columns])
        for fk in table.foreign_keys:
            group = table.group[fk.columns[0]]
            if not differ(seen, self.view.shown[rid], fk.columns) or rid in self.view.former:
                continue
            if any(seen[c] is None for c in fk.columns):
                changed = self.keep_unset(rid, fk, group) or changed
                continue
            if key(fk, seen) == key(fk, self.view.shown[rid]):
                continue
            register = self.site.state[rid].registers[group]
            parent = register.refs.get(fk.name)
            back = parent in self.view.shown and (
                parent not in self.seen or bool(self.site.former(parent))
            )
            refs = self.fold.references(table, seen, group)
            written = register.stamp == self.fold.now and register.refs == refs
            if group in self.site.former(rid) or back or written and not register.pinned:
                continue
            if (rid, fk.name) in self.view.withheld:
                # What the user sees by it is not the row that it is to.
                continue
            if parent is not None and parent == refs[fk.name] == self.view.references.counted(rid, fk):
                # It is to the row that the user sees, which shows another key.
                continue
            self.write(rid, group, stamp=self.fold.now)
            changed = True
        return changed

    def keep_unset(self, rid, fk, group):
        """A reference that an action emptied, and that a change of the key would now override with a
        default, is written as the user sees it."""
        parent = self.site.state[rid].registers[group].refs.get(fk.name)
        if parent is None or self.view.references.counted(rid, fk) is not None:
            return False
        self.write(rid, group)
        return True

    def bind_anew(self, rid):
        """A row that would be hidden for a reference that it does not show refers to what it shows."""
        table, changed = self.table(rid), False
        refs = self.fold.references(table, self.seen[rid])
        state = self.site.state
        for fk in table.foreign_keys:
            group = table.group[fk.columns[0]]
            register, parent = state[rid].registers[group], refs[fk.name]
            stale = parent is not None and register.stamp < state[parent].reinserted
            if register.refs.get(fk.name) != parent or stale:
                self.write(rid, group)
                changed = True
        return changed

    def loses(self, rid):
        """Whether a row loses a unique key, or shows for it what it was before."""
        hidden = self.view.hidden.get(rid) == "unique" and self.site.state[rid].alive()
        return hidden or rid in self.view.former and self.differs(rid)

    def rival(self, rid):
        """Who stands in its way and is not seen so by the user."""
        in_the_way = [self.view.winner[rid], *self.view.others.get(rid, ())]
        return next((other for other in in_the_way if self.differs(other)), None)

    def write_unshown(self, rid):
        """Rows that a returning row makes collide do not give way to each other in turn: one keeps the
        references that it shows."""
        table, changed = self.table(rid), False
        refs = self.fold.references(table, self.seen[rid])
        for fk in table.foreign_keys:
            group = table.group[fk.columns[0]]
            register = self.site.state[rid].registers[group]
            if register.refs.get(fk.name) != refs[fk.name]:
                self.write(rid, group, previous=(register.values, register.refs))
                changed = True
        return changed
