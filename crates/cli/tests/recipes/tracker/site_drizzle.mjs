/** A site of the project tracker whose program writes through Drizzle: `site_drizzle.mjs FILE`. */
import { library, serve } from './site_loop.mjs';

const Database = library('better-sqlite3');
const { and, asc, eq, sql } = library('drizzle-orm');
const { drizzle } = library('drizzle-orm/better-sqlite3');
const { integer, primaryKey, sqliteTable, text, unique } = library('drizzle-orm/sqlite-core');

const numbered = () => ({ id: integer().primaryKey({ autoIncrement: true }), uid: text().notNull() });

const person = sqliteTable('person', { ...numbered(), name: text().notNull(), email: text().notNull().unique() });
const profile = sqliteTable('profile', {
  ...numbered(),
  person_id: integer().notNull().unique().references(() => person.id, { onDelete: 'cascade' }),
  about: text().notNull(),
});
const project = sqliteTable('project', {
  ...numbered(),
  title: text().notNull().unique(),
  owner_id: integer().references(() => person.id, { onDelete: 'set null' }),
});
const task = sqliteTable('task', {
  ...numbered(),
  project_id: integer().notNull().references(() => project.id, { onDelete: 'cascade' }),
  author_id: integer().notNull().references(() => person.id, { onDelete: 'restrict' }),
  assignee_id: integer().references(() => person.id, { onDelete: 'set null' }),
  place: integer().notNull(),
  title: text().notNull(),
  done: integer({ mode: 'boolean' }).notNull().default(false),
}, (t) => [unique().on(t.project_id, t.place)]);
const tag = sqliteTable('tag', { ...numbered(), label: text().notNull().unique() });
const task_tag = sqliteTable('task_tag', {
  task_id: integer().notNull().references(() => task.id, { onDelete: 'cascade' }),
  tag_id: integer().notNull().references(() => tag.id),
}, (t) => [primaryKey({ columns: [t.task_id, t.tag_id] })]);
const comment = sqliteTable('comment', {
  ...numbered(),
  task_id: integer().notNull().references(() => task.id, { onDelete: 'cascade' }),
  author_id: integer().notNull().references(() => person.id),
  body: text().notNull(),
});
const tables = { person, profile, project, task, tag, task_tag, comment };

const sqlite = new Database(process.argv[2]);
const db = drizzle(sqlite);

async function create() {
  const { generateSQLiteDrizzleJson, generateSQLiteMigration } = library('drizzle-kit/api');
  const [before, after] = [await generateSQLiteDrizzleJson({}), await generateSQLiteDrizzleJson(tables)];
  for (const statement of await generateSQLiteMigration(before, after)) sqlite.exec(statement);
}

const rows = {
  find(name, values) {
    const table = tables[name];
    const where = Object.entries(values).map(([column, value]) => eq(table[column], value));
    return db.select().from(table).where(and(...where)).orderBy(asc(table.id ?? table.task_id)).all();
  },
  insert: (name, row) => db.insert(tables[name]).values(row).run().lastInsertRowid,
  update: (name, id, values) => db.update(tables[name]).set(values).where(eq(tables[name].id, id)).run(),
  remove: (name, id) => db.delete(tables[name]).where(eq(tables[name].id, id)).run(),
};

/** By statements of its own, as its transactions take no function that waits. */
async function unit(body) {
  db.run(sql`BEGIN IMMEDIATE`);
  try {
    const answer = await body(rows);
    db.run(sql`COMMIT`);
    return answer;
  } catch (error) {
    if (sqlite.inTransaction) db.run(sql`ROLLBACK`);
    throw error;
  }
}

await serve({ create, unit });
sqlite.close();
