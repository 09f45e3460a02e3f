//! Reads the schema: what SQLite tells, judged table by table and then as a whole.

use std::collections::{BTreeMap, BTreeSet};

use rusqlite::Connection;

use super::feeds;
use super::floats::{self, Holds};
use super::pragmas::{self, ColumnInfo, Entry, IndexInfo, Inventory};
use super::select::{self, Choice};
use super::sql::{self, IndexSql, TableSql, Token};
use super::{
    Affinity, Collation, Column, Identity, IndexTerm, Schema, Selection, Skipped, Table, TableKind,
    UniqueIndex, counters, foreign, numbers, quote, references,
};
use crate::error::{Error, Result};
use crate::policy::Policies;
use synqlite_view::{groups, order};

/// Most stored columns of a replicated table. SQLite takes 2,000 in a table; the metadata of a row
/// need some beside them.
const MAX_COLUMNS: usize = 1_900;

/// Names by which SQL reaches a rowid. The first is the one that people least call a column: one that is called so
/// hides it from triggers until the next command.
const ROWID_NAMES: [&str; 3] = ["_rowid_", "oid", "rowid"];

const HIDDEN_ROWID: &str = "columns named rowid, _rowid_ and oid hide its rowid; rename one of them or add an INTEGER PRIMARY KEY";

/// A table whose own definition is understood; its relations to others are still to be resolved.
pub(super) struct Draft {
    pub table: Table,
    /// The stored columns that each CHECK reads.
    pub checks: Vec<Vec<usize>>,
    /// Whether one reads the number of the row, and does not say which it is.
    pub bounds_number: bool,
    /// Sets of columns that a foreign key of another table may refer to, and how each compares.
    pub keys: Vec<BTreeMap<usize, Collation>>,
    pub declared: Vec<pragmas::Reference>,
    /// What of it depends on SQLite's version, if anything does.
    pub inexact: Option<String>,
}

/// Reads the schema of the `main` database. Call it in a transaction: it takes several statements.
///
/// # Errors
/// With [`Selection::strict`], [`Error::NoTable`] if the selection names what is not a table, and
/// [`Error::Policy`] if a policy names an unknown table or column or asks for what the schema does
/// not allow.
pub fn read(conn: &Connection, policies: &Policies, selection: &Selection) -> Result<Schema> {
    let inventory = Inventory::read(conn)?;
    let choice = Choice::new(&inventory, policies, selection)?;
    let mut drafts = Vec::new();
    let mut skipped = Vec::new();
    for entry in &inventory.entries {
        let judged = match choice.refusal(&inventory, entry) {
            Some(why) => Err((why, false)),
            None => draft(conn, &inventory, entry)?.map_err(|why| (why, true)),
        };
        match judged.and_then(|draft| choice.unless_asked_for(draft)) {
            Ok(draft) => drafts.push(draft),
            Err((why, unfit)) => skipped.push(Skipped { name: entry.name.clone(), why, unfit }),
        }
    }
    let (mut notes, mut idle) =
        references::resolve(&inventory, &mut drafts, policies, selection.strict)?;
    for draft in &mut drafts {
        draft.table.identity = groups::identity(&draft.table, &draft.checks);
    }
    notes.extend(drafts.iter().filter_map(|draft| bounded(draft, policies)));
    override_identity(&inventory, &mut drafts, policies, selection.strict)?;
    drafts.iter_mut().for_each(|draft| draft.table.claim_number());
    counters::part(&inventory, &mut drafts, policies);
    let mut parts: Vec<_> = drafts.iter_mut().map(|d| (&mut d.table, &d.checks[..])).collect();
    groups::assign(&mut parts);
    notes.extend(references::convert(conn, &inventory, &mut drafts)?);
    let local = references::local(conn, &inventory, &mut drafts)?;
    idle.extend(counters::apply(&inventory, &mut drafts, policies));
    idle.extend(numbers::apply(&inventory, &mut drafts, policies));

    let tables: Vec<Table> = drafts.into_iter().map(|draft| draft.table).collect();
    notes.extend(references::undeclared(&tables));
    notes.extend(references::halves(&tables));
    let is_replicated = |name: &str| tables.iter().any(|t| t.name.eq_ignore_ascii_case(name));
    let named: Vec<&str> = policies.list("fire_on_merge").into_iter().collect();
    for (trigger, why) in feeds::barred(conn, &named, is_replicated)? {
        idle.push((format!("fire_on_merge={trigger}"), why));
    }
    notes.extend(idle.iter().map(|(key, why)| format!("policy {key} has no effect: {why}")));
    let (tables, components) = order::in_order(tables);
    Ok(Schema { tables, components, local, skipped, notes, idle })
}

