//! Tables that are replicated only if somebody names them.

use super::*;

/// Why table `t` of `sql` is left out, if it is.
fn why(sql: &str) -> Option<String> {
    skipped(&schema(sql)).get("t").map(|why| why.to_string())
}

#[test]
fn what_depends_on_the_version_of_sqlite_is_left_out() {
    for (columns, rest) in [
        ("c REAL", "CREATE INDEX i ON t(lower(c))"),
        ("c REAL", "CREATE UNIQUE INDEX i ON t('x' || c)"),
        ("c", "CREATE INDEX i ON t(k) WHERE c LIKE '1%'"),
        ("c NUMERIC, g AS (CAST(c AS TEXT))", "CREATE INDEX i ON t(g)"),
        ("c DOUBLE, g TEXT AS (c)", "CREATE INDEX i ON t(g)"),
        ("c DOUBLE, g TEXT AS (c), h AS (g || '!')", "CREATE INDEX i ON t(upper(h))"),
        ("c FLOAT, g AS (c + 1)", "CREATE INDEX i ON t(length(g))"),
        ("c DECIMAL(10,2), g TEXT AS (printf('%.2f', c)) STORED", ""),
        ("c INTEGER", "CREATE INDEX i ON t(hex(c))"),
    ] {
        let sql = format!("CREATE TABLE t(k TEXT PRIMARY KEY, {columns}); {rest}");
        let why = why(&sql).unwrap_or_else(|| panic!("{sql}"));
        assert!(why.contains("text of floating-point numbers"), "{why}");
        assert!(why.contains(if rest.is_empty() { "column g" } else { "index i" }), "{why}");
        let asked = schema_with(&sql, &[("replicate_tables", "T")]);
        assert_eq!((asked.tables.len(), asked.skipped.len()), (1, 0));
        let named = read(&open(&sql), &policies(&[]), &selection(&["t"], &[])).unwrap();
        assert_eq!(named.tables.len(), 1);
    }
    for (columns, rest) in [
        ("c REAL", "CREATE INDEX i ON t(c)"),
        ("c REAL", "CREATE INDEX i ON t(k) WHERE c > 1.5"),
        ("c TEXT", "CREATE INDEX i ON t(lower(c))"),
        ("c VARCHAR(10)", "CREATE UNIQUE INDEX i ON t(substr(c, 1, 2) || k)"),
        ("c REAL, g TEXT AS (c)", ""),
        ("c TEXT, g AS (lower(c))", "CREATE INDEX i ON t(g || '!')"),
        ("c REAL, g INT AS (c > 1) STORED", "CREATE INDEX i ON t(g)"),
    ] {
        assert_eq!(why(&format!("CREATE TABLE t(k TEXT PRIMARY KEY, {columns}); {rest}")), None);
    }
    let strict = |index: &str| format!("CREATE TABLE t(i INT, b BLOB, a ANY) STRICT; {index}");
    assert_eq!(why(&strict("CREATE INDEX i ON t(hex(i), hex(b))")), None);
    assert!(why(&strict("CREATE INDEX i ON t(hex(a))")).is_some());
    assert_eq!(why("CREATE TABLE t(id INTEGER PRIMARY KEY); CREATE INDEX i ON t(hex(id))"), None);
}

#[test]
fn what_a_geopackage_says_of_its_layers_is_left_out() {
    let sql = "CREATE TABLE gpkg_contents(table_name TEXT NOT NULL PRIMARY KEY, min_x);
        CREATE TABLE gpkg_ogr_contents(table_name TEXT NOT NULL PRIMARY KEY, feature_count);
        CREATE TABLE gpkg_metadata(id INTEGER PRIMARY KEY); CREATE TABLE tree(fid INTEGER PRIMARY KEY, geom)";
    let found = schema(sql);
    assert_eq!(names(&found.tables), ["gpkg_metadata", "tree"]);
    let skipped = skipped(&found);
    assert!(skipped["gpkg_contents"].starts_with("layers of a GeoPackage"));
    assert!(skipped["gpkg_ogr_contents"].starts_with("numbers of rows"));
    let asked = schema_with(sql, &[("replicate_tables", "gpkg_contents,gpkg_ogr_contents")]);
    assert_eq!(asked.tables.len(), 4);
}

#[test]
fn bookkeeping_of_migration_tools_is_left_out() {
    let conn = "CREATE TABLE alembic_version(version_num VARCHAR(32) NOT NULL PRIMARY KEY);
        CREATE TABLE Knex_Migrations(id integer PRIMARY KEY, name, batch, migration_time);
        CREATE TABLE __drizzle_migrations(id SERIAL PRIMARY KEY, hash text NOT NULL, created_at numeric);
        CREATE TABLE migrations(id integer PRIMARY KEY, migration varchar, batch integer);
        CREATE TABLE app_phinxlog(version, migration_name, start_time, end_time, breakpoint);
        CREATE TABLE changelog(id INTEGER PRIMARY KEY, text);
        CREATE TABLE t(id INTEGER PRIMARY KEY)";
    let found = schema(conn);
    assert_eq!(names(&found.tables), ["changelog", "t"]);
    let skipped = skipped(&found);
    for (table, tool) in [
        ("alembic_version", "Alembic"),
        ("Knex_Migrations", "Knex"),
        ("__drizzle_migrations", "Drizzle"),
        ("migrations", "Laravel"),
        ("app_phinxlog", "Phinx"),
    ] {
        assert!(skipped[table].contains(&format!("bookkeeping of {tool}:")), "{}", skipped[table]);
        assert!(skipped[table].contains(&format!("replicate_tables={table}")));
    }
    let birds = schema("CREATE TABLE migrations(id INTEGER PRIMARY KEY, bird, arrival)");
    assert_eq!(names(&birds.tables), ["migrations"]);
    let asked = schema_with(conn, &[("replicate_tables", "alembic_version, KNEX_MIGRATIONS")]);
    assert_eq!(asked.tables.len(), 4);
    assert!(refused("CREATE TABLE t(a)", &[("replicate_tables", "u")]).contains("no table u"));
}
