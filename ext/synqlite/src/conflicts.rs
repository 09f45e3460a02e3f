//! Open conflicts, a row each.

use crate::call::Result;
use crate::table::Rows;
use rusqlite::types::Value;
use serde_json::Value as Json;
use std::ffi::CStr;
use synqlite_core::Replica;
use synqlite_front::answer;

pub struct Conflicts;

impl Rows for Conflicts {
    const NAME: &CStr = c"synqlite_conflicts";
    const COLUMNS: &CStr =
        c"CREATE TABLE x(id TEXT, tbl TEXT, row TEXT, kind TEXT, declared TEXT, \
        shown TEXT, displaced TEXT, winner TEXT, record TEXT, name TEXT, schema HIDDEN)";

    fn rows(replica: &Replica) -> Result<Vec<Vec<Value>>> {
        let cell = |json: &Json| match json {
            Json::Null => Value::Null,
            Json::String(text) => Value::Text(text.clone()),
            other => Value::Text(other.to_string()),
        };
        let names = ["id", "table", "row", "kind", "declared", "shown", "displaced", "winner"];
        let row = |json: Json| {
            let cells = names.iter().map(|name| cell(&json[*name]));
            cells.chain([Value::Text(json.to_string()), cell(&json["name"])]).collect()
        };
        let sites = replica.site_names()?;
        Ok(replica.conflicts()?.iter().map(|c| row(answer::conflict(c, &sites))).collect())
    }
}
