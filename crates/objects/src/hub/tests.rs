use super::*;
use std::io::Write;
use std::net::TcpListener;

#[test]
fn urls_name_a_host_and_a_store() {
    for (url, base) in [
        ("http://127.0.0.1:7700/todo", "http://127.0.0.1:7700/todo"),
        ("HTTPS://example.org/a.b-c_9/", "https://example.org/a.b-c_9"),
        ("https://example.org/behind/a/proxy", "https://example.org/behind/a/proxy"),
    ] {
        assert_eq!(Hub::new(url, None).unwrap().base, base);
    }
    let long = format!("http://host/{}", "a".repeat(65));
    for url in [
        "http://host",
        "http://host/",
        "http:///todo",
        "http://user:secret@host/todo",
        "http://host/a b",
        "http://host/-a",
        "http://host/a?b",
        "http://host/a%20b",
        "ftp://host/todo",
        &long,
    ] {
        let told = Hub::new(url, None).err().expect(url).to_string();
        assert!(told.contains(&blanked(url)) && told.contains("7700/todo"), "{told}");
        assert!(!told.contains("secret"), "{told}");
    }
}

/// A store at somebody who answers in a hub's place: with what `answer` says to the head of a request and its body.
fn at(answer: impl Fn(&str, &[u8]) -> String + Send + 'static) -> Hub {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/todo", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for mut client in listener.incoming().flatten() {
            let mut reader = BufReader::new(client.try_clone().unwrap());
            let mut head = String::new();
            while !head.ends_with("\r\n\r\n") && reader.read_line(&mut head).unwrap() > 0 {}
            let head = head.to_ascii_lowercase();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
            reader.read_exact(&mut body).unwrap();
            let answer = answer(&head, &body);
            let (start, body) = answer.split_once("\n\n").unwrap_or((&answer, ""));
            let start = start.replace('\n', "\r\n");
            let length = body.len();
            let _ = write!(
                client,
                "HTTP/1.1 {start}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
            );
        }
    });
    Hub::new(&url, Some("synq_x")).unwrap()
}

/// What a list says at somebody who answers everything with this.
fn told(answer: &'static str) -> Error {
    at(move |_, _| answer.into()).list(Id([1; 16]), Kind::Batch).unwrap_err()
}

fn batch() -> ObjectName {
    ObjectName::batch(Id([1; 16]), Id([2; 16]), 0, 7)
}

#[test]
fn who_answers_in_its_place_is_told_from_a_hub() {
    for (answer, words) in [
        ("200 ok\ncontent-type: text/html\n\n<html>log in</html>", "login page, log in"),
        (
            "301 Moved\nlocation: https://hub.example.org/todo/objects?prefix=0",
            "it is at https://hub.example.org/todo. Remove the remote and add it so",
        ),
        ("308 Moved\nlocation: /else/todo/objects?prefix=0", "/else/todo. Remove the remote"),
        (
            "307 Moved\nlocation: https://127.0.0.1/todo/objects",
            "it is at https://127.0.0.1/todo. ",
        ),
        (
            "302 Found\nlocation: http://u:p@login.hotel/?id=8",
            "to http://…@login.hotel/?… (status 302). If",
        ),
        (
            "302 Found\nlocation: https://login.hotel/todo/objects",
            "to https://login.hotel/todo/obj",
        ),
        ("302 Found", "with status 302, and not as a hub does"),
        ("511 Login\n\n<html>", "wants a login first"),
        ("401 No\nwww-authenticate: Basic realm=corp\n\n<html>", "a name and a password"),
        ("401 No\nwww-authenticate: Basic\n\n{\"error\": \"x\"}", "a name and a password"),
        ("401 No\n\n<html>", "refuses with status 401. The token may be right"),
        ("403 No\n\n<html>", "refuses with status 403. The token may be right"),
        ("404 No\n\n<html>", "no hub at this path"),
        ("413 No\n\n<html>", "with status 413, and not as a hub does"),
    ] {
        let e = told(answer);
        assert!(matches!(e, Error::NotAHub { .. }), "{answer}: {e}");
        assert!(e.to_string().contains(words), "{answer}: {e}");
    }
    // What a hub says itself is its own.
    let own = told("401 No\nwww-authenticate: Bearer\n\n{\"error\": \"no. Ask\"}");
    assert!(own.to_string().contains("wants a token that it knows"), "{own}");
    let own = told("403 No\n\n{\"error\": \"it is for another place\"}");
    assert!(own.to_string().contains("good for this: it is for another place"), "{own}");
    assert!(told("404 No\n\n{\"error\": \"x. See y\"}").to_string().ends_with("refuses: x. See y"));
}

