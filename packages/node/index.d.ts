import { EventEmitter } from 'node:events';

/** A database file: a path, or a URL `file:///…`. */
export type Path = string | URL;

/** The name of a remote, the path of another replica, or the URL of a folder, hub or bucket. */
export type RemoteName = string | URL;

/** A token of a hub; a function is called anew for each attempt. `clone` and `addRemote` keep it. */
export type Token = string | (() => string | undefined | Promise<string | undefined>);

export interface Options {
  /**
   * Which SQLite does the work. Without it, the one that the program has loaded; if that is none, or several,
   * the command, as a process of its own. Name one only if no other SQLite of this process opens the file.
   */
  library?: 'better-sqlite3' | 'node:sqlite' | 'command';
  /** Seconds to wait, at most, while another program keeps the file locked; 60 if absent. */
  wait?: number;
}

export interface RemoteOptions extends Options {
  token?: Token;
  /** Seals all that goes to the remote with the key in this file. */
  keyFile?: string;
}

export interface SyncOptions extends RemoteOptions {
  /** Merges all that comes in one transaction. */
  whole?: boolean;
  /** Merges changes that are stamped more than five minutes ahead of this machine's clock. */
  force?: boolean;
}

export interface InitOptions extends Options {
  /** Policies by which rows merge, such as `{ 'stock.count': 'counter' }`. */
  policies?: Record<string, string>;
  /** Keeps every change for `log`, not only the latest of each cell. */
  history?: boolean;
  /** What people read where it says who wrote what; the machine's if absent. */
  name?: string;
}

export interface CloneOptions extends RemoteOptions {
  /** As in `InitOptions`. */
  name?: string;
}

/** A value of a column as JSON: blobs are `x'…'`; of an integer past 2^53 the last digits are not exact. */
export type Value = string | number | null;

export interface Skipped {
  name: string;
  why: string;
}

export interface Initialized {
  site: string;
  tables: { name: string; identity: string; rows: number }[];
  skipped: Skipped[];
  notes: string[];
}

export interface Cloned {
  site: string;
  rows: number;
  bytes: number;
  seconds: number;
  origin: string;
  /** What came for columns, or where none is named for tables, that the clone has not: its schema is older. */
  kept: { table: string; column: string | null; rows: number }[];
}

export interface Traffic {
  rows: number;
  columns: number;
  bytes: number;
}

export interface SetAside {
  name: string;
  site: string | null;
  table: string | null;
  why: string;
  hint: string | null;
}

/** How many rows show something else since a merge. */
export interface Merged {
  inserted: number;
  updated: number;
  deleted: number;
}

export interface Synced {
  sent: Traffic;
  received: Traffic;
  merged: Merged;
  /** Values that came for tables and columns which are not here. */
  kept: number;
  /** The same for each table in which there were any. */
  tables: Record<string, Merged>;
  /** How many conflicts are open. */
  conflicts: number;
  seconds: number;
  /** What was decided against rows; `name` is what people know a row by, beside its key. */
  decisions: { table: string; row: string; name: string | null; what: string }[];
  /** Batches that build on one that is missing. */
  waiting: string[];
  /** Batches that cannot be merged here. */
  set_aside: SetAside[];
  /** Tables that are not replicated any more, if there are any. */
  paused?: Skipped[];
}

export interface Folded {
  rows: number;
  columns: number;
  seconds: number;
  /** Tables that are not replicated any more, if there are any. */
  paused?: Skipped[];
}

export interface Status {
  site: string;
  site_name: string | null;
  database: string;
  /** Changes that are not folded yet, by table. */
  pending: Record<string, { inserted: number; updated: number; deleted: number }>;
  unfolded: number;
  /** Tables that may have been written unnoticed: the next sync compares all of their rows. */
  uncaptured: string[];
  arriving: number;
  skipped: Skipped[];
  /** Those of them that were replicated until they were altered. */
  paused: Skipped[];
  /** What others wrote for columns, or where none is named for tables, that this database does not have. */
  kept: { table: string; column: string | null; rows: number }[];
  remotes: { name: string; url: string; pushed: string | null; pulled: string | null; unpushed: number }[];
  set_aside: (SetAside & { remote: string })[];
  conflicts: number;
  /** How many of the closed conflicts were decided without a question. */
  decided: number;
  /** How many open conflicts wait for no answer to another. */
  questions: number;
}

