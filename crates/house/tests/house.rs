//! The house rules, as tests. They read the files of the repository and `cargo metadata`.

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Longest source file, in lines.
const LONGEST: usize = 800;

/// Our crates and those of ours that each may depend on, tests included. The binary may use all.
const CRATES: [(&str, &[&str]); 10] = [
    ("synqlite-wire", &[]),
    ("synqlite-lsm", &[]),
    ("synqlite-dash", &[]),
    ("synqlite-view", &["synqlite-wire"]),
    ("synqlite-core", &["synqlite-view", "synqlite-wire"]),
    ("synqlite-objects", &["synqlite-wire"]),
    ("synqlite-hub", &["synqlite-lsm", "synqlite-objects", "synqlite-wire"]),
    ("synqlite-remote", &["synqlite-core", "synqlite-objects", "synqlite-wire"]),
    ("synqlite-front", &["synqlite-core", "synqlite-remote"]),
    ("synqlite-house", &[]),
];

/// What only tests use.
const TESTKITS: [&str; 2] = ["synqlite-testkit", "synqlite-servers"];

/// Crates that only their callers' terminal, clock and environment may reach.
const LIBRARIES: [&str; 8] = ["wire", "view", "objects", "core", "remote", "lsm", "dash", "hub"];

/// What no library does, the files that may, and why the others must not.
const FOOTGUNS: [(&str, &[&str], &str); 6] = [
    ("println!(", &[], "output belongs to the caller"),
    ("eprintln!(", &[], "errors are returned"),
    ("std::env::", &["crates/objects/src/conformance.rs"], "settings are arguments"),
    ("process::exit", &[], "errors are returned"),
    ("process::Command", &[], "the engine starts no programs"),
    (
        "SystemTime::now",
        &["crates/core/src/env.rs", "crates/objects/src/files.rs", "crates/dash/src/vfs/base.rs"],
        "time is injected through Environment; only names and ages of temporary files read it, and \
         what answers SQLite where its own file system has no clock",
    ),
];

fn root() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.canonicalize().expect("the crate lies two folders below the root")
}

/// Every file of the repository, by path below the root with `/`. Build products, hidden folders
/// other than `.ci` and `.github`, and what fuzzing collects are left out.
fn files() -> Vec<String> {
    fn walk(dir: &Path, at: &str, out: &mut Vec<String>) {
        for entry in fs::read_dir(dir).expect("a readable folder") {
            let entry = entry.expect("a readable folder");
            let name = entry.file_name().into_string().expect("names are UTF-8");
            let path = format!("{at}{name}");
            let skipped = [
                "target",
                "lab/target",
                "lab/peers/target",
                "ext/target",
                "ext/synqlite/sqlx/target",
                "ext/synqlite/java/target",
                "fuzz/target",
                "fuzz/corpus",
                "fuzz/artifacts",
            ];
            let built = ["node_modules", "__pycache__", "dist"];
            if entry.path().is_dir() {
                let kept = !skipped.contains(&path.as_str()) && !built.contains(&name.as_str());
                if kept && (!name.starts_with('.') || [".ci", ".github"].contains(&name.as_str())) {
                    walk(&entry.path(), &format!("{path}/"), out);
                }
            } else if name != ".git" {
                // A further work tree of a clone has a file of that name.
                out.push(path);
            }
        }
    }
    let mut out = Vec::new();
    walk(&root(), "", &mut out);
    out.sort();
    assert!(out.iter().any(|f| f == "Cargo.toml"), "the walk found no workspace");
    out
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|e| panic!("{path}: {e}"))
}

/// Files with one of these endings, with their contents.
fn texts(endings: &[&str]) -> Vec<(String, String)> {
    let mut paths = files();
    paths.retain(|path| endings.iter().any(|ending| path.ends_with(ending)));
    let found: Vec<_> = paths.into_iter().map(|path| (path.clone(), read(&path))).collect();
    assert!(!found.is_empty(), "no file ends in {endings:?}");
    found
}

