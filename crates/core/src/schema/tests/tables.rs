//! Tables, columns and keys, and what is left out.

use super::*;

fn column_names(table: &Table) -> Vec<&str> {
    table.columns.iter().map(|column| column.name.as_str()).collect()
}

#[test]
fn integer_primary_key_is_the_rowid() {
    for key in [
        "id INTEGER PRIMARY KEY",
        "id integer primary key autoincrement",
        "id \"INTEGER\" PRIMARY KEY",
    ] {
        let t = table(&format!("CREATE TABLE t(a, {key})"));
        assert_eq!(t.kind, TableKind::RowidAlias(1), "{key}");
        assert_eq!(t.rowid_alias(), Some(1));
        assert_eq!(t.rowid_name.as_deref(), Some("_rowid_"));
        assert_eq!((&t.primary_key, &t.key_collations), (&vec![1], &vec![Collation::Binary]));
        assert_eq!(t.identity, Identity::Birth);
        assert_eq!(t.autoincrement, key.contains("auto"));
        assert!(t.uniques.is_empty() && !t.indexed);
    }
    let t = table("CREATE TABLE t(id INTEGER, PRIMARY KEY(id DESC))");
    assert_eq!(t.kind, TableKind::RowidAlias(0));
    let t = table("CREATE TABLE t(id INTEGER, PRIMARY KEY(id AUTOINCREMENT))");
    assert!(t.autoincrement);
}

#[test]
fn other_primary_keys_are_not_the_rowid() {
    for key in [
        "id INTEGER PRIMARY KEY DESC",
        "id INT PRIMARY KEY",
        "id BIGINT PRIMARY KEY",
        "id TEXT PRIMARY KEY",
        "id PRIMARY KEY",
    ] {
        let t = table(&format!("CREATE TABLE t({key}, a)"));
        assert_eq!(t.kind, TableKind::Rowid, "{key}");
        assert_eq!(t.identity, Identity::Key);
        assert_eq!(t.primary_key, [0]);
        assert!(t.indexed && t.uniques.len() == 1 && t.uniques[0].primary);
    }
}

#[test]
fn without_rowid_tables_are_addressed_by_key() {
    let t = table(
        "CREATE TABLE t(a, b TEXT, c INTEGER, PRIMARY KEY(c, b COLLATE nocase)) WITHOUT ROWID",
    );
    assert_eq!((t.kind, t.rowid_name.as_deref()), (TableKind::WithoutRowid, None));
    assert_eq!(t.primary_key, [2, 1]);
    assert_eq!(t.key_collations, [Collation::Binary, Collation::NoCase]);
    assert_eq!(t.identity, Identity::Key);
    let t = table("CREATE TABLE t(id INTEGER PRIMARY KEY) WITHOUT ROWID");
    assert_eq!((t.kind, t.identity), (TableKind::WithoutRowid, Identity::Key));
}

#[test]
fn composite_keys_keep_their_order_and_collations() {
    let t = table(
        "CREATE TABLE t(a TEXT COLLATE rtrim, b TEXT COLLATE NOCASE, c, PRIMARY KEY(c, a, b, a))",
    );
    assert_eq!(t.primary_key, [2, 0, 1]);
    assert_eq!(t.key_collations, [Collation::Binary, Collation::Rtrim, Collation::NoCase]);
    assert!(t.columns.iter().all(|column| !column.not_null));
}

#[test]
fn tables_without_a_key_have_birth_identity() {
    let t = table("CREATE TABLE t(a, b)");
    assert_eq!((t.kind, t.identity), (TableKind::Rowid, Identity::Birth));
    assert!(t.primary_key.is_empty() && t.key_collations.is_empty() && !t.indexed);
    assert!(!table("CREATE TABLE t(a); CREATE INDEX i ON t(a)").indexed, "it can be dropped");
}

#[test]
fn affinities_follow_the_declared_type() {
    let t = table(
        "CREATE TABLE t(a INT, b CHARINT, c VARCHAR(10), d clob, e, f BLOB, g DOUBLE PRECISION, h float,
         i DECIMAL(10,5), j BOOLEAN, k FLOATING POINT, l STRING, m ANY, n TEXTBLOB, o BLOBREAL) ",
    );
    use Affinity::*;
    let affinities: Vec<Affinity> = t.columns.iter().map(|c| c.affinity).collect();
    assert_eq!(
        affinities,
        [
            Integer, Integer, Text, Text, Blob, Blob, Real, Real, Numeric, Numeric, Integer,
            Numeric, Numeric, Text, Blob
        ]
    );
    assert_eq!(t.columns[2].declared_type, "VARCHAR(10)");
    assert_eq!(t.columns[4].declared_type, "");
}

