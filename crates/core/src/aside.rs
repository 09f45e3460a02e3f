//! What was found in remotes and cannot be merged: set aside, by name, until it is gone or has become of use.
//!
//! Only to be shown. Every synchronization decides anew, and keeps what it found here.

use crate::Result;
use crate::meta;
use crate::replica::Replica;

/// The entry of the metadata that holds it: a line for each, its parts between tabs.
const KEY: &str = "aside";
/// Longest part, in characters: names and reasons may hold what somebody made up.
const LONGEST: usize = 300;

/// Something in a remote that cannot be merged here.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Aside {
    /// The file, or the name of the object.
    pub name: String,
    /// The site that is said to have made it.
    pub site: String,
    /// The table that is at fault, if one is.
    pub table: String,
    /// What is wrong with it.
    pub why: String,
    /// What to do.
    pub hint: String,
}

impl Aside {
    /// With parts that are short, and of one line each.
    pub fn plain(self) -> Aside {
        let plain = |text: String| -> String {
            let text = text.chars().map(|c| if c.is_control() { ' ' } else { c });
            let mut short: String = text.clone().take(LONGEST).collect();
            short.extend(text.skip(LONGEST).take(1).map(|_| '…'));
            short
        };
        let Aside { name, site, table, why, hint } = self;
        let [name, site, table, why, hint] = [name, site, table, why, hint].map(plain);
        Aside { name, site, table, why, hint }
    }

    fn write(&self, url: &str) -> String {
        let Aside { name, site, table, why, hint } = self;
        [url, name, site, table, why, hint].join("\t")
    }

    fn read(line: &str) -> Option<(String, Aside)> {
        let mut parts = line.split('\t').map(str::to_owned);
        let mut part = || parts.next();
        let (url, name, site) = (part()?, part()?, part()?);
        let (table, why, hint) = (part()?, part()?, part()?);
        Some((url, Aside { name, site, table, why, hint }))
    }
}

impl Replica {
    /// What is set aside, each with the URL of its remote.
    pub fn aside(&self) -> Result<Vec<(String, Aside)>> {
        let text = self.peek(|conn, _| meta::get::<String>(conn, KEY))?.unwrap_or_default();
        Ok(text.lines().filter_map(Aside::read).collect())
    }

    /// Notes what a synchronization with the remote at `url` set aside, instead of what one before did.
    pub fn note_aside(&mut self, url: &str, aside: &[Aside]) -> Result<()> {
        let url: String = url.chars().filter(|c| !c.is_control()).collect();
        let known = self.aside()?;
        let mut news = known.clone();
        news.retain(|(of, _)| *of != url);
        news.extend(aside.iter().map(|aside| (url.clone(), aside.clone().plain())));
        if news == known {
            return Ok(());
        }
        let lines: Vec<String> = news.iter().map(|(url, aside)| aside.write(url)).collect();
        self.write(|work| meta::set(work.conn, KEY, lines.join("\n")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::Site;

    #[test]
    fn what_is_set_aside_is_kept_by_remote_and_shortened() {
        let mut site = Site::new("CREATE TABLE t(id INTEGER PRIMARY KEY)");
        let aside = |name: &str, why: &str| {
            let (name, why) = (name.to_owned(), why.to_owned());
            Aside { name, why, ..Aside::default() }
        };
        let long = "x\t\n".repeat(500);
        site.replica.note_aside("one", &[aside("a", "bad"), aside("b", &long)]).unwrap();
        site.replica.note_aside("two", &[aside("c", "worse")]).unwrap();
        let kept = site.replica.aside().unwrap();
        assert_eq!(kept.len(), 3);
        assert_eq!(kept[0], ("one".to_owned(), aside("a", "bad")));
        assert!(
            kept[1].1.why.starts_with("x  x  ") && kept[1].1.why.chars().count() == LONGEST + 1
        );
        site.replica.note_aside("one", &[]).unwrap();
        assert_eq!(site.replica.aside().unwrap(), [("two".to_owned(), aside("c", "worse"))]);
    }
}