/// What `cargo metadata` says of the packages of the workspace at `manifest`.
fn packages(manifest: &str) -> Vec<Value> {
    let manifest = root().join(manifest);
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline", "--manifest-path"])
        .arg(&manifest)
        .output()
        .expect("cargo runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {errors}", manifest.display());
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("cargo prints JSON");
    metadata["packages"].as_array().expect("a list of packages").clone()
}

fn name(of: &Value) -> &str {
    of["name"].as_str().expect("a name")
}

/// Dependencies of a package, split into ours and those of others.
fn dependencies(package: &Value) -> (Vec<&str>, Vec<&str>) {
    let all = package["dependencies"].as_array().expect("a list of dependencies");
    let (ours, others): (Vec<_>, Vec<_>) = all.iter().partition(|d| d["path"].is_string());
    (ours.into_iter().map(name).collect(), others.into_iter().map(name).collect())
}

#[test]
fn dependencies_point_one_way() {
    let packages = packages("Cargo.toml");
    assert!(packages.iter().any(|p| name(p) == "synqlite-core"));
    for package in &packages {
        let Some((one, allowed)) = CRATES.iter().find(|(one, _)| *one == name(package)) else {
            continue;
        };
        for ours in dependencies(package).0 {
            let fine = allowed.contains(&ours) || TESTKITS.contains(&ours);
            assert!(fine, "{one} must not depend on {ours}");
        }
    }
    let all = packages.iter().flat_map(|p| p["dependencies"].as_array().into_iter().flatten());
    for dependency in all.filter(|d| TESTKITS.contains(&name(d))) {
        let used = name(dependency);
        assert_eq!(dependency["kind"].as_str(), Some("dev"), "{used} is for tests only");
    }
    for package in packages.iter().filter(|p| CRATES.iter().all(|(one, _)| *one != name(p))) {
        let known = name(package) == "synqlite" || TESTKITS.contains(&name(package));
        assert!(known, "give {} its place in CRATES", name(package));
    }
}

/// What the library `synqlite` brings into a program that leaves the command out.
const FACADE: [&str; 3] = ["synqlite-core", "synqlite-front", "synqlite-remote"];

#[test]
fn the_library_brings_nothing_of_the_command() {
    let packages = packages("Cargo.toml");
    let package = packages.iter().find(|p| name(p) == "synqlite").expect("the package synqlite");
    let all = package["dependencies"].as_array().expect("a list of dependencies");
    let always = all.iter().filter(|d| d["kind"].is_null() && d["optional"] == false);
    assert_eq!(always.map(name).collect::<Vec<_>>(), FACADE, "the others belong to feature `cli`");
    let code = read("crates/cli/src/lib.rs");
    let shares = code.lines().find(|line| line.starts_with("mod ") || line.starts_with("pub mod "));
    assert_eq!(shares, None, "the library only names what other crates have");
}

/// What tests in other languages take of others.
fn of_other_languages() -> Vec<String> {
    let go = read("ext/synqlite/go/go.mod");
    let go = go.lines().filter_map(|line| line.strip_prefix("require ")?.split(' ').next());
    let java = read("ext/synqlite/java/pom.xml");
    let (_, java) = java.split_once("<dependencies>").expect("a list");
    let (java, _) = java.split_once("</dependencies>").expect("its end");
    let java = java
        .lines()
        .filter_map(|line| line.trim().strip_prefix("<artifactId>")?.strip_suffix("</artifactId>"));
    go.chain(java).map(str::to_owned).collect()
}

