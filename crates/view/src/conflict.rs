//! Why a row does not show what was written, and what gave way without a record.
//!
//! Files and batches have each kind as a text, which is part of the id of a record: none ever changes.
//! A newer program may write one that is not known here, into the same file or to another site. So an
//! unknown text is no error but [`ConflictKind::Other`]: the record is listed, given on and settled
//! under the id that everybody knows, and whoever asks for a kind finds that it is none of theirs.

use std::fmt;

/// The kind of a conflict record, as in `docs/semantics.md`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ConflictKind {
    /// Hidden: another row has the earlier claim to a key (R-UNIQ).
    Unique,
    /// Shows what it was before: another row has the earlier claim (R-FALLBACK).
    Fallback,
    /// Hidden: its parent was deleted (R-FK-CASCADE).
    FkCascade,
    /// Hidden with its parent (R-FK-HIDDEN).
    FkParentHidden,
    /// Hidden: no row has the key that it refers to (R-FK-SETDEFAULT, R-SPELL).
    FkDangling,
    /// Hidden: its table here cannot hold it (R-UNFIT).
    RowConstraint,
    /// Hidden: SQLite did not take it, though its table could hold it (R-UNFIT).
    Refused,
    /// A reference shows NULL or its default: its row is not visible (R-FK-SETNULL).
    SetNull,
    /// Kept although deleted: another row refers to it (R-PROTECT).
    RestrictRevived,
    /// Never open: the later of two values stays (R-LWW).
    Overwritten,
    /// Never open: the same where both sites inserted one key (R-ID-KEY).
    KeyMerge,
    /// Never open: a delete hid a write that it had not seen (R-EXIST).
    UpdateLost,
    /// Never open: the row has another number than the one it was given (R-REMAP).
    Renumbered,
    /// Never open: decided when a file became a replica again.
    Rejoin,
    /// A kind of a newer program, by its text.
    Other(String),
}

/// All kinds that are known here. One that is missing in this list would be read as
/// [`ConflictKind::Other`].
const KNOWN: [ConflictKind; 14] = [
    ConflictKind::Unique,
    ConflictKind::Fallback,
    ConflictKind::FkCascade,
    ConflictKind::FkParentHidden,
    ConflictKind::FkDangling,
    ConflictKind::RowConstraint,
    ConflictKind::Refused,
    ConflictKind::SetNull,
    ConflictKind::RestrictRevived,
    ConflictKind::Overwritten,
    ConflictKind::KeyMerge,
    ConflictKind::UpdateLost,
    ConflictKind::Renumbered,
    ConflictKind::Rejoin,
];

impl ConflictKind {
    /// Its text, in files and for programs.
    pub fn as_str(&self) -> &str {
        match self {
            ConflictKind::Unique => "unique",
            ConflictKind::Fallback => "fallback",
            ConflictKind::FkCascade => "fk_cascade",
            ConflictKind::FkParentHidden => "fk_parent_hidden",
            ConflictKind::FkDangling => "fk_dangling",
            ConflictKind::RowConstraint => "row_constraint",
            ConflictKind::Refused => "refused",
            ConflictKind::SetNull => "set_null",
            ConflictKind::RestrictRevived => "restrict_revived",
            ConflictKind::Overwritten => "overwritten",
            ConflictKind::KeyMerge => "key_merge",
            ConflictKind::UpdateLost => "update_lost",
            ConflictKind::Renumbered => "renumbered",
            ConflictKind::Rejoin => "rejoin",
            ConflictKind::Other(text) => text,
        }
    }

    /// Whether a foreign key hides the row.
    pub fn is_of_foreign_key(&self) -> bool {
        matches!(
            self,
            ConflictKind::FkCascade | ConflictKind::FkParentHidden | ConflictKind::FkDangling
        )
    }
}

impl From<&str> for ConflictKind {
    fn from(text: &str) -> ConflictKind {
        let known = KNOWN.into_iter().find(|kind| kind.as_str() == text);
        known.unwrap_or_else(|| ConflictKind::Other(text.to_owned()))
    }
}

impl fmt::Display for ConflictKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_come_back_as_they_were() {
        for kind in KNOWN {
            let text = kind.to_string();
            assert_eq!(ConflictKind::from(text.as_str()), kind);
        }
        let newer = ConflictKind::from("of_tomorrow");
        assert_eq!(
            (newer.as_str(), &newer),
            ("of_tomorrow", &ConflictKind::Other("of_tomorrow".into()))
        );
    }
}
