//! Conflicts are settled many at once.

use crate::site::{Site, World};
use synqlite_core::{Value, Verb};

const SCHEMA: &str = "CREATE TABLE u(id TEXT PRIMARY KEY, email UNIQUE);
    CREATE TABLE p(id TEXT PRIMARY KEY);
    CREATE TABLE c(id TEXT PRIMARY KEY, p TEXT REFERENCES p(id) ON DELETE CASCADE);
    INSERT INTO u VALUES('f', 'f@'); INSERT INTO p VALUES('P');";

fn meet(a: &mut Site, b: &mut Site) {
    a.pull(b);
    b.pull(a);
    a.pull(b);
}

/// Three rows of `b` want what rows of `a` have, one of them by an update; two refer to a deleted row.
fn in_conflict(world: &World) -> (Site, Site) {
    let mut a = world.init("a", SCHEMA);
    let mut b = world.clone_site(&mut a, "b");
    a.run("INSERT INTO u VALUES('a1', '1@'), ('a2', '2@'), ('a3', '3@'); DELETE FROM p");
    b.run(
        "INSERT INTO u VALUES('b1', '1@'), ('b2', '2@'); UPDATE u SET email = '3@' WHERE id = 'f';
           INSERT INTO c VALUES('c1', 'P'), ('c2', 'P')",
    );
    meet(&mut a, &mut b);
    (a, b)
}

fn ids(site: &Site, kinds: &[&str]) -> Vec<String> {
    let open = site.replica.conflicts().unwrap();
    let wanted = open.into_iter().filter(|c| kinds.contains(&c.kind.as_str()));
    wanted.map(|c| c.id).collect()
}

#[test]
fn many_are_settled_at_once() {
    let world = World::new();
    let (mut a, mut b) = in_conflict(&world);
    let all: Vec<_> =
        ids(&b, &["unique", "fallback"]).into_iter().map(|id| (id, Verb::Prefer)).collect();
    assert_eq!(all.len(), 3);
    let done = b.replica.settle_conflicts(&all, false).unwrap();
    assert_eq!((done.settled.len(), done.refused.len()), (3, 0));
    let aside: Vec<&str> = done.opened.iter().map(|c| c.row.as_str()).collect();
    assert_eq!(aside, ["'a1'", "'a2'", "'a3'"], "who has to step aside is told");
    // Of the two that hang on one deleted row one asks.
    assert_eq!(done.open, 4);
    b.check();
    meet(&mut a, &mut b);
    for site in [&a, &b] {
        assert_eq!(site.rows("SELECT id FROM u ORDER BY id"), ["b1", "b2", "f"]);
    }
}

#[test]
fn what_goes_with_another_is_settled_too() {
    let world = World::new();
    let (mut a, mut b) = in_conflict(&world);
    let both: Vec<_> = ids(&b, &["fk_cascade"]).into_iter().map(|id| (id, Verb::Restore)).collect();
    assert_eq!(both.len(), 2);
    let done = b.replica.settle_conflicts(&both, false).unwrap();
    assert_eq!((done.settled.len(), done.refused), (2, vec![]));
    meet(&mut a, &mut b);
    assert_eq!(a.rows("SELECT id FROM c ORDER BY id"), ["c1", "c2"]);
    let how = b.replica.closed_conflicts().unwrap();
    assert_eq!(how.iter().filter(|c| c.how.name() == "restore").count(), 2);
}

#[test]
fn one_that_is_refused_leaves_the_others_alone() {
    let world = World::new();
    let (_, mut b) = in_conflict(&world);
    let (unique, fallback) = (ids(&b, &["unique"]), ids(&b, &["fallback"]));
    let discard = |id: &String| (id.clone(), Verb::Discard);
    let seen = b.replica.seen().unwrap();
    let nothing = b.replica.settle_conflicts(&[discard(&fallback[0])], false).unwrap();
    assert_eq!((nothing.settled.len(), nothing.refused.len(), nothing.open), (0, 1, 4));
    assert_eq!(b.replica.seen().unwrap(), seen, "what settles nothing gives no stamp");
    let choices = [discard(&unique[0]), discard(&fallback[0]), discard(&"zz".to_owned())];
    let done = b.replica.settle_conflicts(&choices, false).unwrap();
    assert_eq!(done.settled, unique[..1]);
    let refused: Vec<&str> = done.refused.iter().map(|(id, _)| id.as_str()).collect();
    assert_eq!(refused, ["zz", &*fallback[0]]);
    assert_eq!(ids(&b, &["unique"]), unique[1..]);
    b.check();
}