#[test]
fn every_dependency_is_documented_and_every_documented_one_is_used() {
    let document = read("docs/dependencies.md");
    let documented: Vec<&str> = document
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split_once('`').map(|(name, _)| name))
        .collect();
    let mut manifests = read("Cargo.toml");
    let others = ["fuzz", "lab", "lab/peers", "ext", "ext/synqlite/sqlx"];
    let others = others.map(|folder| packages(&format!("{folder}/Cargo.toml"))).concat();
    for package in packages("Cargo.toml").iter().chain(&others) {
        for dependency in dependencies(package).1 {
            let (of, known) = (name(package), documented.contains(&dependency));
            assert!(known, "{of} uses {dependency}: give it a line in docs/dependencies.md");
            manifests += &format!("\n{dependency} =");
        }
    }
    for dependency in of_other_languages() {
        let known = documented.contains(&dependency.as_str());
        assert!(known, "tests use {dependency}: give it a line in docs/dependencies.md");
        manifests += &format!("\n{dependency} =");
    }
    for name in documented {
        let declared = manifests.lines().any(|line| line.starts_with(&format!("{name} =")));
        assert!(declared, "docs/dependencies.md lists {name}, which nothing declares");
    }
}

#[test]
fn only_sources_and_documents_are_kept() {
    let endings = [
        ".rs", ".cc", ".md", ".toml", ".py", ".typed", ".js", ".mjs", ".cjs", ".ts", ".cts",
        ".mts", ".go", ".mod", ".sum", ".java", ".xml", ".snap", ".txt", ".png", ".html", ".css",
        ".json", ".yml",
    ];
    let names = ["Cargo.lock", "LICENSE", "justfile", ".gitignore", "run", "measure"];
    for path in files() {
        let name = path.rsplit('/').next().unwrap_or_default();
        let known = names.contains(&name) || endings.iter().any(|ending| name.ends_with(ending));
        assert!(known, "{path} is of no kind that belongs here");
    }
}

#[test]
fn source_files_are_short() {
    for (path, text) in texts(&[".rs", ".py", ".js", ".css", ".mjs", ".cjs", ".ts", ".go", ".java"])
    {
        let lines = text.lines().count();
        assert!(lines <= LONGEST, "{path} has {lines} lines; split it at one idea a file");
    }
}

#[test]
fn nothing_is_left_to_do() {
    let banned = [["todo", "!("].concat(), ["unimplemented", "!("].concat()];
    for (path, text) in texts(&[".rs"]) {
        for mark in &banned {
            assert!(!text.contains(mark), "{path} contains {mark}");
        }
    }
}

#[test]
fn no_file_names_a_path_of_one_machine() {
    let banned = ["home", "Users", "root", "work"].map(|top| format!("/{top}/"));
    let endings =
        [".rs", ".md", ".toml", ".sh", ".py", ".js", ".mjs", ".ts", "justfile", ".ci/run"];
    for (path, text) in texts(&endings) {
        for (number, line) in text.lines().enumerate() {
            for place in &banned {
                // Such a folder inside a longer path is none of these.
                let begins = |at: usize| {
                    let before = line[..at].chars().next_back();
                    before.is_none_or(|c| c.is_whitespace() || "\"'`(=:".contains(c))
                };
                let found = line.match_indices(place).any(|(at, _)| begins(at));
                assert!(!found, "{path}:{}: {line}", number + 1);
            }
        }
    }
}

#[test]
fn libraries_leave_terminal_environment_and_clock_to_their_callers() {
    for (path, text) in texts(&[".rs"]) {
        let ours = LIBRARIES.iter().any(|l| path.starts_with(&format!("crates/{l}/src/")));
        if !ours || path.ends_with("tests.rs") || path.contains("/tests/") {
            continue;
        }
        let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        for (number, line) in code.lines().enumerate() {
            for (mark, allowed, why) in FOOTGUNS {
                let comment = line.trim_start().starts_with("//");
                let found = line.contains(mark) && !comment && !allowed.contains(&path.as_str());
                assert!(!found, "{path}:{}: {mark} is not for libraries: {why}", number + 1);
            }
        }
    }
}

