//! One site, one line of history: files that were restored from a backup and written to.

use crate::random::{Random, SCHEMA, TABLES, seeds, statement};
use crate::site::{Site, World, dump};
use synqlite_core::Replica;
use synqlite_wire::VersionVector;

const NOTES: &str = "CREATE TABLE o(id INTEGER PRIMARY KEY, s, n DEFAULT 0); \
    CREATE TABLE k(id TEXT PRIMARY KEY, s); \
    CREATE TABLE c(id INTEGER PRIMARY KEY, o INTEGER REFERENCES o(id) ON DELETE CASCADE, s); \
    INSERT INTO o(id, s) VALUES(1,'one'),(2,'two'),(3,'three'); INSERT INTO k VALUES('a','A');";

pub struct Lab {
    pub world: World,
}

impl Lab {
    /// A and its clone B.
    fn new() -> (Lab, Site, Site) {
        let world = World::new();
        let mut a = world.init("a", NOTES);
        let b = world.clone_site(&mut a, "b");
        (Lab { world }, a, b)
    }

    pub fn backup(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.world.path(name)).unwrap()
    }

    /// The file of `site` as it was, under the same inode.
    pub fn restore(&self, site: Site, name: &str, backup: &[u8]) -> Site {
        drop(site);
        std::fs::write(self.world.path(name), backup).unwrap();
        self.world.open(name)
    }

    pub fn clone_of(&self, site: &mut Site, name: &str) -> Site {
        site.replica.copy_to(&self.world.path(name)).unwrap();
        let env = std::sync::Arc::new(synqlite_core::System);
        drop(Replica::open_copy(&self.world.path(name), env).unwrap().become_site().unwrap());
        self.world.open(name)
    }
}

pub fn meet(sites: &mut [&mut Site]) {
    for _ in 0..3 {
        for i in 0..sites.len() {
            for j in 0..sites.len() {
                if i != j {
                    let (x, y) = sites.split_at_mut(i.max(j));
                    let (x, y) = (&mut x[i.min(j)], &mut y[0]);
                    if i < j { x.pull(y) } else { y.pull(x) }
                }
            }
        }
    }
}

/// All show the same, nothing is wrong, and nothing is left to say.
fn agree(sites: &mut [&mut Site]) {
    meet(sites);
    same(sites, &["o", "k", "c"]);
}

pub fn same(sites: &mut [&mut Site], tables: &[&str]) {
    let want = dump(&sites[0].app, tables);
    for i in 0..sites.len() {
        assert_eq!(dump(&sites[i].app, tables), want, "site {i}");
        let problems = sites[i].replica.verify_full().unwrap();
        assert!(problems.is_empty(), "site {i}: {problems:?}");
        assert_eq!(sites[i].replica.seen().unwrap(), sites[0].replica.seen().unwrap());
    }
    let (first, rest) = sites.split_at_mut(1);
    for other in rest {
        assert_eq!(first[0].replica.pull_from(&mut other.replica, false).unwrap().rows, 0);
    }
}

fn texts(site: &Site) -> Vec<String> {
    site.rows("SELECT s FROM o UNION ALL SELECT s FROM k UNION ALL SELECT s FROM c ORDER BY 1")
}

const LOST: &str = "UPDATE o SET s = 'lost' WHERE id = 2; INSERT INTO o(id, s) VALUES(9, 'nine'); \
    INSERT INTO c VALUES(1, 9, 'child of nine'); INSERT INTO k VALUES('b', 'lost B')";
const AFTER: &str = "UPDATE o SET s = 'x' WHERE id = 3; INSERT INTO o(id, s) VALUES(9, 'other nine'); \
    INSERT INTO c VALUES(1, 9, 'child of the other'); INSERT INTO k VALUES('c', 'after C'); \
    UPDATE o SET n = 5 WHERE id = 9; UPDATE k SET s = 'after A' WHERE id = 'a'";
const ALL: [&str; 9] = [
    "after A",
    "after C",
    "child of nine",
    "child of the other",
    "lost",
    "lost B",
    "nine",
    "one",
    "other nine",
];

fn shows_all(site: &Site) {
    let texts = texts(site);
    for text in ALL {
        assert_eq!(texts.iter().filter(|t| *t == text).count(), 1, "{text}: {texts:?}");
    }
    let children = "SELECT c.s, o.s FROM c JOIN o ON o.id = c.o ORDER BY 1";
    assert_eq!(site.rows(children), ["child of nine|nine", "child of the other|other nine"]);
}

