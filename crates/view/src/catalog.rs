//! The replicated tables as a replica numbers and names them, and where their rows are.
//!
//! Numbers of tables and columns are given once and never reused; other sites know both by their first
//! names (R-MIG-RENAME).

use crate::constant::constant;
use crate::equal;
use crate::schema::{Affinity, ForeignKey, Table, TableKind, numbered};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;
use std::sync::Arc;
use synqlite_wire::key::{Collation, KeyPart, encode, encode_values, normalise};
use synqlite_wire::{Cell, Rid, Value};

/// Where a visible row is in its table.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Loc {
    /// Its rowid.
    Row(i64),
    /// Its primary key, for `WITHOUT ROWID` tables: one text for all keys that SQLite holds for equal
    /// (the engine makes it, [`place_of_key`]).
    Key(String),
}

/// A replicated table with its numbers and its first names.
#[derive(Clone, Debug)]
pub struct Relation {
    /// Number of the table.
    pub no: u32,
    /// Its schema.
    pub table: Table,
    /// Number of each column, parallel to `table.columns`.
    pub column_nos: Vec<u32>,
    /// The name by which other sites know the table: its first (R-MIG-RENAME).
    pub canonical: String,
    /// The same for each column, parallel to `table.columns`.
    pub column_names: Vec<String>,
    /// The same for each foreign key, parallel to `table.foreign_keys`.
    pub key_names: Vec<String>,
    /// Foreign keys, by position, that the states of the table do not know yet: by them no value was to a
    /// row before.
    pub new_keys: Vec<usize>,
    /// Foreign keys, by position, that rows follow even while they are dead: by a key that is a reference to
    /// theirs, other rows show them through foreign keys that merges do not keep.
    pub followed: Vec<usize>,
    /// Columns to which foreign keys refer, ascending.
    pub referred: Vec<usize>,
    /// Columns that hold a number of one site alone (R-OWN): the position of the table whose rows have it.
    pub site_numbers: BTreeMap<usize, usize>,
    /// The same as `column_names` for each unique index, parallel to `table.uniques`, ascending.
    pub unique_names: Vec<String>,
    /// Position of this file after which each column was there, parallel to `table.columns`; -1 for
    /// those that the table had when it was taken in.
    pub since: Vec<i64>,
    /// Whether its triggers may have seen another key in OLD than a row had: by the schema now, or by that
    /// which they were made for.
    pub converts_old: bool,
}

/// All replicated tables, parents first.
#[derive(Clone, Debug, Default)]
pub struct Catalog {
    /// The tables in the order of the schema.
    pub tables: Vec<Arc<Relation>>,
    /// Ranges of `tables` that refer to each other in cycles, parents first.
    pub components: Vec<Range<usize>>,
    by_name: HashMap<String, usize>,
    by_no: HashMap<u32, usize>,
}

impl Catalog {
    /// A catalog of `tables`, which stay in their order. `components`: ranges of them that refer to each
    /// other in circles. `enforced`: whether merges keep foreign keys.
    pub fn new(
        mut tables: Vec<Relation>,
        components: Vec<Range<usize>>,
        enforced: bool,
    ) -> Catalog {
        follow(&mut tables, enforced);
        find_site_numbers(&mut tables);
        let tables: Vec<Arc<Relation>> = tables.into_iter().map(Arc::new).collect();
        let by_name = tables.iter().enumerate().map(|(i, t)| (fold_name(&t.table.name), i));
        let by_no = tables.iter().enumerate().map(|(i, t)| (t.no, i));
        Catalog { by_name: by_name.collect(), by_no: by_no.collect(), tables, components }
    }

    /// Position of the table called `name`.
    pub fn position(&self, name: &str) -> Option<usize> {
        self.by_name.get(&fold_name(name)).copied()
    }

    /// The table called `name`.
    pub fn by_name(&self, name: &str) -> Option<&Relation> {
        self.position(name).map(|i| &*self.tables[i])
    }

    /// Position of the table with this number.
    pub fn position_of_no(&self, no: u32) -> Option<usize> {
        self.by_no.get(&no).copied()
    }

