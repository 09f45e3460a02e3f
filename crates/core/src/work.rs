//! What a transaction that writes works with.

use crate::catalog::Catalog;
use crate::closed::{self, ClosedBy};
use crate::env::Environment;
use crate::fold::{self, Folded, Terms};
use crate::gaps::{self, Gaps, Wanted};
use crate::journal;
use crate::line::Learner;
use crate::local;
use crate::merge::{self, Anew, Merge, Merged};
use crate::meta::Meta;
use crate::policy::Policies;
use crate::refs::Lookup;
use crate::settings;
use crate::state::sums;
use crate::{Result, track};
use rusqlite::Connection;
use synqlite_wire::{Line, SiteId, VersionVector};

/// Everything inside a write transaction.
pub(crate) struct Work<'a> {
    pub conn: &'a Connection,
    pub meta: Meta,
    pub catalog: Catalog,
    pub policies: Policies,
    pub env: &'a dyn Environment,
    pub now_ms: i64,
    /// Whether a catalog read now would be this one.
    pub settled: bool,
    /// Whether policies are followed that another site has set.
    pub received: bool,
    /// Whether a fold pins numbers that rows have now (R-PIN): not once this transaction has begun to merge.
    pub pins: bool,
    /// What its folds have recorded, those with which it caught up with the schema too.
    pub folded: Folded,
}

