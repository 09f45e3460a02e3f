//! What a command is at while it takes longer than half a second: on a terminal, as JSON lines, or in the
//! log of one that goes on for ever.
//!
//! The work only notes how far it is. A thread of its own looks a few times a second and shows it, so no
//! work waits for a terminal, and what is done at once shows nothing.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::{Map, Value, json};
use std::io::{IsTerminal, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use synqlite_core::units::{bytes, count, grouped};
use synqlite_core::{Phase, Step, Unit};

/// Work shorter than this is not worth telling of.
const PATIENCE: Duration = Duration::from_millis(500);

/// Between two looks at the work.
const PACE: Duration = Duration::from_millis(200);

/// Work that does not get on is told of after so long again.
const HEARTBEAT: Duration = Duration::from_secs(1);

/// How to show it, as the user wants it. What each means is said once, where the option is declared: as
/// help of the values it would stand below every command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Mode {
    Auto,
    Json,
    None,
}

enum How {
    Bar(Option<ProgressBar>),
    Json,
    Log,
}

/// What is done now.
struct Work {
    /// `None` before anything has said what it does.
    step: Option<Step>,
    since: Instant,
    /// When it was shown last, and how far it was.
    shown: Option<(Instant, u64)>,
}

struct Meter {
    how: How,
    work: Work,
    /// `None` while there is nothing to do.
    began: Option<Instant>,
}

static METER: Mutex<Option<Meter>> = Mutex::new(None);

fn meter() -> MutexGuard<'static, Option<Meter>> {
    METER.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A command begins. `logs`: it goes on for ever, and tells of what took long afterwards.
pub fn begin(mode: Mode, logs: bool) {
    let how = match mode {
        Mode::None => return,
        Mode::Json => How::Json,
        Mode::Auto if logs => How::Log,
        Mode::Auto if std::io::stderr().is_terminal() => How::Bar(None),
        Mode::Auto => return,
    };
    let looks = !matches!(how, How::Log);
    *meter() = Some(Meter { how, work: Work::new(None), began: Some(Instant::now()) });
    // It ends with the process. A machine that has no thread to spare shows nothing.
    if looks {
        let _ = std::thread::Builder::new().spawn(|| {
            loop {
                std::thread::sleep(PACE);
                let mut meter = meter();
                let Some(meter) = meter.as_mut() else { return };
                meter.look();
            }
        });
    }
}

/// The work is so far.
pub fn step(step: Step) {
    if let Some(meter) = meter().as_mut() {
        meter.step(step);
    }
}

/// What was done is over, and more may come.
pub fn rest() {
    if let Some(meter) = meter().as_mut() {
        meter.finish();
        (meter.work, meter.began) = (Work::new(None), None);
    }
}

/// The command is over.
pub fn end() {
    if let Some(mut meter) = meter().take() {
        meter.finish();
    }
}

/// Whether programs read standard error.
pub fn is_json() -> bool {
    matches!(meter().as_ref(), Some(Meter { how: How::Json, .. }))
}

/// Writes what is not about progress, with nothing in its way on the terminal.
pub fn beside<T>(write: impl FnOnce() -> T) -> T {
    let mut meter = meter();
    if let Some(Meter { how: How::Bar(bar), .. }) = meter.as_mut() {
        clear(bar);
    }
    write()
}

impl Meter {
    fn step(&mut self, step: Step) {
        let goes_on =
            self.work.step.is_some_and(|now| now.phase == step.phase && now.done <= step.done);
        if !goes_on {
            self.finish();
            self.work = Work::new(Some(step));
            self.began.get_or_insert(self.work.since);
        }
        self.work.step = Some(step);
    }

    fn look(&mut self) {
        let now = Instant::now();
        if self.began.is_none_or(|began| now - began < PATIENCE) {
            return;
        }
        match &mut self.how {
            How::Bar(bar) => draw(bar, &self.work),
            How::Json => {
                let done = self.work.done();
                let due = |(at, was): (Instant, u64)| was != done || now - at >= HEARTBEAT;
                if self.work.shown.is_none_or(due) {
                    tell(&self.work.json(false).to_string());
                    self.work.shown = Some((now, done));
                }
            }
            How::Log => {}
        }
    }

    fn finish(&mut self) {
        match &mut self.how {
            How::Bar(bar) => clear(bar),
            How::Json if self.work.shown.is_some() => tell(&self.work.json(true).to_string()),
            How::Log if self.work.step.is_some() && self.work.since.elapsed() >= PATIENCE => {
                tell(&self.work.log());
            }
            How::Json | How::Log => {}
        }
    }
}

fn clear(bar: &mut Option<ProgressBar>) {
    if let Some(bar) = bar.take() {
        bar.finish_and_clear();
    }
}

/// A line on standard error.
fn tell(line: &str) {
    // There is no third place to complain to.
    let _ = writeln!(std::io::stderr(), "{line}");
}

fn draw(bar: &mut Option<ProgressBar>, work: &Work) {
    let total = work.step.and_then(|step| step.total).filter(|total| *total > 0);
    let bar = bar.get_or_insert_with(|| {
        let bar = ProgressBar::with_draw_target(total, ProgressDrawTarget::stderr());
        let template = if total.is_some() { "{bar:30} {msg}" } else { "{spinner} {msg}" };
        let style = ProgressStyle::with_template(template);
        bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
    });
    if let Some(total) = total {
        bar.set_length(total);
    }
    bar.set_position(work.done());
    bar.set_message(work.text());
    bar.tick();
}

impl Work {
    fn new(step: Option<Step>) -> Work {
        Work { step, since: Instant::now(), shown: None }
    }

    fn done(&self) -> u64 {
        self.step.map_or(0, |step| step.done)
    }

