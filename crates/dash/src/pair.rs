//! The two files of a database and its registry: opening them, finding out which of them holds the
//! last transaction, and making the other one fit to be written.
//!
//! What always holds: the file that is current is never written to, except for a rollback journal
//! of another program that has to be played back. Which of the two is current is in the registry
//! while anybody has the database open, and is what the name says otherwise, unless [`winner`]
//! finds that a power failure took an exchange of names.

pub(crate) mod dash_protocol;
pub(crate) mod multi_file_commit;

use crate::disk::{self, Access, Disk, Handle, Kind, Open, Sync};
use crate::error::{Context, Error, Result};
use crate::image::{self, Image};
use crate::lock::{self, Hold};
use crate::mode::{Evidence, Mode};
use crate::ranges::Ranges;
use crate::registry::{Durable, Live, OPEN, State};
use crate::shared_words::SharedWords;
use crate::trailer::Trailer;
use dash_protocol::Shadow;
use libsqlite3_sys as ffi;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What the name of a shadow ends in.
pub(crate) const SHADOW: &str = "-shadow";

/// The names that belong to a database.
#[derive(Debug, Clone)]
pub(crate) struct Names {
    /// The database.
    pub main: PathBuf,
    /// Its shadow.
    pub shadow: PathBuf,
    /// The shadow's while three renames exchange it.
    pub passing: PathBuf,
    /// Its registry.
    pub registry: PathBuf,
    /// The rollback journal of a program without this file system.
    pub journal: PathBuf,
    /// Its write-ahead log.
    pub log: PathBuf,
}

impl Names {
    /// The names beside a database.
    pub(crate) fn of(main: &Path) -> Names {
        let with = |end: &str| {
            let mut name = main.as_os_str().to_owned();
            name.push(end);
            PathBuf::from(name)
        };
        Names {
            main: main.to_owned(),
            shadow: with(SHADOW),
            passing: with("-shadow-passing"),
            registry: with("-dash"),
            journal: with("-journal"),
            log: with("-wal"),
        }
    }
}

/// One opening of a database, its shadow and its registry.
#[derive(Debug)]
pub(crate) struct Pair {
    pub disk: Arc<dyn Disk>,
    pub names: Names,
    pub mode: Mode,
    pub kind: Kind,
    pub registry: Handle,
    words: SharedWords,
    pub files: [Handle; 2],
    /// Which of the files is current, as far as this opening knows.
    pub current: usize,
    /// What its last commit left; known to be so while it holds a lock of SQLite's.
    pub left: Option<Left>,
}

/// Pages of a file, by offset.
pub(crate) type Pages = BTreeMap<u64, Vec<u8>>;

/// What a commit left: still so as long as the registry names its version, because whoever changes
/// anything publishes that first.
#[derive(Debug)]
pub(crate) struct Left {
    pub durable: Durable,
    pub current: Image,
    pub shadow: Image,
    /// What it wrote to the current file, if that was little.
    pub pages: Pages,
}

