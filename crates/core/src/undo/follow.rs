//! References that ON UPDATE took from a row, whose key is what it was again (R-FK-ONUPDATE).
//!
//! They still hold what they were written as, and the change of the key was later. So they are written as they
//! are, beside the key: then nothing is later.

use super::plan::{Fate, Plan, Put, Step, name_of};
use crate::Result;
use crate::state::{self, Body};
use crate::work::Work;
use std::collections::BTreeMap;

/// Adds steps for rows that refer to those whose keys are put back, in place of those that were added before.
pub(super) fn again(work: &Work<'_>, plan: &mut Plan) -> Result<()> {
    plan.steps.retain(|step| !step.follows);
    let Work { conn, meta, catalog, .. } = work;
    let mut again = Vec::new();
    for step in plan.steps.iter().filter(|step| step.fate == Fate::Stays) {
        let t = &catalog.tables[step.table];
        for (no, entry) in state::waiting_for_row(conn, meta, t, &step.stored.rid)? {
            let Some(table) = catalog.position_of_no(no) else { continue };
            let c = &catalog.tables[table];
            let Some(stored) = state::entry_by_id(conn, meta, c, entry)? else { continue };
            let row = (table, stored.rid.clone());
            let known = plan.steps.iter().any(|s| s.table == table && s.stored.rid == row.1);
            if stored.loc.is_none() || known || plan.stay.contains(&row) {
                continue;
            }
            let mut puts = BTreeMap::new();
            for (f, fk) in c.table.foreign_keys.iter().enumerate() {
                let Some((g, _)) = c.table.place_of_key(f) else { continue };
                let of_key = |p: &usize| t.table.columns[*p].group;
                let mut keys = fk.parent_columns.iter().map(of_key);
                let later = |p: usize| {
                    let written = step.stored.state.groups[p].stamp;
                    step.puts.contains_key(&p) && written > stored.state.groups[g].stamp
                };
                let refers = stored.state.kept_reference(c, f) == Some(&step.stored.rid);
                if let (true, Body::Stored(cell)) =
                    (refers && fk.on_update.sets() && keys.any(later), &stored.state.groups[g].body)
                {
                    puts.insert(g, Put::Cell { old: cell.clone(), new: cell.clone() });
                }
            }
            if !puts.is_empty() {
                let (name, shown) = name_of(work, c, &stored)?;
                let fate = Fate::Stays;
                again.push(Step { table, stored, shown, name, fate, puts, follows: true });
            }
        }
    }
    plan.steps.append(&mut again);
    Ok(())
}
