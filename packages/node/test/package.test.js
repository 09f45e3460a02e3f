/** What is published works where it is installed: both packages, packed, in a folder of their own. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { cpSync, mkdirSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { platform } from '../lib/platform.js';
import { folder, shell, skip } from './help.js';

const home = fileURLToPath(new URL('..', import.meta.url));
const { SYNQLITE_EXTENSION, SYNQLITE_COMMAND, ...bare } = process.env;

const run = (cwd, program, argv, env = bare) => {
  try {
    return execFileSync(program, argv, { cwd, env, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] });
  } catch (error) {
    throw new Error(`${program} ${argv.join(' ')}: ${error.message}\n${error.stdout}`);
  }
};

/** The example of the README, and what it says that it prints. */
function example() {
  const text = readFileSync(join(home, 'README.md'), 'utf8');
  const [, code] = /```js\n(import Database[^]*?)```/.exec(text);
  const [, printed] = /It prints\n\n```text\n([^]*?)```/.exec(text);
  return { code, printed };
}

test('packed, installed and run', { skip }, async (t) => {
  const dir = folder(t);
  const [made, app] = [join(dir, 'made'), join(dir, 'app')];
  mkdirSync(app);
  run(home, process.execPath, ['scripts/platform.js', made], process.env);
  const pack = (from) => JSON.parse(run(from, 'npm', ['pack', '--json', '--pack-destination', dir]))[0];
  const [main, binaries] = [pack(home), pack(made)];
  const names = main.files.map(({ path }) => path).sort();
  const lib = readdirSync(join(home, 'lib')).map((name) => `lib/${name}`);
  assert.deepEqual(names, ['LICENSE', 'README.md', 'index.d.ts', 'index.js', 'package.json', ...lib].sort());
  assert.equal(binaries.name, `synqlite-${platform}`);

  writeFileSync(join(app, 'package.json'), '{ "name": "app", "private": true }');
  const tarballs = [main, binaries].map(({ filename }) => join(dir, filename));
  run(app, 'npm', ['install', '--offline', '--no-audit', '--no-fund', ...tarballs]);

  await t.test('without a SQLite of the program, by the command', async () => {
    await shell(join(app, 'a.db'), 'CREATE TABLE todo(id INTEGER PRIMARY KEY, title TEXT)');
    writeFileSync(join(app, 'a.cjs'), `const { init, status } = require('synqlite');
      init('a.db').then(() => status('a.db')).then((found) => console.log(found.unfolded));`);
    assert.equal(run(app, process.execPath, ['a.cjs']).trim(), '0');
  });

  // Building better-sqlite3 anew takes minutes: what the tests use is put beside.
  const require = createRequire(import.meta.url);
  for (const name of ['better-sqlite3', 'bindings', 'file-uri-to-path']) {
    const from = dirname(require.resolve(`${name}/package.json`));
    cpSync(from, join(app, 'node_modules', name), { recursive: true });
  }

  await t.test('the example of the README', () => {
    const { code, printed } = example();
    writeFileSync(join(app, 'example.mjs'), code);
    assert.equal(run(app, process.execPath, ['example.mjs']), printed);
  });

  await t.test('the extension comes from the package', () => {
    writeFileSync(join(app, 'load.cjs'), `const Database = require('better-sqlite3');
      const { extensionPath, load } = require('synqlite');
      const db = new Database(':memory:');
      load(db);
      console.log(extensionPath(), db.prepare('SELECT synqlite_version()').pluck().get());`);
    const [path, version] = run(app, process.execPath, ['load.cjs']).trim().split(' ');
    assert.ok(path.startsWith(join(app, 'node_modules', `synqlite-${platform}`)), path);
    assert.equal(JSON.parse(version).synqlite, main.version);
  });
});
