use super::*;
use crate::clock::Hlc;
use crate::ids::Id;
use crate::strategies::{count, counter, value};
use proptest::prelude::*;

fn at(hlc: i64, site: u8) -> Stamp {
    Stamp { hlc: Hlc(hlc), site: Id([site; 16]) }
}

fn finite() -> impl Strategy<Value = f64> {
    any::<u64>().prop_map(f64::from_bits).prop_filter("a number", |r| r.is_finite())
}

fn exactly(r: f64) -> Number {
    Number::from_words(&double(r))
}

/// What sites do to a counter.
#[derive(Clone, Debug)]
enum Step {
    Add(u8, i64),
    Set(u8, Value),
    Pull(u8, u8),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0..3_u8, -9..9_i64).prop_map(|(site, n)| Step::Add(site, n)),
        2 => (0..3_u8, 0..3_u8).prop_map(|(to, from)| Step::Pull(to, from)),
        1 => (0..3_u8, value()).prop_map(|(site, value)| Step::Set(site, value)),
    ];
    proptest::collection::vec(step, 0..40)
}

/// Runs a history on three sites that share one counter; returns their states.
fn run(steps: &[Step], real: bool) -> Result<Vec<Counter>, TestCaseError> {
    let base = if real { Value::Real(10.0) } else { Value::Integer(10) };
    let mut sites = vec![Counter { stamp: at(1, 9), base, counts: vec![] }; 3];
    for (step, clock) in steps.iter().zip(2..) {
        let (site, value) = match step {
            Step::Pull(to, from) => {
                let from = sites[*from as usize].clone();
                sites[*to as usize].join(&from);
                continue;
            }
            Step::Set(site, value) => (*site, value.clone()),
            Step::Add(site, n) => match sites[*site as usize].shown(real) {
                Value::Integer(i) => (*site, Value::Integer(i.wrapping_add(*n))),
                Value::Real(r) => (*site, Value::Real(r + *n as f64)),
                _ => continue,
            },
        };
        let counter = &mut sites[site as usize];
        counter.write(&value, at(clock, site + 1), real);
        prop_assert_eq!(counter.shown(real), value, "a write is not shown");
    }
    Ok(sites)
}

proptest! {
    #[test]
    fn counters_form_a_semilattice(a in counter(), b in counter(), c in counter()) {
        let join = |a: &Counter, b: &Counter| {
            let mut joined = a.clone();
            joined.join(b);
            joined
        };
        prop_assert_eq!(join(&a, &b), join(&b, &a));
        prop_assert_eq!(join(&join(&a, &b), &c), join(&a, &join(&b, &c)));
        prop_assert_eq!(join(&a, &a), a.clone());
        prop_assert!(join(&a, &b).counts.is_sorted_by(|a, b| a.stamp.site < b.stamp.site));
    }

    #[test]
    fn a_write_only_moves_up_and_is_shown(a in counter(), value in value(), real: bool) {
        let (mut written, late) = (a.clone(), at(i64::MAX, 2));
        written.write(&value, late, real);
        prop_assert_eq!(written.shown(real), value.clone());
        let mut joined = written.clone();
        joined.join(&a);
        prop_assert_eq!(&joined, &written);
        let mut anew = a.clone();
        anew.reinsert(&value, late, real);
        prop_assert_eq!(anew.shown(real), value.clone());
        prop_assert_eq!(Counter::born(&value, late, real).shown(real), value);
    }

    #[test]
    fn whatever_sites_write_is_shown_there_and_they_converge(steps in steps(), real: bool) {
        let sites = run(&steps, real)?;
        let mut all = sites[0].clone();
        all.join(&sites[1]);
        all.join(&sites[2]);
        let mut back = sites[2].clone();
        back.join(&sites[1]);
        back.join(&sites[0]);
        prop_assert_eq!(&all, &back);
        prop_assert_eq!(all.shown(real), back.shown(real));
    }

    #[test]
    fn increments_of_all_sites_add_up(steps in steps(), real: bool) {
        let steps: Vec<Step> =
            steps.into_iter().filter(|s| !matches!(s, Step::Set(..))).collect();
        let mut all = run(&steps, real)?;
        let mut joined = all.remove(0);
        all.iter().for_each(|other| joined.join(other));
        let added: i64 = steps.iter().map(|s| if let Step::Add(_, n) = s { *n } else { 0 }).sum();
        let want = 10 + added;
        let want = if real { Value::Real(want as f64) } else { Value::Integer(want) };
        prop_assert_eq!(joined.shown(real), want);
    }

    #[test]
    fn numbers_are_exact_in_any_order(a in finite(), b in finite(), c: i64) {
        let (a, b, c) = (exactly(a), exactly(b), Number::from_words(&integer(c)));
        prop_assert_eq!(a.plus(&b).plus(&c), c.plus(&b).plus(&a));
        prop_assert_eq!(a.plus(&b).minus(&b), a.clone());
        prop_assert_eq!(a.minus(&a), Number::default());
        let (shift, digits) = a.parts();
        prop_assert_eq!(Number::from_parts(shift, digits), Some(a.clone()));
    }

    #[test]
    fn doubles_and_integers_survive(r in finite(), i: i64) {
        let back = exactly(r).to_value(true);
        prop_assert!(matches!(back, Value::Real(b) if b == r), "{back:?}");
        let number = Number::from_words(&integer(i));
        prop_assert_eq!(number.to_value(false), Value::Integer(i));
        prop_assert_eq!(number.to_value(true), Value::Real(i as f64));
    }

    #[test]
    fn a_sum_of_two_doubles_is_rounded_as_ieee_does(a in finite(), b in finite()) {
        let sum = exactly(a).plus(&exactly(b)).to_value(true);
        prop_assert!(matches!(sum, Value::Real(r) if r == a + b), "{sum:?}, not {}", a + b);
    }

    #[test]
    fn a_later_count_of_a_site_replaces_the_earlier(a in count(), b in count()) {
        let mut counts = vec![a.clone()];
        let news = join_count(&mut counts, &b);
        let newer = a.stamp.site == b.stamp.site && b.stamp > a.stamp;
        prop_assert_eq!(news, newer || a.stamp.site != b.stamp.site);
        prop_assert_eq!(counts.len(), 1 + usize::from(a.stamp.site != b.stamp.site));
    }
}

