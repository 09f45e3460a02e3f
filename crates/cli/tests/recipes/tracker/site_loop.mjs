/** The program of a site in JavaScript: takes what `count.py` asks, works by a library's own calls, and answers. */
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { createInterface } from 'node:readline';

/** A library of the folder that the program runs in. */
export const library = createRequire(join(process.cwd(), 'program.js'));

export const NUMBERED = ['person', 'profile', 'project', 'task', 'tag', 'comment'];

const pick = (rows, share) => rows[Math.floor(share * rows.length)];

/**
 * What a unit of work does; nothing where there is no row to do it to. `db`, asynchronously or not:
 * `find(table, values)` gives rows by their ids, `insert(table, row)` the id, `update(table, id, values)` and
 * `remove(table, id)` nothing.
 */
async function work(db, what, { word, site, uid, picks }) {
  const some = async (table, share) => pick(await db.find(table, {}), share);
  const [person, project, task] = [
    await some('person', picks[0]), await some('project', picks[1]), await some('task', picks[2]),
  ];
  const [email, text] = [`${word}@example.org`, `${word} of ${site}`];
  if (what === 'add_person') {
    await db.insert('person', { uid, name: word, email });
  } else if (what === 'set_email' && person) {
    await db.update('person', person.id, { email });
  } else if (what === 'delete_person' && person) {
    await db.remove('person', person.id);
  } else if (what === 'set_profile' && person) {
    const [profile] = await db.find('profile', { person_id: person.id });
    if (profile) await db.update('profile', profile.id, { about: text });
    else await db.insert('profile', { uid, person_id: person.id, about: text });
  } else if (what === 'add_project') {
    await db.insert('project', { uid, title: word, owner_id: person?.id ?? null });
  } else if (what === 'set_project' && project) {
    await db.update('project', project.id, { title: word, owner_id: person?.id ?? null });
  } else if (what === 'delete_project' && project) {
    await db.remove('project', project.id);
  } else if (what === 'add_task' && project && person) {
    const places = (await db.find('task', { project_id: project.id })).map((row) => row.place);
    await db.insert('task', {
      uid, project_id: project.id, author_id: person.id, assignee_id: person.id, place: Math.max(0, ...places) + 1,
      title: text,
    });
  } else if (what === 'edit_task' && task) {
    await db.update('task', task.id, { done: !task.done, title: text });
  } else if (what === 'assign_task' && task) {
    await db.update('task', task.id, { assignee_id: person?.id ?? null });
  } else if (what === 'delete_task' && task) {
    await db.remove('task', task.id);
  } else if (what === 'tag_task' && task) {
    const [known] = await db.find('tag', { label: word });
    const link = { task_id: task.id, tag_id: known?.id ?? (await db.insert('tag', { uid, label: word })) };
    if ((await db.find('task_tag', link)).length === 0) await db.insert('task_tag', link);
  } else if (what === 'delete_tag') {
    const tag = await some('tag', picks[0]);
    if (tag) await db.remove('tag', tag.id);
  } else if (what === 'add_comment' && task && person) {
    await db.insert('comment', { uid, task_id: task.id, author_id: person.id, body: text });
  }
}

/** SQLite's word for what went wrong, which a library may have wrapped. */
const code = (error) => error?.code ?? (error?.cause && code(error.cause));

/** `create()` makes the tables; `unit(body)` runs body(db) in a transaction, which an error rolls back. */
export async function serve({ create, unit }) {
  const answers = {
    create,
    numbers: () => unit(async (db) => {
      const rows = [];
      for (const table of NUMBERED) rows.push(...(await db.find(table, {})));
      return Object.fromEntries(rows.map((row) => [row.uid, row.id]));
    }),
  };
  for await (const line of createInterface({ input: process.stdin })) {
    const [what, made] = JSON.parse(line);
    let answer;
    try {
      answer = await (answers[what] ?? (() => unit((db) => work(db, what, made))))();
    } catch (error) {
      if (!String(code(error)).startsWith('SQLITE_CONSTRAINT')) throw error;
    }
    console.log(JSON.stringify(answer ?? null));
  }
}
