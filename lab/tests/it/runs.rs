//! Runs: the same statements for all engines, and every parameter in every result.

use super::{fails, lab, ok, results};
use std::collections::BTreeSet;
use std::fs;

const ALL: &str = "plain,again,replica,replica:fold=transaction,replica:fold=50,improved,\
                   improved:fold=100,original,original:keys=scanned";

/// Digests of statements and rows in a results file, by journal mode: what a crash leaves differs
/// between modes, and so do the statements that look at it.
fn digests(path: &std::path::Path) -> BTreeSet<(String, String, String)> {
    let text = |value: &serde_json::Value| value.as_str().expect("a text").to_owned();
    let digest = |line: &serde_json::Value| {
        let (parameters, outcome) = (&line["result"]["parameters"], &line["result"]["outcome"]);
        let mode = text(&parameters["asked"]["pragmas"]["journal_mode"]);
        (mode, text(&outcome["statements"]), text(&outcome["rows"]))
    };
    results(path).iter().map(digest).collect()
}

#[test]
fn all_engines_execute_the_same_statements_and_end_with_the_same_rows() {
    let dir = tempfile::tempdir().unwrap();
    for (name, workload) in [
        ("micro", "micro --tables 2 --rows 40 --transaction 7 --random-divide --populate 20"),
        ("text", "micro --tables 1 --columns 3 --rows 10..20/10 --key text --no-rebuild"),
        ("tpcc", "tpcc --scale 100 --transactions 40"),
        ("mobibench", "mobibench --transactions 12 --operations 2 --duplication 50 --recoveries 1"),
        ("kv", "kv --entries 30 --transaction 4"),
        ("sync", "sync --rows 40 --changes 10 --continuous 20 --every 7"),
    ] {
        let out = format!("{name}.jsonl");
        let command = format!(
            "run {workload} --engines {ALL} --journal-mode wal,delete --rounds 1 -q -o {out}"
        );
        ok(dir.path(), &command);
        let found = digests(&dir.path().join(&out));
        assert_eq!(found.len(), 2, "{name}, one for each journal mode: {found:?}");
    }
}

#[test]
fn keys_and_values_come_from_a_csv_file_too() {
    let dir = tempfile::tempdir().unwrap();
    let csv = "id,title,views\na,\"one, two\",3\nb,\"a \"\"quoted\"\" line\nbreak\",4\na,again,5\n";
    fs::write(dir.path().join("videos.csv"), csv).unwrap();
    let run =
        "run kv --csv videos.csv --value-column 1 --engines plain,replica,store --rounds 1 -q";
    ok(dir.path(), &format!("{run} -o r"));
    let lines = results(&dir.path().join("r"));
    assert_eq!(lines.len(), 3);
    for line in lines {
        let phases = line["result"]["outcome"]["phases"].as_array().unwrap();
        assert_eq!(phases.len(), 7);
        // The key that comes twice is one entry.
        assert!(phases.iter().all(|p| p["operations"] == 2), "{phases:?}");
    }
    let error = super::fails(dir.path(), &run.replace("--value-column 1", "--value-column 9"));
    assert!(error.contains("line 2: there is no column 9"), "{error}");
}

#[test]
fn stores_are_measured_beyond_the_seven_tasks_and_over_each_other() {
    let dir = tempfile::tempdir().unwrap();
    let run = "run kv --entries 200 --engines store,store:note --rounds 1 -q --further";
    ok(dir.path(), &format!("{run} -o r"));
    ok(dir.path(), &format!("{run} --sync -o s"));
    let turn = &results(&dir.path().join("r"))[1]["result"];
    let settings = turn["parameters"]["store"]["settings"].as_str().unwrap();
    assert!(settings.contains("block_size: 2048"), "{settings}");
    let facts = turn["outcome"]["facts"].as_object().unwrap();
    for fact in
        ["clean reopen, ms", "reopen after a kill, ms", "bytes to the device / bytes written"]
    {
        assert!(facts.contains_key(fact), "{fact}: {facts:?}");
    }
    let table = ok(dir.path(), "table r s --over store:note");
    for text in ["× store:note", "read missing", "get and put, two threads", "put, two writers"] {
        assert!(table.contains(text), "{text}: {table}");
    }
}

#[test]
fn a_hub_is_measured_as_a_process_of_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let run = "run hub --engines hub --clients 3 --objects 4 --databases 5 --large 9 --rounds 1 -q";
    ok(dir.path(), &format!("{run} -o r"));
    let outcome = &results(&dir.path().join("r"))[0]["result"]["outcome"];
    let phases = outcome["phases"].as_array().unwrap();
    let operations: Vec<_> = phases.iter().map(|p| p["operations"].as_u64().unwrap()).collect();
    assert_eq!(operations, [12, 12, 12, 12, 5, 9, 9], "{phases:?}");
    assert!(outcome["facts"]["memory of the hub, MB"].as_f64().unwrap() > 1.0);
    let error = fails(dir.path(), &run.replace("--engines hub", "--engines plain"));
    assert!(error.contains("--engines hub"), "{error}");
    let error = fails(dir.path(), &run.replace("--engines hub", "--engines hub:postgres"));
    assert!(error.contains("--postgres"), "{error}");
    let error = fails(dir.path(), "run micro --engines hub --rounds 1 -q");
    assert!(error.contains("hub and sites only"), "{error}");
}

