//! R-TOLD: a row that gets another number is told by both, on every site. And what becomes of the numbers of
//! hidden rows (R-REF, R-COMP).

use crate::site::{Site, World, settle};
use synqlite_core::Verb;
use synqlite_wire::Hlc;

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

#[test]
fn r_pin_who_only_reads_shows_what_all_show() {
    let world = World::new();
    let mut a = world.init("a", SCHEMA);
    let [mut b, mut c, mut reader] =
        ["b", "c", "reader"].map(|name| world.clone_site(&mut a, name));
    a.run("INSERT INTO customer VALUES(2, 'Ann')");
    b.run("INSERT INTO customer VALUES(2, 'Bob')");
    c.run("INSERT INTO customer VALUES(3, 'Cid')");
    reader.pull(&mut a);
    reader.pull(&mut b);
    // As a synchronization does that means to send, and may not.
    reader.replica.fold().unwrap();
    b.pull(&mut a);
    b.pull(&mut c);
    settle(&mut a, &mut b);
    reader.pull(&mut c);
    reader.pull(&mut a);
    let rows = "SELECT * FROM customer ORDER BY id";
    assert_eq!(reader.rows(rows), a.rows(rows));
    assert_eq!(
        reader.replica.seen().unwrap().get(reader.replica.site()),
        Hlc(0),
        "it wrote nothing"
    );
}

/// Customers that share no key `k`, and invoices whose reference to them nothing keeps. Of two customers with
/// one number and one key `b` has the later one, and an invoice of it.
fn hidden_customer(world: &World, reference: &str, policy: &str) -> [Site; 2] {
    let schema = format!(
        "CREATE TABLE c(id INTEGER PRIMARY KEY, k TEXT UNIQUE, name);
         CREATE TABLE d(id INTEGER PRIMARY KEY, c INT {reference});"
    );
    let mut a = world.init("a", &schema);
    a.replica.set_policies(&[policy.parse().unwrap()]).unwrap();
    let mut b = world.clone_site(&mut a, "b");
    a.run("INSERT INTO c VALUES(3, 'K', 'Ann')");
    b.run("INSERT INTO c VALUES(3, 'K', 'Bob'); INSERT INTO d VALUES(1, 3)");
    settle(&mut a, &mut b);
    [a, b]
}

#[test]
fn r_ref_a_reference_to_a_hidden_row_does_not_show_a_number_that_another_row_has() {
    for (reference, policy) in [("", "d.refs=c:c"), ("REFERENCES c(id)", "fk=ignore")] {
        let world = World::new();
        for site in hidden_customer(&world, reference, policy) {
            assert_eq!(site.row("SELECT group_concat(name), (SELECT c FROM d) FROM c"), "Ann|NULL");
        }
    }
}

#[test]
fn r_ref_a_number_is_withheld_as_long_as_another_row_has_it() {
    let world = World::new();
    let [mut a, mut b] = hidden_customer(&world, "", "d.refs=c:c");
    a.run("UPDATE c SET id = 7");
    settle(&mut a, &mut b);
    for site in [&a, &b] {
        assert_eq!(site.row("SELECT c FROM d"), "3", "nobody has it");
    }
    b.run("INSERT INTO c VALUES(3, 'M', 'Mia')");
    b.replica.fold().unwrap();
    assert_eq!(b.row("SELECT c FROM d"), "NULL", "it is Mia's now");
    settle(&mut a, &mut b);
    a.run("UPDATE c SET k = 'L' WHERE name = 'Ann'");
    settle(&mut a, &mut b);
    for site in [&a, &b] {
        let row = site.row("SELECT name, d.c FROM d JOIN c ON c.id = d.c");
        assert_eq!(row, "Bob|8", "who is back with another number");
    }
}

#[test]
fn r_ref_a_number_that_may_not_be_null_is_shown_whoever_has_it() {
    let world = World::new();
    let [a, b] = hidden_customer(&world, "NOT NULL", "d.refs=c:c");
    for site in [&a, &b] {
        assert_eq!(site.row("SELECT c FROM d"), "3");
    }
}

#[test]
fn r_comp_what_a_user_settles_comes_back_under_a_number_that_is_free() {
    let world = World::new();
    let schema = "CREATE TABLE g(id INTEGER PRIMARY KEY);
        CREATE TABLE c(id INTEGER PRIMARY KEY, g INT REFERENCES g ON DELETE CASCADE, k);
        INSERT INTO g VALUES(1), (2);";
    let mut a = world.init("a", schema);
    let mut b = world.clone_site(&mut a, "b");
    b.run("INSERT INTO c VALUES(1, 1, 'x'), (2, 1, 'y')");
    a.run("DELETE FROM g WHERE id = 1");
    settle(&mut a, &mut b);
    a.run("INSERT INTO c(g, k) VALUES(2, 'mine'), (2, 'too')");
    settle(&mut a, &mut b);
    let open = a.replica.conflicts().unwrap();
    let all: Vec<_> = open.into_iter().map(|c| (c.id, Verb::Restore)).collect();
    assert_eq!(a.replica.settle_conflicts(&all, false).unwrap().open, 0);
    a.check();
    settle(&mut a, &mut b);
    for site in [&a, &b] {
        let rows = site.rows("SELECT id, k FROM c ORDER BY id");
        assert_eq!(rows, ["1|mine", "2|too", "3|x", "4|y"]);
    }
}
