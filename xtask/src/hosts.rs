//! Tests of jobs on several hosts: network namespaces of this machine, joined by TCP.

use anyhow::Result;

use crate::packages;
use crate::shell::{cargo, run};

/// Tests of jobs that run on two hosts with `AQUEDUCT_TEST_HOSTS=2`: package, test, and words that select cases. The suite of files is run with
/// and without faults; buffered files promise its order of accesses on one node only.
const JOBS: &[(&str, &str, &[&str])] = &[(
    "aqueduct-testkit",
    "mpi",
    &["openmpi::faults_between_nodes", "mpich::faults_between_nodes", "openmpi::ends", "mpich::ends"],
)];

/// Runs all tests of hosts: the suites, messages, a lost host, a server of remote memory on another host; then the jobs of other tests on hosts.
pub(crate) fn run_all() -> Result<()> {
    if let Err(error) = packages::install() {
        eprintln!("{error:#}; tests that need them are skipped");
    }
    for package in ["aqueduct-testkit", "aqueduct-mpiio"] {
        let mut command = cargo(&["test", "--package", package, "--all-features", "--test", "hosts"]);
        command.args(["--", "--nocapture", "--test-threads", "1"]);
        run(command.env("AQUEDUCT_LONG_TESTS", "1"))?;
    }
    for (package, test, words) in JOBS {
        let mut command = cargo(&["test", "--package", package, "--all-features", "--test", test, "--"]);
        command.args(*words).args(["--test-threads", "1"]).env("AQUEDUCT_TEST_HOSTS", "2");
        run(&mut command)?;
    }
    Ok(())
}
