//! UNIQUE indexes (R-UNIQ).

use super::*;

fn unique<'t>(table: &'t Table, name: &str) -> &'t UniqueIndex {
    table.uniques.iter().find(|unique| unique.name == name).unwrap()
}

fn terms(unique: &UniqueIndex) -> Vec<(&str, &Collation)> {
    unique.terms.iter().map(|term| (term.sql.as_str(), &term.collation)).collect()
}

#[test]
fn all_unique_indexes_by_name() {
    let t = table(
        "CREATE TABLE t(a TEXT PRIMARY KEY, b UNIQUE, c, d, UNIQUE(d, c));
         CREATE UNIQUE INDEX z ON t(c); CREATE UNIQUE INDEX A ON t(d DESC); CREATE INDEX plain ON t(c)",
    );
    let names: Vec<(&str, bool)> = t.uniques.iter().map(|u| (u.name.as_str(), u.primary)).collect();
    let auto = |n| format!("sqlite_autoindex_t_{n}");
    assert_eq!(
        names,
        [("A", false), (&auto(1), true), (&auto(2), false), (&auto(3), false), ("z", false)]
    );
    let composite = unique(&t, &auto(3));
    assert_eq!(composite.columns, [2, 3]);
    assert_eq!(terms(composite), [("\"d\"", &Collation::Binary), ("\"c\"", &Collation::Binary)]);
}

#[test]
fn a_unique_constraint_that_repeats_the_key_is_the_key() {
    let t = table("CREATE TABLE t(a TEXT UNIQUE PRIMARY KEY)");
    assert_eq!(t.uniques.len(), 1);
    assert!(t.uniques[0].primary);
}

#[test]
fn collations_are_those_of_the_index() {
    let t = table(
        "CREATE TABLE t(a TEXT COLLATE nocase, b TEXT);
         CREATE UNIQUE INDEX u ON t(a, b COLLATE RTRIM DESC, (a) COLLATE binary)",
    );
    assert_eq!(
        terms(&t.uniques[0]),
        [
            ("\"a\"", &Collation::NoCase),
            ("\"b\"", &Collation::Rtrim),
            ("\"a\"", &Collation::Binary)
        ]
    );
}

