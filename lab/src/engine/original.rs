//! The design of the thesis's chapter 3, rebuilt from its text.
//!
//! Every write updates a clock row, whose own trigger sets the nanoseconds; then the row of versions
//! with all values and a time for each changed column; whose triggers in turn write the history and
//! the site's state. So one write of the application is six to eight writes of ours.
//!
//! The published rate under TPC-C (0.008 of plain SQLite's) appears only where these look-ups scan:
//! for a key that no index serves, or whose copy has another type than the application's `INTEGER
//! PRIMARY KEY`, because SQLite then cannot use the index. [`Keys::Scanned`] is that;
//! [`Keys::Indexed`] is the design itself.

use super::baseline::{self, NOW, Table, list, quote};
use crate::Result;
use rusqlite::Connection;

/// How the table of versions keeps the application's key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keys {
    /// With its declared type and an index.
    Indexed,
    /// Without type or index.
    Scanned,
}

pub fn attach(conn: &Connection, names: &[String], keys: Keys) -> Result<()> {
    let tables = Table::read(conn, names)?;
    baseline::create_versions(conn, &tables, keys == Keys::Indexed)?;
    // 3.2.3: the second half of setting the clock.
    conn.execute_batch(
        "CREATE TRIGGER crr_meta__clock_update AFTER UPDATE OF ms ON crr_meta__clock BEGIN
           UPDATE crr_meta__clock SET ns = CASE WHEN OLD.ms = NEW.ms
             THEN OLD.ns + abs(random() % (1000000 - OLD.ns)) ELSE abs(random() % 10000) END;
         END;",
    )?;
    for table in &tables {
        conn.execute_batch(&triggers(table))?;
    }
    Ok(())
}

fn triggers(t: &Table) -> String {
    let (target, versions) = (quote(&t.name), t.versions());
    let name = |what: &str| quote(&format!("crr__{}_{what}", t.name));
    let local = "WHEN (SELECT local FROM crr_meta__islocal)";
    let clock = format!("UPDATE crr_meta__clock SET ms = {NOW}");
    let stamp = "(SELECT ms*1000000+ns FROM crr_meta__clock)";
    let numbered: Vec<(usize, &String)> =
        t.columns.iter().map(|(column, _)| column).enumerate().collect();
    let names = list(&numbered, |(_, c)| c.to_string());
    let times = list(&numbered, |(i, _)| format!("crr_meta__ts{i}"));
    let now = list(&numbered, |_| stamp.to_owned());
    let new = list(&numbered, |(_, c)| format!("NEW.{c}"));
    let kept = t.kept_key();
    let new_key = list(&t.key, |c| format!("NEW.{c}"));
    let set = list(&numbered, |(i, c)| format!("{c}=NEW.{c},crr_meta__ts{i}={stamp}"));
    let set_changed = list(&numbered, |(i, c)| {
        format!(
            "{c}=NEW.{c},crr_meta__ts{i}=CASE WHEN OLD.{c} IS NOT NEW.{c} THEN {stamp} \
             ELSE crr_meta__ts{i} END"
        )
    });
    let set_key = list(&t.key, |c| format!("{}=NEW.{c}", Table::kept(c)));
    let (of_new, of_old) = (t.same_key("", "NEW."), t.same_key("", "OLD."));
    // 3.2.2.1, figures 2 to 4, and 3.2.4, figure 5.
    format!(
        "CREATE TRIGGER {insert} AFTER INSERT ON {target} {local} BEGIN
           {clock};
           UPDATE {versions} SET {set}, crr_meta__cl = crr_meta__cl + 1 WHERE {of_new};
           INSERT INTO {versions}(crr_meta__uuid,{kept},{names},{times},crr_meta__cl)
             SELECT randomblob(16),{new_key},{new},{now},1
             WHERE NOT EXISTS(SELECT 1 FROM {versions} WHERE {of_new});
         END;
         CREATE TRIGGER {update} AFTER UPDATE ON {target} {local} BEGIN
           {clock};
           UPDATE {versions} SET {set_key},{set_changed} WHERE {of_old};
         END;
         CREATE TRIGGER {delete} AFTER DELETE ON {target} {local} BEGIN
           {clock};
           UPDATE {versions} SET crr_meta__cl = crr_meta__cl + 1 WHERE {of_old};
         END;
         CREATE TRIGGER {history_insert} AFTER INSERT ON {versions} {local} BEGIN
           INSERT INTO crr_meta__history SELECT '{literal}', NEW.crr_meta__uuid,
             (SELECT site_id FROM crr_meta__site WHERE local), ms, ns FROM crr_meta__clock;
           {state};
         END;
         CREATE TRIGGER {history_update} AFTER UPDATE ON {versions} {local} BEGIN
           UPDATE crr_meta__history SET ms = (SELECT ms FROM crr_meta__clock),
             ns = (SELECT ns FROM crr_meta__clock)
             WHERE tbl = '{literal}' AND row = NEW.crr_meta__uuid
             AND site = (SELECT site_id FROM crr_meta__site WHERE local);
           {state};
         END;",
        insert = name("insert"),
        update = name("update"),
        delete = name("delete"),
        history_insert = name("history_insert"),
        history_update = name("history_update"),
        literal = t.name.replace('\'', "''"),
        state = format_args!(
            "UPDATE crr_meta__site_state SET last_out = {stamp} \
             WHERE site_id = (SELECT site_id FROM crr_meta__site WHERE local)"
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_write_reaches_versions_history_and_state() {
        for keys in [Keys::Indexed, Keys::Scanned] {
            let conn = Connection::open_in_memory().unwrap();
            conn.execute_batch("CREATE TABLE t(id INTEGER PRIMARY KEY, a, b)").unwrap();
            attach(&conn, &["t".to_owned()], keys).unwrap();
            let one = |sql: &str| conn.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
            let length = || one("SELECT crr_meta__cl FROM crr__t");

            conn.execute_batch("INSERT INTO t VALUES(7,1,1)").unwrap();
            assert_eq!((length(), one("SELECT count(*) FROM crr_meta__history")), (1, 1));
            assert!(one("SELECT last_out FROM crr_meta__site_state") > 0);

            let times = || {
                (one("SELECT crr_meta__ts1 FROM crr__t"), one("SELECT crr_meta__ts2 FROM crr__t"))
            };
            let before = times();
            conn.execute_batch("UPDATE t SET a=2").unwrap();
            let after = times();
            assert!(after.0 > before.0 && after.1 == before.1, "{before:?} {after:?}");
            assert_eq!((length(), one("SELECT a FROM crr__t")), (1, 2));

            conn.execute_batch("DELETE FROM t").unwrap();
            assert_eq!(length(), 2);
            conn.execute_batch("INSERT INTO t VALUES(7,3,3)").unwrap();
            assert_eq!((length(), one("SELECT a FROM crr__t")), (3, 3));
            assert_eq!(one("SELECT count(*) FROM crr_meta__history"), 1);
        }
    }
}
