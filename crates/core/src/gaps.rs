//! What a replica may lack although its version vector covers it: what was written to a table or column
//! that was dropped, here or where the writes came from (R-MIG-DROP).
//!
//! What a dropped table held does not travel through the site that dropped it. So whoever receives from
//! such a site remembers a *gap*: of which sites, after which clock and up to which one, writes may be
//! missing. Once it has the table or column, it asks the next replica that it pulls from and that has
//! more of them for what is past the gap's beginning.
//!
//! Batches tell only of which tables their maker may lack something: of those that they do not name, which are
//! out of sight there, and of those with a group of no column.
//!
//! Invariant: what a write that the vector covers said is in the state, or superseded, or in a gap; but for
//! what columns that were dropped held, and came by batches.

use crate::catalog::{Catalog, Tracked};
use crate::inbox;
use crate::line;
use crate::meta::{self, Meta};
use crate::policy::Policies;
use crate::registry;
use crate::renames;
use crate::settings::renamed::TableNames;
use crate::track;
use crate::{Error, Result};
use rusqlite::Connection;
use std::collections::{BTreeMap, BTreeSet};
use synqlite_wire::{GroupShape, Hlc, SiteId, TableShape, VersionVector};

/// Of each site after which clock writes may be missing, and up to which.
type Missing = BTreeMap<SiteId, (Hlc, Hlc)>;

/// By table, and column or none for the whole table, all by numbers.
type Numbered = BTreeMap<(u32, Option<u32>), Missing>;

/// What a replica may lack and what it has seen, as it tells others.
#[derive(Clone, Debug, Default)]
pub struct Gaps {
    /// Canonical names of the table and of the column; `None` for the whole table.
    list: Vec<(String, Option<String>, Missing)>,
    seen: VersionVector,
}

/// What a replica asks another for.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// All past this vector,
    pub base: VersionVector,
    /// among rows that changed there after this position;
    pub after: i64,
    /// and of these tables, by canonical names, all past other vectors, whenever it changed.
    pub tables: BTreeMap<String, VersionVector>,
    /// Whether it is for a place, where nobody asks for what is missing.
    pub for_place: bool,
}

impl Wanted {
    /// What is past `base`, among rows that changed after position `after`.
    pub fn past(base: &VersionVector, after: i64) -> Wanted {
        Wanted { base: base.clone(), after, ..Wanted::default() }
    }

    /// The same for a place, or for anybody else who cannot ask for more.
    pub fn for_place(base: &VersionVector, after: i64) -> Wanted {
        Wanted { for_place: true, ..Wanted::past(base, after) }
    }

    /// With the tables that are owed. Where it is not known what the place was sent, the clock that it has of this
    /// site tells.
    pub fn with_owed(&self, conn: &Connection, meta: &Meta, catalog: &Catalog) -> Result<Wanted> {
        let (mut wanted, there) = (self.clone(), self.base.get(meta.site));
        for (table, (since, clock)) in owed(conn)?.into_iter().filter(|_| self.for_place) {
            let lacks = since > self.after && (self.after > 0 || there < clock);
            if let Some(position) = catalog.position_of_no(table).filter(|_| lacks) {
                let name = catalog.tables[position].canonical.clone();
                wanted.tables.insert(name, VersionVector::default());
            }
        }
        Ok(wanted)
    }

    /// The vector and the position past which to look for rows of a table.
    pub fn of(&self, table: &str) -> (&VersionVector, i64) {
        let anew = self.tables.iter().find(|(name, _)| name.eq_ignore_ascii_case(table));
        anew.map_or((&self.base, self.after), |(_, base)| (base, 0))
    }
}

/// The gaps of a replica, for others.
pub fn tell(conn: &Connection, meta: &Meta) -> Result<Gaps> {
    let (mut gaps, mut list) = (load(conn, meta)?, Vec::new());
    // Out of sight by policy, with all that they held: others get nothing of them from here for now.
    let unseen = track::out_of_sight(conn)?.into_iter();
    gaps.extend(unseen.map(|table| ((table, None), everything(&meta.seen))));
    for ((table, column), missing) in gaps {
        let names = registry::column_names(conn, table)?;
        let column = column.map(|no| names.get(&no).cloned().unwrap_or_default());
        list.push((registry::name_of_table(conn, table)?, column, missing));
    }
    Ok(Gaps { list, seen: meta.seen.clone() })
}

/// Takes note that a table, or a column of it, is not here any more.
pub fn lose(conn: &Connection, meta: &Meta, table: u32, column: Option<u32>) -> Result<()> {
    let mut gaps = load(conn, meta)?;
    let mut all = meta.had_seen().clone();
    // Some of what is being merged in slices may have been here already.
    all.join(&inbox::covers(conn)?);
    gaps.insert((table, column), everything(&all));
    save(conn, meta, &gaps)
}

