//! What can go wrong with a remote, in terms a caller can act on.

use crate::name::ObjectName;
use std::io;
use std::path::{Path, PathBuf};
use synqlite_wire::DatabaseId;
use synqlite_wire::units::bytes;

/// Result of every call on a store.
pub type Result<T> = std::result::Result<T, Error>;

/// A call on a store failed; the store and every local file are as they were.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No object of this name, or nobody has finished writing it.
    #[error("the remote has no object `{name}`. Synchronize again once it has arrived")]
    NotFound {
        /// The object asked for.
        name: ObjectName,
    },
    /// The operating system refused something on a file or folder of this machine.
    #[error(
        "cannot {doing} `{path}`: {source}. \
         Check that its disk is mounted and has room, and that you have access to it"
    )]
    Io {
        /// What was attempted, as a verb.
        doing: &'static str,
        /// On which file or folder.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// No file can be made beside one of this machine.
    #[error(
        "cannot make a file beside `{path}`: {source}. What is sent or fetched is put together there: \
         make its folder writable, and see that the disk has room"
    )]
    Beside {
        /// What it is for.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// An object stopped arriving.
    #[error("cannot read `{name}` from the remote: {source}. Try again")]
    Read {
        /// The object asked for.
        name: ObjectName,
        /// Why it failed.
        source: io::Error,
    },
    /// A snapshot could not be written where the caller wanted it.
    #[error("cannot write `{name}`: {source}. Check that there is room for it and try again")]
    Write {
        /// The snapshot.
        name: ObjectName,
        /// Why it failed.
        source: io::Error,
    },
    /// An object of no bytes was to be put; stores take an empty file for an unfinished one.
    #[error("`{name}` has no bytes; an object cannot be empty. Put its content")]
    EmptyObject {
        /// The object.
        name: ObjectName,
    },
    /// A snapshot is cut short, altered, or no snapshot.
    #[error(
        "the snapshot `{name}` is damaged: {why}. \
         Synchronize again once it has arrived in full, or remove it from the remote"
    )]
    BadSnapshot {
        /// The snapshot.
        name: ObjectName,
        /// What does not fit.
        why: &'static str,
    },
    /// A snapshot of a format that this version does not read.
    #[error("the snapshot `{name}` has format {version}, this program reads 1. Update synqlite")]
    NewerSnapshot {
        /// The snapshot.
        name: ObjectName,
        /// Its format version.
        version: u16,
    },
    /// The file to make a snapshot of is not as long as its header says.
    #[error("`{path}` changed while a snapshot of it was written. Try again")]
    SourceChanged {
        /// The file.
        path: PathBuf,
    },
    /// The store holds databases, but not the one wanted.
    #[error(
        "{address} holds no data of database {expected}, only of {}. \
         Replicas synchronize with clones of the same database: check the remote, or clone it; if it is \
         sealed, say where the key is: --key-file FILE",
        list(.found)
    )]
    DatabaseMismatch {
        /// The store.
        address: String,
        /// The database wanted.
        expected: DatabaseId,
        /// Those it holds.
        found: Vec<DatabaseId>,
    },
    /// Nothing has been pushed to the store.
    #[error("{address} holds no database. Push a replica to it first")]
    NoDatabase {
        /// The store.
        address: String,
    },
    /// The storage has no such bucket.
    #[error("{address} is not there. Check its name, or make the bucket")]
    NoBucket {
        /// The bucket.
        address: String,
    },
    /// The store holds several databases, and the caller named none.
    #[error("{address} holds several databases: {}. Use one folder for each", list(.found))]
    SeveralDatabases {
        /// The store.
        address: String,
        /// Those it holds.
        found: Vec<DatabaseId>,
    },
    /// A store on the network does not answer, or breaks off again and again.
    #[error("cannot reach {address}: {why}{}", way_out(why))]
    Unreachable {
        /// The store.
        address: String,
        /// What happened the last time.
        why: String,
    },
    /// A store on the network does not know who asks, or does not let them.
    #[error("{address} {why}. {hint}")]
    Denied {
        /// The store.
        address: String,
        /// Which of the two.
        why: String,
        /// How to say who asks.
        hint: &'static str,
    },
    /// A store on the network shows the certificate of an authority as its own.
    #[error(
        "{address} shows the certificate of an authority as its own, which is not accepted even where \
         that authority is trusted. Give the hub one that the authority signed for it; or make one that \
         stands alone and is no authority: openssl req -x509 … -addext basicConstraints=critical,CA:FALSE"
    )]
    AuthorityAsServer {
        /// The store.
        address: String,
    },
    /// A store on the network refuses what it was asked, for a reason that will not pass.
    #[error("{address} refuses: {why}")]
    Refused {
        /// The store.
        address: String,
        /// What it says, with its hint.
        why: String,
    },
    /// A store on the network takes no object as large as one that is to be put.
    #[error(
        "{address} does not take an object of {}: {why}. What was not sent yet is one object, and the \
         first is the whole database: neither gets smaller by waiting",
        bytes(*.size)
    )]
    TooLarge {
        /// The store.
        address: String,
        /// Bytes of the object.
        size: u64,
        /// What it says.
        why: String,
    },
    /// Something answers that does not speak as this kind of store does.
    #[error("{address} does not answer as it should: {why}. {hint}")]
    NotAHub {
        /// The store.
        address: String,
        /// What is wrong with the answer.
        why: String,
        /// What to do about it.
        hint: String,
    },
    /// An object that is sealed is read without a key.
    #[error("`{name}` is sealed. Say where the key is: --key-file FILE")]
    SealedObject {
        /// The object.
        name: ObjectName,
    },
    /// What is in a store was sealed with another key.
    #[error("{address} is sealed with another key. Use the key file of the sites that push there")]
    WrongKey {
        /// The store.
        address: String,
    },
    /// A key is given for a store whose objects are not sealed.
    #[error(
        "{address} is not sealed, and a key is given for it. \
         Use it without one, or seal what goes to another address"
    )]
    NotSealed {
        /// The store.
        address: String,
    },
    /// An object does not open with the right key.
    #[error(
        "`{name}`, which lies there as `{kept}`, does not open: it is cut short, altered, or another \
         object under this name. Remove it from the remote if it stays so: a site that has its changes \
         sends them again"
    )]
    Unsealable {
        /// The object asked for.
        name: ObjectName,
        /// The name that the store has for it.
        kept: ObjectName,
    },
    /// A key file cannot be read.
    #[error(
        "cannot read the key file `{path}`: {why}. Without that key what is sealed with it is lost: \
         restore the file from a copy, or push a replica to a new address with a new key"
    )]
    NoKey {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// A text that is no URL of a store on the network.
    #[error("`{url}` is not the URL of {kind}: {why}. Write it like {like}")]
    NotAStoreUrl {
        /// The text.
        url: String,
        /// What kind of store it names by its scheme.
        kind: &'static str,
        /// What does not fit.
        why: &'static str,
        /// A good one.
        like: &'static str,
    },
    /// A text that is no URL of a folder on this machine.
    #[error("`{url}` is not the URL of a folder: {why}. Write it like file:///media/stick/team/")]
    NotAFolderUrl {
        /// The text.
        url: String,
        /// What does not fit.
        why: &'static str,
    },
}