#[test]
fn a_dry_run_tells_and_changes_nothing() {
    let world = World::new();
    let (mut a, mut b) = in_conflict(&world);
    b.run("UPDATE u SET id = 'f2' WHERE id = 'f'");
    let digest = |site: &Site| site.replica.digest().unwrap().digest;
    let (before, open) = (digest(&b), ids(&b, &["unique"]));
    let choices: Vec<_> = open.iter().map(|id| (id.clone(), Verb::Prefer)).collect();
    let told = b.replica.settle_conflicts(&choices, true).unwrap();
    assert_eq!((told.settled.len(), told.opened.len()), (2, 2));
    assert_eq!((digest(&b), ids(&b, &["unique"])), (before, open));
    let done = b.replica.settle_conflicts(&choices, false).unwrap();
    assert_eq!((done.settled, done.open), (told.settled, told.open));
    meet(&mut a, &mut b);
    assert_eq!(digest(&a), digest(&b));
    assert_eq!(b.replica.verify().unwrap(), [""; 0]);
}

#[test]
fn advice_tells_what_a_policy_would_have_spared() {
    let world = World::new();
    let schema = "CREATE TABLE tag(id INTEGER PRIMARY KEY, name TEXT UNIQUE);
        CREATE TABLE note(id TEXT PRIMARY KEY, tag INTEGER REFERENCES tag(id) ON DELETE CASCADE);
        CREATE TABLE stock(id TEXT PRIMARY KEY, n INTEGER, name TEXT);
        INSERT INTO stock VALUES('rope', 9, ''), ('saw', 9, '')";
    let mut a = world.init("a", schema);
    let mut b = world.clone_site(&mut a, "b");
    for (site, name, sold) in [(&a, "a", 1), (&b, "b", 2)] {
        site.run(&format!(
            "INSERT INTO tag(name) VALUES('red'); INSERT INTO note SELECT '{name}', id FROM tag;
             UPDATE stock SET n = n - {sold}, name = '{name}' WHERE id = 'rope'"
        ));
    }
    a.run("DELETE FROM stock WHERE id = 'saw'");
    b.run("UPDATE stock SET n = 3 WHERE id = 'saw'");
    meet(&mut a, &mut b);
    let before = (b.replica.digest().unwrap().digest, b.replica.conflicts().unwrap().len());
    let open = b.replica.open_conflicts().unwrap();
    let told: Vec<(String, u64, u64)> = b
        .replica
        .advice()
        .unwrap()
        .into_iter()
        .map(|advice| (advice.policy.to_string(), advice.open, advice.told))
        .collect();
    let want =
        [("tag.on_unique=unify", 1, 0), ("stock.delete=last", 0, 1), ("stock.n=counter", 0, 1)];
    assert_eq!(told, want.map(|(policy, open, told)| (policy.to_owned(), open, told)));
    let after = (b.replica.digest().unwrap().digest, b.replica.conflicts().unwrap().len());
    assert_eq!(after, before, "nothing is changed by trying");
    assert_eq!(b.replica.verify().unwrap(), [""; 0]);
    let unify = synqlite_core::Policy::new("tag.on_unique", "unify").unwrap();
    b.replica.set_policies(&[unify]).unwrap();
    assert_eq!(b.replica.open_conflicts().unwrap(), open - 1, "as was told");
}

