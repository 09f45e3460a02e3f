//! Versions of one row side by side, for people: one line a column, differences marked.
//!
//! Nothing is wider than the terminal. A value that does not fit is cut so that the place where the
//! versions begin to differ stays in sight. Marks are characters; colour only repeats what they say.

use std::fmt::Write;

/// Narrower than this a value tells nothing; then versions go below each other.
const NARROWEST: usize = 12;

/// How to write.
#[derive(Clone, Copy, Debug)]
pub struct Style {
    /// Columns of the terminal.
    pub width: usize,
    /// Whether it shows colours.
    pub colour: bool,
}

/// What a line is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// All versions agree, or there is only one.
    None,
    /// The versions differ.
    Differs,
    /// The key that two rows claim.
    Claimed,
}

/// One column of the row.
pub struct Line {
    /// Its name.
    pub name: String,
    /// Its value in each version.
    pub values: Vec<String>,
    /// What it is about.
    pub mark: Mark,
}

/// Writes the lines under the headings of the versions, each line indented and ended.
pub fn write(out: &mut String, headings: &[String], lines: &[Line], style: Style) {
    let longest = |texts: &mut dyn Iterator<Item = usize>| texts.max().unwrap_or(0);
    let name_width = longest(&mut lines.iter().map(|l| columns(&l.name)));
    let name_width = name_width.min(style.width / 4).max(4);
    let natural: Vec<usize> = headings
        .iter()
        .enumerate()
        .map(|(i, heading)| {
            let of = |line: &Line| line.values.get(i).map_or(0, |v| columns(v));
            columns(heading).max(longest(&mut lines.iter().map(of)))
        })
        .collect();
    // Two spaces, the mark and a space; the name; two spaces before each version.
    let room = style.width.saturating_sub(4 + name_width + 2 * headings.len());
    let widths = share(&natural, room);
    let stacked = widths.iter().zip(&natural).any(|(&w, &n)| w < n.min(NARROWEST));
    if stacked {
        return stack(out, headings, lines, style);
    }
    let mut row = |mark: Mark, name: &str, cells: &[String]| {
        let mut line = format!("  {} {}", symbol(mark), pad(&cut(name, name_width, 0), name_width));
        for (i, (cell, &width)) in cells.iter().zip(&widths).enumerate() {
            let cell = if i + 1 < cells.len() { pad(cell, width) } else { cell.clone() };
            line += "  ";
            line += &paint(&cell, colour_of(mark, i), style);
        }
        let _ = writeln!(out, "{}", line.trim_end());
    };
    row(Mark::None, "", headings);
    for line in lines {
        let from = differ_at(&line.values);
        let cells: Vec<String> =
            line.values.iter().zip(&widths).map(|(v, &width)| cut(v, width, from)).collect();
        row(line.mark, &line.name, &cells);
    }
}

/// Versions below each other, for narrow terminals.
fn stack(out: &mut String, headings: &[String], lines: &[Line], style: Style) {
    let heading_width = headings.iter().map(|h| columns(h)).max().unwrap_or(0);
    for line in lines {
        let name = cut(&line.name, style.width.saturating_sub(4).max(1), 0);
        let _ = writeln!(out, "  {} {name}", symbol(line.mark));
        let from = differ_at(&line.values);
        for (i, (heading, value)) in headings.iter().zip(&line.values).enumerate() {
            let width = style.width.saturating_sub(8 + heading_width).max(1);
            let value = paint(&cut(value, width, from), colour_of(line.mark, i), style);
            let _ = writeln!(out, "      {}  {value}", pad(heading, heading_width));
        }
    }
}

fn symbol(mark: Mark) -> char {
    match mark {
        Mark::None => ' ',
        Mark::Differs => '*',
        Mark::Claimed => '=',
    }
}

/// The colour of a version in a marked line: red, then green; a claimed key yellow.
fn colour_of(mark: Mark, version: usize) -> u8 {
    match (mark, version) {
        (Mark::Differs, 0) => 31,
        (Mark::Differs, 1) => 32,
        (Mark::None | Mark::Differs, _) => 0,
        (Mark::Claimed, _) => 33,
    }
}

fn paint(text: &str, colour: u8, style: Style) -> String {
    match (style.colour, colour) {
        (false, _) | (_, 0) => text.to_owned(),
        (true, _) => format!("\x1b[{colour}m{text}\x1b[0m"),
    }
}

/// Divides `room` so that what needs little gets what it needs, and the others the rest alike.
fn share(natural: &[usize], room: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..natural.len()).collect();
    order.sort_by_key(|&i| natural[i]);
    let (mut left, mut widths) = (room, vec![0; natural.len()]);
    for (done, &i) in order.iter().enumerate() {
        widths[i] = natural[i].min(left / (natural.len() - done));
        left -= widths[i];
    }
    widths
}

/// Where texts begin to differ, in characters; 0 if they do not.
fn differ_at(texts: &[String]) -> usize {
    let Some((first, others)) = texts.split_first() else { return 0 };
    let same = |other: &String| {
        if other == first {
            return None;
        }
        let both = first.chars().zip(other.chars());
        Some(both.take_while(|(a, b)| a == b).count())
    };
    others.iter().filter_map(same).min().unwrap_or(0)
}