/// Understands one table, or says why it cannot be replicated.
pub(super) fn draft(
    conn: &Connection,
    inventory: &Inventory,
    entry: &Entry,
) -> Result<std::result::Result<Draft, String>> {
    let infos = pragmas::columns(conn, &entry.name)?;
    let indexes = pragmas::indexes(conn, &entry.name)?;
    let definition = TableSql::parse(&entry.sql);
    let key = primary_key(&infos);

    // Only the key that is the rowid has no index. `INTEGER PRIMARY KEY DESC` has one, by a quirk.
    let key_index = indexes.iter().find(|index| index.primary);
    let alias = match key[..] {
        [column] if !entry.without_rowid && key_index.is_none() => Some(column),
        _ => None,
    };
    let scope = Scope::new(&infos, &definition, alias);
    let stored = |cid: usize| scope.stored.get(cid).copied().flatten();

    let columns = columns(conn, entry, &infos)?;
    if columns.len() > MAX_COLUMNS {
        let count = columns.len();
        return Ok(Err(format!("it has {count} columns; at most {MAX_COLUMNS} can be replicated")));
    }
    let free = ROWID_NAMES.into_iter().find(|name| scope.position(name).is_none());
    let rowid_name = free.or_else(|| Some(&infos[alias?].name)).map(str::to_owned);
    if rowid_name.is_none() && !entry.without_rowid {
        return Ok(Err(HIDDEN_ROWID.to_owned()));
    }
    let mut uniques = Vec::new();
    let mut keys = Vec::new();
    for index in indexes.iter().filter(|index| index.unique) {
        match unique_index(inventory, &infos, &scope, index) {
            Ok(unique) => uniques.push(unique),
            Err(why) => return Ok(Err(why)),
        }
        keys.extend(referable(conn, entry, &infos, &scope, index)?);
    }
    if let Some(column) = alias.and_then(stored) {
        keys.push(BTreeMap::from([(column, Collation::Binary)]));
    }
    let key_collation = |&cid: &usize| {
        let mut terms = key_index.iter().flat_map(|index| &index.terms);
        let term = terms.find(|(column, _)| *column == Some(cid));
        term.map_or(Collation::Binary, |(_, name)| collation(name))
    };
    let key_collations = key.iter().map(key_collation).collect();
    let alias_name = alias.map(|cid| infos[cid].name.as_str());
    let autoincrement = alias_name.map(|name| counts_up(conn, entry, name)).transpose()?;
    let kind = match alias.and_then(stored) {
        _ if entry.without_rowid => TableKind::WithoutRowid,
        Some(column) => TableKind::RowidAlias(column),
        None => TableKind::Rowid,
    };
    let generated = infos.iter().filter(|info| info.generated).map(|info| info.name.clone());
    let table = Table {
        name: entry.name.clone(),
        columns,
        generated: generated.collect(),
        kind,
        rowid_name: rowid_name.filter(|_| !entry.without_rowid),
        primary_key: key.into_iter().filter_map(stored).collect(),
        key_collations,
        foreign_keys: Vec::new(),
        uniques,
        groups: Vec::new(),
        identity: Identity::Birth,
        autoincrement: autoincrement.unwrap_or_default(),
        own_numbers: false,
        acts_on_delete: false,
        converted: BTreeSet::new(),
        // No other index is there for sure when VACUUM runs.
        indexed: indexes.iter().any(|index| index.name.starts_with("sqlite_autoindex_")),
        row_rules: definition.row_rules(|name| scope.position(name).is_some()),
        strict: entry.strict,
        conflict_clause: definition.has_conflict_clause(),
        encoding: inventory.encoding,
    };
    if foreign::may_need_more(&definition, &infos, &table.columns, &indexes)
        && let Some(why) = foreign::lacks(conn, &entry.name, &table.columns)
    {
        return Ok(Err(why));
    }
    let inexact = inexact(inventory, entry, &infos, &scope, &definition, &indexes);
    let checks = definition.checks();
    let bounds_number = alias_name.is_some_and(|name| sql::bounds(&checks, name));
    let checks = checks.into_iter().map(|check| scope.read_by(check)).collect();
    let declared = pragmas::references(conn, &entry.name)?;
    Ok(Ok(Draft { table, checks, bounds_number, keys, declared, inexact }))
}

