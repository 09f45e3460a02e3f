//! What rows show follows schema and policies at once (R-FOLLOW).
//!
//! The view is a function of states, schema and policies. Where one of the latter changes, the rows
//! that can show something else are those that show something derived: with a record, with a reference
//! or a key that they wait for, or with another number than they ask for. All others show what was
//! written, and SQLite has already held that against every constraint the application declared. Only
//! references are not held against theirs while foreign keys are off; so where foreign keys are new,
//! rows that refer to nobody are looked for.

use super::cases::Cases;
use super::{Merged, apply, show, view};
use crate::catalog::Catalog;
use crate::fold;
use crate::meta::Meta;
use crate::policy::Policies;
use crate::refs::Lookup;
use crate::{Result, state};
use rusqlite::Connection;
use std::collections::BTreeSet;

/// Shows what schema and policies as they are now make of the states. `references`: numbers of tables
/// whose foreign keys are new, or newly enforced.
pub(crate) fn refresh(
    conn: &Connection,
    meta: &mut Meta,
    catalog: &Catalog,
    policies: &Policies,
    references: &BTreeSet<u32>,
) -> Result<()> {
    show(conn, meta, |meta, _, refused| {
        let mut cases = Cases::new(Lookup { conn, meta, catalog }, policies)?;
        for (no, entry) in state::derived(conn)? {
            cases.load_entry(no, entry)?;
        }
        let keys = catalog.tables.iter().enumerate().filter(|(_, t)| references.contains(&t.no));
        for (table, t) in keys.filter(|_| policies.enforces_foreign_keys()) {
            for fk in t.table.foreign_keys.iter().filter(|fk| fk.enforced) {
                let Some(parent) = catalog.by_name(&fk.parent) else { continue };
                for loc in fold::dangling(conn, t, parent, fk)? {
                    cases.load_at(table, &loc)?;
                }
            }
        }
        if cases.list.is_empty() {
            return Ok(());
        }
        cases.refuse(refused)?;
        let view = view::settle(&mut cases, true)?;
        let mut list = view::decide(cases, view, &mut Merged::default());
        apply::apply(conn, meta, catalog, policies, &mut list, Some(refused)).map(drop)
    })
}
