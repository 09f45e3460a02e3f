"""A site of the project tracker whose program writes through Django: `site_django.py FILE`."""

import sys

import django
from django.conf import settings
from django.db import IntegrityError, connection, models, transaction
from django.db.models import CASCADE, DO_NOTHING, RESTRICT, SET_NULL, ForeignKey
from site_loop import pick, serve

settings.configure(
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": sys.argv[1]}},
    DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
)
django.setup()


class Numbered(models.Model):
    """A row with a number, and something that is its own for good, by which it is found again here."""

    uid = models.CharField(max_length=32)

    class Meta:
        abstract = True
        app_label = "tracker"


class Person(Numbered):
    name = models.CharField(max_length=100)
    email = models.EmailField(unique=True)

    class Meta(Numbered.Meta):
        db_table = "person"


class Profile(Numbered):
    person = models.OneToOneField(Person, CASCADE)
    about = models.TextField()

    class Meta(Numbered.Meta):
        db_table = "profile"


class Project(Numbered):
    title = models.CharField(max_length=100, unique=True)
    owner = ForeignKey(Person, SET_NULL, null=True)

    class Meta(Numbered.Meta):
        db_table = "project"


class Tag(Numbered):
    label = models.CharField(max_length=100, unique=True)

    class Meta(Numbered.Meta):
        db_table = "tag"


class Task(Numbered):
    project = ForeignKey(Project, CASCADE)
    author = ForeignKey(Person, RESTRICT, related_name="+")
    assignee = ForeignKey(Person, SET_NULL, null=True, related_name="+")
    place = models.IntegerField()
    title = models.CharField(max_length=100)
    done = models.BooleanField(default=False)
    tags = models.ManyToManyField(Tag)

    class Meta(Numbered.Meta):
        db_table = "task"
        unique_together = [("project", "place")]


class Comment(Numbered):
    task = ForeignKey(Task, CASCADE)
    author = ForeignKey(Person, DO_NOTHING)
    body = models.TextField()

    class Meta(Numbered.Meta):
        db_table = "comment"


MODELS = [Person, Profile, Project, Tag, Task, Comment]


def create():
    with connection.schema_editor() as editor:
        for model in MODELS:
            editor.create_model(model)


def work(what, word, text, uid, picks):
    """What a unit of work does; nothing where there is no row to do it to."""
    shares = zip((Person, Project, Task), picks)
    person, project, task = (pick(list(t.objects.order_by("id")), share) for t, share in shares)
    email = f"{word}@example.org"
    if what == "add_person":
        Person.objects.create(uid=uid, name=word, email=email)
    elif what == "set_email" and person:
        person.email = email
        person.save()
    elif what == "delete_person" and person:
        person.delete()
    elif what == "set_profile" and person:
        Profile.objects.update_or_create(
            person=person, defaults={"about": text}, create_defaults={"about": text, "uid": uid})
    elif what == "add_project":
        Project.objects.create(uid=uid, title=word, owner=person)
    elif what == "set_project" and project:
        project.title, project.owner = word, person
        project.save()
    elif what == "delete_project" and project:
        project.delete()
    elif what == "add_task" and project and person:
        place = (project.task_set.aggregate(models.Max("place"))["place__max"] or 0) + 1
        Task.objects.create(uid=uid, project=project, author=person, assignee=person, place=place, title=text)
    elif what == "edit_task" and task:
        task.done, task.title = not task.done, text
        task.save()
    elif what == "assign_task" and task:
        task.assignee = person
        task.save()
    elif what == "delete_task" and task:
        task.delete()
    elif what == "tag_task" and task:
        task.tags.add(Tag.objects.get_or_create(label=word, defaults={"uid": uid})[0])
    elif what == "delete_tag":
        tag = pick(list(Tag.objects.order_by("id")), picks[0])
        if tag:
            tag.delete()
    elif what == "add_comment" and task and person:
        Comment.objects.create(uid=uid, task=task, author=person, body=text)


def unit(what, made):
    try:
        with transaction.atomic():
            work(what, made["word"], f"{made['word']} of {made['site']}", made["uid"], made["picks"])
            return True
    except IntegrityError:
        return False


def numbers():
    return {uid: id for model in MODELS for uid, id in model.objects.values_list("uid", "id")}


serve(create, unit, numbers)
