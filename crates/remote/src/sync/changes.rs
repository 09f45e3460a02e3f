//! What a store lacks, written as a batch part by part, so that memory does not grow with it.

use super::heads::Heads;
use super::spool::Spool;
use super::{Result, SyncError, Traffic};
use std::io::Write;
use synqlite_core::{Environment, Lines, Phase, Replica};
use synqlite_objects::files::Temp;
use synqlite_objects::{Error, ObjectName, Put, Step, Store};
use synqlite_wire::{Delta, PrefixHash, VersionVector, batch};

/// So many bytes are copied at a time.
const CHUNK: u64 = if cfg!(feature = "small-parts") { 16 } else { 1 << 20 };

/// What a replica has and a store lacks.
pub(super) struct Changes {
    /// What a receiver must have.
    pub base: VersionVector,
    /// What it has then.
    pub upto: VersionVector,
    /// Whether there is nothing.
    pub empty: bool,
    /// How much it is, but for bytes.
    pub traffic: Traffic,
    /// The position of the replica that it reaches.
    pub position: u64,
    lines: Lines,
    writer: batch::Writer,
    bodies: Spool,
}

/// What `mine` has and the store, which contains `there`, lacks.
pub(super) fn missing(
    mine: &mut Replica,
    url: &str,
    heads: &Heads,
    there: &VersionVector,
    env: &dyn Environment,
) -> Result<Changes> {
    let seen = mine.seen()?;
    // A receiver needs to have only those writes that this replica has seen too.
    let mut base = VersionVector::default();
    seen.0.iter().for_each(|(&site, &hlc)| base.raise(site, hlc.min(there.get(site))));
    // What is remembered has been there since, and all else that is listed can be reached; or what
    // was sent is seen there.
    let sound = heads.resumed && heads.lost == 0 && there.dominates(&heads.claimed());
    let sent = mine.sent_to(url)?.filter(|sent| sound || there.dominates(&sent.seen));
    let mut changes = Changes {
        base: base.clone(),
        upto: VersionVector::default(),
        empty: true,
        traffic: Traffic::default(),
        position: 0,
        lines: Lines::new(),
        writer: batch::Writer::default(),
        bodies: Spool::beside(mine.path()),
    };
    let position =
        mine.export_parts(&base, sent.map_or(0, |sent| sent.local_seq), &mut |part| {
            let Delta { rows, settings, told, .. } = &part;
            changes.empty &= rows.is_empty() && settings.is_empty() && told.is_empty();
            changes.traffic.add(Traffic::of(&part, 0));
            let done = changes.traffic.rows;
            env.step(synqlite_core::Step { phase: Phase::Read, done, total: None });
            changes.bodies.append(&changes.writer.add(&part).map_err(SyncError::Encode)?)?;
            (changes.upto, changes.lines) = (part.upto, part.lines);
            Ok::<_, SyncError>(())
        })?;
    changes.position = u64::try_from(position).unwrap_or(0);
    Ok(changes)
}

impl Changes {
    /// Puts them as a batch; says how many bytes that has.
    pub fn put(
        &mut self,
        store: &dyn Store,
        name: &ObjectName,
        after: Option<PrefixHash>,
        step: Step<'_>,
    ) -> Result<(Put, u64)> {
        let vectors = (&self.base, &self.upto, &self.lines);
        let head = self.writer.head(name.database, name.site, after, vectors);
        if let Some(bodies) = self.bodies.whole() {
            let bytes = batch::close(head, bodies);
            return Ok((store.put_if_absent(name, &bytes)?, bytes.len() as u64));
        }
        let mut temp = self.bodies.beside_it()?;
        let (mut verifier, mut done) = (batch::Verifier::default(), 0);
        write(&mut temp, &head)?;
        verifier.pass(&head);
        while done < self.bodies.len() {
            let bytes = self.bodies.read(done..self.bodies.len().min(done + CHUNK))?;
            write(&mut temp, &bytes)?;
            verifier.pass(&bytes);
            done += bytes.len() as u64;
        }
        let sum = verifier.sum();
        write(&mut temp, &sum)?;
        let put = store.put_file_if_absent(name, temp.path(), None, step)?;
        Ok((put, (head.len() + sum.len()) as u64 + done))
    }
}

fn write(temp: &mut Temp, bytes: &[u8]) -> Result<()> {
    let written = temp.file().write_all(bytes);
    Ok(written.map_err(Error::io("write", temp.path()))?)
}