export interface Digest {
  digest: string;
  tables: Record<string, string>;
}

export interface Verified {
  ok: boolean;
  problems: string[];
}

export interface Written {
  site: string;
  site_name: string | null;
  at_ms: number;
}

export interface Conflict {
  id: string;
  table: string;
  row: string;
  kind: string;
  constraint: string;
  declared: string;
  shown: Record<string, Value> | null;
  displaced: Record<string, Value> | null;
  winner: string | null;
  sites: Written[];
  contested: string[];
  written: Record<string, Written>;
  rival: { shown: Record<string, Value> | null; written: Record<string, Written> } | null;
  /** What people know the row by, beside its key, and the winner. */
  name: string | null;
  winner_name: string | null;
  /** Who preferred another row to this one since it asked for that: its claim counts from then. */
  put_behind: Written | null;
  /** The deleted row that it is about: the one that the row refers to, or the row itself, which is kept. `again`: who inserted it since, if it is there and the record is about a reference to its former life. */
  deleted: { table: string; row: string; name: string | null; values: Record<string, Value> | null; by: Written | null; again: Written | null } | null;
  /** For how many rows a deleted one is kept, and the first of them. */
  needed: number;
  needed_by: { table: string; row: string; name: string | null }[];
  /** The id of the conflict whose answer it waits for. */
  follows: string | null;
  /** Records that wait for the answer to this one. */
  followers: { id: string; table: string; row: string; name: string | null; kind: string }[];
}

export interface ClosedConflict {
  id: string | null;
  table: string;
  row: string;
  kind: string;
  constraint: string;
  what: string;
  opened_ms: number;
  closed_ms: number;
  how: string;
  /** What became of the row, for people to read, where that was seen. */
  became: string | null;
  name: string | null;
  /** Of a row that got another number (`renumbered`): the one it asked for, the one it got, and the site it is of. */
  from?: number;
  to?: number;
  of?: { site: string; site_name: string | null } | null;
}

export interface LogEntry {
  at: string;
  at_ms: number;
  site: string;
  site_name: string | null;
  table: string;
  row: string;
  /** What people know the row by, beside its key. */
  name: string | null;
  kind: string;
  columns: Record<string, Value>;
}

export interface Remotes {
  remotes: { name: string; url: string; token?: 'kept'; key_file?: string }[];
}

/** What a failure is: the kinds of the command. */
export type Kind = 'refused' | 'usage' | 'locked' | 'network' | 'conflict' | 'damaged' | 'defect';

export class SynqliteError extends Error {
  private constructor();
  readonly name: 'SynqliteError';
  readonly kind: Kind;
  /** What to do about it; `message` ends with it. */
  readonly hint: string | null;
}

/** A connection that loads extensions: a Database of better-sqlite3, a DatabaseSync of node:sqlite. */
export interface Loads {
  loadExtension(path: string): unknown;
}

/** Loads the SQL functions `synqlite_…` into a connection. */
export function load(db: Loads): void;

/** Path of the loadable extension for this platform. */
export function extensionPath(): string;
/** Path of the command for this platform. */
export function commandPath(): string;

/** Makes a database a replica; run again, it takes in new tables. */
export function init(path: Path, options?: InitOptions | null): Promise<Initialized>;
/**
 * Makes a new replica, at `path`, of what the remote holds, and remembers the remote as `origin`. A token is
 * kept in the file, which becomes its owner's alone.
 */
