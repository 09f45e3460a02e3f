"""What the rules read of a schema: groups, identities, references, unique keys.

SQLite describes the schema by its PRAGMAs, and judges values itself: a scratch copy of each table
says whether a row is valid and what its unique keys are.
"""

import re
import sqlite3

from text import inside, mentions, parts, quoted
from values import affinity, comparable, stored

RESTRICTIVE = ("RESTRICT", "NO ACTION")
SETTING = ("SET NULL", "SET DEFAULT")


class ForeignKey:
    """A reference of a table. One that only a policy declares (R-LREF) is never enforced."""

    # (affinity, collation) of each column that it refers to, and affinities of its own.
    compared, affinities = (), ()

    def __init__(self, columns, parent, parent_columns, on_update="", on_delete="", declared=True):
        self.columns, self.parent, self.parent_columns = columns, parent, parent_columns
        self.on_update, self.on_delete, self.declared = on_update, on_delete, declared
        self.name = ",".join(columns) + ">" + parent.lower()

    def key(self, values):
        """R-EQUAL: what is equal of two values exactly if they mean one parent."""
        pairs = zip(values, self.compared)
        return [comparable(stored(v, affinity), collation) for v, (affinity, collation) in pairs]

    def spelled(self, written, key):
        """R-SPELL: what a reference shows that was written so, to a row with this key."""
        if None not in written and self.key(written) == self.key(key):
            return written
        return [stored(v, affinity) for v, affinity in zip(key, self.affinities)]


class UniqueKey:
    """A unique index, or the integer key of a table whose rows are identified by it.

    Its name is what it says (R-CONSTRAINT).
    """

    def __init__(self, terms, columns, primary, texts=None, where=None, name=None):
        self.columns, self.primary = columns, primary
        # (column or None, collation) of each term; SQL of the terms where they are not all columns.
        self.terms, self.texts, self.where = terms, texts, where
        said = zip(texts or [column for column, _ in terms], terms)
        suffix = lambda collation: "" if collation == "BINARY" else " " + collation.lower()
        said = {text.lower() + suffix(collation) for text, (_, collation) in said}
        self.name = name or ", ".join(sorted(said)) + (" where " + where if where else "")


