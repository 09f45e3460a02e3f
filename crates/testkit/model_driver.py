"""Plays histories in the reference model: model_driver.py MODEL_FOLDER

Reads one history a line as JSON, writes one line of JSON for it: after each step, whether it
succeeded and what the acting site shows. The engine's clock values are milliseconds shifted left
by 16 bits; so are the times given to the model.
"""
import json
import os
import sys
import types

# Where the model says other than the semantics, or leaves open what the engine had to decide: why,
# the text of the model, and what stands in its place. docs/testing.md lists them.
CHANGES = [
    (
        "R-FK-MODE: where foreign keys are ignored they do nothing.",
        '                nn = " AND ".join("OLD.%s IS NOT NULL" % q(c) for c in f.cols)\n',
        '                if s.cfg.get("fk", "enforce") != "enforce": continue\n'
        '                nn = " AND ".join("OLD.%s IS NOT NULL" % q(c) for c in f.cols)\n',
    ),
    (
        "R-REF: ON UPDATE CASCADE to a key with a NULL in it is an action too, whatever ON DELETE does.",
        """                if f.on_delete in ("SET NULL", "SET DEFAULT") or f.on_update in ("SET NULL", "SET DEFAULT"):
                    act.append(""",
        """                if f.on_update == "CASCADE":
                    act.append("CASE WHEN %s AND %s AND (%s) THEN '%s;' ELSE '' END" % (nn, gone, " OR ".join("NEW.%s IS NULL" % q(c) for c in f.cols), f.id.replace("'", "''")))
                if f.on_delete in ("SET NULL", "SET DEFAULT") or f.on_update in ("SET NULL", "SET DEFAULT"):
                    act.append(""",
    ),
    (
        "R-FK-SETNULL: an INTEGER PRIMARY KEY cannot show NULL, so its row is hidden.",
        "if r not in new and not sch.judge(T(r), show(r))[0]: new[r]",
        "if r not in new and (T(r).alias and show(r)[T(r).alias] is None "
        "or not sch.judge(T(r), show(r))[0]): new[r]",
    ),
    (
        "A row whose parent its own delete took along was deleted by the user.",
        "AFTER DELETE ON main.%s %s BEGIN",
        "BEFORE DELETE ON main.%s %s BEGIN",
    ),
    (
        "Foreign keys that share a column: the last by name is followed, whatever the order of declaration.",
        """t.fks.remove(f); continue
                f.parent = par.name
                if f.pcols is None: f.pcols = par.pk
""",
        """t.fks.remove(f); continue
                f.parent = par.name
                if f.pcols is None: f.pcols = par.pk
            t.fks.sort(key=lambda f: f.id)
""",
    ),
    (
        "R-VIEW 2d: a reference that resolves may still show the value of another that shares its column.",
        "if p is not None and p in rows and not inv(rep(p)) and r not in snull: continue\n",
        "if p is not None and p in rows and not inv(rep(p)) and r not in snull "
        "and not any(o is not f and set(o.cols) & set(f.cols) for o in t.fks): continue\n",
    ),
    (
        "R-REF where nothing keeps the reference: a row that is not visible has a key all the same.",
        """                        if not enforce: continue
                        if f.on_delete == "SET NULL":
""",
        """                        if not enforce or f.on_delete == "~":
                            kg = rows[p].g.get(T(p).group[f.pcols[0]])
                            for c, pc in zip(f.cols, f.pcols): d[c] = kg.vals[T(p).canon[pc]]
                            continue
                        if f.on_delete == "SET NULL":
""",
    ),
    (
        "R-REBIND is capture: it comes before compensation looks whether anything is in the way. "
        "Where nothing keeps a reference, it ends with the key that its row had.",
        """        for _ in range(50):
            V = view(S, sch, s.cfg); again = False
""",
        """        for r, row in A.items():
            t = sch.t[r[1]]; rf = s.refs_of(t, row, after, maps)
            for f in t.fks:
                g = t.group[f.cols[0]]; o = S[r].g.get(g); was = o.refs.get(f.id); pt = sch.t[f.parent]
                kept = f.on_delete != "~" and s.cfg.get("fk", "enforce") == "enforce"
                if rf[f.id] == was or was is None or o.ts == ts or rf[f.id] is None and (kept or was in dead): continue
                own = {x: l for l, x in s_map_before[t.name].items()}.get(r)
                if own is None or any(norm(s.before[t.name][own][c]) != norm(row[c]) for c in f.cols): continue
                at = {x: l for l, x in s_map_before[pt.name].items()}.get(was)
                if at is None or any(norm(s.before[pt.name][at][pc]) != norm(row[c]) for c, pc in zip(f.cols, f.pcols)): continue
                if was in dead or was in A and any(norm(s.before[pt.name][at][c]) != norm(A[was][c]) for c in f.pcols):
                    x = S[r] = S[r].copy(); fks = [h for h in t.fks if t.group[h.cols[0]] == g]
                    x.g[g] = Reg(ts, {cc: row[t.uncanon[cc]] for cc in g}, {h.id: rf[h.id] for h in fks}, None)
        gave = set(); came = {}
        for _ in range(50):
            V = view(S, sch, s.cfg); again = False; later = None
""",
    ),
    (
        "R-COMP: a row that the user sees gives way only if it is not enough that hidden ones do.",
        "            if not again: break\n",
        "            if not again and later: gave.add(later); demote(later[0]); again = True\n"
        "            if not again: break\n",
    ),
    (
        "R-RETURN, R-REF: a reference to a row that comes back shows the key with which it comes, and "
        "what had to step aside is shown again without a write.",
        "for c in f.cols) and r not in V.fall:\n",
        "for c in f.cols) and r not in V.fall and t.group[f.cols[0]] not in s.V.fall.get(r, ()) and not "
        "(lambda p: p in V.row and (p not in A or p in s.V.fall))(S[r].g[t.group[f.cols[0]]].refs.get(f.id)):\n",
    ),
    (
        "R-FK-ONUPDATE: whose key was changed is the row that was named, not who stands for it (R-UNIFY); "
        "visible or not, and renumbered or not: only pins are excepted.",
        """                    p = rep(p)
                    if p not in rows: continue
                    if inv(p) or (enforce""",
        """                    uk = rows[p].g.get(T(p).group[f.pcols[0]]) if p in rows else None
                    if (
                        enforce and f.on_update in ("SET NULL", "SET DEFAULT")
                        and uk and uk.prev is not None and uk.ts > g.ts and not uk.refs.get("~pin")
                    ):
                        for c in f.cols: d[c] = None if f.on_update == "SET NULL" else sch.default(t, c)
                        continue
                    p = rep(p)
                    if p not in rows: continue
                    if inv(p) or (enforce""",
    ),
    (
        "(for R-FK-ONUPDATE above)",
        """                    if enforce and f.on_update in ("SET NULL", "SET DEFAULT") and kg and kg.prev is not None and kg.ts > g.ts and p not in remap and not kg.refs.get("~pin"):
                        for c in f.cols: d[c] = None if f.on_update == "SET NULL" else sch.default(t, c)
                        continue
""",
        "",
    ),
    (
        "R-FALLBACK: the former references are those that were shown, not those that were written.",
        "x.g[g] = Reg(ts, vals, rf, (pv, dict(o.refs) if o else {}))\n",
        "x.g[g] = Reg(ts, vals, rf, (pv, s.refs_shown(rid, g, old)))\n",
    ),
    (
        "R-REF: a reference follows the row that it shows, whatever was written.",
        "o.refs.get(f.id) == rf[f.id] and all(old[c] is not None for c in f.cols) and not (s.V and g in s.V.fall.get(rid, ()))",
        "all(old[c] is not None for c in f.cols) and "
        "(o.refs.get(f.id) == rf[f.id] and not (s.V and g in s.V.fall.get(rid, ())) or s.refs_shown(rid, g, old)[f.id] == rf[f.id])",
    ),
    (
        "R-COMP: what an action set is written also where the view would hide the row.",
        "if r in V.row and any(norm(V.row[r][t.uncanon[cc]]) !=",
        "if r not in V.row or any(norm(V.row[r][t.uncanon[cc]]) !=",
    ),
    (
        "R-FALLBACK: former values may have a key in an index that does not hold the later ones.",
        "names = set(held[r]) | {u.name}",
        "names = set(held[r]) | {u.name} | {n for n in nk if cache[r].get(n) is None}",
    ),
    (
        "R-COMP: who made a row fall back stands in its way too, if it then loses what it fell back to.",
        "bl[r] = h; ok = False",
        "b2.setdefault(r, []).extend([bl[r]] if r in over else []); bl[r] = h; ok = False",
    ),
    (
        "R-COMP: rows that a returning row makes collide do not demote each other in turn; one keeps the "
        "references that it shows.",
        """                    elif V.hidden.get(r) == "unique" and any(differs(h) for h in [V.blockers[r]] + V.block2.get(r, [])):
                        demote(next(h for h in [V.blockers[r]] + V.block2.get(r, []) if differs(h))); again = True; break
                elif r in V.fall and differs(r) and differs(V.blockers[r]): demote(V.blockers[r]); again = True; break
""",
        """                if V.hidden.get(r) == "unique" and S[r].alive() or r in V.fall and differs(r):
                    h = next((h for h in [V.blockers[r]] + V.block2.get(r, []) if differs(h)), None)
                    if h is None: continue
                    if (r, h) not in gave and h in A: later = later or (h, r); continue
                    if (r, h) not in gave: gave.add((h, r)); demote(h); again = True; break
                    rf = s.refs_of(t, row, after, maps)
                    for f in t.fks:
                        g = t.group[f.cols[0]]; o = S[r].g[g]
                        if o.refs.get(f.id) != rf[f.id]:
                            x = S[r] = S[r].copy(); again = True
                            x.g[g] = Reg(s.tick(), {cc: row[t.uncanon[cc]] for cc in g}, {k.id: rf[k.id] for k in t.fks if t.group[k.cols[0]] == g}, (o.vals, o.refs))
                    if again: break
""",
    ),
    (
        "R-FALLBACK, R-FK-ONUPDATE: a former reference that a later change of its key overrides counts as "
        "NULL, or as the default, which some row must have.",
        """                    p = pr.get(f.id)
                    if p is None or rep(p) not in rows or inv(rep(p)): return False
""",
        """                    p = pr.get(f.id)
                    uk = rows[p].g.get(T(p).group[f.pcols[0]]) if p in rows else None
                    if (
                        f.on_update in ("SET NULL", "SET DEFAULT") and uk and uk.prev is not None
                        and uk.ts > rows[r].g[gk].ts and not uk.refs.get("~pin")
                    ):
                        d = show(r, ov); vs = [d[c] for c in f.cols]
                        pool = [disp[z] for z in vis if rows[z].table == f.parent] if f.parent not in scc else [show(z) for z in live if rows[z].table == f.parent]
                        if all(v is not None for v in vs) and not any([norm(z[pc]) for pc in f.pcols] == [norm(v) for v in vs] for z in pool): return False
                        continue
                    if p is None or rep(p) not in rows or inv(rep(p)): return False
""",
    ),
    (
        "Ties between rows of one stamp: of two keys the shorter is the smaller, as in the engine's bytes.",
        """rid = ("k", tn, str(sorted(parts)), "%04d" % g)""",
        """rid = ("k", tn, "%06d" % len(str(sorted(parts))) + str(sorted(parts)), "%04d" % g)""",
    ),
    (
        "R-PIN: a fold that only pins numbers compensates too.",
        "        if not evs: return\n",
        "        if not evs and not s.pinned: return\n",
    ),
    (
        "R-COMP: rows that one fold demotes keep the order in which they came.",
        """            def demote(h):
                x = S[h] = S[h].copy(); x.pts = s.tick()
""",
        """            def demote(h):
                came[h] = (max(S[h].its, S[h].pts), h)
                x = S[h] = S[h].copy(); x.pts = s.tick()
                turn = sorted(came, key=came.get)
                for h, at in zip(turn, sorted(S[h].pts for h in turn)): x = S[h] = S[h].copy(); x.pts = at
""",
    ),
    (
        "R-COMP: what a fold writes on its own account is later than its window: references that a foreign "
        "key set,",
        "x = S[r] = S[r].copy(); x.g[g] = Reg(ts, {cc: row[t.uncanon[cc]] for cc in g}, rf, ({cc: old",
        "x = S[r] = S[r].copy(); x.g[g] = Reg(s.tick(), {cc: row[t.uncanon[cc]] for cc in g}, rf, ({cc: old",
    ),
    (
        "rows that it deleted,",
        "x.dts = ts; again = True",
        "x.dts = s.tick(); again = True",
    ),
    (
        "and references of rows that would be hidden for them.",
        """                            x = x or S[r].copy(); S[r] = x
                            x.g[g] = Reg(ts,""",
        """                            x = x or S[r].copy(); S[r] = x
                            x.g[g] = Reg(s.tick(),""",
    ),
    (
        "(for R-REBIND above)",
        "        s.map = maps\n        # ---- COMPENSATION",
        "        s_map_before = s.map; s.map = maps\n        # ---- COMPENSATION",
    ),
]


