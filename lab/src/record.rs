//! The record: results as JSON, a line each.
//!
//! Every line carries its parameters, so a file may be cut, joined with others or searched by line.
//! Finished rounds reach the file at once. The last line says whether the run came to its end.

use crate::meter::Outcome;
use crate::params::Parameters;
use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

/// Version of the lines.
pub const FORMAT: u32 = 1;

/// One engine's turn in one round, with its circumstances.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Name that the user gave the run.
    pub name: String,
    /// Circumstances.
    pub parameters: Parameters,
    /// Figures.
    pub outcome: Outcome,
}

#[derive(Serialize, Deserialize)]
struct Line {
    format: u32,
    #[serde(flatten)]
    body: Body,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Body {
    Result(Box<Record>),
    End { results: usize, complete: bool },
}

/// A results file that is being written.
pub struct Sink {
    path: PathBuf,
    file: File,
    written: usize,
}

impl Sink {
    /// A new file; one that exists is never overwritten.
    pub fn create(path: &Path) -> Result<Sink> {
        if let Some(folder) = path.parent().filter(|f| !f.as_os_str().is_empty()) {
            fs::create_dir_all(folder).map_err(Error::io(folder))?;
        }
        let file = OpenOptions::new().write(true).create_new(true).open(path);
        Ok(Sink { path: path.to_owned(), file: file.map_err(Error::io(path))?, written: 0 })
    }

    /// Adds a result.
    pub fn write(&mut self, record: &Record) -> Result<()> {
        self.written += 1;
        self.line(Body::Result(Box::new(record.clone())))
    }

    /// Ends the file; `complete` unless the run was stopped before its end.
    pub fn end(mut self, complete: bool) -> Result<()> {
        let results = self.written;
        self.line(Body::End { results, complete })
    }

    fn line(&mut self, body: Body) -> Result<()> {
        let write = || {
            let mut text = serde_json::to_vec(&Line { format: FORMAT, body })?;
            text.push(b'\n');
            self.file.write_all(&text)
        };
        write().map_err(Error::io(&self.path))
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// What a results file holds.
#[derive(Clone, Debug, Default)]
pub struct Results {
    /// Its results, in order.
    pub records: Vec<Record>,
    /// Why it is not whole: the run was interrupted, or the file was cut short.
    pub cut: Option<String>,
}

/// Reads a results file. A line that cannot be read is an error, except with `force` the last one:
/// then what stands before it is taken, and marked.
pub fn read(path: &Path, force: bool) -> Result<Results> {
    let text = fs::read_to_string(path).map_err(Error::io(path))?;
    let mut results = Results::default();
    let mut ended = false;
    let last = text.lines().count();
    for (number, line) in text.lines().enumerate().map(|(i, line)| (i + 1, line)) {
        let bad = |why: String| Error::Results { path: path.to_owned(), line: number, why };
        let value: serde_json::Value = match serde_json::from_str(line) {
            Ok(value) => value,
            Err(_) if number == last && force => {
                results.cut = Some(format!("cut short in line {number}"));
                return Ok(results);
            }
            Err(e) if number == last => {
                let why = format!("the file is cut short ({e}); --force takes the results before");
                return Err(bad(why));
            }
            Err(e) => return Err(bad(format!("no result: {e}"))),
        };
        let format = value.get("format").and_then(serde_json::Value::as_u64);
        match format {
            Some(found) if found == u64::from(FORMAT) => {}
            Some(found) => {
                return Err(bad(format!(
                    "format {found}; this program reads format {FORMAT}. Use the one that wrote it"
                )));
            }
            None => return Err(bad("no result: it has no format number".into())),
        }
        let line: Line = serde_json::from_value(value).map_err(|e| bad(e.to_string()))?;
        match line.body {
            Body::Result(record) => results.records.push(*record),
            Body::End { complete, .. } => {
                ended = true;
                if !complete {
                    results.cut = Some("interrupted; finished rounds only".to_owned());
                }
            }
        }
    }
    if !ended && results.cut.is_none() {
        results.cut = Some("the run never came to its end; finished rounds only".to_owned());
    }
    Ok(results)
}
