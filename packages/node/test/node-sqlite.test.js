import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { load } from 'synqlite';
import { folder, noExtension, shell } from './help.js';
import { suite } from './suite.js';

const { DatabaseSync } = await import('node:sqlite').catch(() => ({}));

if (DatabaseSync?.prototype.loadExtension) {
  suite('node:sqlite', (path) => {
    const db = new DatabaseSync(path, { timeout: 5000 });
    const handle = db;
    return { handle, exec: (sql) => db.exec(sql), all: (sql) => db.prepare(sql).all(), close: () => db.close() };
  });

  test('node:sqlite: its connection has the functions of SQL', { skip: noExtension ?? false }, async (t) => {
    const path = join(folder(t), 'a.db');
    await shell(path, `CREATE TABLE todo(id INTEGER PRIMARY KEY, title TEXT); INSERT INTO todo(title) VALUES ('milk')`);
    const closed = new DatabaseSync(path);
    t.after(() => closed.close());
    const hint = 'Open the database with { allowExtension: true }';
    assert.throws(() => load(closed), { name: 'SynqliteError', kind: 'refused', hint });
    const db = new DatabaseSync(path, { allowExtension: true, timeout: 5000 });
    t.after(() => db.close());
    load(db);
    const ask = (sql) => JSON.parse(Object.values(db.prepare(sql).get())[0]);
    assert.equal(ask('SELECT synqlite_init()').tables[0].name, 'todo');
    db.exec(`INSERT INTO todo(title) VALUES ('rent')`);
    assert.equal(ask('SELECT synqlite_fold()').rows, 1);
    db.exec('BEGIN');
    assert.throws(() => ask('SELECT synqlite_fold()'), /a transaction is open/);
  });
} else {
  test('node:sqlite', { skip: `Node ${process.version} has no node:sqlite that loads extensions` }, () => {});
}
