/**
 * Makes the package of this machine's platform in platforms/: the extension and the command, from the files
 * that SYNQLITE_EXTENSION and SYNQLITE_COMMAND name. Its version is that of the main package, and the command
 * must say the same: the main package asks for exactly that.
 */
import { execFileSync } from 'node:child_process';
import { chmodSync, copyFileSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { files, find, platform } from '../lib/platform.js';

const home = fileURLToPath(new URL('..', import.meta.url));
const main = JSON.parse(readFileSync(`${home}package.json`, 'utf8'));
const into = process.argv[2] ?? `${home}platforms/${platform}`;

const sources = Object.entries(files).map(([what, name]) => {
  const path = process.env[`SYNQLITE_${what.toUpperCase()}`] ? find(what) : null;
  if (!path) throw new Error(`the ${what} is not named. Set SYNQLITE_${what.toUpperCase()} to its path`);
  return { path, name };
});

const said = execFileSync(find('command'), ['--version'], { encoding: 'utf8' }).trim();
if (said !== `synqlite ${main.version}`) {
  throw new Error(`the command is ${said}, the package ${main.version}. Build the one for the other`);
}

rmSync(into, { recursive: true, force: true });
mkdirSync(into, { recursive: true });
for (const { path, name } of sources) {
  copyFileSync(path, `${into}/${name}`);
  chmodSync(`${into}/${name}`, 0o755);
}
copyFileSync(`${home}LICENSE`, `${into}/LICENSE`);
// The licenses of what is compiled into both; whoever hands the package out names them.
const licenses = process.env.SYNQLITE_LICENSES;
if (licenses) copyFileSync(licenses, `${into}/LICENSES.txt`);
const what = `The binaries of the package synqlite for ${platform}`;
writeFileSync(`${into}/README.md`, `# synqlite-${platform}\n\n${what}. Install that.\n`);
const description = {
  name: `synqlite-${platform}`,
  version: main.version,
  description: what,
  license: main.license,
  repository: main.repository,
  os: [process.platform],
  cpu: [process.arch],
  ...(process.platform === 'linux' && { libc: ['glibc'] }),
  files: [...Object.values(files), ...(licenses ? ['LICENSES.txt'] : [])],
  // A file inside of an archive can neither be loaded nor run.
  preferUnplugged: true,
};
writeFileSync(`${into}/package.json`, `${JSON.stringify(description, null, 2)}\n`);
console.log(into);