/// Takes note that what a site wrote to a table may be missing.
pub fn lose_of(conn: &Connection, meta: &Meta, table: u32, site: SiteId) -> Result<()> {
    let mut gaps = load(conn, meta)?;
    let missing = gaps.entry((table, None)).or_default();
    missing.insert(site, (Hlc::ZERO, meta.seen.get(site)));
    save(conn, meta, &gaps)
}

/// Takes note that a table is here again as of now, or more of it: a place may lack what was written to it before,
/// so each gets all of it once. Else no batch would be news to those who read them, so the clock goes on.
pub fn owe(conn: &Connection, meta: &mut Meta, now_ms: i64, table: u32) -> Result<()> {
    meta.tick(now_ms);
    meta.local_seq += 1;
    let mut owed = owed(conn)?;
    owed.insert(table, (meta.local_seq, meta.clock));
    let line =
        |(table, (since, clock)): (&u32, &(i64, Hlc))| format!("{table} {since} {}", clock.0);
    meta::set(conn, "owed", owed.iter().map(line).collect::<Vec<_>>().join("\n"))
}

/// Takes note of all that is owed once more: this site has another id now, and nothing is known of what places have
/// of that.
pub fn owe_anew(conn: &Connection, meta: &mut Meta, now_ms: i64) -> Result<()> {
    owed(conn)?.into_keys().try_for_each(|table| owe(conn, meta, now_ms, table))
}

/// By table, since which position and which clock of this site.
fn owed(conn: &Connection) -> Result<BTreeMap<u32, (i64, Hlc)>> {
    let text: String = meta::get(conn, "owed")?.unwrap_or_default();
    let line = |line: &str| {
        let mut words = line.split(' ');
        let table = words.next()?.parse().ok()?;
        Some((table, (words.next()?.parse().ok()?, Hlc(words.next()?.parse().ok()?))))
    };
    Ok(text.lines().filter_map(line).collect())
}

fn everything(upto: &VersionVector) -> Missing {
    upto.0.iter().map(|(&site, &clock)| (site, (Hlc::ZERO, clock))).collect()
}

/// What was lost with the columns `others` of a table is missing of column `no`, which is one with them.
pub fn unite(conn: &Connection, meta: &Meta, table: u32, others: &[u32], no: u32) -> Result<()> {
    let mut gaps = load(conn, meta)?;
    for other in others {
        move_to(&mut gaps, (table, Some(*other)), (table, Some(no)));
    }
    save(conn, meta, &gaps)
}

/// What was lost with the table `other` is missing of table `no`, which is one with it: `columns` of theirs
/// are one, too.
pub fn unite_tables(
    conn: &Connection,
    meta: &Meta,
    other: u32,
    no: u32,
    columns: &BTreeMap<u32, u32>,
) -> Result<()> {
    let mut gaps = load(conn, meta)?;
    let of_other: Vec<_> = gaps.keys().filter(|(table, _)| *table == other).copied().collect();
    for place in of_other {
        let column = place.1.map(|column| columns.get(&column).copied().unwrap_or(column));
        move_to(&mut gaps, place, (no, column));
    }
    save(conn, meta, &gaps)
}

/// What is missing of one place is missing of another.
fn move_to(gaps: &mut Numbered, from: (u32, Option<u32>), to: (u32, Option<u32>)) {
    if let Some(missing) = gaps.remove(&from) {
        widen(gaps.entry(to).or_default(), missing);
    }
}

/// Adds what is missing to what was.
fn widen(own: &mut Missing, missing: Missing) {
    for (site, (after, upto)) in missing {
        let (least, most) = own.entry(site).or_insert((after, upto));
        (*least, *most) = (after.min(*least), upto.max(*most));
    }
}

/// What to ask a replica for that told of `theirs`.
pub fn wanted(
    conn: &Connection,
    meta: &Meta,
    catalog: &Catalog,
    theirs: &Gaps,
    after: i64,
) -> Result<Wanted> {
    let mut wanted = Wanted::past(&meta.seen, after);
    let theirs = Theirs::read(conn, meta, catalog, theirs)?;
    for (&place, missing) in &load(conn, meta)? {
        let Some(t) = here(catalog, place) else { continue };
        let more = |(site, (after, upto)): (&SiteId, &(Hlc, Hlc))| {
            theirs.complete(place, *site).min(*upto) > *after
        };
        if !missing.iter().any(more) {
            continue;
        }
        let base = wanted.tables.entry(t.canonical.clone()).or_insert_with(|| meta.seen.clone());
        for (site, (after, _)) in missing {
            let least = base.get(*site).min(*after);
            base.0.insert(*site, least);
        }
        base.0.retain(|_, clock| *clock > Hlc::ZERO);
    }
    Ok(wanted)
}

