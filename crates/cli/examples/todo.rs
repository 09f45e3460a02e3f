//! A list of things to do on two machines that never meet: each has its file, and both reach a folder.
//!
//! ```sh
//! cargo run -p synqlite --no-default-features --features bundled --example todo
//! ```

use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};
use synqlite::rusqlite::Connection;
use synqlite::watch::{Pace, Waiter, Watch, Woke};
use synqlite::{Access, Failure, InitOptions, Remote, Replica, Session, System, remotes};

type Result<T, E = Box<dyn Error + Send + Sync>> = std::result::Result<T, E>;

const SCHEMA: &str = "CREATE TABLE todo(id INTEGER PRIMARY KEY, title TEXT NOT NULL)";

fn main() -> Result<()> {
    let folder = std::env::temp_dir().join(format!("synqlite-todo-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let titles = run(&folder);
    std::fs::remove_dir_all(&folder)?;
    println!("on both: {}", titles?.join(", "));
    Ok(())
}

/// Both machines write, and each waits until it has what the other wrote. What both show then.
pub fn run(folder: &Path) -> Result<Vec<String>> {
    let (home, phone) = (folder.join("home.db"), folder.join("phone.db"));
    let stick = format!("file://{}/", folder.join("stick").display());

    let db = Connection::open(&home)?;
    db.execute_batch(SCHEMA)?;
    Replica::init(&home, &InitOptions::default(), Arc::new(System))?;
    let mut replica = Replica::open(&home, Arc::new(System))?;
    remotes::add(&mut replica, "origin", &stick, &Access::default())?;

    let session = Session::new(Arc::new(System));
    let origin = Remote::parse(&stick)?;
    origin.push(&mut replica, &session)?;
    origin.clone_to(&phone, &session)?;

    let stop = AtomicBool::new(false);
    thread::scope(|threads| {
        for path in [&home, &phone] {
            threads.spawn(|| keep_in_step(path, &stop));
        }
        let shown = write_and_wait(&db, &home, &phone);
        stop.store(true, Relaxed);
        shown
    })
}

/// What a program does in a thread of its own: it synchronizes when something was committed here, and now and then.
fn keep_in_step(path: &Path, stop: &AtomicBool) -> Result<(), Failure> {
    let mut replica = Replica::open(path, Arc::new(System))?;
    let pace = Pace { every: Some(Duration::from_millis(200)), changes: Some(1) };
    let reach = |replica: &Replica| remotes::resolve(replica, None, &Access::default());
    let mut watch = Watch::new(&mut replica, Session::new(Arc::new(System)), pace, reach);
    while let Some(round) = watch.round(|| stop.load(Relaxed)) {
        if let (None, Some(error)) = (round, &watch.state().error) {
            // The next round comes by itself.
            eprintln!("{}: {error}", path.display());
        }
    }
    Ok(())
}

fn write_and_wait(db: &Connection, home: &Path, phone: &Path) -> Result<Vec<String>> {
    let on_phone = Connection::open(phone)?;
    for each in [db, &on_phone] {
        each.busy_timeout(Duration::from_secs(30))?;
    }
    db.execute("INSERT INTO todo(title) VALUES('milk')", [])?;
    on_phone.execute("INSERT INTO todo(title) VALUES('rent')", [])?;
    let [here, there] = [titles_of(db, home, 2)?, titles_of(&on_phone, phone, 2)?];
    assert_eq!(here, there);
    Ok(here)
}

/// The list, as soon as it has so many entries: it is read again when somebody has committed.
fn titles_of(db: &Connection, path: &Path, many: usize) -> Result<Vec<String>> {
    let replica = Replica::open(path, Arc::new(System))?;
    let mut waiter = Waiter::new(&replica);
    let end = Instant::now() + Duration::from_secs(30);
    loop {
        let mut statement = db.prepare("SELECT title FROM todo ORDER BY title")?;
        let titles = statement.query_map([], |row| row.get(0))?;
        let titles: Vec<String> = titles.collect::<std::result::Result<_, _>>()?;
        if titles.len() >= many {
            return Ok(titles);
        }
        if waiter.wait(&replica, end, |_| true, || false) == Woke::Time {
            return Err(format!("{} has only {titles:?}", path.display()).into());
        }
    }
}
