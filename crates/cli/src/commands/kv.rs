use super::{QUIET, patience, print};
use crate::csv::record;
use crate::error::{CommandError, Result};
use crate::report::{Report, bytes as size, count, rows, seconds};
use crate::store_error::problem;
use crate::terminal;
use clap::Subcommand;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufReader, Read, Write};
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use synqlite_lsm::{Batch, Db, Error, Options};

/// Reads and writes a log-structured store of keys and values, by hand.
///
/// A store is a folder of its own, and no replica. One program at a time has it open; another is waited
/// for as long as --wait says, and not at all without it. Keys and values are given and printed as text;
/// with --hex, as bytes in hexadecimal digits.
#[derive(Subcommand)]
pub enum Command {
    /// Prints the value of a key; status 1 if the store does not have the key.
    Get(Key),
    /// Sets a key. On the device when it returns; makes the store if there is none.
    Put {
        /// The store: a folder.
        dir: PathBuf,
        /// The key.
        #[arg(allow_negative_numbers = true)]
        key: String,
        /// Its value.
        #[arg(allow_negative_numbers = true)]
        value: String,
        /// Takes bytes as hexadecimal digits.
        #[arg(long)]
        hex: bool,
    },
    /// Removes a key; status 1 if the store does not have it.
    Del(Key),
    Scan(Range),
    /// Puts the rows of a CSV file; there is no header line.
    ///
    /// Makes the store if there is none. Up to 128 MB of keys and values are there as a whole or
    /// not at all; more goes in parts of that size, and loading again is safe.
    Load {
        /// The store: a folder.
        dir: PathBuf,
        /// The file, as RFC 4180 has it: commas between fields, quotes around fields with commas,
        /// quotes or line ends.
        file: PathBuf,
        /// Number of the column with the key.
        #[arg(long, value_name = "COLUMN", default_value_t = 1,
            value_parser = clap::value_parser!(u32).range(1..))]
        key: u32,
        /// Number of the column with the value.
        #[arg(long, value_name = "COLUMN", default_value_t = 2,
            value_parser = clap::value_parser!(u32).range(1..))]
        value: u32,
    },
    /// Shows what the store holds, by level.
    Stats(Store),
    /// Reads every byte and lists what is damaged or missing.
    ///
    /// Exits with status 1 if there are problems, which standard output lists.
    Verify(Store),
    /// Makes a damaged store usable again with all that is readable, and lists what was damaged.
    ///
    /// Damaged files stay, with `.damaged` added to their names. Where a newer change was damaged, a
    /// key may show an older value or come back after its removal: compare with a backup.
    Repair(Store),
}

/// A store.
#[derive(clap::Args)]
pub struct Store {
    /// The store: a folder.
    dir: PathBuf,
}

/// A key of a store.
#[derive(clap::Args)]
pub struct Key {
    /// The store: a folder.
    dir: PathBuf,
    /// The key.
    #[arg(allow_negative_numbers = true)]
    key: String,
    /// Takes and prints bytes as hexadecimal digits.
    #[arg(long)]
    hex: bool,
}

/// Prints keys and values in the order of the keys' bytes, a tab between them.
///
/// A backslash, tab or line end is printed as \\, \t or \n; a byte that is no text as \xNN.
#[derive(clap::Args)]
pub struct Range {
    /// The store: a folder.
    dir: PathBuf,
    /// Only keys that begin so.
    #[arg(long, value_name = "P", allow_hyphen_values = true)]
    prefix: Option<String>,
    /// Only this key and those after it.
    #[arg(long, value_name = "A", allow_hyphen_values = true)]
    from: Option<String>,
    /// Only keys before this one.
    #[arg(long, value_name = "B", allow_hyphen_values = true)]
    to: Option<String>,
    /// Last key first.
    #[arg(long)]
    reverse: bool,
    /// At most so many.
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    /// Takes and prints bytes as hexadecimal digits.
    #[arg(long)]
    hex: bool,
}

