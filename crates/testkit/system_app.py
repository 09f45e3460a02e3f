"""Applications on the system's SQLite, driven by crates/testkit/src/wild/app.rs.

Reads one JSON object a line and answers with one. Connections are numbered by their slot.
"""

import json
import sqlite3
import sys

connections = {}


def triggers(conn, table):
    sql = "SELECT sql FROM sqlite_master WHERE type = 'trigger' AND tbl_name = ?"
    return [row[0] for row in conn.execute(sql, (table,))]


def quoted(name):
    return '"%s"' % name.replace('"', '""')


def overwrite(conn, nth, table, column, text):
    """As the function of that name in app.rs."""
    text, of, c = text.strip("'").encode(), quoted(table), quoted(column)
    found = (
        "SELECT _rowid_ FROM %s WHERE typeof(%s) = 'text' AND length(CAST(%s AS BLOB)) = ? "
        "AND (SELECT encoding FROM pragma_encoding) = 'UTF-8' ORDER BY 1 LIMIT 1 OFFSET ?"
    )
    row = conn.execute(found % (of, c, c), (len(text), int(nth))).fetchone()
    # Python has it from 3.11 on.
    if row is None or not hasattr(conn, "blobopen"):
        return
    with conn.blobopen(table, column, row[0]) as blob:
        blob.write(text)
    conn.execute("UPDATE %s SET %s = %s WHERE _rowid_ = ?" % (of, c, c), row)


def run(conn, script, whole, at):
    try:
        last = conn.execute("SELECT coalesce(max(seq), 0) FROM synqlite_journal").fetchone()[0]
    except sqlite3.OperationalError:
        last = None

    def stamp():
        if last is not None:
            conn.execute("UPDATE synqlite_journal SET at = ? WHERE seq > ?", (at, last))

    keys = conn.execute("PRAGMA foreign_keys").fetchone()[0]
    kept = []
    try:
        if whole:
            conn.execute("BEGIN")
        for sql in script:
            word, _, rest = sql.partition(" ")
            if word == "@keys":
                conn.execute("PRAGMA foreign_keys = %s" % ("OFF" if rest == "off" else keys))
            elif word == "@keep":
                kept = triggers(conn, rest)
            elif word == "@handle":
                overwrite(conn, *rest.split("|", 3))
            elif word == "@make":
                for text in kept:
                    conn.execute(text)
            else:
                conn.execute(sql).fetchall()
        stamp()
        if whole:
            conn.execute("COMMIT")
        return {}
    except (sqlite3.Error, sqlite3.Warning, OverflowError) as error:
        if conn.in_transaction:
            conn.execute("ROLLBACK")
        stamp()
        conn.execute("PRAGMA foreign_keys = %s" % keys)
        return {"failed": str(error)}


def answer(question):
    op, slot = question["op"], question.get("slot")
    if op == "version":
        return {"version": sqlite3.sqlite_version}
    if op == "open":
        conn = sqlite3.connect(question["path"], isolation_level=None, timeout=10)
        conn.text_factory = lambda data: data.decode("utf-8", "replace")
        conn.execute("PRAGMA synchronous = OFF")
        connections[slot] = conn
        return {}
    if op == "close":
        connections.pop(slot).close()
        return {}
    conn = connections[slot]
    if op == "run":
        return run(conn, question["script"], question["whole"], question["at"])
    rows = conn.execute(question["sql"]).fetchall()
    return {"texts": ["" if row[0] is None else str(row[0]) for row in rows]}


for line in sys.stdin:
    try:
        reply = answer(json.loads(line))
    except Exception as error:  # the other side says what it was about
        reply = {"broken": "%s: %s" % (type(error).__name__, error)}
    sys.stdout.write(json.dumps(reply) + "\n")
    sys.stdout.flush()
