//! Counters: columns whose concurrent changes add up (R-COUNTER).
//!
//! A counter is a register, its *base*, and for each site that changed it one [`Count`]: the exact
//! sum of that site's changes. It shows base plus counts. Only the site itself writes its count, so
//! of two the later contains the earlier, and joining takes the later for each site.
//!
//! Sums are exact numbers and rounded once, when shown: they do not depend on the order of addition,
//! and after a write the counter shows the very value that was written, on every site.

use crate::clock::Stamp;
use crate::value::Value;

/// What one site added to a counter.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Count {
    /// When the site last changed the counter.
    pub stamp: Stamp,
    /// How often counting had begun anew: by a re-insert of the row or a value that is no number.
    /// Counts of an earlier epoch than the latest are not shown, nor is the base then.
    pub epoch: u64,
    /// Sum of the site's changes in this epoch.
    pub sum: Number,
}

/// State of one counter.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Counter {
    /// Stamp of the base; zero without one.
    pub stamp: Stamp,
    /// What was written while the column was no counter, or the latest value that is no number.
    pub base: Value,
    /// In ascending order of site, one of each.
    pub counts: Vec<Count>,
}

/// Joins a count into others, which are in ascending order of site. Returns whether it was news.
pub fn join_count(counts: &mut Vec<Count>, count: &Count) -> bool {
    let found = counts.binary_search_by_key(&count.stamp.site, |c| c.stamp.site);
    match found.map(|at| counts.get_mut(at)) {
        Ok(Some(known)) if known.stamp < count.stamp => *known = count.clone(),
        Ok(_) => return false,
        Err(at) => counts.insert(at, count.clone()),
    }
    true
}

impl Counter {
    /// A row inserted with `value`: an increment from zero, so that inserts of two sites add up.
    pub fn born(value: &Value, stamp: Stamp, real: bool) -> Counter {
        match Number::of(value, real) {
            Some(sum) => {
                let count = Count { stamp, epoch: 0, sum };
                Counter { stamp: Stamp::ZERO, base: Value::Null, counts: vec![count] }
            }
            None => Counter { stamp, base: value.clone(), counts: vec![] },
        }
    }

    /// Least upper bound of two states.
    pub fn join(&mut self, other: &Counter) {
        if other.stamp > self.stamp {
            (self.stamp, self.base) = (other.stamp, other.base.clone());
        }
        for count in &other.counts {
            join_count(&mut self.counts, count);
        }
    }

    /// What it shows; `real` if the column has REAL affinity.
    ///
    /// A base that is no number (NULL, text, an infinity) is shown until a count is later than it.
    pub fn shown(&self, real: bool) -> Value {
        let epoch = self.epoch();
        let current = self.counts.iter().filter(|c| c.epoch == epoch);
        match current.map(|c| c.stamp).max() {
            None => self.base.clone(),
            Some(latest) if self.stamp >= latest && self.base_of(epoch, real).is_none() => {
                self.base.clone()
            }
            Some(_) => self.total().to_value(real),
        }
    }

    /// Records that `value` was written over what is shown: the difference is the site's change.
    pub fn write(&mut self, value: &Value, stamp: Stamp, real: bool) {
        match Number::of(value, real) {
            Some(written) => {
                let epoch = self.epoch();
                let mut sum = written.minus(&self.total());
                let own = self.counts.iter().find(|c| c.stamp.site == stamp.site);
                if let Some(own) = own.filter(|c| c.epoch == epoch) {
                    sum = sum.plus(&own.sum);
                }
                join_count(&mut self.counts, &Count { stamp, epoch, sum });
            }
            None => self.replace(value, stamp),
        }
    }

    /// Records that the row was inserted anew with `value`: counting begins anew.
    pub fn reinsert(&mut self, value: &Value, stamp: Stamp, real: bool) {
        match Number::of(value, real) {
            Some(sum) => {
                let epoch = self.epoch().saturating_add(1);
                join_count(&mut self.counts, &Count { stamp, epoch, sum });
            }
            None => self.replace(value, stamp),
        }
    }

