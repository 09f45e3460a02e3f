"""What every row shows (R-VIEW): a function of the state, the schema and the policies alone.

Tables are decided on parents first, those that refer to each other together. Within such a
component the set of hidden rows only grows until everything fits (R-FK-CYCLE).
"""

from references import Protection, References
from schema import SETTING
from unique import Claims
from values import stored

LARGEST = 2**63 - 1

# So often are keys heard at most while rows that fall back move others.
PASSES = 16


class View:
    """The view of a state."""

    def __init__(self, state, schema):
        self.schema = schema
        self.rows = {rid: row for rid, row in state.items() if row.table in schema.tables}
        # What visible rows show, by column; why the others do not.
        self.shown, self.hidden = {}, {}
        # Groups that show what they were before (R-FALLBACK); numbers given by R-REMAP.
        self.former, self.renumbered = {}, {}
        # Rows of which a reference shows NULL or a default because its row is not visible.
        self.unset = set()
        # References that do not show the number of a hidden row, for another has it: (row, foreign key).
        self.withheld = set()
        # Who has the unique key that a row lost, and who else stood in its way.
        self.winner, self.others = {}, {}
        # R-UNIFY: who stands for a row that lost.
        self.stand_in = {}
        self.references = References(self.rows, schema)
        alive = {rid for rid, row in self.rows.items() if row.alive()}
        self.protected = Protection(self.references, alive).kept
        outlived = {rid for rid in self.protected if self.references.outlived(rid)}
        self.kept_dead = self.protected - alive | outlived
        self.candidates = alive | self.protected
        for names in schema.components:
            Component(self, names).settle()

    def represented(self, rid):
        while rid in self.stand_in:
            rid = self.stand_in[rid]
        return rid


def free_numbers(known):
    """The numbers past all that rows ask for; when these are used up, the largest that none asks for."""
    known = {number for number in known if isinstance(number, int)}
    yield from range(max(known, default=0) + 1, LARGEST + 1)
    yield from (number for number in range(LARGEST, 0, -1) if number not in known)


