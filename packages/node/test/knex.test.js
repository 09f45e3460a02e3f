import { installed, orm } from './orm.js';

const module = await installed('knex');

orm('knex', module, async (path) => {
  const { default: Database } = await import('better-sqlite3');
  const db = module.default({ client: 'better-sqlite3', connection: { filename: path }, useNullAsDefault: true });
  if (!(await db.schema.hasTable('todo'))) {
    await db.schema.createTable('todo', (table) => {
      table.increments('id');
      table.text('title').notNullable().unique();
      table.integer('done').notNullable().defaultTo(0);
    });
  }
  // knex keeps its connection to itself; this one is of the same better-sqlite3.
  const handle = new Database(path);
  return {
    handle,
    query: () => {
      const query = db('todo').orderBy('title').toSQL().toNative();
      return [query.sql, query.bindings];
    },
    add: (title) => db('todo').insert({ title }),
    finish: (title) => db('todo').where({ title }).update({ done: 1 }),
    list: async () => (await db('todo').orderBy('title')).map((row) => [row.title, row.done]),
    transaction: (work) => db.transaction((inner) => work((title) => inner('todo').insert({ title }))),
    close: async () => {
      handle.close();
      await db.destroy();
    },
  };
});
