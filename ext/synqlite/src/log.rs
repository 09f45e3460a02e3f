//! The history of changes, newest first, a row each.

use crate::call::Result;
use crate::table::Rows;
use rusqlite::types::Value;
use serde_json::{Map, Value as Json};
use std::ffi::CStr;
use synqlite_core::{LogQuery, Replica};
use synqlite_front::answer;

pub struct Log;

impl Rows for Log {
    const NAME: &CStr = c"synqlite_log";
    const COLUMNS: &CStr =
        c"CREATE TABLE x(at TEXT, at_ms INTEGER, site TEXT, site_name TEXT, tbl TEXT, row TEXT, \
        kind TEXT, columns TEXT, name TEXT, schema HIDDEN)";

    fn rows(replica: &Replica) -> Result<Vec<Vec<Value>>> {
        let (entries, sites) = (replica.log(&LogQuery::default())?, replica.site_names()?);
        let row = entries.iter().map(|e| {
            let columns: Map<String, Json> = e
                .columns
                .iter()
                .map(|(column, value)| (column.clone(), value.clone().into()))
                .collect();
            vec![
                Value::Text(answer::time(e.at_ms)),
                Value::Integer(e.at_ms),
                Value::Text(e.site.to_string()),
                sites.name(e.site).map_or(Value::Null, |name| Value::Text(name.to_owned())),
                Value::Text(e.table.clone()),
                Value::Text(e.row.clone()),
                Value::Text(answer::change(e)),
                Value::Text(Json::Object(columns).to_string()),
                e.name.clone().map_or(Value::Null, Value::Text),
            ]
        });
        Ok(row.collect())
    }
}