def load(folder):
    """The model with the changes."""
    with open(os.path.join(folder, "oracle.py"), encoding="utf-8") as file:
        text = file.read()
    for why, old, new in CHANGES:
        if text.count(old) != 1:
            sys.exit("the model is another one: it has no single place for this change: " + why)
        text = text.replace(old, new)
    module = types.ModuleType("oracle")
    sys.modules["oracle"] = module
    exec(compile(text, "oracle.py", "exec"), module.__dict__)
    return module


sys.path.insert(0, sys.argv[1])
oracle = load(sys.argv[1])
from run_scenarios import clone  # noqa: E402


def shift(ms):
    return ms << 16


def pin(site, original=oracle.Site.pin):
    """The order in which renumbered rows take their clock values is free; the engine's is by table
    and number."""
    tables = [table for tables in site.sch.sccs for table in tables]
    order = sorted(site.prov.items(), key=lambda item: (tables.index(item[0][1]), item[1]))
    site.prov = dict(order)
    overridden = [found for rid, number in order for found in overrode(site, rid, number)]
    before = dict(site.S)
    original(site)
    site.pinned = site.pinned or site.S != before
    shown = oracle.view(site.S, site.sch, site.cfg).row
    for rid, f in overridden:
        t, seen, row = site.sch.t[rid[1]], site.V.row[rid], site.S[rid]
        if rid in shown and all(seen[c] == shown[rid][c] for c in f.cols):
            continue
        g, row = t.group[f.cols[0]], row.copy()
        refs = site.refs_of(t, seen, None, site.map)
        refs = {k.id: refs[k.id] for k in t.fks if t.group[k.cols[0]] == g}
        previous = (row.g[g].vals, row.g[g].refs)
        row.g[g] = oracle.Reg(site.tick(), {c: seen[t.uncanon[c]] for c in g}, refs, previous)
        site.S[rid] = row


