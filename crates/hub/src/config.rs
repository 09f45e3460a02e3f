//! The file of settings: TOML, every key optional, an unknown one refused by name.

use crate::error::{Error, Result};
use crate::location::Location;
use crate::serve::Settings;
use serde::Deserialize;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What a file of settings says. `docs/guides/hub.md` explains each.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Address and port.
    pub listen: Option<String>,
    /// Where objects are kept.
    pub store: Option<String>,
    /// Folder for what is on its way, and for the copy of a bucket.
    pub scratch: Option<PathBuf>,
    /// Everybody may read and write.
    pub open: Option<bool>,
    /// Certificate chain, a PEM file.
    pub tls_cert: Option<PathBuf>,
    /// Its key, a PEM file.
    pub tls_key: Option<PathBuf>,
    /// What is logged: error, warn, info or debug.
    pub log: Option<String>,
    /// Threads that work on requests.
    pub threads: Option<usize>,
    /// Bytes of the store that are kept in memory.
    pub cache_bytes: Option<usize>,
    /// Puts are refused while the disk has less free space.
    pub reserve_bytes: Option<u64>,
    /// How long the first put waits for others that become durable with it.
    pub gather_milliseconds: Option<u32>,
    /// In a bucket: a hub that does not renew its lease for so long has gone.
    pub lease_seconds: Option<u32>,
    /// A site that was not seen for so long is not waited for.
    pub retire_days: Option<u32>,
    /// How long requests may take to finish when the hub stops.
    pub grace_seconds: Option<u32>,
    /// What one request may ask for.
    #[serde(default)]
    pub limits: ConfigLimits,
}

/// The section `[limits]`.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConfigLimits {
    /// Largest object.
    pub object_bytes: Option<u64>,
    /// What a token may store in all.
    pub token_bytes: Option<u64>,
    /// Requests that a token may make.
    pub token_requests_per_second: Option<u32>,
    /// Sites that are known of a place.
    pub sites: Option<usize>,
    /// Connections at a time.
    pub connections: Option<usize>,
    /// How long the next bytes of a body may take.
    pub body_seconds: Option<u32>,
    /// The least pace of a body.
    pub body_bytes_per_second: Option<u64>,
}

impl Config {
    /// Reads a file.
    pub fn read(path: &Path) -> Result<Config> {
        let text = std::fs::read_to_string(path).map_err(Error::io("read", path))?;
        toml::from_str(&text).map_err(|e| {
            let at = e.span().map_or(0, |span| text[..span.start].matches('\n').count() + 1);
            let what = format!("{}, line {at}: {}", path.display(), e.message());
            Error::Setting { what, hint: "The guide to the hub lists all settings" }
        })
    }

