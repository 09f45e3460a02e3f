//! Files that parted from another: restored from a backup, or copied and made a site of their own.
//!
//! What waited in the journal then both have folded, or will.

use crate::meta;
use crate::{Error, Result};
use rusqlite::Connection;
use synqlite_wire::{Hlc, SiteId};

/// Entry of the metadata: a line for each time.
const PARTED: &str = "parted";

/// Entry of the metadata.
const TOLD: &str = "told";

/// When this file became another site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parted {
    /// The site that it was.
    pub site: SiteId,
    /// The last point of its line that is this file's own; none of a copy, which has folded nothing of it.
    pub clock: Hlc,
    /// What waited then is stamped earlier.
    pub before: Hlc,
    /// How much of that line and its branches has been looked at: the sum of their clocks.
    pub heard: i64,
}

/// Takes note that this file becomes another site.
pub fn note(conn: &Connection, site: SiteId, clock: Hlc, now_ms: i64) -> Result<()> {
    let mut all = self::all(conn)?;
    let before = Hlc::at_ms(now_ms.saturating_add(1));
    all.push(Parted { site, clock, before, heard: 0 });
    keep(conn, &all)
}

/// Takes note that others may have all that is here.
pub fn tell(conn: &Connection) -> Result<()> {
    if is_told(conn)? { Ok(()) } else { meta::set(conn, TOLD, meta::births(conn)?) }
}

/// Whether that says nothing new.
pub fn is_told(conn: &Connection) -> Result<bool> {
    Ok(told(conn)? >= meta::births(conn)?.cast_unsigned())
}

/// Of how many rows that were born here others may have heard.
pub fn told(conn: &Connection) -> Result<u64> {
    Ok(meta::get::<i64>(conn, TOLD)?.unwrap_or(0).cast_unsigned())
}

/// The times that are remembered.
pub fn all(conn: &Connection) -> Result<Vec<Parted>> {
    let text: String = meta::get(conn, PARTED)?.unwrap_or_default();
    let damaged = || Error::Damaged(format!("entry `{PARTED}`: {text}"));
    text.lines().map(|line| read(line).ok_or_else(damaged)).collect()
}

fn read(line: &str) -> Option<Parted> {
    let mut words = line.split(' ');
    let site = words.next()?.parse().ok()?;
    let mut number = || words.next()?.parse().ok();
    Some(Parted { site, clock: Hlc(number()?), before: Hlc(number()?), heard: number()? })
}

/// Remembers these.
pub fn keep(conn: &Connection, all: &[Parted]) -> Result<()> {
    if all.is_empty() {
        return meta::unset(conn, PARTED);
    }
    let line = |p: &Parted| format!("{} {} {} {}", p.site, p.clock.0, p.before.0, p.heard);
    meta::set(conn, PARTED, all.iter().map(line).collect::<Vec<_>>().join("\n"))
}