def refs_shown(site, rid, g, row):
    """The rows to which a group referred at the last fold, by what `row` then showed."""
    t, reg, refs = site.sch.t[rid[1]], site.S[rid].g[g], {}
    for f in (f for f in t.fks if t.group[f.cols[0]] == g):
        key = [oracle.norm(row[c]) for c in f.cols]
        places = site.map[f.parent]
        found = [
            places[at] for at, parent in site.before[f.parent].items()
            if at in places and [oracle.norm(parent[c]) for c in f.pcols] == key
        ]
        refs[f.id] = found[0] if found else reg.refs.get(f.id)
        if any(row[c] is None for c in f.cols):
            refs[f.id] = None
    return refs


def overrode(site, pinned, number):
    """A pin overrides no references, so those that a change of the key by a user overrides are
    written with it: R-COMP."""
    if pinned not in site.V.row or site.V.remap.get(pinned) != number:
        return
    parent = site.sch.t[pinned[1]]
    key = site.S[pinned].g[parent.group[parent.alias]]
    if key.prev is None or key.refs.get("~pin") or key.vals[parent.canon[parent.alias]] == number:
        return
    for rid in sorted(site.V.row):
        for f in site.sch.t[rid[1]].fks:
            g = site.S[rid].g[site.sch.t[rid[1]].group[f.cols[0]]]
            sets = f.parent == parent.name and f.on_update in ("SET NULL", "SET DEFAULT")
            if sets and f.pcols == [parent.alias] and g.refs.get(f.id) == pinned and g.ts < key.ts:
                yield rid, f


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


