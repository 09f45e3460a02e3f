//! Rows that were kept for the sake of others although deleted (R-PROTECT), and live again.

use super::{historical, now, of_row, since, undo};
use crate::site::{World, settle};
use synqlite_core::Verb;

/// Two sites: a tag that one has deleted is kept for what another has tagged with it.
fn kept(world: &World) -> (crate::site::Site, crate::site::Site) {
    let sql = "CREATE TABLE tag(id INTEGER PRIMARY KEY, name TEXT);
         CREATE TABLE tagged(id INTEGER PRIMARY KEY, tag INT REFERENCES tag(id) ON DELETE RESTRICT);
         INSERT INTO tag VALUES(6, 'red')";
    let mut a = historical(world, "a", sql);
    let mut b = world.clone_site(&mut a, "b");
    b.run("INSERT INTO tagged VALUES(1, 6)");
    a.run("DELETE FROM tag");
    settle(&mut a, &mut b);
    assert_eq!(a.replica.conflicts().unwrap().len(), 1);
    (a, b)
}

#[test]
fn a_row_that_lives_again_and_is_deleted_is_back() {
    for restored in [false, true] {
        let world = World::new();
        let (mut a, mut b) = kept(&world);
        if restored {
            let id = a.replica.conflicts().unwrap()[0].id.clone();
            a.replica.settle_conflict(&id, Verb::Restore).unwrap();
        }
        now();
        a.run("DELETE FROM tagged");
        a.replica.fold().unwrap();
        assert_eq!(a.rows("SELECT * FROM tag"), ["6|red"]);
        let t = now();
        a.run("DELETE FROM tag");
        for what in [since(t), of_row("tag", "6")] {
            assert_eq!(undo(&mut a, &what), ["tag 6 delete"], "{restored}");
            assert_eq!(a.rows("SELECT * FROM tag"), ["6|red"], "{restored}");
            a.run("DELETE FROM tag");
        }
        undo(&mut a, &of_row("tag", "6"));
        settle(&mut a, &mut b);
        assert_eq!(b.rows("SELECT * FROM tag"), ["6|red"], "{restored}");
    }
}

/// Whoever brings a row back sees what it showed. What was written to it elsewhere, and had been lost with it, is
/// shown in the place of that after a merge, and that is told here. The other site has lost what it never showed.
#[test]
fn what_a_row_shows_again_gives_way_by_a_word() {
    let world = World::new();
    let sql = "CREATE TABLE note(id INTEGER PRIMARY KEY, t); INSERT INTO note VALUES(1, 'old')";
    let mut a = world.init("a", sql);
    let mut b = world.clone_site(&mut a, "b");
    let t = now();
    b.run("UPDATE note SET t = 'of b'; DELETE FROM note");
    b.replica.fold().unwrap();
    a.run("UPDATE note SET t = 'of a'");
    a.pull(&mut b);
    now();
    undo(&mut b, &since(t));
    assert_eq!(b.rows("SELECT t FROM note"), ["of b"]);
    settle(&mut a, &mut b);
    for site in [&a, &b] {
        assert_eq!(site.rows("SELECT t FROM note"), ["of a"]);
    }
    let closed = b.replica.closed_conflicts().unwrap();
    assert!(closed.iter().any(|c| c.what.contains("'of b'")), "{closed:?}");
}
