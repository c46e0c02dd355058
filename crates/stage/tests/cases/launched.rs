//! Jobs under real launchers. The program that is started is the test's own: each rank runs its one test `a_job`.

use std::path::{Path, PathBuf};

use aqueduct_comm::Comm;
use aqueduct_stage::Error;
use aqueduct_testkit::launcher::Launcher;

/// Where a job that was launched has its files.
const FOLDER: &str = "AQUEDUCT_TEST_STREAMS";

fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

/// Started by a launcher: one rank of the job. Started by hand: all of them, as threads, and what they left in their folder is judged.
pub(crate) fn a_job(job: impl Fn(&Comm, &str) -> Result<(), Error> + Send + Sync, judge: impl Fn(&Path)) {
    let (own, given) = (folder(), std::env::var_os(FOLDER).map(PathBuf::from));
    let path = given.as_deref().unwrap_or(own.path());
    let name = path.to_str().unwrap();
    aqueduct_comm::run(|world: &Comm| job(world, name)).unwrap();
    if given.is_none() {
        judge(own.path());
    }
}

/// So many ranks of the job, if there is such a launcher; what they left is judged.
pub(crate) fn under(launcher: &str, ranks: usize, judge: impl Fn(&Path)) {
    let Some(launcher) = Launcher::find(launcher, &std::env::current_exe().unwrap()) else { return };
    let folder = folder();
    let path = folder.path().to_str().unwrap();
    launcher.succeeds(ranks, &["--exact", "a_job", "--nocapture"], &[(FOLDER, path)]);
    judge(folder.path());
}