def capture(site, phys, original=oracle.Site.capture):
    """A window in which nothing changed takes no clock value in the engine; nor does a fold that only
    pins numbers, beyond theirs."""
    state, clock = dict(site.S), site.clk
    idle = site.db.execute("SELECT count(*) FROM _ev").fetchone()[0] == 0
    if idle and site.pinned:
        site.clk, phys = clock - 1, 0
    original(site, phys)
    site.pinned = False
    if site.S == state:
        site.clk = clock


def pull(to, source):
    """R-PIN: a number is pinned by the fold after the one that first showed it, not by the same."""
    for site in (source, to):
        if getattr(site, "open_window", False):
            site.fold()
        else:
            site.pin()
            if site.pinned:
                site.before = site.image()
                site.db.execute("DELETE FROM _ev")
                site.capture(0)
            site.materialize()
    to.S, to.clk = oracle.join(to.S, source.S), max(to.clk, source.clk)
    to.materialize()


oracle.Site.pinned = False
oracle.Site.pin = pin
oracle.Site.refs_shown = refs_shown
oracle.Site.materialize = materialize
oracle.Site.capture = capture


def config(policies):
    """Policies as the model takes them."""
    cfg = {}
    for key, value in policies.items():
        if key == "fk":
            cfg["fk"] = value
            continue
        table, what = key.rsplit(".", 1)
        if what == "refs":
            value = [part.split(":") for part in value.split(",")]
        cfg.setdefault(what, {})[table] = value
    return cfg