#[test]
fn who_asks_to_wait_for_long_is_not_asked_again() {
    let since = std::time::Instant::now();
    for (answer, words) in [
        (
            "429 No\nretry-after: 3600",
            "429, too many requests, and asks to wait 1 h. Try again then",
        ),
        ("503 No\nretry-after: 100\n\n<html>", "status 503, and asks to wait 100 s. "),
        (
            "503 No\nretry-after: 900000\n\n{\"error\": \"full. Wait\"}",
            "full, and asks to wait 11 days.",
        ),
    ] {
        let e = told(answer);
        assert!(matches!(e, Error::Unreachable { .. }), "{answer}: {e}");
        assert!(e.to_string().contains(words) && !e.to_string().contains("network"), "{e}");
    }
    assert!(since.elapsed() < Duration::from_secs(10));
    let e = told("429 No");
    assert!(e.to_string().ends_with("too many requests. Try again later"), "{e}");
}

#[test]
fn a_put_is_believed_that_a_hub_has_answered() {
    for answer in ["201 Created\n\n<html>", "200 OK\n\nok", "201 Created\nsynqlite-sequence: x"] {
        let e = at(move |_, _| answer.into()).put_if_absent(&batch(), b"changes").unwrap_err();
        assert!(matches!(e, Error::NotAHub { .. }), "{answer}: {e}");
        assert!(e.to_string().contains("Something between here and the hub answers"), "{e}");
    }
    let hub = at(|_, _| "201 Created\nsynqlite-sequence: 7".into());
    assert_eq!(hub.put_if_absent(&batch(), b"changes").unwrap(), Put::Created);
}

#[test]
fn what_a_hub_says_it_has_it_must_give() {
    let there = |read: &'static str| {
        let hub = at(move |head, _| {
            let put = head.starts_with("put");
            if put { "200 OK\nsynqlite-sequence: 7" } else { read }.into()
        });
        hub.put_if_absent(&batch(), b"changes")
    };
    for read in ["404 No\n\n{\"error\": \"x\"}", "404 No\n\n<html>", "206 Part\n\n"] {
        let e = there(read).unwrap_err();
        assert!(matches!(e, Error::NotAHub { .. }), "{read}: {e}");
        assert!(e.to_string().contains("and does not give it. Something"), "{e}");
    }
    let page = there("200 OK\ncontent-type: text/html\n\n<html>").unwrap_err();
    assert!(page.to_string().contains("a page for a browser"), "{page}");
    assert_eq!(there("206 Part\n\nc").unwrap(), Put::AlreadyThere);
}

#[test]
fn a_put_whose_answer_was_lost_is_ours() {
    for (there, put) in [("changes", Put::Created), ("others", Put::AlreadyThere)] {
        let puts = std::sync::atomic::AtomicUsize::new(0);
        let hub = at(move |head, _| {
            let first = || puts.fetch_add(1, std::sync::atomic::Ordering::Relaxed) == 0;
            match head.starts_with("put") {
                true if first() => "502 Lost".into(),
                true => "200 OK\nsynqlite-sequence: 7".into(),
                false => format!("206 Part\n\n{there}"),
            }
        });
        assert_eq!(hub.put_if_absent(&batch(), b"changes").unwrap(), put);
    }
}