    /// The tables to which rows of this one refer, directly or not, and itself: what others show is nothing to them.
    pub fn above(&self, position: usize) -> BTreeSet<usize> {
        let (mut above, mut next) = (BTreeSet::new(), vec![position]);
        while let Some(position) = next.pop() {
            if above.insert(position) {
                let keys = self.tables[position].table.foreign_keys.iter();
                next.extend(keys.filter_map(|fk| self.position(&fk.parent)));
            }
        }
        above
    }

    /// References to the table at `parent`: (position of the child table, of its foreign key).
    pub fn references_to(&self, parent: usize) -> impl Iterator<Item = (usize, usize)> + '_ {
        let name = fold_name(&self.tables[parent].table.name);
        self.tables.iter().enumerate().flat_map(move |(child, t)| {
            let name = name.clone();
            let fks = t.table.foreign_keys.iter().enumerate();
            fks.filter(move |(_, fk)| fold_name(&fk.parent) == name).map(move |(f, _)| (child, f))
        })
    }

    /// Whether rows of these tables refer to others of them.
    pub fn refer_to_themselves(&self, tables: &Range<usize>) -> bool {
        let mut keys = tables.clone().flat_map(|table| &self.tables[table].table.foreign_keys);
        keys.any(|fk| self.position(&fk.parent).is_some_and(|parent| tables.contains(&parent)))
    }

    /// How long a chain of keys is at most of which each is a reference to the next: one of every foreign key
    /// of these tables. A key that is a reference to itself in another row is not counted again.
    pub fn longest_chain(&self, tables: &Range<usize>) -> usize {
        tables.clone().map(|table| self.tables[table].table.foreign_keys.len()).sum()
    }

    /// Whether the table at `position` refers to itself, or is in a circle of references.
    pub fn is_in_circle(&self, position: usize) -> bool {
        let component = self.components.iter().find(|tables| tables.contains(&position));
        component.is_some_and(|tables| self.refer_to_themselves(tables))
    }
}

/// Finds out which references rows follow while they are dead, and what others refer to.
fn follow(tables: &mut [Relation], enforced: bool) {
    let all = tables.iter().flat_map(|t| &t.table.foreign_keys);
    let of_parent = |fk: &ForeignKey| (fold_name(&fk.parent), fk.parent_columns.clone());
    let referred: Vec<(String, Vec<usize>)> = all.clone().map(of_parent).collect();
    let loose = all.filter(|fk| !(fk.enforced && enforced));
    let shown: Vec<(String, Vec<usize>)> = loose.map(of_parent).collect();
    for t in tables {
        let name = fold_name(&t.table.name);
        let mut keys = shown.iter().filter(|(parent, _)| *parent == name);
        let columns: Vec<usize> = keys.by_ref().flat_map(|(_, columns)| columns.clone()).collect();
        let own = t.table.foreign_keys.iter().enumerate();
        let in_key = own.filter(|(_, fk)| fk.columns.iter().any(|c| columns.contains(c)));
        t.followed = in_key.map(|(f, _)| f).collect();
        let to_it = referred.iter().filter(|(parent, _)| *parent == name);
        let columns: BTreeSet<usize> = to_it.flat_map(|(_, columns)| columns.clone()).collect();
        t.referred = columns.into_iter().collect();
    }
}

/// Finds out which columns hold numbers of one site alone.
fn find_site_numbers(tables: &mut [Relation]) {
    let of = |(at, t): (usize, &Relation)| Some((at, t.table.own_number()?));
    let own: Vec<(usize, usize)> = tables.iter().enumerate().filter_map(of).collect();
    for (owner, alias) in own {
        let all: Vec<&Table> = tables.iter().map(|t| &t.table).collect();
        for (table, column) in followers(&all, (owner, alias)) {
            tables[table].site_numbers.insert(column, owner);
        }
    }
}

/// Column `.1` of table `.0`, and those that follow it: references to it, and to these.
pub fn followers(tables: &[&Table], of: (usize, usize)) -> BTreeSet<(usize, usize)> {
    let (mut found, mut next) = (BTreeSet::new(), vec![of]);
    while let Some((parent, p)) = next.pop() {
        if !found.insert((parent, p)) {
            continue;
        }
        let name = fold_name(&tables[parent].name);
        for (child, t) in tables.iter().enumerate() {
            for fk in t.foreign_keys.iter().filter(|fk| fold_name(&fk.parent) == name) {
                let pairs = fk.columns.iter().zip(&fk.parent_columns);
                next.extend(pairs.filter(|(_, to)| **to == p).map(|(&c, _)| (child, c)));
            }
        }
    }
    found
}