    /// A value that is no number is written as to any other column, and ends what was counted:
    /// changes that had not seen it go with it.
    fn replace(&mut self, value: &Value, stamp: Stamp) {
        let epoch = self.epoch().saturating_add(1);
        join_count(&mut self.counts, &Count { stamp, epoch, sum: Number::default() });
        (self.stamp, self.base) = (stamp, value.clone());
    }

    fn epoch(&self) -> u64 {
        self.counts.iter().map(|c| c.epoch).max().unwrap_or(0)
    }

    /// The number that the base is, if it is one. One from before anything counted may be from before its column
    /// had its type, too; one that ended what was counted was none that the column shows as such.
    fn base_of(&self, epoch: u64, real: bool) -> Option<Number> {
        if epoch == 0 { Number::any(&self.base) } else { Number::of(&self.base, real) }
    }

    fn total(&self) -> Number {
        let epoch = self.epoch();
        let base = if epoch == 0 { Number::any(&self.base) } else { None };
        let current = self.counts.iter().filter(|c| c.epoch == epoch);
        current.fold(base.unwrap_or_default(), |total, count| total.plus(&count.sum))
    }
}

/// A sum of integers and doubles, exactly: `digits` as a little-endian two's complement integer,
/// times 256 to the power of `shift`. Every number has one form: no byte can be left out.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Number {
    shift: i16,
    digits: Vec<u8>,
}

/// Words of a number while it is computed with, least significant first. All doubles and their sums
/// fit; what made-up digits exceed wraps around, alike in every order of addition.
const WORDS: usize = 35;
/// The word that counts ones. Those below it hold more than the 1074 bits after a double's point.
const ONES: usize = 17;
const LOWEST: i64 = -(ONES as i64) * 8;
const HIGHEST: i64 = (WORDS - ONES) as i64 * 8;

type Words = [u64; WORDS];

impl Number {
    /// The number that a column shows as `value`: an integer, or a finite double if the column would
    /// store its exact value as just this. `None` for anything else.
    pub fn of(value: &Value, real: bool) -> Option<Number> {
        Number::any(value).filter(|number| number.to_value(real) == *value)
    }

    /// The number that a value is, whatever its column would store.
    fn any(value: &Value) -> Option<Number> {
        match value {
            Value::Integer(i) => Some(Number::from_words(&integer(*i))),
            Value::Real(r) if r.is_finite() => Some(Number::from_words(&double(*r))),
            _ => None,
        }
    }

    /// The nearest value that a column of REAL affinity (`real`), else of INTEGER or NUMERIC
    /// affinity, stores. Integers beyond 64 bits become doubles, as in SQLite's own sums.
    pub fn to_value(&self, real: bool) -> Value {
        /// Beyond it SQLite leaves integral doubles what they are.
        const LARGEST: f64 = 9_223_372_036_854_774_784.0;
        let words = self.words();
        let (ones, sign) = (words[ONES] as i64, if is_negative(&words) { u64::MAX } else { 0 });
        let whole = words[..ONES].iter().all(|&w| w == 0);
        let fits = words[ONES + 1..].iter().all(|&w| w == sign) && (ones < 0) == (sign != 0);
        if !real && whole && fits {
            return Value::Integer(ones);
        }
        let nearest = nearest(&words);
        if !real && nearest.fract() == 0.0 && nearest.abs() < LARGEST {
            return Value::Integer(nearest as i64);
        }
        Value::Real(nearest)
    }

    /// Sum.
    pub fn plus(&self, other: &Number) -> Number {
        Number::from_words(&add(self.words(), &other.words()))
    }

    /// Difference.
    pub fn minus(&self, other: &Number) -> Number {
        Number::from_words(&add(self.words(), &negative(other.words())))
    }

    /// The power of 256, and the digits.
    pub fn parts(&self) -> (i64, &[u8]) {
        (i64::from(self.shift), &self.digits)
    }

