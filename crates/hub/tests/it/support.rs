//! A hub in this process, on a free port.

use crate::client::Client;
use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use synqlite_hub::{Allowance, Location, Reach, Running, Scope, Settings, Token, start};
use synqlite_objects::ObjectName;
use synqlite_wire::Id;
use tempfile::TempDir;

pub const DATABASE: Id = Id([0xd0; 16]);
pub const OTHER: Id = Id([0xd1; 16]);
pub const SITE: Id = Id([0x51; 16]);

/// A new, empty store at each call.
type Make = Box<dyn FnMut() -> Location>;

thread_local! {
    /// Where the labs of this thread keep their objects, if not in a folder: so the tests of one
    /// store can be run on another.
    static STORE: RefCell<Option<Make>> = const { RefCell::new(None) };
}

/// Labs that this thread makes from now on use such stores.
pub fn use_stores(make: impl FnMut() -> Location + 'static) {
    STORE.set(Some(Box::new(make)));
}

/// A hub that can be stopped and started again.
pub struct Lab {
    dir: TempDir,
    pub settings: Settings,
    pub time: Arc<AtomicI64>,
    hub: Option<Running>,
}

impl Lab {
    /// Open to everybody.
    pub fn open() -> Lab {
        Lab::with(|settings| settings.open = true)
    }

    /// As `change` has it, with tokens.
    pub fn with(change: impl FnOnce(&mut Settings)) -> Lab {
        let dir = tempfile::tempdir().unwrap();
        let time = Arc::new(AtomicI64::new(1_800_000_000_000));
        let clock = {
            let time = time.clone();
            Arc::new(move || time.load(Ordering::Relaxed))
        };
        let store = STORE.with_borrow_mut(|make| make.as_mut().map(|make| make()));
        let store = store.unwrap_or_else(|| Location::Folder(dir.path().join("hub")));
        let mut settings = Settings::new(store, clock);
        settings.listen = "127.0.0.1:0".into();
        settings.setup.cache = 8 << 20;
        settings.scratch = dir.path().join("scratch");
        change(&mut settings);
        let mut lab = Lab { dir, settings, time, hub: None };
        lab.start();
        lab
    }

    pub fn start(&mut self) {
        self.hub = Some(start(self.settings.clone()).unwrap());
    }

    pub fn stop(&mut self) {
        self.hub.take().unwrap().stop().unwrap();
    }

    /// Waits until it ends by itself.
    pub fn end(&mut self) -> synqlite_hub::Result<()> {
        self.hub.take().unwrap().wait()
    }

    pub fn hub(&self) -> &Running {
        self.hub.as_ref().unwrap()
    }

    pub fn store(&self) -> PathBuf {
        self.dir.path().join("hub")
    }

    /// Number of files of large objects; `None` if the store keeps none.
    pub fn large_files(&self) -> Option<usize> {
        let folder = matches!(self.settings.store, Location::Folder(_));
        folder.then(|| files(&self.store().join("objects")).len())
    }

    /// What is on its way.
    pub fn staged(&self) -> Vec<PathBuf> {
        match self.settings.store {
            Location::Folder(_) => files(&self.store().join("staging")),
            _ => files(&self.settings.scratch.join("staging")),
        }
    }

    /// A path beside the store.
    pub fn scratch(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Somebody without a token.
    pub fn nobody(&self) -> Client {
        Client::new(&self.hub().url(), None)
    }

    /// Somebody with a token of that reach and scope, made just now.
    pub fn somebody(&self, reach: &str, scope: Scope) -> Client {
        Client::new(&self.hub().url(), Some(&self.token(reach, scope)))
    }

    /// A new token, which the hub knows already.
    pub fn token(&self, reach: &str, scope: Scope) -> String {
        self.allowed(reach, scope, Allowance::default())
    }

    /// The same, with limits of its own.
    pub fn allowed(&self, reach: &str, scope: Scope, allowance: Allowance) -> String {
        self.made(reach, scope, |token| token.allowance = allowance)
    }

    /// A token of a site.
    pub fn bound(&self, reach: &str, site: Id) -> String {
        self.made(reach, Scope::Write, |token| token.sites = vec![site])
    }

    fn made(&self, reach: &str, scope: Scope, change: impl FnOnce(&mut Token)) -> String {
        let reach: Reach = reach.parse().unwrap();
        let (mut token, secret) = Token::make(reach.clone(), scope, 0, None, None).unwrap();
        change(&mut token);
        self.settings.store.vault().add(token).unwrap();
        let path = if reach == Reach::All { "any" } else { &reach.to_string() };
        let mut client = Client::new(&self.hub().url(), Some(&secret));
        until(|| client.get(&format!("/{path}/objects?limit=1")).status != 401);
        secret
    }
}

/// Waits until something holds, as long as a slow machine may need.
pub fn until(mut holds: impl FnMut() -> bool) {
    for _ in 0..600 {
        if holds() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    panic!("it did not come to hold within 30 s");
}

/// Path of a batch.
pub fn batch(place: &str, n: u64) -> String {
    format!("/{place}/objects/{}", ObjectName::batch(DATABASE, SITE, n - 1, n))
}

/// Path of a snapshot.
pub fn snapshot(place: &str, n: u64) -> String {
    format!("/{place}/objects/{}", ObjectName::snapshot(DATABASE, SITE, n))
}

/// Files below a folder of the store.
pub fn files(dir: &Path) -> Vec<PathBuf> {
    let mut found: Vec<_> =
        std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    found.sort();
    found
}

/// Bytes that differ from place to place.
pub fn bytes(length: usize, seed: u8) -> Vec<u8> {
    (0..length).map(|n| ((n as u64 * 2_654_435_761) >> 7) as u8 ^ seed).collect()
}