/// What opens files without SQLite, and in which files that is of others than a replica's: a copy that nobody
/// has open yet, the registry of `dash`, objects of a store, a key,
/// certificates.
const OPENERS: [&str; 7] = [
    "File::open",
    "File::create",
    "OpenOptions",
    "fs::copy",
    "fs::read(",
    "fs::read_to_string",
    "fs::write",
];
const OPENING: [&str; 13] = [
    "crates/core/src/apart.rs",
    "crates/core/src/copy/file.rs",
    "crates/core/src/dash.rs",
    "crates/core/src/fixture.rs",
    "crates/front/src/failure.rs",
    "crates/objects/src/bucket.rs",
    "crates/objects/src/conformance.rs",
    "crates/objects/src/files.rs",
    "crates/objects/src/folder.rs",
    "crates/objects/src/hub.rs",
    "crates/objects/src/key.rs",
    "crates/objects/src/sealed.rs",
    "crates/objects/src/snapshot.rs",
];

/// Whoever closes a file drops all POSIX locks that its process has on it, also those that SQLite took.
#[test]
fn only_sqlite_opens_the_file_of_a_replica() {
    let mut seen = BTreeSet::new();
    for (path, text) in texts(&[".rs"]) {
        let ours = ["core", "remote", "objects", "front"];
        let ours = ours.iter().any(|of| path.starts_with(&format!("crates/{of}/src/")))
            || path.starts_with("ext/synqlite/src/");
        if !ours || path.ends_with("tests.rs") || path.contains("/tests/") {
            continue;
        }
        let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        if OPENERS.iter().any(|mark| code.contains(mark)) {
            let known = OPENING.contains(&path.as_str());
            assert!(known, "{path} opens files: a replica's is for SQLite alone");
            seen.insert(path);
        }
    }
    assert!(seen.contains("crates/objects/src/folder.rs"), "the test looks at nothing");
}

#[test]
fn every_link_in_the_documents_resolves() {
    let mut seen = 0;
    for (path, text) in texts(&[".md"]) {
        let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
        for target in text.match_indices("](").map(|(at, _)| &text[at + 2..]) {
            let target = target.split([')', '#']).next().unwrap_or_default();
            if target.is_empty() || target.contains("://") {
                continue;
            }
            let there = root().join(folder).join(target).exists();
            assert!(there, "{path} links to {target}, which is not there");
            seen += 1;
        }
    }
    assert!(seen > 10, "only {seen} links were found");
}

#[test]
fn every_file_that_a_document_names_is_there() {
    let known = ["crates/", "docs/", "fuzz/", "lab/"];
    for (path, text) in texts(&[".md"]) {
        for quoted in text.split('`').skip(1).step_by(2) {
            let named = known.iter().any(|top| quoted.starts_with(top));
            if !named || quoted.contains([' ', '{', '*', '<', 'N']) {
                continue;
            }
            assert!(root().join(quoted).exists(), "{path} names {quoted}, which is not there");
        }
    }
}

/// What documents name that is no symbol of ours.
const NOT_OURS: [&str; 3] = ["bundled", "fire_on_merge", "unsafe"];

/// What the sources define, as far as a document can name it: items, fields, tables, modules.
fn symbols() -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let name = |text: &str| -> String {
        text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
    };
    let items = [
        "fn ",
        "struct ",
        "enum ",
        "trait ",
        "mod ",
        "type ",
        "const ",
        "static ",
        "CREATE TABLE ",
    ];
    for (path, text) in texts(&[".rs"]) {
        found.extend(path.split('/').map(|part| part.trim_end_matches(".rs").to_owned()));
        for line in text.lines() {
            for item in items {
                found.extend(line.split(item).skip(1).map(name));
            }
            let field = line.trim_start().trim_start_matches("pub ");
            found.extend(field.split_once(": ").map(|(field, _)| field.to_owned()));
        }
    }
    found
}