export function clone(remote: RemoteName, path: Path, options?: CloneOptions | null): Promise<Cloned>;
/** Pulls, then pushes; `origin` if no remote is named. */
export function sync(path: Path, remote?: RemoteName | null, options?: SyncOptions | null): Promise<Synced>;
/** Sends local changes. */
export function push(path: Path, remote?: RemoteName | null, options?: SyncOptions | null): Promise<Synced>;
/** Fetches what is new, and merges it. */
export function pull(path: Path, remote?: RemoteName | null, options?: SyncOptions | null): Promise<Synced>;
/** Folds the journal. Every exchange does so itself. */
export function fold(path: Path, options?: Options | null): Promise<Folded>;
/** What is not folded yet, what was not pushed yet, and the last exchange with each remote. */
export function status(path: Path, options?: Options | null): Promise<Status>;
/** Equal on two replicas if and only if they show the same data. */
export function digest(path: Path, options?: Options | null): Promise<Digest>;
/** Checks metadata, tables and constraints; `full` also works out anew what every row shows. */
export function verify(path: Path, options?: Options & { full?: boolean } | null): Promise<Verified>;
/** What merges displaced and is open; with `closed`, what is over. */
export function conflicts(
  path: Path,
  options: Options & { closed: true },
): Promise<{ closed: ClosedConflict[] }>;
export function conflicts(
  path: Path,
  options?: Options & { closed?: false } | null,
): Promise<{ conflicts: Conflict[] }>;
export function conflicts(
  path: Path,
  options?: Options & { closed?: boolean } | null,
): Promise<{ closed: ClosedConflict[] } | { conflicts: Conflict[] }>;
/** Settles a conflict, by its id or the first digits of it. */
export function settle(
  path: Path,
  id: string,
  verb: 'prefer' | 'discard' | 'restore' | 'accept',
  options?: Options | null,
): Promise<{ settled: string; /** Conflicts that wait for nobody else's answer. */ open: number }>;
/** The history of changes, newest first; 100 if no limit is given. */
export function log(path: Path, options?: Options & { limit?: number } | null): Promise<{ entries: LogEntry[] }>;
/** A row that shows something else. */
export interface ChangedRow {
  table: string;
  /** What it is called here for as long as it exists, whatever its key. */
  id: string;
  /** Its name for people. */
  row: string;
  change: 'insert' | 'update' | 'delete';
  /** Null if nobody wrote to it: it shows something else because of what others wrote to other rows. */
  written: Written | null;
  /** Those that were written, as far as is known. */
  columns: string[];
  values: Record<string, Value>;
  /** The number that it had before a merge gave it the one that it shows, as long as the log tells of it. */
  former?: number;
  /** Literals in SQL of the values that JSON cannot tell from others: blobs, infinity, text that is no UTF-8. */
  exact?: Record<string, string>;
}

export interface Changes {
  changes: ChangedRow[];
  /** What to ask with the next time. */
  token: string;
  /** Whether these are all rows, and what was known before is void. */
  anew: boolean;
  /** Whether more have changed already. */
  more: boolean;
}

/**
 * The rows that show something else than at the answer that the token `since` is of, whoever changed them; all
 * without one, or with null. It folds first. After `limit` rows it stops as soon as it can go on from there.
 */
export function changes(
  path: Path,
  options?: Options & { since?: string | null; limit?: number } | null,
): Promise<Changes>;

/** Which changes of this site are meant: those of a span of time, of a millisecond, or the latest of a row. */
export interface Selection extends Options {
  /** From then on: a time as the log shows it (UTC), or how long ago, such as `10m`. */
  since?: string | Date;
  /** None after then. */
  until?: string | Date;
  /** In just this millisecond. */
  at?: string | Date;
  /** Only of this table. */
  table?: string;
  /** Only of the row with this primary key, as SQL writes it; needs `table`. Without a time, its latest change. */
  row?: string | number | bigint;
  /** Only says what it would do. */
  dryRun?: boolean;
}

export interface Undone {
  /** Rows of which changes were taken back; of an insert the row is gone, of a delete it is here again. */
  taken: {
    table: string;
    row: string;
    name: string | null;
    change: 'insert' | 'update' | 'delete';
    /** Those that got former values, with these. */
    columns: Record<string, Value> | null;
  }[];
  /** Changes that were left. `columns` is empty if it is about the whole row; `written`: who has written since. */
  left: { table: string; row: string; columns: string[]; why: string; written: Written | null }[];
  dry_run: boolean;
}

