//! R-TOLD: a row that gets another number is told by both, on every site.

use crate::site::{Site, World, settle};

const SCHEMA: &str = "CREATE TABLE customer(id INTEGER PRIMARY KEY, name);
    CREATE TABLE invoice(id INTEGER PRIMARY KEY, customer INTEGER REFERENCES customer(id));
    INSERT INTO customer VALUES(1, 'z');";

/// Rows that are told to have another number: table, the old one, the new one.
fn told(site: &Site) -> Vec<(String, i64, i64)> {
    let closed = site.replica.closed_conflicts().unwrap();
    let mut told: Vec<_> = closed
        .iter()
        .filter_map(|c| c.renumbered().map(|(was, is)| (c.table.clone(), was, is)))
        .collect();
    told.sort();
    told
}

#[test]
fn r_told_a_renumbering_is_told_on_every_site_by_old_and_new_number() {
    let world = World::new();
    let mut a = world.init("a", SCHEMA);
    let [mut b, mut c] = ["b", "c"].map(|name| world.clone_site(&mut a, name));
    a.run("INSERT INTO customer VALUES(2, 'Ann')");
    b.run("INSERT INTO customer VALUES(2, 'Bob'); INSERT INTO invoice VALUES(9, 2)");
    let want = [("customer".to_owned(), 2, 3)];
    settle(&mut a, &mut b);
    assert_eq!((told(&a), told(&b)), (want.to_vec(), want.to_vec()));
    // It comes with the row that has the number, also where nobody ever showed the old one.
    settle(&mut c, &mut b);
    assert_eq!(told(&c), want);
    for site in [&a, &b, &c] {
        let row = site.row("SELECT c.id, name FROM invoice JOIN customer c ON c.id = customer");
        assert_eq!(row, "3|Bob");
    }
    settle(&mut a, &mut c);
    for site in [&a, &b, &c] {
        assert_eq!(told(site), want, "once");
    }
}

#[test]
fn r_told_a_number_that_a_user_changed_is_no_renumbering() {
    let world = World::new();
    let mut a = world.init("a", SCHEMA);
    let mut b = world.clone_site(&mut a, "b");
    a.run("UPDATE customer SET id = 7");
    settle(&mut a, &mut b);
    assert_eq!(b.rows("SELECT id FROM customer"), ["7"]);
    assert_eq!((told(&a), told(&b)), (vec![], vec![]));
}
