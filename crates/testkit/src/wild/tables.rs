//! Tables made at random.

use super::regions::{Region, Regions};
use super::schema::{Column, Foreign, Index, Role, Rule, Schema, Table, Trigger, quote};
use super::values::Pool;
use crate::random::Random;

/// A schema of one to three tables.
pub fn schema(r: &mut Random, regions: &Regions) -> Schema {
    let mut schema = Schema::new();
    let most = if regions.has(Region::Few) { 2 } else { 3 };
    for no in 0..1 + r.index(most) {
        let table = table(r, regions, &schema, no);
        schema.insert(no, table);
    }
    if regions.has(Region::Triggers) {
        triggers(r, &mut schema);
    }
    schema
}

/// A column that is nothing special yet.
pub fn plain(id: &str, ty: &'static str, role: Role, pool: Pool) -> Column {
    Column {
        id: id.to_owned(),
        name: id.to_owned(),
        ty,
        collate: None,
        not_null: false,
        default: None,
        role,
        pool,
        generated: None,
        stored: false,
        filled: None,
    }
}

/// A pool for a column that takes part in a key.
fn key_pool(r: &mut Random, regions: &Regions, ty: &str) -> Pool {
    if !regions.has(Region::Spelled) {
        return if matches!(ty, "INTEGER" | "INT" | "REAL" | "NUMERIC") {
            Pool::Numbers
        } else {
            Pool::Words
        };
    }
    match (ty, r.below(8)) {
        ("TEXT", 0..=4) | ("BLOB" | "", 0..=1) => Pool::Letters,
        (_, 7) => Pool::Ends,
        _ => Pool::Spelled,
    }
}

/// A collation for a column that takes part in a key.
fn collation(r: &mut Random, regions: &Regions, ty: &str) -> Option<&'static str> {
    let texts = matches!(ty, "TEXT" | "");
    if !texts || !regions.has(Region::Spelled) {
        return None;
    }
    [None, Some("NOCASE"), Some("RTRIM"), None, Some("BINARY")][r.index(5)]
}

/// A table that may refer to those of `schema`, and to itself.
pub fn table(r: &mut Random, regions: &Regions, schema: &Schema, no: usize) -> Table {
    let mut t = Table {
        name: format!("t{no}"),
        columns: Vec::new(),
        key: Vec::new(),
        inline_key: true,
        key_collate: None,
        key_tail: "",
        rules: Vec::new(),
        indexes: Vec::new(),
        triggers: Vec::new(),
        tail: "",
        former: Vec::new(),
        reused: false,
    };
    let links = regions.has(Region::Links);
    if !(links && r.one_in(4) && linked_key(r, regions, schema, &mut t)) {
        key(r, regions, &mut t);
    }
    if r.below(10) < 7 {
        rival(r, regions, &mut t);
    }
    let mut token = plain("w", ["TEXT", "TEXT", ""][r.index(3)], Role::Token, Pool::Words);
    if regions.has(Region::Handles) && token.ty.is_empty() {
        token.ty = "BLOB";
    }
    token.not_null = r.one_in(6);
    token.default = token.not_null.then(|| "''".to_owned());
    t.columns.push(token);
    if r.one_in(2) {
        number(r, &mut t);
    }
    if r.one_in(3) {
        t.columns.push(plain(
            "m",
            ["", "TEXT", "REAL", "BLOB"][r.index(4)],
            Role::Plain,
            Pool::Spelled,
        ));
    }
    if r.below(4) < 3 {
        reference(r, regions, schema, (no, ["r", "s"]), &mut t);
    }
    if links && r.one_in(3) {
        reference(r, regions, schema, (no, ["q", "y"]), &mut t);
    }
    if links && r.one_in(2) {
        linked_rule(r, &mut t);
    }
    if r.one_in(8) {
        let mut c = plain("x", "TEXT", Role::Generated, Pool::Words);
        c.generated = Some("{w}||'!'".to_owned());
        // What is stored must not be the text of a floating-point number.
        let text = t.token().is_some_and(|w| w.ty == "TEXT");
        c.stored = text && regions.has(Region::Strict) && r.one_in(2);
        t.columns.push(c);
    }
    if regions.has(Region::Strict) && r.one_in(2) {
        t.tail = if t.has_rowid() { " STRICT" } else { " WITHOUT ROWID, STRICT" };
    }
    t
}