/// A note on a table whose rows are known by their numbers since a CHECK reads them (R-ID-AUTO).
fn bounded(draft: &Draft, policies: &Policies) -> Option<String> {
    let Table { name, identity, .. } = &draft.table;
    let own = policies.get(&format!("{name}.identity")).is_some();
    let key = &draft.table.columns[draft.table.rowid_alias()?].name;
    (draft.bounds_number && *identity == Identity::Key && !own).then(|| {
        format!(
            "a CHECK of {name} reads {key}, so rows of one {key} that two sites add are one row; where SQLite counts \
             {key} up they are two with --policy {name}.identity=birth"
        )
    })
}

/// The columns of the primary key, by `cid`, in its order.
fn primary_key(infos: &[ColumnInfo]) -> Vec<usize> {
    let mut key: Vec<usize> = (0..infos.len()).filter(|&c| infos[c].key_place > 0).collect();
    key.sort_by_key(|&c| infos[c].key_place);
    key
}

/// Whether a column is declared AUTOINCREMENT.
fn counts_up(conn: &Connection, entry: &Entry, column: &str) -> Result<bool> {
    Ok(conn.column_metadata(Some("main"), entry.name.as_str(), column)?.4)
}

/// The stored columns of a table; their groups are yet to be found.
fn columns(conn: &Connection, entry: &Entry, infos: &[ColumnInfo]) -> Result<Vec<Column>> {
    let stored = infos.iter().filter(|info| !info.generated);
    let column = |info: &ColumnInfo| {
        Ok(Column {
            name: info.name.clone(),
            declared_type: info.declared_type.clone(),
            affinity: affinity(&info.declared_type, entry.strict),
            collation: own_collation(conn, &entry.name, &info.name)?,
            not_null: info.not_null,
            default: info.default.clone(),
            group: 0,
        })
    };
    stored.map(column).collect()
}

/// The first index or stored column of a table whose content depends on SQLite's version.
fn inexact(
    inventory: &Inventory,
    entry: &Entry,
    infos: &[ColumnInfo],
    scope: &Scope<'_>,
    definition: &TableSql<'_>,
    indexes: &[IndexInfo],
) -> Option<String> {
    let generated = definition.generated();
    let of_column = |cid: usize| generated.get(cid).copied().flatten();
    // Generated columns may read each other, at most once each.
    let holds =
        |name: &str, depth: usize| scope.holds(name, infos, entry.strict, &of_column, depth);
    let depends =
        |expression: &[Token<'_>]| floats::differs(expression, &|name| holds(name, infos.len()));
    let mut columns: BTreeSet<usize> = BTreeSet::new();
    for _ in infos {
        let reads = |expression: &[Token<'_>]| {
            let mut names = sql::names(expression).filter_map(|name| scope.position(&name));
            names.any(|cid| columns.contains(&cid))
        };
        let made_text = |cid: usize, expression: &[Token<'_>]| {
            affinity(&infos[cid].declared_type, entry.strict) == Affinity::Text
                && floats::gives(expression, &|name| holds(name, infos.len()))
        };
        let more = (0..infos.len()).filter(|&cid| {
            of_column(cid).is_some_and(|e| depends(e) || reads(e) || made_text(cid, e))
        });
        columns = more.collect();
    }
    let computed = |cid: usize| columns.contains(&cid);
    let depends = |expression: &[Token<'_>]| {
        let mut names = sql::names(expression).filter_map(|name| scope.position(&name));
        depends(expression) || names.any(computed)
    };
    let stored = infos.iter().enumerate().find(|(cid, info)| info.kept && computed(*cid));
    let what = stored.map(|(_, info)| format!("what generated column {} stores", info.name));
    let differs = |index: &&IndexInfo| {
        let text = inventory.index_sql.get(&index.name).map_or("", String::as_str);
        let sql = IndexSql::parse(text);
        let terms = sql.terms();
        let term = |(i, (cid, _)): (usize, &(Option<usize>, String))| match cid {
            Some(cid) => computed(*cid),
            None => terms.get(i).is_some_and(|(_, expression)| depends(expression)),
        };
        index.terms.iter().enumerate().any(term)
            || sql.predicate().is_some_and(|(_, expression)| depends(expression))
    };
    what.or_else(|| Some(format!("what index {} holds", indexes.iter().find(differs)?.name)))
}

/// The names that expressions of a table can use.
struct Scope<'a> {
    /// All columns, by `cid`.
    names: Vec<&'a str>,
    /// Their positions among the stored columns.
    stored: Vec<Option<usize>>,
    /// The stored columns that each stands for: itself, or the bases of a generated column.
    bases: Vec<BTreeSet<usize>>,
    /// The column that is the rowid.
    alias: Option<usize>,
}