/// Who settled a record elsewhere is told where it closes by a merge, and what that was.
#[test]
fn a_record_that_closes_elsewhere_tells_who_did_what() {
    let world = World::new();
    let (mut a, mut b) = in_conflict(&world);
    a.run("INSERT INTO u VALUES('a5', '5@'), ('a6', '6@')");
    b.run("INSERT INTO u VALUES('b5', '5@'), ('b6', '6@')");
    meet(&mut a, &mut b);
    let row = |site: &Site, row: &str, verb: Verb| {
        let open = site.replica.conflicts().unwrap();
        let found = open.into_iter().find(|c| c.row == row);
        (found.unwrap_or_else(|| panic!("{row} is not open")).id, verb)
    };
    let choices = [
        row(&b, "'b1'", Verb::Discard),
        row(&b, "'b2'", Verb::Prefer),
        row(&b, "'f'", Verb::Accept),
    ];
    let restored = row(&b, "'c1'", Verb::Restore);
    b.replica.settle_conflicts(&choices, false).unwrap();
    b.replica.settle_conflicts(&[restored], false).unwrap();
    b.run("UPDATE u SET email = '7@' WHERE id = 'a5'; DELETE FROM u WHERE id = 'a6'");
    a.pull(&mut b);
    let closed = a.replica.closed_conflicts().unwrap();
    let became = |row: &str| {
        let found = closed.iter().find(|c| c.was_open && c.row == row);
        found.and_then(|c| c.became.clone()).unwrap_or_else(|| panic!("{row}: {closed:?}"))
    };
    let open = a.replica.conflicts().unwrap();
    let behind = open.iter().find(|c| c.row == "'a2'").unwrap().put_behind.unwrap();
    assert_eq!(behind.0, b.replica.site(), "who decided against it");
    let b = format!("site {}", b.replica.site().to_string().get(..8).unwrap());
    assert_eq!(became("'b1'"), format!("the row was deleted at {b}"));
    assert_eq!(became("'b2'"), format!("the row was preferred to row 'a2' (“2@”) at {b}"));
    assert_eq!(became("'f'"), format!("the row was written at {b}"));
    assert_eq!(became("'b5'"), format!("row 'a5' (“7@”) was written at {b}"));
    assert_eq!(became("'b6'"), format!("row 'a6' (“6@”) was deleted at {b}"));
    assert_eq!(became("'c1'"), format!("what it refers to was brought back at {b}"));
}

/// The question of a deleted row names that row, who deleted it, what it held and what needs it.
#[test]
fn a_record_of_a_deleted_row_says_which_and_what_needs_it() {
    let world = World::new();
    let mut a = world.init(
        "a",
        "CREATE TABLE p(id TEXT PRIMARY KEY, name, note);
         CREATE TABLE hid(id TEXT PRIMARY KEY, p REFERENCES p(id) ON DELETE CASCADE);
         CREATE TABLE bill(id TEXT PRIMARY KEY, p REFERENCES p(id));
         INSERT INTO p VALUES('gone', 'Ann', 'n'), ('kept', 'Bob', 'm')",
    );
    let mut b = world.clone_site(&mut a, "b");
    a.run("DELETE FROM p");
    b.run(
        "INSERT INTO hid VALUES('h', 'gone');
         INSERT INTO bill VALUES('1', 'kept'), ('2', 'kept'), ('3', 'kept'), ('4', 'kept'), ('5', 'kept')",
    );
    meet(&mut a, &mut b);
    for site in [&a, &b] {
        let open = site.replica.conflicts().unwrap();
        let of =
            |row: &str| open.iter().find(|c| c.row == row).unwrap_or_else(|| panic!("{open:?}"));
        let gone = of("'h'").deleted.as_ref().unwrap();
        assert_eq!((&*gone.table, &*gone.row, gone.name.as_deref()), ("p", "'gone'", Some("Ann")));
        assert_eq!(gone.by.map(|(by, _)| by), Some(a.replica.site()));
        assert_eq!(gone.values[2], ("note".into(), Value::Text("n".into())));
        let kept = of("'kept'");
        assert_eq!(kept.deleted.as_ref().unwrap().by.map(|(by, _)| by), Some(a.replica.site()));
        assert_eq!(kept.deleted.as_ref().unwrap().name.as_deref(), Some("Bob"));
        let needed: Vec<&str> = kept.needed_by.iter().map(|n| &*n.row).collect();
        assert_eq!((needed, kept.needed), (vec!["'1'", "'2'", "'3'"], 5));
    }
}