class Component:
    """Tables that refer to each other, or one table."""

    def __init__(self, view, names):
        self.view, self.schema, self.names = view, view.schema, names
        self.rows, self.references = view.rows, view.references
        self.mine = sorted(rid for rid in view.candidates if self.rows[rid].table in names)
        self.hidden, self.former, self.shown = {}, {}, {}

    def settle(self):
        while True:
            self.hide_with_parents()
            self.live = [rid for rid in self.mine if rid not in self.hidden]
            self.number()
            refused, claims = self.hear()
            losers = {rid: claim for claim in claims for rid in claim.losers}
            losers = self.final(losers)
            refused.update((rid, "unique") for rid in losers)
            if not refused:
                break
            self.hidden.update(refused)
            for rid, claim in losers.items():
                self.lose(rid, claim)
        self.finish(claims)

    def hear(self):
        """Who does not fit, and who has which key. Rows that fall back move references to them, and with
        them keys: so it is heard again until the same rows fall back."""
        self.former = {}
        for _ in range(PASSES):
            self.unset = set()
            self.show_former()
            refused = self.dangling()
            refused |= self.invalid(refused)
            claims = self.claims(refused)
            former = {rid: groups for claim in claims for rid, groups in claim.former.items()}
            if former == self.former or not self.circle():
                break
            self.former = former
        return refused, [] if refused else claims

    def circle(self):
        tables = [self.schema.tables[name] for name in self.names]
        return any(fk.parent in self.names for table in tables for fk in table.foreign_keys)

    def show_former(self):
        """The keys of rows that show what they were before."""
        self.shown = {}
        for _ in range(2):
            for rid, groups in self.former.items():
                self.shown[rid] = self.show(rid, groups)

    def final(self, losers):
        """Losers whose keys have no reference in them to a row that is about to be hidden too: such a key
        is heard again once that is hidden. All of them, if each waits for another."""
        before = dict(self.hidden)
        self.hidden.update((rid, "unique") for rid in losers)
        self.hide_with_parents()
        hidden, self.hidden = self.hidden.keys() - before.keys(), before
        def moves(rid, columns):
            for fk in self.foreign_keys(rid):
                if set(fk.columns) & set(columns):
                    parent = self.references.counted(rid, fk)
                    if parent is not None and self.view.represented(parent) in hidden:
                        return True
            return False
        final = {}
        for rid, claim in losers.items():
            columns = claim.lost_key[rid].columns
            if not any(moves(r, columns) for r in (rid, claim.winner[rid])):
                final[rid] = claim
        return final or losers

    def lose(self, rid, claim):
        self.view.winner[rid] = claim.winner[rid]
        self.view.others[rid] = claim.others.get(rid, [])
        if self.table(rid).on_unique == "unify":
            self.view.stand_in[rid] = claim.winner[rid]

    def finish(self, claims):
        view, self.former = self.view, {}
        for claim in claims:
            self.former.update(claim.former)
            view.winner.update((rid, claim.winner[rid]) for rid in claim.former)
        # The second time rows that refer to each other show the keys that were found the first time.
        for _ in range(2):
            for rid in self.live:
                self.shown[rid] = self.show_now(rid)
        view.shown.update(self.shown)
        view.hidden.update(self.hidden)
        view.former.update(self.former)
        view.renumbered.update((r, n) for r, n in self.renumbered.items() if r in self.shown)
        view.unset |= self.unset & set(self.live)

    def table(self, rid):
        return self.references.table(rid)

    def visible(self, rid):
        if self.rows[rid].table in self.names:
            return rid in self.view.candidates and rid not in self.hidden
        return rid in self.view.shown

    def stale(self, rid, fk):
        """R-INC under CASCADE; what is kept keeps its references."""
        kept = rid in self.view.protected
        return fk.on_delete == "CASCADE" and not kept and self.references.stale(rid, fk)

    def hide_with_parents(self):
        """R-FK-CASCADE, R-FK-HIDDEN."""
        grew = self.schema.enforced
        while grew:
            grew = False
            for rid in self.mine:
                for fk in self.foreign_keys(rid) if rid not in self.hidden else ():
                    reason = self.orphaned(rid, fk)
                    if reason:
                        self.hidden[rid] = reason
                        grew = True
                        break

    def foreign_keys(self, rid):
        return self.table(rid).foreign_keys

    def orphaned(self, rid, fk):
        """Why a row is hidden for a reference, if it is."""
        parent = self.references.counted(rid, fk)
        if parent is None or not fk.declared or fk.on_delete in SETTING:
            return None
        parent, stale = self.view.represented(parent), self.stale(rid, fk)
        if stale or parent not in self.view.candidates:
            return "fk_cascade"
        return None if self.visible(parent) else "fk_parent_hidden"

    def number(self):
        """R-REMAP."""
        self.numbers, self.renumbered = {}, {}
        for table in (self.schema.tables[name] for name in self.names):
            if not table.numbered():
                continue
            group = table.group[table.alias]
            rows = [row for row in self.rows.values() if row.table == table.name]
            known = {row.registers[group].values[table.alias] for row in rows}
            asked = {}
            for rid in (r for r in self.live if self.rows[r].table == table.name):
                register = self.rows[rid].registers[group]
                claim = max(register.stamp, self.rows[rid].yielded)
                asked.setdefault(register.values[table.alias], []).append((claim, rid))
            losers = []
            for number, claims in asked.items():
                (_, first), *others = sorted(claims)
                self.numbers[first] = number
                losers += others
            for (_, rid), number in zip(sorted(losers), free_numbers(known)):
                self.numbers[rid] = self.renumbered[rid] = number

    def show(self, rid, former=()):
        """What a row shows, with some of its groups as they were before."""
        table, row = self.table(rid), self.rows[rid]
        shown = {}
        for column in table.columns:
            register = row.registers.get(table.group[column])
            if register is None:
                shown[column] = self.schema.default(table, column)
            elif table.group[column] in former:
                shown[column] = register.previous[0][column]
            else:
                shown[column] = register.values[column]
        if rid in self.numbers:
            shown[table.alias] = self.numbers[rid]
        for fk in table.foreign_keys:
            if table.group[fk.columns[0]] in row.registers:
                self.show_reference(rid, fk, former, shown)
        return shown

    def show_reference(self, rid, fk, former, shown):
        """R-REF, and what takes its place where the row is not there."""
        table, group = self.table(rid), self.table(rid).group[fk.columns[0]]
        register = self.rows[rid].registers[group]
        parent = (register.previous[1] if group in former else register.refs).get(fk.name)
        if parent is None:
            return
        if self.references.overridden(parent, fk, register.stamp):
            self.unset_columns(table, fk, fk.on_update, shown)
            return
        parent = self.view.represented(parent)
        if parent not in self.rows:
            return
        enforced = self.schema.enforced and fk.declared
        setting = enforced and fk.on_delete in SETTING
        stale = setting and group not in former and self.references.stale(rid, fk)
        if stale or enforced and not self.visible(parent):
            if setting:
                self.unset.add(rid)
                self.unset_columns(table, fk, fk.on_delete, shown)
            return
        key = [self.key_of(parent, c) for c in fk.parent_columns]
        shown.update(zip(fk.columns, fk.spelled([shown[c] for c in fk.columns], key)))
        self.view.withheld.discard((rid, fk.name))
        if not enforced and self.withholds(table, parent, fk, shown):
            self.view.withheld.add((rid, fk.name))
            shown[fk.columns[0]] = None

    def withholds(self, table, parent, fk, shown):
        """R-REF: whether another row has the number of a hidden one that may come back."""
        row, to, columns = self.rows[parent], self.table(parent), fk.columns
        waits = row.alive() and not row.fell() and not self.visible(parent)
        if not waits or not to.numbered() or list(fk.parent_columns) != [to.alias]:
            return False
        if columns[0] in table.primary or columns[0] in table.not_null:
            return False
        if to.name in self.names:
            given = (n for rid, n in self.numbers.items() if self.rows[rid].table == to.name)
        else:
            others = self.view.shown.items()
            given = (of[to.alias] for rid, of in others if self.rows[rid].table == to.name)
        return stored(shown[columns[0]], "INTEGER") in list(given)

    def unset_columns(self, table, fk, action, shown):
        """R-FK-SETNULL, R-FK-SETDEFAULT."""
        for column in fk.columns:
            null = action == "SET NULL"
            shown[column] = None if null else self.schema.default(table, column)

    def key_of(self, rid, column, depth=None):
        """What a row has in a column that others refer to. One that is not visible has it too; where the
        column is a reference, that is the key of the row which it is to."""
        depth = len(self.schema.tables) if depth is None else depth
        shown = self.shown.get(rid) or self.view.shown.get(rid)
        if shown is not None:
            return shown[column]
        if rid in self.numbers and column == self.table(rid).alias:
            return self.numbers[rid]
        register = self.references.register(rid, column)
        values = dict(register.values)
        for fk in self.foreign_keys(rid) if depth else ():
            parent = register.refs.get(fk.name)
            if column in fk.columns and parent in self.rows:
                key = [self.key_of(parent, c, depth - 1) for c in fk.parent_columns]
                written = [values[c] for c in fk.columns]
                values.update(zip(fk.columns, fk.spelled(written, key)))
        return values[column]

    def show_now(self, rid):
        """What a row shows as far as it is known who falls back."""
        return self.show(rid, self.former.get(rid, ()))

    def there(self, fk, values):
        """Whether a row that may be visible has a key."""
        wanted = fk.key(values)
        if fk.parent in self.names:
            rows = (self.show_now(r) for r in self.live if self.rows[r].table == fk.parent)
        else:
            shown = self.view.shown.items()
            rows = (row for rid, row in shown if self.rows[rid].table == fk.parent)
        return any(fk.key([row[c] for c in fk.parent_columns]) == wanted for row in rows)

    def dangling(self):
        """Rows whose foreign keys have values that no row has, or that cannot show their parent's key."""
        refused = {}
        for rid in self.live if self.schema.enforced else ():
            shown = self.show_now(rid)
            if any(self.dangles(rid, fk, shown) for fk in self.foreign_keys(rid)):
                refused[rid] = "fk_dangling"
        return refused

    def dangles(self, rid, fk, shown):
        values = [shown[c] for c in fk.columns]
        former = self.table(rid).group[fk.columns[0]] in self.former.get(rid, ())
        if not fk.declared or former or any(value is None for value in values):
            return False
        parent = self.references.counted(rid, fk)
        resolves = parent in self.rows and self.visible(self.view.represented(parent))
        others = (o for o in self.foreign_keys(rid) if o is not fk)
        shared = any(set(o.columns) & set(fk.columns) for o in others)
        if resolves and rid not in self.unset and not shared:
            return not self.shows_key_of(fk, self.view.represented(parent), values)
        return not self.there(fk, values)

    def shows_key_of(self, fk, parent, values):
        """R-SPELL: whether values mean the key of a row; a column may store it as something else."""
        return fk.key(values) == fk.key([self.key_of(parent, c) for c in fk.parent_columns])

    def invalid(self, refused):
        """Rows that SQLite itself refuses. It would give a number for an integer key that is NULL."""
        found = {}
        for rid in (r for r in self.live if r not in refused):
            table, shown = self.table(rid), self.show_now(rid)
            no_key = table.alias is not None and shown[table.alias] is None
            if no_key or not self.schema.judge(table, shown)[0]:
                found[rid] = "row_constraint"
        return found

    def claims(self, refused):
        """R-UNIQ, for each table: the claims of the rows that fit."""
        tables = [self.schema.tables[name] for name in self.names]
        live = [rid for rid in self.live if rid not in refused]
        mine = lambda t: [rid for rid in live if self.rows[rid].table == t.name]
        return [Claims(self, table, mine(table)) for table in tables]

    def may_show_former(self, rid, groups):
        """R-FALLBACK: whether the former references of a row are to rows that are there."""
        if not self.schema.enforced:
            return True
        for fk in self.foreign_keys(rid):
            group = self.table(rid).group[fk.columns[0]]
            if not fk.declared or group not in groups:
                continue
            register = self.rows[rid].registers[group]
            values, refs = register.previous
            if any(values[c] is None for c in fk.columns):
                continue
            parent = refs.get(fk.name)
            if self.references.overridden(parent, fk, register.stamp):
                shown = self.show(rid, groups)
                default = [shown[c] for c in fk.columns]
                if all(v is not None for v in default) and not self.there(fk, default):
                    return False
                continue
            parent = self.view.represented(parent)
            if parent not in self.rows or not self.visible(parent):
                return False
        return True
