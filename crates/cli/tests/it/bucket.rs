//! Sites around a bucket, on `moto_server`. Without it the test says so and checks nothing.

use crate::support::{Lab, TODO, stderr, stdout};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

struct Moto {
    child: Child,
    address: String,
}

impl Moto {
    fn start(test: &str) -> Option<Moto> {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let child = Command::new("moto_server")
            .args(["-p", &port.to_string()])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let Ok(child) = child else {
            println!("skipped: {test}: there is no moto_server (pip install 'moto[server]')");
            return None;
        };
        let mut moto = Moto { child, address: format!("127.0.0.1:{port}") };
        for _ in 0..600 {
            let made = moto.make_bucket().is_ok_and(|answer| answer.starts_with(b"HTTP/1.1 200"));
            if moto.child.try_wait().unwrap().is_some() {
                // Somebody else was given that port meanwhile.
                return Moto::start(test);
            }
            if made {
                return Some(moto);
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        panic!("moto_server does not answer");
    }

    fn make_bucket(&self) -> std::io::Result<Vec<u8>> {
        let mut stream = TcpStream::connect(&self.address)?;
        let head =
            "PUT /team HTTP/1.1\r\nHost: s3\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
        stream.write_all(head.as_bytes())?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer)?;
        Ok(answer)
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_synqlite"));
        command.args(args).arg("--json");
        command.env("AWS_ACCESS_KEY_ID", "test").env("AWS_SECRET_ACCESS_KEY", "test");
        command.env("AWS_ENDPOINT_URL", format!("http://{}", self.address));
        command.env("AWS_ALLOW_HTTP", "true");
        command
    }

    fn json(&self, args: &[&str]) -> Value {
        let output = self.command(args).output().expect("the binary runs");
        assert!(output.status.success(), "{args:?}: {}", stderr(&output));
        serde_json::from_str(&stdout(&output)).expect("JSON")
    }
}

impl Drop for Moto {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn sites_at_a_bucket_converge() {
    let Some(moto) = Moto::start("sites around a bucket") else { return };
    let lab = Lab::new();
    let url = "s3://team/notes/todo";
    let key = lab.path("key").display().to_string();
    lab.json(&["key", "new", &key]);
    lab.sql("A", TODO);
    lab.json(&["init", &lab.db("A")]);
    moto.json(&["remote", "add", &lab.db("A"), "origin", url, "--key-file", &key]);
    assert_eq!(moto.json(&["sync", &lab.db("A")])["sent"]["rows"], 6);
    moto.json(&["clone", url, &lab.db("B"), "--key-file", &key]);
    for round in 0..3 {
        for site in ["A", "B"] {
            lab.sql(site, &format!("INSERT INTO note VALUES('{site} {round}')"));
            moto.json(&["sync", &lab.db(site)]);
        }
    }
    moto.json(&["pull", &lab.db("A")]);
    lab.assert_equal(&["A", "B"]);
    assert_eq!(lab.rows("A", "SELECT count(*) FROM note"), ["7"]);
    // Without a key of the storage nobody gets in.
    let output = moto.command(&["pull", &lab.db("A")]).env("AWS_ACCESS_KEY_ID", "").output();
    let told = stderr(&output.unwrap());
    assert!(told.contains("AWS_ACCESS_KEY_ID"), "{told}");
}
