//! Statistics for noisy machines.
//!
//! Engines take turns in every round, so what disturbs one disturbs its neighbours, and a ratio is
//! formed within each round before anything is averaged. The median of the ratios is the result;
//! its interval is a percentile bootstrap over the rounds.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};
use statrs::statistics::{Data, OrderStatistics};

/// Resamplings of a bootstrap.
const RESAMPLES: usize = 2000;
/// Fewest pairs from which anything is concluded.
const FEWEST: usize = 5;
/// Widest interval, relative to its median, from which anything is concluded.
const WIDEST: f64 = 0.25;

/// What several measurements of one thing say.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Measurements.
    pub n: usize,
    /// A quarter is below.
    pub lower: f64,
    /// Half is below.
    pub median: f64,
    /// Three quarters are below.
    pub upper: f64,
    /// 95 % interval of the median.
    pub interval: (f64, f64),
}

impl Summary {
    /// Summarizes; `None` for nothing.
    pub fn of(values: &[f64]) -> Option<Summary> {
        if values.is_empty() || values.iter().any(|v| !v.is_finite()) {
            return None;
        }
        // Resampling is seeded: the same results print the same table.
        let mut random = ChaCha8Rng::seed_from_u64(0);
        let mut resample = || {
            let draw = |_| values[random.random_range(0..values.len())];
            Data::new(values.iter().map(draw).collect::<Vec<f64>>()).median()
        };
        let mut medians = Data::new((0..RESAMPLES).map(|_| resample()).collect::<Vec<f64>>());
        let mut data = Data::new(values.to_vec());
        Some(Summary {
            n: values.len(),
            lower: data.lower_quartile(),
            median: data.median(),
            upper: data.upper_quartile(),
            interval: (medians.quantile(0.025), medians.quantile(0.975)),
        })
    }

    /// Summarizes `ours / theirs`, pair by pair.
    pub fn of_ratios(ours: &[f64], theirs: &[f64]) -> Option<Summary> {
        let ratios: Vec<f64> = ours.iter().zip(theirs).map(|(a, b)| a / b).collect();
        Summary::of(&ratios)
    }

    /// Whether the rounds are too few or disagree too much to conclude anything.
    pub fn is_vague(&self) -> bool {
        self.n < FEWEST || (self.interval.1 - self.interval.0) > WIDEST * self.median.abs()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_of_steady_values_is_sharp() {
        let s = Summary::of(&[1.0, 1.01, 0.99, 1.0, 1.02, 0.98, 1.0]).unwrap();
        assert_eq!((s.n, s.median), (7, 1.0));
        assert!(s.lower <= s.median && s.median <= s.upper);
        assert!(s.interval.0 >= 0.98 && s.interval.1 <= 1.02 && !s.is_vague());
    }

    #[test]
    fn few_or_scattered_values_are_vague() {
        assert!(Summary::of(&[1.0, 1.0]).unwrap().is_vague());
        assert!(Summary::of(&[1.0, 2.0, 3.0, 1.5, 0.5, 4.0]).unwrap().is_vague());
        assert!(Summary::of(&[]).is_none());
        assert!(Summary::of(&[1.0, f64::NAN]).is_none());
    }

    #[test]
    fn ratios_are_formed_pair_by_pair() {
        // A machine that is twice as slow in the second round changes no ratio.
        let s = Summary::of_ratios(&[2.0, 4.0, 2.0], &[1.0, 2.0, 1.0]).unwrap();
        assert_eq!((s.lower, s.median, s.upper), (2.0, 2.0, 2.0));
    }
}
