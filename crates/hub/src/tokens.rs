//! Access tokens: what is kept of them, and where.
//!
//! A token is `synq_` and 32 random bytes in hex digits. Only its BLAKE3 hash is kept: who reads the
//! file cannot use it, and finding a token by its hash takes the same time whatever was guessed.

use crate::backend::{Millis, TokenId};
use crate::error::{Error, Result};
use crate::place::Place;
use crate::private;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::fmt;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::SystemTime;
use synqlite_wire::SiteId;

/// Start of every token.
const PREFIX: &str = "synq_";
/// The form of the file that this release writes.
const FORMAT: u64 = 2;
/// The form without tokens that are bound to sites. It is written where there are none: a release
/// that knows no other would take such a token for one that is not bound.
const UNBOUND: u64 = 1;

/// What a token may do; each may do what the one before may.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Scope {
    /// List, read, wait.
    Read,
    /// Put.
    Write,
    /// Remove; with all places, see everything about the hub.
    Admin,
}

impl Scope {
    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Scope::Read => "read",
            Scope::Write => "write",
            Scope::Admin => "admin",
        }
    }
}

impl FromStr for Scope {
    type Err = String;

    fn from_str(text: &str) -> Result<Scope, String> {
        let all = [Scope::Read, Scope::Write, Scope::Admin];
        let found = all.into_iter().find(|scope| scope.as_str() == text);
        found.ok_or_else(|| format!("`{text}` is no scope: write read, write or admin"))
    }
}

/// Where a token is good.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Reach {
    /// In all places, written `*`.
    All,
    /// In one.
    One(Place),
}

impl Reach {
    /// Whether it is good there; `None` means all of the hub.
    pub fn covers(&self, place: Option<&Place>) -> bool {
        match self {
            Reach::All => true,
            Reach::One(own) => place == Some(own),
        }
    }
}

impl fmt::Display for Reach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reach::All => f.write_str("*"),
            Reach::One(place) => place.fmt(f),
        }
    }
}

impl FromStr for Reach {
    type Err = crate::place::BadPlace;

    fn from_str(text: &str) -> Result<Reach, Self::Err> {
        if text == "*" { Ok(Reach::All) } else { Place::parse(text).map(Reach::One) }
    }
}

/// What a token may do at most. What is absent is as the hub's settings have it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Allowance {
    /// Bytes of an object.
    pub object: Option<u64>,
    /// Bytes that it may store in all.
    pub storage: Option<u64>,
    /// Requests a second.
    pub rate: Option<u32>,
}

/// Hash of a token.
pub type Hash = [u8; 32];

/// What is kept of a token.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Token {
    /// Names it, in lists and for revoking.
    pub id: TokenId,
    /// BLAKE3 of its text.
    pub hash: Hash,
    /// Where it is good.
    pub reach: Reach,
    /// What it may do.
    pub scope: Scope,
    /// When it was made.
    pub made: Millis,
    /// From when on it is not good any more.
    pub expires: Option<Millis>,
    /// What people call it.
    pub name: Option<String>,
    /// Limits of its own.
    pub allowance: Allowance,
    /// What it puts must be written by one of these sites; by any if there are none.
    pub sites: Vec<SiteId>,
}

impl Token {
    /// A new token, and its text, which nobody can ask for again.
    pub fn make(
        reach: Reach,
        scope: Scope,
        made: Millis,
        expires: Option<Millis>,
        name: Option<String>,
    ) -> Result<(Token, String)> {
        if name.as_deref().is_some_and(|name| name.contains(char::is_control)) {
            let what = "the name of a token has a line break or another control character".into();
            return Err(Error::Setting { what, hint: "Use a name of one line" });
        }
        let mut secret = [0_u8; 32];
        let mut id = [0; 8];
        let random = |out: &mut [u8]| getrandom::fill(out).map_err(|e| Error::away(e.to_string()));
        random(&mut secret)?;
        random(&mut id)?;
        let digits: String = secret.iter().map(|byte| format!("{byte:02x}")).collect();
        let text = format!("{PREFIX}{digits}");
        // 0 is nobody.
        let id = u64::from_be_bytes(id).max(1);
        let (hash, allowance) = (hash(&text), Allowance::default());
        let sites = Vec::new();
        Ok((Token { id, hash, reach, scope, made, expires, name, allowance, sites }, text))
    }