impl<'a> Work<'a> {
    pub(crate) fn begin(conn: &'a Connection, env: &'a dyn Environment) -> Result<Work<'a>> {
        let (meta, policies) = (Meta::load(conn)?, settings::load(conn)?);
        let (catalog, now_ms) = (Catalog::default(), env.now_ms());
        Ok(Work {
            conn,
            meta,
            catalog,
            policies,
            env,
            now_ms,
            settled: true,
            received: false,
            pins: true,
            folded: Folded::default(),
        })
    }

    /// Saves the metadata, at the end of a transaction. What it gave stamps to is sealed.
    pub(crate) fn save(&mut self) -> Result<()> {
        local::follow(self.conn, &mut self.meta, &self.catalog, &self.policies)?;
        closed::update(self.conn, &mut self.meta, &self.catalog, self.now_ms, ClosedBy::Write)?;
        sums::settle(self.conn, &mut self.meta, &self.catalog)?;
        self.learner().seal()?;
        track::note_schema(self.conn, &self.policies)?;
        self.meta.save(self.conn)
    }

    /// R-FBM: the journal is folded before anything else happens.
    pub fn fold(&mut self) -> Result<()> {
        let Work { conn, meta, catalog, policies, now_ms, env, pins, folded, .. } = self;
        let terms = Terms { policies, env: *env, pins: *pins };
        folded.add(fold::fold(conn, meta, catalog, terms)?);
        closed::update(conn, meta, catalog, *now_ms, ClosedBy::Write)?;
        settings::announce(conn, meta, *now_ms)?;
        self.learner().seal()
    }

    /// The same before others' changes are merged. Who goes on with `more` pins no number, unless a program saw what
    /// was shown meanwhile, and wrote (R-PIN).
    pub fn fold_to_merge(&mut self, more: bool) -> Result<()> {
        let wrote = journal::any(self.conn)?;
        self.pins = wrote || !more;
        match more && !wrote {
            true => Ok(()),
            false => self.fold(),
        }
    }

    /// Begins to merge a delta with this base, up to `upto`. `None` if it brings nothing, unless rows that were
    /// seen come `again`.
    pub fn begin_merge(
        &mut self,
        base: &VersionVector,
        upto: &VersionVector,
        force: bool,
        again: bool,
    ) -> Result<Option<Merge>> {
        let now = self.now_ms;
        self.pins = false;
        Merge::begin(&mut self.site(), base, upto, now, force, again)
    }

    /// What to ask a replica for that told of `theirs`, past its local sequence `after`.
    pub fn wanted(&self, theirs: &Gaps, after: i64) -> Result<Wanted> {
        gaps::wanted(self.conn, &self.meta, &self.catalog, theirs, after)
    }

    /// Takes note of what a replica may lack that gave what was `wanted`. Places get what that made up for.
    pub fn receive(&mut self, theirs: &Gaps, wanted: &Wanted) -> Result<()> {
        let Work { conn, meta, catalog, now_ms, .. } = self;
        let made_up = gaps::receive(conn, meta, catalog, theirs, wanted)?;
        made_up.into_iter().try_for_each(|table| gaps::owe(conn, meta, *now_ms, table))
    }

    /// What is needed to look rows up.
    pub fn lookup(&self) -> Lookup<'_> {
        let Work { conn, meta, catalog, .. } = self;
        Lookup { conn, meta, catalog }
    }

    /// What a merge works with.
    pub fn site(&mut self) -> merge::Site<'_> {
        let Work { conn, meta, catalog, policies, .. } = self;
        merge::Site { conn, meta, catalog, policies }
    }

    /// Ends a merge, all of whose parts have come; `then` something else happens before it is told what the merge did.
    pub fn end_merge(
        &mut self,
        merge: Merge,
        then: impl FnOnce(&mut Self, &mut Merged) -> Result<()>,
    ) -> Result<Merged> {
        let mut merged = merge.end(&mut self.site())?;
        then(self, &mut merged)?;
        merge::standing(self.lookup(), &mut merged.decisions)?;
        self.note(merged)
    }

    /// Ends a slice of a merge whose other parts come in other transactions.
    pub fn end_slice(&mut self, merge: Merge) -> Result<Merged> {
        self.note(merge.leave())
    }

    /// Takes note of what rows show now, and of what gave way.
    fn note(&mut self, merged: Merged) -> Result<Merged> {
        let Work { conn, meta, catalog, now_ms, .. } = self;
        closed::update(conn, meta, catalog, *now_ms, ClosedBy::Merge)?;
        closed::note(conn, meta, catalog, &merged.told, *now_ms)?;
        closed::expect(Lookup { conn, meta, catalog }, &merged.fallen, *now_ms)?;
        self.settled &= !merged.unwritten;
        Ok(merged)
    }

    /// Goes on under a new site id.
    pub fn begin_anew(&mut self) -> Result<()> {
        let mut learner = self.learner();
        // Catching up with the schema may have stamped something under the old one.
        learner.seal()?;
        learner.begin_anew()?;
        gaps::owe_anew(self.conn, &mut self.meta, self.now_ms)
    }

    /// Takes note of pieces of the lines of sites ([`Learner::learn`]). Whether a line forks that was not
    /// known to. Its branches go by other ids then, and where clocks are the same, as those of two copies
    /// of one file may be, ids say which claim is the earlier: what that decided is decided again.
    pub fn learn<'l>(
        &mut self,
        lines: impl IntoIterator<Item = (&'l SiteId, &'l Line)>,
    ) -> Result<bool> {
        let site = self.meta.site;
        let mut learner = self.learner();
        let forked = learner.learn(lines)?;
        let counted = std::mem::take(&mut learner.counted);
        if self.meta.site != site {
            gaps::owe_anew(self.conn, &mut self.meta, self.now_ms)?;
        }
        if forked {
            self.fold()?;
            let Self { conn, meta, catalog, policies, now_ms, .. } = self;
            // A count is one for all that a site counted, so a branch's took the place of its line's. Whoever
            // had the line's has it still, and gives it to those who lack it.
            for (table, site) in counted {
                gaps::lose_of(conn, meta, table, site)?;
            }
            for t in catalog.tables.iter().filter(|t| t.table.groups.iter().any(|g| g.counter)) {
                gaps::owe(conn, meta, *now_ms, t.no)?;
            }
            merge::refresh(conn, meta, catalog, policies, &Anew::default())?;
        }
        Ok(forked)
    }

    /// What learns of lines here.
    pub fn learner(&mut self) -> Learner<'_> {
        let Self { conn, meta, catalog, env, .. } = self;
        Learner { conn, meta, catalog, env: *env, counted: vec![] }
    }
}
