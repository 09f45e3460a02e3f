//! Bad input: every complaint names what is wrong and what would be right.

use super::{fails, lab, ok};
use std::fs;

#[test]
fn unknown_names_bring_suggestions() {
    let dir = tempfile::tempdir().unwrap();
    for (command, expected) in [
        ("run mikro", "micro"),
        ("run micro --engines plain,replcia", "did you mean 'replica'"),
        ("run micro --engines replica:fold=often", "fold=transaction"),
        ("run micro --engines plain,replica,plain -q", "engine plain is named twice"),
        ("run micro --row 5", "--rows"),
        ("run micro --set jurnal_mode=wal", "did you mean 'journal_mode'"),
        ("run micro --journal-mode wall", "did you mean 'wal'"),
        ("run parameters --vary sinchronous", "did you mean 'synchronous'"),
        ("reproduce tesis", "thesis"),
        ("run micro --rows 9..1", "empty"),
        ("run tpcc --warehouses 0", "1 to 100 warehouses"),
        ("run mobibench --operations 21", "1 to 20 operations"),
        ("run sync --rows 10 --changes 100", "twice as many rows"),
        ("run micro --columns 1", "columns"),
        ("run kv --csv none.csv", "none.csv"),
        ("run micro --engines store --rounds 1 -q", "executes kv only"),
        ("run kv --entries 9 --engines leveldb --rounds 1 -q", "not built into this program"),
        ("run kv --entries 9 --engines leveldx --rounds 1 -q", "did you mean 'leveldb'"),
        ("run kv --entries 9 --engines plain --rounds 1 -q --further", "for stores"),
        ("compare none.jsonl other.jsonl", "no results file none.jsonl"),
        ("table none.jsonl", "none.jsonl"),
    ] {
        let error = fails(dir.path(), command);
        assert!(error.contains(expected), "{command}: {error}");
    }
}

#[test]
fn a_folder_that_is_not_empty_is_refused_and_untouched() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("full")).unwrap();
    fs::write(dir.path().join("full/mine"), "x").unwrap();
    let error = fails(dir.path(), "run micro --rows 5 --rounds 1 --dir full");
    assert!(error.contains("full is not empty"), "{error}");
    assert_eq!(fs::read_dir(dir.path().join("full")).unwrap().count(), 1);
}

#[test]
fn a_folder_without_room_is_refused_before_the_run() {
    let dir = tempfile::tempdir().unwrap();
    let error = fails(dir.path(), "run micro --rows 100000000000 --rounds 1");
    assert!(error.contains("MB free, the run needs about"), "{error}");
}

#[test]
fn a_results_file_is_never_overwritten() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("r"), "precious").unwrap();
    let error = fails(dir.path(), "run micro --rows 5 --rounds 1 -q -o r");
    assert!(error.contains("exists"), "{error}");
    assert_eq!(fs::read_to_string(dir.path().join("r")).unwrap(), "precious");
}

#[test]
fn a_pragma_that_sqlite_does_not_obey_ends_the_run() {
    let dir = tempfile::tempdir().unwrap();
    let error = fails(dir.path(), "run micro --rows 5 --rounds 1 -q --set page_size=1000");
    assert!(error.contains("SQLite refused page_size = 1000: it is 4096"), "{error}");
}

#[test]
fn results_of_another_version_or_cut_short_are_refused_by_line() {
    let dir = tempfile::tempdir().unwrap();
    ok(dir.path(), "run micro --rows 5 --rounds 1 -q -o r");
    let text = fs::read_to_string(dir.path().join("r")).unwrap();

    fs::write(dir.path().join("newer"), text.replacen("\"format\":1", "\"format\":2", 2)).unwrap();
    let error = fails(dir.path(), "table newer");
    assert!(error.contains("line 1: format 2; this program reads format 1"), "{error}");

    let second = text.match_indices('\n').nth(1).unwrap().0;
    fs::write(dir.path().join("cut"), &text[..second - 100]).unwrap();
    let error = fails(dir.path(), "table cut");
    assert!(error.contains("line 2: the file is cut short"), "{error}");
    let output = lab(dir.path(), "table cut --force");
    assert!(output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("cut short in line 2"), "{output:?}");

    // Killed between two lines: whole lines, but no end.
    fs::write(dir.path().join("killed"), &text[..=second]).unwrap();
    let output = lab(dir.path(), "table killed");
    assert!(String::from_utf8_lossy(&output.stderr).contains("never came to its end"));

    fs::write(dir.path().join("odd"), "{\"a\":1}\n{}\n").unwrap();
    assert!(fails(dir.path(), "table odd").contains("line 1: no result"));
}
