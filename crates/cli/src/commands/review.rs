use super::watch::stop_signal;
use super::{env, open, print};
use crate::error::Result;
use crate::report::{Report, count};
use crate::review::{self, Desk, Server};
use serde_json::json;
use std::path::PathBuf;
use std::time::Duration;

/// Shows open conflicts one after another, both sides beside each other, and settles them.
///
/// By default a page in the browser, of this machine alone: it is reached at an address that is good for one
/// browser, once, and nothing leaves the machine. Choose by key, take back by z, write all by w; a dry run
/// tells before if a choice is refused or opens another conflict. All decisions are written in one transaction.
/// It ends when the page says so or is closed, and on Ctrl-C.
#[derive(clap::Args)]
pub struct Args {
    /// The replica.
    db: PathBuf,
    /// Asks in the terminal, a letter and Enter for each, in place of a page. Reads standard input.
    #[arg(long, conflicts_with_all = ["no_open", "idle"])]
    terminal: bool,
    /// Prints the address of the page and opens no browser.
    #[arg(long)]
    no_open: bool,
    /// Ends when no page has asked for anything in so many minutes.
    #[arg(long, value_name = "MINUTES", default_value_t = 30,
          value_parser = clap::value_parser!(u64).range(1..=10_080))]
    idle: u64,
}

pub fn run(args: &Args, as_json: bool) -> Result<()> {
    let (replica, env) = (open(&args.db)?, env());
    if replica.open_questions()? == 0 {
        let mut text = "no open conflicts: there is nothing to review".to_owned();
        text.extend(super::decided(replica.decided_conflicts()?).map(|line| format!("\n{line}")));
        return print(Report::new(json!({"settled": 0, "open": 0}), text), as_json);
    }
    let desk = Desk::new(replica, args.db.display().to_string(), env.now_ms());
    let (settled, open) = match args.terminal {
        true => {
            let mut desk = desk;
            review::talk(&mut desk, std::io::stdin().lock())?
        }
        false => {
            let stop = stop_signal()?;
            let server = Server::new(desk, env.as_ref())?;
            let url = server.url();
            let text = format!("review at {url}\n(for one browser, once; Ctrl-C ends it)");
            print(Report::new(json!({"url": url}), text), as_json)?;
            if !args.no_open {
                review::open(&url);
            }
            server.run(Duration::from_secs(60 * args.idle), &stop)?
        }
    };
    let text = format!("settled {}; open conflicts: {open}", count(settled, "record"));
    print(Report::new(json!({"settled": settled, "open": open}), text), as_json)
}
