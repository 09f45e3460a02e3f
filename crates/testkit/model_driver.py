"""Plays histories in the reference model: model_driver.py MODEL_FOLDER

Reads one history a line as JSON, writes one line of JSON for it: after each step, whether it
succeeded and what the acting site shows. The engine's clock values are milliseconds shifted left
by 16 bits; so are the times given to the model.
"""
import json
import sys

sys.path.insert(0, sys.argv[1])
import oracle
from run_scenarios import clone


def shift(ms):
    return ms << 16


def pin(site, original=oracle.Site.pin):
    """The order in which renumbered rows take their clock values is free; the engine's is by table
    and number."""
    tables = [table for tables in site.sch.sccs for table in tables]
    order = sorted(site.prov.items(), key=lambda item: (tables.index(item[0][1]), item[1]))
    site.prov = dict(order)
    original(site)


def materialize(site, original=oracle.Site.materialize):
    """AUTOINCREMENT goes on after the largest number of its own table (R-REMAP) and never goes
    back; the model counts renumbered rows of all tables."""
    own = [table for table in site.sch.t.values() if table.autoinc]
    read = "SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = ?"
    before = {t.name: site.db.execute(read, (t.name,)).fetchone()[0] for t in own}
    original(site)
    for t in own:
        asked = [x.g[t.group[t.alias]].vals[t.canon[t.alias]] for x in site.S.values() if x.table == t.name]
        given = [number for rid, number in site.V.remap.items() if rid[1] == t.name]
        top = max(asked + given + [before[t.name]])
        site.db.execute("UPDATE sqlite_sequence SET seq = ? WHERE name = ?", (top, t.name))


oracle.Site.pin = pin
oracle.Site.materialize = materialize


def build(history):
    cfg = {}
    first = oracle.Site("A", cfg)
    first.open()
    first.db.executescript(history["schema"])
    first.setup()
    first.adopt(shift(history["start"]))
    sites = [first] + [clone(first, "ABCDEFGH"[i], cfg) for i in range(1, history["sites"])]
    for site in sites:
        site.lazy = history["lazy"]
    return sites


def run(site, sql, ms):
    """A statement that changes nothing takes no clock value in the engine."""
    if not getattr(site, "open_window", False):
        site.pin()
    state, clock = dict(site.S), site.clk
    try:
        site.run(sql, shift(ms))
        done = True
    except oracle.sqlite3.Error:
        done = False
    if not site.lazy and site.S == state:
        site.clk = clock
    return done


def show(site, queries):
    out = []
    for table, sql in queries.items():
        out += ["%s: %s" % (table, row[0]) for row in site.db.execute(sql)]
    return sorted(out)


def play(history):
    sites, out = build(history), []
    for step in history["steps"]:
        site, done = sites[step["site"]], True
        if "sql" in step:
            done = run(site, step["sql"], step["ms"])
        else:
            oracle.pull(site, sites[step["from"]])
        out.append({"done": done, "rows": show(site, history["queries"])})
    conflicts = sorted(set(sum((site.conflicts() for site in sites), [])))
    return {"steps": out, "conflicts": conflicts}


for line in sys.stdin:
    try:
        answer = play(json.loads(line))
    except Exception as error:
        answer = {"error": "%s: %s" % (type(error).__name__, error)}
    print(json.dumps(answer), flush=True)
