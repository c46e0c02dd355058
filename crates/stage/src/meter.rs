//! Where the times come from by which a mode is chosen: the clock, or, for tests, a model of a program and its medium.

use std::fmt::Debug;

use crate::choice::Way;

/// What a rank finds of a step, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Lap {
    /// Between commits.
    pub(crate) computing: f64,
    pub(crate) in_commit: f64,
    /// None: whoever writes measures it.
    pub(crate) writing: Option<f64>,
}

/// Tells what steps take.
pub(crate) trait Meter: Debug + Send + Sync {
    /// Of a step that was written so, and whose `commit` waited for the medium or did not, with what the clock says of it.
    fn lap(&self, way: Way, waited: bool, clock: Lap) -> Lap;
}

/// Believes the clock.
#[derive(Debug)]
pub(crate) struct Clock;

impl Meter for Clock {
    fn lap(&self, _way: Way, _waited: bool, clock: Lap) -> Lap {
        clock
    }
}
