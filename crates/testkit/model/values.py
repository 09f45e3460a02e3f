"""R-EQUAL: two values are the same value when SQLite holds them equal."""

import sqlite3

# Columns of each affinity: what one is given comes out as it stores it.
CONVERTER = sqlite3.connect(":memory:", isolation_level=None)
CONVERTER.execute("CREATE TABLE t(TEXT TEXT, NUMERIC NUMERIC, INTEGER INTEGER, REAL REAL, BLOB BLOB)")
CONVERTED = {}


def affinity(declared):
    """Of a column of a declared type (https://sqlite.org/datatype3.html)."""
    declared = declared.upper()
    rules = [
        ("INTEGER", ("INT",)),
        ("TEXT", ("CHAR", "CLOB", "TEXT")),
        ("BLOB", ("BLOB",)),
        ("REAL", ("REAL", "FLOA", "DOUB")),
    ]
    found = (name for name, parts in rules if any(part in declared for part in parts))
    return next(found, "NUMERIC" if declared not in ("", "ANY") else "BLOB")


def stored(value, affinity):
    """What a column of an affinity stores when it is given a value."""
    known = type(value), value, affinity
    if known not in CONVERTED:
        CONVERTER.execute("DELETE FROM t")
        CONVERTER.execute("INSERT INTO t(%s) VALUES(?)" % affinity, (value,))
        CONVERTED[known] = CONVERTER.execute("SELECT %s FROM t" % affinity).fetchone()[0]
    return CONVERTED[known]


def comparable(value, collation="BINARY"):
    """Two values are equal under a collation exactly if this is equal of both."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, str):
        if collation == "NOCASE":
            value = "".join(chr(ord(c) + 32) if "A" <= c <= "Z" else c for c in value)
        elif collation == "RTRIM":
            value = value.rstrip(" ")
    kind = "num" if isinstance(value, (int, float)) else type(value).__name__
    return kind, value


def identical(values, others):
    """Whether values are spelled alike too."""
    return [(type(v), v) for v in values] == [(type(v), v) for v in others]


def differ(row, other, columns):
    """The columns among some in which two rows show something else, if only in its spelling."""
    return [c for c in columns if not identical([row[c]], [other[c]])]
