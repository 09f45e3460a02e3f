//! Replicas that an older program made.

use crate::site::{Site, World, settle};

/// Writes the metadata as format 2 had it: the number of a birth with its lowest bits first.
fn make_older(site: &Site) {
    let varint = |mut n: u64| {
        let mut bytes = Vec::new();
        while n >= 0x80 {
            bytes.push(n as u8 | 0x80);
            n >>= 7;
        }
        bytes.push(n as u8);
        bytes
    };
    let older = |rid: &[u8]| match rid[0] {
        kind @ 16..=24 => {
            let (site, n) = rid[1..].split_at(rid.len() - 1 - usize::from(kind - 16));
            let n = n.iter().fold(0, |n, byte| n << 8 | u64::from(*byte));
            [&[1], site, &varint(n)].concat()
        }
        _ => rid.to_vec(),
    };
    for (table, column) in [("row", "rid"), ("row", "winner"), ("reference", "rid")] {
        let sql = format!("SELECT DISTINCT {column} FROM synqlite_{table} WHERE {column} NOTNULL");
        let mut statement = site.app.prepare(&sql).unwrap();
        let rids = statement.query_map([], |row| row.get(0)).unwrap();
        for rid in rids.collect::<Result<Vec<Vec<u8>>, _>>().unwrap() {
            let sql = format!("UPDATE synqlite_{table} SET {column} = ?2 WHERE {column} = ?1");
            site.app.execute(&sql, (&rid, older(&rid))).unwrap();
        }
    }
    site.run("UPDATE synqlite_meta SET value = 2 WHERE key = 'format'");
}

#[test]
fn a_replica_of_format_2_goes_on() {
    let world = World::new();
    let sql = "CREATE TABLE t(id INTEGER PRIMARY KEY, u UNIQUE, p REFERENCES t(id) ON DELETE SET NULL); \
               WITH RECURSIVE n(i) AS (VALUES(0) UNION ALL SELECT i + 1 FROM n WHERE i < 299) \
               INSERT INTO t SELECT i, i, nullif(i / 2, i) FROM n";
    let mut a = world.init("a", sql);
    let mut b = world.clone_site(&mut a, "b");
    a.run("UPDATE t SET u = u + 1000 WHERE id % 3 = 0; INSERT INTO t VALUES(1000, 'x', 9)");
    b.run("DELETE FROM t WHERE id % 7 = 0; INSERT INTO t VALUES(1001, 'x', 9)");
    settle(&mut a, &mut b);
    for site in [&mut a, &mut b] {
        make_older(site);
        let older = "SELECT count(*) FROM synqlite_row WHERE rid >= x'01' AND rid < x'02'";
        assert!(site.row(older).parse::<u32>().unwrap() > 100);
    }
    drop((a, b));
    let (mut a, mut b) = (world.open("a"), world.open("b"));
    for site in [&a, &b] {
        site.check();
        assert_eq!(site.row("SELECT value FROM synqlite_meta WHERE key = 'format'"), "3");
    }
    a.run("UPDATE t SET u = u + 5000 WHERE id % 2 = 0; DELETE FROM t WHERE u = 'x'");
    b.run("UPDATE t SET p = 1 WHERE id % 5 = 0");
    settle(&mut a, &mut b);
    assert_eq!(a.rows("SELECT * FROM t"), b.rows("SELECT * FROM t"));
    let both = "SELECT count(*) FROM t WHERE id < 1000 AND id % 10 = 0 AND p = 1 AND u >= 5000";
    assert_eq!(a.row(both), "25");
    [&a, &b].iter().for_each(|site| site.check());
}
