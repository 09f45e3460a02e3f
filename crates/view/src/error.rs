//! What can go wrong while it is decided what rows show.

/// Result of the view.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A failure. Nothing was changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// What was to be shown would break a declared constraint.
    #[error("the merge would break a constraint of table {table}: {what}")]
    Constraint {
        /// The table.
        table: String,
        /// The constraint.
        what: String,
    },
    /// A fold that does not come to an end.
    #[error(
        "the fold cannot show row {row} of table {table} as it was written: row {rival} gave way to \
         it and stands in its way again"
    )]
    LocalWins {
        /// The table.
        table: String,
        /// The row.
        row: String,
        /// Who is in its way.
        rival: String,
    },
    /// States that contradict each other.
    #[error("the states of rows are damaged: {0}")]
    Damaged(String),
    /// Whoever answers the view could not.
    #[error(transparent)]
    Facts(Box<dyn std::error::Error + Send + Sync>),
}
