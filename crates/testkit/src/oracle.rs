//! The byte oracle: random operations against a device and against a plain vector, compared after each of them.
//!
//! Operations may be short and may fail, as with the `fault` wrapper. After a write that failed, the oracle looks: the bytes
//! counted as transferred must be there, the others of the list may be old or new, and nothing else may differ; then it goes on from what it found.

mod device_operation;
mod model_test;

use std::ffi::OsStr;

use aqueduct_device::{DeviceOpenOptions, SyncScope};
use proptest::strategy::Strategy;
use proptest::test_runner::{Config, RngAlgorithm, RngSeed, TestCaseError, TestError, TestRunner};

pub(crate) use device_operation::write;
pub use device_operation::{DeviceOperation, Extents, operation_sequences};

use crate::device::DeviceUnderTest;

/// Runs random operations on new files of the subject; panics with the shortest failing sequence and its seed.
///
/// The seed is random, or that of `AQUEDUCT_SEED`.
pub fn check(subject: &DeviceUnderTest, cases: u32) {
    run(subject.title(), cases, operation_sequences(1..40), |steps| {
        let name = subject.fresh();
        let outcome = replay(subject, &name, steps);
        // A device that fails at random may keep it: it costs a file, not the test.
        let _ = subject.device().delete(&name);
        outcome
    });
}

/// Runs the steps on a new file; an error names the failed step.
pub fn replay(subject: &DeviceUnderTest, name: &OsStr, steps: &[DeviceOperation]) -> Result<(), String> {
    let mut play = model_test::ModelTest::begin(subject, name)?;
    for (index, step) in steps.iter().enumerate() {
        play.step(step).map_err(|problem| format!("step {index}, {step:?}: {problem}"))?;
    }
    Ok(())
}

/// Tests a property of random values with a seed that is shown when it does not hold.
pub(crate) fn run<S: Strategy>(
    title: &str,
    cases: u32,
    values: S,
    property: impl Fn(&S::Value) -> Result<(), String>,
) {
    let seed = seed();
    let config = Config {
        cases,
        failure_persistence: None,
        max_shrink_iters: 2000,
        rng_algorithm: RngAlgorithm::ChaCha,
        rng_seed: RngSeed::Fixed(seed),
        ..Config::default()
    };
    let outcome = TestRunner::new(config).run(&values, |value| property(&value).map_err(TestCaseError::fail));
    match outcome {
        Ok(()) => {}
        Err(TestError::Fail(reason, value)) => {
            panic!("{title}: {reason}\nshortest: {value:?}\nrepeat with AQUEDUCT_SEED={seed}")
        }
        Err(TestError::Abort(reason)) => panic!("{title}: {reason}\nrepeat with AQUEDUCT_SEED={seed}"),
    }
}

fn seed() -> u64 {
    match std::env::var("AQUEDUCT_SEED") {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("AQUEDUCT_SEED={text} is not a number")),
        Err(_) => std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), 0),
    }
}

/// The options of the tested file.
fn options(create: bool) -> DeviceOpenOptions {
    DeviceOpenOptions::read_write().create(create)
}

/// The scope of a sync, as a strategy chooses it.
fn scope(entry: bool) -> SyncScope {
    if entry { SyncScope::Entry } else { SyncScope::Data }
}