#[test]
fn every_symbol_that_the_map_names_is_there() {
    let symbols = symbols();
    for path in ["ARCHITECTURE.md", "docs/invariants.md"] {
        let text = read(path);
        let prose: String = text.split("```").step_by(2).collect();
        for quoted in prose.split('`').skip(1).step_by(2) {
            let is_word = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
            if !quoted.chars().all(is_word) || NOT_OURS.contains(&quoted) {
                continue;
            }
            for part in quoted.split("::") {
                assert!(symbols.contains(part), "{path} names `{quoted}`, which is not there");
            }
        }
    }
}

#[test]
fn invariants_are_numbered_and_each_has_a_test() {
    let text = read("docs/invariants.md");
    let rows = text.lines().filter(|line| line.starts_with("| I-"));
    let mut count = 0;
    for (row, n) in rows.zip(1..) {
        let cells: Vec<&str> = row.trim_matches('|').split(" | ").map(str::trim).collect();
        let [number, what, made, tested] = cells[..] else { panic!("{row}") };
        assert_eq!(number, format!("I-{n:02}"), "{row}");
        let lacks = [what, made, tested].iter().any(|cell| cell.is_empty());
        assert!(!lacks && tested.contains("test") | tested.contains('`'), "{row}");
        count = n;
    }
    assert!(count >= 40, "docs/invariants.md has lost some");
}

/// Rules that `docs/semantics.md` defines: each in a paragraph that begins with its name in bold.
fn rules() -> Vec<String> {
    let document = read("docs/semantics.md");
    let begins = document.lines().filter_map(|line| line.strip_prefix("**R-")?.split_once(".**"));
    let rules: Vec<String> = begins.map(|(name, _)| format!("R-{name}")).collect();
    assert!(rules.len() > 40, "only {} rules were found", rules.len());
    rules
}

/// Rules that a text names.
fn cited(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    for (at, _) in text.match_indices("R-") {
        let before = text[..at].chars().next_back();
        let rule = |c: char| c.is_ascii_uppercase() || c == '-';
        let end = text[at..].find(|c| !rule(c)).map_or(text.len(), |len| at + len);
        let name = text[at..end].trim_end_matches('-');
        if name.len() >= 4 && !before.is_some_and(|c| c.is_ascii_alphanumeric()) {
            found.push(name);
        }
    }
    found
}

#[test]
fn every_rule_is_defined_once() {
    let rules = rules();
    for (at, rule) in rules.iter().enumerate() {
        assert!(!rules[..at].contains(rule), "docs/semantics.md defines {rule} twice");
    }
}

#[test]
fn every_rule_that_is_cited_is_defined() {
    let rules = rules();
    for (path, text) in texts(&[".rs", ".md", ".py"]) {
        for rule in cited(&text) {
            let defined = rules.iter().any(|r| r == rule);
            assert!(defined, "{path} cites {rule}, which docs/semantics.md does not define");
        }
    }
}

#[test]
fn every_rule_has_a_test_named_after_it_and_every_such_test_its_rule() {
    let name = |rule: &String| format!("{}_", rule.to_lowercase().replace('-', "_"));
    let names: Vec<String> = rules().iter().map(name).collect();
    let mut tested = Vec::new();
    for (path, text) in texts(&[".rs"]) {
        if !path.starts_with("crates/core/tests/it/rules/") {
            continue;
        }
        for (_, test) in text.match_indices("fn r_").map(|(at, _)| text[at..].split_at(3)) {
            let begun = names.iter().filter(|name| test.starts_with(*name));
            let test = test.split('(').next().unwrap_or_default();
            let longest = begun.max_by_key(|name| name.len());
            assert!(longest.is_some(), "{path}: docs/semantics.md defines no rule of {test}");
            tested.extend(longest);
        }
    }
    for rule in &names {
        assert!(tested.contains(&rule), "no test in crates/core/tests/it/rules begins with {rule}");
    }
}