impl Pair {
    /// Opens a database for writing, in the mode that was asked for or that others have it open in.
    /// The first to do so recovers it.
    pub(crate) fn open(disk: Arc<dyn Disk>, names: Names, asked: Option<Mode>) -> Result<Pair> {
        let mode = asked.unwrap_or_default();
        let registry = match disk.open(&names.registry, Open::Create) {
            Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
                return Err(Error::Refused(format!(
                    "vfs=dash keeps two files beside {}, and may not write {}; allow it, or open \
                     the database with mode=ro",
                    names.main.display(),
                    names.registry.display()
                )));
            }
            opened => opened.when("opening the registry", ffi::SQLITE_CANTOPEN)?,
        };
        let words = SharedWords::of(&registry).reading("mapping the registry")?;
        let first = hold(&registry, &OPEN, Hold::Write)?;
        if !first && (mode.is_alone() || !hold(&registry, &OPEN, Hold::Read)?) {
            return Err(in_the_way(&names, (&registry, &words), asked)?);
        }
        let known = Durable::read(&registry).reading("reading the registry")?;
        if first {
            set_foreign_aside(disk.as_ref(), &names, known.as_ref())?;
        }
        let files = open_both(disk.as_ref(), &names)?;
        for file in [&files[1], &registry] {
            give_access_of(&files[0], file)?;
        }
        let kind = disk.kind(&files[0]).reading("asking for the kind of the file system")?;
        for file in &files {
            // Programs without this file system may read beside us, but not write.
            if !hold(file, &lock::RESERVED, Hold::Read)? {
                return Err(Error::Busy);
            }
        }
        let (current, left) = (0, None);
        let mut pair = Pair { disk, names, mode, kind, registry, words, files, current, left };
        if first {
            pair.recover(known)?;
            if !mode.is_alone() {
                hold(&pair.registry, &OPEN, Hold::Read)?;
            }
        } else {
            pair.join(known.as_ref(), asked)?;
        }
        Ok(pair)
    }

    /// Takes the place of one more that has the pair open.
    fn join(&mut self, known: Option<&Durable>, asked: Option<Mode>) -> Result<()> {
        let [a, b] = [self.files[0].identity, self.files[1].identity];
        if known.is_none_or(|durable| durable.files != [a, b] && durable.files != [b, a]) {
            return Err(moved(&self.names));
        }
        let live = self.live();
        let theirs = Mode::ALL.into_iter().find(|m| *m as u8 == live.mode);
        if let (None, Some(theirs)) = (asked, theirs.filter(|theirs| theirs.is_safe())) {
            self.mode = theirs;
        }
        if live.mode != self.mode as u8 {
            return Err(another_mode(&self.names, theirs));
        }
        self.current = usize::from(live.current == b);
        Ok(())
    }

    /// Finds the last transaction after whatever happened, and gives its file the name.
    fn recover(&mut self, known: Option<Durable>) -> Result<()> {
        let [a, b] = [self.files[0].identity, self.files[1].identity];
        let boot = self.disk.boot();
        let known = known.filter(|k| k.files == [a, b] || k.files == [b, a]);
        let mut durable = match known {
            Some(durable) => durable,
            None => {
                let (state, mode) = (State::MainOnly, self.mode);
                let durable = Durable { state, mode, pair: new_id()?, boot, files: [a, b] };
                self.register(&durable, false)?;
                durable
            }
        };
        let power_lost = durable.state == State::Open && durable.boot != boot;
        self.settle(&durable, power_lost)?;
        // A durable Version Update tells how far a shadow may be off; else nothing does.
        if power_lost && (durable.mode.evidence() != Evidence::Version || durable.mode.is_alone()) {
            durable.state = State::MainOnly;
            durable.boot = boot;
            self.register(&durable, false)?;
        }
        Ok(())
    }

    /// Gives the file with the last transaction the database's name and makes it current. Called
    /// by whoever is alone with the pair, or holds the writer's lock and finds that the writer
    /// before did not finish.
    pub(crate) fn settle(&mut self, durable: &Durable, power_lost: bool) -> Result<()> {
        let name = self.disk.identity_at(&self.names.main).reading("looking for the database")?;
        let Some(named) = self.files.iter().position(|f| Some(f.identity) == name) else {
            return Err(moved(&self.names));
        };
        let files = [&self.files[named], &self.files[1 - named]];
        let facts = Facts::find(&self.names, files, durable, power_lost)?;
        self.current = named;
        let exchanged = winner(&facts) == Winner::Shadow;
        if exchanged {
            self.exchange_names()?;
            self.current = 1 - named;
        } else if facts.super_journal == Some(true) {
            multi_file_commit::give_up(self, self.shadow())?;
        }
        if durable.state != State::Clean {
            multi_file_commit::sweep(self);
        }
        let closed = durable.mode.is_alone() && dash_protocol::is_reset(self)?;
        if exchanged || durable.state == State::Open && !closed {
            // A commit that was cut short may have left both on the way to the device, and the file
            // that had the name is about to be overwritten.
            self.disk.sync(self.main(), Sync::Bytes).syncing("making the database durable")?;
            self.disk.sync_folder(&self.names.main).syncing("making an exchange durable")?;
        }
        let stale = durable.boot == self.disk.boot() && self.live().stale;
        self.publish(false, stale)
    }

    /// Forgets what its last commit left unless all of it is still so, by what living processes
    /// say now.
    pub(crate) fn recall(&mut self, live: &Live) {
        let current = self.main().identity;
        self.left.take_if(|left| {
            let named = live.version == left.current.id() && live.current == current;
            !named || live.unsettled || live.stale
        });
    }

    /// Brings the shadow to where the next transaction can be written on top: equal to the current
    /// file but for what the current version wrote. Gives back what the current file says, and
    /// whether the pair is new, so that the first commit has to be made durable by name. The caller
    /// holds the writer's lock, has the shadow alone, and has published that it writes.
    pub(crate) fn ready(&self, durable: &mut Durable) -> Result<(Image, bool)> {
        let disk = self.disk.as_ref();
        let (main, shadow) = (self.main(), self.shadow());
        let live = self.live();
        let mut base = Image::read(main, &durable.pair)?;
        let all = Ranges::one(0, base.size);
        if live.stale {
            // The last exchange was taken back, and the device may not know that yet.
            disk.sync(main, Sync::Bytes).syncing("making the database durable")?;
            disk.sync_folder(&self.names.main).syncing("making its name durable")?;
            durable.state = State::MainOnly;
            self.register(durable, true)?;
        }
        // What the trailers of another mode say proves nothing in this one.
        let ours = base.version().filter(|_| durable.mode == self.mode);
        let Some(version) = ours else {
            // New to us, or written by another program since: no version means anything any more.
            disk.sync(main, Sync::Bytes).syncing("making the database durable")?;
            disk.sync_folder(&self.names.main).syncing("making the names of the pair durable")?;
            durable.pair = new_id()?;
            durable.state = State::MainOnly;
            durable.mode = self.mode;
            durable.boot = disk.boot();
            durable.files = [main.identity, shadow.identity];
            self.publish(true, true)?;
            self.register(durable, true)?;
            image::copy(disk, main, shadow, &all, live.stale)?;
            base.trailer = None;
            return Ok((base, true));
        };
        let seen = Image::read(shadow, &durable.pair)?;
        let trusted = durable.state != State::MainOnly && !live.stale;
        match dash_protocol::shadow_is(self.mode, &base, &seen) {
            Shadow::Behind
                if self.mode.is_alone() && !live.stale && dash_protocol::is_reset(self)? =>
            {
                dash_protocol::take_header_back(self)?;
            }
            Shadow::Behind if trusted => {}
            Shadow::Unreset if trusted => dash_protocol::reset_version(self, shadow)?,
            is => {
                // A version that was begun and not acknowledged says itself where it differs.
                let here = match (is, seen.trailer) {
                    (Shadow::Ahead, Some(trailer)) if trusted => trailer.differs(base.size),
                    _ => all,
                };
                self.restore(&base, version, &here, live.stale)?;
                self.sync_shadow(Sync::Bytes, "making the shadow durable")?;
                self.publish(true, false)?;
            }
        }
        let open = Durable { state: State::Open, boot: disk.boot(), ..durable.clone() };
        if *durable != open {
            // Where versions decide, a proper close promised nothing that is to be taken back.
            let versions = self.mode.evidence() == Evidence::Version && !self.mode.is_alone();
            *durable = open;
            self.register(durable, !(versions && trusted))?;
        }
        Ok((base, false))
    }

    /// Makes the shadow equal to the current file within `ranges`, and labels it as the version
    /// before, or as reset.
    pub(crate) fn restore(
        &self,
        base: &Image,
        version: u64,
        ranges: &Ranges,
        forced: bool,
    ) -> Result<()> {
        let (disk, shadow) = (self.disk.as_ref(), self.shadow());
        image::copy(disk, self.main(), shadow, ranges, forced)?;
        if self.mode.evidence() == Evidence::Version {
            // The label alone will say that this was done.
            self.sync_shadow(Sync::Bytes, "making the shadow durable")?;
        }
        let trailer = base.trailer.as_ref();
        let (pair, counter) = trailer.map_or(([0; 16], 0), |t| (t.pair, t.counter));
        let before = match self.mode.evidence() {
            Evidence::Version => 0,
            _ => version.saturating_sub(1),
        };
        let id = trailer.map_or(0, |trailer| trailer.after);
        let label = Trailer { id, ..image::label(pair, before, base.size, counter) };
        image::write_trailer(disk, shadow, &label).map(drop)
    }

    /// Synchronizes the shadow. If that fails nobody knows what of it the device has, and another
    /// call that succeeds does not tell either: it is made anew before it is written to again.
    pub(crate) fn sync_shadow(&self, how: Sync, what: &'static str) -> Result<()> {
        let synced = self.disk.sync(self.shadow(), how);
        if synced.is_err() {
            self.publish(self.live().unsettled, true)?;
        }
        synced.syncing(what)
    }

    /// Reads the current file: how much of the buffer lies within it. SQLite begins each transaction
    /// with a look at the change counter, and the last commit left that page.
    pub(crate) fn read(&self, offset: u64, into: &mut [u8]) -> Result<usize> {
        let left = self.left.as_ref().and_then(|left| copy_page(&left.pages, offset, into));
        match left.filter(|&length| length == into.len() as u64) {
            Some(_) => Ok(into.len()),
            None => image::read_up_to(self.main(), into, offset).reading("reading a page"),
        }
    }

    /// The current file.
    pub(crate) fn main(&self) -> &Handle {
        &self.files[self.current]
    }

    /// The other one.
    pub(crate) fn shadow(&self) -> &Handle {
        &self.files[1 - self.current]
    }

    /// What living processes say. The durable sector is in the registry, so the words are mapped.
    pub(crate) fn live(&self) -> Live {
        Live::read(&self.words)
    }

    /// Tells living processes which file is current.
    pub(crate) fn publish(&self, unsettled: bool, stale: bool) -> Result<()> {
        self.write_live(unsettled, stale, 0)
    }

    /// Makes sure that from now on only the current file counts, because somebody will write to it
    /// whom no trailer tells of.
    pub(crate) fn distrust_shadow(&self) -> Result<()> {
        self.publish(self.live().unsettled, true)?;
        match self.durable()? {
            Durable { state: State::MainOnly, .. } => Ok(()),
            durable => self.register(&Durable { state: State::MainOnly, ..durable }, true),
        }
    }

    /// Tells living processes that the current file has a new version, and that the shadow is the
    /// one before.
    pub(crate) fn publish_version(&self, version: u64) -> Result<()> {
        self.write_live(false, false, version)
    }

    fn write_live(&self, unsettled: bool, stale: bool, version: u64) -> Result<()> {
        let current = self.main().identity;
        let live = Live { current, mode: self.mode as u8, unsettled, stale, version };
        live.write(self.disk.as_ref(), &self.registry).writing("writing the registry")
    }

    /// What the device says.
    pub(crate) fn durable(&self) -> Result<Durable> {
        let durable = Durable::read(&self.registry).reading("reading the registry")?;
        durable.ok_or_else(|| moved(&self.names))
    }

    /// Writes the durable part of the registry.
    pub(crate) fn register(&self, durable: &Durable, durably: bool) -> Result<()> {
        let written = durable.write(self.disk.as_ref(), &self.registry, durably);
        if written.is_err() {
            // The device may have none of it. Whoever writes next has to begin the session anew.
            let unknown = Durable { state: State::MainOnly, ..durable.clone() };
            let _ = unknown.write(self.disk.as_ref(), &self.registry, false);
        }
        written.writing("writing the registry")
    }

    /// Makes the current file the one that has the database's name.
    pub(crate) fn give_name_back(&self) -> Result<()> {
        let name = self.disk.identity_at(&self.names.main).reading("looking for the database")?;
        if name == Some(self.shadow().identity) {
            self.exchange_names()?;
        }
        Ok(())
    }

    /// Exchanges the names of both files, if they still have them. Who was allowed to do what with
    /// the database may do the same with the file that takes its place.
    pub(crate) fn exchange_names(&self) -> Result<()> {
        let named = |name: &Path| -> Result<&Handle> {
            let found = self.disk.identity_at(name).reading("looking for the database")?;
            let file = self.files.iter().find(|file| Some(file.identity) == found);
            file.ok_or_else(|| moved(&self.names))
        };
        give_access_of(named(&self.names.main)?, named(&self.names.shadow)?)?;
        let done = match self.mode.is_safe() {
            true => self.disk.exchange(&self.names.main, &self.names.shadow),
            false => dash_protocol::rename_thrice(self.disk.as_ref(), &self.names),
        };
        if done.as_ref().is_err_and(|e| e.kind() == std::io::ErrorKind::InvalidInput) {
            return Err(Error::Refused(format!(
                "the file system of {} cannot exchange two names; open it without vfs=dash, with \
                 journal_mode DELETE",
                self.names.main.display()
            )));
        }
        done.when("exchanging the database and its shadow", ffi::SQLITE_IOERR_WRITE)
    }
}

