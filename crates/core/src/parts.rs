//! How many rows are done, or held, at a time.
//!
//! Where a part ends must not show. Histories that can be played by the thousand have few rows, so with
//! feature `small-parts` a part is a few, and they cross the bounds that else only large databases do.

/// So many rows, but two under `small-parts`.
pub(crate) const fn of(rows: usize) -> usize {
    if cfg!(feature = "small-parts") { 2 } else { rows }
}
