//! Many mutants in one build, each behind a switch.
//!
//! A function in which a repair stands gets its own body once more in front, without the repair; it is
//! run where the environment names the mutant. So nothing has to be compiled for one mutant alone, and
//! what is played is still the engine with one text of its sources replaced.

use super::Mutant;
use std::collections::BTreeMap;
use std::ops::Range;

/// The variable that names the mutant.
pub const SWITCH: &str = "SYNQLITE_MUTANT";

/// The source with switches for these mutants of it, and the names of those that got one. The others do not
/// stand once in the body of a function, or it cannot have a second one.
pub fn with_switches(source: &str, mutants: &[&Mutant<'_>]) -> (String, Vec<&'static str>) {
    let mut bodies: BTreeMap<usize, (Range<usize>, Vec<&Mutant<'_>>)> = BTreeMap::new();
    for mutant in mutants.iter().filter(|m| source.matches(m.from).count() == 1) {
        let at = source.find(mutant.from).unwrap_or_default();
        if let Some(body) = body_around(source, at..at + mutant.from.len()) {
            let start = body.start;
            bodies.entry(start).or_insert_with(|| (body, Vec::new())).1.push(mutant);
        }
    }
    let (mut text, mut done, mut names) = (String::new(), 0, Vec::new());
    for (body, mutants) in bodies.into_values() {
        // One within another that has switches.
        if body.start < done {
            continue;
        }
        text.push_str(&source[done..body.start]);
        for Mutant { name, from, to, .. } in mutants {
            let mutated = source[body.clone()].replacen(from, to, 1);
            text.push_str(&format!(
                "if {{ static ON: std::sync::OnceLock<bool> = std::sync::OnceLock::new(); \
                 *ON.get_or_init(|| std::env::var({SWITCH:?}).is_ok_and(|on| on == {name:?})) }} \
                 {{ return {{ {mutated} }}; }}\n"
            ));
            names.push(*name);
        }
        done = body.start;
    }
    text.push_str(&source[done..]);
    (text, names)
}

/// What stands between the braces of the innermost function around this, as rustfmt sets them: they are
/// indented as the function is.
fn body_around(source: &str, inner: Range<usize>) -> Option<Range<usize>> {
    let lines: Vec<(usize, &str)> = source
        .split_inclusive('\n')
        .scan(0, |at, line| {
            *at += line.len();
            Some((*at - line.len(), line.trim_end()))
        })
        .collect();
    let within = lines.partition_point(|(at, _)| *at <= inner.start);
    lines[..within].iter().enumerate().rev().find_map(|(nth, (_, line))| {
        let indent = line.len() - line.trim_start().len();
        let (before, _) = line[indent..].split_once("fn ")?;
        if !before.split(' ').all(|word| word.is_empty() || word.starts_with("pub")) {
            return None;
        }
        let here = |line: &str| line.len() > indent && !line[..=indent].trim().is_empty();
        let mut rest = lines[nth..].iter().filter(|(_, line)| here(line));
        let (open, first) = rest.find(|(_, line)| line.ends_with('{'))?;
        let (close, _) = rest.next()?;
        let signature = &source[lines[nth].0..open + first.len()];
        // Two bodies would be of two types.
        let one_type = !signature.contains("-> impl");
        let body = open + first.len()..*close;
        (one_type && body.start <= inner.start && inner.end <= body.end).then_some(body)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "\
impl Thing {
    /// What it has.
    pub fn has(&self, what: &str) -> bool {
        if what.is_empty() {
            return false;
        }
        self.all.contains(what)
    }
}

fn long(
    first: u32,
) -> impl Iterator<Item = u32> {
    (0..first).filter(|n| n % 2 == 0)
}
";

    fn mutant(name: &'static str, from: &'static str) -> Mutant<'static> {
        Mutant { name, file: "", from, to: "GONE", campaign: "", breaks: "" }
    }

    #[test]
    fn a_function_gets_a_second_body_for_each_mutant() {
        let (one, two) = (mutant("one", "return false"), mutant("two", "self.all.contains(what)"));
        let (text, names) = with_switches(SOURCE, &[&one, &two]);
        assert_eq!(names, ["one", "two"]);
        assert_eq!(text.matches("return false").count(), 2);
        assert_eq!(text.matches("GONE").count(), 2);
        assert_eq!(text.matches("pub fn has").count(), 1);
        assert!(text.ends_with(&SOURCE[SOURCE.find("fn long").unwrap()..]));
    }

    #[test]
    fn what_cannot_have_a_second_body_gets_no_switch() {
        let (of_two_types, of_none) =
            (mutant("of-two-types", "n % 2"), mutant("of-none", "impl Thing"));
        let (text, names) = with_switches(SOURCE, &[&of_two_types, &of_none]);
        assert_eq!((text.as_str(), names), (SOURCE, vec![]));
    }
}