    /// Its id as people write it.
    pub fn id_text(&self) -> String {
        format!("{:016x}", self.id)
    }

    fn to_json(&self) -> Value {
        json!({
            "id": self.id_text(),
            "hash": blake3::Hash::from_bytes(self.hash).to_hex().as_str(),
            "place": self.reach.to_string(),
            "scope": self.scope.as_str(),
            "made": self.made,
            "expires": self.expires,
            "name": self.name,
            "object_bytes": self.allowance.object,
            "stored_bytes": self.allowance.storage,
            "requests_per_second": self.allowance.rate,
            "sites": self.sites.iter().map(SiteId::to_string).collect::<Vec<_>>(),
        })
    }

    fn from_json(value: &Value) -> Option<Token> {
        let text = |key: &str| value[key].as_str();
        let sites = match &value["sites"] {
            Value::Null => Vec::new(),
            sites => {
                let sites = sites.as_array()?.iter().map(|site| site.as_str()?.parse().ok());
                sites.collect::<Option<_>>()?
            }
        };
        Some(Token {
            id: u64::from_str_radix(text("id")?, 16).ok()?,
            hash: *blake3::Hash::from_hex(text("hash")?).ok()?.as_bytes(),
            reach: text("place")?.parse().ok()?,
            scope: text("scope")?.parse().ok()?,
            made: value["made"].as_i64()?,
            expires: value["expires"].as_i64(),
            name: text("name").map(str::to_owned),
            allowance: Allowance {
                object: value["object_bytes"].as_u64(),
                storage: value["stored_bytes"].as_u64(),
                rate: value["requests_per_second"].as_u64().and_then(|n| n.try_into().ok()),
            },
            sites,
        })
    }
}

/// Hash of a token's text.
pub fn hash(text: &str) -> Hash {
    *blake3::hash(text.as_bytes()).as_bytes()
}

/// Tokens by their hashes.
pub type Tokens = HashMap<Hash, Token>;

/// Tokens as they are kept.
pub fn write_tokens(tokens: &[Token]) -> String {
    let bound = tokens.iter().any(|token| !token.sites.is_empty());
    let tokens: Vec<_> = tokens.iter().map(Token::to_json).collect();
    let format = if bound { FORMAT } else { UNBOUND };
    format!("{:#}\n", json!({"format": format, "tokens": tokens}))
}

/// Reads what [`write_tokens`] wrote; `what` names its source.
pub fn read_tokens(text: &str, what: &str) -> Result<Vec<Token>> {
    let bad = |why| Error::Damaged { what: what.to_owned(), why };
    let value: Value = serde_json::from_str(text).map_err(|_| bad("it is not JSON"))?;
    let found = value["format"].as_u64().ok_or_else(|| bad("it has no format"))?;
    if found > FORMAT {
        return Err(Error::Newer { what: what.to_owned(), found, known: FORMAT });
    }
    let tokens = value["tokens"].as_array().ok_or_else(|| bad("it has no list of tokens"))?;
    let tokens: Option<Vec<_>> = tokens.iter().map(Token::from_json).collect();
    tokens.ok_or_else(|| bad("a token in it is not of the right form"))
}

/// What differs when a file was changed: when, its length, and which file it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FileStamp(SystemTime, u64, u64);

/// The file of tokens beside an embedded store. A hub need not run to change it, and may run.
#[derive(Clone, Debug)]
pub struct TokenFile {
    path: PathBuf,
}

impl TokenFile {
    /// The file of the store in `dir`.
    pub fn of(dir: &Path) -> TokenFile {
        TokenFile { path: dir.join("tokens.json") }
    }

    /// All tokens, in the order in which they were made; none if there is no file.
    pub fn read(&self) -> Result<Vec<Token>> {
        match fs::read_to_string(&self.path) {
            Ok(text) => read_tokens(&text, &self.path.display().to_string()),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(e) => Err(Error::io("read", &self.path)(e)),
        }
    }

