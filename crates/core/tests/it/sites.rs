//! Sites have names, which their writes bring to others.

use crate::site::{Site, World, settle};
use synqlite_core::rusqlite::params;

const SCHEMA: &str = "CREATE TABLE t(id TEXT PRIMARY KEY, v); INSERT INTO t VALUES('k', 0);";

fn called(at: &Site, of: &Site) -> String {
    at.replica.site_names().unwrap().short(of.replica.site())
}

fn digits(site: &Site) -> String {
    site.replica.site().to_string()[..8].to_owned()
}

#[test]
fn a_name_comes_with_the_first_write() {
    let world = World::new();
    let mut a = world.init("a", SCHEMA);
    let mut b = world.clone_site(&mut a, "b");
    a.replica.set_name("Ann's laptop").unwrap();
    b.replica.set_name("office").unwrap();
    settle(&mut a, &mut b);
    assert_eq!(called(&a, &b), digits(&b), "of a site that wrote nothing there is nothing to tell");
    assert_eq!(called(&b, &b), "office");
    b.run("UPDATE t SET v = 1");
    settle(&mut a, &mut b);
    assert_eq!(called(&a, &b), "office");
    assert_eq!(a.replica.site_names().unwrap().spoken(b.replica.site()), "office");
    let seen = (a.replica.seen().unwrap(), b.replica.seen().unwrap());
    settle(&mut a, &mut b);
    assert_eq!((a.replica.seen().unwrap(), b.replica.seen().unwrap()), seen, "told once");
    b.replica.set_name("home").unwrap();
    settle(&mut a, &mut b);
    assert_eq!(called(&a, &b), "home");
    assert!(a.replica.policies().unwrap().iter().next().is_none(), "a name is no policy");
    assert_eq!(a.replica.verify().unwrap(), [""; 0]);
}

/// What a merge tells stays as it is told.
#[test]
fn what_is_told_goes_by_the_names_that_come_with_it() {
    let world = World::new();
    let mut a = world.init("a", SCHEMA);
    let mut b = world.clone_site(&mut a, "b");
    b.replica.set_name("van").unwrap();
    a.run("UPDATE t SET v = 1");
    b.run("UPDATE t SET v = 2");
    a.pull(&mut b);
    let told = &a.replica.closed_conflicts().unwrap()[0].what;
    assert!(told.contains("van") && !told.contains(&digits(&b)), "{told}");
}

#[test]
fn two_sites_of_one_name_are_told_apart() {
    let world = World::new();
    let mut a = world.init("a", SCHEMA);
    let mut b = world.clone_site(&mut a, "b");
    for site in [&mut a, &mut b] {
        site.replica.set_name("phone").unwrap();
    }
    b.run("UPDATE t SET v = 1");
    settle(&mut a, &mut b);
    assert_eq!(called(&a, &b), format!("phone ({})", digits(&b)));
    assert_eq!(called(&a, &a), format!("phone ({})", digits(&a)));
}

/// A site names itself alone, and whatever it says is shown on one line.
#[test]
fn what_others_say_of_a_site_is_no_name_of_it() {
    let world = World::new();
    let mut a = world.init("a", SCHEMA);
    let mut b = world.clone_site(&mut a, "b");
    for site in [&a, &b] {
        site.run("INSERT INTO t VALUES(hex(randomblob(4)), 1)");
    }
    settle(&mut a, &mut b);
    let sql = "INSERT INTO synqlite_policy SELECT 'site' || char(10) || ?1, ?2, ?3, no \
               FROM synqlite_site WHERE lower(hex(id)) = ?4";
    let (of, by) = (b.replica.site().to_string(), a.replica.site().to_string());
    let name = |of: &str, name: &str| b.app.execute(sql, params![of, name, 1, by]).unwrap();
    name(&of, "mallory");
    assert_eq!(called(&b, &b), digits(&b));
    name(&by, &format!("\u{202e}two\nlines{}", "!".repeat(1_000_000)));
    assert_eq!(called(&b, &a), format!("twolines{}", "!".repeat(56)));
}

#[test]
fn a_name_is_something_that_people_can_read() {
    let world = World::new();
    let mut a = world.init("a", SCHEMA);
    for bad in ["", " ", "two\nlines", &"x".repeat(65)] {
        let error = a.replica.set_name(bad).unwrap_err();
        assert!(error.to_string().contains("1 to 64 characters on one line"), "{error}");
    }
}