/// A hidden row that another one needs is not discarded before that, and nobody is told that it was.
#[test]
fn what_another_row_keeps_is_not_discarded() {
    let world = World::new();
    let schema = "CREATE TABLE t(a INTEGER PRIMARY KEY, b REFERENCES t, e REFERENCES t)";
    let mut site = world.init("a", schema);
    site.run(
        "PRAGMA foreign_keys = OFF; INSERT INTO t VALUES(3, 'w', NULL), (4, 'v', 'd'), (10, 4, 3)",
    );
    site.replica.fold().unwrap();
    let id = |site: &Site, row: &str| {
        let conflicts = site.replica.conflicts().unwrap();
        conflicts.into_iter().find(|c| c.row == row).map(|c| c.id)
    };
    let (three, ten) = (id(&site, "3").unwrap(), id(&site, "10").unwrap());
    let told = site.replica.settle_conflict(&three, Verb::Discard).unwrap_err().to_string();
    assert!(told.contains("another row refers to it"), "{told}");
    assert_eq!(id(&site, "3").as_ref(), Some(&three));
    let both = [(three.clone(), Verb::Discard), (ten.clone(), Verb::Discard)];
    let done = site.replica.settle_conflicts(&both, false).unwrap();
    assert!(done.refused.is_empty(), "{:?}", done.refused);
    assert_eq!(done.settled.len(), 2);
    assert_eq!((id(&site, "3"), id(&site, "10")), (None, None));
    assert_eq!(site.replica.verify_full().unwrap(), [""; 0]);
}

/// Who prefers a row means that row, however many have earlier claims.
#[test]
fn a_row_that_is_preferred_passes_all_that_are_before_it() {
    for schema in ["id TEXT PRIMARY KEY, e UNIQUE", "id TEXT PRIMARY KEY, e UNIQUE, f UNIQUE"] {
        let world = World::new();
        let mut a = world.init("a", &format!("CREATE TABLE t({schema})"));
        let mut sites = vec![world.clone_site(&mut a, "b"), world.clone_site(&mut a, "c")];
        sites.insert(0, a);
        for (n, site) in sites.iter_mut().enumerate() {
            site.run(&format!("INSERT INTO t(id, e) VALUES('{n}', 'x')"));
            site.replica.fold().unwrap();
        }
        let [a, b, c] = &mut sites[..] else { unreachable!() };
        for _ in 0..2 {
            meet(a, b);
            meet(b, c);
        }
        let of = |site: &Site, row: &str| {
            let open = site.replica.conflicts().unwrap();
            open.into_iter().find(|c| c.row == row).unwrap().id
        };
        // Of two that are preferred at once one cannot have its way, and is told so.
        let both = ["'1'", "'2'"].map(|row| (of(c, row), Verb::Prefer));
        let would = c.replica.settle_conflicts(&both, true).unwrap();
        assert_eq!((would.settled.len(), would.refused.len()), (1, 1));
        let third = of(c, "'2'");
        let done = c.replica.settle_conflicts(&[(third, Verb::Prefer)], false).unwrap();
        assert_eq!((done.settled.len(), done.open), (1, 2));
        for _ in 0..2 {
            meet(b, c);
            meet(a, b);
        }
        for site in [a, b, c] {
            assert_eq!(site.rows("SELECT id FROM t"), ["2"]);
            site.check();
        }
    }
}

