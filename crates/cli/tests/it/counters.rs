//! Counters, through the binary: the examples of `docs/guides/counters.md`.

use crate::support::Lab;
use serde_json::json;

const SHOP: &str = "\
CREATE TABLE stock(item TEXT PRIMARY KEY, n INTEGER NOT NULL DEFAULT 0 CHECK(n >= 0));
CREATE TABLE visit(page TEXT PRIMARY KEY, hits INTEGER NOT NULL);
INSERT INTO stock VALUES('rope', 5), ('lamp', 2);";

fn shop() -> Lab {
    let lab = Lab::new();
    lab.sql("A", SHOP);
    lab.json(&[
        "init",
        &lab.db("A"),
        "--policy",
        "stock.n=counter",
        "--policy",
        "visit.hits=counter",
    ]);
    lab.json(&["clone", &lab.db("A"), &lab.db("B")]);
    lab.json(&["clone", &lab.db("A"), &lab.db("C")]);
    lab
}

/// Everybody gets what everybody has.
fn sync_all(lab: &Lab) {
    for _ in 0..2 {
        for site in ["B", "C"] {
            lab.json(&["sync", &lab.db(site), &lab.db("A")]);
        }
    }
    lab.assert_equal(&["A", "B", "C"]);
}

#[test]
fn what_three_sites_add_adds_up() {
    let lab = shop();
    for (site, sold) in [("A", 1), ("B", 2), ("C", 1)] {
        lab.sql(site, &format!("UPDATE stock SET n = n - {sold} WHERE item = 'rope'"));
        let visit = "INSERT INTO visit VALUES('home', 1) ON CONFLICT DO UPDATE SET hits = hits + 1";
        lab.sql(site, visit);
        lab.sql(site, visit);
    }
    sync_all(&lab);
    assert_eq!(lab.rows("B", "SELECT n FROM stock WHERE item = 'rope'"), ["1"]);
    assert_eq!(lab.rows("C", "SELECT hits FROM visit"), ["6"]);
    assert_eq!(lab.json(&["status", &lab.db("A")])["conflicts"], 0);
}

#[test]
fn through_a_folder_and_in_batches() {
    let lab = shop();
    for round in 1..=3 {
        for site in ["A", "B", "C"] {
            lab.sql(site, "UPDATE stock SET n = n + 1");
            lab.json(&["push", &lab.db(site), &lab.folder()]);
        }
        for site in ["A", "B", "C"] {
            lab.json(&["pull", &lab.db(site), &lab.folder()]);
        }
        let want = [format!("lamp|{}", 2 + 3 * round), format!("rope|{}", 5 + 3 * round)];
        assert_eq!(lab.rows("A", "SELECT * FROM stock ORDER BY item"), want);
        lab.assert_equal(&["A", "B", "C"]);
    }
    lab.json(&["clone", &lab.folder(), &lab.db("D")]);
    lab.assert_equal(&["A", "D"]);
}

#[test]
fn selling_more_than_there_is_hides_the_row() {
    let lab = shop();
    lab.sql("A", "UPDATE stock SET n = n - 2 WHERE item = 'lamp'");
    lab.sql("B", "UPDATE stock SET n = n - 1 WHERE item = 'lamp'");
    sync_all(&lab);
    for site in ["A", "B", "C"] {
        assert_eq!(lab.rows(site, "SELECT item FROM stock"), ["rope"]);
        let record = &lab.json(&["conflicts", &lab.db(site)])["conflicts"][0];
        assert_eq!(record["kind"], "row_constraint");
        assert_eq!(record["displaced"], json!({"item": "lamp", "n": -1}));
    }
    // Someone counts the shelf: a row inserted anew begins a new count.
    lab.sql("C", "INSERT INTO stock VALUES('lamp', 4)");
    sync_all(&lab);
    assert_eq!(lab.rows("A", "SELECT n FROM stock WHERE item = 'lamp'"), ["4"]);
    assert_eq!(lab.json(&["status", &lab.db("B")])["conflicts"], 0);
}

