//! Clocks, repetitions, medians. `crates/bench/peer/peer.c` measures a case in the same way as [`samples`].

use std::hint::black_box;
use std::time::Instant;

use anyhow::Result;
use aqueduct::comm::{self, Comm, Op};
use rustix::time::{ClockId, clock_gettime};

/// The least time between two barriers: many times what ranks need to leave the first one.
const REGION: f64 = 0.02;
/// How long a case is repeated in one round.
const ROUND: f64 = 0.04;
/// An operation that takes this long is not repeated in the round.
const LONG: f64 = 0.4;
/// An operation that is expected to take longer is omitted; the comparison uses the bandwidth of the size before.
const CAP: f64 = 1.0;
/// The largest factor by which the number of operations grows while it is calibrated: the first one can be much too slow.
const MOST_GROWTH: f64 = 50.0;
/// Rounds of computation between two readings of the clock, in calibration.
const STRIDE: u64 = 1 << 16;

/// Elapsed seconds.
pub fn seconds(work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_secs_f64()
}

/// Elapsed seconds after a barrier, of the slowest rank. Collective.
pub fn slowest_rank<E: From<comm::Error>>(
    world: &Comm,
    work: impl FnOnce() -> Result<(), E>,
) -> Result<f64, E> {
    world.barrier()?;
    let start = Instant::now();
    work()?;
    Ok(world.allreduce_one(Op::Max, start.elapsed().as_secs_f64())?)
}

/// CPU seconds of this thread or of the process so far.
pub fn cpu_seconds(clock: ClockId) -> f64 {
    let time = clock_gettime(clock);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

/// CPU seconds of this thread so far.
pub fn cpu_seconds_of_thread() -> f64 {
    cpu_seconds(ClockId::ThreadCPUTime)
}

/// Computation without memory accesses.
pub fn compute(rounds: u64) -> u64 {
    (0..rounds).fold(1, |state: u64, round| black_box(state.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ round))
}

/// The number of rounds of [`compute`] that take so many seconds on this rank at its present speed.
pub fn calibrate_compute(seconds: f64) -> u64 {
    let (start, mut rounds) = (Instant::now(), 0);
    while start.elapsed().as_secs_f64() < seconds {
        black_box(compute(STRIDE));
        rounds += STRIDE;
    }
    rounds
}

/// The median; the mean of the two middle values if their number is even.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    let upper = *values.get(values.len() / 2)?;
    let is_even = values.len().is_multiple_of(2);
    Some(if is_even { f64::midpoint(values[values.len() / 2 - 1], upper) } else { upper })
}

/// The smallest value and the median; not a number if there are no values.
pub fn best_and_median(values: &[f64]) -> [f64; 2] {
    let best = values.iter().copied().min_by(f64::total_cmp);
    [best, median(values)].map(|figure| figure.unwrap_or(f64::NAN))
}

/// Measures two operations in turn. The order alternates: the second one finds warm caches.
pub fn alternate<E>(
    rounds: usize,
    mut one: impl FnMut() -> Result<f64, E>,
    mut other: impl FnMut() -> Result<f64, E>,
) -> Result<Vec<(f64, f64)>, E> {
    let round = |number: usize| {
        if number.is_multiple_of(2) {
            return Ok((one()?, other()?));
        }
        let second = other()?;
        Ok((one()?, second))
    };
    (0..rounds).map(round).collect()
}

/// The first time divided by the second, for each round.
pub fn ratios(rounds: &[(f64, f64)]) -> Vec<f64> {
    rounds.iter().map(|(one, other)| one / other).collect()
}

/// The seconds of `times` operations between two barriers, of the slowest rank.
fn region(world: &Comm, times: u64, operation: &mut dyn FnMut() -> Result<()>) -> Result<f64> {
    slowest_rank(world, || {
        (0..times).try_for_each(|_| operation())?;
        Ok(world.barrier()?)
    })
}

/// The seconds of one operation, once per region. `rewind` is called before each region and is not timed; at most `most` operations
/// fit between two calls of it.
pub fn samples(
    world: &Comm,
    most: u64,
    rewind: &dyn Fn() -> Result<()>,
    operation: &mut dyn FnMut() -> Result<()>,
) -> Result<Vec<f64>> {
    let mut times = 1;
    loop {
        rewind()?;
        let seconds = region(world, times, operation)?;
        if seconds >= LONG {
            return Ok(vec![seconds / times as f64]);
        }
        if seconds >= REGION / 2.0 || times >= most {
            break;
        }
        times = most.min(times * (REGION / seconds).ceil().min(MOST_GROWTH) as u64);
    }
    let (mut samples, mut spent) = (Vec::new(), 0.0);
    while samples.is_empty() || spent < ROUND {
        rewind()?;
        let seconds = region(world, times, operation)?;
        spent += seconds;
        samples.push(seconds / times as f64);
    }
    Ok(samples)
}

/// Finds cases that would take too long, from the smaller ones of the same family.
#[derive(Debug)]
pub struct TimeCap<F> {
    last: Option<(F, u64, f64)>,
}

impl<F: PartialEq> Default for TimeCap<F> {
    fn default() -> Self {
        Self::new()
    }
}

impl<F: PartialEq> TimeCap<F> {
    /// Nothing is known.
    pub fn new() -> Self {
        Self { last: None }
    }

    /// Whether so many bytes would take too long.
    pub fn forbids(&self, family: &F, bytes: u64) -> bool {
        self.last.as_ref().is_some_and(|(last, size, seconds)| {
            last == family && seconds * bytes as f64 / *size as f64 > CAP && bytes > *size
        })
    }

    /// Records the time of a size.
    pub fn record(&mut self, family: F, bytes: u64, seconds: f64) {
        self.last = Some((family, bytes, seconds));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_that_would_take_too_long_are_omitted() {
        let mut cap = TimeCap::new();
        assert!(!cap.forbids(&"rr", 1 << 30));
        cap.record("rr", 1000, 0.3);
        assert!(!cap.forbids(&"rr", 2000) && cap.forbids(&"rr", 4000) && !cap.forbids(&"other", 4000));
    }

    #[test]
    fn median_of_an_even_number_is_the_mean_of_the_middle() {
        assert_eq!(
            (median(&[1.0, 2.0]), median(&[3.0, 1.0, 2.0]), median(&[])),
            (Some(1.5), Some(2.0), None)
        );
        assert_eq!(best_and_median(&[3.0, 1.0, 2.0]).map(Some), [Some(1.0), Some(2.0)]);
    }

    #[test]
    fn alternating_keeps_the_sides_apart() {
        let rounds = alternate(3, || Ok::<_, ()>(2.0), || Ok(1.0)).unwrap();
        assert_eq!(ratios(&rounds), [2.0; 3]);
    }
}
