//! Sites around a bucket, on `moto_server`. Without it the test says so and checks nothing.

use crate::support::{Lab, TODO, stderr, stdout};
use serde_json::Value;
use std::process::Command;
use synqlite_servers::Storage;

struct Sites(Storage);

impl Sites {
    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_synqlite"));
        command.args(args).arg("--json");
        command.envs(self.0.settings());
        command
    }

    fn json(&self, args: &[&str]) -> Value {
        let output = self.command(args).output().expect("the binary runs");
        assert!(output.status.success(), "{args:?}: {}", stderr(&output));
        serde_json::from_str(&stdout(&output)).expect("JSON")
    }
}

#[test]
fn sites_at_a_bucket_converge() {
    let sites = match Storage::start() {
        Ok(server) => Sites(server),
        Err(why) => return println!("skipped: sites around a bucket: {why}"),
    };
    let lab = Lab::new();
    let url = &sites.0.url("todo");
    let key = lab.path("key").display().to_string();
    lab.json(&["key", "new", &key]);
    lab.sql("A", TODO);
    lab.json(&["init", &lab.db("A")]);
    sites.json(&["remote", "add", &lab.db("A"), "origin", url, "--key-file", &key]);
    assert_eq!(sites.json(&["sync", &lab.db("A")])["sent"]["rows"], 6);
    sites.json(&["clone", url, &lab.db("B"), "--key-file", &key]);
    for round in 0..3 {
        for site in ["A", "B"] {
            lab.sql(site, &format!("INSERT INTO note VALUES('{site} {round}')"));
            sites.json(&["sync", &lab.db(site)]);
        }
    }
    sites.json(&["pull", &lab.db("A")]);
    lab.assert_equal(&["A", "B"]);
    assert_eq!(lab.rows("A", "SELECT count(*) FROM note"), ["7"]);
    // What is missing is named, and not by what the storage says to programs.
    let nowhere = "s3://nowhere/todo";
    for args in [&["clone", nowhere, &lab.db("C")][..], &["push", &lab.db("A"), nowhere]] {
        let told = stderr(&sites.command(args).output().unwrap());
        assert!(
            told.starts_with("error: the bucket at s3://nowhere/todo is not there. "),
            "{told}"
        );
    }
    // Without a key of the storage nobody gets in.
    let output = sites.command(&["pull", &lab.db("A")]).env("AWS_ACCESS_KEY_ID", "").output();
    let told = stderr(&output.unwrap());
    assert!(told.contains("AWS_ACCESS_KEY_ID"), "{told}");
}
