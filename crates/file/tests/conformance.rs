//! The file engine under the conformance suite: every device, one node and several simulated nodes, one to seven ranks.

mod timeout;

use aqueduct_comm::{Error, Launch};
use aqueduct_file::Info;
use aqueduct_testkit::file;
use timeout::with_timeout;

fn judge_with(launch: Launch, place: String, info: Info) {
    let title = format!("{place} {launch:?}");
    with_timeout(&title.clone(), move || {
        let outcome = launch.run(|world| Ok::<_, Error>(file::conformance_with(world, &place, &info)));
        let counts = outcome.unwrap_or_else(|error| panic!("{title}: {error}"));
        assert!(counts.iter().all(|cases| *cases > 30), "{counts:?}");
    });
}

fn run_suite(launch: Launch, place: impl Into<String>) {
    judge_with(launch, place.into(), Info::new());
}

/// A folder of the build: the temporary folder may be on tmpfs, which has no `O_DIRECT`.
fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

fn judge_on_disk(launch: Launch, device: &str, info: Info) {
    let folder = folder();
    judge_with(launch, format!("{device}{}/", folder.path().display()), info);
}

#[test]
fn memfs_1_rank() {
    run_suite(Launch::threads(1), "memfs:one-");
}

#[test]
fn memfs_2_ranks() {
    run_suite(Launch::threads(2), "memfs:two-");
}

#[test]
fn memfs_3_ranks() {
    run_suite(Launch::threads(3), "memfs:three-");
}

#[test]
fn memfs_5_ranks() {
    run_suite(Launch::threads(5), "memfs:five-");
}

#[test]
fn memfs_7_ranks() {
    run_suite(Launch::threads(7), "memfs:seven-");
}

#[test]
fn memfs_2_ranks_of_2_nodes() {
    run_suite(Launch::threads(2).node_ranks(1), "memfs:two-of-two-");
}

#[test]
fn memfs_5_ranks_of_3_nodes() {
    run_suite(Launch::threads(5).node_ranks(2), "memfs:five-of-three-");
}

#[test]
fn memfs_7_ranks_of_3_nodes() {
    run_suite(Launch::threads(7).node_ranks(3), "memfs:seven-of-three-");
}

#[test]
fn memfs_9_ranks_of_3_nodes() {
    run_suite(Launch::threads(9).node_ranks(3), "memfs:nine-of-three-");
}

#[test]
fn memfs_7_ranks_of_7_nodes() {
    run_suite(Launch::threads(7).node_ranks(1), "memfs:seven-of-seven-");
}

#[test]
fn ufs() {
    judge_on_disk(Launch::threads(3), "ufs:", Info::new());
}

#[test]
fn ufs_between_nodes() {
    judge_on_disk(Launch::threads(3).node_ranks(2), "ufs:", Info::new());
}

#[test]
fn ufs_direct() {
    judge_on_disk(Launch::threads(2), "ufs:", Info::from([("aqueduct_direct", "true")]));
}

#[test]
fn uring() {
    judge_on_disk(Launch::threads(3), "uring:", Info::new());
}

#[test]
fn short_transfers_change_nothing() {
    run_suite(Launch::threads(3), "fault=seed=11,short=0.5:memfs:short-");
}

#[test]
fn short_transfers_on_disk_change_nothing() {
    judge_on_disk(Launch::threads(2), "fault=seed=12,short=0.3:ufs:", Info::new());
}

/// Every case through mapped pages, seen by each layer: the strategy is the one without the layer.
#[test]
fn layers_keep_mapped_access_right() {
    let map = || Info::from([("aqueduct_strategy", "map")]);
    for layer in ["trace=/dev/null:", "fault=seed=5,short=0.2:", "crash:", "throttle=10GB/s:"] {
        judge_on_disk(Launch::threads(2), &format!("{layer}ufs:"), map());
    }
}

fn break_it(launch: Launch, place: String) {
    let title = format!("faults on {place} {launch:?}");
    with_timeout(&title.clone(), move || {
        let outcome = launch.run(|world| Ok::<_, Error>(file::faults(world, &place)));
        let counts = outcome.unwrap_or_else(|error| panic!("{title}: {error}"));
        assert!(counts[0] > 400, "{counts:?}");
    });
}

#[test]
fn faults_of_1_rank() {
    break_it(Launch::threads(1), "memfs:faults-one-".to_owned());
}

#[test]
fn faults_of_3_ranks() {
    break_it(Launch::threads(3), "memfs:faults-three-".to_owned());
}

#[test]
fn faults_of_3_ranks_of_2_nodes() {
    break_it(Launch::threads(3).node_ranks(2), "memfs:faults-nodes-".to_owned());
}

#[test]
fn faults_of_5_ranks_of_3_nodes() {
    break_it(Launch::threads(5).node_ranks(2), "memfs:faults-more-nodes-".to_owned());
}

#[test]
fn faults_on_disk() {
    let folder = folder();
    break_it(Launch::threads(2), format!("ufs:{}/", folder.path().display()));
}
