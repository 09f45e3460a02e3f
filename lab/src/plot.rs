//! Plots as SVG.
//!
//! Colours are CSS variables, which a page sets for light and dark mode; a plot in a file of its own
//! brings them along. Plotters knows only fixed colours, so it draws in made-up ones that are
//! replaced afterwards.

use crate::{Error, Result};
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

/// Style that a plot needs around it: the colours, light and dark.
pub const STYLE: &str = "\
:root{--ink:#1f2328;--faint:#8c959f;--s0:#57606a;--s1:#0969da;--s2:#bf8700;--s3:#cf222e;--s4:#8250df;--s5:#1a7f37}
@media(prefers-color-scheme:dark){:root{--ink:#e6edf3;--faint:#6e7681;--s0:#9198a1;--s1:#4493f8;--s2:#d29922;--s3:#f85149;--s4:#ab7df8;--s5:#3fb950}}
";

const INK: RGBColor = RGBColor(1, 2, 3);
const FAINT: RGBColor = RGBColor(1, 2, 4);
const SERIES: usize = 6;

/// Colour of a series, as a made-up one.
fn colour(series: usize) -> RGBColor {
    RGBColor(1, 3, (series % SERIES) as u8)
}

/// Puts variables where made-up colours are.
fn themed(svg: &str) -> String {
    let mut svg = svg.replace("#010203", "var(--ink)").replace("#010204", "var(--faint)");
    for series in 0..SERIES {
        svg = svg.replace(&format!("#01030{series}"), &format!("var(--s{series})"));
    }
    svg
}

/// A plot as a file of its own.
pub fn standalone(svg: &str) -> String {
    svg.replacen(
        '>',
        &format!("><style>{STYLE}svg{{background:Canvas;color-scheme:light dark}}</style>"),
        1,
    )
}

fn failed(e: impl std::fmt::Display) -> Error {
    Error::Plot(e.to_string())
}

fn text(size: u32, colour: RGBColor, h: HPos) -> TextStyle<'static> {
    TextStyle {
        font: ("sans-serif", size).into(),
        color: colour.to_backend_color(),
        pos: Pos::new(h, VPos::Center),
    }
}

/// Pixels of a row of bars, between groups, left of and above the bars, and of the whole.
const ROW: i32 = 16;
const GAP: i32 = 12;
const LEFT: i32 = 210;
const TOP: i32 = 56;
const WIDTH: i32 = 760;

/// A bar: series, value, interval.
pub type Bar = (usize, f64, Option<(f64, f64)>);

/// How bars are scaled.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scale {
    /// All alike, with a line at this value, such as 1 for ratios.
    Common(f64),
    /// Each category by its own largest, where categories are of different kinds.
    Own,
}

/// Horizontal bars in groups, one group a category, with whiskers for intervals and the values
/// beside them.
pub fn bars(
    title: &str,
    series: &[String],
    categories: &[(String, Vec<Bar>)],
    scale: Scale,
) -> Result<String> {
    let rows: usize = categories.iter().map(|(_, bars)| bars.len()).sum();
    let height = TOP + rows as i32 * ROW + categories.len() as i32 * GAP + 10;
    let largest = |bars: &[Bar]| {
        let end =
            |(_, value, interval): &Bar| interval.map_or(*value, |(_, high)| high.max(*value));
        bars.iter().map(end).filter(|v| v.is_finite()).fold(0.0, f64::max)
    };
    let most = categories.iter().map(|(_, bars)| largest(bars)).fold(0.0, f64::max);
    let width = f64::from(WIDTH - LEFT - 90);
    let place =
        |value: f64, most: f64| LEFT + (value / most.max(f64::MIN_POSITIVE) * width).round() as i32;
    let mut svg = String::new();
    {
        let area =
            SVGBackend::with_string(&mut svg, (WIDTH as u32, height as u32)).into_drawing_area();
        legend(&area, title, series)?;
        if let Scale::Common(mark) = scale {
            let x = place(mark, most);
            let line = vec![(x, TOP - 6), (x, height - 8)];
            area.draw(&PathElement::new(line, FAINT.stroke_width(1))).map_err(failed)?;
        }
        let mut y = TOP;
        for (name, bars) in categories {
            let most = if scale == Scale::Own { largest(bars) } else { most };
            let x = |value: f64| place(value, most);
            let middle = y + bars.len() as i32 * ROW / 2;
            let label = text(13, INK, HPos::Right);
            area.draw(&Text::new(name.clone(), (LEFT - 8, middle), label)).map_err(failed)?;
            for (series, value, interval) in bars {
                let (top, bottom, centre) = (y + 2, y + ROW - 2, y + ROW / 2);
                let bar =
                    Rectangle::new([(LEFT, top), (x(*value), bottom)], colour(*series).filled());
                area.draw(&bar).map_err(failed)?;
                let mut end = x(*value);
                if let Some((low, high)) = interval {
                    let whisker = vec![(x(*low), centre), (x(*high), centre)];
                    area.draw(&PathElement::new(whisker, INK.stroke_width(1))).map_err(failed)?;
                    end = end.max(x(*high));
                }
                let label = text(11, INK, HPos::Left);
                let shown = crate::table::number(*value);
                area.draw(&Text::new(shown, (end + 5, centre), label)).map_err(failed)?;
                y += ROW;
            }
            y += GAP;
        }
        area.present().map_err(failed)?;
    }
    Ok(themed(&svg))
}

