//! On `moto_server`, a stand-in for S3 whose conditional requests have one winner. Without it the
//! tests say so and check nothing.

use super::*;
use crate::conformance::conformance;
use std::sync::atomic::{AtomicU32, Ordering};
use synqlite_servers::{Faults, Storage as Server};

/// `None`, and a line that says so, if there is no server.
fn server(test: &str) -> Option<Server> {
    Server::start().inspect_err(|why| println!("skipped: {test}: {why}")).ok()
}

fn bucket(server: &Server, name: &str) -> Bucket {
    Bucket::new(&server.url(name), &server.settings()).unwrap()
}

#[test]
fn a_bucket_keeps_the_promise_of_a_store() {
    let Some(server) = server("conformance of a bucket") else { return };
    let count = AtomicU32::new(0);
    conformance(|| {
        let n = count.fetch_add(1, Ordering::Relaxed);
        Box::new(bucket(&server, &format!("{n}")))
    });
}

#[test]
fn a_large_file_is_put_once_and_reads_back() {
    let Some(server) = server("large files in a bucket") else { return };
    let dir = tempfile::tempdir().unwrap();
    let (file, back) = (dir.path().join("file"), dir.path().join("back"));
    let bytes: Vec<u8> = (0..2 * PART + 12_345).map(|n| (n / 1_000) as u8).collect();
    std::fs::write(&file, &bytes).unwrap();
    let name = ObjectName::snapshot(Id([1; 16]), Id([2; 16]), 7);
    let bucket = bucket(&server, "large");
    let put = || bucket.put_file_if_absent(&name, &file, None, &mut |_, _| {}).unwrap();
    assert_eq!(put(), Put::Created);
    assert_eq!(put(), Put::AlreadyThere);
    // Also for a writer who was underway when it came: moto looks, then copies.
    let storage = &bucket.storage;
    storage.put("other", b"other".to_vec()).unwrap();
    assert_eq!(storage.copy_to_new("other", &name.to_string()).unwrap(), Put::AlreadyThere);
    storage.delete("other").unwrap();
    bucket.fetch_to(&name, &back).unwrap();
    assert!(std::fs::read(&back).unwrap() == bytes);
    assert_eq!(bucket.list(name.database, Kind::Snapshot).unwrap().len(), 1);
    let all = storage.list("").unwrap();
    assert_eq!(all.len(), 1, "no temporary object is left: {all:?}");
}

#[test]
fn refusals_that_pass_are_overcome() {
    let Some(server) = server("500 and 503 from a bucket") else { return };
    let alternating = |n: u64| n.is_multiple_of(2).then_some(n / 2 % 2);
    let faults = Faults::before(server.port, alternating);
    let direct = bucket(&server, "faulty");
    let bucket = Bucket::new(&server.url("faulty"), &faults.settings()).unwrap();
    for n in 0..6 {
        let name = ObjectName::batch(Id([1; 16]), Id([2; 16]), n, n + 1);
        assert_eq!(bucket.put_if_absent(&name, &[n as u8]).unwrap(), Put::Created);
        // 412 is what the storage says to whoever is later.
        assert_eq!(bucket.put_if_absent(&name, b"other").unwrap(), Put::AlreadyThere);
        assert_eq!(bucket.read(&name).unwrap(), [n as u8]);
        assert_eq!(direct.read(&name).unwrap(), [n as u8]);
    }
    assert_eq!(bucket.list(Id([1; 16]), Kind::Batch).unwrap().len(), 6);
}

#[test]
fn urls_name_a_bucket_and_a_prefix() {
    let key = ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"];
    let key = key.map(|name| (name.to_owned(), "test".to_owned()));
    for (url, prefix) in [("s3://b", ""), ("S3://b/", ""), ("s3://b/team/todo/", "team/todo/")] {
        assert_eq!(Storage::new(url, &key).unwrap().prefix(), prefix);
    }
    for url in ["s3:b", "s3:///a", "s3://b/a b", "s3://b/a//b", "s3://b/.a", "http://b/a"] {
        assert!(matches!(Bucket::new(url, &key), Err(Error::NotAStoreUrl { .. })), "{url}");
    }
    let told = Bucket::new("s3://b", &[]).err().unwrap().to_string();
    assert!(told.contains("AWS_ACCESS_KEY_ID"), "{told}");
}