def build(history):
    cfg = config(history["policies"])
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
    if not getattr(site, "open_window", False):
        site.pin()
    try:
        site.run("BEGIN;\n%s;\nCOMMIT" % sql, shift(ms))
        return True
    except oracle.sqlite3.Error:
        return False


def show(site, queries, folded):
    out = []
    for table, sql in queries.items():
        out += ["%s: %s" % (table, row[0]) for row in site.db.execute(sql)]
    return sorted(out + (conflicts(site) if folded else []))


def conflicts(site):
    """One conflict a row, as the engine keeps it: what hides a row, or the first reason for which
    a visible one shows something else than was written. What a foreign key does on the site that
    deletes the parent is a conflict in the model only, so kinds that actions have are left out."""
    view, kinds = site.V, {}
    if view is None:
        return []
    kinds.update((rid, "set_null") for rid in view.setnull)
    kinds.update((rid, "fallback") for rid in view.fall)
    kinds.update((rid, "restrict_revived") for rid in view.revived if rid in view.row)
    kinds.update(view.hidden)
    acted = ("fk_cascade", "fk_parent_hidden", "set_null")
    return ["conflict %s in %s" % (kind, rid[1]) for rid, kind in kinds.items() if kind not in acted]


def play(history):
    sites, out = build(history), []
    for step in history["steps"]:
        site, done, shown = sites[step["site"]], True, [sites[step["site"]]]
        if step.get("fold"):
            site.fold()
        if "from" in step:
            shown.append(sites[step["from"]])
            pull(site, shown[1])
        else:
            done = step["sql"] is not None and run(site, step["sql"], step["ms"])
        folded = "from" in step or not history["lazy"]
        out.append({"done": done, "shown": [show(s, history["queries"], folded) for s in shown]})
    return {"steps": out, "sqlite": oracle.sqlite3.sqlite_version}


for line in sys.stdin:
    try:
        answer = play(json.loads(line))
    except Exception as error:
        answer = {"error": "%s: %s" % (type(error).__name__, error)}
    print(json.dumps(answer), flush=True)