#[test]
fn a_restored_file_goes_on_as_another_site_and_gets_back_what_was_lost() {
    for folded in [false, true] {
        let (lab, mut a, mut b) = Lab::new();
        b.run("INSERT INTO k VALUES('before', 'before')");
        meet(&mut [&mut a, &mut b]);
        let (backup, site) = (lab.backup("b"), b.replica.site());
        b.run(LOST);
        a.pull(&mut b);
        let mut b = lab.restore(b, "b", &backup);
        b.run(AFTER);
        if folded {
            b.replica.fold().unwrap();
        }
        b.pull(&mut a);
        assert_ne!(b.replica.site(), site);
        assert_eq!(b.replica.take_former(), Some(site));
        agree(&mut [&mut a, &mut b]);
        shows_all(&a);
        b.run("INSERT INTO o(id, s) VALUES(20, 'later')");
        agree(&mut [&mut a, &mut b]);
        assert_eq!(b.replica.take_former(), None);
    }
}

#[test]
fn a_third_site_takes_either_branch_first() {
    for seen_lost in [false, true] {
        for first in ["a", "c"] {
            let (lab, mut a, mut b) = Lab::new();
            let mut c = lab.clone_of(&mut a, "c");
            let backup = lab.backup("b");
            b.run(LOST);
            a.pull(&mut b);
            if seen_lost {
                c.pull(&mut b);
            }
            let mut b = lab.restore(b, "b", &backup);
            b.run(AFTER);
            b.replica.fold().unwrap();
            let mut d = lab.clone_of(&mut b, "d");
            c.run("UPDATE o SET n = n + 1");
            match first {
                "a" => a.pull(&mut d),
                _ => c.pull(&mut d),
            }
            c.pull(&mut a);
            a.pull(&mut c);
            d.pull(&mut c);
            agree(&mut [&mut a, &mut c, &mut d, &mut b]);
            shows_all(&d);
        }
    }
}

/// What a site had counted before the backup is counted by its branch, too: the sum has it twice, on all sites.
#[test]
fn counts_of_a_line_that_forks_are_the_same_everywhere() {
    for over_batches in [false, true] {
        let world = World::new();
        let schema = "CREATE TABLE o(k TEXT PRIMARY KEY, n INT DEFAULT 0); INSERT INTO o VALUES('a', 100), ('b', 100)";
        let mut a = world.init_with("a", schema, &[("o.n", "counter")]);
        let lab = Lab { world };
        let (mut b, mut c) = (lab.clone_of(&mut a, "b"), lab.clone_of(&mut a, "c"));
        b.run("UPDATE o SET n = n + 1");
        b.replica.fold().unwrap();
        let backup = lab.backup("b");
        b.run("UPDATE o SET n = n + 20 WHERE k = 'b'");
        a.pull(&mut b);
        let mut b = lab.restore(b, "b", &backup);
        b.run("UPDATE o SET n = n + 300");
        c.pull(&mut b);
        if over_batches {
            for _ in 0..2 {
                let batch = a.replica.export(&VersionVector::default(), 0).unwrap().0;
                b.replica.merge(&batch, false).unwrap();
                let batch = b.replica.export(&VersionVector::default(), 0).unwrap().0;
                a.replica.merge(&batch, false).unwrap();
                c.replica.merge(&batch, false).unwrap();
                let batch = a.replica.export(&VersionVector::default(), 0).unwrap().0;
                c.replica.merge(&batch, false).unwrap();
            }
            for site in [&a, &b, &c] {
                assert_eq!(site.rows("SELECT n FROM o"), ["402", "422"]);
            }
        }
        meet(&mut [&mut a, &mut b, &mut c]);
        same(&mut [&mut a, &mut b, &mut c], &["o"]);
        assert_eq!(a.rows("SELECT n FROM o"), ["402", "422"]);
    }
}

