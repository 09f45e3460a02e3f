//! The same promises, kept by PostgreSQL. The test starts Debian's on a free port, as a user that is
//! not root; where there is none it says so and is skipped.

use crate::client::Client;
use crate::support::{Lab, batch, until, use_stores};
use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use synqlite_hub::{Scope, start};
use tempfile::TempDir;

/// A server of PostgreSQL's, for as long as this lives.
struct Server {
    bin: PathBuf,
    dir: TempDir,
    port: u16,
    user: Option<&'static str>,
    child: Child,
}

/// Folder of PostgreSQL's programs.
fn programs() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut found: Vec<_> = versions.map(|entry| entry.path().join("bin")).collect();
    found.retain(|bin| bin.join("initdb").exists());
    found.sort();
    found.pop()
}

/// A command as a user that PostgreSQL accepts.
fn command(user: Option<&str>, program: &Path) -> Command {
    let Some(user) = user else { return Command::new(program) };
    let mut command = Command::new("setpriv");
    command.args(["--reuid", user, "--regid", user, "--clear-groups"]).arg(program);
    command
}

fn spawn(user: Option<&str>, bin: &Path, dir: &Path, port: u16) -> Child {
    let mut postgres = command(user, &bin.join("postgres"));
    postgres.arg("-D").arg(dir.join("data")).args(["-h", "127.0.0.1", "-p", &port.to_string()]);
    postgres.arg("-k").arg(dir).current_dir(dir);
    postgres.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

impl Server {
    fn start() -> Result<Server, &'static str> {
        let bin = programs().ok_or("PostgreSQL is not installed (Debian: postgresql)")?;
        let dir = tempfile::tempdir().unwrap();
        let root = rustix::process::geteuid().is_root();
        let user = root.then_some("postgres");
        if let Some(user) = user {
            let done = Command::new("chown").arg(user).arg(dir.path()).status();
            if !done.is_ok_and(|status| status.success()) {
                return Err("there is no user postgres, and PostgreSQL does not run as root");
            }
        }
        let mut initdb = command(user, &bin.join("initdb"));
        initdb.arg("-D").arg(dir.path().join("data")).args(["-U", "hub", "-A", "trust", "-N"]);
        initdb.args(["-E", "UTF8", "--locale=C"]).current_dir(dir.path());
        let made = initdb.output().map_err(|_| "initdb does not run")?;
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        drop(listener);
        let child = spawn(user, &bin, dir.path(), port);
        let server = Server { bin, dir, port, user, child };
        server.wait();
        Ok(server)
    }

    fn wait(&self) {
        until(|| self.sql("postgres", "SELECT 1"));
    }

    fn sql(&self, database: &str, sql: &str) -> bool {
        let mut psql = Command::new(self.bin.join("psql"));
        psql.args(["-X", "-q", "-h", "127.0.0.1", "-p", &self.port.to_string(), "-U", "hub"]);
        psql.args(["-d", database, "-c", sql]).stdout(Stdio::null()).stderr(Stdio::null());
        psql.status().is_ok_and(|status| status.success())
    }

    fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args(["-s", name, &id]).status().unwrap().success());
    }

    /// Ends it at once, as a crash of the machine would, and starts it again.
    fn crash(&mut self) {
        self.signal("QUIT");
        self.child.wait().unwrap();
        self.child = spawn(self.user, &self.bin, self.dir.path(), self.port);
        self.wait();
    }

    fn url(&self, database: &str) -> String {
        format!("postgres://hub@127.0.0.1:{}/{database}", self.port)
    }

    /// A name for a new database; its number counts up.
    fn stores(&self) -> impl FnMut() -> String + use<> {
        let (url, count) = (self.url(""), Cell::new(0));
        let (psql, port) = (self.bin.join("psql"), self.port.to_string());
        move || {
            count.set(count.get() + 1);
            let name = format!("lab{}", count.get());
            let mut psql = Command::new(&psql);
            psql.args(["-X", "-q", "-h", "127.0.0.1", "-p", &port, "-U", "hub", "-d", "postgres"]);
            assert!(
                psql.args(["-c", &format!("CREATE DATABASE {name}")]).status().unwrap().success()
            );
            format!("{url}{name}")
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.signal("INT");
        let _ = self.child.wait();
    }
}

#[test]
fn postgres_keeps_the_promises_of_a_store() {
    let mut server = match Server::start() {
        Ok(server) => server,
        Err(why) => return println!("skipped: {why}"),
    };
    use_stores(server.stores());
    // First: PostgreSQL recovers faster while it holds little.
    nothing_is_lost_when_the_server_crashes(&mut server);
    crate::objects::what_is_put_can_be_listed_and_read();
    crate::objects::lists_go_on_where_they_ended();
    crate::objects::large_lists_come_in_parts();
    crate::objects::databases_of_a_place_are_told();
    crate::objects::ranges_are_honoured();
    crate::objects::racing_puts_have_one_winner();
    crate::objects::places_are_kept_apart();
    crate::objects::removed_objects_are_gone();
    crate::uploads::parts_arrive_in_order_and_go_on_after_a_restart();
    crate::events::who_waits_is_woken_by_a_put_to_the_place();
    crate::access::scopes_and_places_bound_a_token();
    crate::access::revoked_and_expired_tokens_are_noticed();
    crate::access::a_token_stores_as_much_as_it_may();
    crate::retire::nothing_goes_that_a_known_site_needs();
    crate::retire::a_site_that_was_not_seen_for_long_is_not_waited_for();
    crate::retire::snapshots_that_a_newer_one_covers_go_and_the_newest_stays();
    crate::retire::other_databases_of_the_place_stay();
    two_hubs_share_a_store();
}

fn two_hubs_share_a_store() {
    let lab = Lab::open();
    let other = start(lab.settings.clone()).unwrap();
    let mut far = Client::new(&other.url(), None);
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| far.get("/todo/events?wait=60").expect(200));
        std::thread::sleep(std::time::Duration::from_millis(300));
        lab.nobody().put(&batch("todo", 1), b"x").expect(201);
        assert_eq!(waiter.join().unwrap().number("synqlite-upto"), 1);
    });
    assert_eq!(far.get(&batch("todo", 1)).expect(200).body, b"x");
    far.put(&batch("todo", 1), b"y").expect(200);
    other.stop().unwrap();
}

fn nothing_is_lost_when_the_server_crashes(server: &mut Server) {
    let lab = Lab::with(|_| ());
    let secret = lab.token("todo", Scope::Write);
    let acknowledged = AtomicU64::new(0);
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut client = Client::new(&lab.hub().url(), Some(&secret));
            let mut n = 1;
            while !stop.load(Ordering::Relaxed) {
                match client.put(&batch("todo", n), &n.to_be_bytes()).status {
                    200 | 201 => {
                        acknowledged.store(n, Ordering::Relaxed);
                        n += 1;
                    }
                    503 => std::thread::sleep(std::time::Duration::from_millis(20)),
                    other => panic!("{other}"),
                }
            }
        });
        for _ in 0..2 {
            let before = acknowledged.load(Ordering::Relaxed);
            until(|| acknowledged.load(Ordering::Relaxed) > before + 20);
            server.crash();
        }
        let before = acknowledged.load(Ordering::Relaxed);
        until(|| acknowledged.load(Ordering::Relaxed) > before + 20);
        stop.store(true, Ordering::Relaxed);
    });
    let mut client = Client::new(&lab.hub().url(), Some(&secret));
    for n in 1..=acknowledged.load(Ordering::Relaxed) {
        assert_eq!(client.get(&batch("todo", n)).expect(200).body, n.to_be_bytes(), "{n}");
    }
}
