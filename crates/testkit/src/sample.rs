//! Random states in memory, on random schemas, beside the reference model.
//!
//! The view in memory and the model share nothing but the rules. Both get a history in which sites fold
//! whatever they write and learn all of each other, as SQL; after each step both must show the same rows.

use crate::history::START_MS;
use crate::model::{self, Difference, Verdict};
use crate::world::Result;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use synqlite_view::random::{Blueprint, Happened, History, Model, Source, Told};
use synqlite_view::schema::{Table, TableKind};

/// Plays the history of a seed in both.
pub fn compare(model: &mut model::Model, seed: u64) -> Result<Verdict> {
    let mut source = Source::new(seed);
    let blueprint = Blueprint::random(&mut source);
    let history = History::new(&mut source);
    let made = blueprint.model();
    let told = match history.tell(made.ground()) {
        Ok(told) => told,
        Err(e) => return Ok(different(&blueprint, &[], &format!("the view failed: {e}"))),
    };
    let theirs = model.ask(&to_json(&blueprint, &history, &told))?;
    if let Some(error) = theirs["error"].as_str() {
        return Ok(Verdict::Beyond(error.to_owned()));
    }
    let answers = theirs["steps"].as_array().map_or(&[][..], Vec::as_slice);
    for (n, (step, theirs)) in told.iter().zip(answers).enumerate() {
        if let (Happened::Ran(sql), false) = (&step.what, theirs["done"] == json!(true)) {
            // SQLite looks otherwise at a row that comes to refer to itself by another type.
            return Ok(
                match own_table(&made, sql, |t| t.foreign_keys.iter().any(|fk| fk.parent == t.name))
                {
                    true => Verdict::Beyond("SQLite decides otherwise there".to_owned()),
                    false => different(&blueprint, &told[..=n], "the statement fails there"),
                },
            );
        }
        let shown = theirs["shown"].as_array().map_or(&[][..], Vec::as_slice);
        for ((site, ours), theirs) in step.shown.iter().zip(shown) {
            let texts = theirs.as_array().into_iter().flatten().filter_map(Value::as_str);
            let mut rows: Vec<&str> = texts.filter(|text| !text.starts_with("conflict ")).collect();
            rows.sort_unstable();
            if *ours != rows && matches!(&step.what, Happened::Ran(sql) if converted(&made, sql)) {
                return Ok(Verdict::Beyond(
                    "SQLite leaves a row under the key that it converted".into(),
                ));
            }
            if *ours != rows {
                let how = format!("site {site} shows\n  {ours:?}\nand there\n  {rows:?}");
                return Ok(different(&blueprint, &told[..=n], &how));
            }
        }
    }
    Ok(Verdict::Same(told.len()))
}

/// Whether a statement changes a table without rowids to which columns of another type refer: SQLite converts
/// the old key in place while it looks for children by an index, and may then leave the row under it.
fn converted(made: &Model, sql: &str) -> bool {
    let leaves = |t: &Table| t.kind == TableKind::WithoutRowid && t.converts_old();
    sql.starts_with("UPDATE ") && own_table(made, sql, leaves)
}

/// Whether something is true of the table to which a statement writes.
fn own_table(made: &Model, sql: &str, is: impl Fn(&Table) -> bool) -> bool {
    let words = ["INSERT INTO ", "UPDATE ", "DELETE FROM "];
    let rest = words.iter().find_map(|word| sql.strip_prefix(word)).unwrap_or_default();
    let name = rest.split([' ', '(']).next().unwrap_or_default();
    made.catalog.by_name(name).is_some_and(|t| is(&t.table))
}

fn to_json(blueprint: &Blueprint, history: &History, told: &[Told]) -> Value {
    let query = |t: &synqlite_view::random::TableBlueprint| {
        let values: Vec<String> = t.columns.iter().map(|c| format!("quote({})", c.name)).collect();
        (t.name.clone(), format!("SELECT {} FROM {}", values.join("||' '||"), t.name).into())
    };
    let step = |Told { site, n, what, .. }: &Told| {
        let ms = START_MS + 1_000 * n;
        match what {
            Happened::Ran(sql) => json!({ "site": site, "ms": ms, "fold": false, "sql": sql }),
            Happened::Pulled(from) => json!({ "site": site, "ms": ms, "from": from }),
        }
    };
    json!({
        "schema": blueprint.sql(),
        "policies": blueprint.policies.iter().collect::<BTreeMap<_, _>>(),
        "sites": history.sites(),
        "lazy": false,
        "start": START_MS,
        "queries": Value::Object(blueprint.tables.iter().map(query).collect()),
        "steps": told.iter().map(step).collect::<Vec<_>>(),
    })
}

fn different(blueprint: &Blueprint, told: &[Told], how: &str) -> Verdict {
    let line = |Told { site, what, .. }: &Told| match what {
        Happened::Ran(sql) => format!("  {site}: {sql}\n"),
        Happened::Pulled(from) => format!("  {site} pulls from {from}\n"),
    };
    let steps: String = told.iter().map(line).collect();
    let policies: BTreeMap<_, _> = blueprint.policies.iter().collect();
    Verdict::Different(Difference {
        story: format!("{}\n{policies:?}\n{steps}{how}", blueprint.sql()),
    })
}
