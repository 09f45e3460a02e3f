//! Value by value against SQLite itself.

use super::*;
use crate::schema::{Action, ForeignKey};
use crate::sqlvalue::{Bind, value};
use rusqlite::Connection;
use synqlite_wire::key::encode_values;

const AFFINITIES: [(Affinity, &str); 5] = [
    (Affinity::Blob, ""),
    (Affinity::Text, "TEXT"),
    (Affinity::Numeric, "NUMERIC"),
    (Affinity::Integer, "INT"),
    (Affinity::Real, "REAL"),
];

const COLLATIONS: [(Collation, &str); 3] =
    [(Collation::Binary, "BINARY"), (Collation::NoCase, "NOCASE"), (Collation::Rtrim, "RTRIM")];

#[expect(clippy::too_many_lines, reason = "a table of values")]
fn values() -> Vec<Value> {
    let texts = [
        "",
        " ",
        "a",
        "A",
        "a ",
        "A ",
        "abc",
        "ABC",
        "\u{e4}",
        "\u{c4}",
        "0",
        "1",
        "01",
        " 1",
        "1 ",
        "+1",
        "-1",
        "1.0",
        "1.",
        ".5",
        "0.5",
        "5e-1",
        "1e0",
        "1E2",
        "100",
        "1e",
        "e1",
        ".",
        "-",
        "1 2",
        "0x10",
        "inf",
        "Inf",
        "nan",
        "9223372036854775807",
        "9223372036854775808",
        "-9223372036854775808",
        "1e400",
        "9007199254740993",
        "\u{b}1",
        "1.0e+15",
        "123456789012345678",
        "a\0b",
        "A\0c",
        "a\0bc",
    ];
    let reals = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        0.5,
        0.1 + 0.2,
        100.0,
        1e15,
        1e14,
        123_456_789_012_345.0,
        1e-4,
        1e-5,
        1e16,
        9_007_199_254_740_992.0,
        9_007_199_254_740_994.0,
        9.223_372_036_854_775e18,
        9.223_372_036_854_776e18,
        -9.223_372_036_854_776e18,
        1e22 / 3.0,
        1e300,
        5e-324,
        f64::INFINITY,
        f64::NEG_INFINITY,
    ];
    let integers = [
        0,
        1,
        -1,
        5,
        100,
        1 << 53,
        (1 << 53) + 1,
        10_i64.pow(15),
        10_i64.pow(16),
        i64::MAX,
        i64::MIN,
        i64::MAX - 1,
    ];
    let blobs = [&b""[..], b"a", b"1", b"A"];
    let mut all: Vec<Value> = texts.iter().map(|t| Value::from(*t)).collect();
    all.extend(reals.map(Value::Real));
    all.extend(integers.map(Value::Integer));
    all.extend(blobs.iter().map(|b| Value::Blob(b.to_vec())));
    all
}

/// SQLite's versions differ in how they write a double of more than fifteen digits.
fn exact(value: &Value) -> bool {
    !means_none(value, Affinity::Text)
}

#[test]
fn columns_store_what_sqlite_stores() {
    let conn = Connection::open_in_memory().unwrap();
    for (affinity, name) in AFFINITIES {
        conn.execute_batch(&format!("DROP TABLE IF EXISTS t; CREATE TABLE t(x {name})")).unwrap();
        for given in values().iter().filter(|v| exact(v)) {
            conn.execute("INSERT OR REPLACE INTO t(rowid, x) VALUES(1, ?1)", [Bind(given)])
                .unwrap();
            let kept = conn.query_row("SELECT x FROM t", [], |row| row.get_ref(0).map(value));
            let ours = stored(given, affinity);
            assert_eq!(ours, kept.unwrap(), "{given:?} in a column of type `{name}`");
        }
    }
}

#[test]
fn equal_keys_have_equal_bytes() {
    let conn = Connection::open_in_memory().unwrap();
    for (collation, collate) in COLLATIONS {
        for (affinity, name) in AFFINITIES {
            conn.execute_batch(&format!(
                "DROP TABLE IF EXISTS t; CREATE TABLE t(n INTEGER PRIMARY KEY, x {name} COLLATE {collate})"
            ))
            .unwrap();
            for given in values() {
                conn.execute("INSERT INTO t(x) VALUES(?1)", [Bind(&given)]).unwrap();
            }
            let mut rows = conn.prepare("SELECT a.x, b.x, a.x = b.x FROM t AS a, t AS b").unwrap();
            let mut rows = rows.query([]).unwrap();
            while let Some(row) = rows.next().unwrap() {
                let (a, b) = (value(row.get_ref(0).unwrap()), value(row.get_ref(1).unwrap()));
                let bytes = |v| encode_values([(v, &collation)]);
                let equal: bool = row.get(2).unwrap();
                assert_eq!(bytes(&a) == bytes(&b), equal, "{a:?}, {b:?}, {affinity:?} {collate}");
            }
        }
    }
}