/// What was deleted below something that was deleted too comes back with it.
#[test]
fn a_restored_row_brings_back_what_it_needs() {
    for (action, rows) in [("CASCADE", "x|2"), ("SET NULL", "x|2")] {
        let world = World::new();
        let mut a = world.init(
            "a",
            &format!(
                "CREATE TABLE l(id INTEGER PRIMARY KEY, up REFERENCES l(id) ON DELETE CASCADE);
                 CREATE TABLE t(k TEXT PRIMARY KEY, l REFERENCES l(id) ON DELETE {action});
                 INSERT INTO l VALUES(1, NULL), (2, 1), (3, 2)"
            ),
        );
        let mut b = world.clone_site(&mut a, "b");
        a.run("DELETE FROM l WHERE id = 3; DELETE FROM l WHERE id = 2; DELETE FROM l WHERE id = 1");
        b.run("INSERT INTO t VALUES('x', 2)");
        meet(&mut a, &mut b);
        let id = b.replica.conflicts().unwrap().remove(0).id;
        let done = b.replica.settle_conflicts(&[(id, Verb::Restore)], false).unwrap();
        assert_eq!((done.settled.len(), done.open), (1, 0), "{action}");
        meet(&mut a, &mut b);
        for site in [&mut a, &mut b] {
            assert_eq!(site.rows("SELECT id FROM l"), ["1", "2"], "{action}");
            assert_eq!(site.rows("SELECT k, l FROM t"), [rows], "{action}");
            site.check();
        }
    }
}

/// What is refused changes nothing, so it says nothing either of what would have been.
#[test]
fn what_is_refused_leaves_the_count_alone() {
    let world = World::new();
    let sql = "CREATE TABLE tag(id INTEGER PRIMARY KEY, name TEXT UNIQUE); \
               CREATE TABLE note(id INTEGER PRIMARY KEY, tag INTEGER REFERENCES tag(id)); \
               INSERT INTO tag VALUES(3, 'green')";
    let mut a = world.init("a", sql);
    let mut b = world.clone_site(&mut a, "b");
    a.run("DELETE FROM tag; INSERT INTO tag VALUES(10, 'green')");
    b.run("INSERT INTO note VALUES(1, 3)");
    meet(&mut a, &mut b);
    let [asked] = &ids(&b, &["unique"])[..] else { panic!("one is hidden") };
    b.replica.settle_conflict(asked, Verb::Prefer).unwrap();
    let open = ids(&b, &["unique", "fk_parent_hidden"]);
    let choices: Vec<_> = open.iter().map(|id| (id.clone(), Verb::Restore)).collect();
    let done = b.replica.settle_conflicts(&choices, false).unwrap();
    let why = |(_, why): &(String, String)| why == "something else stands in its way too";
    assert!(done.settled.is_empty() && done.refused.len() == 2, "{done:?}");
    assert!(done.refused.iter().all(why), "{:?}", done.refused);
    assert_eq!((done.open, done.opened.len()), (b.replica.open_questions().unwrap(), 0));
}

/// What SET NULL or SET DEFAULT would put in place of a reference may not fit: then too it is the deleted row that is
/// missing, and may be brought back.
#[test]
fn a_row_that_cannot_do_without_a_deleted_one_says_so() {
    let world = World::new();
    let sql = "CREATE TABLE list(name TEXT PRIMARY KEY); INSERT INTO list VALUES('L3'), ('L4'); \
               CREATE TABLE must(id INTEGER PRIMARY KEY, \
                                 list TEXT NOT NULL REFERENCES list(name) ON DELETE SET NULL); \
               CREATE TABLE sd(id INTEGER PRIMARY KEY, \
                               list TEXT DEFAULT 'none' REFERENCES list(name) ON DELETE SET DEFAULT)";
    let mut a = world.init("a", sql);
    let mut b = world.clone_site(&mut a, "b");
    a.run("DELETE FROM list");
    b.run("INSERT INTO must VALUES(1, 'L3'); INSERT INTO sd VALUES(1, 'L4')");
    meet(&mut a, &mut b);
    let open = b.replica.conflicts().unwrap();
    let gone = |c: &synqlite_core::Conflict| c.deleted.as_ref().map(|gone| gone.row.clone());
    let gone: Vec<_> = open.iter().map(|c| (c.kind.as_str().to_owned(), gone(c))).collect();
    let want = [("row_constraint", "'L3'"), ("fk_dangling", "'L4'")];
    assert_eq!(gone, want.map(|(kind, row)| (kind.to_owned(), Some(row.to_owned()))));
    for conflict in &open {
        b.replica.settle_conflict(&conflict.id, Verb::Restore).unwrap();
    }
    meet(&mut a, &mut b);
    assert_eq!(a.rows("SELECT list FROM must UNION ALL SELECT list FROM sd"), ["L3", "L4"]);
}

