//! The examples of the guides and the README, run as they stand there. What differs in every run (ids, times and
//! sizes) is masked before texts are compared.

use crate::support::{Lab, stderr, stdout, synqlite};
use std::collections::HashMap;
use std::path::Path;

/// What a document says, by its path from the root of the repository.
fn document(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
    std::fs::read_to_string(path).expect("the document")
}

/// The code blocks of a text, with their language.
fn blocks(text: &str) -> Vec<(String, String)> {
    let mut blocks = Vec::new();
    for (i, part) in text.split("```").enumerate().filter(|(i, _)| i % 2 == 1) {
        let (language, code) = part.split_once('\n').unwrap_or_else(|| panic!("block {i}"));
        blocks.push((language.to_owned(), code.to_owned()));
    }
    blocks
}

/// Words of a command as a shell would split them; quotes are double and may span lines.
fn commands(code: &str) -> Vec<Vec<String>> {
    let (mut commands, mut words) = (Vec::new(), Vec::<String>::new());
    let (mut word, mut quoted) = (None::<String>, false);
    for c in code.chars().chain(['\n']) {
        match c {
            '"' => {
                quoted = !quoted;
                word.get_or_insert_default();
            }
            ' ' | '\n' if !quoted => {
                words.extend(word.take());
                if c == '\n' && !words.is_empty() {
                    commands.push(std::mem::take(&mut words));
                }
            }
            _ => word.get_or_insert_default().push(c),
        }
    }
    assert!(!quoted, "a quote stays open: {code}");
    commands
}

/// Runs a command of a guide in the lab; returns what it prints, and what it tells beside that.
fn run(lab: &Lab, command: &[String]) -> (String, String) {
    let in_lab = |word: &String| match (word.strip_suffix(".db"), word.strip_prefix("file:///")) {
        (Some(site), _) => lab.db(site),
        (_, Some(folder)) => {
            let path = lab.dir.path().join(folder).display().to_string().replace('\\', "/");
            format!("file:///{}", path.trim_start_matches('/'))
        }
        _ => word.clone(),
    };
    match command[0].as_str() {
        "sqlite3" => {
            let site = command[1].trim_end_matches(".db");
            if command[2].trim_start().starts_with("SELECT") {
                return (lab.rows(site, &command[2]).join("\n"), String::new());
            }
            lab.sql(site, &command[2]);
            Default::default()
        }
        "synqlite" => {
            let args: Vec<String> = command[1..].iter().map(in_lab).collect();
            let output = synqlite(&args);
            let left = command[1] == "undo" && output.status.code() == Some(1);
            assert!(output.status.success() || left, "{command:?}: {}", stderr(&output));
            let folder = format!("{}{}", lab.dir.path().display(), std::path::MAIN_SEPARATOR);
            (stdout(&output), stderr(&output).replace(&folder, ""))
        }
        "cp" => {
            std::fs::copy(in_lab(&command[1]), in_lab(&command[2])).expect("a copy");
            Default::default()
        }
        other => panic!("the guide runs {other}"),
    }
}

fn is_id(word: &str) -> bool {
    matches!(word.len(), 8 | 32)
        && word.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
}

/// A text without ids, times and sizes.
pub fn masked(text: &str) -> String {
    let word = |word: &str| match word {
        _ if is_id(word.trim_end_matches([';', ':', ','])) => "ID".to_owned(),
        _ if word.starts_with("20") && word.len() == 10 => "DAY".to_owned(),
        _ if word.len() == 12 && word.as_bytes()[2] == b':' => "TIME".to_owned(),
        _ if word.strip_prefix('(').is_some_and(|n| n.parse::<u32>().is_ok()) => "(N".to_owned(),
        _ => word.to_owned(),
    };
    let line = |line: &str| match line.starts_with("done in ") {
        true => "done".to_owned(),
        false => line.split(' ').map(word).collect::<Vec<_>>().join(" "),
    };
    text.trim_end().lines().map(line).collect::<Vec<_>>().join("\n")
}

/// The lines of a text as they stand there and masked.
fn masked_lines(text: &str) -> Vec<(&str, String)> {
    text.trim_end().lines().map(|line| (line, masked(line))).collect()
}

/// Runs the blocks of a guide; returns how many outputs it compared.
fn play(lab: &Lab, guide: &str) -> usize {
    play_text(lab, &document(&format!("docs/guides/{guide}")))
}