/** Takes back what was written on this site, as far as nobody has written since. */
export function undo(path: Path, selection: Selection): Promise<Undone>;
/** The policies in force, after `key` was set if it is given. */
export function policy(
  path: Path,
  key?: string | null,
  value?: string | null,
  options?: Options | null,
): Promise<{ policies: Record<string, string> }>;
/** The remotes that the replica remembers. */
export function remotes(path: Path, options?: Options | null): Promise<Remotes>;
/** Remembers a remote. A token is kept in the file, which becomes its owner's alone. */
export function addRemote(
  path: Path,
  name: string,
  url: RemoteName,
  options?: RemoteOptions | null,
): Promise<Remotes>;
/** Forgets a remote; what it refers to stays as it is. */
export function removeRemote(path: Path, name: string, options?: Options | null): Promise<Remotes>;

export interface WatchOptions extends SyncOptions {
  /** Milliseconds from one round to the next where nothing is written here; 5000 if absent. */
  interval?: number;
  /** Milliseconds between looks at the file, where the command does the work; 50 if absent. */
  poll?: number;
}

export interface WatchState {
  /** Whether the remote was reached the last time. */
  readonly online: boolean;
  readonly lastSync: Date | null;
  /** Changes that the remote does not have yet; null before the first look. */
  readonly pending: number | null;
  /** Why the last round failed; null if it did not. */
  readonly error: SynqliteError | null;
}

export interface WatchEvents {
  /** A round succeeded. */
  sync: [result: Synced];
  /** Rows may show something else since a round, also one that failed: what shows them is to be read again. */
  change: [];
  state: [state: WatchState];
  failure: [error: SynqliteError];
  stop: [];
}

/**
 * Rounds of `sync`, until `stop`. A failure is an event `failure`, and what failed is tried again after
 * growing pauses; there is no event `error`, which would throw where nobody listens.
 */
export class Watch extends EventEmitter<WatchEvents> implements AsyncIterable<Synced> {
  private constructor();
  readonly state: WatchState;
  /** Ends after the round that is under way. */
  stop(): Promise<void>;
  /** The results of the rounds to come that succeed. Whoever leaves the loop stops the watch. */
  [Symbol.asyncIterator](): AsyncIterableIterator<Synced>;
}

/** Synchronizes when a program has committed or a hub has something new, and at the latest each interval. */
export function watch(path: Path, remote?: RemoteName | null, options?: WatchOptions | null): Watch;

/** What is different in the rows of a query. */
export interface Difference<Row = Record<string, unknown>> {
  /** All of them, in the order of the query. */
  rows: Row[];
  added: Row[];
  /** The former and the present one, which have the same key. */
  changed: [former: Row, now: Row][];
  removed: Row[];
}

export interface LiveOptions extends Pick<Options, 'library'> {
  /** What is bound: values in order, or by name. */
  params?: unknown[] | Record<string, unknown>;
  /** Columns of the result that tell rows apart; without them a changed row is one that went and one that came. */
  key?: string | string[];
}

/** A query that is up to date until `stop`. A run that fails is an event `failure`, and is tried again. */
export class Live<Row = Record<string, unknown>> extends EventEmitter<{ failure: [error: Error] }> {
  private constructor();
  /** The rows as they were told last. */
  readonly rows: Row[];
  /** Why the last run failed; null if it did not. */
  readonly error: Error | null;
  stop(): Promise<void>;
}

/**
 * Runs a query on a connection of better-sqlite3 or node:sqlite, now and each time that a table it reads may
 * have changed, by any program or merge. The listener gets what is different, first all rows. A statement that
 * writes is refused, and so is a query of temporary tables or attached databases: nobody tells of their changes.
 */
export function live<Row = Record<string, unknown>>(
  db: { prepare(sql: string): { all(...params: any[]): unknown[] } },
  sql: string,
  listener: (difference: Difference<Row>) => void,
  options?: LiveOptions | null,
): Live<Row>;
