/** The types are those that programs need: TypeScript checks samples, and that it refuses what is wrong. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import * as synqlite from 'synqlite';

const home = fileURLToPath(new URL('.', import.meta.url));
const tsc = join(createRequire(import.meta.url).resolve('typescript/package.json'), '../bin/tsc');

test('tsc --strict takes the samples', () => {
  const flags = ['--strict', '--noEmit', '--module', 'nodenext', '--types', 'node'];
  const argv = [...flags, 'types/sample.mts', 'types/sample.cts'];
  const { status, stdout } = spawnSync(process.execPath, [tsc, ...argv], { cwd: home, encoding: 'utf8' });
  assert.equal(status, 0, stdout);
});

test('every name that the types have is there, and no other', () => {
  const names = Object.keys(synqlite).sort();
  const types = readFileSync(join(home, '../index.d.ts'), 'utf8');
  const declared = [...types.matchAll(/^export (?:function|class) (\w+)/gm)].map((found) => found[1]);
  assert.deepEqual([...new Set(declared)].sort(), names);
});
