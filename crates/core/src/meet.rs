//! Replicas learn of each other's lines before they exchange anything, so that both call the same
//! changes by the same ids.

use crate::Result;
use crate::line::parted;
use crate::line::tree::Lines;
use crate::line::{family, forks, has, knows, origin, resolve};
use crate::replica::Replica;
use std::cmp::Ordering;
use std::collections::BTreeSet;
use synqlite_wire::{Hlc, Line, SiteId, VersionVector};

impl Replica {
    /// Learns what another replica knows of the lines of sites, and tells it the same, as far as what
    /// the two have seen does not lie on one line. Whether this one learned of a fork.
    pub fn meet(&mut self, other: &mut Replica) -> Result<bool> {
        let (here, there) = (self.seen()?, other.seen()?);
        let mut roots = BTreeSet::new();
        for &site in here.0.keys().chain(there.0.keys()) {
            let (ours, theirs) = (here.get(site), there.get(site));
            let apart = match ours.cmp(&theirs) {
                Ordering::Equal => false,
                Ordering::Less => site == self.site() || !other.has_passed(site, ours)?,
                Ordering::Greater => site == other.site() || !self.has_passed(site, theirs)?,
            };
            let of = [self.root_of(site)?, other.root_of(site)?];
            if apart || of.iter().any(|root| roots.contains(root)) {
                roots.extend(of);
                continue;
            }
            // What an id means depends on all that is known of forks.
            for root in of {
                if self.forks(root)? != other.forks(root)? {
                    roots.insert(root);
                }
            }
        }
        let mut forked = false;
        for root in roots {
            // Who learns folds first, so each may have come further than it was asked.
            forked |= self.learn(&other.lines_of(root)?)?;
            other.learn(&self.lines_of(root)?)?;
            forked |= self.learn(&other.lines_of(root)?)?;
        }
        Ok(forked)
    }

    /// Takes note of pieces of the lines of sites, in the order in which sites came by them. Whether
    /// one of them forks that was not known to.
    pub fn learn<'l, I>(&mut self, lines: I) -> Result<bool>
    where
        I: IntoIterator<Item = (&'l SiteId, &'l Line)> + Clone,
    {
        if self.peek(|conn, meta| knows(conn, meta, lines.clone()))? {
            return Ok(false);
        }
        self.write(|work| work.learn(lines))
    }

    /// Goes on under a new site id if somebody has seen a state of this site, by its clock, that this
    /// file does not have. Whether it does.
    pub fn check_claim(&mut self, clock: Hlc) -> Result<bool> {
        if self.has_passed(self.site(), clock)? {
            return Ok(false);
        }
        self.begin_anew()?;
        Ok(true)
    }

    /// Goes on under a new site id.
    pub fn begin_anew(&mut self) -> Result<()> {
        self.write(|work| work.begin_anew())
    }

    /// Whether this file was restored or copied, and may hear of others who have folded what waited in it.
    pub fn has_parted(&self) -> Result<bool> {
        self.peek(|conn, _| Ok(!parted::all(conn)?.is_empty()))
    }

    /// Makes this replica's local sequence later than `local_seq`.
    pub fn pass(&mut self, local_seq: u64) -> Result<()> {
        let local_seq = i64::try_from(local_seq).unwrap_or(i64::MAX);
        self.write(|work| {
            work.meta.local_seq = work.meta.local_seq.max(local_seq.saturating_add(1));
            Ok(())
        })
    }

    /// What a vector that another site wrote means here.
    pub fn resolve(&self, vector: &VersionVector) -> Result<VersionVector> {
        self.peek(|conn, meta| resolve(conn, meta, vector))
    }

    fn has_passed(&self, site: SiteId, clock: Hlc) -> Result<bool> {
        self.peek(|conn, meta| has(conn, meta, site, clock))
    }

    fn root_of(&self, site: SiteId) -> Result<SiteId> {
        self.peek(|conn, meta| Ok(origin(conn, meta, site)?.0))
    }

    /// The branches of a line, with as much as tells what else is known of them.
    fn forks(&self, root: SiteId) -> Result<Vec<(SiteId, Hlc, usize)>> {
        self.peek(|conn, meta| {
            if !forks(conn, meta, root)? {
                return Ok(vec![]);
            }
            let lines = family(conn, meta, root)?;
            Ok(lines.iter().map(|(site, l)| (*site, l.before, l.points.len())).collect())
        })
    }

    fn lines_of(&self, root: SiteId) -> Result<Lines> {
        self.peek(|conn, meta| family(conn, meta, root))
    }
}
