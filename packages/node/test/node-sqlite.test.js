import { test } from 'node:test';
import { suite } from './suite.js';

const { DatabaseSync } = await import('node:sqlite').catch(() => ({}));

if (DatabaseSync?.prototype.loadExtension) {
  suite('node:sqlite', (path) => {
    const db = new DatabaseSync(path, { timeout: 5000 });
    const handle = db;
    return { handle, exec: (sql) => db.exec(sql), all: (sql) => db.prepare(sql).all(), close: () => db.close() };
  });
} else {
  test('node:sqlite', { skip: `Node ${process.version} has no node:sqlite that loads extensions` }, () => {});
}
