//! Sites and a hub over TLS, with an authority of the test's own. A site that does not trust it, or
//! that finds a certificate of another name, sends nothing.

use crate::serve::Hub;
use crate::support::{Lab, TODO, stderr};
use std::path::Path;
use std::process::{Command, Output};
use synqlite_servers::Authority;

fn run(args: &[&str], authorities: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_synqlite"));
    command.args(args).env("SSL_CERT_FILE", authorities).env("NO_PROXY", "localhost,127.0.0.1");
    command.env_remove("SSL_CERT_DIR");
    command.output().expect("the binary runs")
}

#[test]
fn sites_synchronize_over_tls_and_refuse_whom_they_do_not_trust() {
    let lab = Lab::new();
    let authority = Authority::new("the test's");
    let made = authority.certify(&["localhost"]);
    let write = |name: &str, text: &str| {
        std::fs::write(lab.path(name), text).expect("it is written");
        lab.path(name)
    };
    let trusted = write("authority.pem", &authority.pem);
    let other = write("other.pem", &Authority::new("another").pem);
    let (cert, key) = (write("cert.pem", &made.cert), write("key.pem", &made.key));
    let (cert, key) = (cert.display().to_string(), key.display().to_string());
    let store = lab.path("hub");
    let hub = Hub::start(&store, &["--open", "--tls-cert", &cert, "--tls-key", &key]);
    let port = hub.address.rsplit(':').next().expect("a port");
    let url = format!("https://localhost:{port}/todo");
    lab.sql("A", TODO);
    lab.json(&["init", &lab.db("A")]);
    lab.json(&["remote", "add", &lab.db("A"), "origin", &url]);
    lab.json(&["remote", "add", &lab.db("A"), "numbered", &url.replace("localhost", "127.0.0.1")]);
    let plain = url.replace("https:", "http:");
    let (absent, useless) = (lab.path("absent.pem"), write("useless.pem", "no certificate"));
    for (remote, authorities, says) in [
        ("origin", &other, "name it in SSL_CERT_FILE"),
        ("origin", &absent, "absent.pem`, which cannot be read: No such file"),
        ("origin", &lab.path(""), "which cannot be read: Is a directory"),
        ("origin", &useless, "SSL_CERT_FILE names `"),
        ("origin", &useless, "useless.pem`, which has no certificate. Name a PEM file"),
        ("numbered", &trusted, "good for both"),
        (&plain, &trusted, "write https:// where"),
    ] {
        let refused = run(&["push", &lab.db("A"), remote], authorities);
        let told = stderr(&refused);
        assert!(!refused.status.success() && told.contains(says), "{told}");
    }
    let objects = || {
        let check = lab.json(&["serve", "--check", "--store", &store.display().to_string()]);
        check["objects"].as_u64().expect("a number")
    };
    let pushed = run(&["push", &lab.db("A")], &trusted);
    assert!(pushed.status.success(), "{}", stderr(&pushed));
    let cloned = run(&["clone", &url, &lab.db("B")], &trusted);
    assert!(cloned.status.success(), "{}", stderr(&cloned));
    lab.assert_equal(&["A", "B"]);
    drop(hub);
    // A snapshot, and nothing of those who were refused.
    assert_eq!(objects(), 1);
}

#[test]
fn an_authority_that_is_used_as_a_server_is_said_to_be_one() {
    let lab = Lab::new();
    let write = |name: &str, text: &str| {
        std::fs::write(lab.path(name), text).expect("it is written");
        lab.path(name).display().to_string()
    };
    lab.sql("A", TODO);
    lab.json(&["init", &lab.db("A")]);
    for (name, made, works) in [
        ("authority", Authority::alone(&["localhost"], true), false),
        // The way out that the message names.
        ("server", Authority::alone(&["localhost"], false), true),
    ] {
        let cert = write(&format!("{name}.pem"), &made.cert);
        let key = write(&format!("{name}.key"), &made.key);
        let more = ["--open", "--tls-cert", &cert, "--tls-key", &key];
        let hub = Hub::start(&lab.path(name), &more);
        let port = hub.address.rsplit(':').next().expect("a port");
        let url = format!("https://localhost:{port}/todo");
        lab.json(&["remote", "add", &lab.db("A"), name, &url]);
        let pushed = run(&["push", &lab.db("A"), name], Path::new(&cert));
        let told = stderr(&pushed);
        assert_eq!(pushed.status.success(), works, "{told}");
        if !works {
            assert!(told.contains("certificate of an authority as its own"), "{told}");
            assert!(told.contains("CA:FALSE"), "{told}");
        }
    }
}