#[test]
fn strict_any_stores_values_as_they_come() {
    let t =
        table("CREATE TABLE t(a ANY, b INT, c TEXT NOT NULL DEFAULT 'x', d REAL, e BLOB) STRICT");
    use Affinity::*;
    let affinities: Vec<Affinity> = t.columns.iter().map(|c| c.affinity).collect();
    assert_eq!(affinities, [Blob, Integer, Text, Real, Blob]);
    assert!(t.columns[2].not_null);
    assert_eq!(t.columns[2].default.as_deref(), Some("'x'"));
}

#[test]
fn generated_columns_are_not_stored() {
    let t = table(
        "CREATE TABLE t(v AS (b + 1), a INTEGER PRIMARY KEY, s INT GENERATED ALWAYS AS (v) STORED, b)",
    );
    assert_eq!(column_names(&t), ["a", "b"]);
    assert_eq!((t.kind, &t.primary_key), (TableKind::RowidAlias(0), &vec![0]));
}

#[test]
fn the_rowid_is_reached_by_a_name_no_column_has() {
    let name = |sql: &str| table(sql).rowid_name;
    assert_eq!(name("CREATE TABLE t(\"RowId\" TEXT)").as_deref(), Some("_rowid_"));
    assert_eq!(name("CREATE TABLE t(\"_RowId_\" TEXT)").as_deref(), Some("oid"));
    assert_eq!(name("CREATE TABLE t(oid, x AS (1), _rowid_ AS (2))").as_deref(), Some("rowid"));
    let all = "CREATE TABLE t(rowid, _rowid_, oid, id INTEGER PRIMARY KEY)";
    assert_eq!(name(all).as_deref(), Some("id"));
    assert_eq!(name("CREATE TABLE t(rowid PRIMARY KEY, _rowid_, oid) WITHOUT ROWID"), None);
    let hidden = schema("CREATE TABLE t(rowid, _rowid_, OID)");
    assert!(hidden.tables.is_empty());
    assert!(skipped(&hidden)["t"].contains("hide its rowid"));
}

