"""Plays histories in the reference model: python3 crates/testkit/model

Reads one history a line as JSON, writes one line of JSON for it: after each step, whether it
succeeded and what the sites concerned show. The engine's clock values are milliseconds shifted left
by 16 bits; so are the times given to the model.
"""

import json
import sys

# No compiled files among the sources.
sys.dont_write_bytecode = True

import sqlite3  # noqa: E402

from replica import Site  # noqa: E402


def clock(ms):
    return ms << 16


def by_table(policies):
    """Policies by what they set: `fk`, or a table's property by table."""
    found = {}
    for key, value in policies.items():
        if "." not in key:
            found[key] = value
            continue
        table, what = key.rsplit(".", 1)
        if what == "refs":
            value = [part.split(":") for part in value.split(",")]
        found.setdefault(what, {})[table] = value
    return found


def build(history):
    policies, names = by_table(history["policies"]), "ABCDEFGH"[: history["sites"]]
    start = clock(history["start"])
    first = Site.create(names[0], history["schema"], policies, history["lazy"], start)
    return [first] + [first.clone(name) for name in names[1:]]


def rows(site, queries):
    return ["%s: %s" % (table, row[0]) for table, sql in queries.items() for row in site.db.execute(sql)]


def conflicts(site):
    """One conflict a row, as the engine keeps it: what hides a row, or the first reason for which
    a visible one shows something else than was written. What a foreign key does on the site that
    deletes the parent is a conflict here only, so kinds that actions have are left out."""
    view, kinds = site.view, {}
    kinds.update((rid, "set_null") for rid in view.unset)
    kinds.update((rid, "fallback") for rid in view.former)
    kinds.update((rid, "restrict_revived") for rid in view.kept_dead if rid in view.shown)
    kinds.update(view.hidden)
    acted = ("fk_cascade", "fk_parent_hidden", "set_null")
    return ["conflict %s in %s" % (kind, rid[1]) for rid, kind in kinds.items() if kind not in acted]


def play_step(sites, step, queries, lazy):
    site, shown = sites[step["site"]], [sites[step["site"]]]
    done = True
    if step.get("fold"):
        site.fold()
    if "from" in step:
        shown.append(sites[step["from"]])
        site.pull(shown[1])
    else:
        done = step["sql"] is not None and site.write(step["sql"], clock(step["ms"]))
    folded = "from" in step or not lazy
    return {
        "done": done,
        "shown": [sorted(rows(s, queries) + (conflicts(s) if folded else [])) for s in shown],
    }


def play(history):
    sites = build(history)
    steps = [play_step(sites, s, history["queries"], history["lazy"]) for s in history["steps"]]
    return {"steps": steps, "sqlite": sqlite3.sqlite_version}


for line in sys.stdin:
    try:
        answer = play(json.loads(line))
    except Exception as error:
        answer = {"error": "%s: %s" % (type(error).__name__, error)}
    print(json.dumps(answer), flush=True)