class Table:
    """A replicated table."""

    def __init__(self, db, name, sql):
        self.name, self.sql = name, sql
        query = 'SELECT name, type, "notnull", dflt_value, pk, hidden FROM pragma_table_xinfo(?)'
        info = db.execute(query, (name,)).fetchall()
        # Generated columns are not replicated (R-GEN).
        self.columns = [row[0] for row in info if row[5] == 0]
        self.defaults = {row[0]: row[3] for row in info}
        self.not_null = {row[0] for row in info if row[2]}
        self.primary = [row[0] for row in sorted((r for r in info if r[4]), key=lambda r: r[4])]
        self.without_rowid = re.search(r"WITHOUT\s+ROWID", sql, re.I) is not None
        self.autoincrement = re.search(r"AUTOINCREMENT", sql, re.I) is not None
        types = {row[0]: row[1].upper() for row in info}
        self.affinities = {column: affinity(types[column]) for column in types}
        integer = len(self.primary) == 1 and types[self.primary[0]] == "INTEGER"
        # The column that is another name of the rowid.
        self.alias = self.primary[0] if integer and not self.without_rowid else None
        self.foreign_keys = foreign_keys(db, name)
        self.checks = []
        for found in re.finditer(r"\bCHECK\s*\(", sql, re.I):
            body, _ = inside(sql, found.end() - 1)
            self.checks.append({c for c in self.columns if mentions(body, c)})
        # Two that say the same are one.
        found = {key.name: key for key in unique_keys(db, self)}
        self.unique = [found[name] for name in sorted(found)]
        self.number_key = None
        if self.alias:
            terms = [(self.alias, "BINARY")]
            self.number_key = UniqueKey(terms, [self.alias], primary=True, name="~pk")
        self.collations = {}
        for key in self.unique:
            if key.primary:
                self.collations = dict(key.terms)
        # Set by `resolve`, which knows the other tables and the policies.
        self.group, self.groups, self.identity, self.on_unique = {}, [], "key", "quarantine"

    def resolve(self, tables, policies):
        """Finds the parents of references, and with them the groups and the identity of rows."""
        for column, parent in policies.get("refs", {}).get(self.name, []):
            self.foreign_keys.append(ForeignKey([column], parent, None, declared=False))
        for fk in list(self.foreign_keys):
            parent = next((t for t in tables if t.name.lower() == fk.parent.lower()), None)
            if parent is None:
                self.foreign_keys.remove(fk)
                continue
            fk.parent = parent.name
            fk.parent_columns = fk.parent_columns or parent.primary
            collations = parent.compares(fk.parent_columns)
            fk.compared = [(parent.affinities[c], collations.get(c, "BINARY")) for c in fk.parent_columns]
            fk.affinities = [self.affinities[c] for c in fk.columns]
        # Of references that share a column the last by name is followed.
        self.foreign_keys.sort(key=lambda fk: fk.name)
        self.make_groups()
        self.identity = policies.get("identity", {}).get(self.name, self.default_identity())
        self.on_unique = policies.get("on_unique", {}).get(self.name, "quarantine")

    def tells_apart(self, fk):
        """R-ID-KEY: whether keys that differ in these columns never refer to one row."""
        whole = ("INTEGER", "NUMERIC")
        for column, own, (parent, collation) in zip(fk.columns, fk.affinities, fk.compared):
            same = parent in ("BLOB", own) or parent in whole and own in (*whole, "REAL")
            if not same or collation not in ("BINARY", self.collations.get(column, "BINARY")):
                return False
        return True

    def make_groups(self):
        """R-GROUP."""
        together = {c: {c} for c in self.columns}
        units = [self.primary, *(fk.columns for fk in self.foreign_keys), *self.checks]
        for unit in units:
            unit = [c for c in unit if c in together]
            joined = set().union(*(together[c] for c in unit))
            for column in joined:
                together[column] = joined
        self.group = {c: tuple(sorted(together[c])) for c in self.columns}
        self.groups = sorted(set(self.group.values()))

    def default_identity(self):
        """R-ID-AUTO."""
        if not self.primary:
            return "birth"
        if self.alias is None:
            return "key"
        chosen = any(self.alias in fk.columns for fk in self.foreign_keys)
        checked = any(self.alias in check for check in self.checks)
        return "key" if chosen or checked else "birth"

    def numbered(self):
        """Whether rows of one number stay several rows, all but one with another number (R-REMAP)."""
        if self.alias is None or self.identity != "birth":
            return False
        return not any(self.alias in fk.columns for fk in self.foreign_keys)

    def compares(self, columns):
        """Collations of the columns of a key that others refer to."""
        same = lambda key: {column for column, _ in key.terms} == set(columns)
        keys = (dict(key.terms) for key in self.unique if same(key) and not key.where)
        return next(keys, {})

    def references_in(self, group):
        return [fk for fk in self.foreign_keys if self.group[fk.columns[0]] == group]

    def keys(self):
        """Unique keys that rows collide on."""
        counted = self.alias is None or self.numbered()
        return self.unique if counted else self.unique + [self.number_key]

    def written_keys(self):
        """Unique keys of which a user may write a part."""
        return self.unique + ([self.number_key] if self.alias else [])


def foreign_keys(db, table):
    query = (
        'SELECT id, "table", "from", "to", on_update, on_delete '
        "FROM pragma_foreign_key_list(?) ORDER BY id, seq"
    )
    found = {}
    for number, parent, column, target, on_update, on_delete in db.execute(query, (table,)):
        fk = found.setdefault(number, ForeignKey([], parent, [], on_update, on_delete))
        fk.columns.append(column)
        fk.parent_columns.append(target)
    for fk in found.values():
        if fk.parent_columns[0] is None:
            fk.parent_columns = None
        fk.name = ",".join(fk.columns) + ">" + fk.parent.lower()
    return list(found.values())


def unique_keys(db, table):
    lists = 'SELECT name, origin, partial FROM pragma_index_list(?) WHERE "unique"'
    for name, origin, partial in db.execute(lists, (table.name,)).fetchall():
        query = "SELECT cid, name, coll FROM pragma_index_xinfo(?) WHERE key"
        info = db.execute(query, (name,)).fetchall()
        terms = [(row[1], row[2]) for row in info]
        texts, where = None, None
        if partial or any(cid == -2 for cid, _, _ in info):
            texts, where = index_text(db, name)
        reads = " ".join(texts or [column for column, _ in terms]) + " " + (where or "")
        generated = [c for _, c, _ in info if c and c not in table.columns]
        for column in generated:
            # A key over a generated column reads what its expression reads.
            texts = [c for c, _ in terms]
            found = re.search(r"(?<!\w)%s(?!\w)[^,]*?AS\s*\(" % re.escape(column), table.sql, re.I)
            reads += " " + inside(table.sql, found.end() - 1)[0]
        columns = [c for c in table.columns if mentions(reads, c)]
        yield UniqueKey(terms, columns, origin == "pk", texts, where)


