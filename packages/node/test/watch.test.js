/** A listener's error is the program's own: it does not end the rounds. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { folder, shell, skip } from './help.js';

test('a listener that throws does not stop a watch', { skip }, async (t) => {
  const dir = folder(t);
  const db = join(dir, 'a.db');
  await shell(db, 'CREATE TABLE todo(id INTEGER PRIMARY KEY, title TEXT)');
  const program = `
    import { init, watch } from 'synqlite';
    let thrown = 0;
    process.on('uncaughtException', (error) => {
      if (error.message !== 'mine') throw error;
      thrown += 1;
    });
    await init('${db}');
    const watching = watch('${db}', '${pathToFileURL(join(dir, 'store/'))}', { interval: 50, poll: 20 });
    watching.on('sync', () => { throw new Error('mine'); });
    watching.on('sync', () => { throw new Error('never reached'); });
    setTimeout(async () => { await watching.stop(); console.log(thrown); }, 1500);`;
  const argv = ['--input-type=module', '--eval', program];
  const out = execFileSync(process.execPath, argv, { cwd: new URL('..', import.meta.url), encoding: 'utf8' });
  assert.ok(Number(out) > 2, out);
});
