"""Counts the conflicts that an ordinary application leaves to its people, and the ids that change under it.

    count.py SYNQLITE sqlalchemy|django|knex|drizzle [--seed N]... [--policy POLICY]... [--local]

Three sites of a project tracker are written through the named library, 150 units of work each, and synchronize
now and then; their programs run all the time. At the end all have seen everything; the records that are open
then are counted by kind and constraint, and so are those that closed by themselves. An id changes under a
program if its site showed the row under another before a synchronization. Policies are those of `init`; --local
stands for `T.ids=local` of each table, with which each site numbers its rows for itself. A seed says which history;
without one, 1 to 3 are played. Ends with status 1 if sites differ, or if `verify` finds a problem.

The first two libraries run in this Python and need `pip install sqlalchemy django`. The others run in `node`,
and are looked for in the working directory: `npm install better-sqlite3 knex drizzle-orm drizzle-kit`.
"""

import argparse
import json
import random
import subprocess
import sys
import tempfile
import uuid
from collections import Counter
from pathlib import Path

HERE = Path(__file__).resolve().parent
LIBRARIES = {"sqlalchemy": sys.executable, "django": sys.executable, "knex": "node", "drizzle": "node"}
SITES, UNITS = ["office", "van", "home"], 150
NUMBERED = ["person", "profile", "project", "task", "tag", "comment"]
# Few, so that people meet: each is taken by somebody before long.
WORDS = [f"{a}-{b}" for a in ("red", "blue", "old", "new", "big") for b in ("boat", "barn", "road", "tree")]
# What a unit of work does, and how many of a hundred do it.
WORK = {
    "add_person": 12, "set_email": 6, "delete_person": 5, "set_profile": 7, "add_project": 6, "set_project": 4,
    "delete_project": 3, "add_task": 17, "edit_task": 8, "assign_task": 6, "delete_task": 4, "tag_task": 12,
    "delete_tag": 2, "add_comment": 8,
}


class Site:
    """A program at work on one file. It is asked by a line of JSON, `[what, …]`, and answers by one."""

    def __init__(self, library, file):
        (script,) = HERE.glob(f"site_{library}.*")
        words = [LIBRARIES[library], script, file]
        self.process = subprocess.Popen(
            [str(word) for word in words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.file = file

    def ask(self, *words):
        self.process.stdin.write(json.dumps(words) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        return json.loads(answer) if answer else sys.exit(f"{self.file}: its program ended at {words}")

    def end(self):
        self.process.stdin.close()
        self.process.wait()


class Ids:
    """What becomes of the numbers that sites show: how often one changed, how often of a row that two sites had
    shown, and how many could have."""

    def __init__(self):
        self.changed, self.seen_by_two, self.shown, self.seen_by = 0, 0, 0, {}

    def see(self, site, numbers):
        for uid in numbers:
            self.seen_by.setdefault(uid, set()).add(site)

    def compare(self, before, after):
        for uid in before.keys() & after.keys():
            self.shown += 1
            if after[uid] != before[uid]:
                self.changed += 1
                self.seen_by_two += len(self.seen_by[uid]) > 1


def unit(chance, site):
    """One unit of work: what is done, a word, an identity for a row that is made, and which rows are taken."""
    (what,) = chance.choices(list(WORK), WORK.values())
    uid = uuid.UUID(int=chance.getrandbits(128)).hex
    return what, {"word": chance.choice(WORDS), "site": site, "uid": uid, "picks": [chance.random() for _ in range(3)]}


def play(synqlite, library, seed, folder, policies, ids):
    """Returns the records that ask somebody, and those that are closed."""
    def run(*args):
        done = subprocess.run([synqlite, *map(str, args)], capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"seed {seed}: synqlite {' '.join(map(str, args))}: {done.stderr}{done.stdout}")
        return done.stdout

    def conflicts(file, *args):
        return json.loads(run("conflicts", file, *args, "--json"))

    files = {site: Path(folder, f"{site}.db") for site in SITES}
    chance, first = random.Random(seed), SITES[0]
    sites = {first: Site(library, files[first])}
    sites[first].ask("create")
    run("init", files[first], "--name", first, *(f"--policy={policy}" for policy in policies))
    for site in SITES[1:]:
        run("clone", files[first], files[site], "--name", site)
        sites[site] = Site(library, files[site])

    def sync(*names):
        before = {site: sites[site].ask("numbers") for site in names}
        for site in names:
            ids.see(site, before[site])
        run("sync", *(files[site] for site in names))
        for site in names:
            ids.compare(before[site], sites[site].ask("numbers"))

    for n in range(UNITS):
        for site in chance.sample(SITES, len(SITES)):
            sites[site].ask(*unit(chance, site))
        if n % 15 == 14:
            sync(*chance.sample(SITES, 2))
    for _ in range(3):
        for a, b in [(0, 1), (1, 2), (2, 0)]:
            sync(SITES[a], SITES[b])
    for site in sites.values():
        site.end()
    for file in files.values():
        run("verify", "--full", file)
    seen = [(run("digest", file).split()[0], sorted(c["id"] for c in conflicts(file)["conflicts"]))
            for file in files.values()]
    if seen.count(seen[0]) != len(seen):
        sys.exit(f"seed {seed}: sites differ")
    # Records that follow another ask nobody.
    asking = [c for c in conflicts(files[first])["conflicts"] if c["follows"] is None]
    return asking, conflicts(files[first], "--closed")["closed"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("synqlite")
    parser.add_argument("library", choices=LIBRARIES)
    parser.add_argument("--seed", type=int, action="append", dest="seeds")
    parser.add_argument("--policy", action="append", dest="policies", default=[])
    parser.add_argument("--local", action="store_true")
    asked = parser.parse_args()
    policies = asked.policies + [f"{table}.ids=local" for table in NUMBERED if asked.local]
    total, over, ids = Counter(), Counter(), Ids()
    for seed in asked.seeds or [1, 2, 3]:
        with tempfile.TemporaryDirectory(prefix="tracker-") as folder:
            asking, closed = play(asked.synqlite, asked.library, seed, folder, policies, ids)
        print(f"seed {seed}: {len(asking)} open, {len(closed)} closed", flush=True)
        total += Counter((c["kind"], c["table"], c["declared"]) for c in asking)
        over += Counter(f"{c['kind']} {c['how']}" for c in closed)
    for (kind, table, declared), n in total.most_common():
        print(f"{n:>5}  {kind}  {table}  {declared}")
    print(f"{sum(total.values()):>5}  open; closed: {dict(over.most_common())}")
    print(f"{ids.changed:>5}  ids changed under a program, of {ids.shown} that it had before a synchronization")
    print(f"{ids.seen_by_two:>5}  of these were of rows that two sites had shown")


main()
