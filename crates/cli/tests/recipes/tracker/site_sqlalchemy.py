"""A site of the project tracker whose program writes through SQLAlchemy: `site_sqlalchemy.py FILE`."""

import sys

from site_loop import pick, serve
from sqlalchemy import ForeignKey, UniqueConstraint, create_engine, event, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, relationship


class Base(DeclarativeBase):
    pass


class Numbered:
    """A row with a number, and something that is its own for good, by which it is found again here."""

    id: Mapped[int] = mapped_column(primary_key=True)
    uid: Mapped[str]


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


engine = create_engine(f"sqlite:///{sys.argv[1]}")
event.listen(engine, "connect", lambda connection, _: connection.execute("PRAGMA foreign_keys = ON"))


def work(session, what, word, text, uid, picks):
    """What a unit of work does; nothing where there is no row to do it to."""
    shares = zip((Person, Project, Task), picks)
    person, project, task = (pick(session.scalars(select(t).order_by(t.id)).all(), share) for t, share in shares)
    email = f"{word}@example.org"
    if what == "add_person":
        session.add(Person(uid=uid, name=word, email=email))
    elif what == "set_email" and person:
        person.email = email
    elif what == "delete_person" and person:
        session.delete(person)
    elif what == "set_profile" and person:
        person.profile = person.profile or Profile(uid=uid)
        person.profile.about = text
    elif what == "add_project":
        session.add(Project(uid=uid, title=word, owner_id=person and person.id))
    elif what == "set_project" and project:
        project.title, project.owner_id = word, person and person.id
    elif what == "delete_project" and project:
        session.delete(project)
    elif what == "add_task" and project and person:
        places = session.scalars(select(Task.place).where(Task.project_id == project.id)).all()
        session.add(Task(uid=uid, project_id=project.id, author_id=person.id, assignee_id=person.id,
                         place=max(places, default=0) + 1, title=text))
    elif what == "edit_task" and task:
        task.done, task.title = not task.done, text
    elif what == "assign_task" and task:
        task.assignee_id = person and person.id
    elif what == "delete_task" and task:
        session.delete(task)
    elif what == "tag_task" and task:
        tag = session.scalar(select(Tag).where(Tag.label == word))
        if tag is None:
            tag = Tag(uid=uid, label=word)
            session.add(tag)
            session.flush()
        session.merge(TaskTag(task_id=task.id, tag_id=tag.id))
    elif what == "delete_tag":
        tag = pick(session.scalars(select(Tag).order_by(Tag.id)).all(), picks[0])
        if tag:
            session.delete(tag)
    elif what == "add_comment" and task and person:
        session.add(Comment(uid=uid, task_id=task.id, author_id=person.id, body=text))


def unit(what, made):
    with Session(engine) as session:
        try:
            work(session, what, made["word"], f"{made['word']} of {made['site']}", made["uid"], made["picks"])
            session.commit()
            return True
        except IntegrityError:
            session.rollback()
            return False


def numbers():
    with Session(engine) as session:
        return {row.uid: row.id for table in Numbered.__subclasses__() for row in session.scalars(select(table))}


serve(lambda: Base.metadata.create_all(engine), unit, numbers)