/// What recovery knows. In pairs, the file that has the database's name comes first.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Facts {
    /// Another program left a rollback journal: the named file is its business.
    pub hot_journal: bool,
    /// Versions of files that nobody else wrote to.
    pub versions: [Option<u64>; 2],
    /// Whether the shadow's version follows that of the named file, as far as can be told.
    pub follows: bool,
    /// Whether a version of 0 means that a Version Reset was made.
    pub resets: bool,
    /// Whether all that the versions wrote is there; known only where names may be wrong.
    pub whole: Option<[bool; 2]>,
    /// Whether the super-journal of the shadow's commit of several files still exists.
    pub super_journal: Option<bool>,
}

impl Facts {
    /// Looks at the two files, of which the first has the database's name.
    pub(crate) fn find(
        names: &Names,
        files: [&Handle; 2],
        durable: &Durable,
        power_lost: bool,
    ) -> Result<Facts> {
        let [main, shadow] = files;
        let images = [Image::read(main, &durable.pair)?, Image::read(shadow, &durable.pair)?];
        let commits_with = images[1].trailer.as_ref().map_or("", |t| t.commits_with.as_str());
        let by_checksum = power_lost && durable.mode.evidence() == Evidence::Checksum;
        Ok(Facts {
            hot_journal: is_hot(&names.journal),
            versions: [images[0].version(), images[1].version()],
            follows: images[1].trailer.as_ref().is_some_and(|t| t.after == images[0].id()),
            resets: durable.mode.evidence() == Evidence::Version
                && durable.state != State::MainOnly,
            whole: match by_checksum {
                true => Some([images[0].is_whole(main)?, images[1].is_whole(shadow)?]),
                false => None,
            },
            super_journal: match commits_with {
                "" => None,
                name => Some(disk::folder(&names.main).join(name).exists()),
            },
        })
    }
}

