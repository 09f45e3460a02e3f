import { installed, orm } from './orm.js';

const module = await installed('kysely');

orm('kysely', module, async (path) => {
  const { default: Database } = await import('better-sqlite3');
  const { Kysely, SqliteDialect } = module;
  const handle = new Database(path);
  const db = new Kysely({ dialect: new SqliteDialect({ database: handle }) });
  await db.schema.createTable('todo').ifNotExists()
    .addColumn('id', 'integer', (column) => column.primaryKey())
    .addColumn('title', 'text', (column) => column.notNull().unique())
    .addColumn('done', 'integer', (column) => column.notNull().defaultTo(0))
    .execute();
  const add = (title, by = db) => by.insertInto('todo').values({ title }).execute();
  return {
    handle,
    query: () => {
      const query = db.selectFrom('todo').selectAll().compile();
      return [query.sql, [...query.parameters]];
    },
    add,
    finish: (title) => db.updateTable('todo').set({ done: 1 }).where('title', '=', title).execute(),
    list: async () =>
      (await db.selectFrom('todo').selectAll().orderBy('title').execute()).map((row) => [row.title, row.done]),
    transaction: (work) => db.transaction().execute((inner) => work((title) => add(title, inner))),
    close: () => db.destroy(),
  };
});
