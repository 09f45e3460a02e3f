"""Counts the conflicts that an ordinary application leaves to its people, and the ids that change under it.

    pip install sqlalchemy
    orm.py SYNQLITE [--local] [SEED...]

Three sites of a project tracker are written through SQLAlchemy, 150 units of work each, and synchronize now
and then. At the end all have seen everything; the records that are open then are counted by kind and
constraint, and so are those that closed by themselves. An id changes under a program if its site showed the row
under another before a synchronization; with --local each site numbers its rows for itself (`T.ids=local`). A seed
says which history; without one, three are played. Ends with status 1 if sites differ, or if `verify` finds a problem.
"""

import json
import random
import subprocess
import sys
import tempfile
import uuid
from collections import Counter
from pathlib import Path

from sqlalchemy import ForeignKey, UniqueConstraint, create_engine, event, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, relationship

SITES, UNITS, SEEDS = ["office", "van", "home"], 150, [1, 2, 3]
# Few, so that people meet: each is taken by somebody before long.
WORDS = [f"{a}-{b}" for a in ("red", "blue", "old", "new", "big") for b in ("boat", "barn", "road", "tree")]


class Base(DeclarativeBase):
    pass


class Numbered:
    """A row with a number, and something that is its own for good, by which it is found again here."""

    id: Mapped[int] = mapped_column(primary_key=True)
    uid: Mapped[str] = mapped_column(default=lambda: uuid.uuid4().hex)


class Person(Numbered, Base):
    __tablename__ = "person"
    name: Mapped[str]
    email: Mapped[str] = mapped_column(unique=True)
    profile: Mapped["Profile"] = relationship(cascade="all, delete-orphan", passive_deletes=True)


class Profile(Numbered, Base):
    __tablename__ = "profile"
    person_id: Mapped[int] = mapped_column(ForeignKey("person.id", ondelete="CASCADE"), unique=True)
    about: Mapped[str]


class Project(Numbered, Base):
    __tablename__ = "project"
    title: Mapped[str] = mapped_column(unique=True)
    owner_id: Mapped[int | None] = mapped_column(ForeignKey("person.id", ondelete="SET NULL"))


class Task(Numbered, Base):
    __tablename__ = "task"
    __table_args__ = (UniqueConstraint("project_id", "place"),)
    project_id: Mapped[int] = mapped_column(ForeignKey("project.id", ondelete="CASCADE"))
    author_id: Mapped[int] = mapped_column(ForeignKey("person.id", ondelete="RESTRICT"))
    assignee_id: Mapped[int | None] = mapped_column(ForeignKey("person.id", ondelete="SET NULL"))
    place: Mapped[int]
    title: Mapped[str]
    done: Mapped[bool] = mapped_column(default=False)


class Tag(Numbered, Base):
    __tablename__ = "tag"
    label: Mapped[str] = mapped_column(unique=True)


class TaskTag(Base):
    __tablename__ = "task_tag"
    task_id: Mapped[int] = mapped_column(ForeignKey("task.id", ondelete="CASCADE"), primary_key=True)
    tag_id: Mapped[int] = mapped_column(ForeignKey("tag.id"), primary_key=True)


class Comment(Numbered, Base):
    __tablename__ = "comment"
    task_id: Mapped[int] = mapped_column(ForeignKey("task.id", ondelete="CASCADE"))
    author_id: Mapped[int] = mapped_column(ForeignKey("person.id"))
    body: Mapped[str]


def any_of(chance, session, table):
    rows = session.scalars(select(table)).all()
    return chance.choice(rows) if rows else None


def unit(chance, session, site):
    """One unit of work of an application."""
    person, project, task = (any_of(chance, session, t) for t in (Person, Project, Task))
    word, what = chance.choice(WORDS), chance.randrange(100)
    if what < 12:
        session.add(Person(name=word, email=f"{word}@example.org"))
    elif what < 18 and person:
        person.email = f"{word}@example.org"
    elif what < 23 and person:
        session.delete(person)
    elif what < 30 and person:
        person.profile = person.profile or Profile(about="")
        person.profile.about = f"{word} of {site}"
    elif what < 36:
        session.add(Project(title=word, owner_id=person and person.id))
    elif what < 40 and project:
        project.title, project.owner_id = word, person and person.id
    elif what < 43 and project:
        session.delete(project)
    elif what < 60 and project and person:
        places = session.scalars(select(Task.place).where(Task.project_id == project.id)).all()
        session.add(Task(project_id=project.id, author_id=person.id, place=max(places, default=0) + 1,
                         assignee_id=person.id, title=f"{word} of {site}"))
    elif what < 68 and task:
        task.done, task.title = not task.done, f"{word} of {site}"
    elif what < 74 and task:
        task.assignee_id = person and person.id
    elif what < 78 and task:
        session.delete(task)
    elif what < 90 and task:
        tag = session.scalar(select(Tag).where(Tag.label == word))
        if tag is None:
            tag = Tag(label=word)
            session.add(tag)
            session.flush()
        session.merge(TaskTag(task_id=task.id, tag_id=tag.id))
    elif what < 92:
        tag = any_of(chance, session, Tag)
        if tag:
            session.delete(tag)
    elif task and person:
        session.add(Comment(task_id=task.id, author_id=person.id, body=f"{word} of {site}"))


