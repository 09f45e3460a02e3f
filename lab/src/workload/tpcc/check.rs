//! Consistency conditions 1 to 4 of TPC-C (3.3.2). A run that breaks one has no result.

use crate::engine::Engine;
use crate::{Error, Result};
use rusqlite::Connection;

/// (number of the condition, what it says, query of the places that break it).
const CONDITIONS: [(u32, &str, &str); 4] = [
    (
        1,
        "a warehouse's takings are the sum of its districts'",
        "SELECT w_id, 0 FROM warehouse JOIN district ON d_w_id=w_id \
         GROUP BY w_id HAVING w_ytd<>sum(d_ytd)",
    ),
    (
        2,
        "a district's next order follows its latest, in ORDERS and NEW_ORDER",
        "SELECT d_w_id, d_id FROM district WHERE \
         d_next_o_id-1<>(SELECT max(o_id) FROM orders WHERE o_w_id=d_w_id AND o_d_id=d_id) \
         OR d_next_o_id-1<>(SELECT max(no_o_id) FROM new_order WHERE no_w_id=d_w_id AND no_d_id=d_id)",
    ),
    (
        3,
        "a district's undelivered orders have no gap",
        "SELECT no_w_id, no_d_id FROM new_order GROUP BY no_w_id, no_d_id \
         HAVING max(no_o_id)-min(no_o_id)+1<>count(*)",
    ),
    (
        4,
        "a district has as many order lines as its orders say",
        "SELECT d_w_id, d_id FROM district WHERE \
         (SELECT sum(o_ol_cnt) FROM orders WHERE o_w_id=d_w_id AND o_d_id=d_id)<> \
         (SELECT count(*) FROM order_line WHERE ol_w_id=d_w_id AND ol_d_id=d_id)",
    ),
];

pub fn check(conn: &Connection, engine: Engine) -> Result<()> {
    for (condition, says, sql) in CONDITIONS {
        let mut statement = conn.prepare(sql)?;
        let mut rows = statement.query([])?;
        if let Some(row) = rows.next()? {
            let (w, d): (i64, i64) = (row.get(0)?, row.get(1)?);
            let detail = format!("{says}, which does not hold in warehouse {w}, district {d}");
            return Err(Error::Inconsistent { engine: engine.to_string(), condition, detail });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::database::Database;
    use crate::meter::Meter;
    use crate::params::Settings;
    use crate::workload::Workload;
    use crate::workload::tpcc::{Length, Tpcc};

    #[test]
    fn a_run_keeps_every_condition_and_each_is_noticed_when_broken() {
        let length = Length::Transactions(60);
        let tpcc = Tpcc { warehouses: 2, scale: 100, length, fold_after_load: false };
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t.db");
        let engine = Engine::Plain;
        let settings = Settings::default().with("foreign_keys", "off");
        let mut db = Database::create(&path, engine, &settings, &tpcc.schema()).unwrap();
        tpcc.run(&mut db, 7, &mut Meter::default()).unwrap();
        for (condition, damage) in [
            (1, "UPDATE warehouse SET w_ytd=w_ytd+1 WHERE w_id=2"),
            (2, "UPDATE district SET d_next_o_id=d_next_o_id+1 WHERE d_id=3 AND d_w_id=1"),
            (
                3,
                "DELETE FROM new_order WHERE no_d_id=4 AND no_o_id=(SELECT min(no_o_id)+1 \
                 FROM new_order WHERE no_d_id=4 AND no_w_id=1)",
            ),
            (4, "DELETE FROM order_line WHERE ol_d_id=5 AND ol_o_id=1 AND ol_number=1"),
        ] {
            db.conn.execute_batch("SAVEPOINT s").unwrap();
            assert!(db.conn.execute(damage, []).unwrap() > 0, "{damage}");
            let error = check(&db.conn, engine).unwrap_err().to_string();
            assert!(error.contains(&format!("condition {condition} ")), "{error}");
            db.conn.execute_batch("ROLLBACK TO s; RELEASE s").unwrap();
        }
        check(&db.conn, engine).unwrap();
    }
}
