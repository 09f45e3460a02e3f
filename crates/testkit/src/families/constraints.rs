//! CHECK over several columns, STRICT, generated columns, defaults, NOT NULL, singletons.

use super::{Context, Family, or};
use crate::random::Random;

pub(super) const FAMILY: Family = Family::written(
    "constraints",
    &["typed", "gen", "span", "one", "i", "three"],
    schema,
    statement,
);

fn schema() -> String {
    "
    CREATE TABLE typed(id INTEGER PRIMARY KEY, n INT NOT NULL, t TEXT, x ANY, b BLOB) STRICT;
    CREATE TABLE gen(k TEXT PRIMARY KEY, a INT, b INT, s INT AS (a + b), l TEXT AS (lower(k)) STORED);
    CREATE TABLE span(id INTEGER PRIMARY KEY, lo INT NOT NULL, hi INT NOT NULL, z, CHECK(lo <= hi));
    CREATE TABLE one(id INTEGER PRIMARY KEY CHECK(id = 1), lo INT, hi INT, z, CHECK(lo <= hi));
    CREATE TABLE i(k INT PRIMARY KEY, v DEFAULT 'd', w NOT NULL DEFAULT 7);
    CREATE TABLE three(k INT PRIMARY KEY, a INT, b INT, c INT, note, CHECK(a + b < c));
    INSERT INTO typed VALUES(101, 1, 't', 1, x'00'), (102, 2, NULL, 'x', NULL);
    INSERT INTO gen(k, a, b) VALUES('A', 1, 2), ('B', NULL, 2);
    INSERT INTO span VALUES(101, 0, 10, 0), (102, 0, 10, 0);
    INSERT INTO i(k) VALUES(1), (2);
    INSERT INTO three VALUES(1, 0, 0, 9, 0), (2, 0, 0, 9, 0);
    "
    .into()
}

fn statement(r: &mut Random, c: &Context) -> String {
    let n = c.n + 1_000;
    let (some, few) = (101 + r.below(6), 1 + r.below(4));
    let (wide, narrow) = (n + 40, n.saturating_sub(40));
    let or = or(r);
    let key = r.pick(&["A", "B", "C", "D"]);
    match r.below(24) {
        0 => format!("INSERT INTO typed VALUES({}, {n}, 't{n}', {n}, x'{n:06}')", c.id()),
        1 => format!(
            "INSERT {or} INTO typed VALUES({}, {n}, '{n}', 'x{n}', x'{n:08}')",
            c.contested_id(r)
        ),
        2 => format!("UPDATE typed SET n = {n} WHERE id <= {some}"),
        3 => format!("UPDATE typed SET t = 't{n}', b = x'{n:010}' WHERE id = {some}"),
        4 => format!("UPDATE typed SET n = 'no number' WHERE id = {some}"),
        5 => format!("DELETE FROM typed WHERE id = {some}"),
        6 => format!("INSERT {or} INTO gen(k, a, b) VALUES('{key}', {n}, {n})"),
        7 => format!("UPDATE gen SET a = {n} WHERE k = '{key}'"),
        8 => format!("UPDATE gen SET b = {n} WHERE l >= lower('{key}')"),
        9 => format!("DELETE FROM gen WHERE k = '{key}'"),
        10 => format!("INSERT INTO span VALUES({}, {narrow}, {wide}, {n})", c.id()),
        11 => format!("UPDATE {or} span SET lo = {narrow} WHERE id = {some}"),
        12 => format!("UPDATE span SET hi = {wide} WHERE id >= {some}"),
        13 => format!("UPDATE span SET z = {n} WHERE id = {some}"),
        14 => format!("DELETE FROM span WHERE id = {some}"),
        15 => format!("INSERT {or} INTO one VALUES(1, {narrow}, {wide}, {n})"),
        16 => format!("UPDATE one SET hi = {wide}"),
        17 => format!("UPDATE one SET lo = {narrow}, z = {n}"),
        18 => format!("INSERT {or} INTO i VALUES({few}, 'v{n}', {n})"),
        19 => format!("UPDATE i SET v = {n} WHERE k = {few}"),
        20 => format!("DELETE FROM i WHERE k = {few}"),
        21 => format!("INSERT {or} INTO three VALUES({few}, {n}, {n}, {}, {n})", 3 * n),
        22 => format!("UPDATE three SET a = {n}, c = {} WHERE k = {few}", 4 * n),
        _ => format!("UPDATE three SET note = {n} WHERE k >= {few}"),
    }
}
