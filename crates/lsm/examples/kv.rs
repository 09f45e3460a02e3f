//! A key-value store on the command line.
//!
//! ```text
//! kv put STORE KEY VALUE      set a key
//! kv get STORE KEY            print its value
//! kv del STORE KEY            remove it
//! kv scan STORE [PREFIX]      print pairs, a tab between key and value
//! kv load STORE FILE [K [V]]  put the rows of a CSV file; K and V are column numbers (1 and 2)
//! kv stats STORE              what the store holds
//! kv verify STORE             read every byte and list damage
//! kv repair STORE             salvage what is readable
//! ```
//!
//! Bytes that are no text are printed as \xNN. Exit status: 0 done, 1 not found or damaged,
//! 2 wrong use, 3 failed.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write};
use std::process::ExitCode;

use synqlite_lsm::{Batch, Db, Error, Options, Report, repair, verify};

/// Why a command did not do what was asked.
enum Failure {
    /// The arguments do not fit.
    Usage(String),
    /// The store or a file refused.
    Failed(String),
}

impl From<Error> for Failure {
    fn from(e: Error) -> Failure {
        Failure::Failed(e.to_string())
    }
}

impl From<std::io::Error> for Failure {
    fn from(e: std::io::Error) -> Failure {
        Failure::Failed(e.to_string())
    }
}

type Done = Result<ExitCode, Failure>;

const NO: ExitCode = ExitCode::FAILURE;

fn open(path: &str, create: bool) -> Result<Db, Error> {
    Db::open(path, Options { create, ..Options::default() })
}

/// Text as it is, other bytes and control characters escaped.
fn show(bytes: &[u8]) -> String {
    let mut out = String::new();
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\\' => out.push_str("\\\\"),
                '\t' => out.push_str("\\t"),
                '\n' => out.push_str("\\n"),
                c => out.push(c),
            }
        }
        for byte in chunk.invalid() {
            let _ = write!(out, "\\x{byte:02x}");
        }
    }
    out
}

fn put(path: &str, key: &str, value: &str) -> Done {
    let db = open(path, true)?;
    let mut batch = Batch::new();
    batch.put(key, value)?;
    db.write_with(&batch, true)?;
    db.close()?;
    Ok(ExitCode::SUCCESS)
}

fn get(path: &str, key: &str) -> Done {
    let Some(value) = open(path, false)?.get(key)? else { return Ok(NO) };
    let mut out = std::io::stdout().lock();
    out.write_all(&value)?;
    out.write_all(b"\n")?;
    Ok(ExitCode::SUCCESS)
}

fn del(path: &str, key: &str) -> Done {
    let db = open(path, false)?;
    let found = db.get(key)?.is_some();
    if found {
        let mut batch = Batch::new();
        batch.delete(key)?;
        db.write_with(&batch, true)?;
    }
    db.close()?;
    Ok(if found { ExitCode::SUCCESS } else { NO })
}

fn scan(path: &str, prefix: &str) -> Done {
    let db = open(path, false)?;
    let mut scan = db.scan_prefix(prefix)?;
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    while scan.advance()? {
        writeln!(out, "{}\t{}", show(scan.key()), show(scan.value()))?;
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// One CSV record (RFC 4180): `None` at the end of the file. Quoted fields may hold line ends.
fn record(input: &mut impl BufRead) -> Result<Option<Vec<Vec<u8>>>, std::io::Error> {
    let mut line = Vec::new();
    if input.read_until(b'\n', &mut line)? == 0 {
        return Ok(None);
    }
    // A line with an open quote goes on in the next one.
    while line.iter().filter(|b| **b == b'"').count() % 2 == 1
        && input.read_until(b'\n', &mut line)? > 0
    {}
    while line.last().is_some_and(|b| b"\r\n".contains(b)) {
        line.pop();
    }
    let (mut fields, mut field, mut quoted) = (Vec::new(), Vec::new(), false);
    let mut bytes = line.into_iter().peekable();
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' if quoted && bytes.peek() == Some(&b'"') => {
                bytes.next();
                field.push(b'"');
            }
            b'"' => quoted = !quoted,
            b',' if !quoted => fields.push(std::mem::take(&mut field)),
            byte => field.push(byte),
        }
    }
    fields.push(field);
    Ok(Some(fields))
}

fn load(path: &str, file: &str, columns: &[String]) -> Done {
    let column = |i: usize, default: usize| match columns.get(i).map(|c| c.parse::<usize>()) {
        None => Ok(default - 1),
        Some(Ok(n)) if n > 0 => Ok(n - 1),
        Some(_) => Err(Failure::Usage("columns are numbers from 1".into())),
    };
    let (key, value) = (column(0, 1)?, column(1, 2)?);
    let mut input = BufReader::new(
        std::fs::File::open(file).map_err(|e| Failure::Failed(format!("{file}: {e}")))?,
    );
    let db = open(path, true)?;
    let (mut batch, mut rows) = (Batch::new(), 0u64);
    while let Some(fields) = record(&mut input)? {
        rows += 1;
        let (Some(k), Some(v)) = (fields.get(key), fields.get(value)) else {
            return Err(Failure::Failed(format!(
                "{file}: row {rows} has {} columns only",
                fields.len()
            )));
        };
        batch.put(k, v)?;
        if batch.len() == 1_000 {
            db.write(&batch)?;
            batch.clear();
        }
    }
    db.write_with(&batch, true)?;
    db.close()?;
    println!("{rows} rows");
    Ok(ExitCode::SUCCESS)
}

fn stats(path: &str) -> Done {
    let db = open(path, false)?;
    let stats = db.stats();
    println!("newest change  {}", stats.sequence);
    println!("in memory      {} bytes, {} memtables to flush", stats.memtable, stats.sealed);
    for (i, level) in stats.levels.iter().enumerate().filter(|(_, l)| l.tables > 0) {
        let (tables, bytes) = (level.tables, level.bytes);
        println!(
            "level {i}        {tables} tables, {bytes} bytes, {} entries, {} deletions",
            level.entries, level.deletions
        );
    }
    if let Some(dropped) = db.dropped() {
        println!(
            "the last power failure took what {} held from byte {} on",
            dropped.path.display(),
            dropped.offset
        );
    }
    db.close()?;
    Ok(ExitCode::SUCCESS)
}

fn report(report: &Report) -> ExitCode {
    println!("{} tables, {} entries read", report.tables, report.entries);
    for problem in &report.problems {
        println!("{problem}");
    }
    if report.problems.is_empty() { ExitCode::SUCCESS } else { NO }
}

fn run(args: &[String]) -> Done {
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    match words[..] {
        ["put", store, key, value] => put(store, key, value),
        ["get", store, key] => get(store, key),
        ["del", store, key] => del(store, key),
        ["scan", store] => scan(store, ""),
        ["scan", store, prefix] => scan(store, prefix),
        ["load", store, file, ..] if args.len() <= 5 => load(store, file, &args[3..]),
        ["stats", store] => stats(store),
        ["verify", store] => Ok(report(&verify(store)?)),
        ["repair", store] => Ok(report(&repair(store)?)),
        _ => Err(Failure::Usage("kv put|get|del|scan|load|stats|verify|repair STORE ...".into())),
    }
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match run(&args) {
        Ok(code) => code,
        Err(Failure::Usage(text)) => {
            eprintln!("usage: {text}");
            ExitCode::from(2)
        }
        Err(Failure::Failed(text)) => {
            eprintln!("error: {text}");
            ExitCode::from(3)
        }
    }
}