/// Whether a database that nobody has open, and that cannot be written to now, has its last
/// transaction under another name than its own.
pub(crate) fn needs_recovery(disk: &dyn Disk, names: &Names, main: &Handle) -> Result<bool> {
    let opened = (disk.open(&names.registry, Open::Read), disk.open(&names.shadow, Open::Read));
    let (Ok(registry), Ok(shadow)) = opened else { return Ok(false) };
    let durable = Durable::read(&registry).reading("reading the registry")?;
    let ours = [main.identity, shadow.identity];
    let known = durable.filter(|d| ours.iter().all(|file| d.files.contains(file)));
    let in_use = lock::taken(&registry.file, &OPEN, Hold::Write).reading("asking for locks")?;
    let Some(durable) = known.filter(|_| !in_use) else { return Ok(false) };
    let power_lost = durable.state == State::Open && durable.boot != disk.boot();
    let facts = Facts::find(names, [main, &shadow], &durable, power_lost)?;
    Ok(winner(&facts) == Winner::Shadow)
}

/// Which file holds the last transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Winner {
    /// The one that has the database's name.
    Main,
    /// The other.
    Shadow,
}

/// The rule of recovery.
pub(crate) fn winner(facts: &Facts) -> Winner {
    if facts.hot_journal {
        return Winner::Main;
    }
    let [main, shadow] = facts.versions;
    let Some(version) = shadow else { return Winner::Main };
    let next = version == main.unwrap_or(0) + 1 && facts.follows;
    match (facts.super_journal, facts.whole) {
        // Version Reset reached the device and the exchange did not.
        _ if facts.resets && main == Some(0) && version > 0 && facts.follows => Winner::Shadow,
        // A commit of several files ends with the removal of the super-journal.
        (Some(false), None) if next => Winner::Shadow,
        (Some(true), _) => Winner::Main,
        (_, Some([main_whole, true])) if !main_whole || main.is_none_or(|main| main < version) => {
            Winner::Shadow
        }
        _ => Winner::Main,
    }
}

