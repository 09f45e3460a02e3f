//! The PostgreSQL of this machine, as Debian installs it, run as a user that is not root.

use crate::until;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

/// A server, for as long as this lives.
#[derive(Debug)]
pub struct Postgres {
    bin: PathBuf,
    dir: TempDir,
    /// Where it listens.
    pub port: u16,
    user: Option<&'static str>,
    child: Child,
    more: Vec<String>,
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

impl Postgres {
    /// Why there is none, if there is none.
    pub fn start() -> Result<Postgres, &'static str> {
        Postgres::start_with(|_, _| Vec::new())
    }

    /// With options for the server, such as `-c ssl=on`. `prepare` is given the data folder, and
    /// what makes a file in it the server's own.
    pub fn start_with(
        prepare: impl FnOnce(&Path, &dyn Fn(&Path)) -> Vec<String>,
    ) -> Result<Postgres, &'static str> {
        let bin = programs().ok_or("PostgreSQL is not installed (Debian: postgresql)")?;
        let dir = tempfile::tempdir().map_err(|_| "there is no place for temporary files")?;
        let id = Command::new("id").arg("-u").output();
        let root = id.is_ok_and(|output| output.stdout.trim_ascii() == b"0");
        let user = root.then_some("postgres");
        let own = |path: &Path| {
            user.is_none_or(|user| {
                let done = Command::new("chown").arg(user).arg(path).status();
                done.is_ok_and(|status| status.success())
            })
        };
        if !own(dir.path()) {
            return Err("there is no user postgres, and PostgreSQL does not run as root");
        }
        let data = dir.path().join("data");
        let mut initdb = command(user, &bin.join("initdb"));
        initdb.arg("-D").arg(&data).args(["-U", "hub", "-A", "trust", "-N"]);
        initdb.args(["-E", "UTF8", "--locale=C"]).current_dir(dir.path());
        let made = initdb.output().map_err(|_| "initdb does not run")?;
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let more = prepare(&data, &|path| assert!(own(path), "{}", path.display()));
        let port = crate::free_port();
        let child = spawn(user, &bin, dir.path(), port, &more);
        let server = Postgres { bin, dir, port, user, child, more };
        server.wait();
        Ok(server)
    }

    fn wait(&self) {
        until(|| self.sql("postgres", "SELECT 1"));
    }

    /// Runs a statement; whether it was done.
    pub fn sql(&self, database: &str, sql: &str) -> bool {
        let mut psql = Command::new(self.bin.join("psql"));
        psql.args(["-X", "-q", "-h", "127.0.0.1", "-p", &self.port.to_string(), "-U", "hub"]);
        psql.args(["-d", database, "-c", sql]).stdout(Stdio::null()).stderr(Stdio::null());
        psql.status().is_ok_and(|status| status.success())
    }

    fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        let done = Command::new("kill").args(["-s", name, &id]).status();
        assert!(done.is_ok_and(|status| status.success()));
    }

    /// Ends it at once, as a crash of the machine would, and starts it again.
    pub fn crash(&mut self) {
        self.signal("QUIT");
        let _ = self.child.wait();
        self.child = spawn(self.user, &self.bin, self.dir.path(), self.port, &self.more);
        self.wait();
    }

    /// URL of a new database of that name.
    pub fn database(&self, name: &str) -> String {
        assert!(self.sql("postgres", &format!("CREATE DATABASE {name}")));
        format!("postgres://hub@127.0.0.1:{}/{name}", self.port)
    }
}

fn spawn(user: Option<&str>, bin: &Path, dir: &Path, port: u16, more: &[String]) -> Child {
    let mut postgres = command(user, &bin.join("postgres"));
    postgres.arg("-D").arg(dir.join("data")).args(["-h", "127.0.0.1", "-p", &port.to_string()]);
    postgres.arg("-k").arg(dir).args(more).current_dir(dir);
    postgres.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("postgres starts")
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.signal("INT");
        let _ = self.child.wait();
    }
}