/// A text in at most `width` columns; `from` is the character that must stay in sight.
fn cut(text: &str, width: usize, from: usize) -> String {
    if columns(text) <= width {
        return text.to_owned();
    }
    let all: Vec<char> = text.chars().collect();
    // Some of what comes before is left, to know the place by, and more where there is room.
    let mut start =
        if from + 1 < width { 0 } else { from.saturating_sub(width / 3).min(all.len() - 1) };
    let after: usize = all[start..].iter().map(|&c| columns_of(c)).sum();
    let mut room = width.saturating_sub(1 + after);
    while start > 0 && columns_of(all[start - 1]) <= room {
        start -= 1;
        room -= columns_of(all[start]);
    }
    let mut out = String::from(if start > 0 { "…" } else { "" });
    let mut used = columns(&out);
    for (i, &c) in all.iter().enumerate().skip(start) {
        let rest: usize = all[i + 1..].iter().take(width).map(|&c| columns_of(c)).sum();
        let end = if rest == 0 { 0 } else { 1 };
        if used + columns_of(c) + end > width && rest + used + columns_of(c) > width {
            out.push('…');
            break;
        }
        out.push(c);
        used += columns_of(c);
    }
    out
}

fn pad(text: &str, width: usize) -> String {
    let missing = width.saturating_sub(columns(text));
    format!("{text}{}", " ".repeat(missing))
}

/// Columns of a terminal that a text takes.
pub fn columns(text: &str) -> usize {
    text.chars().map(columns_of).sum()
}

/// Marks that join the character before them take none, those of East Asia and pictures two.
fn columns_of(c: char) -> usize {
    match c as u32 {
        0x300..=0x36f | 0x200b..=0x200f | 0xfe00..=0xfe0f => 0,
        0x1100..=0x115f | 0x2e80..=0xa4cf | 0xac00..=0xd7a3 | 0xf900..=0xfaff => 2,
        0xfe30..=0xfe6f | 0xff00..=0xff60 | 0xffe0..=0xffe6 => 2,
        0x1f300..=0x1faff | 0x20000..=0x3fffd => 2,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Style = Style { width: 60, colour: false };

    fn written(headings: &[&str], lines: &[(&str, &[&str], Mark)], style: Style) -> String {
        let owned = |texts: &[&str]| texts.iter().map(|t| t.to_string()).collect::<Vec<_>>();
        let line = |(name, values, mark): &(&str, &[&str], Mark)| Line {
            name: name.to_string(),
            values: owned(values),
            mark: *mark,
        };
        let mut out = String::new();
        let lines: Vec<Line> = lines.iter().map(line).collect();
        write(&mut out, &owned(headings), &lines, style);
        out
    }

    #[test]
    fn versions_stand_side_by_side() {
        let lines: &[(&str, &[&str], Mark)] = &[
            ("id", &["2", "2", "1"], Mark::None),
            ("email", &["\"a@x\"", "\"b@x\"", "\"a@x\""], Mark::Differs),
        ];
        let text = written(&["written", "shown", "row 1"], lines, PLAIN);
        let want = "           written  shown  row 1\n\
                    \x20   id     2        2      1\n\
                    \x20 * email  \"a@x\"    \"b@x\"  \"a@x\"\n";
        assert_eq!(text, want);
        let colour = written(
            &["written", "shown"],
            &[("n", &["1", "2"], Mark::Differs)],
            Style { colour: true, ..PLAIN },
        );
        assert!(colour.contains("* n     \x1b[31m1      \x1b[0m  \x1b[32m2\x1b[0m"), "{colour:?}");
    }

    #[test]
    fn nothing_is_wider_than_the_terminal() {
        let long = |end: &str| format!("\"{}{end}\"", "word ".repeat(40));
        let (a, b) = (long("kept"), long("lost"));
        for width in [20, 30, 45, 60, 200] {
            let style = Style { width, colour: false };
            let lines: &[(&str, &[&str], Mark)] = &[
                ("text", &[&a, &b], Mark::Differs),
                (
                    "a rather long name of a column",
                    &["1", "漢字漢字漢字漢字漢字漢字"],
                    Mark::Differs,
                ),
            ];
            let text = written(&["written", "shown"], lines, style);
            for line in text.lines() {
                assert!(columns(line) <= width, "{width}: {line}");
            }
            let seen = |what: &str| text.contains(what);
            assert!(width < 30 || seen("kept") && seen("lost"), "{width}: {text}");
        }
    }

    #[test]
    fn a_cut_is_marked_and_keeps_what_fits() {
        assert_eq!(cut("abcdef", 6, 0), "abcdef");
        assert_eq!(cut("abcdefg", 6, 0), "abcde…");
        assert_eq!(cut("abcdefghijklmnop", 6, 15), "…lmnop");
        assert_eq!(cut("abcdefghijklmnop", 6, 8), "…ghij…");
        assert_eq!(cut("漢字漢字", 5, 0), "漢字…");
    }

    #[test]
    fn room_is_shared() {
        assert_eq!(share(&[5, 100, 100], 45), [5, 20, 20]);
        assert_eq!(share(&[5, 6], 45), [5, 6]);
        assert_eq!(share(&[], 45), [0; 0]);
    }
}
