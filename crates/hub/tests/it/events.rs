//! Waiting for news.

use crate::support::{Lab, batch};
use std::time::{Duration, Instant};

#[test]
pub fn who_waits_is_woken_by_a_put_to_the_place() {
    let lab = Lab::open();
    let epoch = lab.nobody().get("/todo/objects").header("synqlite-epoch").unwrap().to_owned();
    std::thread::scope(|scope| {
        let waiters: Vec<_> = (0..4)
            .map(|_| {
                let (mut client, path) =
                    (lab.nobody(), format!("/todo/events?wait=60&epoch={epoch}"));
                scope.spawn(move || (client.get(&path).expect(200), Instant::now()))
            })
            .collect();
        std::thread::sleep(Duration::from_millis(200));
        lab.nobody().put(&batch("other", 1), b"x").expect(201);
        std::thread::sleep(Duration::from_millis(200));
        assert!(waiters.iter().all(|waiter| !waiter.is_finished()), "another place wakes nobody");
        lab.nobody().put(&batch("todo", 1), b"x").expect(201);
        let put = Instant::now();
        for waiter in waiters {
            let (answer, at) = waiter.join().unwrap();
            assert_eq!(answer.number("synqlite-upto"), 2);
            assert_eq!(answer.header("synqlite-epoch"), Some(epoch.as_str()));
            assert!(at.saturating_duration_since(put) < Duration::from_secs(5));
        }
    });
    let mut client = lab.nobody();
    client.get("/todo/events?after=1").expect(200);
    client.get("/todo/events?after=99&epoch=00000000000000000000000000000000").expect(200);
    let nothing = client.get("/todo/events?after=2&wait=0").expect(204);
    assert_eq!(nothing.number("synqlite-upto"), 2);
    assert_eq!(nothing.header("synqlite-epoch"), Some(epoch.as_str()));
    client.get("/todo/events?after=2&wait=1").expect(204);
    client.get("/todo/objects").expect(200);
}

#[test]
pub fn who_waits_is_released_when_the_hub_stops() {
    let mut lab = Lab::open();
    let mut client = lab.nobody();
    let waiter = std::thread::spawn(move || client.get("/todo/events?wait=60").status);
    std::thread::sleep(Duration::from_millis(200));
    let since = Instant::now();
    lab.stop();
    assert_eq!(waiter.join().unwrap(), 204);
    assert!(since.elapsed() < Duration::from_secs(30));
}