#[test]
fn a_counter_is_set_later_and_reaches_the_others() {
    let lab = Lab::new();
    lab.sql("A", SHOP);
    lab.json(&["init", &lab.db("A")]);
    lab.json(&["clone", &lab.db("A"), &lab.db("B")]);
    lab.json(&["clone", &lab.db("A"), &lab.db("C")]);
    lab.sql("B", "UPDATE stock SET n = n + 3 WHERE item = 'rope'");
    let set = lab.json(&["policy", &lab.db("A"), "stock.n=counter"]);
    assert_eq!(set["policies"]["stock.n"], "counter");
    lab.sql("A", "UPDATE stock SET n = n + 1 WHERE item = 'rope'");
    sync_all(&lab);
    assert_eq!(lab.json(&["policy", &lab.db("C")])["policies"]["stock.n"], "counter");
    assert_eq!(lab.rows("C", "SELECT n FROM stock WHERE item = 'rope'"), ["9"]);
    lab.sql("B", "UPDATE stock SET n = n + 1 WHERE item = 'rope'");
    lab.sql("C", "UPDATE stock SET n = n + 1 WHERE item = 'rope'");
    sync_all(&lab);
    assert_eq!(lab.rows("A", "SELECT n FROM stock WHERE item = 'rope'"), ["11"]);
}

#[test]
fn init_points_out_sums_that_triggers_keep() {
    let lab = Lab::new();
    let triggers = "CREATE TABLE line(id INTEGER PRIMARY KEY, item TEXT, n INT);
        CREATE TABLE total(item TEXT PRIMARY KEY, n INT, CHECK(n > length(item)));
        CREATE TRIGGER sold AFTER INSERT ON line BEGIN
          UPDATE stock SET n = n - NEW.n WHERE item = NEW.item; END;
        CREATE TRIGGER sums AFTER INSERT ON line BEGIN
          UPDATE total SET n = (SELECT sum(n) FROM line WHERE item = NEW.item); END;
        CREATE TRIGGER later AFTER UPDATE ON stock BEGIN UPDATE stock SET n = n + 0; END;";
    lab.sql("A", &format!("{SHOP}{triggers}"));
    let (done, told) = lab.json_and_stderr(&["init", &lab.db("A")]);
    let notes: Vec<&str> =
        done["notes"].as_array().unwrap().iter().filter_map(|n| n.as_str()).collect();
    assert_eq!(notes.len(), 3, "{notes:?}");
    assert!(notes[0].contains("trigger sold adds to stock.n"), "{notes:?}");
    assert!(
        notes[0].contains("--policy stock.n=counter") && notes[0].contains("local_tables=stock")
    );
    assert!(notes[1].contains("trigger sums writes a sum to total.n"), "{notes:?}");
    assert!(!notes[1].contains("counter") && notes[1].contains("local_tables=total"), "{notes:?}");
    assert!(notes[2].starts_with("SQLite numbers the rows of line: "), "{notes:?}");
    assert!(told.contains("note: trigger sold"), "{told}");
    // Once it is a counter, or local, there is nothing to point out; and the sum is right.
    let policies = ["--policy", "stock.n=counter", "--policy", "local_tables=total"];
    let again = lab.json(&[&["init", &lab.db("A")][..], &policies].concat());
    assert_eq!(again["notes"], json!([]));
    lab.json(&["clone", &lab.db("A"), &lab.db("B")]);
    lab.sql("A", "INSERT INTO line(item, n) VALUES('rope', 1), ('rope', 1)");
    lab.sql("B", "INSERT INTO line(item, n) VALUES('rope', 2)");
    lab.json(&["sync", &lab.db("B")]);
    assert_eq!(lab.rows("A", "SELECT n FROM stock WHERE item = 'rope'"), ["1"]);
    assert_eq!(lab.digest("A"), lab.digest("B"));
}

#[test]
fn what_cannot_be_a_counter_is_refused() {
    let lab = shop();
    let refused = |policy: &str| lab.refused(&["policy", &lab.db("A"), policy]);
    assert!(refused("stock.item=counter").contains("is not declared as a number"));
    assert!(refused("stock.m=counter").contains("no stored column m; did you mean n?"));
    assert!(refused("shelf.n=counter").contains("there is no table shelf"));
    assert!(refused("stock.n=sum").contains("a column T.C can be `counter`"));
    lab.sql("D", "CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT)");
    let init = ["init", &lab.db("D"), "--policy", "t.a=counter"];
    assert!(lab.refused(&init).contains("primary key"));
}
