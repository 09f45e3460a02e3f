/**
 * Tells what an error of SQLite means. The extension's failures have the text `synqlite: KIND: WHAT. HINT`;
 * others come from SQLite itself, when the file is opened.
 */

const OURS = /^synqlite: (\w+): ([^]*)$/;

const NOT_A_DATABASE = 26;
const kinds = { 5: 'locked', 6: 'locked', 11: 'damaged' };
const codes = { SQLITE_BUSY: 5, SQLITE_LOCKED: 6, SQLITE_CORRUPT: 11, SQLITE_NOTADB: NOT_A_DATABASE };

/**
 * Of an error that better-sqlite3 or node:sqlite has thrown; `path`: the file that was worked on; `last`: asks the
 * extension for its last failure in parts, as an extension of an earlier release cannot tell it.
 */
export function told(error, path, last) {
  const ours = OURS.exec(error.message);
  if (!ours) {
    const number = error.errcode === undefined ? codes[error.code] : error.errcode & 0xff;
    if (number === NOT_A_DATABASE) {
      const hint = 'Give the path of an ordinary SQLite file';
      return { kind: 'refused', what: `${path} is not a SQLite database, or it is encrypted`, hint };
    }
    return { kind: kinds[number] ?? 'refused', what: `${path}: ${error.message}`, hint: null };
  }
  const [, kind, text] = ours;
  const { message, hint = null, object } = inParts(last);
  if (message !== undefined && (hint ? `${message}. ${hint}` : message) === text) {
    const bucket = object?.startsWith('s3://') && "Say { library: 'command' }: the extension reaches no buckets";
    return { kind, what: message, hint: bucket || hint };
  }
  const end = text.lastIndexOf('. ');
  if (end < 0) return { kind, what: text, hint: null };
  return { kind, what: text.slice(0, end), hint: text.slice(end + 2) };
}

function inParts(last) {
  try {
    return JSON.parse(last()).error;
  } catch {
    return {};
  }
}
