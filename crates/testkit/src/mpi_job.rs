//! Tests that start themselves under `mpirun`: each rank of the job runs the one test `a_job` of the same binary.
//!
//! ```no_run
//! use aqueduct_testkit::mpi_job::MpiJob;
//!
//! // env!("CARGO_TARGET_TMPDIR") in an integration test.
//! const JOB: MpiJob = MpiJob::new("target/tmp");
//!
//! #[test]
//! fn a_job() {
//!     JOB.run(|world, folder| world.barrier());
//! }
//!
//! #[test]
//! fn openmpi() {
//!     let Some(launcher) = JOB.launcher("openmpi") else { return };
//!     let (folder, output) = JOB.launch(&launcher, 3, &[]);
//! }
//! ```

use std::path::Path;

use aqueduct_comm::Comm;
use tempfile::TempDir;

use crate::launcher::TestLauncher;

/// The variable that gives a job the folder of its files.
pub const FOLDER: &str = "AQUEDUCT_TEST_JOB_FOLDER";

/// The arguments that make a test binary run its test `a_job` only, and print what it prints.
pub const ARGUMENTS: [&str; 3] = ["--exact", "a_job", "--nocapture"];

/// The job of a test binary.
#[derive(Clone, Copy, Debug)]
pub struct MpiJob {
    temporary: &'static str,
}

impl MpiJob {
    /// With folders for files below this one.
    pub const fn new(temporary: &'static str) -> Self {
        Self { temporary }
    }

    /// A new folder for files.
    pub fn folder(&self) -> TempDir {
        tempfile::tempdir_in(self.temporary).expect("a folder for the job")
    }

    /// The body of the test `a_job`. Started by a launcher, this process is one rank of the job. Started by hand, all ranks are
    /// threads, and their folder is returned.
    pub fn run<E>(&self, job: impl Fn(&Comm, &str) -> Result<(), E> + Sync) -> Option<TempDir>
    where
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let given = std::env::var(FOLDER).ok();
        let own = given.is_none().then(|| self.folder());
        let own_name = own.as_ref().map(|folder| path(folder).to_owned());
        let name = given.or(own_name).unwrap_or_default();
        aqueduct_comm::run(|world: &Comm| job(world, &name)).expect("the job succeeds");
        own
    }

    /// The launcher of this name for this test binary; none where it is missing, as [`TestLauncher::find`] has it.
    pub fn launcher(&self, name: &str) -> Option<TestLauncher> {
        TestLauncher::find(name, &std::env::current_exe().expect("the path of the test"))
    }

    /// Runs the job on so many ranks, with more variables. It has to succeed. Returns its folder and what it printed.
    pub fn launch(
        &self,
        launcher: &TestLauncher,
        ranks: usize,
        variables: &[(&str, &str)],
    ) -> (TempDir, String) {
        let folder = self.folder();
        let variables = [&[(FOLDER, path(&folder))], variables].concat();
        let output = launcher.succeeds(ranks, &ARGUMENTS, &variables);
        (folder, output)
    }

    /// Runs the job on so many ranks of the launcher of this name, if there is one, and checks the files that it leaves.
    pub fn check_under(&self, name: &str, ranks: usize, check: impl Fn(&Path)) {
        let Some(launcher) = self.launcher(name) else { return };
        let (folder, _) = self.launch(&launcher, ranks, &[]);
        check(folder.path());
    }
}

/// The path of a folder as text.
pub fn path(folder: &TempDir) -> &str {
    folder.path().to_str().expect("the build has a path in UTF-8")
}