#[test]
fn a_file_may_be_restored_twice_and_branches_may_fork_again() {
    let (lab, mut a, mut b) = Lab::new();
    let mut others = Vec::new();
    let backup = lab.backup("b");
    b.run("INSERT INTO o(s) VALUES('first')");
    a.pull(&mut b);
    for n in 0..3 {
        b = lab.restore(b, "b", &backup);
        b.run(&format!(
            "INSERT INTO o(s) VALUES('branch {n}'); INSERT INTO k VALUES('k{n}', 'key {n}')"
        ));
        others.push(lab.clone_of(&mut b, &format!("x{n}")));
        let again = lab.backup("b");
        b.run(&format!("INSERT INTO o(s) VALUES('end {n}')"));
        others.push(lab.clone_of(&mut b, &format!("y{n}")));
        b = lab.restore(b, "b", &again);
        b.run(&format!("INSERT INTO o(s) VALUES('other end {n}')"));
        others.push(lab.clone_of(&mut b, &format!("z{n}")));
    }
    let mut all: Vec<&mut Site> = others.iter_mut().rev().collect();
    all.push(&mut a);
    all.push(&mut b);
    agree(&mut all);
    let shown = texts(&a);
    for n in 0..3 {
        for text in [
            format!("branch {n}"),
            format!("key {n}"),
            format!("end {n}"),
            format!("other end {n}"),
        ] {
            assert_eq!(shown.iter().filter(|t| **t == text).count(), 1, "{text}: {shown:?}");
        }
    }
}

#[test]
fn a_file_that_was_restored_and_not_written_gets_its_own_writes_back() {
    let (lab, mut a, mut b) = Lab::new();
    let (backup, site) = (lab.backup("b"), b.replica.site());
    b.run(LOST);
    a.pull(&mut b);
    let mut b = lab.restore(b, "b", &backup);
    b.pull(&mut a);
    assert_ne!(b.replica.site(), site);
    b.run("INSERT INTO o(s) VALUES('new'); INSERT INTO c(o, s) VALUES(9, 'new child')");
    agree(&mut [&mut a, &mut b]);
    let texts = texts(&a);
    for text in ["lost", "nine", "new", "new child", "child of nine"] {
        assert!(texts.contains(&text.to_owned()), "{texts:?}");
    }
}

/// The branch whose first point is earlier keeps the id, also if it is the one that nobody has seen.
#[test]
fn those_who_have_seen_the_later_branch_relabel_it() {
    let (lab, mut a, mut b) = Lab::new();
    let mut c = lab.clone_of(&mut a, "c");
    let backup = lab.backup("b");
    b.run(AFTER);
    b.replica.fold().unwrap();
    let mut early = lab.clone_of(&mut b, "early");
    let mut b = lab.restore(b, "b", &backup);
    b.run(LOST);
    b.run("DELETE FROM o WHERE id = 1; UPDATE c SET s = 'child of nine' WHERE id = 1");
    b.run("INSERT INTO o(id, s) VALUES(1, 'one')");
    a.pull(&mut b);
    c.pull(&mut a);
    c.run("UPDATE o SET n = 7 WHERE id = 9; UPDATE k SET s = 'lost B' WHERE id = 'b'");
    c.replica.fold().unwrap();
    c.pull(&mut early);
    agree(&mut [&mut a, &mut b, &mut c, &mut early]);
    shows_all(&a);
}

#[test]
fn a_line_may_fork_before_a_site_has_written_anything() {
    let (lab, mut a, mut b) = Lab::new();
    let backup = lab.backup("b");
    b.run("INSERT INTO o(s) VALUES('p')");
    a.pull(&mut b);
    let mut b = lab.restore(b, "b", &backup);
    a.pull(&mut b);
    b.run("INSERT INTO o(s) VALUES('q')");
    agree(&mut [&mut a, &mut b]);
    assert_eq!(a.rows("SELECT s FROM o WHERE s IN ('p', 'q') ORDER BY 1"), ["p", "q"]);
}

/// What waited in the journal of the backup is folded when its site catches up with its schema to learn
/// of the fork, and comes to lie before what was lost.
#[test]
fn a_line_may_fork_while_replicas_meet() {
    for turned in [false, true] {
        let (lab, mut a, mut b) = Lab::new();
        b.run("INSERT INTO k VALUES('p', 'p')");
        let backup = lab.backup("b");
        std::thread::sleep(std::time::Duration::from_millis(10));
        b.run("INSERT INTO k VALUES('q', 'q')");
        a.pull(&mut b);
        let mut b = lab.restore(b, "b", &backup);
        a.run("ALTER TABLE k ADD COLUMN z");
        b.run("ALTER TABLE k ADD COLUMN z");
        match turned {
            true => b.pull(&mut a),
            false => a.pull(&mut b),
        }
        assert_eq!(a.replica.verify().unwrap(), [""; 0]);
        assert_eq!(b.replica.verify().unwrap(), [""; 0]);
        agree(&mut [&mut a, &mut b]);
    }
}