    /// The numbers that cannot work at every value, and what they may be.
    fn bounded(&self) -> [(&'static str, Option<u64>, RangeInclusive<u64>); 10] {
        let limits = &self.limits;
        let many = |n: Option<usize>| n.map(|n| n as u64);
        let few = |n: Option<u32>| n.map(u64::from);
        [
            ("threads", many(self.threads), 1..=1024),
            ("gather_milliseconds", few(self.gather_milliseconds), 0..=1000),
            ("lease_seconds", few(self.lease_seconds), 1..=3600),
            ("grace_seconds", few(self.grace_seconds), 0..=86_400),
            ("limits.object_bytes", limits.object_bytes, 1..=u64::MAX),
            ("limits.token_bytes", limits.token_bytes, 1..=u64::MAX),
            (
                "limits.token_requests_per_second",
                few(limits.token_requests_per_second),
                1..=u64::from(u32::MAX),
            ),
            ("limits.sites", many(limits.sites), 1..=u64::MAX),
            ("limits.connections", many(limits.connections), 1..=1_000_000),
            ("limits.body_seconds", few(limits.body_seconds), 1..=86_400),
        ]
    }

    /// Refuses numbers with which nobody could use the hub.
    fn check(&self) -> Result<()> {
        for (name, number, range) in self.bounded() {
            let Some(n) = number.filter(|n| !range.contains(n)) else { continue };
            let what = match (range.start(), *range.end()) {
                (least, u64::MAX) => format!("{name} = {n}: it must be {least} or more"),
                (least, most) => format!("{name} = {n}: it must be from {least} to {most}"),
            };
            return Err(Error::Setting { what, hint: "Set it so, or leave it out" });
        }
        Ok(())
    }

    /// Changes settings to what the file says.
    pub fn apply(&self, to: &mut Settings) -> Result<()> {
        self.check()?;
        fn set<T: Clone>(to: &mut T, from: &Option<T>) {
            if let Some(value) = from {
                to.clone_from(value);
            }
        }
        let seconds = |n: Option<u32>| n.map(|n| Duration::from_secs(n.into()));
        if let Some(store) = &self.store {
            to.store = Location::parse(store)?;
        }
        set(&mut to.listen, &self.listen);
        set(&mut to.scratch, &self.scratch);
        set(&mut to.open, &self.open);
        match (&self.tls_cert, &self.tls_key) {
            (Some(cert), Some(key)) => to.tls = Some((cert.clone(), key.clone())),
            (None, None) => {}
            _ => {
                let what = "only one of tls_cert and tls_key is set".to_owned();
                return Err(Error::Setting { what, hint: "Set both, or neither" });
            }
        }
        to.threads = self.threads.or(to.threads);
        set(&mut to.setup.cache, &self.cache_bytes);
        set(&mut to.setup.reserve, &self.reserve_bytes);
        let gather = self.gather_milliseconds.map(|n| Duration::from_millis(n.into()));
        set(&mut to.setup.gather, &gather);
        set(&mut to.setup.sites, &self.limits.sites);
        set(&mut to.setup.lease, &seconds(self.lease_seconds));
        set(&mut to.patience, &seconds(self.retire_days.map(|days| days.saturating_mul(86_400))));
        set(&mut to.grace, &seconds(self.grace_seconds));
        let ConfigLimits { object_bytes, token_bytes, connections, body_seconds, .. } = self.limits;
        set(&mut to.limits.object, &object_bytes);
        to.limits.storage = token_bytes.or(to.limits.storage);
        to.limits.rate = self.limits.token_requests_per_second.or(to.limits.rate);
        set(&mut to.limits.connections, &connections);
        set(&mut to.limits.patience, &seconds(body_seconds));
        set(&mut to.limits.pace, &self.limits.body_bytes_per_second);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    fn applied(text: &str) -> Result<Settings> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("hub.toml");
        std::fs::write(&path, text).unwrap();
        let mut settings = Settings::new(Location::parse("a").unwrap(), Arc::new(|| 0));
        Config::read(&path)?.apply(&mut settings)?;
        Ok(settings)
    }

    #[test]
    fn what_is_said_is_applied_and_the_rest_stays() {
        let settings = applied(
            "listen = '0.0.0.0:80'\nretire_days = 7\nstore = 'b'\n[limits]\nobject_bytes = 9\n\
             token_requests_per_second = 5\nbody_seconds = 2\n",
        )
        .unwrap();
        assert_eq!(settings.listen, "0.0.0.0:80");
        assert_eq!(settings.store, Location::parse("b").unwrap());
        assert_eq!(settings.patience, Duration::from_secs(7 * 86_400));
        assert_eq!((settings.limits.object, settings.limits.rate), (9, Some(5)));
        assert_eq!(settings.limits.patience, Duration::from_secs(2));
        assert_eq!((settings.limits.storage, settings.open), (None, false));
    }

    #[test]
    fn nothing_has_a_meaning_where_it_can() {
        let none = "gather_milliseconds = 0\nreserve_bytes = 0\ncache_bytes = 0\nretire_days = 0\n\
                    grace_seconds = 0\n[limits]\nbody_bytes_per_second = 0\n";
        assert_eq!(applied(none).unwrap().limits.pace, 0);
    }

    #[test]
    fn mistakes_are_named_with_their_line() {
        for (text, says) in [
            ("open = true\nlisten_on = 'x'", "line 2: unknown field `listen_on`"),
            ("[limits]\nobject_bytes = 'x'", "line 2"),
            ("open = 7", "line 1"),
            ("tls_key = 'x'", "only one of"),
            ("store = 'ftp://x'", "ftp:// is no store"),
            ("threads = 100000", "threads = 100000: it must be from 1 to 1024"),
            ("threads = 0", "threads = 0"),
            ("gather_milliseconds = 1000000", "gather_milliseconds = 1000000: it must be from 0"),
            ("lease_seconds = 0", "lease_seconds = 0"),
            ("[limits]\nobject_bytes = 0", "limits.object_bytes = 0: it must be 1 or more"),
            ("[limits]\ntoken_bytes = 0", "limits.token_bytes = 0"),
            ("[limits]\ntoken_requests_per_second = 0", "limits.token_requests_per_second = 0"),
            ("[limits]\nsites = 0", "limits.sites = 0"),
            ("[limits]\nconnections = 0", "limits.connections = 0"),
            ("[limits]\nbody_seconds = 0", "limits.body_seconds = 0"),
        ] {
            let told = applied(text).unwrap_err().to_string();
            assert!(told.contains(says), "{text}: {told}");
        }
    }
}