/// Runs the command and prints what it found: values as they are, and scans while they go on.
pub fn run(command: &Command, json: bool) -> Result<()> {
    let report = match command {
        Command::Get(a) => return get(&a.dir, &a.key, a.hex, json),
        Command::Scan(range) => return scan(range, json),
        Command::Put { dir, key, value, hex } => put(dir, key, value, *hex),
        Command::Del(a) => del(&a.dir, &a.key, a.hex),
        Command::Load { dir, file, key, value } => load(dir, file, [*key, *value]),
        Command::Stats(a) => stats(&a.dir),
        Command::Verify(a) => verify(&a.dir),
        Command::Repair(a) => repair(&a.dir),
    }?;
    print(report, json)
}

/// How often it looks whether a store is free.
const TICK: Duration = Duration::from_millis(50);

fn open(dir: &Path, create: bool) -> Result<Db> {
    once_free(dir, || Db::open(dir, Options { create, ..Options::default() }))
}

/// Does what wants a store for itself, as soon as no other program has it open.
fn once_free<T>(dir: &Path, run: impl Fn() -> synqlite_lsm::Result<T>) -> Result<T> {
    let (since, mut told) = (Instant::now(), false);
    loop {
        match run() {
            Err(Error::Locked { .. }) if since.elapsed() < patience() => {
                if since.elapsed() >= QUIET && !std::mem::replace(&mut told, true) {
                    let (dir, limit) = (dir.display(), patience().as_secs());
                    terminal::complain(&format!(
                        "waiting for another program that has {dir} open, for {limit} s at most"
                    ));
                }
                std::thread::sleep(TICK);
            }
            done => return Ok(done?),
        }
    }
}

fn get(dir: &Path, key: &str, hex: bool, json: bool) -> Result<()> {
    let at = input(key, hex)?;
    let value = open(dir, false)?.get(&at)?.ok_or_else(|| absent(dir, key))?;
    let mut out = std::io::stdout().lock();
    if json {
        writeln!(out, "{}", json!({"key": value_of(&at, hex), "value": value_of(&value, hex)}))?;
    } else {
        out.write_all(if hex { digits(&value).into_bytes() } else { value }.as_slice())?;
        out.write_all(b"\n")?;
    }
    Ok(out.flush()?)
}

fn put(dir: &Path, key: &str, value: &str, hex: bool) -> Result<Report> {
    let mut batch = Batch::new();
    batch.put(input(key, hex)?, input(value, hex)?)?;
    let db = open(dir, true)?;
    let sequence = db.write_with(&batch, true)?;
    db.close()?;
    Ok(Report::new(json!({"sequence": sequence}), format!("set, change {sequence}")))
}

fn del(dir: &Path, key: &str, hex: bool) -> Result<Report> {
    let at = input(key, hex)?;
    let db = open(dir, false)?;
    if db.get(&at)?.is_none() {
        return Err(absent(dir, key));
    }
    let mut batch = Batch::new();
    batch.delete(at)?;
    let sequence = db.write_with(&batch, true)?;
    db.close()?;
    Ok(Report::new(json!({"sequence": sequence}), format!("removed, change {sequence}")))
}

fn absent(dir: &Path, key: &str) -> CommandError {
    let dir = dir.display();
    CommandError::new(format!("{dir} has no key `{}`", show(key.as_bytes())))
        .hint(format!("See: synqlite kv scan {dir}"))
}

fn scan(range: &Range, json: bool) -> Result<()> {
    let bound = |text: &Option<String>| text.as_ref().map(|t| input(t, range.hex)).transpose();
    let (prefix, from, to) = (bound(&range.prefix)?, bound(&range.from)?, bound(&range.to)?);
    let reversed = matches!((&from, &to), (Some(a), Some(b)) if a > b);
    let high = to.into_iter().chain(prefix.as_deref().and_then(after)).min();
    let mut low = prefix.max(from).unwrap_or_default();
    if let Some(high) = high.as_ref().filter(|high| !reversed && **high < low) {
        // The prefix lies outside the bounds: nothing is asked for.
        low.clone_from(high);
    }
    let db = open(&range.dir, false)?;
    let bounds = (Bound::Included(low), high.map_or(Bound::Unbounded, Bound::Excluded));
    let mut scan = if range.reverse { db.scan_back(bounds)? } else { db.scan(bounds)? };
    let (mut out, mut pairs) = (std::io::BufWriter::new(std::io::stdout().lock()), Vec::new());
    let print = |bytes: &[u8]| if range.hex { digits(bytes) } else { show(bytes) };
    let mut left = range.limit.unwrap_or(usize::MAX);
    while left > 0 && scan.advance()? {
        left -= 1;
        let (key, value) = (scan.key(), scan.value());
        if json {
            pairs.push(
                json!({"key": value_of(key, range.hex), "value": value_of(value, range.hex)}),
            );
        } else {
            writeln!(out, "{}\t{}", print(key), print(value))?;
        }
    }
    if json {
        writeln!(out, "{}", json!({"pairs": pairs}))?;
    }
    Ok(out.flush()?)
}

