//! Odd stamps, identities, values and names: what a format can say and no site does.

use crate::random::Random;
use synqlite_wire::key::{self, KeyPart};
use synqlite_wire::{Cell, Delta, GroupShape, Hlc, Id, Rid, SiteId, Stamp, Value};

/// What a forger knows and picks from.
pub struct Odd<'a> {
    /// Chance.
    pub r: &'a mut Random,
    /// The site that forges, which is a member.
    pub own: SiteId,
    /// The others for which it speaks too.
    pub honest: Vec<SiteId>,
    /// The latest clock of the forger's own.
    pub latest: Hlc,
    /// The time.
    pub now_ms: i64,
    /// How many births its site had given.
    pub births: u64,
}

impl Odd<'_> {
    /// Its own site most often, another member, or nobody.
    pub fn site(&mut self) -> SiteId {
        match self.r.below(8) {
            0..5 => self.own,
            5 | 6 if self.honest.is_empty() => self.own,
            5 | 6 => self.honest[self.r.index(self.honest.len())],
            _ => [Id::ZERO, Id([255; 16]), Id(self.r.bytes())][self.r.index(3)],
        }
    }

    /// Of any time.
    pub fn clock(&mut self) -> Hlc {
        let latest = self.latest.0;
        let odd = [
            0,
            1,
            latest,
            latest,
            latest + 1,
            Hlc::at_ms(self.now_ms + 240_000).0,
            Hlc::at_ms(self.now_ms + 3_600_000).0,
            Hlc::at_ms(95_617_584_000_000).0,
            i64::MAX,
        ];
        match self.r.one_in(3) {
            true => Hlc(odd[self.r.index(odd.len())]),
            false => Hlc(self.r.below(latest.max(1).cast_unsigned()).cast_signed()),
        }
    }

    /// Of its own, and no other time.
    pub fn unique(&mut self) -> Hlc {
        let back = self.r.below(self.latest.0.cast_unsigned().clamp(1, 1 << 22)).cast_signed();
        Hlc(self.latest.0 - back)
    }

    /// Half of them such as the forger may give.
    pub fn stamp(&mut self) -> Stamp {
        if self.r.one_in(2) {
            return Stamp { hlc: self.unique(), site: self.own };
        }
        let hlc = self.clock();
        let site = self.site();
        let zero = self.r.one_in(9);
        if zero { Stamp::ZERO } else { Stamp { hlc, site } }
    }

    /// Of a row of the delta, or one that there is not.
    pub fn rid(&mut self, delta: &Delta) -> Rid {
        if !delta.rows.is_empty() && self.r.one_in(2) {
            return delta.rows[self.r.index(delta.rows.len())].rid.clone();
        }
        match self.r.below(6) {
            0 | 1 => {
                let near = self.births + 3;
                let n = [self.r.below(near), self.r.below(200), u64::MAX, i64::MAX as u64];
                let site = self.site();
                Rid::Birth { site, n: n[self.r.index(4)] }
            }
            2 => {
                let len = self.r.index(40);
                let key = (0..len).map(|_| self.r.below(256) as u8).collect();
                Rid::Key { key, generation: self.generation() }
            }
            3 => self.nested(),
            _ => {
                let value = self.value();
                let key = key::encode(&[KeyPart::Value(value)]);
                Rid::Key { key, generation: self.generation() }
            }
        }
    }

    fn generation(&mut self) -> u32 {
        [0, 0, 1, 2, u32::MAX][self.r.index(5)]
    }

    /// A key of a key of a key.
    fn nested(&mut self) -> Rid {
        let mut rid = Rid::Birth { site: self.own, n: 0 };
        let depth = [1, 2, 20, 400, 3_000][self.r.index(5)];
        for _ in 0..depth {
            rid = Rid::Key { key: key::encode(&[KeyPart::Row(rid)]), generation: 0 };
        }
        rid
    }

    /// Of any type.
    pub fn value(&mut self) -> Value {
        match self.r.below(12) {
            0 => Value::Null,
            1 => Value::Integer([0, 1, -1, i64::MIN, i64::MAX][self.r.index(5)]),
            2 | 3 => Value::Integer(self.r.below(130).cast_signed()),
            4 => Value::Real([0.5, -0.0, f64::INFINITY, 1e308, 9e18, 5e-324][self.r.index(6)]),
            5 => Value::Text(vec![0xff, 0, 0xc3, b'x']),
            6 => Value::Text(vec![b'y'; 1 << self.r.below(14)]),
            7 => Value::Text(Vec::new()),
            8 => Value::Blob(self.r.bytes().to_vec()),
            9 => Value::Text(self.r.below(130).to_string().into_bytes()),
            _ => Value::Text(
                self.r.pick(&["red", "green", "a", "A", "p1", "1e3", " 7"]).as_bytes().into(),
            ),
        }
    }

    /// Of a table, a column, a foreign key.
    pub fn name(&mut self) -> String {
        let plain = [
            "p",
            "c",
            "id",
            "v",
            "t",
            "tree",
            "zz",
            "a",
            "A",
            "rowid",
            "synqlite_row",
            "sqlite_master",
        ];
        let odd = [
            "",
            "\0",
            "a,a",
            "a,a>p(id)",
            ">",
            "p>p(id)>",
            "\"",
            "']",
            "a\nb",
            "\u{1f980}",
            "x.y=z",
        ];
        match self.r.below(8) {
            0..4 => self.r.pick(&plain).to_owned(),
            4..7 => self.r.pick(&odd).to_owned(),
            _ => "n".repeat(1 << self.r.below(13)),
        }
    }

    /// A cell as wide as a group.
    pub fn cell(&mut self, group: &GroupShape, delta: &Delta) -> Cell {
        let values = group.columns.iter().map(|_| self.value()).collect();
        let refs = group.refs.iter().map(|_| (!self.r.one_in(3)).then(|| self.rid(delta)));
        Cell { values, refs: refs.collect() }
    }
}