/// Takes note of what may be missing of what a replica gave that told of `theirs`, before its vector is
/// joined, and of what it made up for, as it was `wanted`. Returns the tables of which that is some.
pub fn receive(
    conn: &Connection,
    meta: &mut Meta,
    catalog: &Catalog,
    theirs: &Gaps,
    wanted: &Wanted,
) -> Result<BTreeSet<u32>> {
    let (mut gaps, before) = (load(conn, meta)?, load(conn, meta)?);
    let theirs = Theirs::read(conn, meta, catalog, theirs)?;
    let (mut made_up, mut but_for) = (BTreeSet::new(), Numbered::new());
    for (&place, missing) in &mut gaps {
        let asked = here(catalog, place).is_some_and(|t| wanted.tables.contains_key(&t.canonical));
        for (site, (after, upto)) in missing.iter_mut().filter(|_| asked) {
            let complete = theirs.complete(place, *site).min(*upto);
            if complete > *after && place.1.is_none() {
                made_up.insert(place.0);
                // What they lack of a column is missing of it still.
                for (&of, missing) in theirs.gaps.iter().filter(|(of, _)| of.0 == place.0) {
                    if let Some((least, most)) = missing.get(site).filter(|_| of.1.is_some()) {
                        let range = (*least.max(after), *most);
                        but_for.entry(of).or_default().insert(*site, range);
                    }
                }
            }
            *after = complete.max(*after);
        }
    }
    for (place, missing) in but_for {
        widen(gaps.entry(place).or_default(), missing);
    }
    for (&place, missing) in &theirs.gaps {
        let own = gaps.entry(place).or_default();
        for (&site, &(after, upto)) in missing {
            meta.number(conn, site)?;
            if complete(&before, place, site, &meta.seen) >= upto {
                continue;
            }
            let had = meta.seen.get(site).max(after);
            let (_, most) = own.entry(site).or_insert((had, upto));
            *most = upto.max(*most);
        }
    }
    save(conn, meta, &gaps)?;
    Ok(made_up)
}

/// The tables of which some may be missing here, but for single columns.
pub fn lacking(conn: &Connection, meta: &Meta) -> Result<BTreeSet<u32>> {
    let whole = |((table, column), _): ((u32, Option<u32>), _)| column.is_none().then_some(table);
    Ok(load(conn, meta)?.into_iter().filter_map(whole).collect())
}

/// What a batch says of a table of which its maker may lack some.
pub fn mark(shape: &mut TableShape) {
    shape.groups.push(GroupShape { columns: vec![], refs: vec![] });
}

/// Takes note of what may be missing of what comes by a batch, up to `upto`, before that is joined: of tables that
/// it marks, and of those that it does not name, where a policy ever put one out of sight.
pub fn unlisted(
    conn: &Connection,
    meta: &Meta,
    policies: &Policies,
    tables: &[TableShape],
    upto: &VersionVector,
) -> Result<()> {
    let marked = |shape: &TableShape| shape.groups.iter().any(|group| group.columns.is_empty());
    let out_of_sight = policies.get("local_tables").is_some();
    if !out_of_sight && !tables.iter().any(marked) {
        return Ok(());
    }
    let (mut gaps, names) = (load(conn, meta)?, TableNames::load(conn)?);
    let (mut lacking, mut listed) = (BTreeSet::new(), BTreeSet::new());
    for shape in tables {
        let first = names.first(&shape.name);
        for name in [&shape.name, first] {
            let to = if marked(shape) { &mut lacking } else { &mut listed };
            to.extend(registry::known_table(conn, name)?);
        }
    }
    if out_of_sight {
        lacking.extend(registry::tables(conn)?.difference(&listed));
    }
    for no in lacking {
        let own = gaps.entry((no, None)).or_default();
        for (&site, &clock) in upto.0.iter().filter(|(site, clock)| meta.seen.get(**site) < **clock)
        {
            let (_, most) = own.entry(site).or_insert((meta.seen.get(site), clock));
            *most = clock.max(*most);
        }
    }
    save(conn, meta, &gaps)
}

/// What another replica told of, by numbers of this one.
struct Theirs {
    gaps: Numbered,
    seen: VersionVector,
}

