//! A table of 80 columns: change masks of more than one word.

use super::{Context, Family, or};
use crate::random::Random;

pub(super) const FAMILY: Family = Family::written("wide", &["wide"], schema, statement);

const COLUMNS: u64 = 79;

fn schema() -> String {
    let columns: Vec<String> = (0..COLUMNS).map(|i| format!("c{i} DEFAULT {i}")).collect();
    format!(
        "CREATE TABLE wide(id INTEGER PRIMARY KEY, {}); INSERT INTO wide(id) VALUES(101), (102);",
        columns.join(", ")
    )
}

fn statement(r: &mut Random, c: &Context) -> String {
    let n = c.n + 1_000;
    let some = 101 + r.below(4);
    let (a, b) = (r.below(COLUMNS), r.below(COLUMNS));
    let or = or(r);
    match r.below(10) {
        0 | 1 => format!("INSERT INTO wide(id, c{a}, c78) VALUES({}, {n}, {n})", c.id()),
        2 => format!(
            "INSERT {} INTO wide(id, c{a}) VALUES({}, {n})",
            c.or_partial(r),
            c.contested_id(r)
        ),
        3..6 => format!("UPDATE wide SET c{a} = {n} WHERE id = {some}"),
        6 | 7 => format!(
            "UPDATE wide SET c{a} = {n}, c{} = 'x{n}' WHERE id >= {some}",
            (a + 1 + b % 7) % COLUMNS
        ),
        8 => {
            format!("UPDATE {or} wide SET id = {}, c0 = {n} WHERE id = {some}", c.moved_id(r, some))
        }
        _ => format!("DELETE FROM wide WHERE id = {some}"),
    }
}
