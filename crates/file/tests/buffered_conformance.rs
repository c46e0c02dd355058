//! Buffered files under the conformance suite of files: random programs, orders, pointers, atomicity, misuse – the same bytes as without a buffer.

mod timeout;

use aqueduct_comm::{Error, Launch};
use aqueduct_file::Info;
use aqueduct_testkit::file;
use timeout::with_timeout;

fn run_suite(launch: Launch, place: String, hints: &[(&str, &str)]) {
    let title = format!("{place} {launch:?} {hints:?}");
    let info: Info = hints.iter().copied().collect();
    with_timeout(&title.clone(), move || {
        let outcome = launch.run(|world| Ok::<_, Error>(file::conformance_with(world, &place, &info)));
        let counts = outcome.unwrap_or_else(|error| panic!("{title}: {error}"));
        assert!(counts.iter().all(|cases| *cases > 30), "{counts:?}");
    });
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

#[test]
fn a_buffer_larger_than_all_writes() {
    run_suite(Launch::threads(1), "memfs:buffered-one-".to_owned(), &[("aqueduct_buffer", "64MiB")]);
    run_suite(Launch::threads(3), "memfs:buffered-three-".to_owned(), &[("aqueduct_buffer", "64MiB")]);
}

#[test]
fn a_buffer_of_one_block() {
    run_suite(Launch::threads(3), "memfs:buffered-little-".to_owned(), &[("aqueduct_buffer", "1")]);
}

#[test]
fn a_slow_device() {
    run_suite(
        Launch::threads(3),
        "throttle=50us:memfs:buffered-slow-".to_owned(),
        &[("aqueduct_buffer", "1MiB")],
    );
}

#[test]
fn a_share_of_available_memory_on_disk() {
    let folder = folder();
    run_suite(Launch::threads(3), format!("ufs:{}/", folder.path().display()), &[("aqueduct_buffer", "1%")]);
}

#[test]
fn a_spill_file() {
    let folder = folder();
    let spill = folder.path().display().to_string();
    let hints = [("aqueduct_buffer", "1"), ("aqueduct_spill", &*spill), ("aqueduct_spill_size", "10000")];
    run_suite(Launch::threads(3), "throttle=20us:memfs:buffered-spill-".to_owned(), &hints);
}

#[test]
fn short_transfers() {
    run_suite(
        Launch::threads(2),
        "fault=seed=11,short=0.5:memfs:buffered-short-".to_owned(),
        &[("aqueduct_buffer", "1MiB")],
    );
}
