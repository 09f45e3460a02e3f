//! The extent of a geometry, as the spatial index of a GeoPackage asks for it.
//!
//! The triggers that keep such an index call `ST_IsEmpty`, `ST_MinX`, `ST_MaxX`, `ST_MinY` and `ST_MaxY`, which
//! every program that writes to a GeoPackage brings along. A merge fires those triggers (R-TRG), so it needs the
//! functions too. (OGC 12-128: GeoPackage, 2.1.3 "Geometry Encoding" and annex F.3 "RTree Spatial Indexes".)
//!
//! Of what is no geometry, or is cut short, they are NULL, as elsewhere: then it is not in the index.

use rusqlite::Connection;
use rusqlite::functions::{Context, FunctionFlags};

/// Geometries in geometries in geometries: more than this is nobody's.
const DEEPEST: usize = 32;

/// Bytes before the envelope: the letters GP, version, flags, and the system of coordinates.
const HEADER: usize = 8;

/// The smallest and the largest coordinates: of x, then of y.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Extent([(f64, f64); 2]);

impl Extent {
    /// Of no point.
    const EMPTY: Extent = Extent([(f64::INFINITY, f64::NEG_INFINITY); 2]);

    fn is_empty(&self) -> bool {
        self.0[0].0 > self.0[0].1
    }

    /// Takes a point in, or a square around it. An empty point has coordinates that are no numbers.
    fn add(&mut self, point: [f64; 2], around: f64) {
        if point.iter().all(|at| !at.is_nan()) {
            for ((least, most), at) in self.0.iter_mut().zip(point) {
                (*least, *most) = (least.min(at - around), most.max(at + around));
            }
        }
    }
}

/// Makes the functions known to a connection.
pub(crate) fn register(conn: &Connection) -> rusqlite::Result<()> {
    let flags = FunctionFlags::SQLITE_UTF8
        | FunctionFlags::SQLITE_DETERMINISTIC
        | FunctionFlags::SQLITE_INNOCUOUS;
    let of = |context: &Context<'_>| {
        let blob = context.get_raw(0).as_blob().ok();
        blob.and_then(extent)
    };
    conn.create_scalar_function("ST_IsEmpty", 1, flags, move |context| {
        Ok(of(context).map(|extent| extent.is_empty()))
    })?;
    let bound = |name: &str, which: fn(Extent) -> f64| {
        conn.create_scalar_function(name, 1, flags, move |context| {
            Ok(of(context).filter(|extent| !extent.is_empty()).map(which))
        })
    };
    bound("ST_MinX", |extent| extent.0[0].0)?;
    bound("ST_MaxX", |extent| extent.0[0].1)?;
    bound("ST_MinY", |extent| extent.0[1].0)?;
    bound("ST_MaxY", |extent| extent.0[1].1)
}

/// What a geometry spans: its envelope, if it has one. `None` of what is no geometry.
fn extent(blob: &[u8]) -> Option<Extent> {
    let (header, rest) = blob.split_at_checked(HEADER)?;
    let &[b'G', b'P', 0, flags, ..] = header else { return None };
    let mut bytes = Bytes { rest, little: flags & 1 == 1 };
    let more = match flags >> 1 & 7 {
        0 => None,
        1 => Some(0),
        2 | 3 => Some(2),
        4 => Some(4),
        _ => return None,
    };
    let mut extent = Extent::EMPTY;
    if let Some(more) = more {
        let [least_x, most_x, least_y, most_y] = [(); 4].map(|()| bytes.double());
        extent.add([least_x?, least_y?], 0.0);
        extent.add([most_x?, most_y?], 0.0);
        (0..more).try_for_each(|_| bytes.double().map(drop))?;
    }
    let (empty, extended) = (flags >> 4 & 1 == 1, flags >> 5 & 1 == 1);
    if empty || !extent.is_empty() {
        return Some(if empty { Extent::EMPTY } else { extent });
    }
    // The bytes of an extension are known to who made it.
    if extended {
        return None;
    }
    bytes.geometry(&mut extent, 0)?;
    Some(extent)
}

/// Well-known binary, ISO's and the older one that marks Z and M in the highest bits.
struct Bytes<'b> {
    rest: &'b [u8],
    little: bool,
}