/// Triggers of the application on tables that are there from the start: they change the row that was written, bring
/// back one that was deleted, write to another table, delete children, refuse rows, and keep others from firing.
fn triggers(r: &mut Random, schema: &mut Schema) {
    let all = schema.clone();
    for (no, t) in schema {
        let (table, mut texts) = (quote(&t.name), Vec::new());
        let same = match t.has_rowid() {
            true => "rowid = new.rowid".to_owned(),
            false => {
                let equal = |id: &String| t.text(&format!("{{{id}}} = new.{{{id}}}"));
                t.key.iter().map(equal).collect::<Vec<_>>().join(" AND ")
            }
        };
        if t.column("n").is_some() && r.one_in(2) {
            texts.push(t.text(&format!(
                "AFTER UPDATE OF {{w}} ON {table} WHEN old.{{w}} IS NOT new.{{w}} \
                 BEGIN UPDATE {table} SET {{n}} = coalesce({{n}}, 0) + 1 WHERE {same}; END"
            )));
            let refuse = ["IGNORE", "ABORT, 'too many'"][r.index(2)];
            texts.push(t.text(&format!(
                "BEFORE INSERT ON {table} WHEN new.{{n}} = 4 BEGIN SELECT RAISE({refuse}); END"
            )));
        }
        if t.column("n").is_some() && r.one_in(3) {
            texts.push(t.text(&format!(
                "AFTER UPDATE ON {table} WHEN old.{{n}} IS new.{{n}} \
                 BEGIN UPDATE {table} SET {{n}} = coalesce({{n}}, 0) + 1 WHERE {same}; END"
            )));
        }
        if t.column("n").is_some() && r.one_in(3) {
            // SQLite passes over what else would fire, ours too where this one was made later.
            let (when, row) = [("INSERT", "new"), ("UPDATE", "new"), ("DELETE", "old")][r.index(3)];
            texts.push(t.text(&format!(
                "AFTER {when} ON {table} WHEN {row}.{{n}} = 2 BEGIN SELECT RAISE(IGNORE); END"
            )));
        }
        // What comes back with a reference may refer to nothing by then.
        let refers = t.rules.iter().any(|rule| matches!(rule, Rule::Foreign(_)));
        if t.column("n").is_some() && !refers && r.one_in(3) {
            let stored = t.columns.iter().filter(|c| c.generated.is_none());
            let ids: Vec<String> = stored.map(|c| c.id.clone()).collect();
            // What was written before is not what shows when it was written.
            let old = |id: &String| match t.column(id).is_some_and(|c| c.role == Role::Token) {
                true => "NULL".to_owned(),
                false => t.text(&format!("old.{{{id}}}")),
            };
            let old: Vec<_> = ids.iter().map(old).collect();
            texts.push(t.text(&format!(
                "AFTER DELETE ON {table} WHEN old.{{n}} IN (1, 3) \
                 BEGIN INSERT INTO {table}({}) VALUES({}); END",
                t.list(&ids),
                old.join(", ")
            )));
        }
        if r.one_in(2) {
            let when = ["INSERT", "UPDATE", "DELETE"][r.index(3)];
            texts.push(format!(
                "AFTER {when} ON {table} BEGIN INSERT INTO notes(what) VALUES('{when}'); END"
            ));
        }
        for child in all.values() {
            for rule in &child.rules {
                if let Rule::Foreign(Foreign { columns, parent, targets, .. }) = rule
                    && (parent, columns.len()) == (no, 1)
                    && r.one_in(2)
                {
                    let (name, column) = (quote(&child.name), child.list(columns));
                    let target = t.list(targets);
                    texts.push(format!(
                        "AFTER DELETE ON {table} \
                         BEGIN DELETE FROM {name} WHERE {column} = old.{target}; END"
                    ));
                }
            }
        }
        let named = |(i, text)| Trigger { name: format!("app{no}_{i}"), text };
        t.triggers = texts.into_iter().enumerate().map(named).collect();
    }
}

