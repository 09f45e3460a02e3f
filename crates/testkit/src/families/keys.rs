//! Every kind of primary key, and none.

use super::{Context, Family, or};
use crate::random::Random;

pub(super) const FAMILY: Family =
    Family::written("keys", &["n", "bag", "k", "j", "r", "odd \"name\""], schema, statement);

fn schema() -> String {
    r#"
    CREATE TABLE n(id INTEGER PRIMARY KEY, s, d);
    CREATE TABLE bag(a, b);
    CREATE TABLE k(k TEXT PRIMARY KEY COLLATE NOCASE, x, y TEXT);
    CREATE TABLE j(a TEXT, b INT, w, v, PRIMARY KEY(a, b)) WITHOUT ROWID;
    CREATE TABLE r(k PRIMARY KEY, v, w);
    CREATE TABLE "odd ""name"""("the key" TEXT PRIMARY KEY, "select" INT, "é ö" TEXT);
    INSERT INTO n VALUES(101, 'n1', 0), (102, 'n2', 0), (103, 'n3', 0);
    INSERT INTO bag VALUES(1, 1), (1, 1), (2, 2);
    INSERT INTO k VALUES('a', 0, 'y'), ('b', 0, 'y');
    INSERT INTO j VALUES('a', 1, 0, 0), ('b', 2, 0, 0);
    INSERT INTO r VALUES(1, 'v', 0), (2.5, 'v', 0), ('three', 'v', 0), (x'04', 'v', 0), (NULL, 'v', 0);
    INSERT INTO "odd ""name""" VALUES('it''s', 0, 'x'), ('', 0, 'x');
    "#
    .into()
}

fn statement(r: &mut Random, c: &Context) -> String {
    let (n, few) = (c.n + 1_000, r.below(5) + 1);
    let existing = 101 + r.below(8);
    let or = or(r);
    let key = if c.onward { r.pick(&["a", "b", "c", "d"]) } else { r.pick(&["a", "A", "b", "c"]) };
    let name = c.name();
    match r.below(27) {
        0..3 => format!("INSERT INTO n(id, s) VALUES({}, {n})", c.id()),
        3 => format!("INSERT {or} INTO n(id, s, d) VALUES({}, {n}, x'{n:08}')", c.contested_id(r)),
        4 | 5 => format!("UPDATE n SET s = {n} WHERE id = {existing}"),
        6 => format!("UPDATE n SET d = 'd{n}' WHERE id <= {existing}"),
        7 => format!("UPDATE {or} n SET id = {} WHERE id = {existing}", c.moved_id(r, existing)),
        8 => format!("DELETE FROM n WHERE id = {existing}"),
        9 => "DELETE FROM n WHERE id = (SELECT max(id) FROM n)".into(),
        10 => format!("INSERT INTO bag VALUES({few}, {n}), ({few}, {n})"),
        11 => format!("DELETE FROM bag WHERE a = {few}"),
        12 => format!("UPDATE bag SET b = {n} WHERE a = {few}"),
        13 => format!("INSERT {or} INTO k VALUES('{key}', {n}, {n})"),
        14 => format!(
            "INSERT INTO k VALUES('{key}', {n}, 'i') ON CONFLICT(k) DO UPDATE SET x = excluded.x"
        ),
        15 => format!("UPDATE k SET y = 'y{n}' WHERE k = '{key}'"),
        16 => format!("DELETE FROM k WHERE k = '{key}'"),
        17 => format!("INSERT {or} INTO j VALUES('{key}', {few}, {n}, {n})"),
        18 => format!("UPDATE j SET w = {n} WHERE a = '{key}'"),
        19 => format!("UPDATE j SET v = 'v{n}' WHERE b = {few}"),
        20 => format!("DELETE FROM j WHERE b = {few}"),
        21 => format!("UPDATE r SET k = '{name}', v = {n} WHERE rowid = {few}"),
        22 => format!("INSERT INTO r VALUES(NULL, 'null', {n})"),
        23 => format!("UPDATE r SET w = 'w{n}' WHERE k IS NULL OR k > 2"),
        24 => format!("INSERT INTO r VALUES('{name}', {n}, 0)"),
        25 => format!(
            "UPDATE \"odd \"\"name\"\"\" SET \"select\" = {n} WHERE \"the key\" <> '{name}'"
        ),
        _ => format!("INSERT {or} INTO \"odd \"\"name\"\"\" VALUES('{key}', {n}, '{name}')"),
    }
}
