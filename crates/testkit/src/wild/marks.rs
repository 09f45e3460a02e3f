//! What became of what was written: each mark is written once, so it can be followed.
//!
//! A mark is owed if it came to stand in a database by a local statement, and no local statement of any
//! site took it away from where it was seen. What is owed must be shown, or told by a record.

use std::collections::{BTreeMap, BTreeSet};

/// Marks that were written, by site and in order.
#[derive(Debug, Default)]
pub struct Marks {
    written: Vec<(String, usize)>,
    known: BTreeSet<String>,
    gone: BTreeSet<String>,
    /// Marks in statements that no trigger noted.
    unnoted: BTreeSet<String>,
    /// Whether there were any.
    blind: bool,
}

/// How often each mark is shown.
pub type Shown = BTreeMap<String, usize>;

/// The marks among texts.
pub fn count(texts: &[String]) -> Shown {
    let mut shown = Shown::new();
    for text in texts.iter().filter(|text| is_mark(text)) {
        *shown.entry(text.clone()).or_default() += 1;
    }
    shown
}

/// The marks in a statement.
pub fn within(sql: &str) -> impl Iterator<Item = &str> {
    sql.split('\'').filter(|word| is_mark(word))
}

/// Whether this is one.
pub fn is_mark(text: &str) -> bool {
    let digits = text.strip_prefix('w').and_then(|rest| rest.strip_suffix('.'));
    digits.is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()))
}

impl Marks {
    /// Takes note of a local statement of a site.
    pub fn local(&mut self, site: usize, before: &Shown, after: &Shown) {
        for (mark, count) in before {
            if after.get(mark).is_none_or(|now| now < count) {
                self.gone.insert(mark.clone());
            }
        }
        for mark in after.keys().filter(|mark| !before.contains_key(*mark)) {
            if self.known.insert(mark.clone()) {
                self.written.push((mark.clone(), site));
            }
        }
    }

    /// Takes note of statements that triggers may not note.
    pub fn unnoted(&mut self, script: &[String]) {
        self.blind = true;
        self.unnoted.extend(script.iter().flat_map(|sql| within(sql)).map(str::to_owned));
    }

    /// Whether triggers noted all that was written.
    pub fn all_noted(&self) -> bool {
        !self.blind
    }

    /// Whether triggers noted when this mark was written.
    pub fn is_noted(&self, mark: &str) -> bool {
        !self.unnoted.contains(mark)
    }

    /// What was dropped with its table or column, and was not shown there.
    pub fn drop(&mut self, hidden: Shown) {
        self.gone.extend(hidden.into_keys());
    }

    /// A site went back to an earlier state; `shown` says what all sites show then. What none shows may
    /// have been known to that site only.
    pub fn restored(&mut self, shown: &Shown) {
        let lost = self.written.iter().filter(|(mark, _)| !shown.contains_key(mark));
        self.gone.extend(lost.map(|(mark, _)| mark.clone()));
    }

    /// What must be shown or told.
    pub fn owed(&self) -> impl Iterator<Item = &(String, usize)> {
        self.written.iter().filter(|(mark, _)| !self.gone.contains(mark))
    }
}