impl Theirs {
    fn read(conn: &Connection, meta: &Meta, catalog: &Catalog, theirs: &Gaps) -> Result<Theirs> {
        let (mut gaps, names) = (Numbered::new(), TableNames::load(conn)?);
        for (table, column, missing) in &theirs.list {
            let known = registry::known_table(conn, table)?;
            let first = || registry::number_of_table(conn, names.first(table));
            let no = known.map_or_else(first, Ok)?;
            let column = column.as_ref().map(|name| {
                let t = catalog.position_of_no(no).map(|position| &catalog.tables[position]);
                let said = t.map(|t| renames::said(conn, t)).transpose()?.unwrap_or_default();
                let first = said.iter().find(|(said, _)| said.eq_ignore_ascii_case(name));
                registry::number_of_column(conn, no, first.map_or(name, |(_, first)| first))
            });
            let place = (no, column.transpose()?);
            gaps.insert(place, resolve(conn, meta, missing)?);
        }
        Ok(Theirs { gaps, seen: line::resolve(conn, meta, &theirs.seen)? })
    }

    fn complete(&self, place: (u32, Option<u32>), site: SiteId) -> Hlc {
        complete(&self.gaps, place, site, &self.seen)
    }
}

/// Up to which clock of a site nothing is missing of a table, but for single columns, or of a column.
fn complete(
    gaps: &Numbered,
    (table, column): (u32, Option<u32>),
    site: SiteId,
    seen: &VersionVector,
) -> Hlc {
    let of = |(t, c): &(u32, Option<u32>)| *t == table && (c.is_none() || *c == column);
    let gaps = gaps.iter().filter(|(place, _)| of(place));
    let afters = gaps.filter_map(|(_, missing)| Some(missing.get(&site)?.0));
    afters.fold(seen.get(site), Hlc::min)
}

/// The table, if it and the column are here.
fn here(catalog: &Catalog, (table, column): (u32, Option<u32>)) -> Option<&Tracked> {
    let t = &catalog.tables[catalog.position_of_no(table)?];
    column.is_none_or(|no| t.has(no)).then_some(t)
}

/// Under the site ids that branches have here.
fn resolve(conn: &Connection, meta: &Meta, missing: &Missing) -> Result<Missing> {
    let all = |end: fn(&(Hlc, Hlc)) -> Hlc| {
        let ends = missing.iter().map(|(&site, range)| (site, end(range)));
        line::resolve(conn, meta, &VersionVector(ends.collect()))
    };
    let (after, upto) = (all(|range| range.0)?, all(|range| range.1)?);
    let ranges = upto.0.iter().map(|(&site, &upto)| (site, (after.get(site), upto)));
    Ok(ranges.filter(|(_, (after, upto))| after < upto).collect())
}

/// The entry `gaps` of the metadata: a line each, of numbers: table, column or `-`, site, and the clocks.
fn load(conn: &Connection, meta: &Meta) -> Result<Numbered> {
    let text: String = meta::get(conn, "gaps")?.unwrap_or_default();
    let mut gaps = Numbered::new();
    for line in text.lines() {
        let parsed = parse(line).ok_or_else(|| Error::Damaged(format!("entry `gaps`: `{line}`")));
        let (place, site, range) = parsed?;
        gaps.entry(place).or_default().insert(meta.site_of(site)?, range);
    }
    gaps.values_mut().try_for_each(|missing| {
        *missing = resolve(conn, meta, missing)?;
        Ok::<_, Error>(())
    })?;
    Ok(gaps)
}

type Line = ((u32, Option<u32>), u32, (Hlc, Hlc));

fn parse(line: &str) -> Option<Line> {
    let mut words = line.split(' ');
    let table = words.next()?.parse().ok()?;
    let column = match words.next()? {
        "-" => None,
        no => Some(no.parse().ok()?),
    };
    let site = words.next()?.parse().ok()?;
    let (after, upto) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    words.next().is_none().then_some(((table, column), site, (Hlc(after), Hlc(upto))))
}

fn save(conn: &Connection, meta: &Meta, gaps: &Numbered) -> Result<()> {
    let mut lines = Vec::new();
    for ((table, column), missing) in gaps {
        let column = column.map_or("-".to_owned(), |no| no.to_string());
        for (site, (after, upto)) in missing.iter().filter(|(_, (after, upto))| after < upto) {
            let site = meta.known_number(*site).ok_or(Error::Damaged("sites".into()))?;
            lines.push(format!("{table} {column} {site} {} {}", after.0, upto.0));
        }
    }
    let (text, was) = (lines.join("\n"), meta::get::<String>(conn, "gaps")?);
    if was.unwrap_or_default() != text {
        meta::set(conn, "gaps", text)?;
    }
    Ok(())
}