/// Runs the blocks of a text in their order and compares what it shows.
fn play_text(lab: &Lab, text: &str) -> usize {
    let mut ids: HashMap<String, String> = HashMap::new();
    let mut compared = 0;
    for (language, code) in blocks(text) {
        match language.as_str() {
            // What is inside a program is tested where the extension and the packages are.
            "sql" | "python" => {}
            "sh" => commands(&code).iter().for_each(|command| drop(run(lab, command))),
            "console" => {
                for step in code.split("$ ").skip(1) {
                    let (command, want) = step.split_once('\n').expect("a command and its output");
                    let mut command = commands(command).remove(0);
                    for word in &mut command {
                        if let Some(real) = ids.get(word) {
                            *word = real.clone();
                        }
                    }
                    let (told, beside) = run(lab, &command);
                    // Which of the two comes first on a terminal is not known here.
                    let (beside, want) = (masked(&beside), masked_lines(want));
                    let (aside, shown): (Vec<_>, Vec<_>) =
                        want.iter().partition(|(_, line)| beside.lines().any(|told| told == line));
                    let text = |lines: Vec<&(&str, String)>| {
                        lines.iter().map(|(_, line)| line.as_str()).collect::<Vec<_>>().join("\n")
                    };
                    assert_eq!(text(aside), beside, "{command:?}");
                    let want = shown.iter().map(|(line, _)| *line).collect::<Vec<_>>().join("\n");
                    assert_eq!(masked(&told), text(shown), "{command:?}");
                    // Ids of the guide mean the records that stand in the same places here.
                    for (theirs, ours) in want.lines().zip(told.lines()) {
                        let first = |line: &str| line.split(' ').next().unwrap_or("").to_owned();
                        if is_id(&first(theirs)) {
                            ids.insert(first(theirs), first(ours));
                        }
                    }
                    compared += 1;
                }
            }
            other => panic!("a block in {other}"),
        }
    }
    compared
}

#[test]
fn the_guide_to_constraints_shows_what_happens() {
    let lab = Lab::new();
    assert_eq!(play(&lab, "constraints.md"), 5);
    assert_eq!(lab.json(&["status", &lab.db("van")])["conflicts"], 1);
}

#[test]
fn the_guide_to_backups_shows_what_happens() {
    let lab = Lab::new();
    assert_eq!(play(&lab, "backups.md"), 2);
    lab.json(&["sync", &lab.db("other"), &lab.db("notes")]);
    let rows = |site| lab.rows(site, "SELECT id, text FROM note");
    assert_eq!(rows("other"), rows("notes"));
}

#[test]
fn the_guide_to_counters_makes_what_it_counts_in() {
    let lab = Lab::new();
    play(&lab, "counters.md");
    assert_eq!(lab.json(&["policy", &lab.db("shop")])["policies"]["stock.n"], "counter");
}

#[test]
fn the_guide_to_ids_shows_what_happens() {
    assert_eq!(play(&Lab::new(), "ids.md"), 5);
}

#[test]
fn the_guide_to_schema_changes_shows_what_happens() {
    assert_eq!(play(&Lab::new(), "schema-changes.md"), 3);
}

#[test]
fn the_guide_to_settling_conflicts_has_conflicts_to_settle() {
    let lab = Lab::new();
    assert_eq!(play(&lab, "conflicts.md"), 2);
    let open = lab.json(&["conflicts", &lab.db("van")]);
    let kinds = open["conflicts"].as_array().unwrap().iter().map(|c| c["kind"].to_string());
    assert_eq!(kinds.collect::<Vec<_>>().join(" "), r#""fk_cascade" "fallback" "unique""#);
}

#[test]
fn the_guide_to_undo_shows_what_happens() {
    let lab = Lab::new();
    assert_eq!(play(&lab, "undo.md"), 1);
    synqlite(&["undo", &lab.db("home"), "--since", "10m"]);
    lab.json(&["sync", &lab.db("home"), &lab.db("laptop")]);
    let rows = ["1|shop|milk|0", "2|shop|bread|0", "3|work|call Bob|0"];
    assert_eq!(lab.rows("laptop", "SELECT * FROM todo"), rows);
}

#[test]
fn the_walk_through_of_the_readme_shows_what_happens() {
    let (lab, readme) = (Lab::new(), document("README.md"));
    std::fs::create_dir_all(lab.dir.path().join("media/stick")).unwrap();
    let walk = readme.split("\n## ").find(|part| part.starts_with("A walk-through")).unwrap();
    assert_eq!(play_text(&lab, walk), 2);
    let rows = ["1|soy milk|1", "3|call Ann|0", "4|stamps|0"];
    assert_eq!(lab.rows("home", "SELECT * FROM todo"), rows);
    assert_eq!(lab.rows("phone", "SELECT * FROM todo"), rows);
}
