//! GeoPackages: each site's triggers keep the spatial index and the number of features, for merged rows too.

use crate::site::{Site, World, settle};
use rusqlite::functions::FunctionFlags;

/// As GDAL 3.12 makes a layer of points or polygons.
const LAYER: &str = "
CREATE TABLE gpkg_ogr_contents(table_name TEXT NOT NULL PRIMARY KEY, feature_count INTEGER DEFAULT NULL);
CREATE TABLE tree(fid INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL, geom BLOB, name TEXT UNIQUE);
CREATE VIRTUAL TABLE rtree_tree_geom USING rtree(id, minx, maxx, miny, maxy);
INSERT INTO gpkg_ogr_contents VALUES('tree', 0);
CREATE TRIGGER trigger_insert_feature_count_tree AFTER INSERT ON tree BEGIN UPDATE gpkg_ogr_contents
  SET feature_count = feature_count + 1 WHERE lower(table_name) = lower('tree'); END;
CREATE TRIGGER trigger_delete_feature_count_tree AFTER DELETE ON tree BEGIN UPDATE gpkg_ogr_contents
  SET feature_count = feature_count - 1 WHERE lower(table_name) = lower('tree'); END;
CREATE TRIGGER rtree_tree_geom_insert AFTER INSERT ON tree
  WHEN (new.geom NOT NULL AND NOT ST_IsEmpty(NEW.geom)) BEGIN INSERT OR REPLACE INTO rtree_tree_geom
  VALUES (NEW.fid, ST_MinX(NEW.geom), ST_MaxX(NEW.geom), ST_MinY(NEW.geom), ST_MaxY(NEW.geom)); END;
CREATE TRIGGER rtree_tree_geom_update6 AFTER UPDATE OF geom ON tree WHEN OLD.fid = NEW.fid
  AND (NEW.geom NOTNULL AND NOT ST_IsEmpty(NEW.geom)) AND (OLD.geom NOTNULL AND NOT ST_IsEmpty(OLD.geom))
  BEGIN UPDATE rtree_tree_geom SET minx = ST_MinX(NEW.geom), maxx = ST_MaxX(NEW.geom),
  miny = ST_MinY(NEW.geom), maxy = ST_MaxY(NEW.geom) WHERE id = NEW.fid; END;
CREATE TRIGGER rtree_tree_geom_update2 AFTER UPDATE OF geom ON tree WHEN OLD.fid = NEW.fid
  AND (NEW.geom ISNULL OR ST_IsEmpty(NEW.geom)) BEGIN DELETE FROM rtree_tree_geom WHERE id = OLD.fid; END;
CREATE TRIGGER rtree_tree_geom_update5 AFTER UPDATE ON tree WHEN OLD.fid != NEW.fid
  AND (NEW.geom NOTNULL AND NOT ST_IsEmpty(NEW.geom)) BEGIN DELETE FROM rtree_tree_geom WHERE id = OLD.fid;
  INSERT OR REPLACE INTO rtree_tree_geom VALUES (NEW.fid, ST_MinX(NEW.geom), ST_MaxX(NEW.geom),
  ST_MinY(NEW.geom), ST_MaxY(NEW.geom)); END;
CREATE TRIGGER rtree_tree_geom_delete AFTER DELETE ON tree WHEN old.geom NOT NULL
  BEGIN DELETE FROM rtree_tree_geom WHERE id = OLD.fid; END;";

/// A geometry of which nothing but the envelope is looked at.
fn square(x: i64, y: i64) -> String {
    let mut blob = "47500003e6100000".to_owned();
    for at in [x, x + 1, y, y + 1] {
        (at as f64).to_le_bytes().iter().for_each(|byte| blob.push_str(&format!("{byte:02x}")));
    }
    format!("x'{blob}'")
}

/// The functions that GDAL brings along.
fn with_functions(site: Site) -> Site {
    for (at, name) in ["ST_MinX", "ST_MaxX", "ST_MinY", "ST_MaxY"].into_iter().enumerate() {
        let bound = move |blob: Vec<u8>| {
            let bytes = blob.get(8 + 8 * at..16 + 8 * at).and_then(|bytes| bytes.try_into().ok());
            bytes.map(f64::from_le_bytes)
        };
        let flags = FunctionFlags::SQLITE_UTF8;
        site.app
            .create_scalar_function(name, 1, flags, move |context| Ok(bound(context.get(0)?)))
            .unwrap();
    }
    let flags = FunctionFlags::SQLITE_UTF8;
    site.app.create_scalar_function("ST_IsEmpty", 1, flags, |_| Ok(false)).unwrap();
    site
}

#[track_caller]
fn indexed(site: &Site) {
    assert_eq!(site.rows("SELECT rtreecheck('rtree_tree_geom')"), ["ok"]);
    let of_rows = "SELECT fid, ST_MinX(geom), ST_MaxX(geom), ST_MinY(geom), ST_MaxY(geom) FROM tree \
                   WHERE geom NOT NULL ORDER BY 1";
    assert_eq!(site.rows("SELECT * FROM rtree_tree_geom ORDER BY 1"), site.rows(of_rows));
    let count = site.rows("SELECT count(*) FROM tree");
    assert_eq!(site.rows("SELECT feature_count FROM gpkg_ogr_contents"), count);
}

#[test]
fn merged_features_are_found_and_counted() {
    let world = World::new();
    let mut a = with_functions(world.init("a", LAYER));
    let mut b = with_functions(world.clone_site(&mut a, "b"));
    for (site, x) in [(&a, 0), (&b, 100)] {
        for i in 0..4 {
            site.run(&format!(
                "INSERT INTO tree(geom, name) VALUES({}, '{x} {i}')",
                square(x + i, i)
            ));
        }
        site.run("INSERT INTO tree(name) VALUES('shared')");
    }
    settle(&mut a, &mut b);
    indexed(&a);
    indexed(&b);
    let all = a.rows("SELECT fid, name FROM tree ORDER BY fid");
    assert_eq!(all, b.rows("SELECT fid, name FROM tree ORDER BY fid"));
    assert_eq!(all.len(), 9, "one of two of a name stepped aside: {all:?}");
    a.run(&format!("UPDATE tree SET geom = {} WHERE name = '100 1'", square(7, 7)));
    a.run("DELETE FROM tree WHERE name = '0 0'");
    b.run("DELETE FROM tree WHERE name IN ('0 0', '0 1'); UPDATE tree SET geom = NULL WHERE name = '0 2'");
    settle(&mut a, &mut b);
    indexed(&a);
    indexed(&b);
    assert_eq!(a.rows("SELECT count(*) FROM tree"), ["7"]);
}

#[test]
fn numbers_that_are_replicated_on_request_are_written_by_no_merge() {
    let world = World::new();
    let asked = [("replicate_tables", "gpkg_ogr_contents")];
    let mut a = with_functions(world.init_with("a", LAYER, &asked));
    let mut b = with_functions(world.clone_site(&mut a, "b"));
    a.run(&format!("INSERT INTO tree(geom, name) VALUES({}, 'a')", square(1, 1)));
    settle(&mut a, &mut b);
    indexed(&b);
}