    /// Changes the tokens; two that do it at once wait for each other. The file is replaced as a
    /// whole, and only its owner can read it.
    pub fn change<T>(&self, f: impl FnOnce(&mut Vec<Token>) -> T) -> Result<T> {
        let folder = self.path.parent().unwrap_or(Path::new("."));
        private::make(folder)?;
        let lock_path = self.path.with_extension("lock");
        let lock = opened(&lock_path).map_err(Error::io("write", &lock_path))?;
        lock.lock().map_err(Error::io("lock", &lock_path))?;
        let mut tokens = self.read()?;
        let done = f(&mut tokens);
        let temp = self.path.with_extension("new");
        let written = opened(&temp).and_then(|mut file| {
            file.set_len(0)?;
            file.write_all(write_tokens(&tokens).as_bytes())?;
            file.sync_all()
        });
        written.map_err(Error::io("write", &temp))?;
        let renamed = fs::rename(&temp, &self.path);
        renamed.map_err(Error::io("write", &self.path))?;
        let synced = File::open(folder).and_then(|folder| folder.sync_all());
        synced.map_err(Error::io("sync", folder))?;
        Ok(done)
    }

    /// Something that differs when the file was changed.
    pub fn stamp(&self) -> Option<FileStamp> {
        use std::os::unix::fs::MetadataExt;
        let found = fs::metadata(&self.path).ok()?;
        Some(FileStamp(found.modified().ok()?, found.len(), found.ino()))
    }
}

/// Opens a file that only its owner may read.
fn opened(path: &Path) -> std::io::Result<File> {
    private::writing().create(true).truncate(false).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(name: &str) -> (Token, String) {
        let reach = "todo".parse().unwrap();
        Token::make(reach, Scope::Write, 5, Some(9), Some(name.to_owned())).unwrap()
    }

    #[test]
    fn tokens_are_random_and_only_their_hash_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        let file = TokenFile::of(dir.path());
        assert_eq!(file.read().unwrap(), []);
        let (one, secret) = token("one");
        let (mut two, other) = token("two");
        two.allowance = Allowance { object: Some(1), storage: Some(u64::MAX), rate: Some(3) };
        assert!(secret.starts_with("synq_") && secret.len() == 69 && secret != other);
        assert_eq!(hash(&secret), one.hash);
        file.change(|tokens| tokens.extend([one.clone(), two.clone()])).unwrap();
        let stamp = file.stamp();
        assert_eq!(file.read().unwrap(), [one.clone(), two]);
        assert!(!fs::read_to_string(&file.path).unwrap().contains(&secret[5..]));
        file.change(|tokens| tokens.pop()).unwrap();
        assert_eq!(file.read().unwrap(), [one]);
        assert_ne!(file.stamp(), stamp);
    }

    #[test]
    fn a_release_that_knows_no_sites_refuses_tokens_that_are_bound_to_some() {
        let (free, mut bound) = (token("free").0, token("bound").0);
        bound.sites = vec![synqlite_wire::Id([7; 16]), synqlite_wire::Id([8; 16])];
        let free = write_tokens(&[free]);
        assert!(free.contains("\"format\": 1"), "{free}");
        let text = write_tokens(&[bound.clone()]);
        assert!(text.contains("\"format\": 2"), "{text}");
        assert_eq!(read_tokens(&text, "it").unwrap(), [bound]);
        let bad = text.replace("0707", "zz07");
        assert!(matches!(read_tokens(&bad, "it"), Err(Error::Damaged { .. })));
    }

    #[test]
    fn nobody_else_reads_the_file() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let file = TokenFile::of(dir.path());
        file.change(|_| ()).unwrap();
        assert_eq!(fs::metadata(&file.path).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn changes_wait_for_each_other() {
        let dir = tempfile::tempdir().unwrap();
        let file = TokenFile::of(dir.path());
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| file.change(|tokens| tokens.push(token("x").0)).unwrap());
            }
        });
        assert_eq!(file.read().unwrap().len(), 8);
    }

    #[test]
    fn damage_is_told() {
        let bad = ["", "{}", "[]", r#"{"format":1}"#, r#"{"format":1,"tokens":[{}]}"#];
        for text in bad {
            assert!(matches!(read_tokens(text, "it"), Err(Error::Damaged { .. })), "{text}");
        }
        let newer = read_tokens(r#"{"format":3,"tokens":[]}"#, "it");
        assert!(matches!(newer, Err(Error::Newer { found: 3, .. })));
    }

    #[test]
    fn a_token_reaches_its_place_only() {
        let (a, b) = (Place::parse("a").unwrap(), Place::parse("b").unwrap());
        let one = Reach::One(a.clone());
        assert!(one.covers(Some(&a)) && !one.covers(Some(&b)) && !one.covers(None));
        assert!(Reach::All.covers(Some(&a)) && Reach::All.covers(None));
    }
}
