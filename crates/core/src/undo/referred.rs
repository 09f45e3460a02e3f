//! Rows to which others refer that are not taken back: they stay.

use super::plan::{Plan, Step};
use crate::Result;
use crate::catalog::Tracked;
use crate::describe::{loc_name, row_name, the_row};
use crate::needs::is_former;
use crate::referring::Referring;
use crate::rewrite::{Fate, Put};
use crate::state::Stored;
use crate::work::Work;
use std::collections::HashMap;
use synqlite_wire::Rid;

/// Leaves out the rows that would go and are referred to, and then those to which these refer.
pub(super) fn keep(work: &Work<'_>, plan: &mut Plan) -> Result<()> {
    let referring = Referring::new(work.conn);
    loop {
        let mut kept = Vec::new();
        let by_row: HashMap<(usize, &Rid), &Step> =
            plan.steps.iter().map(|step| ((step.table, &step.stored.rid), step)).collect();
        for (at, step) in plan.steps.iter().enumerate().filter(|(_, s)| s.fate == Fate::Goes) {
            if let Some(who) = who_refers(work, &referring, step, &by_row)? {
                kept.push((at, format!("{who} refers to it")));
            }
        }
        if kept.is_empty() {
            return Ok(());
        }
        let failed = kept.into_iter().map(|(at, why)| (at, None, why)).collect();
        plan.leave_out(&work.catalog, failed);
    }
}

fn who_refers<'a>(
    work: &'a Work<'_>,
    referring: &Referring<'a>,
    step: &Step,
    by_row: &HashMap<(usize, &Rid), &Step>,
) -> Result<Option<String>> {
    let (catalog, rid) = (&work.catalog, &step.stored.rid);
    // Whether it is taken back that this row refers to it.
    let leaves = |child: usize, f: usize, stored: &Stored| {
        let itself = child == step.table && stored.rid == *rid;
        let Some(of) = by_row.get(&(child, &stored.rid)) else { return itself };
        let place = catalog.tables[child].table.place_of_key(f);
        let moves = place.is_some_and(|(g, at)| match of.puts.get(&g) {
            Some(Put::Cell { new, .. }) => new.refs[at].as_ref() != Some(rid),
            _ => false,
        });
        itself || of.fate == Fate::Goes || moves
    };
    let shown = step.shown.as_deref();
    for (child, f, stored) in referring.rows(work.lookup(), (step.table, rid), shown)? {
        let t = &catalog.tables[child];
        if !leaves(child, f, &stored) && !is_former(t, f, &stored.state, &step.stored.state) {
            return name(work, t, &stored).map(Some);
        }
    }
    if let Some((c, loc)) = referring.local(catalog, &catalog.tables[step.table], shown)? {
        let row = loc_name(c, c.read(work.conn, &loc)?.as_deref(), &loc);
        return Ok(Some(said(c, &row)));
    }
    Ok(None)
}

fn name(work: &Work<'_>, t: &Tracked, stored: &Stored) -> Result<String> {
    let row = match &stored.loc {
        Some(loc) => t.read(work.conn, loc)?,
        None => None,
    };
    let name = row_name(t, row.as_deref(), stored.loc.as_ref(), &stored.state, &stored.rid);
    Ok(said(t, &name))
}

fn said(t: &Tracked, row: &str) -> String {
    format!("{} of {}", the_row(row), t.table.name)
}
