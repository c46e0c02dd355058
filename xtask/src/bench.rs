//! Benchmarks, each printed as ratios from one run.

pub(crate) mod comparison;
pub(crate) mod formats;
pub(crate) mod programs;

use anyhow::Result;

use crate::shell::{cargo, run};

/// What the lowest layers cost.
pub(crate) fn foundations() -> Result<()> {
    run(&mut cargo(&["bench", "--package", "aqueduct", "--bench", "foundations"]))
}

/// What objects cost beside the raw engine.
pub(crate) fn objects(words: &[&str]) -> Result<()> {
    run(cargo(&["bench", "--package", "aqueduct", "--bench", "objects", "--"]).args(words))
}