def index_text(db, name):
    """SQL of the terms of an index, without collations and directions, and of its predicate."""
    query = "SELECT sql FROM sqlite_master WHERE type = 'index' AND name = ?"
    (sql,) = db.execute(query, (name,)).fetchone()
    body, end = inside(sql, sql.index("(", sql.upper().index(" ON ")))
    plain = [re.sub(r"\s+(COLLATE\s+\w+|ASC|DESC)\b", "", t, flags=re.I) for t in parts(body)]
    where = re.search(r"\bWHERE\b(.*)$", sql[end:], re.I | re.S)
    return plain, where.group(1) if where else None


class Schema:
    """All replicated tables, and SQLite's judgement of their rows."""

    def __init__(self, db, policies):
        query = (
            "SELECT name, sql FROM sqlite_master WHERE type = 'table' "
            "AND name NOT LIKE 'sqlite_%' AND sql NOT LIKE 'CREATE VIRTUAL%'"
        )
        self.tables = {name: Table(db, name, sql) for name, sql in db.execute(query).fetchall()}
        for table in self.tables.values():
            table.resolve(self.tables.values(), policies)
        self.enforced = policies.get("fk", "enforce") == "enforce"
        self.components = self.find_components()
        self.scratch = scratch_copy(db)
        self.judged = {}

    def find_components(self):
        """Tables that refer to each other together, parents first."""
        above = {name: set() for name in self.tables}
        for name in self.tables:
            waiting = [fk.parent for fk in self.tables[name].foreign_keys]
            while waiting:
                parent = waiting.pop()
                if parent not in above[name]:
                    above[name].add(parent)
                    waiting += [fk.parent for fk in self.tables[parent].foreign_keys]
        components, done, names = [], set(), sorted(self.tables)
        while len(done) < len(names):
            for name in (n for n in names if n not in done):
                circle = {name} | {n for n in above[name] if name in above[n]}
                if all(n in done for one in circle for n in above[one] - circle):
                    components.append(sorted(circle))
                    done |= circle
                    break
        return components

    def in_order(self):
        """Names of the tables, parents first."""
        return [name for component in self.components for name in component]

    def judge(self, table, row):
        """Whether SQLite takes a row, and its unique keys by name: None where a row asks for none."""
        known = (table.name, tuple(comparable(row[c]) for c in table.columns))
        if known not in self.judged:
            self.judged[known] = self.try_row(table, row)
        return self.judged[known]

    def try_row(self, table, row):
        name, columns = quoted(table.name), ",".join(map(quoted, table.columns))
        self.scratch.execute("DELETE FROM " + name)
        marks = ",".join("?" * len(table.columns))
        try:
            values = [row[c] for c in table.columns]
            self.scratch.execute("INSERT INTO %s(%s) VALUES(%s)" % (name, columns, marks), values)
        except sqlite3.IntegrityError:
            return False, {}
        return True, {key.name: self.key(table, key, row) for key in table.unique}

    def key(self, table, key, row):
        """The key of the row that the scratch copy holds."""
        values = [row.get(column) for column, _ in key.terms]
        if key.texts is not None:
            query = "SELECT %s FROM %s WHERE %s"
            query = query % (",".join(key.texts), quoted(table.name), key.where or "1")
            values = self.scratch.execute(query).fetchone() or [None]
        if any(value is None for value in values):
            return None
        return tuple(comparable(v, collation) for v, (_, collation) in zip(values, key.terms))

    def default(self, table, column):
        text = table.defaults.get(column)
        value = None if text is None else self.scratch.execute("SELECT " + text).fetchone()[0]
        return stored(value, table.affinities[column])


def scratch_copy(db):
    """Empty tables in memory, on which foreign keys do nothing."""
    scratch = sqlite3.connect(":memory:", isolation_level=None)
    for kind in ("table", "index"):
        query = (
            "SELECT sql FROM sqlite_master WHERE type = ? AND sql IS NOT NULL "
            "AND name NOT LIKE 'sqlite_%' AND sql NOT LIKE 'CREATE VIRTUAL%'"
        )
        for (sql,) in db.execute(query, (kind,)):
            scratch.execute(sql)
    scratch.execute("PRAGMA foreign_keys = OFF")
    return scratch
