//! Long campaigns; `docs/testing.md` says what each proves.

use std::path::PathBuf;
use std::process::ExitCode;
use synqlite_testkit::crash::{self, Program};
use synqlite_testkit::history::History;
use synqlite_testkit::model::{Model, Verdict, default_paths};
use synqlite_testkit::world::Result;

const USAGE: &str = "\
usage:
  campaign model --seeds FROM..TO [--python python3] [--model FOLDER] [--lazy]
  campaign crash --rounds N --seed S [--bin SYNQLITE] [--rows N]";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let result = match arguments.first().map(String::as_str) {
        Some("model") => model(&arguments),
        Some("crash") => kill(&arguments),
        Some("child") => crash::child(&arguments[1..]).map(|()| true),
        _ => Err(USAGE.into()),
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(e) => {
            eprintln!("error: {e}");
            ExitCode::from(2)
        }
    }
}

/// The value after the option `name`.
fn option<'a>(arguments: &'a [String], name: &str) -> Option<&'a str> {
    let at = arguments.iter().position(|a| a == name)?;
    arguments.get(at + 1).map(String::as_str)
}

fn number(text: &str) -> Result<u64> {
    text.parse().map_err(|_| format!("{text} is no number\n{USAGE}").into())
}

fn model(arguments: &[String]) -> Result<bool> {
    let (driver, path) = default_paths();
    let path = option(arguments, "--model").map_or(path, PathBuf::from);
    if !path.join("oracle.py").is_file() {
        println!("skipped: there is no reference model at {}", path.display());
        return Ok(true);
    }
    let seeds = option(arguments, "--seeds").ok_or(USAGE)?;
    let (from, to) = seeds.split_once("..").ok_or(USAGE)?;
    let lazy = arguments.iter().any(|a| a == "--lazy");
    let mut model =
        Model::start(option(arguments, "--python").unwrap_or("python3"), &driver, &path)?;
    let (mut same, mut steps, mut beyond, mut different) = (0, 0, 0, 0);
    for seed in number(from)?..number(to)? {
        match model.compare(&History::random(seed, lazy))? {
            Verdict::Same(count) => {
                same += 1;
                steps += count;
            }
            Verdict::Beyond(why) => {
                beyond += 1;
                println!("seed {seed}: the model stops: {why}");
            }
            Verdict::Different(difference) => {
                different += 1;
                println!("seed {seed} differs\n{}\n", difference.story);
            }
        }
        if (same + different) % 100 == 0 {
            println!("up to seed {seed}: {same} the same, {different} different");
        }
    }
    println!(
        "{same} histories the same after each of {steps} steps, {different} different, {beyond} stopped by the model"
    );
    Ok(different == 0)
}

fn kill(arguments: &[String]) -> Result<bool> {
    let rounds = number(option(arguments, "--rounds").ok_or(USAGE)?)?;
    let seed = number(option(arguments, "--seed").ok_or(USAGE)?)?;
    let rows = u32::try_from(number(option(arguments, "--rows").unwrap_or("3000"))?)?;
    let program = match option(arguments, "--bin") {
        Some(path) => Program::Tool(path.into()),
        None => Program::Child(std::env::current_exe()?),
    };
    println!("{rounds} rounds of seed {seed}, {rows} rows a table, {program:?}");
    let report = crash::campaign(&program, rounds, seed, rows, &mut |line| println!("{line}"))?;
    print!("{report}");
    Ok(report.failures.is_empty())
}