/// The first key after all that begin with `prefix`; none if they are the last there can be.
fn after(prefix: &[u8]) -> Option<Vec<u8>> {
    let kept = prefix.iter().rposition(|byte| *byte < u8::MAX)?;
    let (last, head) = prefix.get(..=kept)?.split_last()?;
    Some([head, &[last + 1]].concat())
}

fn load(dir: &Path, file: &Path, columns: [u32; 2]) -> Result<Report> {
    let (name, start) = (file.display(), Instant::now());
    let opened = File::open(file).map_err(|e| {
        CommandError::new(format!("cannot read {name}: {e}")).hint("Check the path and permissions")
    })?;
    let mut input = BufReader::new(opened).bytes().peekable();
    let (mut db, mut batch, mut read, mut written) = (None, Batch::new(), 0, 0);
    let refuse = |written: i64, what: String| {
        let hint = "Correct the file and load it again";
        CommandError::new(what).hint(match written {
            0 => format!("{hint}; nothing was loaded"),
            n => format!("{hint}; {} before it were loaded", rows(n.unsigned_abs())),
        })
    };
    loop {
        let fields = match record(&mut input) {
            Ok(Some(fields)) => fields,
            Ok(None) => break,
            Err(e) => return Err(refuse(written, format!("{name}, row {}: {e}", read + 1))),
        };
        read += 1;
        let [Some(key), Some(value)] = columns.map(|c| fields.get(c as usize - 1)) else {
            let n = count(fields.len() as u64, "column");
            return Err(refuse(written, format!("{name}, row {read} has only {n}")));
        };
        match batch.put(key, value).map(|_| ()) {
            Err(Error::TooLarge { what: "batch", .. }) if !batch.is_empty() => {
                write(&mut db, dir, &batch)?;
                written = read - 1;
                batch.clear();
                batch.put(key, value)?;
            }
            Err(e) => return Err(refuse(written, format!("{name}, row {read}: {}", problem(&e)))),
            Ok(()) => {}
        }
    }
    write(&mut db, dir, &batch)?;
    db.as_ref().map_or(Ok(()), Db::close)?;
    let time = start.elapsed();
    let text = format!("{} in {:.3} s", rows(read.unsigned_abs()), time.as_secs_f64());
    Ok(Report::new(json!({"rows": read, "seconds": seconds(time)}), text))
}

/// Opens the store for the first batch, so that a file that is refused leaves nothing behind.
fn write(db: &mut Option<Db>, dir: &Path, batch: &Batch) -> Result<()> {
    if db.is_none() {
        *db = Some(open(dir, true)?);
    }
    if let Some(db) = db {
        db.write_with(batch, true)?;
    }
    Ok(())
}

fn stats(dir: &Path) -> Result<Report> {
    let db = open(dir, false)?;
    let stats = db.stats();
    let mut text = format!("newest change {}", stats.sequence);
    let mut levels = Vec::new();
    for (i, level) in stats.levels.iter().enumerate().filter(|(_, level)| level.tables > 0) {
        levels.push(json!({
            "level": i, "tables": level.tables, "bytes": level.bytes,
            "entries": level.entries, "deletions": level.deletions,
        }));
        let (tables, deletions) = (level.tables as u64, level.deletions);
        let (tables, deletions) = (count(tables, "table"), count(deletions, "deletion"));
        let (bytes, entries) = (size(level.bytes), count(level.entries, "entry"));
        let _ = write!(text, "\nlevel {i}: {tables}, {bytes}, {entries}, {deletions}");
    }
    if stats.memtable > 0 || stats.sealed > 0 {
        let sealed = count(stats.sealed as u64, "memtable");
        let _ = write!(text, "\nin memory: {}, {sealed} to flush", size(stats.memtable as u64));
    }
    let (cut, words) = dropped(db.dropped());
    let json = json!({
        "sequence": stats.sequence, "levels": levels,
        "memory": stats.memtable, "to_flush": stats.sealed, "dropped": cut,
    });
    db.close()?;
    Ok(Report::new(json, text + &words))
}

