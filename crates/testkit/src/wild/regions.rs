//! The parts of the world that a history may contain.

use crate::random::Random;

/// A part of the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Region {
    /// Values that are equal and spelled otherwise, collations, references of another type.
    Spelled,
    /// REPLACE in statements and schemas.
    Replace,
    /// `foreign_keys` off, on and changing.
    Keys,
    /// Columns, tables and indexes added, renamed and dropped.
    Alter,
    /// Tables rebuilt as migration tools do.
    Rebuild,
    /// Rebuilds that change what a key is.
    Retype,
    /// Sites that run migrations in different order.
    Order,
    /// Policies set and taken back.
    Policy,
    /// Backups restored.
    Restore,
    /// Clones and copies at any time.
    Clone,
    /// Clocks that jump.
    Clock,
    /// A folder through which sites exchange.
    Place,
    /// Applications on the system's SQLite.
    System,
    /// Encodings, page sizes, journal modes.
    File,
    /// What was written is followed: it must be shown or told in the end.
    Told,
    /// Keys that are references, unique keys that hold some, two foreign keys in a table.
    Links,
    /// Statements that write many rows, and savepoints.
    Many,
    /// Triggers of the application.
    Triggers,
    /// STRICT tables, stored generated columns.
    Strict,
    /// Few tables, few values, few rows that are written: everybody is in everybody's way.
    Few,
    /// One table is rebuilt again and again with no command between, mostly by hand with its triggers; rows
    /// of it come, go, move and are written between.
    Twice,
    /// Rows that each site numbers for itself (R-OWN).
    Numbers,
    /// Tables that are not replicated for a time.
    Local,
    /// Counters that are only added to, in a table that is changed meanwhile.
    Counts,
    /// A search index that triggers keep.
    Search,
    /// One table for which now this site and now that one sets a policy, whatever the others have set.
    Pairs,
    /// Values that are overwritten by incremental blob I/O, of which SQLite tells no trigger.
    Handles,
}

/// All of them, with their names.
pub const ALL: &[(&str, Region)] = &[
    ("spelled", Region::Spelled),
    ("replace", Region::Replace),
    ("keys", Region::Keys),
    ("alter", Region::Alter),
    ("rebuild", Region::Rebuild),
    ("retype", Region::Retype),
    ("order", Region::Order),
    ("policy", Region::Policy),
    ("restore", Region::Restore),
    ("clone", Region::Clone),
    ("clock", Region::Clock),
    ("place", Region::Place),
    ("system", Region::System),
    ("file", Region::File),
    ("told", Region::Told),
    ("links", Region::Links),
    ("many", Region::Many),
    ("triggers", Region::Triggers),
    ("strict", Region::Strict),
    ("few", Region::Few),
    ("twice", Region::Twice),
    ("numbers", Region::Numbers),
    ("local", Region::Local),
    ("counts", Region::Counts),
    ("search", Region::Search),
    ("pairs", Region::Pairs),
    ("handles", Region::Handles),
];

/// Which of them a history contains.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Regions(Vec<Region>);

impl Regions {
    /// All.
    pub fn all() -> Regions {
        Regions(ALL.iter().map(|(_, region)| *region).collect())
    }

    /// Those with these names, separated by commas.
    pub fn named(names: &str) -> Option<Regions> {
        let find = |name| ALL.iter().find(|(n, _)| *n == name).map(|(_, region)| *region);
        names.split(',').filter(|n| !n.is_empty()).map(find).collect::<Option<_>>().map(Regions)
    }

    /// About half of these, each history others, and those that are in `always`. Whether rows are numbered
    /// for each site, tables local for a time, counters added to, texts searched, policies set against each
    /// other, or values overwritten by handles is drawn apart, one time in four: histories without that are what they
    /// were before.
    pub fn draw(&self, r: &mut Random, apart: &mut Random, always: &Regions) -> Regions {
        let drawn = self.0.iter().copied().filter(|region| {
            let drawn = match region {
                Region::Numbers
                | Region::Local
                | Region::Counts
                | Region::Search
                | Region::Pairs
                | Region::Handles => apart.one_in(4),
                _ => r.one_in(2),
            };
            drawn || always.has(*region)
        });
        let drawn = Regions(drawn.collect());
        // A table that is renamed while it is local stays so, what is written to it no trigger notes, and a
        // clone has for its own what its origin has written to it.
        let apart = Regions(vec![Region::Alter, Region::Twice, Region::Told, Region::Clone]);
        let drawn = if drawn.has(Region::Local) { drawn.without(&apart) } else { drawn };
        // What a site had added before a backup may be in its sums twice.
        let restore = Regions(vec![Region::Restore]);
        let drawn = if drawn.has(Region::Counts) { drawn.without(&restore) } else { drawn };
        use Region::{Alter, Order, Rebuild, Replace, Retype, Triggers, Twice};
        let unheard = Regions(vec![Alter, Order, Rebuild, Replace, Retype, Triggers, Twice]);
        // An index that triggers keep does not hear of handles either.
        let unheard = Regions([unheard.0, vec![Region::Handles]].concat());
        if drawn.has(Region::Search) { drawn.without(&unheard) } else { drawn }
    }

    /// Those that are not in `others`.
    pub fn without(&self, others: &Regions) -> Regions {
        Regions(self.0.iter().copied().filter(|region| !others.has(*region)).collect())
    }

    /// Whether this one is among them.
    pub fn has(&self, region: Region) -> bool {
        self.0.contains(&region)
    }

    /// Their names.
    pub fn names(&self) -> String {
        let names = ALL.iter().filter(|(_, region)| self.has(*region)).map(|(name, _)| *name);
        names.collect::<Vec<_>>().join(",")
    }
}
