//! The same for references that were written before the row that they are to had its key, or was there.

use super::{agree, pair};

/// What a user wrote with foreign keys off stays, and both sites show it.
fn stays(
    schema: &str,
    before: &[&str],
    writes: &[&str],
    query: &str,
    rows: &[&str],
    tables: &[&str],
) {
    let (_world, mut a, mut b) = pair(schema, &[]);
    before.iter().for_each(|sql| b.run(sql));
    b.replica.fold().unwrap();
    b.run("PRAGMA foreign_keys = OFF");
    writes.iter().for_each(|sql| b.run(sql));
    b.replica.fold().unwrap();
    assert_eq!(b.rows(query), rows, "{schema}");
    assert_eq!(b.replica.verify_full().unwrap(), [""; 0], "{schema}");
    agree(&mut a, &mut b, tables);
    assert_eq!(a.rows(query), rows, "{schema}");
    assert_eq!(a.replica.verify_full().unwrap(), [""; 0], "{schema}");
}

/// No row had the key when the reference was written, or another row.
#[test]
fn a_reference_to_a_key_that_a_row_gets_later_stays() {
    for action in ["CASCADE", "SET NULL", "SET DEFAULT", "RESTRICT"] {
        let schema = format!(
            "CREATE TABLE n(id INTEGER PRIMARY KEY, u INT UNIQUE,
                            up INT REFERENCES n(u) ON UPDATE {action});
             INSERT INTO n VALUES(1, NULL, NULL)"
        );
        let writes = ["INSERT INTO n VALUES(2, 1, 4)", "UPDATE n SET u = 4 WHERE id = 1"];
        stays(&schema, &[], &writes, "SELECT * FROM n", &["1|4|NULL", "2|1|4"], &["n"]);
        let schema = format!(
            "CREATE TABLE n(k TEXT PRIMARY KEY, up TEXT REFERENCES n(k) ON UPDATE {action})
             WITHOUT ROWID; INSERT INTO n VALUES('a', NULL), ('b', NULL)"
        );
        let writes =
            ["INSERT INTO n VALUES('c', 'a')", "UPDATE OR REPLACE n SET k = 'a' WHERE k = 'b'"];
        stays(&schema, &[], &writes, "SELECT * FROM n", &["a|NULL", "c|a"], &["n"]);
    }
}

/// The row was deleted before, and is inserted anew after the reference to it.
#[test]
fn a_reference_to_a_row_that_lives_again_later_stays() {
    for action in ["CASCADE", "SET NULL", "SET DEFAULT", "RESTRICT"] {
        let schema = format!(
            "CREATE TABLE p(k TEXT PRIMARY KEY);
             CREATE TABLE c(id INTEGER PRIMARY KEY, p TEXT REFERENCES p(k) ON DELETE {action});
             INSERT INTO p VALUES('x')"
        );
        let writes = ["INSERT INTO c VALUES(1, 'x')", "INSERT INTO p VALUES('x')"];
        let query = "SELECT * FROM c";
        stays(&schema, &["DELETE FROM p"], &writes, query, &["1|x"], &["p", "c"]);
    }
}

/// A deferred foreign key lets the child come first as well.
#[test]
fn a_deferred_reference_to_a_key_that_a_row_gets_later_stays() {
    let schema = "CREATE TABLE p(id INTEGER PRIMARY KEY, u INT UNIQUE);
        CREATE TABLE c(id INTEGER PRIMARY KEY, p INT REFERENCES p(u) ON UPDATE SET NULL
                       DEFERRABLE INITIALLY DEFERRED);
        INSERT INTO p VALUES(1, 3)";
    let (_world, mut a, mut b) = pair(schema, &[]);
    b.run("BEGIN; INSERT INTO c VALUES(1, 4)");
    b.run("UPDATE p SET u = 4; COMMIT");
    b.replica.fold().unwrap();
    assert_eq!(b.replica.verify_full().unwrap(), [""; 0]);
    agree(&mut a, &mut b, &["p", "c"]);
    assert_eq!(a.rows("SELECT p FROM c"), ["4"]);
    b.run("UPDATE p SET u = 5");
    agree(&mut a, &mut b, &["p", "c"]);
    assert_eq!(a.rows("SELECT p FROM c"), ["NULL"]);
    assert_eq!(a.replica.verify_full().unwrap(), [""; 0]);
}

