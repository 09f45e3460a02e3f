//! `triggers`: what fires on each table of a database.

use crate::{Error, Result};
use rusqlite::{Connection, OpenFlags};
use std::path::Path;

pub fn run(path: &Path) -> Result<()> {
    if !path.exists() {
        return Err(Error::Bad(format!("there is no database {}", path.display())));
    }
    let conn = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    let sql = "SELECT tbl_name, name, sql FROM sqlite_master WHERE type = 'trigger' \
               ORDER BY tbl_name, name";
    let mut statement = conn.prepare(sql)?;
    let mut rows = statement.query([])?;
    let mut last = String::new();
    while let Some(row) = rows.next()? {
        let table: String = row.get(0)?;
        if table != last {
            say!("table name: {table}");
            last = table;
        }
        say!("\n  trigger name: {}", row.get::<_, String>(1)?);
        row.get::<_, String>(2)?.lines().for_each(|line| say!("    {line}"));
        say!("");
    }
    if last.is_empty() {
        say!("no triggers");
    }
    Ok(())
}
