//! `synqlite review`: the page's server spoken to as a browser does, and as others may try to; the conversation in
//! the terminal.

use crate::conflicts::lab;
use crate::support::{Lab, stderr, stdout};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// A review that runs, and a browser that looks at it.
pub struct Review {
    child: Child,
    out: BufReader<ChildStdout>,
    browser: Browser,
}

/// A browser that was given an address.
#[derive(Clone)]
pub struct Browser {
    port: u16,
    place: String,
    token: String,
    cookie: String,
}

impl std::ops::Deref for Review {
    type Target = Browser;

    fn deref(&self) -> &Browser {
        &self.browser
    }
}

/// An answer.
#[derive(Debug)]
struct Answer {
    status: u16,
    head: String,
    body: String,
}

impl Answer {
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|e| panic!("{e}: {self:?}"))
    }
}

impl Drop for Review {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Review {
    /// Starts one.
    pub fn start(lab: &Lab, site: &str) -> Review {
        let mut child = Command::new(env!("CARGO_BIN_EXE_synqlite"))
            .args(["review", &lab.db(site), "--no-open", "--json"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary runs");
        let mut out = BufReader::new(child.stdout.take().expect("standard output"));
        let mut line = String::new();
        out.read_line(&mut line).expect("an address");
        let url: Value = serde_json::from_str(&line).expect("a document");
        let url = url["url"].as_str().expect("an address").to_owned();
        let rest = url.strip_prefix("http://127.0.0.1:").expect("this machine");
        let (port, rest) = rest.split_once('/').expect("a path");
        let (place, token) = rest.split_once("/#").expect("a token");
        let [place, token] = [place, token].map(str::to_owned);
        let port = port.parse().expect("a port");
        Review { child, out, browser: Browser { port, place, token, cookie: String::new() } }
    }

    /// Gives the token for a session.
    fn enter(mut self) -> Review {
        let answer = self.post("session", &json!({"token": self.token}));
        assert_eq!(answer.status, 200, "{answer:?}");
        let cookie = answer.head.split("set-cookie: ").nth(1).expect("a cookie");
        self.browser.cookie = cookie.split(';').next().expect("its value").to_owned();
        self
    }

    /// The page says that it is done; what the command reports.
    fn end(mut self) -> Value {
        assert_eq!(self.post("end", &json!({})).status, 200);
        self.report()
    }

    /// What the command reports when it ends by itself.
    pub fn report(&mut self) -> Value {
        let mut line = String::new();
        self.out.read_line(&mut line).expect("a report");
        assert!(self.child.wait().expect("it ends").success());
        serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e}: {line}"))
    }
}

impl Browser {
    /// The address as it is printed.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}/{}/#{}", self.port, self.place, self.token)
    }

    fn speak(&self, text: &[u8]) -> Answer {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).expect("it listens");
        stream.set_read_timeout(Some(Duration::from_secs(30))).expect("a timeout");
        // It may have answered and closed before all of a large request is out.
        let _ = stream.write_all(text);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        let answer = String::from_utf8(answer).expect("text");
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
        let status = head.split(' ').nth(1).and_then(|s| s.parse().ok()).unwrap_or(0);
        let (head, body) = (head.to_ascii_lowercase(), body.to_owned());
        Answer { status, head, body }
    }

    fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        let mut text = format!("{method} {path} HTTP/1.1\r\nContent-Length: {}\r\n", body.len());
        for (name, value) in headers {
            text += &format!("{name}: {value}\r\n");
        }
        self.speak(format!("{text}\r\n{body}").as_bytes())
    }

    fn host(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    fn get(&self, path: &str) -> Answer {
        let headers = [("Host", &*self.host()), ("Cookie", &*self.cookie)];
        self.ask("GET", &format!("/{}/{path}", self.place), &headers, "")
    }

    fn post(&self, path: &str, body: &Value) -> Answer {
        let (host, origin) = (self.host(), format!("http://{}", self.host()));
        let headers = [
            ("Host", &*host),
            ("Origin", &*origin),
            ("Content-Type", "application/json"),
            ("Cookie", &*self.cookie),
        ];
        self.ask("POST", &format!("/{}/{path}", self.place), &headers, &body.to_string())
    }

    fn records(&self) -> Vec<Value> {
        let answer = self.get("records").json();
        answer["records"].as_array().unwrap_or_else(|| panic!("{answer}")).clone()
    }

    /// The record of this kind.
    fn record(&self, kind: &str) -> Value {
        let all = self.records();
        let found = all.iter().find(|r| r["kind"] == kind);
        found.unwrap_or_else(|| panic!("no {kind} in {all:#?}")).clone()
    }

    fn decide(&self, how: &str, choices: &[(&Value, &str)]) -> Value {
        let choices = choices.iter();
        let choices =
            choices.map(|(r, verb)| json!({"id": r["id"], "seen": r["seen"], "verb": verb}));
        let body = json!({"decisions": choices.collect::<Vec<_>>()});
        let answer = self.post(how, &body);
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.json()
    }
}

