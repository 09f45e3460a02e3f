//! What people call sites.
//!
//! A site names itself, by a setting that travels as policies do ([`crate::settings`]). It says so with the
//! first thing that it stamps: of a site that never wrote there is nothing to tell. Names decide nothing, two
//! sites may have the same, and what came from elsewhere may hold anything; so names are shown made
//! harmless, and with the digits of the id where they tell nothing apart.

use super::get;
use crate::{Error, Result};
use rusqlite::Connection;
use std::collections::HashMap;
use synqlite_wire::line::is_witness;
use synqlite_wire::{Id, SiteId};

/// Keys of settings that name a site begin so; its id follows. No policy does.
pub const SITE: &str = "site\n";
/// So many characters of a name are shown, and may be given.
pub const LONGEST: usize = 64;
/// So many digits of an id tell sites of one database apart well enough.
const DIGITS: usize = 8;
/// Who wrote what a rebuild of a table left in it.
const REBUILD: &str = "a rebuild";

/// What sites are called.
#[derive(Clone, Debug, Default)]
pub struct SiteNames(HashMap<SiteId, String>);

impl SiteNames {
    /// As the file has them now: a merge may have brought some.
    pub fn load(conn: &Connection, own: SiteId) -> Result<SiteNames> {
        // What another says of a site is no name of it.
        let sql = "SELECT s.id, p.value FROM synqlite_policy p JOIN synqlite_site s ON s.no = p.site \
                   WHERE p.key > ?1 || char(10) AND p.key < ?1 || char(11) \
                   AND p.key = ?1 || char(10) || lower(hex(s.id))";
        let mut statement = conn.prepare_cached(sql)?;
        let named = statement.query_map([SITE.trim_end()], |row| {
            Ok((Id(row.get(0)?), shown(&row.get::<_, String>(1)?)))
        })?;
        let mut names = named.collect::<rusqlite::Result<HashMap<SiteId, String>>>()?;
        names.extend(get(conn, "name")?.map(|name: String| (own, shown(&name))));
        names.retain(|_, name| !name.is_empty());
        let mut alike: HashMap<String, u32> = HashMap::new();
        names.values().for_each(|name| *alike.entry(name.clone()).or_default() += 1);
        for (site, name) in names.iter_mut().filter(|(_, name)| alike[*name] > 1) {
            *name = format!("{name} ({})", digits(*site));
        }
        Ok(SiteNames(names))
    }

    /// Its name, else the first digits of its id. What a rebuild left in a table no site need have written.
    pub fn short(&self, site: SiteId) -> String {
        match is_witness(site) {
            true => REBUILD.to_owned(),
            false => self.0.get(&site).cloned().unwrap_or_else(|| digits(site)),
        }
    }

    /// The same in a sentence: `Ann's laptop`, `site 8e31e565`.
    pub fn spoken(&self, site: SiteId) -> String {
        match is_witness(site) || self.0.contains_key(&site) {
            true => self.short(site),
            false => format!("site {}", digits(site)),
        }
    }

    /// Its name, if it has one.
    pub fn name(&self, site: SiteId) -> Option<&str> {
        self.0.get(&site).map(String::as_str)
    }
}

/// Refuses what is no name that people could read.
pub fn check(name: &str) -> Result<()> {
    if shown(name) == name && !name.is_empty() {
        return Ok(());
    }
    Err(Error::Refused(format!(
        "a site is called by 1 to {LONGEST} characters on one line, without blanks at either end"
    )))
}

/// A name as it may be shown: on one line, with nothing that moves the cursor, not too long.
pub fn shown(name: &str) -> String {
    let turns = |c: &char| matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let plain: String =
        name.chars().filter(|c| !c.is_control() && !turns(c)).take(LONGEST).collect();
    plain.trim().to_owned()
}

fn digits(site: SiteId) -> String {
    site.to_string().chars().take(DIGITS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use synqlite_wire::line::witness;

    #[test]
    fn what_a_rebuild_left_is_of_no_site() {
        let names = SiteNames(HashMap::from([(Id([1; 16]), "phone".to_owned())]));
        let sites = [Id([1; 16]), Id([2; 16]), witness([3; 8])];
        assert_eq!(sites.map(|site| names.short(site)), ["phone", "02020202", "a rebuild"]);
        let spoken = ["phone", "site 02020202", "a rebuild"];
        assert_eq!(sites.map(|site| names.spoken(site)), spoken);
    }

    #[test]
    fn a_name_is_one_line() {
        assert_eq!(shown(" Ann\u{202e}'s\n laptop\u{7} "), "Ann's laptop");
        assert_eq!(shown(&"é".repeat(1_000)).chars().count(), LONGEST);
        assert!(check("Ann's laptop").is_ok());
        for bad in ["", " ", "a\nb", " a", &"x".repeat(65)] {
            assert!(check(bad).is_err(), "{bad:?}");
        }
    }
}
