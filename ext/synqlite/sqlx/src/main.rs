use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePool};
use std::time::Duration;

async fn open(path: &str) -> Result<SqlitePool, sqlx::Error> {
    let extension = std::env::var("SYNQLITE_EXTENSION").expect("SYNQLITE_EXTENSION is its path");
    let options = SqliteConnectOptions::new()
        .filename(path)
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        .busy_timeout(Duration::from_secs(30));
    // SAFETY: the library at that path is the one that was built.
    SqlitePool::connect_with(unsafe { options.extension(extension) }).await
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), sqlx::Error> {
    let home = open("home.db").await?;
    sqlx::raw_sql(
        "CREATE TABLE todo(id INTEGER PRIMARY KEY, title TEXT UNIQUE);
         INSERT INTO todo(title) VALUES('milk');
         SELECT synqlite_init();
         SELECT synqlite_clone('home.db', 'laptop.db');",
    )
    .execute(&home)
    .await?;

    let laptop = open("laptop.db").await?;
    sqlx::query("INSERT INTO todo(title) VALUES('rent')").execute(&home).await?;
    tokio::time::sleep(Duration::from_millis(10)).await; // whoever took a title first keeps it
    sqlx::query("INSERT INTO todo(title) VALUES('rent'), ('stamps')").execute(&laptop).await?;

    let sync = "SELECT json_extract(synqlite_sync(), '$.merged')";
    let merged: String = sqlx::query_scalar(sync).fetch_one(&laptop).await?;
    println!("{merged}");

    let list = "SELECT id, declared, displaced FROM synqlite_conflicts";
    let conflicts: Vec<(String, String, String)> = sqlx::query_as(list).fetch_all(&laptop).await?;
    for (id, declared, displaced) in conflicts {
        println!("{declared} {displaced}");
        sqlx::query("SELECT synqlite_settle(?, 'discard')").bind(id).execute(&laptop).await?;
    }
    Ok(())
}