/// Opens the two files by name. An exchange in between would give one of them twice.
fn open_both(disk: &dyn Disk, names: &Names) -> Result<[Handle; 2]> {
    for _ in 0..20 {
        let main = disk.open(&names.main, Open::Write);
        let main = main.when("opening the database", ffi::SQLITE_CANTOPEN)?;
        let shadow = disk.open(&names.shadow, Open::Create);
        let shadow = shadow.when("opening the shadow", ffi::SQLITE_CANTOPEN)?;
        if main.identity != shadow.identity {
            return Ok([main, shadow]);
        }
    }
    Err(Error::Busy)
}

/// Gives a file the permissions and, as far as it may be given away, the owner of another.
fn give_access_of(from: &Handle, to: &Handle) -> Result<()> {
    use std::os::unix::fs::{PermissionsExt, fchown};
    let given = || {
        let (wanted, found) = (Access::of(&from.file)?, Access::of(&to.file)?);
        if (wanted.owner, wanted.group) != (found.owner, found.group) {
            // Only the administrator may give a file to another user; the group may work alone.
            let given = fchown(&to.file, Some(wanted.owner), Some(wanted.group));
            if given.is_err() {
                let _ = fchown(&to.file, None, Some(wanted.group));
            }
        }
        match wanted.mode == found.mode {
            true => Ok(()),
            false => to.file.set_permissions(std::fs::Permissions::from_mode(wanted.mode)),
        }
    };
    given().when("setting permissions", ffi::SQLITE_IOERR_ACCESS)
}

