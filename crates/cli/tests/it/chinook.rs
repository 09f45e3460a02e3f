//! A database that others made: the Chinook sample, if it lies beside the workspace.

use crate::support::Lab;
use rusqlite::Connection;
use std::path::{Path, PathBuf};

fn sample() -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/chinook.sqlite");
    if path.exists() {
        return Some(path);
    }
    println!("skipped: there is no {}", path.display());
    None
}

/// The schema and every row, in a fixed order.
fn dump(path: &Path) -> Vec<String> {
    let conn = Connection::open(path).unwrap();
    let list = |sql: &str| -> Vec<String> {
        let mut statement = conn.prepare(sql).unwrap();
        let rows = statement.query_map([], |row| row.get::<_, String>(0)).unwrap();
        rows.map(Result::unwrap).collect()
    };
    let mut out = list("SELECT type || name || coalesce(sql, '') FROM sqlite_master");
    for table in list("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name") {
        let columns =
            list(&format!("SELECT 'quote(\"' || name || '\")' FROM pragma_table_info('{table}')"));
        let columns = columns.join("||','||");
        out.extend(list(&format!(
            "SELECT rowid || ':' || {columns} FROM \"{table}\" ORDER BY rowid"
        )));
    }
    out
}

#[test]
fn chinook_is_replicated_edited_and_left_as_it_was() {
    let Some(sample) = sample() else { return };
    let lab = Lab::new();
    std::fs::copy(&sample, lab.db("A")).unwrap();
    let original = dump(&lab.path("A.db"));
    lab.json(&["init", &lab.db("A")]);
    lab.json(&["deinit", &lab.db("A")]);
    assert!(dump(&lab.path("A.db")) == original, "the dump after deinit is the original");

    lab.json(&["init", &lab.db("A")]);
    lab.json(&["clone", &lab.db("A"), &lab.db("B")]);
    lab.json(&["push", &lab.db("A"), &lab.folder()]);
    lab.json(&["clone", &lab.folder(), &lab.db("C")]);
    for site in ["A", "B", "C"] {
        lab.sql(
            site,
            &format!(
                "UPDATE Customer SET City = '{site}' WHERE CustomerId = 5;
                 UPDATE Customer SET Phone = '{site}' WHERE CustomerId = unicode('{site}') - 60;
                 INSERT INTO Artist(ArtistId, Name) VALUES(900, 'of {site}');
                 INSERT INTO Album(AlbumId, Title, ArtistId) VALUES(900, 'by {site}', 900);
                 DELETE FROM PlaylistTrack WHERE PlaylistId = 1 AND TrackId < 100;"
            ),
        );
    }
    lab.json(&["sync", &lab.db("B"), &lab.db("A")]);
    lab.json(&["sync", &lab.db("A"), &lab.folder()]);
    for site in ["C", "B", "A"] {
        lab.json(&["sync", &lab.db(site), &lab.folder()]);
    }
    lab.json(&["sync", &lab.db("B"), &lab.db("A")]);
    lab.assert_equal(&["A", "B", "C"]);
    assert_eq!(lab.rows("A", "SELECT City FROM Customer WHERE CustomerId = 5"), ["C"]);
    let of = "SELECT substr(Title, 4) || substr(Name, 4) FROM Album JOIN Artist USING(ArtistId)
              WHERE Title LIKE 'by _' ORDER BY 1";
    assert_eq!(lab.rows("B", of), ["AA", "BB", "CC"]);
    let deinited = lab.json(&["deinit", &lab.db("B")]);
    assert!(deinited["removed"].as_array().is_some_and(|list| !list.is_empty()));
    let left = "SELECT count(*) FROM sqlite_master WHERE name LIKE 'synqlite%'";
    assert_eq!(lab.rows("B", left), ["0"]);
}
