use super::*;
use crate::Error;
use crate::InitOptions;
use crate::fixture::Site;

/// Entries as `table row kind column=value …`.
fn lines(site: &Site, query: LogQuery) -> Vec<String> {
    let line = |e: LogEntry| {
        let columns = e.columns.iter().map(|(name, value)| format!(" {name}={value}"));
        let pending = if e.pending { " (pending)" } else { "" };
        format!("{} {} {}{pending}{}", e.table, e.row, e.change.name(), columns.collect::<String>())
    };
    site.replica.log(&query).unwrap().into_iter().map(line).collect()
}

fn all(site: &Site) -> Vec<String> {
    lines(site, LogQuery::default())
}

fn of(row: &str, limit: Option<usize>) -> LogQuery {
    LogQuery { row: Some(row.into()), limit, ..LogQuery::default() }
}

fn historical(sql: &str) -> Site {
    Site::with(sql, &InitOptions { history: true, ..InitOptions::default() })
}

const T: &str = "CREATE TABLE t(id INTEGER PRIMARY KEY, x, y);";

#[test]
fn the_latest_change_of_each_cell_is_told() {
    let mut site = Site::new(&format!("{T} INSERT INTO t VALUES (1, 'a', 'b'), (2, 'c', NULL)"));
    site.run("UPDATE t SET x = 'later' WHERE id = 1");
    site.replica.fold().unwrap();
    site.run("UPDATE t SET x = 'last', y = 7 WHERE id = 1; DELETE FROM t WHERE id = 2");
    site.replica.fold().unwrap();
    site.run("INSERT INTO t VALUES (3, 1.5, x'00')");
    site.replica.fold().unwrap();
    assert_eq!(
        all(&site)[..1].iter().chain(&all(&site)[3..]).cloned().collect::<Vec<_>>(),
        [
            "t 3 insert id=3 x=1.5 y=a blob of 1 B",
            "t 2 insert id=2 x='c' y=NULL",
            "t 1 insert id=1",
        ]
    );
    // One fold, one or two milliseconds: order within is by row.
    let mut middle = all(&site)[1..3].to_vec();
    middle.sort();
    assert_eq!(middle, ["t 1 update x='last' y=7", "t 2 delete"]);
}

#[test]
fn newest_first_with_time_and_site() {
    let mut a = Site::new(T);
    let mut b = a.another();
    let start = now();
    a.run("INSERT INTO t(id, x) VALUES (1, 'a')");
    b.pull(&mut a);
    b.run("UPDATE t SET x = 'b'");
    a.pull(&mut b);
    a.run("UPDATE t SET y = 'a'");
    a.replica.fold().unwrap();
    let log = a.replica.log(&LogQuery::default()).unwrap();
    let told: Vec<_> = log.iter().map(|e| (e.change.name(), e.site)).collect();
    let (sa, sb) = (a.replica.site(), b.replica.site());
    assert_eq!(told, [("update", sa), ("update", sb), ("insert", sa)]);
    assert!(log.iter().all(|e| (start..=now()).contains(&e.at_ms)));
    assert!(log.is_sorted_by(|a, b| a.at_ms > b.at_ms));
    b.pull(&mut a);
    assert_eq!(b.replica.log(&LogQuery::default()).unwrap(), log);
}

fn now() -> i64 {
    crate::Environment::now_ms(&crate::System)
}

#[test]
fn rows_of_every_kind_of_table_have_names() {
    let site = Site::new(
        "CREATE TABLE k(a TEXT, b INT, c, PRIMARY KEY(a, b)) WITHOUT ROWID; \
         CREATE TABLE bag(x); INSERT INTO k VALUES ('p', 1, 2); INSERT INTO bag VALUES (5)",
    );
    let bag = "bag rowid 1 insert x=5".to_owned();
    let mut told = all(&site);
    told.sort();
    assert_eq!(told, [bag.as_str(), "k 'p', 1 insert a='p' b=1 c=2"]);
}

