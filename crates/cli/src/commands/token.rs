use super::serve::now;
use super::watch::duration;
use crate::error::{CommandError, Result};
use crate::report::{Report, time};
use clap::Subcommand;
use serde_json::{Value, json};
use std::time::Duration;
use synqlite_front::remotes::storage;
use synqlite_hub::{Allowance, Location, Reach, Scope, SiteId, Token, Vault};

/// Makes, lists and revokes access tokens of a hub.
///
/// A hub that runs notices within a second. Sites send the token that stands in the environment
/// variable `SYNQLITE_TOKEN`, or in the configuration of the remote.
#[derive(Subcommand)]
pub enum Command {
    /// Makes a token and prints it: the only time that anybody sees it.
    Create {
        #[command(flatten)]
        store: Store,
        /// The NAME of http://HOST:PORT/NAME where it is good, or * for all of them.
        #[arg(long, value_name = "NAME")]
        database: Reach,
        /// What it may do: read; write, which includes read; admin, which includes both and removes.
        #[arg(long, default_value = "write", value_name = "SCOPE")]
        scope: Scope,
        /// What to call it in lists, such as the site that gets it.
        #[arg(long, value_name = "TEXT")]
        name: Option<String>,
        /// How long it is good, such as 12h or 720h: a number with ms, s, m or h behind it; for ever if
        /// absent.
        #[arg(long, value_name = "TIME", value_parser = with_unit)]
        expires: Option<Duration>,
        /// Bytes that it may store in all; as the hub's settings have it if absent.
        #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u64).range(1..))]
        stored_bytes: Option<u64>,
        /// Bytes of the largest object that it may put; as the hub's settings have it if absent.
        #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u64).range(1..))]
        object_bytes: Option<u64>,
        /// Requests a second that it may make; as the hub's settings have it if absent.
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
        requests_per_second: Option<u32>,
        /// Takes from it only what one of these sites wrote, by their ids as `synqlite status` prints
        /// them. For scope write, and for objects that are not sealed: the hub cannot see who sealed one.
        #[arg(long, value_name = "ID", value_delimiter = ',')]
        site: Vec<SiteId>,
    },
    /// Lists the tokens; they themselves are not kept and cannot be shown.
    List {
        #[command(flatten)]
        store: Store,
    },
    /// Revokes a token.
    Revoke {
        #[command(flatten)]
        store: Store,
        /// Its id, as `token list` prints it.
        id: String,
    },
}

/// Where the hub keeps what it is given.
#[derive(clap::Args)]
pub struct Store {
    /// The store of the hub, as `synqlite serve` has it.
    #[arg(long, value_name = "STORE")]
    store: String,
}

impl Store {
    fn vault(&self) -> Result<Vault> {
        Ok(Location::parse(&self.store)?.with(&storage()).vault())
    }
}

pub fn run(command: &Command) -> Result<Report> {
    match command {
        Command::Create { store, database, scope, name, expires, site, .. } => {
            if !site.is_empty() && *scope != Scope::Write {
                let scope = scope.as_str();
                let what =
                    format!("--site bounds what a token writes, and scope {scope} is not that");
                return Err(CommandError::usage(what).hint("Leave out --site, or --scope"));
            }
            let (made, expires) = (now(), expires.map(|time| now() + time.as_millis() as i64));
            let token = Token::make(database.clone(), *scope, made, expires, name.clone())?;
            let (mut token, secret) = token;
            token.allowance = allowance(command);
            token.sites.clone_from(site);
            store.vault()?.add(token.clone())?;
            let mut json = describe(&token);
            json["token"] = json!(secret);
            Ok(Report::new(json, secret))
        }
        Command::List { store } => {
            let tokens = store.vault()?.read()?;
            let lines: Vec<_> = tokens.iter().map(line).collect();
            let text = if lines.is_empty() { "no tokens".to_owned() } else { lines.join("\n") };
            let tokens: Vec<_> = tokens.iter().map(describe).collect();
            Ok(Report::new(json!({"tokens": tokens}), text))
        }
        Command::Revoke { store, id } => {
            let number = u64::from_str_radix(id, 16).ok();
            let vault = store.vault()?;
            if !number.map(|id| vault.revoke(id)).transpose()?.unwrap_or(false) {
                let hint = format!("See: synqlite token list --store {}", store.store);
                return Err(CommandError::new(format!("there is no token {id}")).hint(hint));
            }
            Ok(Report::new(json!({"revoked": id}), format!("revoked {id}")))
        }
    }
}

/// Whoever writes 3 may mean days, and would get seconds.
fn with_unit(text: &str) -> Result<Duration, String> {
    match text.ends_with(|c: char| c.is_ascii_digit()) {
        true => Err("say of what, such as 90s, 15m, 12h or 720h".to_owned()),
        false => duration(text),
    }
}

fn allowance(command: &Command) -> Allowance {
    match *command {
        Command::Create { stored_bytes, object_bytes, requests_per_second, .. } => {
            Allowance { object: object_bytes, storage: stored_bytes, rate: requests_per_second }
        }
        _ => Allowance::default(),
    }
}

fn describe(token: &Token) -> Value {
    json!({
        "id": token.id_text(),
        "database": token.reach.to_string(),
        "scope": token.scope.as_str(),
        "name": token.name,
        "made": time(token.made),
        "expires": token.expires.map(time),
        "stored_bytes": token.allowance.storage,
        "object_bytes": token.allowance.object,
        "requests_per_second": token.allowance.rate,
        "sites": token.sites.iter().map(SiteId::to_string).collect::<Vec<_>>(),
    })
}

fn line(token: &Token) -> String {
    let (id, scope, reach) = (token.id_text(), token.scope.as_str(), &token.reach);
    let name = token.name.as_deref().map(|name| format!("  {name}")).unwrap_or_default();
    let expires = token.expires.map(|at| format!(", until {}", time(at))).unwrap_or_default();
    let sites: Vec<_> = token.sites.iter().map(SiteId::to_string).collect();
    let sites = if sites.is_empty() { String::new() } else { format!(", of {}", sites.join(", ")) };
    format!("{id}  {scope:5}  {reach}  made {}{expires}{sites}{name}", time(token.made))
}