/// Lists with notes, and lines below these; the list is deleted at `a` while `b` writes to it, and inserted again at `a`.
fn in_a_former_life(world: &World, there: &str) -> (Site, Site) {
    let sql = "CREATE TABLE list(name TEXT PRIMARY KEY); INSERT INTO list VALUES('food'); \
               CREATE TABLE note(id INTEGER PRIMARY KEY, list TEXT REFERENCES list(name) ON DELETE CASCADE); \
               CREATE TABLE line(id INTEGER PRIMARY KEY, note INTEGER REFERENCES note(id) ON DELETE CASCADE); \
               INSERT INTO note VALUES(1, 'food')";
    let mut a = world.init("a", sql);
    let mut b = world.clone_site(&mut a, "b");
    a.run("DELETE FROM list");
    b.run(there);
    meet(&mut a, &mut b);
    a.run("INSERT INTO list VALUES('food')");
    meet(&mut a, &mut b);
    (a, b)
}

/// Settles the only record that asks by restoring, on either site; both show these notes and lines then, and nothing
/// is open.
fn restored(a: &mut Site, b: &mut Site, here: bool, want: &[&str]) {
    let site = if here { &mut *a } else { &mut *b };
    let asking = site.replica.questions().unwrap();
    let [asked] = &asking[..] else { panic!("one asks: {asking:?}") };
    let done = site.replica.settle_conflicts(&[(asked.id.clone(), Verb::Restore)], false).unwrap();
    assert_eq!((done.refused, done.open), (vec![], 0));
    meet(a, b);
    for site in [a, b] {
        let shown = "SELECT 'note ' || id || list FROM note UNION ALL SELECT 'line ' || id || note FROM line";
        assert_eq!(site.rows(shown), want);
        assert_eq!(site.replica.conflicts().unwrap().len(), 0);
        assert_eq!(site.replica.verify_full().unwrap(), [""; 0]);
    }
}

/// A parent that was inserted again is there, and what refers to its former life is hidden (R-INC): restored, it
/// refers to the present one.
#[test]
fn a_row_of_a_former_life_is_restored_into_the_present_one() {
    for (here, again) in [(true, false), (false, false), (true, true), (false, true)] {
        let world = World::new();
        let (mut a, mut b) = in_a_former_life(&world, "INSERT INTO note VALUES(2, 'food')");
        if again {
            a.run("DELETE FROM list");
            meet(&mut a, &mut b);
        }
        for site in [&a, &b] {
            let open = site.replica.conflicts().unwrap();
            let gone = open[0].deleted.as_ref().unwrap();
            assert_eq!((open.len(), gone.row.as_str()), (1, "'food'"));
            assert_eq!(gone.again.is_some(), !again);
        }
        restored(&mut a, &mut b, here, &["note 2food"]);
    }
}

/// So is what hangs on such a row: with a record of its own, or gone with its parent, which nobody disagreed about.
#[test]
fn what_hangs_on_a_row_of_a_former_life_is_restored_with_it() {
    let below = "INSERT INTO note VALUES(2, 'food'); INSERT INTO line VALUES(5, 2), (6, 2)";
    let gone = "INSERT INTO line VALUES(5, 1), (6, 1)";
    for (here, there, want) in [
        (true, below, ["note 2food", "line 52", "line 62"]),
        (false, gone, ["note 1food", "line 51", "line 61"]),
    ] {
        let world = World::new();
        let (mut a, mut b) = in_a_former_life(&world, there);
        for site in [&a, &b] {
            let open = site.replica.conflicts().unwrap();
            assert!(
                open.iter().all(|c| c.deleted.as_ref().is_some_and(|gone| gone.again.is_some()))
            );
        }
        restored(&mut a, &mut b, here, &want);
    }
}

