/** A site of the project tracker whose program writes through Knex: `site_knex.mjs FILE`. */
import { library, serve } from './site_loop.mjs';

const knex = library('knex')({
  client: 'better-sqlite3',
  connection: { filename: process.argv[2] },
  useNullAsDefault: true,
});

function numbered(t) {
  t.increments('id');
  t.string('uid').notNullable();
}

const refer = (t, column, table) => t.integer(column).unsigned().references('id').inTable(table);

async function create() {
  await knex.schema.createTable('person', (t) => {
    numbered(t);
    t.string('name').notNullable();
    t.string('email').notNullable().unique();
  });
  await knex.schema.createTable('profile', (t) => {
    numbered(t);
    refer(t, 'person_id', 'person').notNullable().unique().onDelete('CASCADE');
    t.text('about').notNullable();
  });
  await knex.schema.createTable('project', (t) => {
    numbered(t);
    t.string('title').notNullable().unique();
    refer(t, 'owner_id', 'person').onDelete('SET NULL');
  });
  await knex.schema.createTable('task', (t) => {
    numbered(t);
    refer(t, 'project_id', 'project').notNullable().onDelete('CASCADE');
    refer(t, 'author_id', 'person').notNullable().onDelete('RESTRICT');
    refer(t, 'assignee_id', 'person').onDelete('SET NULL');
    t.integer('place').notNullable();
    t.string('title').notNullable();
    t.boolean('done').notNullable().defaultTo(false);
    t.unique(['project_id', 'place']);
  });
  await knex.schema.createTable('tag', (t) => {
    numbered(t);
    t.string('label').notNullable().unique();
  });
  await knex.schema.createTable('task_tag', (t) => {
    refer(t, 'task_id', 'task').onDelete('CASCADE');
    refer(t, 'tag_id', 'tag');
    t.primary(['task_id', 'tag_id']);
  });
  await knex.schema.createTable('comment', (t) => {
    numbered(t);
    refer(t, 'task_id', 'task').notNullable().onDelete('CASCADE');
    refer(t, 'author_id', 'person').notNullable();
    t.text('body').notNullable();
  });
}

const unit = (body) => knex.transaction((trx) => body({
  find: (table, values) => trx(table).where(values).orderBy(table === 'task_tag' ? 'task_id' : 'id'),
  insert: async (table, row) => (await trx(table).insert(row))[0],
  update: (table, id, values) => trx(table).where({ id }).update(values),
  remove: (table, id) => trx(table).where({ id }).del(),
}));

await serve({ create, unit });
await knex.destroy();