/// A hub behind a proxy that takes bodies of up to `most` bytes; what it was sent.
fn behind(most: usize) -> (Hub, std::sync::Arc<std::sync::Mutex<Vec<u8>>>) {
    let all = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let received = all.clone();
    let hub = at(move |head, body| {
        let mut received = received.lock().unwrap();
        if !head.starts_with("put") {
            return format!("200 OK\nsynqlite-received: {}", received.len());
        }
        if body.len() > most {
            return "413 Too large\n\n<html>".into();
        }
        let total = head.lines().find_map(|line| line.strip_prefix("content-range: bytes "));
        let total = total.and_then(|range| range.split_once('/')).map(|(_, total)| total);
        received.extend(body);
        match total.is_none_or(|total| total == received.len().to_string()) {
            true => "201 Created\nsynqlite-sequence: 7".into(),
            false => format!("202 More\nsynqlite-received: {}", received.len()),
        }
    });
    (hub, all)
}

#[test]
fn where_a_proxy_takes_no_long_body_parts_are_shorter() {
    for (most, size) in [(1 << 20, 5_000_000), (600_000, 3_000_000), (524_288, 1_000_000)] {
        let (hub, received) = behind(most);
        let bytes: Vec<u8> = (0..size).map(|n: u32| ((n * 7) >> 8) as u8).collect();
        assert_eq!(hub.put_if_absent(&batch(), &bytes).unwrap(), Put::Created);
        assert!(*received.lock().unwrap() == bytes, "{most}");
    }
    for size in [5_000_000, 400_000] {
        let (hub, _) = behind(300_000);
        let e = hub.put_if_absent(&batch(), &vec![1; size]).unwrap_err();
        assert!(matches!(e, Error::NotAHub { .. }), "{e}");
        assert!(
            e.to_string().contains("Raise its limit, which nginx calls client_max_body"),
            "{e}"
        );
    }
}

#[test]
fn lines_of_a_list_are_read() {
    let name = ObjectName::batch(Id([1; 16]), Id([2; 16]), 0, 7);
    let entry = Some(Entry { name, size: 3 });
    let line = |entry, prefix| Some(Line { entry, prefix });
    assert_eq!(read_line(&format!("9 3 {name}")), line(entry, None));
    assert_eq!(read_line(&format!("9 3 {name} 2")), line(entry, Some(2)));
    assert_eq!(read_line("9 3 foreign 3"), line(None, Some(3)));
    assert_eq!(read_line(&format!("9 0 {name}")), line(None, None), "an empty object is none");
    for wrong in ["", "9", "x 3 a", "9 3", &format!("9 2 {name} 3"), &format!("9 3 {name} 1 2")] {
        assert_eq!(read_line(wrong), None, "{wrong}");
    }
    assert_eq!(
        read_line(&format!("9 99999999 {name} 99999999")),
        None,
        "a hub sends 64 KiB at most"
    );
}

/// The hub hears what people call the site that asks, unless the place is sealed.
#[test]
fn who_asks_says_what_it_is_called() {
    for (sealed, called) in [(false, Some("ann%27s%20b%c3%bcro")), (true, None)] {
        let (say, heard) = std::sync::mpsc::channel();
        let hub = at(move |head, _| {
            let _ = say.send(head.to_owned());
            let epoch = Id([9; 16]);
            format!("200 OK\nsynqlite-epoch: {epoch}\nsynqlite-upto: 0\nsynqlite-more: false")
        });
        let store: Box<dyn Store> = match sealed {
            true => {
                Box::new(crate::Sealed::new(std::sync::Arc::new(hub), &crate::Key::new([1; 32])))
            }
            false => Box::new(hub),
        };
        let (database, site) = (Id([1; 16]), Some(Id([2; 16])));
        let ask = Ask { database, after: None, prefix: 0, site, name: "Ann's Büro" };
        store.changes(ask).unwrap();
        let heads: Vec<String> = heard.try_iter().collect();
        let asked = heads.iter().find(|head| head.contains("&site=")).unwrap();
        let name = asked.lines().find_map(|line| line.strip_prefix("synqlite-site-name: "));
        assert_eq!(name, called, "{asked}");
    }
}