#[test]
fn every_commit_of_another_process_is_waited_for() {
    let dir = tempfile::tempdir().unwrap();
    let run = "run notice --engines replica --commits 20 --idle 1 --rounds 1 -q";
    ok(dir.path(), &format!("{run} -o r"));
    let outcome = &results(&dir.path().join("r"))[0]["result"]["outcome"];
    let phases = outcome["phases"].as_array().unwrap();
    assert_eq!(phases.len(), 4);
    assert!(phases.iter().all(|phase| phase["latency"]["count"] == 20), "{phases:?}");
    assert_eq!(outcome["facts"].as_object().unwrap().len(), 4);
    let error = fails(dir.path(), &run.replace("--engines replica", "--engines plain"));
    assert!(error.contains("notice does not run on plain"), "{error}");
}

#[test]
fn a_program_that_keeps_nothing_pays_for_the_schema() {
    let dir = tempfile::tempdir().unwrap();
    let run = "run brief --tables 12 --requests 20 --rounds 1 -q --engines plain,replica";
    ok(dir.path(), &format!("{run} -o r"));
    let results = results(&dir.path().join("r"));
    assert_eq!(results.len(), 2);
    for result in &results {
        let phases = result["result"]["outcome"]["phases"].as_array().unwrap();
        let of = |key: &str| phases.iter().map(|p| p[key].as_u64().unwrap()).collect::<Vec<_>>();
        assert_eq!(of("operations"), [20; 6], "{phases:?}");
        assert_eq!(of("transactions"), [20, 20, 1, 1, 1, 1], "{phases:?}");
    }
    let error = fails(dir.path(), &run.replace("--tables 12", "--tables 0"));
    assert!(error.contains("at least one table"), "{error}");
}

#[test]
fn many_sites_end_with_the_same_rows_and_every_byte_is_counted() {
    let dir = tempfile::tempdir().unwrap();
    let run = "run sites --engines hub --sites 3 --batches 4 --rounds 1 -q";
    ok(dir.path(), &format!("{run} -o r"));
    let outcome = &results(&dir.path().join("r"))[0]["result"]["outcome"];
    let fact = |name: &str| outcome["facts"][name].as_f64().unwrap();
    let content = fact("content of a batch, bytes");
    assert!((900.0..1_300.0).contains(&content), "{content}");
    assert!((fact("necessary, bytes") - content * 12.0 * 3.0).abs() < 1.0);
    let (up, down) = (fact("up, bytes"), fact("down, bytes"));
    assert!(up > content * 12.0 && down > 0.9 * content * 12.0 * 2.0, "{up} {down}");
    let error = fails(dir.path(), &run.replace("--engines hub", "--engines plain"));
    assert!(error.contains("--engines hub"), "{error}");
}

#[test]
fn a_report_needs_nothing_but_itself() {
    let dir = tempfile::tempdir().unwrap();
    ok(
        dir.path(),
        "run tpcc --scale 100 --transactions 20 --rounds 2 -q -o r --journal-mode wal,delete",
    );
    ok(dir.path(), "report r -o page.html");
    let page = fs::read_to_string(dir.path().join("page.html")).unwrap();
    for part in
        ["tpcc, wal/normal", "By journal mode", "latency of new order", "<svg", "page_size="]
    {
        assert!(page.contains(part), "no {part}");
    }
    for outside in ["<script", "<link", "src=", "@import", "url("] {
        assert!(!page.contains(outside), "{outside}");
    }
    assert!(fails(dir.path(), "report r -o page.html").contains("exists"));
    let made = ok(dir.path(), "plot r --dir pictures --prefix x- --engines plain,replica");
    assert!(made.lines().count() > 10, "{made}");
    assert!(made.lines().all(|path| path.starts_with("pictures/x-tpcc")), "{made}");
    assert!(made.lines().all(|path| dir.path().join(path).exists()));
}

#[test]
fn another_seed_gives_other_statements_and_the_same_seed_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let run = |seed: u32, out: &str| {
        ok(
            dir.path(),
            &format!("run tpcc --scale 100 --transactions 20 --rounds 1 -q --seed {seed} -o {out}"),
        );
        digests(&dir.path().join(out))
    };
    let first = run(1, "a");
    assert_eq!(first, run(1, "b"));
    assert_ne!(first, run(2, "c"));
}