fn fold_name(name: &str) -> String {
    name.to_ascii_lowercase()
}

/// Names foreign keys by canonical names.
pub fn name_keys(tables: &mut [Relation]) {
    let named = |t: &Relation, fk: &ForeignKey| {
        let names = |t: &Relation, columns: &[usize]| -> Vec<String> {
            columns.iter().map(|&c| t.column_names[c].clone()).collect()
        };
        let mut name = format!("{}>", names(t, &fk.columns).join(","));
        if let Some(parent) = tables.iter().find(|parent| parent.table.name == fk.parent) {
            name += &parent.canonical.to_ascii_lowercase();
            if fk.parent_columns != parent.table.primary_key {
                name += &format!("({})", names(parent, &fk.parent_columns).join(","));
            }
        }
        numbered(&name, fk.nth)
    };
    let names = |t: &Relation| t.table.foreign_keys.iter().map(|fk| named(t, fk)).collect();
    let names: Vec<Vec<String>> = tables.iter().map(names).collect();
    tables.iter_mut().zip(names).for_each(|(t, names)| t.key_names = names);
}

/// One text for all keys that SQLite holds for equal.
pub fn place_of_key(key: &[Value], collations: &[Collation]) -> String {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02X}")).collect::<String>();
    let part = |(value, collation): (&Value, &Collation)| match &*normalise(value, collation) {
        Value::Null => "NULL".to_owned(),
        Value::Integer(i) => i.to_string(),
        Value::Real(r) => format!("{r:?}"),
        Value::Text(text) => format!("t{}", hex(text)),
        Value::Blob(blob) => format!("X'{}'", hex(blob)),
    };
    key.iter().zip(collations).map(part).collect::<Vec<_>>().join(",")
}

impl Relation {
    /// A table whose columns have no numbers yet.
    pub fn unnumbered(no: u32, canonical: &str, table: Table) -> Relation {
        Relation {
            no,
            converts_old: table.converts_old(),
            table,
            column_nos: Vec::new(),
            canonical: canonical.to_owned(),
            column_names: Vec::new(),
            key_names: Vec::new(),
            new_keys: Vec::new(),
            followed: Vec::new(),
            referred: Vec::new(),
            site_numbers: BTreeMap::new(),
            unique_names: Vec::new(),
            since: Vec::new(),
        }
    }

    /// Whether this database has the table, or other sites told of it or it was dropped.
    #[inline]
    pub fn is_here(&self) -> bool {
        !self.table.columns.is_empty()
    }

    /// Whether it has the column with this number.
    #[inline]
    pub fn has(&self, no: u32) -> bool {
        self.column_nos.contains(&no)
    }

    /// What a row shows in the columns of a group that nobody has written: their defaults.
    pub fn default_cell(&self, group: usize) -> Cell {
        let group = &self.table.groups[group];
        let values = group.columns.iter().map(|&c| self.default_of(c)).collect();
        Cell { values, refs: vec![None; group.foreign_keys.len()] }
    }

    /// The default of a column, as it stores it; NULL if it is not the same for ever.
    pub fn default_of(&self, column: usize) -> Value {
        let column = &self.table.columns[column];
        let value = column.default.as_deref().and_then(constant).unwrap_or(Value::Null);
        equal::stored(&value, column.affinity)
    }

    /// Number that stands for a group in stored states: that of its first column.
    #[inline]
    pub fn group_no(&self, group: usize) -> u32 {
        self.column_nos[self.table.groups[group].columns[0]]
    }

    /// Group of which `no` is the number, if the schema still has it.
    pub fn group_of_no(&self, no: u32) -> Option<usize> {
        let column = self.column_nos.iter().position(|&n| n == no)?;
        let group = self.table.columns[column].group;
        (self.group_no(group) == no).then_some(group)
    }

    /// Whether its rows are addressed by rowid.
    #[inline]
    pub fn has_rowid(&self) -> bool {
        self.table.kind != TableKind::WithoutRowid && self.table.rowid_name.is_some()
    }

