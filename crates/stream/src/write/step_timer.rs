//! Where the times come from by which a mode is chosen: the clock, or, for tests, a model of a program and its medium.

use std::fmt::Debug;

use crate::write::mode_policy::WriteMode;

/// What a rank finds of a step, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct StepTime {
    /// Between commits.
    pub(crate) computing: f64,
    pub(crate) in_commit: f64,
    /// None: whoever writes measures it.
    pub(crate) writing: Option<f64>,
}

/// Tells what steps take.
pub(crate) trait StepTimer: Debug + Send + Sync {
    /// Of a step that was written so, and whose `commit` waited for the medium or did not, with what the clock says of it.
    fn step_time(&self, way: WriteMode, waited: bool, clock: StepTime) -> StepTime;
}

/// Believes the clock.
#[derive(Debug)]
pub(crate) struct WallClockTimer;

impl StepTimer for WallClockTimer {
    fn step_time(&self, _way: WriteMode, _waited: bool, clock: StepTime) -> StepTime {
        clock
    }
}
