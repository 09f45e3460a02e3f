//! Tables in which migration tools note what they have done to this file, and GeoPackages what layers it has.
//!
//! Every site runs its migrations itself. If such a table were replicated, a site would learn from
//! another that a migration is done which it has not made, and would never make it; and two that made
//! the same would have it noted twice. So they are local, unless somebody asks for them. So it is of layers.

use super::Table;

/// Tables that only one tool makes: (names, tool).
const NAMED: &[(&[&str], &str)] = &[
    (&["alembic_version"], "Alembic"),
    (&["django_migrations"], "Django"),
    (&["south_migrationhistory"], "South"),
    (&["_sqlite_migrations"], "sqlite-migrate"),
    (&["_yoyo_migration", "_yoyo_log", "_yoyo_version", "yoyo_lock"], "yoyo"),
    (&["migratehistory"], "peewee-migrate"),
    (&["knex_migrations", "knex_migrations_lock"], "Knex"),
    (&["__drizzle_migrations"], "Drizzle"),
    (&["_prisma_migrations"], "Prisma"),
    (&["SequelizeMeta", "SequelizeData"], "Sequelize"),
    (&["typeorm_metadata"], "TypeORM"),
    (&["mikro_orm_migrations"], "MikroORM"),
    (&["kysely_migration", "kysely_migration_lock"], "Kysely"),
    (&["adonis_schema", "adonis_schema_versions"], "AdonisJS"),
    (&["payload_migrations"], "Payload"),
    (&["directus_migrations"], "Directus"),
    (&["strapi_migrations", "strapi_migrations_internal", "strapi_database_schema"], "Strapi"),
    (&["d1_migrations"], "Wrangler"),
    (&["schema_migrations"], "Rails, dbmate, golang-migrate or Ecto"),
    (&["ar_internal_metadata"], "Rails"),
    (&["goose_db_version"], "goose"),
    (&["gorp_migrations"], "sql-migrate"),
    (&["bun_migrations", "bun_migration_locks"], "Bun"),
    (&["atlas_schema_revisions"], "Atlas"),
    (&["darwin_migrations"], "darwin"),
    (&["_sqlx_migrations"], "SQLx"),
    (&["__diesel_schema_migrations"], "Diesel"),
    (&["refinery_schema_history"], "Refinery"),
    (&["seaql_migrations"], "SeaORM"),
    (&["flyway_schema_history"], "Flyway"),
    (&["DATABASECHANGELOG", "DATABASECHANGELOGLOCK"], "Liquibase"),
    (&["play_evolutions", "play_evolutions_lock"], "Play"),
    (&["room_master_table"], "Room"),
    (&["android_metadata"], "Android"),
    (&["grdb_migrations"], "GRDB"),
    (&["_fluent_migrations", "_fluent_enums"], "Fluent"),
    (&["__EFMigrationsHistory", "__EFMigrationsLock", "__MigrationHistory"], "Entity Framework"),
    (&["doctrine_migration_versions"], "Doctrine"),
    (&["phinxlog", "cake_migrations", "cake_seeds"], "Phinx"),
    (&["propel_migration"], "Propel"),
    (&["_litestream_seq", "_litestream_lock"], "Litestream"),
];