#[test]
fn every_result_carries_its_parameters() {
    let dir = tempfile::tempdir().unwrap();
    ok(
        dir.path(),
        "run micro --rows 20 --rounds 2 -q -o r --journal-mode delete --set page_size=8192",
    );
    let lines = results(&dir.path().join("r"));
    assert_eq!(lines.len(), 6, "three engines, two rounds");
    for line in lines {
        let p = &line["result"]["parameters"];
        for path in [
            "/engine",
            "/workload/name",
            "/workload/options/rows",
            "/workload/seed",
            "/round/number",
            "/round/in_turn",
            "/round/cache",
            "/asked/pragmas/journal_mode",
            "/sqlite/version",
            "/sqlite/source_id",
            "/sqlite/compile_options",
            "/sqlite/pragmas/cache_size",
            "/storage/file_system",
            "/storage/mount_options",
            "/storage/device",
            "/storage/scheduler",
            "/storage/fsync_us",
            "/machine/kernel",
            "/machine/processor",
            "/machine/memory",
            "/program/commit",
            "/started",
            "/load_before/average",
            "/load_after/average",
        ] {
            let value = p.pointer(path);
            assert!(value.is_some_and(|v| !v.is_null() && v != ""), "{path} is missing: {p}");
        }
        assert_eq!(p.pointer("/sqlite/pragmas/page_size"), Some(&"8192".into()));
        assert_eq!(p.pointer("/sqlite/pragmas/journal_mode"), Some(&"delete".into()));
    }
}

#[test]
fn without_triggers_nothing_is_captured() {
    let dir = tempfile::tempdir().unwrap();
    let bytes = |extra: &str, out: &str| {
        let command = format!(
            "run micro --rows 3000 --rounds 1 -q --engines original --no-fold-between {extra} -o {out}"
        );
        ok(dir.path(), &command);
        let lines = results(&dir.path().join(out));
        lines[0]["result"]["outcome"]["facts"]["bytes after insert"].as_f64().unwrap()
    };
    assert!(bytes("", "with") > 2.0 * bytes("--no-triggers", "without"));
}

#[test]
fn tables_are_selected_by_name_engine_and_workload() {
    let dir = tempfile::tempdir().unwrap();
    ok(dir.path(), "run micro --rows 20 --rounds 1 -q -o a --name first");
    ok(dir.path(), "run micro --rows 20 --rounds 1 -q -o b --name second");
    let both = ok(dir.path(), "table a b");
    assert!(both.contains("first: micro") && both.contains("second: micro"), "{both}");
    let one = ok(dir.path(), "table a b --name sec --engines plain,replica --markdown");
    assert!(!one.contains("first: micro") && one.contains("## second: micro"), "{one}");
    assert!(one.contains("| replica |") || one.contains(" replica |"), "{one}");
    assert!(!one.contains("again |"), "{one}");
    assert_eq!(ok(dir.path(), "table a --workload tpcc"), "no results\n");
}

#[test]
fn runs_are_compared_only_if_nothing_else_differs() {
    let dir = tempfile::tempdir().unwrap();
    ok(dir.path(), "run micro --rows 20 --rounds 1 -q -o a");
    ok(dir.path(), "run micro --rows 20 --rounds 1 -q -o same");
    ok(dir.path(), "run micro --rows 30 --rounds 1 -q -o b");
    ok(dir.path(), "compare a:plain a:replica");
    ok(dir.path(), "compare a:plain same:plain");
    let error = fails(dir.path(), "compare a:plain b:plain");
    assert!(error.contains("workload.options.rows: [20] / [30]"), "{error}");
    let marked = ok(dir.path(), "compare a:plain b:plain --force");
    assert!(marked.contains("UNLIKE: workload.options.rows: [20] / [30]"), "{marked}");
    ok(dir.path(), "compare a:plain b:plain --by workload");
    ok(dir.path(), "run micro --rows 20 --rounds 1 -q -o big --set page_size=8192");
    fails(dir.path(), "compare a:plain big:plain");
    ok(dir.path(), "compare a:plain big:plain --by asked");
    ok(dir.path(), "compare a:plain big:plain --by asked.pragmas.page_size");
    let error = fails(dir.path(), "compare a:plain b:plain --by wrkload");
    assert!(error.contains("did you mean 'workload'"), "{error}");
}

#[test]
fn triggers_are_listed_by_table() {
    let dir = tempfile::tempdir().unwrap();
    let db = dir.path().join("t.db");
    rusqlite::Connection::open(&db)
        .unwrap()
        .execute_batch(
            "CREATE TABLE a(x); CREATE TRIGGER seen AFTER INSERT ON a BEGIN SELECT 1; END",
        )
        .unwrap();
    let text = ok(dir.path(), "triggers t.db");
    assert!(text.contains("table name: a") && text.contains("trigger name: seen"), "{text}");
    assert!(fails(dir.path(), "triggers none.db").contains("no database"));
}

#[test]
fn an_interrupted_run_keeps_its_finished_rounds_and_is_marked() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("r");
    let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_synqlite-lab"))
        .current_dir(dir.path())
        .args("run micro --rows 200 --rounds 1000 -q -o r".split(' '))
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let started = std::time::Instant::now();
    while fs::read_to_string(&out).map_or(0, |text| text.lines().count()) < 4 {
        assert!(started.elapsed().as_secs() < 60, "no results after a minute");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    assert!(!child.wait().unwrap().success());
    assert!(results(&out).len() >= 4);
    let output = lab(dir.path(), "table r");
    assert!(output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("interrupted"), "{output:?}");
}