def numbers(session):
    """Under which number each row is."""
    return {row.uid: row.id for table in Numbered.__subclasses__() for row in session.scalars(select(table))}


def play(synqlite, seed, folder, local):
    """Returns what is open, what was and is not, how often an id changed, how often one that two sites had shown,
    and how many ids could have."""
    def run(*args):
        done = subprocess.run([synqlite, *map(str, args)], capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"seed {seed}: synqlite {' '.join(map(str, args))}: {done.stderr}{done.stdout}")
        return done.stdout

    def ask(*args):
        return json.loads(run(*args, "--json"))

    files = {site: Path(folder, f"{site}.db") for site in SITES}
    chance, engines = random.Random(seed), {}
    for site, file in files.items():
        engines[site] = create_engine(f"sqlite:///{file}")
        event.listen(engines[site], "connect", lambda c, _: c.execute("PRAGMA foreign_keys = ON"))
    first = SITES[0]
    Base.metadata.create_all(engines[first])
    policies = [f"{t.__tablename__}.ids=local" for t in Numbered.__subclasses__() if local]
    run("init", files[first], "--name", first, *(word for policy in policies for word in ("--policy", policy)))
    for site in SITES[1:]:
        run("clone", files[first], files[site], "--name", site)
    changed, seen_by_two, shown, seen_by = 0, 0, 0, {}

    def sync(*sites):
        nonlocal changed, seen_by_two, shown
        before = {}
        for site in sites:
            with Session(engines[site]) as session:
                before[site] = numbers(session)
            for uid in before[site]:
                seen_by.setdefault(uid, set()).add(site)
        run("sync", *(files[site] for site in sites))
        for site in sites:
            with Session(engines[site]) as session:
                after = numbers(session)
            kept = before[site].keys() & after.keys()
            others = [uid for uid in kept if after[uid] != before[site][uid]]
            shown, changed = shown + len(kept), changed + len(others)
            seen_by_two += sum(len(seen_by[uid]) > 1 for uid in others)

    for n in range(UNITS):
        for site in chance.sample(SITES, len(SITES)):
            with Session(engines[site]) as session:
                try:
                    unit(chance, session, site)
                    session.commit()
                except IntegrityError:
                    session.rollback()
        if n % 15 == 14:
            sync(*chance.sample(SITES, 2))
    for _ in range(3):
        for a, b in [(0, 1), (1, 2), (2, 0)]:
            sync(SITES[a], SITES[b])
    for engine in engines.values():
        engine.dispose()
    for file in files.values():
        run("verify", "--full", file)
    seen = [(run("digest", file).split()[0], sorted(c["id"] for c in ask("conflicts", file)["conflicts"]))
            for file in files.values()]
    if seen.count(seen[0]) != len(seen):
        sys.exit(f"seed {seed}: sites differ")
    closed = ask("conflicts", files[first], "--closed")["closed"]
    # Records that follow another ask nobody.
    asking = [c for c in ask("conflicts", files[first])["conflicts"] if c["follows"] is None]
    return asking, closed, changed, seen_by_two, shown


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    total, over, all_changed, all_seen, all_shown = Counter(), Counter(), 0, 0, 0
    local = "--local" in sys.argv
    for seed in [int(seed) for seed in sys.argv[2:] if seed != "--local"] or SEEDS:
        with tempfile.TemporaryDirectory(prefix="orm-") as folder:
            conflicts, closed, changed, seen, shown = play(sys.argv[1], seed, folder, local)
        count = Counter((c["kind"], c["table"], c["declared"]) for c in conflicts)
        print(f"seed {seed}: {len(conflicts)} open, {len(closed)} closed, {changed} ids changed", flush=True)
        all_changed, all_seen, all_shown = all_changed + changed, all_seen + seen, all_shown + shown
        total += count
        over += Counter(f"{c['kind']} {c['how']}" for c in closed)
    for (kind, table, declared), n in total.most_common():
        print(f"{n:>5}  {kind}  {table}  {declared}")
    print(f"{sum(total.values()):>5}  open; closed: {dict(over.most_common())}")
    print(f"{all_changed:>5}  ids changed under a program, of {all_shown} that it had before a synchronization")
    print(f"{all_seen:>5}  of these were of rows that two sites had shown")


main()