fn ids(came: &Value, key: &str) -> Vec<String> {
    let all = came[key].as_array().unwrap_or_else(|| panic!("{key}: {came}"));
    let id = |one: &Value| one.as_str().or(one["id"].as_str()).expect("an id").to_owned();
    all.iter().map(id).collect()
}

fn id(record: &Value) -> String {
    record["id"].as_str().expect("an id").to_owned()
}

#[test]
fn decisions_are_written_at_once_and_hold_on_all_sites() {
    let lab = lab();
    let review = Review::start(&lab, "B").enter();
    let [fallback, unique, cascade] =
        ["fallback", "unique", "fk_cascade"].map(|kind| review.record(kind));
    // What it was before, what was written here, what the other has.
    let roles = |r: &Value| {
        let versions = r["versions"].as_array().unwrap().iter();
        versions.map(|v| v["role"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(roles(&fallback), ["before", "mine", "theirs"], "{fallback:#}");
    assert_eq!(roles(&unique), ["mine", "theirs"], "{unique:#}");
    let email = fallback["columns"].as_array().unwrap().iter().find(|c| c["name"] == "email");
    let cells = email.unwrap()["cells"].as_array().unwrap().iter().map(|c| c["text"].clone());
    assert_eq!(cells.collect::<Vec<_>>(), ["bob@x", "info@x", "info@x"]);
    let by = &fallback["versions"][1]["by"][0];
    assert_eq!((&by["here"], &by["columns"]), (&json!(true), &json!(["email"])), "{fallback:#}");

    let decided = [(&fallback, "accept"), (&unique, "discard"), (&cascade, "restore")];
    let before = lab.digest("B");
    let would = review.decide("check", &decided);
    assert_eq!((ids(&would, "settled").len(), &would["open"]), (3, &json!(0)), "{would}");
    assert_eq!(lab.digest("B"), before, "a dry run writes nothing");
    let came = review.decide("settle", &decided);
    assert_eq!((ids(&came, "settled").len(), &came["open"]), (3, &json!(0)), "{came}");
    assert!(review.records().is_empty());
    assert_eq!(review.end(), json!({"settled": 3, "open": 0}));

    lab.json(&["sync", &lab.db("B")]);
    lab.assert_equal(&["A", "B"]);
    for site in ["A", "B"] {
        assert_eq!(lab.json(&["status", &lab.db(site)])["conflicts"], 0);
        let people = lab.rows(site, "SELECT id, email FROM person ORDER BY id");
        assert_eq!(people, ["ann|info@x", "bob|bob@x", "cy|cy@x", "dee|d@x"]);
        assert_eq!(lab.rows(site, "SELECT person FROM note"), ["cy"]);
    }
}

#[test]
fn a_dry_run_tells_what_would_be_refused_or_opened() {
    let lab = lab();
    let review = Review::start(&lab, "B").enter();
    let (fallback, cascade) = (review.record("fallback"), review.record("fk_cascade"));
    let would = review.decide("check", &[(&fallback, "prefer"), (&cascade, "prefer")]);
    assert_eq!(ids(&would, "settled"), [id(&fallback)], "{would}");
    assert_eq!(ids(&would, "refused"), [id(&cascade)], "{would}");
    assert!(would["refused"][0]["why"].as_str().unwrap().contains("cannot be settled by prefer"));
    let opened = &would["opened"][0];
    assert_eq!((&opened["by"], &opened["table"]), (&fallback["id"], &json!("person")), "{would}");
    assert!(opened["row"].as_str().unwrap().starts_with("row 'ann'"), "{would}");
    assert_eq!(review.records().len(), 3, "nothing was written");
    // What can be written is, all the same.
    let came = review.decide("settle", &[(&fallback, "prefer"), (&cascade, "prefer")]);
    assert_eq!(ids(&came, "settled"), [id(&fallback)], "{came}");
    assert_eq!(ids(&came, "opened"), ids(&would, "opened"), "it was told as it came");
    let bob = lab.rows("B", "SELECT email FROM person WHERE id IN ('ann', 'bob') ORDER BY id");
    assert_eq!(bob, ["ann@x", "info@x"]);
}

#[test]
fn what_others_settle_or_change_meanwhile_is_told() {
    let lab = lab();
    let review = Review::start(&lab, "B").enter();
    let [fallback, unique, cascade] =
        ["fallback", "unique", "fk_cascade"].map(|kind| review.record(kind));
    // One is settled at the other site, one by hand here, and the third is another since.
    lab.json(&["conflicts", &lab.db("A"), "discard", &id(&cascade)]);
    lab.sql("A", "UPDATE person SET about = 'changed' WHERE id = 'ann'");
    lab.json(&["sync", &lab.db("B")]);
    lab.sql("B", "DELETE FROM person WHERE id = 'dee'");
    let decided = [(&fallback, "accept"), (&unique, "discard"), (&cascade, "restore")];
    let came = review.decide("settle", &decided);
    assert_eq!(ids(&came, "settled"), [""; 0], "{came}");
    assert_eq!(ids(&came, "changed"), [id(&fallback)], "{came}");
    let mut gone = ids(&came, "gone");
    gone.sort();
    let mut want = [id(&unique), id(&cascade)];
    want.sort();
    assert_eq!(gone, want, "{came}");
    let why = |id: &str| {
        let gone = came["gone"].as_array().unwrap().iter();
        gone.clone().find(|g| g["id"] == id).unwrap()["why"].as_str().unwrap().to_owned()
    };
    assert!(why(&id(&cascade)).starts_with("by a merge: the row was deleted at "), "{came}");
    assert!(why(&id(&unique)).starts_with("by a write here: row "), "{came}");
    // The hidden row is back, as its obstacle went; nothing was lost.
    assert_eq!(lab.rows("B", "SELECT count(*) FROM person WHERE id = 'dan'"), ["1"]);
    // Seen as it is now, the other is settled.
    let came = review.decide("settle", &[(&review.record("fallback"), "accept")]);
    assert_eq!((ids(&came, "settled"), &came["open"]), (vec![id(&fallback)], &json!(0)), "{came}");
    lab.json(&["sync", &lab.db("B")]);
    lab.assert_equal(&["A", "B"]);
}

#[test]
fn a_row_that_is_gone_needs_no_decision() {
    let lab = lab();
    let review = Review::start(&lab, "B").enter();
    let fallback = review.record("fallback");
    lab.sql("B", "DELETE FROM person WHERE id = 'bob'");
    let would = review.decide("check", &[(&fallback, "prefer")]);
    assert_eq!((ids(&would, "gone"), ids(&would, "settled").len()), (vec![id(&fallback)], 0));
    let came = review.decide("settle", &[(&fallback, "prefer")]);
    assert_eq!((ids(&came, "gone"), &came["open"]), (vec![id(&fallback)], &json!(2)), "{came}");
    assert_eq!(lab.rows("B", "SELECT email FROM person WHERE id = 'ann'"), ["info@x"]);
}

#[test]
fn two_sites_may_settle_one_record_in_different_ways() {
    let lab = lab();
    let reviews = ["A", "B"].map(|site| Review::start(&lab, site).enter());
    for (review, verb) in reviews.iter().zip(["accept", "prefer"]) {
        let came = review.decide("settle", &[(&review.record("fallback"), verb)]);
        assert_eq!(ids(&came, "settled").len(), 1, "{came}");
    }
    lab.json(&["sync", &lab.db("B")]);
    lab.json(&["sync", &lab.db("B")]);
    lab.assert_equal(&["A", "B"]);
    let emails = lab.rows("A", "SELECT email FROM person WHERE email = 'info@x'");
    assert_eq!(emails, ["info@x"]);
    // Both pages show what is open now.
    let open = reviews.each_ref().map(|r| r.get("records").json()["open"].clone());
    assert_eq!(open[0], open[1]);
    assert_eq!(lab.json(&["status", &lab.db("A")])["conflicts"], open[0]);
}

#[test]
fn a_review_and_a_sync_do_not_disturb_each_other() {
    let lab = lab();
    let review = Review::start(&lab, "B").enter();
    let script = "WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 9000) \
                  INSERT INTO person SELECT 'p' || n, 'P', 'p' || n, NULL FROM n";
    lab.sql("A", script);
    let sync = Command::new(env!("CARGO_BIN_EXE_synqlite"))
        .args(["sync", &lab.db("B"), "--json"])
        .stdout(Stdio::null())
        .spawn();
    let mut sync = sync.expect("the binary runs");
    let mut left = 3;
    for kind in ["fallback", "fk_cascade", "unique"] {
        let verb = if kind == "fallback" { "accept" } else { "discard" };
        let came = review.decide("settle", &[(&review.record(kind), verb)]);
        left -= ids(&came, "settled").len();
        assert_eq!(came["open"], left, "{came}");
    }
    assert!(sync.wait().expect("it ends").success());
    lab.json(&["sync", &lab.db("B")]);
    lab.assert_equal(&["A", "B"]);
    assert_eq!(review.end(), json!({"settled": 3, "open": 0}));
}

#[test]
fn strangers_get_nothing() {
    let lab = lab();
    let review = Review::start(&lab, "B");
    let (host, place) = (review.host(), review.place.clone());
    let origin = format!("http://{host}");
    let own = [("Host", &*host), ("Origin", &*origin), ("Content-Type", "application/json")];
    let mut answers = Vec::new();
    let mut denied = |answer: Answer, status: u16, word: &str| {
        assert_eq!(answer.status, status, "{word}: {answer:?}");
        assert!(answer.body.contains(word) && !answer.body.contains("info@x"), "{answer:?}");
        answers.push(answer);
    };
    // Without a session; with tokens that are guessed, as often as anybody likes.
    denied(review.get("records"), 403, "has no part in this review");
    for path in ["check", "settle", "page", "end"] {
        denied(review.post(path, &json!({"decisions": []})), 403, "has no part in this review");
    }
    for n in 0..50 {
        let answer = review.post("session", &json!({"token": format!("{n:032x}")}));
        denied(answer, 403, "not the address of this review");
    }
    for odd in [json!({}), json!({"token": 7}), json!([]), json!(null)] {
        denied(review.post("session", &odd), 403, "not the address of this review");
    }
    // None of that locks its user out; who comes second with the address is told.
    let review = review.enter();
    let second = Browser { cookie: String::new(), ..review.browser.clone() };
    denied(second.post("session", &json!({"token": second.token})), 403, "has been used");
    // The browser that has the session may load the page again.
    assert_eq!(review.post("session", &json!({"token": review.token})).status, 200);

    // By another name, as when a name of elsewhere is made to mean this machine.
    for wrong in ["evil.example", "127.0.0.1", &host.replace("127.0.0.1", "evil.example")] {
        let headers = [("Host", wrong), ("Cookie", &review.cookie)];
        let path = format!("/{place}/records");
        denied(review.ask("GET", &path, &headers, ""), 421, "127.0.0.1 and localhost only");
    }
    // From another origin, with the cookie.
    for wrong in ["http://evil.example", "null", &origin.replace(&host, "127.0.0.1:1")] {
        let headers = [own[0], ("Origin", wrong), own[2], ("Cookie", &review.cookie)];
        let answer = review.ask("POST", &format!("/{place}/end"), &headers, "{}");
        denied(answer, 403, "only the page itself");
        let answer = review.ask("OPTIONS", &format!("/{place}/end"), &headers, "");
        denied(answer, 403, "only the page itself");
    }
    let form = [own[0], own[1], ("Content-Type", "text/plain"), ("Cookie", &review.cookie)];
    denied(review.ask("POST", &format!("/{place}/end"), &form, "{}"), 415, "application/json");
    // Outside of its path there is nothing.
    for path in ["/", "/records", "/favicon.ico", "/0000000000000000/"] {
        denied(review.ask("GET", path, &own[..1], ""), 404, "nothing here");
    }
    // What is no request, and what is too large.
    denied(review.speak(b"\x16\x03\x01\r\n\r\n"), 400, "not a request");
    let long =
        format!("POST /{place}/settle HTTP/1.1\r\nHost: {host}\r\nContent-Length: 9999999\r\n\r\n");
    denied(review.speak(long.as_bytes()), 413, "too large");
    for body in ["", "{", "[]", r#"{"decisions": [{"id": 1}]}"#] {
        let headers = [own[0], own[1], own[2], ("Cookie", &review.cookie)];
        let answer = review.ask("POST", &format!("/{place}/settle"), &headers, body);
        denied(answer, 400, "");
    }
    for answer in answers {
        assert!(!answer.head.contains("access-control"), "{answer:?}");
        assert!(answer.head.contains("content-security-policy: default-src 'none'"), "{answer:?}");
        assert!(answer.head.contains("cache-control: no-store"), "{answer:?}");
    }
    // It was not ended, and nothing was written.
    assert_eq!(review.records().len(), 3);
    assert_eq!(review.end(), json!({"settled": 0, "open": 3}));
}

#[test]
fn the_page_needs_nothing_from_elsewhere() {
    let lab = lab();
    let review = Review::start(&lab, "B");
    for (path, kind) in
        [("", "text/html"), ("page.css", "text/css"), ("page.js", "text/javascript")]
    {
        let answer = review.get(path);
        assert!(answer.status == 200 && answer.head.contains(kind), "{answer:?}");
        for elsewhere in ["http://", "https://", "//cdn", "@import", "url(", "innerHTML", "style="]
        {
            assert!(!answer.body.contains(elsewhere), "{path}: {elsewhere}");
        }
        for word in ["default-src 'none'", "frame-ancestors 'none'", "trusted-types 'none'"] {
            assert!(answer.head.contains(word), "{path}: {word}");
        }
        assert!(!answer.head.contains("unsafe"), "{path}");
    }
}

#[test]
fn odd_and_large_names_and_values_are_shown_short_and_harmless() {
    let lab = Lab::new();
    let table = "<img src=x onerror=alert(1)>";
    let column = "a\u{202e}\u{1b}[2J";
    lab.sql(
        "A",
        &format!(r#"CREATE TABLE "{table}"(k TEXT PRIMARY KEY, "{column}" TEXT UNIQUE, big)"#),
    );
    lab.json(&["init", &lab.db("A")]);
    lab.json(&["clone", &lab.db("A"), &lab.db("B")]);
    let long = "<b>".repeat(400_000);
    for (site, end) in [("A", "one"), ("B", "two")] {
        let sql =
            format!("INSERT INTO \"{table}\" VALUES('{site}{long}', 'x\u{202e}y', '{long}{end}')");
        lab.sql(site, &sql);
    }
    lab.json(&["sync", &lab.db("B")]);
    let review = Review::start(&lab, "B").enter();
    let answer = review.get("records");
    assert!(answer.body.len() < 20_000, "{} bytes", answer.body.len());
    assert!(!answer.body.contains(['\u{202e}', '\u{1b}']), "{}", answer.body);
    let record = review.record("unique");
    assert_eq!(answer.json()["tables"][0]["name"], table);
    assert_eq!(record["columns"][1]["name"], "a\\u{202e}\\u{1b}[2J");
    assert_eq!(record["columns"][1]["cells"][0]["text"], "x\\u{202e}y");
    let cells = record["columns"][2]["cells"].as_array().unwrap();
    let ends = |word: &str| cells.iter().any(|c| c["text"].as_str().unwrap().ends_with(word));
    assert!(ends("one") && ends("two") && cells[0]["cut"] == "1.2 MB", "{cells:?}");
    let came = review.decide("settle", &[(&record, "discard")]);
    assert_eq!(came["open"], 0, "{came}");
}

#[test]
fn it_ends_when_the_last_page_has_gone() {
    let lab = lab();
    let mut review = Review::start(&lab, "B").enter();
    let since = Instant::now();
    for (page, here) in [("one", true), ("two", true), ("one", false)] {
        review.post("page", &json!({"page": page, "here": here}));
    }
    std::thread::sleep(Duration::from_secs(5));
    assert_eq!(review.records().len(), 3, "a page is open");
    review.post("page", &json!({"page": "two", "here": false}));
    assert_eq!(review.report(), json!({"settled": 0, "open": 3}));
    assert!(since.elapsed() < Duration::from_secs(60));
}

#[cfg(unix)]
#[test]
fn a_signal_ends_it() {
    let lab = lab();
    let mut review = Review::start(&lab, "B").enter();
    let pid = review.child.id().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    assert_eq!(review.report(), json!({"settled": 0, "open": 3}));
}

#[test]
fn without_conflicts_there_is_nothing_to_show() {
    let lab = Lab::with_a();
    for args in
        [&["review", &lab.db("A"), "--no-open"][..], &["review", &lab.db("A"), "--terminal"]]
    {
        assert_eq!(lab.json(args), json!({"settled": 0, "open": 0}));
    }
}

/// Runs the conversation with these lines; what it reports, and what it tells.
fn talk(lab: &Lab, lines: &str) -> (Value, String) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_synqlite"))
        .args(["review", "--terminal", &lab.db("B"), "--json"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    child.stdin.take().expect("its input").write_all(lines.as_bytes()).expect("it listens");
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{}", stderr(&output));
    (serde_json::from_str(&stdout(&output)).expect("one document"), stderr(&output))
}

#[test]
fn in_the_terminal_a_letter_is_enough() {
    let lab = lab();
    // The order is that of tables and rows: note 1, person 'bob', person 'dan'.
    let (report, told) = talk(&lab, "1\nz\na\nu\na\ns\nw\nq\n");
    assert_eq!(report, json!({"settled": 2, "open": 1}), "{told}");
    for word in [
        "0 decided, 3 left",
        "1 restore: Bring row 'cy' (“cy@x”) of person back",
        "? tells the letters",
        "taken back",
        "That was the last: 2 decided, 1 skipped, 0 left.",
        "written: 2 records",
    ] {
        assert!(told.contains(word), "{word}: {told}");
    }
    assert_eq!(lab.rows("B", "SELECT person FROM note"), ["cy"]);
    assert!(!told.contains('\u{1b}'), "{told}");
}

/// As every command: what it reads between two questions too.
#[test]
fn it_waits_for_others_no_longer_than_it_is_told() {
    let lab = lab();
    let mut child = Command::new(env!("CARGO_BIN_EXE_synqlite"))
        .args(["review", "--terminal", &lab.db("B"), "--wait", "1"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    let mut told = child.stderr.take().expect("a pipe");
    let mut heard = Vec::new();
    while !heard.ends_with(b"> ") {
        let mut byte = [0];
        assert_eq!(told.read(&mut byte).expect("a question"), 1);
        heard.extend(byte);
    }
    let mut app = lab.connect("B");
    let lock = app.transaction_with_behavior(rusqlite::TransactionBehavior::Exclusive);
    let lock = lock.expect("nobody reads just now");
    let since = Instant::now();
    child.stdin.as_mut().expect("its input").write_all(b"s\n").expect("it listens");
    assert_eq!(child.wait().expect("it ends").code(), Some(3));
    assert!(since.elapsed() < Duration::from_secs(30), "{:?}", since.elapsed());
    drop(lock);
}

#[test]
fn in_the_terminal_nothing_is_written_unasked() {
    let lab = lab();
    let before = lab.digest("B");
    for lines in [
        "",
        "1\n1\n2\n",
        "1\n1\n2\nq\ny\n",
        "1\nq\nn\nq",
        "s\np\nw\nn\n",
        "1\nu\nw\n",
        "\u{0}\n?\nxyz",
    ] {
        let (report, told) = talk(&lab, lines);
        assert_eq!(report, json!({"settled": 0, "open": 3}), "{lines}: {told}");
        assert_eq!(lab.digest("B"), before, "{lines}");
    }
    let (_, told) = talk(&lab, "s\np\nw\nn\n");
    assert!(told.contains("would open another") && told.contains("nothing was written"), "{told}");
    let (report, told) = talk(&lab, "s\np\nw\ny\nq\n");
    assert_eq!(report, json!({"settled": 1, "open": 3}), "{told}");
}

#[test]
fn in_the_terminal_one_choice_can_be_that_for_all_of_a_kind() {
    let lab = lab();
    lab.sql("A", "INSERT INTO person VALUES('eve', 'Eve', 'e@x', NULL)");
    lab.sql("B", "INSERT INTO person VALUES('eva', 'Eva', 'e@x', NULL)");
    lab.json(&["sync", &lab.db("B")]);
    let (report, told) = talk(&lab, "s\ns\n2!\nw\nn\nq\ny\n");
    assert_eq!(report, json!({"settled": 0, "open": 4}), "{told}");
    assert!(told.contains("discard: 2 records"), "{told}");
    assert!(told.contains("would delete row 'eva' (“Eva”) of person, on all sites"), "{told}");
    let (report, told) = talk(&lab, "s\ns\n2!\nw\ny\nq\n");
    assert_eq!(report, json!({"settled": 2, "open": 2}), "{told}");
}
