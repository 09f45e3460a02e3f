//! Several processes at once, and an application that does not wait for them.

use crate::support::{Lab, started, stderr, synqlite};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

#[test]
fn two_processes_may_push_the_same_replica_at_once() {
    let lab = Lab::with_a();
    lab.json(&["push", &lab.db("A"), &lab.folder()]);
    lab.json(&["clone", &lab.folder(), &lab.db("B")]);
    for round in 0..5 {
        lab.sql("A", &format!("INSERT INTO note VALUES('round {round}')"));
        thread::scope(|scope| {
            let push = || {
                let output = synqlite(&["push", &lab.db("A"), &lab.folder()]);
                assert!(output.status.success(), "{}", stderr(&output));
            };
            (0..3).for_each(|_| drop(scope.spawn(push)));
        });
    }
    lab.json(&["pull", &lab.db("B")]);
    lab.assert_equal(&["A", "B"]);
    assert_eq!(lab.rows("B", "SELECT count(*) FROM note"), ["6"]);
}

#[test]
fn any_number_of_sites_may_push_at_once() {
    let lab = Lab::with_a();
    lab.json(&["push", &lab.db("A"), &lab.folder()]);
    let sites = ["B", "C", "D"];
    for site in sites {
        lab.json(&["clone", &lab.folder(), &lab.db(site)]);
        lab.sql(site, &format!("INSERT INTO todo(what) VALUES('{site}')"));
    }
    thread::scope(|scope| {
        for site in sites {
            let lab = &lab;
            scope.spawn(move || lab.json(&["push", &lab.db(site)]));
        }
    });
    for site in sites {
        lab.json(&["pull", &lab.db(site)]);
    }
    lab.assert_equal(&sites);
    assert_eq!(lab.rows("B", "SELECT count(*) FROM todo"), ["6"]);
}

/// Two sites in WAL mode synchronize and are cloned while an application writes to one of them.
#[test]
fn an_application_writes_through_wal_all_the_while() {
    let lab = Lab::with_a_and_b();
    for site in ["A", "B"] {
        lab.sql(site, "PRAGMA journal_mode=WAL");
    }
    let stop = AtomicBool::new(false);
    let written = thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let app = lab.connect("A");
            let mut n = 0;
            while !stop.load(Ordering::Relaxed) {
                app.execute("INSERT INTO todo(what) VALUES(?1)", [n]).expect("a write");
                app.execute("UPDATE note SET text = ?1", [n]).expect("a write");
                n += 1;
                thread::sleep(Duration::from_millis(1));
            }
            n
        });
        for n in 0..5 {
            lab.sql("B", &format!("INSERT INTO todo(what) VALUES('B {n}')"));
            lab.json(&["sync", &lab.db("B")]);
            lab.json(&["push", &lab.db("A"), &lab.folder()]);
        }
        lab.json(&["clone", &lab.db("A"), &lab.db("C")]);
        stop.store(true, Ordering::Relaxed);
        writer.join().expect("the writer met no error")
    });
    lab.json(&["sync", &lab.db("B")]);
    lab.json(&["pull", &lab.db("C")]);
    lab.json(&["push", &lab.db("A"), &lab.folder()]);
    lab.json(&["clone", &lab.folder(), &lab.db("D")]);
    lab.assert_equal(&["A", "B", "C", "D"]);
    assert_eq!(lab.rows("B", "SELECT count(*) FROM todo"), [(3 + 5 + written).to_string()]);
}

/// A clone that is killed happened or did not, and can be repeated.
#[test]
fn a_killed_clone_leaves_nothing_half_made() {
    let lab = Lab::with_a();
    let fill = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)
                INSERT INTO todo(what) SELECT hex(randomblob(50)) FROM n";
    lab.sql("A", fill);
    lab.json(&["push", &lab.db("A"), &lab.folder()]);
    let digest = lab.digest("A");
    let mut survived = 0;
    for round in 0..12 {
        let from = if round % 2 == 0 { lab.db("A") } else { lab.folder() };
        let mut child = started(|| {
            Command::new(env!("CARGO_BIN_EXE_synqlite"))
                .args(["clone", &from, &lab.db("B")])
                .stdout(Stdio::null())
                .spawn()
        });
        thread::sleep(Duration::from_millis(round * 12));
        child.kill().unwrap();
        child.wait().unwrap();
        if !lab.path("B.db").exists() {
            lab.json(&["clone", &from, &lab.db("B")]);
        } else {
            survived += 1;
        }
        assert_eq!(lab.digest("B"), digest);
        std::fs::remove_file(lab.path("B.db")).unwrap();
    }
    println!("{survived} of 12 clones were there already");
}

/// A transaction that an application keeps open delays a command, and does not make it fail.
#[test]
fn a_command_waits_for_an_open_transaction_and_says_so() {
    let lab = Lab::with_a();
    lab.sql("A", "INSERT INTO note VALUES('before')");
    let app = lab.connect("A");
    app.execute_batch("BEGIN IMMEDIATE; INSERT INTO note VALUES('inside')").unwrap();
    let locked = lab.refused(&["fold", "--wait", "1", &lab.db("A")]);
    assert!(locked.contains("locked by another program"), "{locked}");
    let folded = thread::scope(|scope| {
        let fold = scope.spawn(|| lab.json_and_stderr(&["fold", &lab.db("A")]));
        thread::sleep(Duration::from_millis(3_500));
        app.execute_batch("COMMIT").unwrap();
        fold.join().unwrap()
    });
    assert!(folded.1.contains("waiting for another program"), "{}", folded.1);
    assert_eq!(folded.0["rows"], 2);
}

/// Beside one that writes without a pause the locks of a rollback journal are free for microseconds at a time.
#[test]
fn commands_get_through_beside_a_program_that_writes_without_a_pause() {
    // How many rows a fold finds says how long it waited, on a machine of any speed.
    const FOLDS: usize = 5;
    const MANY: usize = 100_000 * FOLDS;
    let lab = Lab::with_a();
    let done = AtomicBool::new(false);
    let (folded, written) = thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let app = lab.connect("A");
            app.execute_batch("PRAGMA journal_mode=DELETE; PRAGMA synchronous=OFF").unwrap();
            let mut insert = app.prepare("INSERT INTO note VALUES('on and on')").unwrap();
            let mut written = 0;
            while written < MANY && !done.load(Ordering::Relaxed) {
                written += insert.execute([]).unwrap();
            }
            written
        });
        let folded = (0..20).map(|_| lab.json(&["fold", &lab.db("A")])["rows"].as_u64().unwrap());
        let folded = folded.filter(|rows| *rows > 0).take(FOLDS).count();
        done.store(true, Ordering::Relaxed);
        (folded, writer.join().unwrap())
    });
    println!("{written} rows were written during {folded} folds");
    assert_eq!(folded, FOLDS, "nobody wrote meanwhile");
    assert!(written < MANY, "the commands waited until the program had ended");
}