/// A key that is a reference, or two. Says whether there is one that others can refer to.
fn linked_key(r: &mut Random, regions: &Regions, schema: &Schema, t: &mut Table) -> bool {
    // Parents by position, as in [`reference`].
    let others: Vec<&Table> = schema.values().collect();
    let ids: &[&str] = if r.one_in(3) { &["k"] } else { &["k", "l"] };
    for id in ids.iter().filter(|_| !others.is_empty()) {
        let parent = r.index(others.len());
        let of = others[parent];
        // A target of two columns has no place in one.
        let Some([theirs]) = target(r, of).and_then(|all| <[Column; 1]>::try_from(all).ok()) else {
            continue;
        };
        let other = regions.has(Region::Spelled) && r.one_in(3);
        let ty = if other { ["NUMERIC", "TEXT", "", "INT"][r.index(4)] } else { theirs.ty };
        let mut c = plain(id, ty, Role::Key, theirs.pool);
        c.collate = if other { collation(r, regions, ty) } else { theirs.collate };
        c.not_null = ids.len() > 1;
        t.columns.push(c);
        t.key.push((*id).to_owned());
        let (columns, targets) = (vec![(*id).to_owned()], vec![theirs.id]);
        t.rules.push(Rule::Foreign(Foreign { columns, parent, targets, actions: actions(r) }));
    }
    if t.key.is_empty() {
        return false;
    }
    t.inline_key = t.key.len() == 1;
    if t.key.len() > 1 && r.one_in(2) {
        t.tail = " WITHOUT ROWID";
    }
    true
}

/// A unique key of a reference, or of several columns.
fn linked_rule(r: &mut Random, t: &mut Table) {
    let sets: [&[&str]; 6] = [&["r"], &["q"], &["r", "n"], &["u", "r"], &["q", "r"], &["u", "n"]];
    let there = sets.iter().filter(|ids| ids.iter().all(|id| t.column(id).is_some()));
    let there: Vec<&&[&str]> = there.collect();
    if let Some(ids) = there.get(r.index(there.len().max(1))) {
        let columns = ids.iter().map(|id| (*id).to_owned()).collect();
        t.rules.push(Rule::Unique { columns, conflict: "", named: None });
    }
}

fn key(r: &mut Random, regions: &Regions, t: &mut Table) {
    let replace = regions.has(Region::Replace) && r.one_in(6);
    let tail = if replace { " ON CONFLICT REPLACE" } else { "" };
    let push = |t: &mut Table, id: &str, c: Column| {
        t.columns.push(c);
        t.key.push(id.to_owned());
    };
    let draw = if regions.has(Region::Numbers) && r.one_in(2) { 0 } else { r.below(15) };
    match draw {
        0..=3 => {
            let pool = if regions.has(Region::Spelled) && r.one_in(5) {
                Pool::Ends
            } else {
                Pool::Numbers
            };
            push(t, "k", plain("k", "INTEGER", Role::Key, pool));
            t.key_tail = if r.one_in(4) { " AUTOINCREMENT" } else { "" };
        }
        4..=10 => {
            let types = ["TEXT", "TEXT", "TEXT", "", "REAL", "NUMERIC", "INT", "BLOB"];
            let ty = types[r.index(types.len())];
            let mut c = plain("k", ty, Role::Key, key_pool(r, regions, ty));
            c.collate = collation(r, regions, ty);
            c.not_null = r.below(3) > 0;
            if c.not_null && r.one_in(2) {
                t.tail = " WITHOUT ROWID";
            }
            push(t, "k", c);
            t.key_tail = tail;
            if regions.has(Region::Spelled) && r.one_in(4) {
                t.inline_key = false;
                t.key_collate = Some(["NOCASE", "RTRIM", "BINARY"][r.index(3)]);
            }
        }
        11..=13 => {
            for id in ["k", "l"] {
                let ty = ["TEXT", "INTEGER", ""][r.index(3)];
                let mut c = plain(id, ty, Role::Key, key_pool(r, regions, ty));
                c.collate = collation(r, regions, ty);
                c.not_null = true;
                push(t, id, c);
            }
            t.inline_key = false;
            t.key_tail = tail;
            t.tail = if r.one_in(2) { " WITHOUT ROWID" } else { "" };
        }
        _ => {}
    }
}

/// A column that is unique in some way.
fn rival(r: &mut Random, regions: &Regions, t: &mut Table) {
    let ty = ["TEXT", "INTEGER", "", "NUMERIC"][r.index(4)];
    let mut c = plain("u", ty, Role::Rival, key_pool(r, regions, ty));
    c.collate = collation(r, regions, ty);
    // Where it may not be NULL, REPLACE puts the default in place of one.
    let default = super::values::value(r, c.pool);
    if r.one_in(4) && !default.contains("||") {
        (c.default, c.not_null) = (Some(default.to_owned()), true);
    }
    t.columns.push(c);
    let named = r.one_in(3).then(|| format!("uq_{}", t.name));
    let conflict = match r.below(6) {
        0 if regions.has(Region::Replace) => " ON CONFLICT REPLACE",
        1 => " ON CONFLICT IGNORE",
        _ => "",
    };
    if r.below(3) < 2 {
        t.rules.push(Rule::Unique { columns: vec!["u".to_owned()], conflict, named });
    } else {
        let index = unique_index(r, regions, t, "u");
        t.indexes.push(index);
    }
}

