use super::{key_value, open, policies};
use crate::error::Result;
use crate::report::{Report, lines};
use std::path::PathBuf;
use synqlite_core::Policies;
use synqlite_front::answer;

/// Shows or sets the policies by which rows merge.
///
/// Policies are replicated: set on one site, they reach all. The last writer wins.
///
///   T.identity=key|birth   rows of table T are the same if their keys are, or by birth
///   T.ids=shared|local     where two sites give one number to two rows, the later row gets another,
///                          on all sites; with `local` each site has numbers of its own, none of
///                          which ever changes there, and references follow; that holds on each site
///                          from when the policy has arrived there
///   T.on_unique=quarantine|unify
///                          a row that loses a unique key is hidden; with `unify` the rows that
///                          refer to it show the winner, for lookup tables such as tags
///   T.COLUMN=counter        what several sites add to this number adds up, for stocks and counts of
///                          visits; programs write SET n = n + 1 as ever. Not taken back
///   T.delete=wins|last     whether a row that one site deletes and another updates is gone, or
///                          what was written last decides; concerns updates from then on
///   T.refs=COLUMN:TABLE    a reference that the schema does not declare
///   fk=enforce|ignore      whether merges keep declared foreign keys
///   merge=slices|whole     a large merge comes in slices, between which programs can write, or in one
///                          transaction: readers see all of it or nothing
///   local_tables=A,B       tables that are not replicated
///   replicate_tables=A,B   tables that are, although there are reasons not to: what migration tools
///                          note, a GeoPackage says of its layers, and indexes over the text of
///                          floating-point numbers
///   fire_on_merge=A,B      triggers that run for merged rows too: only such as write local tables;
///                          those that only keep a search index do in any case
///
/// Some names cannot stand in a policy: of a table or trigger with a comma in it, in a list; of a
/// column with : or a comma in T.refs, with = or a dot in T.COLUMN.
#[derive(clap::Args)]
#[command(about = "Shows or sets the policies by which rows merge", verbatim_doc_comment)]
pub struct Args {
    /// The replica.
    db: PathBuf,
    /// Policies to set; without any, those in force are shown.
    #[arg(value_name = "KEY=VALUE", value_parser = key_value)]
    settings: Vec<(String, String)>,
}

pub fn run(args: &Args) -> Result<Report> {
    let mut replica = open(&args.db)?;
    let before = replica.policies()?;
    if !args.settings.is_empty() {
        replica.set_policies(&policies(&args.settings)?)?;
    }
    let policies = replica.policies()?;
    let dropped = args.settings.iter().filter_map(|(key, _)| dropped(key, &before, &policies));
    let idle = replica.idle_policies()?;
    let answer = answer::policies(&policies, &idle);
    let idle = idle.iter().map(|(key, why)| format!("note: {key} has no effect: {why}"));
    let set = policies.iter().map(|(key, value)| format!("{key}={value}"));
    let told: Vec<_> = set.chain(idle).chain(dropped).collect();
    let text = if told.is_empty() { "no policy is set".to_owned() } else { lines(told) };
    Ok(Report::new(answer, text))
}

/// A note on what a list had and has no more, where something else took its place: each setting says all of it.
fn dropped(key: &str, before: &Policies, now: &Policies) -> Option<String> {
    let lists = ["local_tables", "replicate_tables", "fire_on_merge"];
    let (was, is) = (before.list(key), now.list(key));
    let gone: Vec<&str> = was.iter().copied().filter(|item| !is.contains(item)).collect();
    let came = is.iter().any(|item| !was.contains(item));
    ((lists.contains(&key) || key.ends_with(".refs")) && came && !gone.is_empty()).then(|| {
        let (gone, all) = (gone.join(","), [gone.clone(), is].concat().join(","));
        format!("note: {key} has {gone} no more; for both: {key}={all}")
    })
}