fn verify(dir: &Path) -> Result<Report> {
    let found = once_free(dir, || synqlite_lsm::verify(dir))?;
    let ok = found.problems.is_empty();
    let mut report = listed(&found, if ok { "no problems" } else { "damaged" }, dir);
    report.json["ok"] = json!(ok);
    Ok(report.faulty(dir.display(), found.problems.len()))
}

fn repair(dir: &Path) -> Result<Report> {
    let found = once_free(dir, || synqlite_lsm::repair(dir))?;
    let verdict = if found.problems.is_empty() { "nothing to repair" } else { "repaired" };
    Ok(listed(&found, verdict, dir))
}

fn listed(found: &synqlite_lsm::Report, verdict: &str, dir: &Path) -> Report {
    let problems: Vec<String> = found.problems.iter().map(problem).collect();
    let (cut, words) = dropped(found.dropped.as_ref());
    let (tables, entries) = (found.tables, found.entries);
    let tables_read = count(tables as u64, "table");
    let mut text =
        format!("{}: {verdict}; {tables_read}, {} read", dir.display(), count(entries, "entry"));
    for problem in &problems {
        let _ = write!(text, "\n{problem}");
    }
    let json = json!({"problems": problems, "tables": tables, "entries": entries, "dropped": cut});
    Report::new(json, text + &words)
}

/// Where a power failure cut a log, for programs and for people.
fn dropped(cut: Option<&synqlite_lsm::Dropped>) -> (Value, String) {
    let Some(cut) = cut else { return (Value::Null, String::new()) };
    let (file, offset) = (cut.path.display().to_string(), cut.offset);
    let words = format!("\na power failure took what {file} held from byte {offset} on");
    (json!({"file": file, "offset": offset}), words)
}

/// Bytes that the user means.
fn input(text: &str, hex: bool) -> Result<Vec<u8>> {
    if !hex {
        return Ok(text.as_bytes().to_vec());
    }
    let digit = |byte: &u8| char::from(*byte).to_digit(16).map(|digit| digit as u8);
    let pair = |pair: &[u8]| match pair {
        [high, low] => Some(digit(high)? << 4 | digit(low)?),
        _ => None,
    };
    text.as_bytes().chunks(2).map(pair).collect::<Option<_>>().ok_or_else(|| {
        CommandError::usage(format!("`{text}` is no sequence of bytes"))
            .hint("With --hex, write two hexadecimal digits a byte, such as 00ff")
    })
}

fn digits(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Text as it is, other bytes and control characters escaped: one line.
fn show(bytes: &[u8]) -> String {
    let mut out = String::new();
    let escape = |out: &mut String, bytes: &[u8]| {
        bytes.iter().for_each(|byte| {
            let _ = write!(out, "\\x{byte:02x}");
        });
    };
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\\' => out.push_str("\\\\"),
                '\t' => out.push_str("\\t"),
                '\n' => out.push_str("\\n"),
                c if c.is_control() => escape(&mut out, c.encode_utf8(&mut [0; 4]).as_bytes()),
                c => out.push(c),
            }
        }
        escape(&mut out, chunk.invalid());
    }
    out
}

/// Text as a string, other bytes as `{"hex": "…"}`; with --hex always digits.
fn value_of(bytes: &[u8], hex: bool) -> Value {
    match std::str::from_utf8(bytes) {
        _ if hex => json!(digits(bytes)),
        Ok(text) => json!(text),
        Err(_) => json!({"hex": digits(bytes)}),
    }
}
