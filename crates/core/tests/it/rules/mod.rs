//! One rule after the other, as `docs/semantics.md` defines them: each has a test that begins with its
//! name, and `crates/house` checks that none is missing. The stories are as short as they can be;
//! how rules meet each other is for the other tests.

mod keys;
mod local;
mod references;
mod rows;
mod schemas;
mod twins;

use crate::site::{Site, World, settle};

/// Two sites of one database.
struct Pair {
    world: World,
    a: Site,
    b: Site,
}

impl Pair {
    fn new(schema: &str) -> Pair {
        Pair::with(schema, &[])
    }

    fn with(schema: &str, policies: &[(&str, &str)]) -> Pair {
        let world = World::new();
        let mut a = world.init_with("a", schema, policies);
        let b = world.clone_site(&mut a, "b");
        Pair { world, a, b }
    }

    /// What one site writes and then the other, later, without having seen it.
    fn apart(&self, a: &str, b: &str) {
        self.a.run(a);
        self.b.run(b);
    }

    /// Both synchronize until nothing is new, show these rows and have these records, and nothing is
    /// wrong with either.
    #[track_caller]
    fn show(&mut self, query: &str, rows: &[&str], records: &[&str]) {
        settle(&mut self.a, &mut self.b);
        for site in [&self.a, &self.b] {
            assert_eq!(site.rows(query), rows);
            assert_eq!(kinds(site), records);
            assert_eq!(site.replica.verify().unwrap(), [""; 0]);
        }
    }
}

/// Kinds of the open records, in order.
fn kinds(site: &Site) -> Vec<String> {
    let mut kinds: Vec<_> =
        site.replica.conflicts().unwrap().iter().map(|c| c.kind.to_string()).collect();
    kinds.sort();
    kinds
}
