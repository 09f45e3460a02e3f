import Database from 'better-sqlite3';
import { suite } from './suite.js';

suite('better-sqlite3', (path) => {
  const db = new Database(path);
  const handle = db;
  return { handle, exec: (sql) => db.exec(sql), all: (sql) => db.prepare(sql).all(), close: () => db.close() };
});
