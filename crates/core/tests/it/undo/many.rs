//! Many rows at once.

use super::{historical, now, since};
use crate::site::World;
use std::time::Instant;
use synqlite_core::Verb;

/// Each row that cannot be back is told with what has its key. To look at all records for each of them would
/// take a hundred times as long as to discard them.
#[test]
fn what_cannot_be_taken_back_is_told_in_a_time_that_grows_with_the_rows() {
    const ROWS: usize = 1_000;
    let world = World::new();
    let mut a = historical(&world, "a", "CREATE TABLE t(id INTEGER PRIMARY KEY, u TEXT UNIQUE)");
    let mut b = world.clone_site(&mut a, "b");
    for site in [&a, &b] {
        site.run(&format!(
            "INSERT INTO t(u) WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < {ROWS}) \
             SELECT 'x' || i FROM c"
        ));
        now();
    }
    b.pull(&mut a);
    let open = b.replica.conflicts().unwrap();
    let choices: Vec<_> = open.into_iter().map(|c| (c.id, Verb::Discard)).collect();
    let begun = Instant::now();
    let done = b.replica.settle_conflicts(&choices, false).unwrap();
    let discarded = begun.elapsed();
    assert_eq!(done.settled.len(), ROWS);
    let at = b.replica.log(&synqlite_core::LogQuery::default()).unwrap()[0].at_ms;
    let begun = Instant::now();
    let undone = b.replica.undo(&since(at), true).unwrap();
    let took = begun.elapsed();
    assert_eq!((undone.taken.len(), undone.left.len()), (0, ROWS));
    assert!(took < discarded * 15, "{took:?}, {discarded:?} to discard them");
}