/// (table, columns) of each metadata table that the engine creates under a fixed name.
fn metadata_tables() -> Vec<(String, Vec<String>)> {
    let mut out = Vec::new();
    for file in ["crates/core/src/meta/tables.rs", "crates/core/src/capture.rs"] {
        // A backslash at the end of a line of a Rust text joins it with the next.
        let text = read(file).split("\\\n").map(str::trim_start).collect::<String>();
        for definition in text.split("CREATE TABLE synqlite_").skip(1) {
            let Some((table, columns)) = definition.split_once('(') else { continue };
            let end = columns.find(['"', ';']).unwrap_or(columns.len());
            let columns = columns[..end].split(',').filter_map(|c| c.split_whitespace().next());
            let plain = |c: &&str| c.chars().all(|c| c.is_ascii_lowercase() || c == '_');
            let columns = columns.map(|c| c.trim_end_matches(')')).filter(plain);
            out.push((format!("synqlite_{table}"), columns.map(str::to_owned).collect()));
        }
    }
    out
}

#[test]
fn every_metadata_table_and_column_is_documented() {
    let document = read("docs/formats/metadata.md");
    let tables = metadata_tables();
    assert!(tables.len() > 8, "only {} tables were found", tables.len());
    for (table, columns) in tables {
        let at = document.find(&table);
        let at = at.unwrap_or_else(|| panic!("docs/formats/metadata.md lacks {table}"));
        for column in columns {
            let names = [format!("`{column}`"), format!(".{column}`")];
            let there = names.iter().any(|name| document[at..].contains(name.as_str()));
            assert!(there, "docs/formats/metadata.md lacks column {column} of {table}");
        }
    }
}

#[test]
fn the_changelog_knows_this_version() {
    let version = env!("CARGO_PKG_VERSION");
    let changelog = read("CHANGELOG.md");
    let heading = format!("## {version}");
    let found =
        changelog.lines().any(|line| line == heading || line.starts_with(&(heading.clone() + " ")));
    assert!(found, "CHANGELOG.md has no heading `{heading}`");
}

#[test]
fn crates_for_others_carry_readme_and_license() {
    let license = read("LICENSE");
    let members = std::fs::read_dir(root().join("crates")).unwrap();
    for member in members.map(|entry| entry.unwrap().path()) {
        let Ok(manifest) = std::fs::read_to_string(member.join("Cargo.toml")) else { continue };
        if manifest.contains("publish = false") {
            continue;
        }
        let name = member.display();
        let include = manifest.lines().find(|line| line.starts_with("include = ")).unwrap_or("");
        for file in ["/src", "/README.md", "/LICENSE"] {
            assert!(include.contains(&format!("\"{file}\"")), "{name} leaves out {file}");
        }
        assert!(member.join("README.md").is_file(), "{name} has no README.md");
        let own = std::fs::read_to_string(member.join("LICENSE")).unwrap_or_default();
        assert_eq!(own, license, "{name}/LICENSE is not the one of the project");
    }
}

#[test]
fn the_readme_names_the_command_that_ci_runs() {
    let (readme, ci) = (read("README.md"), read(".ci/run"));
    let command = "cargo test --workspace";
    assert!(readme.contains(command) && ci.lines().any(|line| line.trim() == command));
    assert!(readme.contains("cargo run --release -p synqlite -- demo"));
}

#[test]
fn the_workflow_runs_every_step_of_ci_once() {
    let (ci, workflow) = (read(".ci/run"), read(".github/workflows/ci.yml"));
    let steps = ci.lines().find_map(|line| line.strip_prefix("STEPS=\"")).expect("the steps");
    let (_, groups) = workflow.split_once("        steps:\n").expect("groups of steps");
    let groups = groups.lines().map_while(|line| line.trim().strip_prefix("- "));
    let mut run: Vec<&str> = groups.flat_map(|group| group.split(' ')).collect();
    let mut steps: Vec<&str> = steps.trim_end_matches('"').split(' ').collect();
    run.sort();
    steps.sort();
    assert_eq!(run, steps);
}

