//! Files with datasets: ours against `PnetCDF` and parallel HDF5, and these libraries on the interposition library.

pub(crate) mod dataset_program;
pub(crate) mod formats;
#[cfg(feature = "hdf5")]
pub(crate) mod hdf5;
#[cfg(feature = "hdf5")]
pub(crate) mod hdf5_program;
pub(crate) mod programs;
pub(crate) mod python;

use std::process::Command;

use anyhow::{Result, ensure};

/// The seconds of each file that a job wrote; an error unless the job has read the same values back.
fn file_times(job: &mut Command) -> Result<Vec<f64>> {
    let output = job.output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let verified = output.status.success() && text.lines().any(|line| line == "verified");
    ensure!(verified, "{}: {}", output.status, String::from_utf8_lossy(&output.stderr));
    Ok(text.lines().filter_map(|line| line.strip_prefix("seconds ")?.parse().ok()).collect())
}

/// Names and times of the candidates, best and median.
fn format_times<'a>(figures: impl IntoIterator<Item = (&'a str, [f64; 2])>) -> String {
    let shown = figures.into_iter().map(|(name, [best, median])| format!("{name} {best:.4} {median:.4}"));
    shown.collect::<Vec<_>>().join(", ")
}