impl<'a> Scope<'a> {
    fn new(infos: &'a [ColumnInfo], definition: &TableSql<'_>, alias: Option<usize>) -> Self {
        let mut position = 0..;
        let stored: Vec<Option<usize>> =
            infos.iter().map(|info| if info.generated { None } else { position.next() }).collect();
        let names = infos.iter().map(|info| info.name.as_str()).collect();
        let bases = stored.iter().map(|p| p.iter().copied().collect()).collect();
        let mut scope = Scope { names, stored, bases, alias };
        let generated = definition.generated();
        scope.bases = (0..infos.len())
            .map(|cid| {
                // Generated columns may read each other.
                let mut seen = BTreeSet::from([cid]);
                let mut waiting = vec![cid];
                while let Some(cid) = waiting.pop() {
                    let reads = generated.get(cid).copied().flatten().unwrap_or_default();
                    let reads = sql::names(reads).filter_map(|name| scope.position(&name));
                    waiting.extend(reads.filter(|&read| seen.insert(read)));
                }
                seen.into_iter().filter_map(|cid| scope.stored[cid]).collect()
            })
            .collect();
        scope
    }

    /// The column that a name means.
    fn position(&self, name: &str) -> Option<usize> {
        self.names.iter().position(|column| column.eq_ignore_ascii_case(name))
    }

    /// What a column can hold, or the value of a generated one, which others of them may read.
    fn holds<'t>(
        &self,
        name: &str,
        infos: &[ColumnInfo],
        strict: bool,
        generated: &dyn Fn(usize) -> Option<&'t [Token<'t>]>,
        depth: usize,
    ) -> Option<Holds> {
        let cid = self.position(name)?;
        let affinity = affinity(&infos[cid].declared_type, strict);
        Some(match affinity {
            Affinity::Text => Holds::Text,
            _ if self.alias == Some(cid) => Holds::Integers,
            Affinity::Integer if strict => Holds::Integers,
            Affinity::Blob if strict && !infos[cid].declared_type.eq_ignore_ascii_case("any") => {
                Holds::Text
            }
            Affinity::Blob if infos[cid].generated && depth > 0 => {
                let inner = |name: &str| self.holds(name, infos, strict, generated, depth - 1);
                match generated(cid) {
                    Some(expression) if !floats::gives(expression, &inner) => Holds::Text,
                    _ => Holds::Floats,
                }
            }
            _ => Holds::Floats,
        })
    }

    /// The stored columns that an expression depends on.
    fn read_by(&self, expression: &[Token<'_>]) -> Vec<usize> {
        let mut out = BTreeSet::new();
        for name in sql::names(expression) {
            let rowid = || ROWID_NAMES.iter().any(|rowid| name.eq_ignore_ascii_case(rowid));
            let cid = self.position(&name).or_else(|| self.alias.filter(|_| rowid()));
            out.extend(cid.and_then(|cid| self.bases.get(cid)).into_iter().flatten());
        }
        out.into_iter().collect()
    }
}

/// An index for people: one that SQLite made for a constraint by that, as nobody knows its name.
fn index_name(infos: &[ColumnInfo], index: &IndexInfo) -> String {
    if !index.name.starts_with("sqlite_autoindex_") {
        return format!("unique index {}", index.name);
    }
    let of =
        |(cid, _): &(Option<usize>, String)| cid.and_then(|cid| Some(infos.get(cid)?.name.clone()));
    let columns: Vec<String> = index.terms.iter().filter_map(of).collect();
    let kind = if index.primary { "PRIMARY KEY" } else { "UNIQUE" };
    format!("{kind} ({})", columns.join(", "))
}

