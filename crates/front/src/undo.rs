//! Which changes somebody wants taken back, as they say it: by options of the command, or of the extension.

use crate::moment::point_of_time;
use crate::{Failure, Kind};
use synqlite_core::Selection;

/// What was said.
#[derive(Clone, Copy, Debug, Default)]
pub struct Said<'a> {
    /// From then on.
    pub since: Option<&'a str>,
    /// None after then.
    pub until: Option<&'a str>,
    /// In just this millisecond.
    pub at: Option<&'a str>,
    /// Of this table.
    pub table: Option<&'a str>,
    /// Of the row with this primary key.
    pub row: Option<&'a str>,
}

impl Said<'_> {
    /// What it means.
    ///
    /// Fails if a time is none, and if nothing is said or what does not go together.
    pub fn selection(self) -> Result<Selection, Failure> {
        let usage = |what: &str, hint: &str| Failure::new(what).hint(hint).of(Kind::Usage, None);
        let Said { since, until, at, table, row } = self;
        if at.is_some() && since.or(until).is_some() {
            let hint = "Give at alone, or since and until";
            return Err(usage("at is a time of its own beside since or until", hint));
        }
        if row.is_some() && table.is_none() {
            return Err(usage("it is not said of which table the row is", "Give table too"));
        }
        let ms = |text: Option<&str>| text.map(point_of_time).transpose();
        let (since_ms, until_ms) = (ms(since.or(at))?, ms(until.or(at))?);
        if since_ms.is_none() && until_ms.is_none() && row.is_none() {
            let hint = "Give since, until or at, or table and row; see: synqlite log";
            return Err(usage("it is not said which changes", hint));
        }
        let owned = |text: Option<&str>| text.map(str::to_owned);
        Ok(Selection { since_ms, until_ms, table: owned(table), row: owned(row) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_is_one_selection_or_refused() {
        let said = Said::default();
        let at = "2026-11-20 12:18:45.007";
        let moment = Some(1_795_177_125_007);
        let just = Said { at: Some(at), ..said }.selection().unwrap();
        assert_eq!((just.since_ms, just.until_ms), (moment, moment));
        let until = Said { until: Some(at), table: Some("t"), ..said }.selection().unwrap();
        assert_eq!(
            (until.since_ms, until.until_ms, until.table.as_deref()),
            (None, moment, Some("t"))
        );
        let row = Said { table: Some("t"), row: Some("7"), ..said };
        assert_eq!(row.selection().unwrap().row.as_deref(), Some("7"));
        for (wrong, what) in [
            (said, "it is not said which changes"),
            (Said { table: Some("t"), ..said }, "it is not said which changes"),
            (Said { row: Some("7"), since: Some("1h"), ..said }, "of which table the row is"),
            (Said { at: Some(at), since: Some("1h"), ..said }, "beside since or until"),
            (Said { at: Some(at), until: Some("1h"), ..said }, "beside since or until"),
            (Said { since: Some("yesterday"), ..said }, "`yesterday` is no point of time"),
            (Said { until: Some(""), ..row }, "`` is no point of time"),
        ] {
            let failure = wrong.selection().unwrap_err();
            assert_eq!(failure.kind, Kind::Usage);
            assert!(failure.what.contains(what), "{failure}");
        }
    }
}