#[test]
fn names_can_be_anything() {
    let schema = schema(
        "CREATE TABLE \"group\"(\"select\" TEXT PRIMARY KEY, \"we\"\"ird na]me\" INT UNIQUE, `🦀 (` , [a,b] TEXT,
           ' -- ' , CHECK(\"SELECT\" > '' AND [a,b] <> '\"🦀 (\"'));
         CREATE TABLE 'it''s'(\"Ünï\" REFERENCES \"GROUP\"(\"Select\"), x AS (\"Ünï\"), UNIQUE(x));
         CREATE TABLE \"\"(\"\" INTEGER PRIMARY KEY);",
    );
    assert_eq!(names(&schema.tables), ["", "group", "it's"]);
    let group = schema.table("Group").unwrap();
    assert_eq!(column_names(group), ["select", "we\"ird na]me", "🦀 (", "a,b", " -- "]);
    assert_eq!(
        groups(group),
        [vec!["select", "a,b"], vec!["we\"ird na]me"], vec!["🦀 ("], vec![" -- "]]
    );
    let unique = group.uniques.iter().find(|unique| !unique.primary).unwrap();
    assert_eq!(unique.terms[0].sql, "\"we\"\"ird na]me\"");
    let its = schema.table("it's").unwrap();
    assert_eq!(its.foreign_keys[0].name, "Ünï>group");
    assert_eq!(its.uniques[0].columns, [0]);
}

#[test]
fn wide_tables_have_a_limit() {
    let columns = |n: usize| (0..n).map(|i| format!("c{i} INT")).collect::<Vec<_>>().join(", ");
    let t = table(&format!("CREATE TABLE t({}, g AS (c7), CHECK(c499 > c3))", columns(500)));
    assert_eq!((t.columns.len(), t.groups.len()), (500, 499));
    assert_eq!(t.groups[3].columns, [3, 499]);
    assert_eq!(table(&format!("CREATE TABLE t({})", columns(1_900))).columns.len(), 1_900);
    let schema = schema(&format!("CREATE TABLE t({})", columns(1_901)));
    assert_eq!(skipped(&schema)["t"], "it has 1901 columns; at most 1900 can be replicated");
}

#[test]
fn only_the_main_database_is_read() {
    let conn = open(
        "CREATE TABLE t(id INTEGER PRIMARY KEY, a);
         ATTACH ':memory:' AS other;
         CREATE TABLE other.t(x TEXT PRIMARY KEY, y UNIQUE);
         CREATE TABLE other.u(x);
         CREATE UNIQUE INDEX other.i ON t(y);
         CREATE TEMP TABLE t(z);
         CREATE TEMP TABLE w(z);",
    );
    let schema = read(&conn, &Policies::default(), &Selection::default()).unwrap();
    assert_eq!((names(&schema.tables), schema.skipped.len()), (vec!["t"], 0));
    assert_eq!(column_names(&schema.tables[0]), ["id", "a"]);
    assert!(schema.tables[0].uniques.is_empty());
}

#[test]
fn views_virtual_tables_and_their_storage_are_skipped() {
    let schema = schema(
        "CREATE TABLE doc(id INTEGER PRIMARY KEY, body);
         CREATE VIEW v AS SELECT * FROM doc;
         CREATE VIEW broken AS SELECT * FROM nowhere;
         CREATE VIRTUAL TABLE doc_fts USING fts5(body, content=doc);
         CREATE VIRTUAL TABLE \"my box\" USING rtree(id, x0, x1);
         CREATE TABLE doc_ftsx(a);",
    );
    assert_eq!(names(&schema.tables), ["doc", "doc_ftsx"]);
    let skipped = skipped(&schema);
    assert_eq!(skipped["v"], "a view: it holds no rows of its own");
    assert_eq!(skipped["broken"], skipped["v"]);
    assert_eq!(skipped["doc_fts"], "a virtual table: its rows are kept by module fts5");
    assert_eq!(skipped["doc_fts_data"], "storage of virtual table doc_fts");
    assert_eq!(skipped["my box_node"], "storage of virtual table my box");
}

#[test]
fn storage_of_an_unknown_module_is_not_touched() {
    let conn = open(
        "CREATE TABLE vec_rows(id INTEGER PRIMARY KEY, data);
         CREATE TABLE vector(id INTEGER PRIMARY KEY);
         PRAGMA writable_schema=ON;
         INSERT INTO sqlite_master(type, name, tbl_name, rootpage, sql)
           VALUES('table', 'Vec', 'Vec', 0, 'CREATE VIRTUAL TABLE Vec USING vec0(embedding)');
         PRAGMA writable_schema=RESET;",
    );
    let schema = read(&conn, &Policies::default(), &Selection::default()).unwrap();
    assert_eq!(names(&schema.tables), ["vector"]);
    assert!(skipped(&schema)["vec_rows"].contains("module vec0 is not loaded"));
    assert!(skipped(&schema)["Vec"].contains("vec0"));
}

#[test]
fn internal_tables_are_not_mentioned() {
    let schema = schema(
        "CREATE TABLE t(id INTEGER PRIMARY KEY AUTOINCREMENT);
         CREATE TABLE synqlite_state(a); CREATE TABLE synqlite(a); CREATE TABLE synqliteX(a);
         CREATE INDEX i ON synqlite(a); ANALYZE;",
    );
    assert_eq!(names(&schema.tables), ["synqlite", "synqliteX", "t"]);
    assert!(schema.skipped.is_empty());
}

#[test]
fn selection_and_policy_leave_tables_out() {
    let conn =
        open("CREATE TABLE a(x); CREATE TABLE b(x); CREATE TABLE c(x); CREATE VIEW v AS SELECT 1");
    let with = |set: &[(&str, &str)], only: &[&str], exclude: &[&str]| {
        read(&conn, &policies(set), &selection(only, exclude))
    };
    let schema = with(&[], &["A", "c"], &["C"]).unwrap();
    assert_eq!(names(&schema.tables), ["a"]);
    let init = |table| format!("to replicate it: synqlite init --table {table}");
    assert_eq!(skipped(&schema)["b"], format!("not among the selected tables; {}", init("b")));
    assert_eq!(skipped(&schema)["c"], format!("excluded; {}", init("c")));
    let schema = with(&[("local_tables", "B, c")], &[], &[]).unwrap();
    assert_eq!(names(&schema.tables), ["a"]);
    assert!(skipped(&schema)["b"].starts_with("local by policy local_tables; "));

    let error = with(&[], &["aa"], &[]).unwrap_err();
    assert!(matches!(&error, Error::NoTable { name, near } if name == "aa" && near == &["a"]));
    assert!(matches!(with(&[], &[], &["v"]), Err(Error::NoTable { .. })));
    let error = with(&[("local_tables", "a,sqlite_master")], &[], &[]).unwrap_err().to_string();
    assert!(error.starts_with("policy local_tables=a,sqlite_master: there is no table"), "{error}");
    let sql = "CREATE TABLE a(x); CREATE TABLE \"a,b\"(x)";
    let said = refused(sql, &[("local_tables", "a,b")]);
    assert!(
        said.ends_with("a list cannot name table a,b, which has a comma in its name"),
        "{said}"
    );
}

#[test]
fn identity_can_be_set_by_policy() {
    let sql = "CREATE TABLE t(id INTEGER PRIMARY KEY); CREATE TABLE k(id TEXT PRIMARY KEY);
               CREATE TABLE n(a); CREATE VIEW v AS SELECT 1";
    let schema = schema_with(
        sql,
        &[("T.identity", "key"), ("k.identity", "birth"), ("n.identity", "birth")],
    );
    assert_eq!(schema.table("t").unwrap().identity, Identity::Key);
    assert_eq!(schema.table("k").unwrap().identity, Identity::Birth);
    assert!(refused(sql, &[("n.identity", "key")]).contains("n has no primary key"));
    assert!(refused(sql, &[("t.identity", "keys")]).contains("either key or birth"));
    assert!(refused(sql, &[("tt.identity", "key")]).contains("did you mean"));
    assert!(refused(sql, &[("v.identity", "key")]).contains("there is no table v"));
}

#[test]
fn a_description_tells_what_matters_and_nothing_else() {
    let describe = |sql: &str| {
        let text = super::super::describe::describe(schema(sql).table("t").unwrap());
        assert!(!text.contains('\n'), "{text}");
        text
    };
    let parents = "CREATE TABLE p(id INTEGER PRIMARY KEY, u UNIQUE);";
    let one = describe(&format!(
        "{parents} CREATE TABLE t(a integer NOT NULL DEFAULT (1+ 1), b TEXT REFERENCES p, c AS (a), d,
           PRIMARY KEY(a, b), CHECK(a > d));
         CREATE UNIQUE INDEX u ON t(lower(B) COLLATE nocase, d) WHERE [d]>1 -- more than one"
    ));
    let same = describe(&format!(
        "CREATE TABLE x(y); {parents} CREATE TABLE t(d, b text, c AS ( A ), a INTEGER DEFAULT (1\n+1) NOT NULL,
           FOREIGN KEY(b) REFERENCES P(id), CHECK([A]>d), PRIMARY KEY(A, B));
         CREATE UNIQUE INDEX u ON t(LOWER(b) COLLATE nocase DESC, d) WHERE d\n> 1"
    ));
    assert_eq!(one, same);
    assert_eq!(
        describe(
            "CREATE TABLE p(id INTEGER PRIMARY KEY); CREATE TABLE t(\"x\ny\" PRIMARY KEY REFERENCES p ON DELETE CASCADE) WITHOUT ROWID"
        ),
        "\"t\" without rowid, identity key, columns (\"x\\ny\" \"\" Blob not null), key (\"x\\ny\" binary), units (), \
         references (\"x\\ny>p\" to \"id\" on delete cascade on update no action), \
         unique (primary on \"\"\"x\\ny\"\"\" binary)"
    );
    let base = "CREATE TABLE t(a INT PRIMARY KEY, b TEXT REFERENCES p, c UNIQUE)";
    let variants = [
        "CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT REFERENCES p, c UNIQUE)",
        "CREATE TABLE t(a INTEGER PRIMARY KEY AUTOINCREMENT, b TEXT REFERENCES p, c UNIQUE)",
        "CREATE TABLE t(a INT PRIMARY KEY, b TEXT REFERENCES p, c UNIQUE) WITHOUT ROWID",
        "CREATE TABLE t(a INT PRIMARY KEY, b REFERENCES p, c UNIQUE)",
        "CREATE TABLE t(a INT PRIMARY KEY, b TEXT NOT NULL REFERENCES p, c UNIQUE)",
        "CREATE TABLE t(a INT PRIMARY KEY, b TEXT DEFAULT 'x' REFERENCES p, c UNIQUE)",
        "CREATE TABLE t(a INT PRIMARY KEY, b TEXT DEFAULT 'X' REFERENCES p, c UNIQUE)",
        "CREATE TABLE t(a INT PRIMARY KEY, b TEXT REFERENCES p(u), c UNIQUE)",
        "CREATE TABLE t(a INT PRIMARY KEY, b TEXT REFERENCES p ON UPDATE CASCADE, c UNIQUE)",
        "CREATE TABLE t(a INT PRIMARY KEY, b TEXT, c UNIQUE)",
        "CREATE TABLE t(a INT PRIMARY KEY, b TEXT REFERENCES p, c)",
        "CREATE TABLE t(a INT PRIMARY KEY, b TEXT REFERENCES p, c COLLATE nocase UNIQUE)",
        "CREATE TABLE t(a INT PRIMARY KEY, b TEXT REFERENCES p, c UNIQUE, d)",
        "CREATE TABLE t(a INT PRIMARY KEY, b TEXT REFERENCES p, c UNIQUE, CHECK(b>c))",
    ];
    let mut texts: Vec<String> =
        variants.iter().chain([&base]).map(|sql| describe(&format!("{parents} {sql}"))).collect();
    texts.sort();
    texts.dedup();
    assert_eq!(texts.len(), variants.len() + 1);
}