#[test]
fn expressions_and_predicates_are_read_from_the_statement() {
    let t = table(
        "CREATE TABLE t(id INTEGER PRIMARY KEY, email TEXT, tenant INT, deleted INT, kind TEXT, w, lower INT);
         CREATE UNIQUE INDEX u ON t(tenant, lower(\"email\") COLLATE nocase ASC, /* , */ coalesce(w, ',)'), kind || 'x')
           WHERE deleted IS NULL AND \"active\" <> '' -- done",
    );
    let u = unique(&t, "u");
    assert_eq!(
        terms(u),
        [
            ("\"tenant\"", &Collation::Binary),
            ("lower(\"email\")", &Collation::NoCase),
            ("coalesce(w, ',)')", &Collation::Binary),
            ("kind || 'x'", &Collation::Binary)
        ]
    );
    assert_eq!(u.predicate.as_deref(), Some("deleted IS NULL AND \"active\" <> ''"));
    assert_eq!(u.columns, [1, 2, 3, 4, 5]);
}

#[test]
fn texts_of_terms_can_be_evaluated() {
    let conn = open(
        "CREATE TABLE t(id INTEGER PRIMARY KEY, \"a b\" TEXT, g AS (\"a b\" || '!'), n INT);
         CREATE UNIQUE INDEX u ON t(g DESC, substr(\"a b\", 1, 2) COLLATE nocase DESC, n % 10)
           WHERE n IN (11, 12)",
    );
    conn.execute_batch("INSERT INTO t(\"a b\", n) VALUES('Abc', 12), ('x', 13)").unwrap();
    let schema = read(&conn, &Policies::default(), &Selection::default()).unwrap();
    let u = &schema.tables[0].uniques[0];
    let list: Vec<&str> = u.terms.iter().map(|term| term.sql.as_str()).collect();
    let sql = format!("SELECT {} FROM t WHERE {}", list.join(", "), u.predicate.as_ref().unwrap());
    let row: (String, String, i64) =
        conn.query_row(&sql, [], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).unwrap();
    assert_eq!(row, ("Abc!".to_string(), "Ab".to_string(), 2));
    assert_eq!(u.columns, [1, 2]);
}

#[test]
fn generated_columns_stand_for_their_bases() {
    let t = table(
        "CREATE TABLE t(a TEXT, b, c, d, g AS (h + b), h AS (lower(a)) STORED, UNIQUE(g));
         CREATE UNIQUE INDEX u ON t(c) WHERE H > 0",
    );
    assert_eq!(unique(&t, "sqlite_autoindex_t_1").columns, [0, 1]);
    assert_eq!(terms(unique(&t, "sqlite_autoindex_t_1")), [("\"g\"", &Collation::Binary)]);
    assert_eq!(unique(&t, "u").columns, [0, 2]);
    let keeps: Vec<bool> = t.groups.iter().map(|group| group.keeps_previous).collect();
    assert_eq!(keeps, [true, true, true, false]);
}

#[test]
fn indexes_follow_renamed_columns() {
    let t = table(
        "CREATE TABLE t(a, b); CREATE UNIQUE INDEX u ON t(abs(a)) WHERE b > 0;
         ALTER TABLE t RENAME COLUMN a TO \"a (new\"; ALTER TABLE t ADD COLUMN c CHECK(c > b);
         ALTER TABLE t RENAME TO \"t (2\"; ALTER TABLE \"t (2\" DROP COLUMN c;
         ALTER TABLE \"t (2\" ADD COLUMN d AS (\"a (new\"); CREATE UNIQUE INDEX w ON \"t (2\"(d)",
    );
    assert_eq!(terms(unique(&t, "u"))[0].0, "abs(\"a (new\")");
    assert_eq!(unique(&t, "u").columns, [0, 1]);
    assert_eq!(unique(&t, "w").columns, [0]);
}

#[test]
fn functions_of_the_application_exclude_the_tables_that_need_them() {
    use rusqlite::functions::FunctionFlags;
    let conn = open("CREATE TABLE plain(a DEFAULT (1))");
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC;
    conn.create_scalar_function("own", 1, flags, |_| Ok(1)).unwrap();
    conn.execute_batch(
        "CREATE TABLE indexed(a TEXT); CREATE INDEX i ON indexed(length(a)) WHERE own(1); CREATE TABLE checked(a CHECK(own(a)));
         CREATE TABLE other(a TEXT); CREATE INDEX o ON other(own(1)); CREATE TABLE made(a, b AS (own(a)));
         CREATE TABLE by_default(a DEFAULT (own(1)))",
    )
    .unwrap();
    let read = || read(&conn, &Policies::default(), &Selection::default()).unwrap();
    assert_eq!(read().skipped, vec![]);
    conn.remove_function("own", 1).unwrap();
    let schema = read();
    assert_eq!(names(&schema.tables), ["by_default", "plain"]);
    for skipped in &schema.skipped {
        assert!(skipped.unfit && skipped.why.contains("own()"), "{skipped:?}");
    }
}

#[test]
fn unknown_collations_exclude_the_table() {
    // A collation is only looked up when it is used, so a schema written by hand shows one.
    let conn = open(
        "CREATE TABLE keyed(a TEXT COLLATE NOCASE PRIMARY KEY); CREATE TABLE uniq(a); CREATE TABLE free(a COLLATE NOCASE);
         CREATE TABLE indexed(a TEXT); CREATE TABLE checked(a TEXT COLLATE NOCASE, CHECK(a < 'z'));
         CREATE UNIQUE INDEX u ON uniq(a COLLATE NOCASE); CREATE INDEX i ON indexed(a COLLATE NOCASE);
         PRAGMA writable_schema=ON;
         UPDATE sqlite_master SET sql = replace(sql, 'NOCASE', 'de_DE');
         PRAGMA writable_schema=RESET;",
    );
    let schema = read(&conn, &Policies::default(), &Selection::default()).unwrap();
    assert_eq!(names(&schema.tables), ["free"]);
    let skipped = skipped(&schema);
    assert!(skipped["keyed"].contains("its PRIMARY KEY (a) compares by collation de_DE"));
    assert!(skipped["uniq"].contains("index u compares by collation de_DE"));
    for table in ["indexed", "checked"] {
        assert!(skipped[table].contains("brings along (no such collation sequence: de_DE)"));
    }
}