impl Bytes<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        Some(*taken)
    }

    fn number(&mut self) -> Option<u32> {
        let bytes = self.take()?;
        Some(if self.little { u32::from_le_bytes(bytes) } else { u32::from_be_bytes(bytes) })
    }

    fn double(&mut self) -> Option<f64> {
        let bytes = self.take()?;
        Some(if self.little { f64::from_le_bytes(bytes) } else { f64::from_be_bytes(bytes) })
    }

    fn geometry(&mut self, extent: &mut Extent, depth: usize) -> Option<()> {
        self.little = match self.take()? {
            [0] => false,
            [1] => true,
            _ => return None,
        };
        let code = self.number()?;
        let (z, m, system) = (code >> 31 & 1, code >> 30 & 1, code >> 29 & 1);
        let (kind, dimensions) = (code & 0x1fff_ffff, [0, 1, 1, 2]);
        let more = *dimensions.get(kind as usize / 1000)? + z + m;
        if system == 1 {
            self.number()?;
        }
        match kind % 1000 {
            1 => self.points(extent, (1, more), false),
            kind @ (2 | 8) => {
                let count = self.number()?;
                self.points(extent, (count, more), kind == 8)
            }
            // Polygons and triangles: rings.
            3 | 17 => {
                for _ in 0..self.number()? {
                    let count = self.number()?;
                    self.points(extent, (count, more), false)?;
                }
                Some(())
            }
            4..=7 | 9..=12 | 15 | 16 if depth < DEEPEST => {
                for _ in 0..self.number()? {
                    self.geometry(extent, depth + 1)?;
                }
                Some(())
            }
            _ => None,
        }
    }

    /// So many points with so `more` coordinates each than x and y; as `arcs` each second one begins another.
    fn points(&mut self, extent: &mut Extent, (count, more): (u32, u32), arcs: bool) -> Option<()> {
        let mut last = Vec::new();
        for _ in 0..count {
            let point = [self.double()?, self.double()?];
            (0..more).try_for_each(|_| self.double().map(drop))?;
            extent.add(point, 0.0);
            if arcs {
                last.push(point);
            }
            if let &[from, over, to] = &last[..] {
                let circle = circle(from, over, to);
                circle.into_iter().for_each(|(center, radius)| extent.add(center, radius));
                last = vec![to];
            }
        }
        Some(())
    }
}

