//! Foreign keys of every shape whose parents are never deleted.

use super::{Context, Family, or};
use crate::random::Random;

pub(super) const FAMILY: Family = Family::written(
    "references",
    &["p", "c", "pair", "prof", "tree", "tag", "tagged"],
    schema,
    statement,
);

fn schema() -> String {
    "
    CREATE TABLE p(id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT);
    CREATE TABLE c(id INTEGER PRIMARY KEY, p INT REFERENCES p(id), t);
    CREATE TABLE pair(p INT REFERENCES p, tag TEXT, w, PRIMARY KEY(p, tag)) WITHOUT ROWID;
    CREATE TABLE prof(p INTEGER PRIMARY KEY REFERENCES p(id), bio, z);
    CREATE TABLE tree(id INTEGER PRIMARY KEY, up INT REFERENCES tree(id), v);
    CREATE TABLE tag(k TEXT PRIMARY KEY, v);
    CREATE TABLE tagged(id INTEGER PRIMARY KEY, k TEXT NOT NULL REFERENCES tag(k) ON UPDATE CASCADE, v);
    INSERT INTO p VALUES(101, 'p1'), (102, 'p2');
    INSERT INTO c VALUES(101, 101, 'c1'), (102, 102, 'c2'), (103, NULL, 'c3');
    INSERT INTO pair VALUES(101, 'a', 0), (102, 'b', 0);
    INSERT INTO prof VALUES(101, 'bio', 0);
    INSERT INTO tree VALUES(101, NULL, 0), (102, 101, 0), (103, 103, 0);
    INSERT INTO tag VALUES('red', 0), ('green', 0);
    INSERT INTO tagged VALUES(101, 'red', 0), (102, 'green', 0);
    "
    .into()
}

fn statement(r: &mut Random, c: &Context) -> String {
    let n = c.n + 1_000;
    let (some, other) = (101 + r.below(6), 101 + r.below(6));
    let or = or(r);
    let key = r.pick(&["a", "b", "c"]);
    let name = c.name();
    // References come back to where they were.
    let mut kind = r.below(24);
    if c.onward && matches!(kind, 5 | 6 | 15 | 21) {
        kind = 18;
    }
    match kind {
        0..3 => format!("INSERT INTO p(id, name) VALUES({}, '{name}')", c.id()),
        3 => format!("UPDATE p SET name = '{name}' WHERE id = {some}"),
        4 => format!(
            "INSERT INTO c(id, p, t) SELECT {}, id, {n} FROM p ORDER BY id DESC LIMIT 1",
            c.id()
        ),
        5 => format!("UPDATE c SET p = {some} WHERE id = {other}"),
        6 => format!("UPDATE c SET p = NULL, t = {n} WHERE id = {other}"),
        7 => format!("UPDATE c SET t = {n} WHERE p = {some}"),
        8 => format!("DELETE FROM c WHERE id = {some}"),
        9 => {
            format!("INSERT {or} INTO pair SELECT id, '{key}', {n} FROM p ORDER BY id DESC LIMIT 2")
        }
        10 => format!(
            "INSERT INTO pair VALUES({some}, '{key}', {n}) \
             ON CONFLICT DO UPDATE SET w = excluded.w"
        ),
        11 => format!("DELETE FROM pair WHERE tag = '{key}' AND p <= {some}"),
        12 => format!("INSERT {or} INTO prof VALUES({some}, 'bio{n}', {n})"),
        13 => format!("UPDATE prof SET z = {n} WHERE p >= {some}"),
        14 => format!(
            "INSERT INTO tree SELECT {}, id, {n} FROM tree ORDER BY id DESC LIMIT 1",
            c.id()
        ),
        15 => format!("UPDATE tree SET up = {some} WHERE id = {other}"),
        16 => format!("UPDATE tree SET v = {n} WHERE up >= {some}"),
        17 => format!("INSERT INTO tag VALUES('{name}', {n})"),
        18 => format!(
            "UPDATE tag SET k = '{name}' WHERE k = (SELECT k FROM tag ORDER BY k DESC LIMIT 1)"
        ),
        19 => format!("UPDATE tag SET v = {n} WHERE k < 's'"),
        20 => format!("INSERT INTO tagged SELECT {}, k, {n} FROM tag ORDER BY k LIMIT 1", c.id()),
        21 => format!("UPDATE tagged SET k = (SELECT min(k) FROM tag) WHERE id = {some}"),
        22 => format!("UPDATE tagged SET v = {n} WHERE id <= {some}"),
        _ => format!("INSERT OR REPLACE INTO tag SELECT k, {n} FROM tag ORDER BY k LIMIT 1"),
    }
}