/// The row that it refers to gets another key in the statement that replaces it, and goes too.
#[test]
fn a_replaced_row_refers_to_the_row_that_had_the_key_before() {
    let schema = "CREATE TABLE t(u UNIQUE, r REFERENCES t(u) ON UPDATE SET NULL);
                  INSERT INTO t VALUES('e', NULL), ('c', 'e')";
    let (_world, mut a, mut b) = pair(schema, &[]);
    a.run("INSERT INTO t VALUES('b', 'c')");
    b.run("INSERT INTO t VALUES('a', 'a'); UPDATE OR REPLACE t SET u = 'c' WHERE u IN ('e', 'a')");
    agree(&mut a, &mut b, &["t"]);
}

/// The state says that such a reference is to nobody, and a row has the key all the same. If a rebuild
/// takes that row away, or gives it or the reference a type in which they differ, the row is hidden, as
/// if the row with the key had gone without a rebuild.
#[test]
fn an_early_reference_ends_when_a_rebuild_takes_its_key() {
    let parent = "CREATE TABLE p(k INT PRIMARY KEY)";
    let text = "CREATE TABLE p(k TEXT PRIMARY KEY)";
    let child = "CREATE TABLE c(id INT PRIMARY KEY, r REFERENCES p(k) ON DELETE RESTRICT)";
    let real = "CREATE TABLE c(id INT PRIMARY KEY, r REAL REFERENCES p(k) ON DELETE RESTRICT)";
    let rebuild = |t: &str, as_: &str| {
        format!(
            "BEGIN; CREATE TABLE was AS SELECT * FROM {t}; DROP TABLE {t}; {as_};
             INSERT INTO {t} SELECT * FROM was; DROP TABLE was; COMMIT"
        )
    };
    let stories = [
        (parent, "4", rebuild("p", parent) + "; DELETE FROM p"),
        (parent, "4.0", rebuild("p", text)),
        (text, "4", rebuild("c", real)),
    ];
    for (parent, value, migration) in stories {
        let (_world, mut a, mut b) = pair(&format!("{parent}; {child}"), &[]);
        a.run(&format!("PRAGMA foreign_keys = OFF; INSERT INTO c VALUES(1, {value})"));
        b.run("PRAGMA foreign_keys = OFF; INSERT INTO p VALUES(4)");
        b.pull(&mut a);
        assert_eq!(b.rows("SELECT id FROM c"), ["1"]);
        b.run(&migration);
        b.replica.fold().unwrap();
        b.check();
        assert_eq!(b.rows("SELECT id FROM c"), [""; 0], "{migration}");
        assert_eq!(b.replica.conflicts().unwrap()[0].kind.as_str(), "fk_dangling", "{migration}");
        assert_eq!(b.replica.verify_full().unwrap(), [""; 0], "{migration}");
        a.run(&migration);
        agree(&mut a, &mut b, &["p", "c"]);
    }
}

/// R-INC: who went with a former life of its parent does not come back when that gets another key.
#[test]
fn what_a_delete_did_comes_before_what_a_later_key_would_do() {
    for action in ["SET NULL", "SET DEFAULT"] {
        let (_world, mut a, mut b) = pair(
            &format!(
                "CREATE TABLE p(k TEXT PRIMARY KEY);
                 CREATE TABLE c(id INTEGER PRIMARY KEY, p TEXT DEFAULT 'z'
                   REFERENCES p(k) ON DELETE CASCADE ON UPDATE {action});
                 INSERT INTO p VALUES('x'), ('z'); INSERT INTO c VALUES(1, 'x')"
            ),
            &[],
        );
        a.run("DELETE FROM p WHERE k = 'x'; INSERT INTO p VALUES('x')");
        a.replica.fold().unwrap();
        a.run("INSERT INTO c VALUES(2, 'x')");
        a.replica.fold().unwrap();
        a.run("UPDATE p SET k = 'y' WHERE k = 'x'");
        a.replica.fold().unwrap();
        assert_eq!(a.rows("SELECT id FROM c"), ["2"], "{action}");
        agree(&mut a, &mut b, &["p", "c"]);
        assert_eq!(b.rows("SELECT id FROM c"), ["2"], "{action}");
    }
}