/// Its own line is as it was, but its positions come again.
#[test]
fn a_file_that_lost_only_what_it_had_merged_gives_it_on_all_the_same() {
    let (lab, mut a, mut b) = Lab::new();
    let mut c = lab.clone_of(&mut a, "c");
    b.pull(&mut a);
    c.pull(&mut a);
    let backup = lab.backup("a");
    c.run("INSERT INTO o(s) VALUES('c1')");
    a.pull(&mut c);
    b.pull(&mut a);
    let mut a = lab.restore(a, "a", &backup);
    c.run("INSERT INTO o(s) VALUES('c2')");
    a.pull(&mut c);
    b.pull(&mut a);
    assert_eq!(b.rows("SELECT s FROM o WHERE s LIKE 'c%' ORDER BY 1"), ["c1", "c2"]);
    agree(&mut [&mut a, &mut b, &mut c]);
}

/// B knows of the lost branch, but has nothing of it, when it meets one that knows the other branch by
/// the name that B has given up.
#[test]
fn a_branch_has_two_names_until_both_know_why() {
    let (lab, mut a, mut b) = Lab::new();
    let mut c = lab.clone_of(&mut a, "c");
    let backup = lab.backup("b");
    b.run(LOST);
    a.pull(&mut b);
    let mut b = lab.restore(b, "b", &backup);
    b.run(AFTER);
    c.pull(&mut b);
    let mut d = lab.clone_of(&mut c, "d");
    a.pull(&mut b);
    c.pull(&mut b);
    let (base, after) = (d.replica.seen().unwrap(), 0);
    let (delta, _) = b.replica.export(&base, after).unwrap();
    d.replica.merge(&delta, false).unwrap();
    agree(&mut [&mut a, &mut b, &mut c, &mut d]);
    shows_all(&d);
}

/// Statements of every kind, folds, pulls, backups of files and files that are put back.
fn history(seed: u64) {
    let mut r = Random::new(seed);
    let world = World::new();
    let count = 2 + r.below(3) as usize;
    let mut sites = vec![world.init("s0", SCHEMA)];
    for i in 1..count {
        let site = world.clone_site(&mut sites[0], &format!("s{i}"));
        sites.push(site);
    }
    let lab = Lab { world };
    let mut backups: Vec<(usize, Vec<u8>)> = Vec::new();
    for step in 0..60 {
        let (at, other) = (r.below(count as u64) as usize, r.below(count as u64) as usize);
        match r.below(12) {
            0..3 if other != at => {
                let [mine, theirs] = sites.get_disjoint_mut([at, other]).unwrap();
                mine.pull(theirs);
            }
            3 => drop(sites[at].replica.fold().unwrap()),
            4 => backups.push((at, lab.backup(&format!("s{at}")))),
            5 if !backups.is_empty() => {
                let (at, backup) = &backups[r.below(backups.len() as u64) as usize];
                let site = sites.remove(*at);
                sites.insert(*at, lab.restore(site, &format!("s{at}"), backup));
            }
            _ => {
                let sql = statement(&mut r, &format!("s{at}n{step}"));
                drop(sites[at].app.execute_batch(&sql.replace("random()", "id * 7919 % 11")));
            }
        }
    }
    let mut all: Vec<&mut Site> = sites.iter_mut().collect();
    meet(&mut all);
    meet(&mut all);
    same(&mut all, &TABLES);
}

#[test]
fn random_histories_with_restored_files_converge() {
    let fails = |seed: &u64| std::panic::catch_unwind(|| history(*seed)).is_err();
    let failed: Vec<u64> = seeds(12).filter(fails).collect();
    assert!(failed.is_empty(), "seeds {failed:?} failed; SYNQLITE_SEEDS=FROM..TO runs them again");
}

#[test]
fn a_rebuild_and_a_write_on_a_restored_file() {
    for policy in [false, true] {
        let (lab, mut a, mut b) = Lab::new();
        let backup = lab.backup("a");
        if policy {
            a.replica.set_policies(&["fk=ignore".parse().unwrap()]).unwrap();
        }
        a.run("INSERT INTO k VALUES('b', 'lost B')");
        b.pull(&mut a);
        let clock = a.replica.seen().unwrap().get(a.replica.site());
        let mut a = lab.restore(a, "a", &backup);
        a.run(
            "CREATE TABLE n(id TEXT PRIMARY KEY, s); INSERT INTO n SELECT * FROM k; DROP TABLE k;
             ALTER TABLE n RENAME TO k; INSERT INTO o(s) VALUES('after')",
        );
        assert!(a.replica.check_claim(clock).unwrap());
        assert_eq!(a.replica.verify().unwrap(), [""; 0]);
        agree(&mut [&mut a, &mut b]);
        assert!(
            texts(&a).contains(&"after".to_owned()) && texts(&a).contains(&"lost B".to_owned())
        );
    }
}