    /// The number with these parts; `None` if they are not its one form, or out of range.
    pub fn from_parts(shift: i64, digits: &[u8]) -> Option<Number> {
        let len = i64::try_from(digits.len()).ok()?;
        if shift < LOWEST || shift.checked_add(len)? > HIGHEST {
            return None;
        }
        let number = Number { shift: i16::try_from(shift).ok()?, digits: digits.to_vec() };
        (Number::from_words(&number.words()) == number).then_some(number)
    }

    fn words(&self) -> Words {
        let negative = self.digits.last().is_some_and(|&top| top >= 0x80);
        let start = (i64::from(self.shift) - LOWEST) as usize;
        let byte = |at: usize| match at.checked_sub(start) {
            None => 0,
            Some(i) => self.digits.get(i).copied().unwrap_or(if negative { 0xff } else { 0 }),
        };
        std::array::from_fn(|w| u64::from_le_bytes(std::array::from_fn(|b| byte(w * 8 + b))))
    }

    fn from_words(words: &Words) -> Number {
        let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        let Some(start) = bytes.iter().position(|&b| b != 0) else { return Number::default() };
        let mut digits = bytes.get(start..).unwrap_or_default();
        while let [rest @ .., top] = digits
            && let Some(below) = rest.last()
            && matches!((top, below >> 7), (0, 0) | (0xff, 1))
        {
            digits = rest;
        }
        Number { shift: (start as i64 + LOWEST) as i16, digits: digits.to_vec() }
    }
}

fn is_negative(words: &Words) -> bool {
    words[WORDS - 1] >> 63 == 1
}

fn add(mut a: Words, b: &Words) -> Words {
    let mut carry = false;
    for (a, b) in a.iter_mut().zip(b) {
        let (sum, over) = a.overflowing_add(*b);
        let (sum, again) = sum.overflowing_add(u64::from(carry));
        (*a, carry) = (sum, over || again);
    }
    a
}

fn negative(words: Words) -> Words {
    let mut one = [0; WORDS];
    one[0] = 1;
    add(words.map(|w| !w), &one)
}

fn integer(i: i64) -> Words {
    let mut words = [0; WORDS];
    words[ONES..].fill(if i < 0 { u64::MAX } else { 0 });
    words[ONES] = i as u64;
    words
}

fn double(r: f64) -> Words {
    let (exponent, fraction) = (r.to_bits() >> 52 & 0x7ff, r.to_bits() & ((1 << 52) - 1));
    let mantissa = if exponent == 0 { fraction } else { fraction | 1 << 52 };
    // The lowest bit of the mantissa counts 2 to the power of max(exponent, 1) - 1075.
    let at = exponent.max(1) as usize + ONES * 64 - 1075;
    let spread = u128::from(mantissa) << (at % 64);
    let mut words = [0; WORDS];
    let parts = [spread as u64, (spread >> 64) as u64];
    words.iter_mut().skip(at / 64).zip(parts).for_each(|(word, part)| *word = part);
    if r < 0.0 { negative(words) } else { words }
}

/// The nearest double, of two equally near ones the even; an infinity beyond all doubles.
fn nearest(words: &Words) -> f64 {
    let minus = is_negative(words);
    let words = if minus { negative(*words) } else { *words };
    let bit = |at: usize| words.get(at / 64).map_or(0, |word| word >> (at % 64) & 1);
    let Some(top) = (0..WORDS * 64).rev().find(|&at| bit(at) == 1) else { return 0.0 };
    let smallest = ONES * 64 - 1074;
    let low = top.saturating_sub(52).max(smallest);
    let mut mantissa = (low..=top.max(low)).rev().fold(0, |m, at| m << 1 | bit(at));
    let beyond_half = (0..low - 1).any(|at| bit(at) == 1);
    if bit(low - 1) == 1 && (beyond_half || mantissa & 1 == 1) {
        mantissa += 1;
    }
    let power = low as i64 - ONES as i64 * 64;
    let unit = match power {
        ..-1022 => f64::from_bits(1 << (power + 1074)),
        -1022..=1023 => f64::from_bits(((power + 1023) as u64) << 52),
        _ => f64::INFINITY,
    };
    let size = mantissa as f64 * unit;
    if minus { -size } else { size }
}

#[cfg(test)]
mod tests;