/// A unique index on a column: plain, partial, of an expression, under a collation.
pub fn unique_index(r: &mut Random, regions: &Regions, t: &Table, id: &str) -> Index {
    let mut index = Index {
        name: format!("{}_{id}_{}", t.name, t.indexes.len()),
        unique: true,
        on: vec![format!("{{{id}}}")],
        reads: vec![id.to_owned()],
        filter: None,
    };
    let texts = t.column(id).is_some_and(|c| c.ty == "TEXT");
    match r.below(6) {
        0 => index.filter = Some(format!("{{{id}}} IS NOT NULL")),
        1 => index.filter = Some(format!("{{{id}}} > 'a'")),
        2 if texts => index.on = vec![format!("lower({{{id}}})")],
        3 if regions.has(Region::Spelled) => index.on = vec![format!("{{{id}}} COLLATE NOCASE")],
        _ => {}
    }
    index
}

/// A number, often with a CHECK, a default and NOT NULL.
fn number(r: &mut Random, t: &mut Table) {
    let mut c = plain("n", "INTEGER", Role::Number, Pool::Numbers);
    c.default = r.one_in(2).then(|| "1".to_owned());
    c.not_null = c.default.is_some() && r.one_in(2);
    t.columns.push(c);
    if r.one_in(3) {
        t.rules.push(Rule::Check("{n} < 10".to_owned()));
    }
}

/// A foreign key to the key, or to a unique column, of some table.
fn reference(
    r: &mut Random,
    regions: &Regions,
    schema: &Schema,
    (no, ids): (usize, [&str; 2]),
    t: &mut Table,
) {
    let own = schema.is_empty() || r.one_in(5);
    let parent = if own { no } else { r.index(schema.len()) };
    // Of tables that were dropped the numbers are missing.
    let other = schema.values().nth(parent).filter(|_| !own);
    let Some(target) = target(r, other.unwrap_or(t)) else { return };
    let mut columns = Vec::new();
    for (id, theirs) in ids.iter().zip(&target) {
        let other = regions.has(Region::Spelled) && r.one_in(2);
        let ty = if other { ["TEXT", "INTEGER", "", "BLOB"][r.index(4)] } else { theirs.ty };
        let mut c = plain(id, ty, Role::Reference, theirs.pool);
        c.collate = if other { collation(r, regions, ty) } else { theirs.collate };
        c.default = r.one_in(5).then(|| super::values::value(r, theirs.pool).to_owned());
        c.default = c.default.filter(|text| !text.contains("||"));
        columns.push((*id).to_owned());
        t.columns.push(c);
    }
    if r.one_in(3) {
        let name = format!("{}_{}_{}", t.name, columns[0], t.indexes.len());
        let on = columns.iter().map(|id| format!("{{{id}}}")).collect();
        let reads = columns.clone();
        t.indexes.push(Index { name, unique: false, on, reads, filter: None });
    }
    let actions = actions(r);
    let targets = target.iter().map(|c| c.id.clone()).collect();
    t.rules.push(Rule::Foreign(Foreign { columns, parent, targets, actions }));
}

/// ON DELETE, ON UPDATE, DEFERRABLE.
pub fn actions(r: &mut Random) -> String {
    let action = |r: &mut Random| {
        ["", "CASCADE", "CASCADE", "SET NULL", "SET DEFAULT", "RESTRICT", "NO ACTION"][r.index(7)]
    };
    let mut actions = String::new();
    for when in [" ON DELETE ", " ON UPDATE "] {
        let action = action(r);
        if !action.is_empty() {
            actions += when;
            actions += action;
        }
    }
    if r.one_in(4) {
        actions += " DEFERRABLE INITIALLY DEFERRED";
    }
    actions
}

/// Columns that a foreign key can refer to.
pub fn target(r: &mut Random, t: &Table) -> Option<Vec<Column>> {
    let unique = |rule: &Rule| matches!(rule, Rule::Unique { columns, .. } if columns == &["u"]);
    let rival = t.rules.iter().any(unique).then(|| vec!["u".to_owned()]);
    let collated = t.key_collate.is_some()
        && t.key.first().and_then(|id| t.column(id)).and_then(|c| c.collate) != t.key_collate;
    let key = Some(t.key.clone()).filter(|key| !key.is_empty() && !collated);
    let ids = if r.one_in(3) { rival.or(key) } else { key.or(rival) }?;
    Some(ids.iter().filter_map(|id| t.column(id).cloned()).collect())
}