#[test]
fn sums_that_doubles_cannot_hold_are_exact() {
    let mut all = Counter::born(&Value::Real(1e16), at(1, 1), true);
    let mut other = all.clone();
    other.write(&Value::Real(1e16 + 2.0), at(2, 2), true);
    all.write(&Value::Real(0.1), at(2, 1), true);
    assert_eq!(all.shown(true), Value::Real(0.1));
    all.join(&other);
    assert_eq!(all.shown(true), Value::Real(2.1));
}

#[test]
fn integers_beyond_64_bits_are_shown_as_doubles_and_come_back() {
    let mut a = Counter::born(&Value::Integer(i64::MAX), at(1, 1), false);
    let mut b = a.clone();
    a.write(&Value::Integer(i64::MAX - 1), at(2, 1), false);
    b.write(&Value::Integer(0), at(2, 2), false);
    b.write(&Value::Integer(i64::MAX), at(3, 2), false);
    let mut c = Counter::born(&Value::Integer(7), at(1, 3), false);
    c.join(&a);
    c.join(&b);
    assert_eq!(c.shown(false), Value::Real(9_223_372_036_854_775_808.0));
    c.write(&Value::Integer(5), at(4, 3), false);
    assert_eq!(c.shown(false), Value::Integer(5));
}

#[test]
fn what_is_no_number_is_written_as_to_any_column() {
    let (null, five) = (Value::Null, Value::Integer(5));
    let mut a = Counter { stamp: at(1, 1), base: Value::Integer(3), counts: vec![] };
    let mut b = a.clone();
    a.write(&null, at(2, 1), false);
    b.write(&five, at(3, 2), false);
    a.join(&b);
    assert_eq!(a.shown(false), null, "the increment had not seen that counting ended");
    b.join(&a);
    a.write(&Value::Integer(1), at(4, 1), false);
    b.write(&five, at(4, 2), false);
    a.join(&b);
    assert_eq!(a.shown(false), Value::Integer(6));
    a.write(&Value::from("many"), at(5, 1), false);
    assert_eq!(a.shown(false), Value::from("many"));
    a.write(&five, at(6, 1), false);
    assert_eq!(a.shown(false), five);
    // SQLite would store this double in an INTEGER column, and the integer beside it as well.
    let odd = Value::Real(9_223_372_036_854_774_784.0);
    assert_eq!(Number::of(&odd, false), None);
    assert!(Number::of(&odd, true).is_some());
}

#[test]
fn only_the_one_form_of_a_number_is_read() {
    assert_eq!(Number::from_parts(0, &[5]), Number::of(&Value::Integer(5), false));
    assert_eq!(Number::from_parts(0, &[]), Some(Number::default()));
    for (shift, digits) in [(0, &[5, 0][..]), (0, &[0, 5]), (1, &[]), (-137, &[1]), (144, &[1])] {
        assert_eq!(Number::from_parts(shift, digits), None, "{shift} {digits:?}");
    }
    assert_eq!(Number::from_parts(i64::MAX, &[1]), None);
}
