//! Behaviour of the file system, through SQLite, on real files. Each module is one promise.

mod block;
mod counts;
mod crash;
mod equal;
mod faults;
mod killed;
mod lab;
mod many;
mod mortal;
mod real;
mod refuse;
mod states;

/// Numbers that look random and depend on nothing but a seed.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// The numbers of a seed.
    pub fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0xD1B5_4A32_D192_ED03)
    }

    /// A number below `end`.
    pub fn below(&mut self, end: usize) -> usize {
        (self.bits() % end.max(1) as u64) as usize
    }

    /// True in `percent` of a hundred cases.
    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
}

/// Makes `vfs=dash` known: that of this crate, or, with `SYNQLITE_EXTENSION=path`, that of an
/// extension, which the system's SQLite loads.
pub fn register() {
    let Some(path) = std::env::var_os("SYNQLITE_EXTENSION") else {
        return synqlite_dash::register().expect("registers");
    };
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| load(&path));
}

#[allow(unsafe_code)]
fn load(path: &std::ffi::OsStr) {
    let db = rusqlite::Connection::open_in_memory().expect("opens");
    // SAFETY: the extension is the one that this repository builds.
    let loaded =
        unsafe { db.load_extension_enable().and_then(|()| db.load_extension(path, None::<&str>)) };
    loaded.expect("the extension loads");
}

/// A folder for files, in memory where the system has such a place.
pub fn folder() -> tempfile::TempDir {
    let memory = std::path::Path::new("/dev/shm");
    let made = match memory.is_dir() {
        true => tempfile::tempdir_in(memory),
        false => tempfile::tempdir(),
    };
    made.expect("a folder")
}
