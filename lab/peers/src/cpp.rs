//! LevelDB and RocksDB, through `shim.cc`.

use std::ffi::{CString, c_char, c_int, c_longlong, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use synqlite_lab::store::{Label, Op, Store, Wish};
use synqlite_lab::{Error, Result};

/// An operation as the shim has it.
#[repr(C)]
struct Raw {
    key: *const c_char,
    key_length: usize,
    /// Null deletes.
    value: *const c_char,
    value_length: usize,
}

impl Raw {
    fn new(&(key, value): &Op<'_>) -> Raw {
        Raw {
            key: key.as_ptr().cast(),
            key_length: key.len(),
            value: value.map_or(std::ptr::null(), |v| v.as_ptr().cast()),
            value_length: value.map_or(0, str::len),
        }
    }
}

/// Room for what the shim says.
struct Why([u8; 160]);

impl Why {
    fn new() -> Why {
        Why([0; 160])
    }

    fn parts(&mut self) -> (*mut c_char, usize) {
        (self.0.as_mut_ptr().cast(), self.0.len())
    }

    fn text(&self) -> String {
        let end = self.0.iter().position(|b| *b == 0).unwrap_or(self.0.len());
        String::from_utf8_lossy(&self.0[..end]).into_owned()
    }

    fn error(&self, store: &'static str) -> Error {
        Error::peer(store)(self.text())
    }
}

macro_rules! store {
    ($module:ident, $alike:path, $note:literal, $version:ident, $open:ident, $write:ident,
     $read:ident, $scan:ident, $close:ident) => {
        pub mod $module {
            use super::*;

            const STORE: &str = stringify!($module);

            unsafe extern "C" {
                fn $version(text: *mut c_char, room: usize);
                fn $open(
                    path: *const c_char,
                    alike: bool,
                    sync: bool,
                    why: *mut c_char,
                    room: usize,
                ) -> *mut c_void;
                fn $write(
                    store: *mut c_void,
                    ops: *const Raw,
                    count: usize,
                    why: *mut c_char,
                    room: usize,
                ) -> c_int;
                fn $read(
                    store: *mut c_void,
                    key: *const c_char,
                    length: usize,
                    why: *mut c_char,
                    room: usize,
                ) -> c_int;
                fn $scan(store: *mut c_void, why: *mut c_char, room: usize) -> c_longlong;
                fn $close(store: *mut c_void);
            }

            struct Handle(*mut c_void);

            // SAFETY: the store behind the pointer may be used by several threads at once, as its
            // documentation says, and has no tie to the one that opened it.
            unsafe impl Send for Handle {}
            // SAFETY: as above.
            unsafe impl Sync for Handle {}

            impl Drop for Handle {
                fn drop(&mut self) {
                    // SAFETY: the pointer is from `open`, and nobody uses it after this.
                    unsafe { $close(self.0) }
                }
            }

            pub fn label(wish: Wish) -> Label {
                let mut version = Why::new();
                let (text, room) = version.parts();
                // SAFETY: the shim writes at most `room` bytes, with a zero at their end.
                unsafe { $version(text, room) }
                let set = if wish.name == $alike { crate::ALIKE } else { "defaults" };
                let settings = format!("{set}, no compression, sync {}; {}", wish.sync, $note);
                Label { version: version.text(), settings }
            }

            pub fn open(dir: &Path, wish: Wish) -> Result<Box<dyn Store>> {
                let path = CString::new(dir.as_os_str().as_bytes()).map_err(Error::peer(STORE))?;
                let mut why = Why::new();
                let (text, room) = why.parts();
                // SAFETY: path and buffer live until it returns.
                let store =
                    unsafe { $open(path.as_ptr(), wish.name == $alike, wish.sync, text, room) };
                if store.is_null() { Err(why.error(STORE)) } else { Ok(Box::new(Handle(store))) }
            }

            impl Store for Handle {
                fn write(&self, ops: &[Op<'_>]) -> Result<()> {
                    let one;
                    let many: Vec<Raw>;
                    let raw: &[Raw] = if let [op] = ops {
                        one = [Raw::new(op)];
                        &one
                    } else {
                        many = ops.iter().map(Raw::new).collect();
                        &many
                    };
                    let mut why = Why::new();
                    let (text, room) = why.parts();
                    // SAFETY: the store is open; keys, values and buffer live until it returns.
                    match unsafe { $write(self.0, raw.as_ptr(), raw.len(), text, room) } {
                        0 => Ok(()),
                        _ => Err(why.error(STORE)),
                    }
                }

                fn read(&self, keys: &[&str]) -> Result<u64> {
                    let mut found = 0;
                    let mut why = Why::new();
                    let (text, room) = why.parts();
                    for key in keys {
                        let (start, length) = (key.as_ptr().cast(), key.len());
                        // SAFETY: the store is open; key and buffer live until it returns.
                        match unsafe { $read(self.0, start, length, text, room) } {
                            0 => {}
                            1 => found += 1,
                            _ => return Err(why.error(STORE)),
                        }
                    }
                    Ok(found)
                }

                fn scan(&self) -> Result<u64> {
                    let mut why = Why::new();
                    let (text, room) = why.parts();
                    // SAFETY: the store is open; the buffer lives until it returns.
                    let found = unsafe { $scan(self.0, text, room) };
                    u64::try_from(found).map_err(|_| why.error(STORE))
                }

                fn close(self: Box<Self>) -> Result<()> {
                    Ok(())
                }
            }
        }
    };
}

use synqlite_lab::store::Name;

store!(
    leveldb,
    Name::LevelDbAlike,
    "a write is one call of the system",
    shim_leveldb_version,
    shim_leveldb_open,
    shim_leveldb_write,
    shim_leveldb_read,
    shim_leveldb_scan,
    shim_leveldb_close
);
store!(
    rocksdb,
    Name::RocksDbAlike,
    "a write is one call of the system",
    shim_rocksdb_version,
    shim_rocksdb_open,
    shim_rocksdb_write,
    shim_rocksdb_read,
    shim_rocksdb_scan,
    shim_rocksdb_close
);
