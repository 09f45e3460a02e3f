//! Rows that stepped aside in tables that refer to each other.
//!
//! In such a circle rows are hidden in rounds, and what a row is hidden for may be what another shows
//! until it is hidden itself, or shows what it was before: a number that it takes from a third, a key that
//! the third refers to. So once one row of a circle is affected, all that stepped aside are: there are few,
//! and their fates are one.

use super::AffectedRows;
use crate::Result;

impl AffectedRows<'_> {
    /// Adds the rows that stepped aside in the circle of tables with an affected row, and those that show other
    /// numbers than they ask for.
    pub fn aside_in_circle(&mut self, at: usize) -> Result<()> {
        let (catalog, table) = (self.catalog(), self.list[at].table);
        if !self.contested || !catalog.is_in_circle(table) {
            return Ok(());
        }
        let circle = catalog.components.iter().find(|tables| tables.contains(&table));
        let Some(circle) = circle.filter(|circle| self.circles.insert(circle.start)) else {
            return Ok(());
        };
        for table in circle.clone() {
            let aside = self.facts.aside(table)?;
            aside.into_iter().try_for_each(|entry| self.load_entry(entry))?;
            if catalog.tables[table].table.renumbers().is_some() {
                self.renumbered(table)?;
            }
        }
        Ok(())
    }
}
