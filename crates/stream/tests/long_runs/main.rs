//! Outputs of long runs: a known number of steps, names of the program, points in the order of a list, restarts.

mod fixed_steps;
mod follow;
mod jobs;
mod points;
mod program;
mod resume;
mod spill;

#[test]
fn a_job() {
    jobs::run();
}