#[test]
fn queries_choose_table_row_and_number() {
    let mut site = Site::new(&format!(
        "{T} CREATE TABLE k(id TEXT PRIMARY KEY, x); CREATE TABLE l(id TEXT PRIMARY KEY)"
    ));
    site.run("INSERT INTO t SELECT value, value, 0 FROM json_each('[1,2,3,4,5]')");
    site.replica.fold().unwrap();
    site.run("INSERT INTO k VALUES ('3', 0), ('it''s', 0); INSERT INTO l VALUES ('3')");
    site.replica.fold().unwrap();
    site.run("UPDATE t SET y = 1 WHERE id = 3; UPDATE k SET x = 1 WHERE id = '3'");
    site.replica.fold().unwrap();
    let table = |name: &str| LogQuery { table: Some(name.into()), ..LogQuery::default() };
    assert_eq!(lines(&site, table("L")), ["l '3' insert id='3'"]);
    assert_eq!(lines(&site, LogQuery { limit: Some(1), ..table("t") }), ["t 3 update y=1"]);
    let row = lines(&site, LogQuery { row: Some("3".into()), ..table("t") });
    assert_eq!(row, ["t 3 update y=1", "t 3 insert id=3 x=3"]);
    assert_eq!(lines(&site, LogQuery { row: Some("4".into()), ..table("t") }).len(), 1);
    // An integer key is compared with a text as a number.
    for three in ["'3'", "3"] {
        assert_eq!(lines(&site, of(three, None)).len(), 5);
    }
    assert_eq!(lines(&site, of("it's", None)), ["k 'it''s' insert id='it's' x=0"]);
    let error = site.replica.log(&of("none", None)).unwrap_err();
    assert_eq!(error.to_string(), "no change concerns a row with the key none");
    let error = site.replica.log(&table("nothing")).unwrap_err();
    assert!(matches!(error, Error::NoTable { name, .. } if name == "nothing"));
}

/// A limit gives the first entries of the whole log, whatever the limit.
#[test]
fn limits_cut_the_log() {
    for history in [false, true] {
        let options = InitOptions { history, ..InitOptions::default() };
        let mut site = Site::with(&format!("{T} CREATE TABLE k(id TEXT PRIMARY KEY, x)"), &options);
        for round in 0..4 {
            site.run("INSERT INTO t(x) SELECT value FROM json_each('[1,2,3,4,5]')");
            site.run(&format!("UPDATE t SET y = {round} WHERE id % 3 = {round} % 3"));
            site.run(&format!(
                "DELETE FROM t WHERE id = {}; INSERT INTO k VALUES ({round}, 1)",
                2 * round
            ));
            site.replica.fold().unwrap();
        }
        site.run("UPDATE t SET x = 0 WHERE id > 8; INSERT INTO t(x) VALUES (9); DELETE FROM k WHERE id = 1");
        let whole = all(&site);
        assert!(whole.len() > 30, "{whole:#?}");
        for limit in 0..whole.len() + 2 {
            let cut = lines(&site, LogQuery { limit: Some(limit), ..LogQuery::default() });
            assert_eq!(cut, whole[..limit.min(whole.len())], "limit {limit}");
        }
    }
}

#[test]
fn unfolded_writes_come_first() {
    let mut site =
        Site::new(&format!("{T} INSERT INTO t VALUES (1,'a','b'),(2,'c','d'),(3,'e','f')"));
    site.run("UPDATE t SET y = 'then' WHERE id = 1");
    site.replica.fold().unwrap();
    let file = |site: &Site| std::fs::read(&site.path).unwrap();
    site.run("UPDATE t SET x = 'now' WHERE id = 1");
    site.run("DELETE FROM t WHERE id = 2");
    site.run("INSERT INTO t VALUES (4, 'g', NULL)");
    site.run("INSERT OR REPLACE INTO t VALUES (3, 'e', 'new')");
    let before = file(&site);
    assert_eq!(
        all(&site),
        [
            "t 3 reinsert (pending) id=3 x='e' y='new'",
            "t 4 insert (pending) id=4 x='g' y=NULL",
            "t 2 delete (pending)",
            "t 1 update (pending) x='now'",
            "t 1 update y='then'",
            "t 3 insert id=3 x='e' y='f'",
            "t 2 insert id=2 x='c' y='d'",
            "t 1 insert id=1 x=overwritten",
        ]
    );
    assert_eq!(file(&site), before);
    let pending = all(&site).len();
    site.replica.fold().unwrap();
    assert!(all(&site).iter().all(|line| !line.contains("pending")));
    assert_eq!(all(&site).len(), pending);
}

