"""R-UNIQ and R-FALLBACK: who has a unique key that several rows claim.

Claims are heard in the order of their stamps. Who finds its key taken shows what it was before, or
loses. A row that lost after it had been given a key is left out and all claims are heard again, so
that nobody lost a key to it.
"""

from state import NEVER
from values import comparable


class Claims:
    """The claims to the unique keys of a table."""

    def __init__(self, component, table, rids):
        self.component, self.table = component, table
        self.rows, self.rids = component.rows, rids
        self.keys = {key.name: key for key in table.keys()}
        self.asked = {rid: self.judge(rid, ())[1] for rid in rids}
        # Who has the key that a row lost, which key that is, and who else stands in its way.
        self.winner, self.lost_key, self.others = {}, {}, {}
        self.left_out = set()
        while True:
            self.hear()
            if self.again is None:
                break
            self.left_out.add(self.again)
        self.losers = self.left_out | self.lost

    def judge(self, rid, former):
        """Whether a row is valid, and its keys by name."""
        shown = self.component.show(rid, former)
        valid, keys = self.component.schema.judge(self.table, shown)
        number = self.table.number_key
        if number is not None and number.name in self.keys:
            value = shown[self.table.alias]
            keys = {**keys, number.name: None if value is None else (comparable(value),)}
        return valid, keys

    def registers(self, rid, key):
        """The registers of the columns that a key reads."""
        registers = self.rows[rid].registers
        groups = {self.table.group[c] for c in key.columns}
        return {g: registers[g] for g in groups if g in registers}

    def written(self, rid, key):
        """When what a key reads was written last. Nobody wrote a number that was pinned (R-PIN)."""
        inserted = self.rows[rid].inserted
        stamps = (inserted if r.pinned else r.stamp for r in self.registers(rid, key).values())
        return max(stamps, default=NEVER)

    def claim(self, rid, key):
        """How old a claim is."""
        return max(self.written(rid, key), self.rows[rid].yielded)

    def hear(self):
        """Hears all claims once. `again` is a row to leave out, if one is."""
        self.granted, self.held = {}, {rid: {} for rid in self.rids}
        self.former, self.lost, self.again = {}, set(), None
        claims = []
        for rid in (r for r in self.rids if r not in self.left_out):
            for at, (name, key) in enumerate(self.keys.items()):
                if self.asked[rid].get(name) is not None:
                    claims.append((self.claim(rid, key), rid, at, key))
        for stamp, rid, _, key in sorted(claims, key=lambda claim: claim[:3]):
            if rid not in self.lost:
                self.hear_one(rid, key, stamp)

    def hear_one(self, rid, key, stamp):
        asked = self.judge(rid, self.former[rid])[1] if rid in self.former else self.asked[rid]
        value = asked.get(key.name)
        if value is None:
            return
        holder = self.granted.setdefault((key.name, value), rid)
        if holder == rid:
            self.held[rid][key.name] = value
            return
        if rid in self.former:
            # Who made it fall back is in its way too, now that it loses what it fell back to.
            self.others.setdefault(rid, []).append(self.winner[rid])
        self.winner[rid], self.lost_key[rid] = holder, key
        had_any = bool(self.held[rid])
        earlier = any(self.claim(rid, self.keys[name]) < stamp for name in self.held[rid])
        groups = self.latest_updates(rid, key)
        tried = bool(groups) and rid not in self.former
        if tried and self.fall_back(rid, key, groups):
            return
        if had_any if tried else earlier:
            self.again = self.again or rid
        self.release(rid)
        self.former.pop(rid, None)
        self.lost.add(rid)

    def latest_updates(self, rid, key):
        """Groups of a key that the latest update of it wrote, and that were something before."""
        written = self.written(rid, key)
        found = self.registers(rid, key).items()
        latest = lambda r: r.stamp == written and r.previous is not None and not r.pinned
        return {g for g, r in found if latest(r)}

    def fall_back(self, rid, key, groups):
        """R-FALLBACK: gives a row the keys of what it was before, if they are all free."""
        former = tuple(sorted(groups))
        valid, keys = self.judge(rid, former)
        allowed = valid and self.component.may_show_former(rid, former)
        # Former values may have a key in an index that does not hold the later ones.
        more = {name for name in keys if self.asked[rid].get(name) is None}
        names = sorted(n for n in {*self.held[rid], key.name, *more} if keys.get(n) is not None)
        self.release(rid)
        for name in names:
            holder = self.granted.get((name, keys[name]))
            if holder is not None:
                allowed = False
                self.others.setdefault(rid, []).append(holder)
        if allowed:
            self.former[rid] = former
            self.held[rid] = {name: keys[name] for name in names}
            self.granted.update({(name, keys[name]): rid for name in names})
        return allowed

    def release(self, rid):
        for name, value in self.held[rid].items():
            self.granted.pop((name, value), None)
        self.held[rid] = {}
