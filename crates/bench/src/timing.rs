//! How a cell is timed. `peer/peer.c` does the same.

use std::time::Instant;

use anyhow::Result;
use aqueduct::comm::{Comm, Op};

/// The least time between two barriers: many times what ranks need to leave the first one.
const REGION: f64 = 0.02;
/// How long a cell is repeated in one round.
const ROUND: f64 = 0.04;
/// An operation that takes this long is not repeated in the round.
const LONG: f64 = 0.4;
/// An operation that is expected to take longer is left out: the driver takes the rate of the size before.
const CAP: f64 = 1.0;
/// How much longer the next try is, at most, while the number of operations is sought: a first one can be much too slow.
const MOST_GROWTH: f64 = 50.0;

/// The seconds of `times` operations between two barriers, of the slowest rank.
pub(crate) fn region(world: &Comm, times: u64, operation: &mut dyn FnMut() -> Result<()>) -> Result<f64> {
    world.barrier()?;
    let start = Instant::now();
    for _ in 0..times {
        operation()?;
    }
    world.barrier()?;
    Ok(world.allreduce_one(Op::Max, start.elapsed().as_secs_f64())?)
}

/// The seconds of one operation, once per region. `rewind` goes before each region, outside the clock; at most `most` operations
/// fit between two of them.
pub(crate) fn samples(
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

/// Tells which cells would take too long, from the smaller ones of the same family.
pub(crate) struct TimeCap<F> {
    last: Option<(F, u64, f64)>,
}

impl<F: PartialEq> TimeCap<F> {
    pub(crate) fn new() -> Self {
        Self { last: None }
    }

    /// Whether so many bytes would take too long.
    pub(crate) fn forbids(&self, family: &F, bytes: u64) -> bool {
        self.last.as_ref().is_some_and(|(last, size, seconds)| {
            last == family && seconds * bytes as f64 / *size as f64 > CAP && bytes > *size
        })
    }

    /// Remembers what a size took.
    pub(crate) fn record(&mut self, family: F, bytes: u64, seconds: f64) {
        self.last = Some((family, bytes, seconds));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_take_too_long_is_left_out() {
        let mut cap = TimeCap::new();
        assert!(!cap.forbids(&"rr", 1 << 30));
        cap.record("rr", 1000, 0.3);
        assert!(!cap.forbids(&"rr", 2000) && cap.forbids(&"rr", 4000) && !cap.forbids(&"other", 4000));
    }
}