/// What SQLite's foreign keys hold for a reference: whether a child may have a value, and which rows a
/// parent's key finds.
#[test]
fn references_are_to_what_sqlite_finds() {
    let all: Vec<Value> = values().into_iter().filter(exact).collect();
    for (parent, parent_type) in AFFINITIES {
        for (collation, collate) in COLLATIONS {
            for (child, child_type) in AFFINITIES {
                for (own, own_collate) in COLLATIONS {
                    let conn = Connection::open_in_memory().unwrap();
                    conn.execute_batch(&format!(
                        "PRAGMA foreign_keys=OFF; CREATE TABLE p(x {parent_type} COLLATE {collate} UNIQUE);
                         CREATE TABLE c(n INTEGER PRIMARY KEY, x {child_type} COLLATE {own_collate} REFERENCES p(x));
                         CREATE INDEX i ON c(x)"
                    ))
                    .unwrap();
                    for given in &all {
                        conn.execute("INSERT INTO c(x) VALUES(?1)", [Bind(given)]).unwrap();
                    }
                    let fk = ForeignKey {
                        name: "x>p(x)".into(),
                        nth: 1,
                        columns: vec![1],
                        parent: "p".into(),
                        parent_columns: vec![0],
                        parent_names: vec!["x".into()],
                        parent_keys: vec![(parent, collation.clone())],
                        on_delete: Action::NoAction,
                        on_update: Action::NoAction,
                        enforced: true,
                    };
                    for key in all.iter().map(|key| stored(key, parent)) {
                        conn.execute_batch("DELETE FROM p").unwrap();
                        conn.execute("INSERT INTO p VALUES(?1)", [Bind(&key)]).unwrap();
                        let mut broken = conn.prepare("PRAGMA foreign_key_check(c)").unwrap();
                        let broken = broken.query_map([], |row| row.get::<_, i64>(1)).unwrap();
                        let broken: Vec<i64> = broken.collect::<Result<_, _>>().unwrap();
                        let pair = Pair { child: ("o.x", child, &own), parent: &fk.parent_keys[0] };
                        let sql = format!("SELECT n FROM c AS o WHERE {}", pair.means_sql(&key, 1));
                        let mut found = conn.prepare(&sql).unwrap();
                        let found = found.query_map([Bind(&key)], |row| row.get(0)).unwrap();
                        let found: Vec<i64> = found.collect::<Result<_, _>>().unwrap();
                        let mut rows = conn.prepare("SELECT n, x FROM c").unwrap();
                        let mut rows = rows.query([]).unwrap();
                        while let Some(row) = rows.next().unwrap() {
                            let (n, x) = (row.get(0).unwrap(), value(row.get_ref(1).unwrap()));
                            let means = !broken.contains(&n);
                            let what = format!(
                                "{x:?} {child:?} {own:?} to {key:?} {parent:?} {collation:?}"
                            );
                            if means_none(&x, parent) {
                                // Versions of SQLite do not agree on it, so we hold it for none.
                                continue;
                            }
                            let same = reference_bytes(&fk, [&x]) == reference_bytes(&fk, [&key]);
                            assert_eq!(same, means, "bytes: {what}");
                            assert_eq!(found.contains(&n), means, "{sql}: {what}");
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn references_keep_their_spelling_while_they_mean_the_key() {
    let fk = |parent: Affinity, collation| ForeignKey {
        name: "x>p".into(),
        nth: 1,
        columns: vec![0],
        parent: "p".into(),
        parent_columns: vec![0],
        parent_names: vec!["x".into()],
        parent_keys: vec![(parent, collation)],
        on_delete: Action::NoAction,
        on_update: Action::NoAction,
        enforced: true,
    };
    let nocase = fk(Affinity::Text, Collation::NoCase);
    let show = |fk: &ForeignKey, written: Value, key: Value, child| {
        spelled(fk, &[&written], &[&key], &[child]).remove(0)
    };
    assert_eq!(show(&nocase, "ABC".into(), "abc".into(), Affinity::Text), "ABC".into());
    assert_eq!(show(&nocase, "ABC".into(), "xyz".into(), Affinity::Text), "xyz".into());
    let number = fk(Affinity::Integer, Collation::Binary);
    assert_eq!(show(&number, "05".into(), 5.into(), Affinity::Text), "05".into());
    assert_eq!(show(&number, "05".into(), 6.into(), Affinity::Text), "6".into());
    assert_eq!(show(&number, Value::Null, 6.into(), Affinity::Blob), 6.into());
}

#[test]
fn sql_tells_alike_which_values_mean_no_text() {
    let conn = Connection::open_in_memory().unwrap();
    let sql = format!("SELECT {} FROM (SELECT ?1 AS x)", means_none_sql("x"));
    for given in values() {
        let told: bool = conn.query_row(&sql, [Bind(&given)], |row| row.get(0)).unwrap();
        assert_eq!(told, means_none(&given, Affinity::Text), "{given:?}");
    }
}