fn unique_index(
    inventory: &Inventory,
    infos: &[ColumnInfo],
    scope: &Scope<'_>,
    index: &IndexInfo,
) -> std::result::Result<UniqueIndex, String> {
    let text = inventory.index_sql.get(&index.name).map_or("", String::as_str);
    let definition = IndexSql::parse(text);
    let expressions = definition.terms();
    let mut columns = BTreeSet::new();
    let mut terms = Vec::new();
    for (i, (cid, collation_name)) in index.terms.iter().enumerate() {
        let collation = collation(collation_name);
        if let Collation::Other(name) = &collation {
            return Err(format!(
                "its {} compares by collation {name}; only BINARY, NOCASE and RTRIM are sure to be the \
                 same on every site",
                index_name(infos, index)
            ));
        }
        let sql = match cid.and_then(|cid| Some((infos.get(cid)?, scope.bases.get(cid)?))) {
            Some((info, bases)) => {
                columns.extend(bases);
                quote(&info.name)
            }
            None => {
                let (text, expression) = expressions.get(i).ok_or_else(|| {
                    format!("its {} cannot be understood", index_name(infos, index))
                })?;
                columns.extend(scope.read_by(expression));
                text.to_string()
            }
        };
        terms.push(IndexTerm { sql, collation });
    }
    let predicate = match definition.predicate() {
        Some((text, expression)) => {
            columns.extend(scope.read_by(expression));
            Some(text.to_string())
        }
        None if index.partial => {
            return Err(format!("its {} cannot be understood", index_name(infos, index)));
        }
        None => None,
    };
    let columns = columns.into_iter().collect();
    Ok(UniqueIndex { name: index.name.clone(), primary: index.primary, columns, terms, predicate })
}

/// The columns of a unique index if SQLite lets foreign keys refer to them: all stored, all rows,
/// compared as the columns compare themselves.
fn referable(
    conn: &Connection,
    entry: &Entry,
    infos: &[ColumnInfo],
    scope: &Scope<'_>,
    index: &IndexInfo,
) -> Result<Option<BTreeMap<usize, Collation>>> {
    if index.partial {
        return Ok(None);
    }
    let mut columns = BTreeMap::new();
    for (cid, name) in &index.terms {
        let Some((info, Some(position))) =
            cid.and_then(|cid| Some((infos.get(cid)?, *scope.stored.get(cid)?)))
        else {
            return Ok(None);
        };
        let compares = collation(name);
        if own_collation(conn, &entry.name, &info.name)? != compares {
            return Ok(None);
        }
        columns.insert(position, compares);
    }
    Ok(Some(columns))
}

/// How a column compares where nothing says otherwise.
fn own_collation(conn: &Connection, table: &str, column: &str) -> Result<Collation> {
    let name = conn.column_metadata(Some("main"), table, column)?.1;
    Ok(name.map_or(Collation::Binary, |name| collation(&name.to_string_lossy())))
}

pub(super) fn collation(name: &str) -> Collation {
    match name.to_ascii_uppercase().as_str() {
        "BINARY" => Collation::Binary,
        "NOCASE" => Collation::NoCase,
        "RTRIM" => Collation::Rtrim,
        _ => Collation::Other(name.to_string()),
    }
}

/// Affinity by the rules of <https://sqlite.org/datatype3.html#determination_of_column_affinity>.
pub(super) fn affinity(declared_type: &str, strict: bool) -> Affinity {
    let declared = declared_type.to_ascii_uppercase();
    let has = |parts: &[&str]| parts.iter().any(|part| declared.contains(part));
    if has(&["INT"]) {
        Affinity::Integer
    } else if has(&["CHAR", "CLOB", "TEXT"]) {
        Affinity::Text
    } else if declared.is_empty() || has(&["BLOB"]) || strict && declared == "ANY" {
        Affinity::Blob
    } else if has(&["REAL", "FLOA", "DOUB"]) {
        Affinity::Real
    } else {
        Affinity::Numeric
    }
}

/// Policy `T.identity=key|birth`.
fn override_identity(
    inventory: &Inventory,
    drafts: &mut [Draft],
    policies: &Policies,
    strict: bool,
) -> Result<()> {
    for (key, value) in policies.iter() {
        let Some(table) = key.strip_suffix(".identity") else { continue };
        let wrong =
            |why: String| Error::Policy { key: key.to_owned(), value: value.to_owned(), why };
        let identity = match value {
            "key" => Identity::Key,
            "birth" => Identity::Birth,
            _ => return Err(wrong("it is either key or birth".to_string())),
        };
        let entry = match select::known_table(inventory, table) {
            Err(error) if strict => return Err(wrong(error.to_string())),
            Err(_) => continue,
            Ok(entry) => entry,
        };
        let draft = drafts.iter_mut().find(|draft| draft.table.name == entry.name);
        if let Some(Draft { table, .. }) = draft {
            if identity == Identity::Key && table.primary_key.is_empty() {
                if !strict {
                    continue;
                }
                return Err(wrong(format!(
                    "table {} has no primary key to identify rows by; leave it to birth",
                    table.name
                )));
            }
            table.identity = identity;
        }
    }
    Ok(())
}