/// What gave way to a write of a branch is told of under the ids that both have once it is known that the
/// line forked. Which of the branches keeps its id is up to chance, so it is tried some times.
#[test]
fn what_gave_way_is_told_of_a_branch_that_goes_by_another_id() {
    for _ in 0..12 {
        let (lab, mut a, mut b) = Lab::new();
        let (mut c, mut d) = (lab.clone_of(&mut a, "c"), lab.clone_of(&mut a, "d"));
        // From here on the clocks of b and c are an hour ahead, and of one moment.
        d.run("INSERT INTO k VALUES('d', 'd'); UPDATE synqlite_journal SET at = at + 1 / 24.0");
        for site in [&mut b, &mut c] {
            site.replica.pull_from(&mut d.replica, true).unwrap();
        }
        let backup = lab.backup("b");
        b.run("INSERT INTO k VALUES('x', 'of b')");
        d.replica.pull_from(&mut b.replica, true).unwrap();
        c.run("INSERT INTO k VALUES('x', 'of c')");
        let mut b = lab.restore(b, "b", &backup);
        a.replica.pull_from(&mut c.replica, true).unwrap();
        b.run("INSERT INTO k VALUES('y', 'after')");
        c.replica.pull_from(&mut d.replica, true).unwrap();
        let mut sites = [&mut a, &mut b, &mut c, &mut d];
        for _ in 0..3 {
            for (x, y) in
                [(0, 1), (0, 2), (0, 3), (1, 0), (1, 2), (1, 3), (2, 0), (2, 1), (3, 0), (3, 2)]
            {
                let [x, y] = sites.get_disjoint_mut([x, y]).unwrap();
                x.replica.pull_from(&mut y.replica, true).unwrap();
            }
        }
        for site in sites {
            let told = site.replica.closed_conflicts().unwrap();
            assert_eq!(told.len(), 1, "{told:?}");
            assert_eq!(told[0].kind.as_str(), "key_merge");
        }
    }
}

/// Of rows that the same backup stamped, ids alone say which is the earlier, and a fork changes ids.
#[test]
fn a_claim_follows_the_ids_of_branches() {
    for round in 0..8 {
        let world = World::new();
        let mut a = world.init("a", "CREATE TABLE o(id INTEGER PRIMARY KEY, u UNIQUE, s);");
        let mut b = world.clone_site(&mut a, "b");
        let lab = Lab { world };
        a.run("INSERT INTO o VALUES(1, 'u', 's')");
        let backup = lab.backup("a");
        for restored in 0..3 {
            a.replica.fold().unwrap();
            // B hears of the fork from whoever asks it, and of the row that came with it by the next pull.
            a.pull(&mut b);
            let problems = b.replica.verify_full().unwrap();
            assert!(problems.is_empty(), "{round}.{restored}: {problems:?}");
            b.pull(&mut a);
            same(&mut [&mut a, &mut b], &["o"]);
            a = lab.restore(a, "a", &backup);
        }
    }
}

/// Both branches write the same row at the same moment: what gave way there are two things.
#[test]
fn what_gave_way_of_two_branches_is_told_of_both() {
    for _ in 0..8 {
        let (lab, mut a, mut b) = Lab::new();
        let backup = lab.backup("b");
        a.run("INSERT INTO k VALUES('x', 'of a')");
        for branch in ["first", "second"] {
            b = lab.restore(b, "b", &backup);
            b.run(&format!("INSERT INTO k VALUES('x', '{branch}')"));
            b.run("UPDATE synqlite_journal SET at = 2461000.5");
            b.replica.fold().unwrap();
            a.pull(&mut b);
        }
        meet(&mut [&mut a, &mut b]);
        for site in [&a, &b] {
            let told = site.replica.closed_conflicts().unwrap();
            let of = |branch: &str| told.iter().filter(|c| c.what.contains(branch)).count();
            assert_eq!([of("'first'"), of("'second'"), told.len()], [1, 1, 2], "{told:?}");
        }
    }
}