/// Each of several refers to the former life by itself, and is answered by itself.
#[test]
fn rows_of_a_former_life_ask_one_by_one() {
    let world = World::new();
    let (mut a, mut b) =
        in_a_former_life(&world, "INSERT INTO note VALUES(2, 'food'), (3, 'food')");
    let asking = a.replica.questions().unwrap();
    assert_eq!(asking.iter().map(|c| c.row.as_str()).collect::<Vec<_>>(), ["2", "3"]);
    a.replica.settle_conflict(&asking[0].id, Verb::Restore).unwrap();
    meet(&mut a, &mut b);
    assert_eq!(b.rows("SELECT id FROM note"), ["2"]);
    a.replica.settle_conflict(&asking[1].id, Verb::Discard).unwrap();
    meet(&mut a, &mut b);
    for site in [&a, &b] {
        assert_eq!(site.rows("SELECT id FROM note"), ["2"]);
        assert_eq!(site.replica.verify_full().unwrap(), [""; 0]);
    }
    // It went with the list, and is no other's note now.
    b.run("DELETE FROM list");
    meet(&mut a, &mut b);
    assert_eq!(a.rows("SELECT id FROM note"), [""; 0]);
}

/// Deleted while another inserts below it, inserted and deleted again: what refers to either life comes back.
#[test]
fn rows_of_two_lives_are_restored() {
    let world = World::new();
    let (mut a, mut b) = in_a_former_life(&world, "INSERT INTO note VALUES(2, 'food')");
    a.run("DELETE FROM list");
    b.run("INSERT INTO note VALUES(3, 'food')");
    meet(&mut a, &mut b);
    let open = a.replica.conflicts().unwrap();
    assert_eq!(open.len(), 2);
    let all: Vec<_> = open.into_iter().map(|c| (c.id, Verb::Restore)).collect();
    let done = a.replica.settle_conflicts(&all, false).unwrap();
    assert_eq!((done.settled.len(), done.refused, done.open), (2, vec![], 0));
    meet(&mut a, &mut b);
    for site in [&a, &b] {
        assert_eq!(site.rows("SELECT id FROM note"), ["2", "3"]);
        assert_eq!(site.replica.verify_full().unwrap(), [""; 0]);
    }
}

/// SET NULL and SET DEFAULT hide a row of a former life where its table cannot hold what they would put there.
#[test]
fn a_row_that_cannot_show_null_is_restored_into_the_present_life() {
    let world = World::new();
    let sql = "CREATE TABLE list(name TEXT PRIMARY KEY); INSERT INTO list VALUES('L3'), ('L4'); \
               CREATE TABLE must(id INTEGER PRIMARY KEY, \
                                 list TEXT NOT NULL REFERENCES list(name) ON DELETE SET NULL); \
               CREATE TABLE sd(id INTEGER PRIMARY KEY, \
                               list TEXT DEFAULT 'none' REFERENCES list(name) ON DELETE SET DEFAULT)";
    let mut a = world.init("a", sql);
    let mut b = world.clone_site(&mut a, "b");
    a.run("DELETE FROM list");
    b.run("INSERT INTO must VALUES(1, 'L3'); INSERT INTO sd VALUES(1, 'L4')");
    meet(&mut a, &mut b);
    b.run("INSERT INTO list VALUES('L3'), ('L4')");
    meet(&mut a, &mut b);
    let open = a.replica.conflicts().unwrap();
    let again = |c: &synqlite_core::Conflict| c.deleted.as_ref().and_then(|gone| gone.again);
    assert!(open.len() == 2 && open.iter().all(|c| again(c).is_some()), "{open:?}");
    for conflict in &open {
        a.replica.settle_conflict(&conflict.id, Verb::Restore).unwrap();
    }
    meet(&mut a, &mut b);
    for site in [&a, &b] {
        assert_eq!(site.rows("SELECT list FROM must UNION ALL SELECT list FROM sd"), ["L3", "L4"]);
        assert_eq!(site.replica.verify_full().unwrap(), [""; 0]);
    }
}
