//! Tables that are dropped and made again (R-MIG-REBUILD).

use crate::migrate::{agree, pair};
use crate::site::{World, settle};

/// Two sites drop a table and fill it anew. What they fill in has nothing to do with what was there, nor
/// with what the other fills in.
#[test]
fn mig_rebuild_a_table_that_is_dropped_and_filled_anew() {
    let tables = [
        "CREATE TABLE t(k TEXT PRIMARY KEY, c, d)",
        "CREATE TABLE t(k TEXT PRIMARY KEY, e INTEGER NOT NULL DEFAULT 3, d TEXT)",
        "CREATE TABLE t(k, c, d)",
    ];
    for (noted, made) in tables.iter().flat_map(|made| [(false, made), (true, made)]) {
        let world = World::new();
        let first = if made.contains("PRIMARY KEY") { tables[0] } else { tables[2] };
        let sql = format!("{first}; INSERT INTO t VALUES('x', 5, 6), ('y', 1, 2)");
        let (mut a, mut b) = pair(&world, &sql);
        let again = format!("DROP TABLE t; {made}");
        for (site, row) in [(&mut a, "('a', 10, 11)"), (&mut b, "('b', 20, 21)")] {
            site.run(&again);
            if noted {
                site.replica.fold().unwrap();
            }
            site.run(&format!("INSERT INTO t VALUES{row}"));
        }
        settle(&mut a, &mut b);
        for site in [&a, &b] {
            assert_eq!(site.rows("SELECT * FROM t ORDER BY k"), ["a|10|11", "b|20|21"], "{made}");
        }
        agree(&mut [&mut a, &mut b]);
    }
}