/// Inside the error of a stream: what it reads was not sealed so.
#[derive(Debug, thiserror::Error)]
#[error("it is cut short, altered, or another object under this name")]
pub(crate) struct Altered {
    /// The name that the store has for it.
    pub(crate) kept: ObjectName,
}

/// What to do about a store that cannot be reached, if why it cannot does not say that itself.
fn way_out(why: &str) -> &'static str {
    // Neither TLS nor HTTP has a type for these that reaches us.
    let says = |words: &[&str]| words.iter().any(|word| why.contains(word));
    if says(&["UnknownIssuer"]) {
        ". This machine does not trust who signed it: add that authority to the system's, or name it in \
         SSL_CERT_FILE"
    } else if says(&["invalid peer certificate"]) {
        ". Check the address and this machine's date; or the hub needs a certificate that is good for both"
    } else if says(&["InvalidContentType", "InvalidMessage", "invalid HTTP version"]) {
        ". One side speaks HTTPS and the other HTTP: write https:// where the hub has a certificate, \
         http:// where it has none"
    } else if says(&[". "]) {
        ""
    } else {
        ". Check the address and the network, and try again"
    }
}

fn list(databases: &[DatabaseId]) -> String {
    databases.iter().map(DatabaseId::to_string).collect::<Vec<_>>().join(", ")
}

impl Error {
    /// Whether this machine knows no authority that vouches for a store on the network.
    pub fn is_distrust(&self) -> bool {
        let signs = ["UnknownIssuer", "No CA certificates"];
        matches!(self, Error::Unreachable { why, .. } if signs.iter().any(|sign| why.contains(sign)))
    }

    /// For `map_err`: the object `name` stopped arriving, or what arrives does not open.
    pub fn read(name: &ObjectName) -> impl Fn(io::Error) -> Error {
        let name = *name;
        move |source| match source.get_ref().and_then(|inner| inner.downcast_ref()) {
            Some(Altered { kept }) => Error::Unsealable { name, kept: *kept },
            None => Error::Read { name, source },
        }
    }

    /// For `map_err`: the operating system refused `doing` on `path`.
    pub fn io(doing: &'static str, path: &Path) -> impl Fn(io::Error) -> Error {
        move |source| Error::Io { doing, path: path.to_owned(), source }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_to_do_is_said_once() {
        let told = |why: &str| {
            Error::Unreachable { address: "the hub".into(), why: why.into() }.to_string()
        };
        let often = "this token asks too often. Wait as Retry-After says";
        assert_eq!(told(often), format!("cannot reach the hub: {often}"));
        assert!(told("io: Connection refused").ends_with("network, and try again"));
        let plain = told("io: received corrupt message of type InvalidContentType");
        assert!(plain.ends_with("http:// where it has none"), "{plain}");
    }
}