#[test]
fn a_key_that_changes_names_the_row() {
    let mut site =
        Site::new("CREATE TABLE k(id TEXT PRIMARY KEY, x); INSERT INTO k VALUES ('p', 1)");
    site.run("UPDATE k SET id = 'q'");
    assert_eq!(all(&site), ["k 'q' update (pending) id='q'", "k 'q' insert id=overwritten x=1"]);
    site.replica.fold().unwrap();
    assert_eq!(all(&site), ["k 'q' update id='q'", "k 'q' insert x=1"]);
    site.run("DELETE FROM k");
    site.replica.fold().unwrap();
    assert_eq!(all(&site), ["k 'q' delete", "k 'q' update id='q'", "k 'q' insert x=1"]);
}

#[test]
fn a_key_inserted_again_is_a_reinsert() {
    let mut site = Site::new("CREATE TABLE k(id TEXT PRIMARY KEY, x)");
    for sql in ["INSERT INTO k VALUES ('p', 1)", "DELETE FROM k", "INSERT INTO k VALUES ('p', 2)"] {
        site.run(sql);
        site.replica.fold().unwrap();
    }
    assert_eq!(all(&site), ["k 'p' reinsert id='p' x=2", "k 'p' delete"]);
}

#[test]
fn a_history_keeps_every_change() {
    let mut site = historical(&format!("{T} INSERT INTO t VALUES (1, 'first', NULL)"));
    for sql in [
        "INSERT INTO t VALUES (2, 'a', NULL)",
        "UPDATE t SET x = 'b' WHERE id = 2",
        "UPDATE t SET x = 'c', y = 1 WHERE id = 2",
        "DELETE FROM t WHERE id = 2",
        "INSERT INTO t VALUES (3, 'r', NULL)",
        "INSERT OR REPLACE INTO t VALUES (3, 's', NULL)",
    ] {
        site.run(sql);
        site.replica.fold().unwrap();
    }
    site.run("UPDATE t SET x = 'd' WHERE id = 1");
    let want = [
        "t 1 update (pending) x='d'",
        "t 3 reinsert x='s'",
        "t 3 insert id=3 x='r' y=NULL",
        "t 2 delete",
        "t 2 update x='c' y=1",
        "t 2 update x='b'",
        "t 2 insert id=2 x='a' y=NULL",
        "t 1 insert id=1 x='first' y=NULL",
    ];
    assert_eq!(all(&site), want);
    assert_eq!(lines(&site, of("2", None)), want[3..7]);
    assert_eq!(lines(&site, of("2", Some(3))), want[3..6]);
    let row = |row: &str| lines(&site, LogQuery { table: Some("t".into()), ..of(row, Some(1)) });
    assert_eq!(row("3"), want[1..2]);
}

#[test]
fn a_history_keeps_what_other_sites_sent_even_if_it_lost() {
    let mut a = historical("CREATE TABLE k(id TEXT PRIMARY KEY, x); INSERT INTO k VALUES ('p', 0)");
    let mut b = a.another();
    b.run("UPDATE k SET x = 'earlier'");
    a.run("UPDATE k SET x = 'later'");
    a.pull(&mut b);
    b.pull(&mut a);
    let want = ["k 'p' update x='later'", "k 'p' update x='earlier'", "k 'p' insert id='p' x=0"];
    assert_eq!(all(&a), want);
    assert_eq!(all(&b), want);
    // What comes again by another way changes nothing.
    let mut c = b.another();
    c.run("INSERT INTO k VALUES ('q', 1)");
    a.pull(&mut c);
    a.pull(&mut b);
    assert_eq!(all(&a)[1..], want);
}

#[test]
fn a_history_outlives_a_dropped_column() {
    let mut site = historical(T);
    site.run("INSERT INTO t VALUES (1, 2, 3)");
    site.replica.fold().unwrap();
    site.run("UPDATE t SET y = 4");
    site.replica.fold().unwrap();
    site.run("ALTER TABLE t DROP COLUMN y");
    site.replica.fold().unwrap();
    assert_eq!(all(&site), ["t 1 update y=4", "t 1 insert id=1 x=2 y=3"]);
}
