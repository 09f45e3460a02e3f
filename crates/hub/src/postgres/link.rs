//! Connections to PostgreSQL that come back: one that broke is made anew by whoever needs it next.

use super::address::Address;
use crate::error::{Error, Result};
use crate::place::Place;
use crate::wait::Waiters;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Mutex;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;
use tokio_postgres::{AsyncMessage, Client, Connection, NoTls, Row, Statement};

/// How long a statement may take, and connecting.
const PATIENCE: Duration = Duration::from_secs(30);

/// Parameters of a statement.
pub type Params<'a> = &'a [&'a (dyn ToSql + Sync)];

/// One connection, made when it is first used.
pub struct Link {
    url: String,
    open: Mutex<Option<Arc<Open>>>,
}

/// A connection, and the statements that it knows.
struct Open {
    client: Client,
    statements: Mutex<HashMap<&'static str, Statement>>,
}

impl Open {
    async fn query(
        &self,
        sql: &'static str,
        params: Params<'_>,
    ) -> Result<Vec<Row>, tokio_postgres::Error> {
        let known = self.statements.lock().await.get(sql).cloned();
        let statement = match known {
            Some(statement) => statement,
            None => {
                let made = self.client.prepare(sql).await?;
                self.statements.lock().await.insert(sql, made.clone());
                made
            }
        };
        self.client.query(&statement, params).await
    }
}

/// What PostgreSQL said, without what it was asked: values are the users'.
pub fn failed(e: &tokio_postgres::Error) -> Error {
    match e.as_db_error() {
        Some(e) if e.code().code().starts_with("53") => Error::Full,
        Some(e) if *e.code() == SqlState::UNDEFINED_TABLE => Error::Setting {
            what: "there is no store of a hub in this database of PostgreSQL".into(),
            hint: "Check its name; a hub that is started makes one",
        },
        // No such database, wrong password: waiting does not help.
        Some(e) if ["3D", "28"].iter().any(|class| e.code().code().starts_with(class)) => {
            Error::Setting {
                what: format!("PostgreSQL says: {}", e.message()),
                hint: "Check the address that --store names",
            }
        }
        Some(e) => match advice(e.code(), e.message()) {
            Some(hint) => {
                Error::Setting { what: format!("PostgreSQL says: {}", e.message()), hint }
            }
            None => Error::away(format!("PostgreSQL says: {}", e.message())),
        },
        None => {
            let source = std::error::Error::source(e).map(|s| format!(": {s}")).unwrap_or_default();
            // It has no type that reaches us.
            if source.contains("UnknownIssuer") {
                return Error::Setting {
                    what: format!(
                        "PostgreSQL shows a certificate that this machine does not trust{source}"
                    ),
                    hint: "Name the PEM file of the authority that signed it behind the URL: &sslrootcert=FILE",
                };
            }
            Error::away(format!("PostgreSQL: {e}{source}"))
        }
    }
}

/// What to do about a refusal that waiting does not end.
fn advice(code: &SqlState, message: &str) -> Option<&'static str> {
    let pooled = [&SqlState::DUPLICATE_PSTATEMENT, &SqlState::INVALID_SQL_STATEMENT_NAME];
    if pooled.contains(&code) {
        return Some(
            "What pools connections between here and PostgreSQL gives each transaction another one: have it \
             pool by session, or let --store name PostgreSQL itself",
        );
    }
    if *code != SqlState::INSUFFICIENT_PRIVILEGE {
        return None;
    }
    Some(match message.split_once(" for ").map(|(_, what)| what) {
        Some(what) if what.starts_with("schema") => {
            "The hub's role lacks the rights to make its tables there: GRANT USAGE, CREATE ON SCHEMA … TO …"
        }
        Some(what) if what.starts_with("database") => {
            "The hub's role lacks a right on the database: GRANT CONNECT, CREATE ON DATABASE … TO …"
        }
        _ => {
            "The hub's role must own the hub's tables: ALTER TABLE … OWNER TO …; or start the hub with the role \
             that made them"
        }
    })
}

impl Link {
    /// Does not connect yet.
    pub fn new(url: &str) -> Link {
        Link { url: url.to_owned(), open: Mutex::new(None) }
    }