/// What is handed out together says of itself that it is.
#[test]
fn everything_that_is_handed_out_has_one_version() {
    let version = env!("CARGO_PKG_VERSION");
    let says = |path: &str, line: String| {
        let there = read(path).lines().any(|found| found.trim().trim_end_matches(',') == line);
        assert!(there, "{path} has no line `{line}`");
    };
    for path in ["Cargo.toml", "ext/Cargo.toml", "ext/synqlite/Cargo.toml"] {
        says(path, format!("version = \"{version}\""));
    }
    says("packages/python/synqlite/__init__.py", format!("__version__ = \"{version}\""));
    says("packages/node/package.json", format!("\"version\": \"{version}\""));
    says("packages/node/package.json", format!("\"synqlite-linux-x64\": \"{version}\""));
    for line in read("Cargo.toml").lines().filter(|line| line.contains("path = \"crates/")) {
        let named = line.contains(&format!("version = \"{version}\""));
        assert!(named || line.starts_with("synqlite-servers "), "Cargo.toml: {line}");
    }
}

/// The modules of `core`, from below. A module uses what is in its own layer or below it.
const LAYERS: [(&str, &[&str]); 10] = [
    (
        "ground",
        &["count", "dash", "env", "error", "geometry", "meta", "parts", "progress", "sqlvalue"],
    ),
    ("model", &["asked", "catalog", "equal", "schema"]),
    ("store", &["history", "inbox", "referring", "refs", "state"]),
    ("capture", &["capture", "registry", "renames", "settings", "track"]),
    ("journal", &["journal"]),
    ("merge", &["closed", "ended", "export", "gaps", "line", "merge", "needs", "open", "records"]),
    ("fold", &["fold"]),
    ("local", &["local"]),
    ("replica", &["connection", "migrate", "replica", "rewrite", "slices", "twins", "work"]),
    (
        "entrance",
        &[
            "conflicts",
            "copy",
            "apart",
            "changes",
            "deinit",
            "digest",
            "fixture",
            "init",
            "log",
            "meet",
            "pull",
            "rejoin",
            "remotes",
            "advice",
            "settle",
            "status",
            "touched",
            "aside",
            "undo",
            "verify",
        ],
    ),
];

/// The top module that a file below `src` belongs to.
fn module(path: &str) -> &str {
    let first = path.split('/').next().unwrap_or(path);
    first.strip_suffix(".rs").unwrap_or(first)
}

/// What `crate::` is followed by in a source: names, and those of groups in braces.
fn used(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for rest in text.split("crate::").skip(1) {
        let (mut depth, mut name, mut named) = (0, String::new(), false);
        for c in rest.chars() {
            match c {
                '{' => depth += 1,
                '}' => depth -= 1,
                ',' if depth == 1 => (name, named) = (String::new(), false),
                c if (c.is_alphanumeric() || c == '_') && depth <= 1 && !named => name.push(c),
                c if c.is_whitespace() && name.is_empty() => {}
                _ => named = true,
            }
            if named || c == '}' {
                found.insert(name.clone());
            }
            if depth <= 0 && (named || c == '}') {
                break;
            }
        }
    }
    found
}

/// Modules of a crate and those that each uses, tests aside.
fn uses(of: &str) -> BTreeMap<String, BTreeSet<String>> {
    let src = format!("crates/{of}/src/");
    let mut graph = BTreeMap::<String, BTreeSet<String>>::new();
    for (path, text) in texts(&[".rs"]) {
        let Some(inner) = path.strip_prefix(&src) else { continue };
        let root = ["lib.rs", "main.rs"].contains(&inner);
        if root || inner.ends_with("tests.rs") || inner.contains("tests/") {
            continue;
        }
        let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        let code: Vec<_> = code.lines().map(|line| line.split("//").next().unwrap_or("")).collect();
        graph.entry(module(inner).to_owned()).or_default().extend(used(&code.join("\n")));
    }
    let modules: BTreeSet<String> = graph.keys().cloned().collect();
    for (module, used) in &mut graph {
        used.retain(|other| other != module && modules.contains(other));
    }
    graph
}