/// A file that has the shadow's name and was not made for this database is never written to.
fn set_foreign_aside(disk: &dyn Disk, names: &Names, known: Option<&Durable>) -> Result<()> {
    let Ok(file) = disk.open(&names.shadow, Open::Read) else { return Ok(()) };
    let length = file.file.metadata().reading("asking for the length of the shadow")?.len();
    if length == 0 || known.is_some_and(|known| known.files.contains(&file.identity)) {
        return Ok(());
    }
    if image::read_trailer(&file, length)?.is_none() && image::is_database(&file)? {
        return Err(Error::Refused(format!(
            "{} is a database of its own, and the shadow of {} would need that name; rename one \
             of the two, or open it without vfs=dash",
            names.shadow.display(),
            names.main.display()
        )));
    }
    for number in 1.. {
        let aside = format!("{}.aside{number}", names.shadow.display());
        let taken = disk.identity_at(Path::new(&aside)).reading("looking for a free name")?;
        if taken.is_none() {
            let moved = disk.rename(&names.shadow, Path::new(&aside));
            return moved.when("setting a foreign shadow aside", ffi::SQLITE_CANTOPEN);
        }
    }
    Ok(())
}

/// Whether another program left a rollback journal that has to be played back.
fn is_hot(journal: &Path) -> bool {
    let first = std::fs::File::open(journal).and_then(|file| {
        let mut byte = [0];
        std::os::unix::fs::FileExt::read_at(&file, &mut byte, 0).map(|read| (read, byte[0]))
    });
    matches!(first, Ok((1, byte)) if byte != 0)
}

