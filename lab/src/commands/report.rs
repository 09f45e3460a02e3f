//! `report` and `plot`: results as a page, and as pictures.

use super::show;
use crate::cli::{PlotArgs, ReportArgs};
use crate::compare;
use crate::plot;
use crate::report;
use crate::{Error, Result};
use std::fs;

pub fn page(args: &ReportArgs) -> Result<()> {
    let (records, notes) = show::select(&args.select)?;
    let html = report::page(&compare::group_over(&records, args.over), &notes)?;
    let mut file = fs::OpenOptions::new();
    let mut file =
        file.write(true).create_new(true).open(&args.out).map_err(Error::io(&args.out))?;
    std::io::Write::write_all(&mut file, html.as_bytes()).map_err(Error::io(&args.out))?;
    say!("{}", args.out.display());
    Ok(())
}

pub fn plots(args: &PlotArgs) -> Result<()> {
    let (records, _) = show::select(&args.select)?;
    let groups = compare::group(&records);
    fs::create_dir_all(&args.dir).map_err(Error::io(&args.dir))?;
    let mut named = Vec::new();
    for group in &groups {
        for plot in report::plots(group)? {
            named.push((format!("{} {}", group.title(), plot.name), plot.svg));
        }
    }
    named.extend(report::by_journal_mode(&groups)?.into_iter().map(|p| (p.name, p.svg)));
    for (i, (name, svg)) in named.iter().enumerate() {
        let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
        let mut file: String = name.chars().map(plain).collect();
        // Groups may differ in what a title does not say.
        if named[..i].iter().any(|(other, _)| other == name) {
            file += &format!("-{i}");
        }
        let path = args.dir.join(format!("{}{file}.svg", args.prefix));
        fs::write(&path, plot::standalone(svg)).map_err(Error::io(&path))?;
        say!("{}", path.display());
    }
    Ok(())
}
