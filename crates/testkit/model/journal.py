"""What a site notes of writes, and the net change of each row (R-CAP).

Triggers note the place of each row that is inserted, updated or deleted. A place is a rowid or, in
tables without one, the text of the key.
"""

from text import quoted

NOTING = "(SELECT v FROM temp._noting) = 1"


def place(table, prefix=""):
    """SQL of a row's place."""
    if table.without_rowid:
        return "||','||".join("quote(%s%s)" % (prefix, quoted(c)) for c in table.primary)
    return "+%srowid" % prefix


def prepare(db):
    db.executescript(
        "CREATE TEMP TABLE _journal(n INTEGER PRIMARY KEY, op, tb, a, b, flag);"
        "CREATE TEMP TABLE _noting(v); INSERT INTO _noting VALUES(1);"
    )


def clear(db):
    db.execute("DELETE FROM _journal")


def entries(db):
    return db.execute("SELECT op, tb, a, b, flag FROM _journal ORDER BY n").fetchall()


def note_insert(db, table, at):
    """Notes a row that was there before the triggers were."""
    db.execute("INSERT INTO _journal(op, tb, a) VALUES('I', ?, ?)", (table.name, at))


def create_triggers(db, table, enforced):
    """The triggers of a table. Each says of a row on which a foreign key acted that it did."""
    name, new, old = table.name, place(table, "NEW."), place(table, "OLD.")
    deleted, set_by = actions(table) if enforced else ([], [])
    if table.primary:
        same = " AND ".join("_o.%s = NEW.%s" % (quoted(c), quoted(c)) for c in table.primary)
        there = "FROM main.%s AS _o WHERE %s" % (quoted(name), same)
        values = "SELECT 'R', '%s', %s, NULL, NULL %s" % (name, place(table, "_o."), there)
        trigger(db, table, "BEFORE INSERT", values, "EXISTS(SELECT 1 %s)" % there)
    values = "VALUES('%s', '%s', %s, %s, %s)"
    trigger(db, table, "AFTER INSERT", values % ("I", name, new, "NULL", "NULL"))
    # Asked before, because the user's delete may take along the parent too.
    gone = " OR ".join(deleted) or "0"
    trigger(db, table, "BEFORE DELETE", values % ("D", name, old, "NULL", gone))
    acted = " || ".join(set_by) or "''"
    trigger(db, table, "AFTER UPDATE", values % ("U", name, old, new, acted))


def trigger(db, table, event, values, condition="1"):
    db.execute(
        "CREATE TEMP TRIGGER %s %s ON main.%s WHEN %s AND %s BEGIN "
        "INSERT INTO _journal(op, tb, a, b, flag) %s; END"
        % (quoted("_%s %s" % (table.name, event)), event, quoted(table.name), NOTING, condition, values)
    )


def actions(table):
    """SQL that is true of a row that CASCADE deletes, and SQL of the names of references that are set.

    A foreign key acts when the parent with the key that a row had is not there any more.
    """
    deleted, set_by = [], []
    for fk in table.foreign_keys:
        pairs = list(zip(map(quoted, fk.parent_columns), map(quoted, fk.columns)))
        had = " AND ".join("OLD.%s IS NOT NULL" % column for _, column in pairs)
        key = " AND ".join("_p.%s = OLD.%s" % pair for pair in pairs)
        gone = "NOT EXISTS(SELECT 1 FROM main.%s AS _p WHERE %s)" % (quoted(fk.parent), key)
        named = "'%s;'" % fk.name.replace("'", "''")
        if fk.on_delete == "CASCADE":
            deleted.append("(%s AND %s)" % (had, gone))
        if fk.on_update == "CASCADE":
            # To a key with a NULL in it, whatever ON DELETE does: otherwise the reference follows.
            null = " OR ".join("NEW.%s IS NULL" % column for _, column in pairs)
            set_by.append("iif(%s AND %s AND (%s), %s, '')" % (had, gone, null, named))
        if {"SET NULL", "SET DEFAULT"} & {fk.on_delete, fk.on_update}:
            new = " AND ".join("NEW.%s IS NOT OLD.%s" % (c, c) for _, c in pairs)
            set_by.append("iif(%s AND %s AND %s, %s, '')" % (had, gone, new, named))
    return deleted, set_by


class Changes:
    """Where rows are after some journal entries, and what became of those that are nowhere."""

    def __init__(self, entries, places):
        # By table and place: the identity of a row that was there, or None of a new one.
        self.now = {table: dict(at) for table, at in places.items()}
        # Of deleted rows: whether CASCADE did it.
        self.deleted = {}
        self.replaced = set()
        # By row: the references that foreign keys set.
        self.acted = {}
        replacing = {}
        for op, table, a, b, flag in entries:
            now = self.now[table]
            if op == "R":
                if now.get(a) is not None:
                    replacing[table] = now[a]
            elif op == "D":
                rid = now.pop(a, None)
                if rid is not None:
                    self.deleted[rid] = bool(flag)
            elif op == "I":
                self.insert(table, a, replacing.pop(table, None))
            else:
                rid = now[b] = now.pop(a, None)
                if flag and rid is not None:
                    self.acted.setdefault(rid, set()).update(flag.split(";")[:-1])

    def insert(self, table, at, replaced):
        now = self.now[table]
        if replaced in self.deleted and at not in now:
            # R-CAP-REPLACE: a row replaced under its primary key is the same row.
            now[at] = replaced
            del self.deleted[replaced]
            self.replaced.add(replaced)
        else:
            now.setdefault(at, None)