    async fn open(&self) -> Result<Arc<Open>> {
        let mut held = self.open.lock().await;
        if let Some(open) = held.as_ref().filter(|open| !open.client.is_closed()) {
            return Ok(open.clone());
        }
        let Address { config, tls } = Address::parse(&self.url)?;
        let connecting = async {
            Ok(match tls {
                None => {
                    let (client, connection) = config.connect(NoTls).await?;
                    tokio::spawn(drive(connection));
                    client
                }
                Some(tls) => {
                    let (client, connection) = config.connect(tls).await?;
                    tokio::spawn(drive(connection));
                    client
                }
            })
        };
        let connected = tokio::time::timeout(PATIENCE, connecting).await;
        let connected = connected.map_err(|_| Error::away("PostgreSQL does not answer"))?;
        let client = connected.map_err(|e| failed(&e))?;
        Ok(held.insert(Arc::new(Open { client, statements: Mutex::default() })).clone())
    }

    /// Runs a statement; its rows. Whether it was done is not known after a failure.
    pub async fn query(&self, sql: &'static str, params: Params<'_>) -> Result<Vec<Row>> {
        let open = self.open().await?;
        let done = tokio::time::timeout(PATIENCE, open.query(sql, params)).await;
        let done = done.map_err(|_| Error::away("PostgreSQL does not answer"))?;
        done.map_err(|e| failed(&e))
    }

    /// Runs statements without parameters.
    pub async fn batch(&self, sql: &str) -> Result<()> {
        self.open().await?.client.batch_execute(sql).await.map_err(|e| failed(&e))
    }
}

/// Carries what a connection says, until it ends.
async fn drive<S, T>(connection: Connection<S, T>)
where
    Connection<S, T>: Future<Output = Result<(), tokio_postgres::Error>>,
{
    if let Err(e) = connection.await {
        tracing::warn!("the connection to PostgreSQL ended: {e}");
    }
}

/// Wakes who waits here for what any hub put. Whoever waited while the connection was away looks anew.
pub async fn listen(url: String, waiters: Arc<Waiters>) {
    loop {
        if let Err(e) = listen_once(&url, &waiters).await {
            tracing::warn!("news from PostgreSQL do not arrive: {e}");
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

async fn listen_once(url: &str, waiters: &Waiters) -> Result<()> {
    let Address { config, tls } = Address::parse(url)?;
    let ended = match tls {
        None => match config.connect(NoTls).await {
            Ok((client, connection)) => hear(client, connection, waiters).await,
            Err(e) => Err(e),
        },
        Some(tls) => match config.connect(tls).await {
            Ok((client, connection)) => hear(client, connection, waiters).await,
            Err(e) => Err(e),
        },
    };
    ended.map_err(|e| failed(&e))
}

async fn hear<S, T>(
    client: Client,
    mut connection: Connection<S, T>,
    waiters: &Waiters,
) -> Result<(), tokio_postgres::Error>
where
    S: AsyncRead + AsyncWrite + Unpin,
    T: AsyncRead + AsyncWrite + Unpin,
{
    let mut listening = std::pin::pin!(client.batch_execute("LISTEN synqlite_hub"));
    let mut begun = false;
    loop {
        tokio::select! {
            done = &mut listening, if !begun => {
                done?;
                begun = true;
                waiters.wake_all();
            }
            message = std::future::poll_fn(|context| connection.poll_message(context)) => {
                match message {
                    None => return Ok(()),
                    Some(Ok(AsyncMessage::Notification(news))) => {
                        if let Ok(place) = Place::parse(news.payload()) {
                            waiters.wake(&place);
                        }
                    }
                    Some(other) => drop(other?),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waiting_does_not_end_has_advice() {
        for (code, message, words) in [
            ("42P05", "prepared statement \"s1\" already exists", "pool by session"),
            ("26000", "prepared statement \"s1\" does not exist", "pool by session"),
            ("42501", "permission denied for schema public", "GRANT USAGE, CREATE ON SCHEMA"),
            ("42501", "permission denied for database d", "GRANT CONNECT, CREATE ON DATABASE"),
            ("42501", "permission denied for table synqlite_hub", "must own the hub's tables"),
            ("42501", "must be owner of table synqlite_object", "must own the hub's tables"),
        ] {
            let told = advice(&SqlState::from_code(code), message);
            assert!(told.is_some_and(|told| told.contains(words)), "{message}: {told:?}");
        }
        assert_eq!(advice(&SqlState::ADMIN_SHUTDOWN, "shutting down"), None);
    }
}