/// So long the first to open a database is given before it counts as one that has it alone.
const SETTLING: std::time::Duration = std::time::Duration::from_millis(100);

fn another_mode(names: &Names, theirs: Option<Mode>) -> Error {
    let main = names.main.display();
    Error::Refused(match theirs {
        Some(theirs) if theirs.is_alone() => {
            format!(
                "{main} is open with dash={theirs} elsewhere, which has it alone; close it there first"
            )
        }
        Some(theirs) => format!(
            "{main} is open with dash={theirs} elsewhere; open it with dash={theirs} too, or close it \
             there first"
        ),
        None => format!("{main} is open in another mode elsewhere; close it there first"),
    })
}

/// Why others do not let a database be opened: in another mode than theirs it never will be, in the
/// same, or if none is asked for, later.
fn in_the_way(
    names: &Names,
    (registry, words): (&Handle, &SharedWords),
    asked: Option<Mode>,
) -> Result<Error> {
    let Some(asked) = asked else { return Ok(Error::Busy) };
    if !hold(registry, &OPEN, Hold::Read)? {
        // Whoever comes first has it alone while it recovers it, and then says in which mode.
        std::thread::sleep(SETTLING);
        if hold(registry, &OPEN, Hold::Read)? || !theirs(words).is_some_and(Mode::is_alone) {
            return Ok(Error::Busy);
        }
    }
    match theirs(words) {
        Some(theirs) if theirs == asked => Ok(Error::Busy),
        theirs => Ok(another_mode(names, theirs)),
    }
}

/// The mode in which others have a database open.
fn theirs(words: &SharedWords) -> Option<Mode> {
    let mode = Live::read(words).mode;
    Mode::ALL.into_iter().find(|m| *m as u8 == mode)
}

fn moved(names: &Names) -> Error {
    Error::Refused(format!(
        "{} was replaced while it was open; close every connection to it and open it again",
        names.main.display()
    ))
}

/// Sixteen random bytes.
pub(crate) fn new_id() -> Result<[u8; 16]> {
    let mut id = [0; 16];
    let made = getrandom::fill(&mut id).map_err(|error| std::io::Error::other(error.to_string()));
    made.when("making an id for the pair", ffi::SQLITE_IOERR)?;
    Ok(id)
}

/// A lock, or whether it is refused.
pub(crate) fn hold(file: &Handle, range: &std::ops::Range<i64>, hold: Hold) -> Result<bool> {
    lock::set(&file.file, range, hold).when("locking", ffi::SQLITE_IOERR_LOCK)
}

/// Fills the beginning of `into` from the page that holds the byte at `at`, if there is one: how
/// much.
pub(crate) fn copy_page(pages: &Pages, at: u64, into: &mut [u8]) -> Option<u64> {
    let (start, page) = pages.range(..=at).next_back()?;
    let rest = page.get((at - start) as usize..).filter(|rest| !rest.is_empty())?;
    let length = rest.len().min(into.len());
    into[..length].copy_from_slice(&rest[..length]);
    Some(length as u64)
}

/// The trailer that the next version begins from: what its transaction wrote.
pub(crate) fn wrote(base: &Image) -> Ranges {
    base.trailer.as_ref().map(|t: &Trailer| t.wrote.clone()).unwrap_or_default()
}
