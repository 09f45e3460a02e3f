import { installed, orm } from './orm.js';

const module = await installed('drizzle-orm');

orm('drizzle-orm', module, async (path) => {
  const { default: Database } = await import('better-sqlite3');
  const { drizzle } = await import('drizzle-orm/better-sqlite3');
  const { integer, sqliteTable, text } = await import('drizzle-orm/sqlite-core');
  const { asc, eq, sql } = module;
  const todo = sqliteTable('todo', {
    id: integer('id').primaryKey(),
    title: text('title').notNull().unique(),
    done: integer('done').notNull().default(0),
  });

  const handle = new Database(path);
  const db = drizzle(handle);
  db.run(sql`CREATE TABLE IF NOT EXISTS todo(
    id INTEGER PRIMARY KEY, title TEXT NOT NULL UNIQUE, done INTEGER NOT NULL DEFAULT 0)`);
  const add = (title) => db.insert(todo).values({ title }).run();
  return {
    handle,
    query: () => {
      const query = db.select().from(todo).toSQL();
      return [query.sql, query.params];
    },
    add,
    finish: (title) => db.update(todo).set({ done: 1 }).where(eq(todo.title, title)).run(),
    list: () => db.select().from(todo).orderBy(asc(todo.title)).all().map((row) => [row.title, row.done]),
    // Its own transactions are over before anything else runs in this thread.
    transaction: async (work) => {
      db.run(sql`BEGIN`);
      await work(add);
      db.run(sql`COMMIT`);
    },
    close: () => handle.close(),
  };
});