/// Names that mean other things too, so that the columns must be the tool's: (name, columns, tool).
const SHAPED: &[(&str, &[&str], &str)] = &[
    ("migrations", &["id", "migration", "batch"], "Laravel"),
    ("migrations", &["migration", "batch"], "Orator"),
    ("migrations", &["id", "timestamp", "name"], "TypeORM"),
    ("migrations", &["id", "name", "run_on"], "db-migrate"),
    ("migrations", &["id", "name", "up", "down"], "sqlite of Node.js"),
    ("migrations", &["id", "name", "version", "currentVersion"], "knex-migrator"),
    ("migrations", &["id", "name", "hash", "executed_at"], "ts-migrate"),
    (
        "migrations",
        &["id", "version", "class", "group", "namespace", "time", "batch"],
        "CodeIgniter",
    ),
    ("migrations", &["id"], "gormigrate"),
    ("migrations", &["id", "description"], "xormigrate"),
    ("migrations_lock", &["lock_key", "locked", "acquired_at", "released_at"], "knex-migrator"),
    ("migration", &["version", "apply_time"], "Yii"),
    ("migration", &["id", "name", "app_name", "ran_on"], "Piccolo"),
    ("migration_version", &["version"], "Caribou"),
    ("schema_migration", &["version"], "Pop"),
    ("schema_migration", &["version", "version_self"], "Pop"),
    ("data_migrations", &["version"], "data_migrate"),
    ("schema_info", &["version"], "Sequel"),
    ("schema_version", &["version"], "tern"),
    (
        "schema_version",
        &[
            "installed_rank",
            "version",
            "description",
            "type",
            "script",
            "checksum",
            "installed_by",
            "installed_on",
            "execution_time",
            "success",
        ],
        "Flyway",
    ),
    ("schemaversion", &["version", "name", "md5", "run_at"], "Postgrator"),
    ("changelog", &["ID", "APPLIED_AT", "DESCRIPTION"], "MyBatis"),
    (
        "changelog",
        &[
            "id",
            "type",
            "version",
            "description",
            "name",
            "checksum",
            "installed_by",
            "installed_on",
            "success",
        ],
        "Evolve",
    ),
    ("VersionInfo", &["Version", "AppliedOn", "Description"], "FluentMigrator"),
    ("SchemaVersions", &["SchemaVersionID", "ScriptName", "Applied"], "DbUp"),
    ("aerich", &["id", "version", "app", "content"], "Aerich"),
    ("version", &["version", "table_fields_version"], "Joplin"),
    ("version", &["schema", "version"], "Zotero"),
    ("version", &["id", "version"], "Gitea"),
    ("version", &["idVersion", "iCompressCount"], "Kodi"),
    ("versions", &["table_name", "table_version"], "GnuCash"),
    ("VersionTable", &["id", "schema_version", "app_version", "user_data"], "Shotwell"),
    ("schema_changes", &["change_id", "schema_version", "changed"], "Home Assistant"),
    ("migration_changes", &["migration_id", "version"], "Home Assistant"),
    ("migration_log", &["id", "migration_id", "sql", "success", "error", "timestamp"], "Grafana"),
    ("_migrations", &["file", "applied"], "PocketBase"),
    ("migration", &["id", "description"], "Vikunja"),
    ("migrations", &["name", "table_name"], "beets"),
    ("migrationsMeta", &["key", "value"], "Umzug"),
    ("Z_METADATA", &["Z_VERSION", "Z_UUID", "Z_PLIST"], "Core Data"),
    ("Z_MODELCACHE", &["Z_CONTENT"], "Core Data"),
];

/// Tables in which a GeoPackage says what layers it has (OGC 12-128). A program that makes a layer writes them,
/// and would fail where another site's rows stand there already, without the layer.
const LAYERS: &[&str] = &[
    "gpkg_contents",
    "gpkg_data_columns",
    "gpkg_extensions",
    "gpkg_geometry_columns",
    "gpkg_spatial_ref_sys",
    "gpkg_tile_matrix",
    "gpkg_tile_matrix_set",
];

/// Whether the table says what layers a GeoPackage has.
pub(super) fn is_of_layers(table: &Table) -> bool {
    LAYERS.iter().any(|name| table.name.eq_ignore_ascii_case(name))
}

/// The tool that notes its migrations in this table, if it is known to.
pub(super) fn keeper(table: &Table) -> Option<&'static str> {
    let is = |name: &str| table.name.eq_ignore_ascii_case(name);
    let named = NAMED.iter().find(|(names, _)| names.iter().any(|name| is(name)));
    let has = |name: &&str| table.columns.iter().any(|c| c.name.eq_ignore_ascii_case(name));
    let shaped = SHAPED.iter().find(|(name, columns, _)| {
        is(name) && columns.len() == table.columns.len() && columns.iter().all(has)
    });
    let of_plugin = || {
        let ends = table.name.to_ascii_lowercase().ends_with("_phinxlog");
        let columns = ["version", "migration_name", "start_time", "end_time"];
        (ends && columns.iter().all(has)).then_some("Phinx")
    };
    named.map(|(_, tool)| *tool).or(shaped.map(|(.., tool)| *tool)).or_else(of_plugin)
}