/// What can be reached from a module.
fn reached<'a>(graph: &'a BTreeMap<String, BTreeSet<String>>, from: &str) -> BTreeSet<&'a str> {
    let (mut found, mut asked) = (BTreeSet::new(), vec![from]);
    while let Some(module) = asked.pop() {
        let used = graph.get(module).into_iter().flatten().map(String::as_str);
        asked.extend(used.filter(|other| found.insert(*other)).collect::<Vec<_>>());
    }
    found
}

#[test]
fn modules_use_each_other_in_one_direction() {
    let mut circles = Vec::new();
    for dir in fs::read_dir(root().join("crates")).expect("the crates lie in a folder") {
        let name = dir.expect("a readable folder").file_name().into_string().expect("UTF-8");
        let graph = uses(&name);
        let mut seen = BTreeSet::new();
        for module in graph.keys() {
            let mates = reached(&graph, module);
            let back = |other: &&str| reached(&graph, other).contains(module.as_str());
            let circle: Vec<&str> = mates.into_iter().filter(back).collect();
            if circle.len() > 1 && circle.iter().all(|m| seen.insert(m.to_string())) {
                circles.push(format!("{name}: {}", circle.join(", ")));
            }
        }
    }
    assert_eq!(circles, [""; 0], "a module that is used must not use its users");
}

#[test]
fn the_layers_of_the_engine_are_in_order() {
    let layer = |name: &str| LAYERS.iter().position(|(_, modules)| modules.contains(&name));
    let mut wrong = Vec::new();
    for (module, used) in uses("core") {
        let Some(own) = layer(&module) else {
            wrong.push(format!("{module} is in no layer"));
            continue;
        };
        let above = used.iter().filter(|other| layer(other).is_none_or(|layer| layer > own));
        wrong.extend(above.map(|other| format!("{module} uses {other}, which is above it")));
    }
    assert_eq!(wrong, [""; 0]);
    let architecture = read("ARCHITECTURE.md");
    for (name, modules) in LAYERS {
        let row = architecture.lines().find(|line| line.starts_with(&format!("| {name} |")));
        let row = row.unwrap_or_else(|| panic!("ARCHITECTURE.md has no row for layer {name}"));
        let lacks = |module: &&&str| **module != "fixture" && !row.contains(&format!("`{module}`"));
        let lacks: Vec<_> = modules.iter().filter(lacks).collect();
        assert!(lacks.is_empty(), "ARCHITECTURE.md, layer {name}: {lacks:?}");
    }
}

#[test]
fn the_view_knows_no_database() {
    let manifest = read("crates/view/Cargo.toml");
    let (_, dependencies) = manifest.split_once("\n[dependencies]\n").expect("a list");
    let dependencies = dependencies.split("\n[").next().unwrap_or_default();
    let names: Vec<&str> = dependencies.lines().filter_map(|line| line.split('.').next()).collect();
    assert_eq!(names, ["synqlite-wire", "thiserror"], "what rows show is decided without others");
    let mut wrong = Vec::new();
    for (path, text) in texts(&[".rs"]) {
        let ours = path.starts_with("crates/view/src/") && !path.contains("/random/");
        for word in ["rusqlite", "Connection", "SELECT ", "std::fs", "std::time"] {
            if ours && text.contains(word) {
                wrong.push(format!("{path} names {word}"));
            }
        }
    }
    assert_eq!(wrong, [""; 0], "the view asks `Facts`");
}