/// A line: name, colour, points.
pub type Line = (String, usize, Vec<(f64, f64)>);

/// Lines over a common x axis, with a point at each value.
pub fn lines(
    title: &str,
    (x_name, y_name): (&str, &str),
    logarithmic: bool,
    series: &[Line],
) -> Result<String> {
    let points = || series.iter().flat_map(|(_, _, points)| points);
    let span = |of: fn(&(f64, f64)) -> f64| {
        let low = points().map(of).fold(f64::MAX, f64::min);
        let high = points().map(of).fold(f64::MIN, f64::max);
        (low, if high > low { high } else { low + 1.0 })
    };
    let ((x0, x1), (_, y1)) = (span(|p| p.0), span(|p| p.1));
    let names: Vec<String> = series.iter().map(|(name, _, _)| name.clone()).collect();
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, (760, 360)).into_drawing_area();
        legend(&area, title, &names)?;
        let area = area.margin(48, 6, 6, 20);
        let mut builder = ChartBuilder::on(&area);
        builder.x_label_area_size(40).y_label_area_size(70);
        // The two kinds of axis are different types.
        macro_rules! draw {
            ($x:expr) => {{
                let mut chart = builder.build_cartesian_2d($x, 0.0..y1 * 1.05).map_err(failed)?;
                chart
                    .configure_mesh()
                    .bold_line_style(FAINT.mix(0.35))
                    .light_line_style(TRANSPARENT)
                    .axis_style(FAINT)
                    .label_style(text(11, INK, HPos::Left))
                    .axis_desc_style(text(12, INK, HPos::Center))
                    .x_desc(x_name)
                    .y_desc(y_name)
                    .x_label_formatter(&|v| crate::table::number(*v))
                    .y_label_formatter(&|v| crate::table::number(*v))
                    .draw()
                    .map_err(failed)?;
                for (i, (_, _, points)) in series.iter().enumerate() {
                    let line = LineSeries::new(
                        points.iter().copied(),
                        colour(series[i].1).stroke_width(2),
                    );
                    chart.draw_series(line).map_err(failed)?;
                }
            }};
        }
        if logarithmic {
            draw!((x0.max(0.001)..x1.max(0.002)).log_scale());
        } else {
            draw!(x0..x1);
        }
        area.present().map_err(failed)?;
    }
    Ok(themed(&svg))
}

/// Title and the names of the series.
fn legend(area: &DrawingArea<SVGBackend<'_>, Shift>, title: &str, series: &[String]) -> Result<()> {
    area.draw(&Text::new(title.to_owned(), (8, 14), text(15, INK, HPos::Left))).map_err(failed)?;
    let mut at = 8;
    for (i, name) in series.iter().enumerate() {
        let square = Rectangle::new([(at, 30), (at + 11, 41)], colour(i).filled());
        area.draw(&square).map_err(failed)?;
        let label = text(12, INK, HPos::Left);
        area.draw(&Text::new(name.clone(), (at + 16, 36), label)).map_err(failed)?;
        at += 34 + 7 * name.chars().count() as i32;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plots_have_no_colours_but_variables() {
        let series = ["plain".to_owned(), "replica <&>".to_owned()];
        let category = ("insert".to_owned(), vec![(0, 1.0, None), (1, 2.0, Some((1.5, 2.5)))]);
        let bars = bars("Cost", &series, &[category], Scale::Common(1.0)).unwrap();
        let line = ("plain".to_owned(), 0, vec![(1.0, 0.1), (10.0, 0.9)]);
        let lines = lines("Latency", ("µs", "share"), true, &[line]).unwrap();
        for svg in [&bars, &lines] {
            assert!(svg.starts_with("<svg ") && svg.contains("var(--ink)"), "{svg}");
            assert!(!svg.contains("\"#"), "{svg}");
        }
        assert!(bars.contains("replica &lt;&amp;&gt;"), "{bars}");
        assert!(standalone(&bars).contains("prefers-color-scheme:dark"));
    }
}
