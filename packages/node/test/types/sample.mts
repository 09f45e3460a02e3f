import Database from 'better-sqlite3';
import * as synqlite from 'synqlite';
import { clone, conflicts, load, SynqliteError, sync, watch, type Synced, type WatchState } from 'synqlite';

load(new Database('a.db'));
const done: Synced = await sync('a.db', new URL('file:///store/'), { token: async () => 'x', whole: true });
const rows: number = done.sent.rows + done.merged.inserted + (done.tables.todo?.updated ?? 0);
await clone('https://hub.example.org/notes', 'b.db', { token: 'x', keyFile: 'a.key', library: 'command' });
const { conflicts: open } = await conflicts('a.db');
const title = open[0]?.displaced?.title;
const how: string | undefined = (await conflicts('a.db', { closed: true })).closed[0]?.how;
if (open[0]) await synqlite.settle('a.db', open[0].id, 'prefer', { wait: 5 });
await synqlite.init('a.db', { policies: { 'stock.n': 'counter' }, history: true });

const watching = watch('a.db', null, { interval: 1000, token: () => undefined });
watching.on('sync', (result) => console.log(result.received.bytes));
watching.on('state', (state: WatchState) => console.log(state.lastSync?.toISOString(), state.error?.hint));
watching.on('failure', (error) => { if (error.kind === 'network') console.log(error.message); });
for await (const result of watching) console.log(result.conflicts, rows, title, how);
await watching.stop();

const lively = synqlite.live<{ id: number }>(new Database('a.db'), 'SELECT id FROM t WHERE id > ?', (found) => {
  const ids: number[] = found.changed.map(([, now]) => now.id);
  console.log(ids, found.added[0]?.id);
}, { params: [1], key: 'id' });
lively.on('failure', (error) => console.log(error.message, lively.rows[0]?.id));
await lively.stop();
const { token } = await synqlite.changes('a.db', { limit: 10 });
const change: 'insert' | 'update' | 'delete' | undefined = (await synqlite.changes('a.db', { since: token })).changes[0]?.change;
console.log(change);
const by: string | null | undefined = (await synqlite.changes('a.db', { since: null })).changes[0]?.written?.site_name;
const called: string | null | undefined = done.decisions[0]?.name;
const either = await conflicts('a.db', { closed: Boolean(by ?? called) });
console.log('closed' in either ? either.closed[0]?.how : either.conflicts[0]?.kind);
await synqlite.init('a.db', null);
watching.on('change', () => console.log('refresh'));

const undone = await synqlite.undo('a.db', { table: 't', row: 7, since: new Date(0), dryRun: true });
console.log(undone.taken[0]?.columns?.title, undone.left[0]?.written?.site_name);

try {
  await synqlite.verify('a.db', { full: true });
} catch (error) {
  if (error instanceof SynqliteError) console.log(error.kind, error.hint);
}

// @ts-expect-error an option that is not there
await sync('a.db', null, { tokn: 'x' });
// @ts-expect-error nothing is selected
await synqlite.undo('a.db');
// @ts-expect-error no such verb
await synqlite.settle('a.db', 'id', 'explode');
// @ts-expect-error nothing that loads extensions
load({});
// @ts-expect-error nobody listens to an event of this name
watching.on('synced', () => {});
// @ts-expect-error the state is told, not set
watching.state = null;