    /// A second's worth of it, if it has one.
    fn rate(&self) -> Option<f64> {
        let seconds = self.since.elapsed().as_secs_f64();
        Some(self.done() as f64 / seconds).filter(|rate| *rate > 0.0 && rate.is_finite())
    }

    /// How many seconds it will go on, as it went so far.
    fn left(&self) -> Option<f64> {
        let total = self.step?.total?;
        Some(total.saturating_sub(self.done()) as f64 / self.rate()?)
    }

    fn json(&self, last: bool) -> Value {
        let mut line = Map::new();
        let name = self.step.map_or("work", |step| step.phase.name());
        line.insert("phase".into(), name.into());
        if let Some(Step { phase, done, total }) = self.step {
            let unit = match phase.unit() {
                Unit::Rows => "rows",
                Unit::Bytes => "bytes",
            };
            line.insert(unit.into(), done.into());
            line.insert("total".into(), total.into());
        }
        line.insert("rate".into(), self.rate().map(|rate| rate.round() as u64).into());
        line.insert("left_s".into(), self.left().map(tenths).into());
        line.insert("seconds".into(), json!(tenths(self.since.elapsed().as_secs_f64())));
        line.insert("last".into(), last.into());
        Value::Object(line)
    }

    /// While it goes on.
    fn text(&self) -> String {
        let Some(Step { phase, done, total }) = self.step else {
            return format!("working, {}", time(self.since.elapsed().as_secs_f64()));
        };
        let so_far = match total {
            Some(total) if phase.unit() == Unit::Rows => {
                format!("{} of {}", grouped(done), amount(phase, total))
            }
            Some(total) => format!("{} of {}", amount(phase, done), amount(phase, total)),
            None => amount(phase, done),
        };
        match (done, self.rate()) {
            (0, _) | (_, None) => {
                format!("{phase}, {}", time(self.since.elapsed().as_secs_f64()))
            }
            (_, Some(rate)) => {
                let left = self.left().map(|left| format!(", {} left", time(left)));
                format!("{phase}: {so_far}, {}/s{}", each(phase, rate), left.unwrap_or_default())
            }
        }
    }

    /// When it is over.
    fn log(&self) -> String {
        let took = format!("{:.1} s", self.since.elapsed().as_secs_f64());
        match (self.step, self.rate()) {
            (Some(Step { phase, done, .. }), Some(rate)) => {
                format!("{phase}: {} in {took}, {}/s", amount(phase, done), each(phase, rate))
            }
            (Some(Step { phase, .. }), None) => format!("{phase}: {took}"),
            (None, _) => format!("working: {took}"),
        }
    }
}

fn amount(phase: Phase, n: u64) -> String {
    match phase.unit() {
        Unit::Rows => count(n, "row"),
        Unit::Bytes => bytes(n),
    }
}

/// So much a second.
fn each(phase: Phase, rate: f64) -> String {
    amount(phase, rate.round() as u64)
}

fn tenths(n: f64) -> f64 {
    (n * 10.0).round() / 10.0
}

/// A time that nobody needs to know exactly.
fn time(seconds: f64) -> String {
    match seconds.ceil() as u64 {
        s @ 0..120 => format!("{s} s"),
        s @ 120..7_200 => format!("{} min", s.div_ceil(60)),
        s => format!("{} h", s.div_ceil(3_600)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn work(step: Option<Step>, seconds: u64) -> Work {
        let since = Instant::now().checked_sub(Duration::from_secs(seconds)).unwrap();
        Work { step, since, shown: None }
    }

    #[test]
    fn rows_and_bytes_are_told_with_rate_and_time_left() {
        let step = Step { phase: Phase::Merge, done: 20_000, total: Some(300_000) };
        let merge = work(Some(step), 10);
        assert_eq!(
            merge.text(),
            "merging: 20,000 of 300,000 rows, 2,000 rows/s, 141 s left".replace("141 s", "3 min")
        );
        assert_eq!(merge.log(), "merging: 20,000 rows in 10.0 s, 2,000 rows/s");
        let line = merge.json(false);
        assert_eq!(
            (&line["phase"], &line["rows"], &line["total"]),
            (&json!("merge"), &json!(20_000), &json!(300_000))
        );
        assert_eq!(
            (&line["left_s"], &line["seconds"], &line["last"]),
            (&json!(140.0), &json!(10.0), &json!(false))
        );

        let fetch =
            work(Some(Step { phase: Phase::Fetch, done: 5_000_000, total: Some(20_000_000) }), 2);
        assert_eq!(fetch.text(), "receiving: 5.0 MB of 20 MB, 2.5 MB/s, 7 s left");
        assert_eq!(fetch.json(true)["bytes"], 5_000_000);
    }

    #[test]
    fn what_says_nothing_of_itself_is_told_too() {
        assert_eq!(work(None, 2).text(), "working, 3 s");
        assert_eq!(work(None, 2).json(false)["phase"], "work");
        let step = Step { phase: Phase::Verify, done: 0, total: None };
        assert_eq!(work(Some(step), 2).text(), "verifying, 3 s");
        assert_eq!(work(Some(step), 2).json(false)["rate"], Value::Null);
    }

    #[test]
    fn a_phase_goes_on_until_another_begins() {
        let mut meter = Meter { how: How::Log, work: work(None, 0), began: None };
        let step = |phase, done| Step { phase, done, total: None };
        meter.step(step(Phase::Fetch, 1));
        let since = meter.work.since;
        meter.step(step(Phase::Fetch, 2));
        assert_eq!(meter.work.since, since);
        // Another object.
        meter.step(step(Phase::Fetch, 1));
        assert!(meter.work.since > since && meter.work.done() == 1);
    }
}