/// The circle through three points, of which an arc is a part; where the first is the last, the second is opposite.
fn circle(from: [f64; 2], over: [f64; 2], to: [f64; 2]) -> Option<([f64; 2], f64)> {
    let [x, y] = if from == to {
        [(over[0] - from[0]) / 2.0, (over[1] - from[1]) / 2.0]
    } else {
        let (a, b) = ([over[0] - from[0], over[1] - from[1]], [to[0] - from[0], to[1] - from[1]]);
        let cross = 2.0 * (a[0] * b[1] - a[1] * b[0]);
        let (a2, b2) = (a[0] * a[0] + a[1] * a[1], b[0] * b[0] + b[1] * b[1]);
        [(b[1] * a2 - a[1] * b2) / cross, (a[0] * b2 - b[0] * a2) / cross]
    };
    let (center, radius) = ([from[0] + x, from[1] + y], x.hypot(y));
    // Of points in a line there is none.
    radius.is_finite().then_some((center, radius))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(flags: u8, envelope: &[f64], wkb: &[u8]) -> Vec<u8> {
        let mut blob = vec![b'G', b'P', 0, flags, 0xe6, 0x10, 0, 0];
        envelope.iter().for_each(|at| blob.extend(at.to_le_bytes()));
        blob.extend(wkb);
        blob
    }

    /// A geometry whose numbers are the lengths before its coordinates.
    fn wkb(kind: u32, lengths: &[u32], points: &[f64]) -> Vec<u8> {
        let mut bytes = vec![1];
        bytes.extend(kind.to_le_bytes());
        lengths.iter().for_each(|n| bytes.extend(n.to_le_bytes()));
        points.iter().for_each(|at| bytes.extend(at.to_le_bytes()));
        bytes
    }

    fn of(blob: &[u8]) -> Option<[f64; 4]> {
        extent(blob).filter(|e| !e.is_empty()).map(|Extent([x, y])| [x.0, x.1, y.0, y.1])
    }

    #[test]
    fn an_envelope_is_the_extent() {
        let xy = package(0b011, &[1.0, 2.0, 3.0, 4.0], b"whatever");
        assert_eq!(of(&xy), Some([1.0, 2.0, 3.0, 4.0]));
        let xyz = package(0b101, &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], b"");
        assert_eq!(of(&xyz), Some([1.0, 2.0, 3.0, 4.0]));
        assert_eq!(of(&xyz[..50]), None, "cut short");
    }

    #[test]
    fn without_one_it_is_that_of_the_points() {
        let point = wkb(1, &[], &[3.0, 4.0]);
        assert_eq!(of(&package(1, &[], &point)), Some([3.0, 3.0, 4.0, 4.0]));
        let big = [&[0, 0, 0, 0, 1][..], &3f64.to_be_bytes(), &4f64.to_be_bytes()].concat();
        assert_eq!(of(&package(0, &[], &big)), Some([3.0, 3.0, 4.0, 4.0]));
        let line = wkb(1002, &[2], &[1.0, 9.0, 7.0, 3.0, 2.0, 7.0]);
        assert_eq!(of(&package(1, &[], &line)), Some([1.0, 3.0, 2.0, 9.0]));
        let old = wkb(0xa000_0002, &[4326, 2], &[1.0, 9.0, 7.0, 3.0, 2.0, 7.0]);
        assert_eq!(of(&package(1, &[], &old)), Some([1.0, 3.0, 2.0, 9.0]));
        let ring = wkb(3, &[1, 3], &[0.0, 0.0, 5.0, 1.0, 2.0, -4.0]);
        let several = [&wkb(6, &[2], &[])[..], &ring, &wkb(3, &[0], &[])].concat();
        assert_eq!(of(&package(1, &[], &several)), Some([0.0, 5.0, -4.0, 1.0]));
    }

    #[test]
    fn an_arc_is_within_its_circle() {
        let half = wkb(8, &[3], &[-1.0, 0.0, 0.0, 1.0, 1.0, 0.0]);
        assert_eq!(of(&package(1, &[], &half)), Some([-1.0, 1.0, -1.0, 1.0]));
        let whole = wkb(8, &[3], &[0.0, 0.0, 4.0, 0.0, 0.0, 0.0]);
        assert_eq!(of(&package(1, &[], &whole)), Some([0.0, 4.0, -2.0, 2.0]));
        let straight = wkb(8, &[3], &[0.0, 0.0, 1.0, 1.0, 2.0, 2.0]);
        assert_eq!(of(&package(1, &[], &straight)), Some([0.0, 2.0, 0.0, 2.0]));
    }

    #[test]
    fn what_is_empty_is_said_to_be() {
        let nothing = package(1, &[], &wkb(1, &[], &[f64::NAN, f64::NAN]));
        assert!(extent(&nothing).unwrap().is_empty());
        assert!(extent(&package(0b1_0001, &[], b"")).unwrap().is_empty());
        assert!(extent(&package(1, &[], &wkb(7, &[0], &[]))).unwrap().is_empty());
    }

    #[test]
    fn what_is_no_geometry_has_no_extent() {
        let deep = wkb(7, &[1], &[]).repeat(100_000);
        let endless = wkb(2, &[u32::MAX], &[1.0]);
        for wkb in [&deep[..], &endless, &wkb(99, &[], &[]), &wkb(4001, &[], &[1.0, 1.0]), b""] {
            assert_eq!(extent(&package(1, &[], wkb)), None);
        }
        assert_eq!(extent(b"GP"), None);
        assert_eq!(extent(&[0; 60]), None);
        assert_eq!(extent(&package(0b10_0001, &[], b"")), None);
    }

    #[test]
    fn functions_answer_by_it() {
        let conn = Connection::open_in_memory().unwrap();
        register(&conn).unwrap();
        let point = package(1, &[], &wkb(1, &[], &[3.0, 4.0]));
        let sql = "SELECT ST_MinX(?1), st_maxx(?1), ST_MinY(?1), ST_MaxY(?1), ST_IsEmpty(?1)";
        let found: (f64, f64, f64, f64, bool) =
            conn.query_row(sql, [&point], |row| row.try_into()).unwrap();
        assert_eq!(found, (3.0, 3.0, 4.0, 4.0, false));
        let none = "SELECT coalesce(ST_MinX('a'), ST_MinX(1), ST_IsEmpty(NULL), ST_IsEmpty(x'00'))";
        assert_eq!(conn.query_row(none, [], |row| row.get(0)), Ok(None::<f64>));
    }
}
