/** The SQL functions on the program's own connection. */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { pathToFileURL } from 'node:url';
import Database from 'better-sqlite3';
import { load, SynqliteError } from 'synqlite';
import { folder, noExtension, shell } from './help.js';

const skip = noExtension ?? false;

function open(t, path) {
  const db = new Database(path);
  t.after(() => db.close());
  load(db);
  return { db, ask: (sql, ...args) => JSON.parse(db.prepare(sql).pluck().get(...args)) };
}

test('a connection synchronizes by SQL', { skip }, async (t) => {
  const dir = folder(t);
  const store = pathToFileURL(join(dir, 'store/')).href;
  const { db, ask } = open(t, join(dir, 'home.db'));
  db.exec(`CREATE TABLE todo(id INTEGER PRIMARY KEY, title TEXT); INSERT INTO todo(title) VALUES ('milk')`);
  assert.equal(ask('SELECT synqlite_init()').tables[0].name, 'todo');
  assert.equal(ask('SELECT synqlite_sync(?)', store).sent.rows, 1);
  const laptop = join(dir, 'laptop.db');
  ask('SELECT synqlite_clone(?, ?)', store, laptop);
  await shell(laptop, `INSERT INTO todo(title) VALUES ('stamps')`);
  const other = open(t, laptop);
  assert.equal(other.ask('SELECT synqlite_sync()').sent.rows, 1);
  assert.equal(ask('SELECT synqlite_sync(?)', store).received.rows, 1);
  assert.equal(other.ask('SELECT synqlite_digest()').digest, ask('SELECT synqlite_digest()').digest);
});

test('it may be loaded twice', { skip }, (t) => {
  const { db, ask } = open(t, join(folder(t), 'a.db'));
  load(db);
  assert.equal(ask('SELECT synqlite_version()').synqlite, '0.1.0');
});

test('a transaction and a database in memory are refused', { skip }, (t) => {
  const { db, ask } = open(t, join(folder(t), 'a.db'));
  db.exec('CREATE TABLE todo(id INTEGER PRIMARY KEY, title TEXT)');
  ask('SELECT synqlite_init()');
  db.exec('BEGIN');
  assert.throws(() => ask('SELECT synqlite_fold()'), /a transaction is open.*Commit it or roll it back/);
  db.exec('ROLLBACK');
  assert.equal(ask('SELECT synqlite_fold()').rows, 0);
  const memory = open(t, ':memory:');
  assert.throws(() => memory.ask('SELECT synqlite_init()'), /in memory/);
});

test('what cannot load says so', { skip }, (t) => {
  assert.throws(() => load({}), { name: 'SynqliteError', kind: 'usage', hint: /Pass a Database/ });
  assert.throws(() => load(undefined), SynqliteError);
  const db = new Database(join(folder(t), 'a.db'));
  db.close();
  const message = /cannot be loaded: .*not open.*that the database is open/;
  assert.throws(() => load(db), { kind: 'refused', message });
  const strict = { loadExtension() { throw new Error('extension loading is not allowed'); } };
  const hint = 'Open the database with { allowExtension: true }';
  assert.throws(() => load(strict), { kind: 'refused', hint });
});