    /// Whether canonical bytes of a key are equal exactly when SQLite holds two keys for equal.
    #[inline]
    pub fn knows_collations(&self) -> bool {
        !self.table.key_collations.iter().any(|c| matches!(c, Collation::Other(_)))
    }

    /// Whether keys of this table that differ in the columns of a foreign key, which are at these places,
    /// never refer to one row.
    fn tells_apart(&self, fk: &ForeignKey, at: &[usize]) -> bool {
        let whole = |a: Affinity| matches!(a, Affinity::Integer | Affinity::Numeric);
        let mut pairs = fk.columns.iter().zip(at).zip(&fk.parent_keys);
        pairs.all(|((&c, &at), (parent, collation))| {
            let own = self.table.columns[c].affinity;
            let converted = *parent == Affinity::Blob
                || *parent == own
                || whole(*parent) && (whole(own) || own == Affinity::Real);
            let own = &self.table.key_collations[at];
            converted && (*collation == Collation::Binary || collation == own)
        })
    }

    /// Foreign keys that lie in the primary key, with the places of their columns there.
    pub fn references_in_key(&self) -> impl Iterator<Item = (usize, Vec<usize>)> + '_ {
        let place = |c: &usize| self.table.primary_key.iter().position(|p| p == c);
        let keys = self.table.foreign_keys.iter().enumerate();
        keys.filter_map(move |(f, fk)| {
            Some((f, fk.columns.iter().map(place).collect::<Option<_>>()?))
        })
    }

    /// Foreign keys that lie in the primary key and count in it as the row that they are to (R-ID-KEY), with
    /// the places of their columns there.
    pub fn keys_in_key(&self) -> impl Iterator<Item = (usize, Vec<usize>)> + '_ {
        let tells =
            |(f, at): &(usize, Vec<usize>)| self.tells_apart(&self.table.foreign_keys[*f], at);
        self.references_in_key().filter(tells)
    }

    /// Canonical bytes of the primary key of a row with these values. `refers` says to which row a
    /// foreign key refers; one that refers to nobody leaves its values in the key.
    pub fn key_of<'v, E>(
        &'v self,
        value: impl Fn(usize) -> &'v Value,
        mut refers: impl FnMut(usize) -> Result<Option<Rid>, E>,
    ) -> Result<Vec<u8>, E> {
        let pk = &self.table.primary_key;
        let mut covered = vec![None; pk.len()];
        for (f, at) in self.keys_in_key() {
            if at.iter().any(|&i| covered[i].is_some()) {
                continue;
            }
            let Some(rid) = refers(f)? else { continue };
            let mut parts = std::iter::once(Some(KeyPart::Row(rid))).chain(std::iter::repeat(None));
            at.iter().for_each(|&i| covered[i] = Some(parts.next().flatten()));
        }
        if covered.iter().all(Option::is_none) {
            return Ok(self.key_of_values(value));
        }
        let mut parts = Vec::new();
        for ((covered, &c), collation) in
            covered.into_iter().zip(pk).zip(&self.table.key_collations)
        {
            match covered {
                None => parts.push(KeyPart::Value(normalise(value(c), collation).into_owned())),
                Some(part) => parts.extend(part),
            }
        }
        Ok(encode(&parts))
    }

    /// The same where no foreign key is a part.
    #[inline]
    pub fn key_of_values<'v>(&'v self, value: impl Fn(usize) -> &'v Value) -> Vec<u8> {
        let key = self.table.primary_key.iter().zip(&self.table.key_collations);
        encode_values(key.map(|(&c, collation)| (value(c), collation)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_keys_are_one_place() {
        let place = |key: [Value; 2]| place_of_key(&key, &[Collation::NoCase, Collation::Rtrim]);
        assert_eq!(place(["Ab".into(), 1.into()]), place(["aB".into(), Value::Real(1.0)]));
        assert_eq!(place(["a".into(), "x  ".into()]), place(["A".into(), "x".into()]));
        assert_ne!(place(["a".into(), "x".into()]), place(["a".into(), "X".into()]));
        assert_ne!(place(["1".into(), 1.into()]), place([1.into(), "1".into()]));
    }
}
