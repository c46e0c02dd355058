//! The strategies that the cost model chooses, without calibration, for a grid of access shapes. They are compared with a table, so that
//! a changed constant or formula shows which choices it changes.

use std::fmt::Write as _;

use aqueduct_device::Capabilities;

use super::super::*;
use crate::hints::{Hints, Strategy};

/// The choices of a version whose constants were tuned by benchmarks. To replace it, copy the text that the failing test prints.
const REFERENCE: &str = include_str!("reference_choices.txt");

const BYTES: [u64; 11] =
    [64, 256, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20];
const RUNS: [u64; 7] = [1, 10, 100, 1_000, 10_000, 100_000, 1_000_000];
/// The span of an access divided by its bytes.
const SPREADS: [u64; 4] = [1, 2, 16, 256];

/// Devices that have different estimates.
fn devices() -> [(&'static str, Capabilities); 4] {
    let plain = Capabilities::default();
    [
        ("page cache", Capabilities { maps: true, ..plain }),
        ("calls", plain),
        ("lists", Capabilities { native_lists: true, ..plain }),
        ("direct I/O", Capabilities { native_lists: true, alignment: 4096, ..plain }),
    ]
}

/// The strategy of one rank in an independent access, and in a collective one in which all ranks have parts of this size.
fn choose(direction: TransferDirection, size: AccessSize, capabilities: &Capabilities) -> [Strategy; 2] {
    let (hints, calibration) = (Hints::default(), Calibration::default());
    let model = CostModel::new(&hints, capabilities, &calibration);
    let access = AccessFacts::OneRank(size);
    let independent = make_plan(PlanInput { direction, model, access }).estimate.strategy;
    let summary = add_estimates(AccessSummary::NOTHING, direction, &size, &model);
    let exchanges = uses_two_phase(direction, &summary, &hints);
    [independent, if exchanges { Strategy::TwoPhase } else { independent }]
}

/// One line per size, span and scope: the strategies for 1, 10, … 10^6 runs by their first letters.
fn choices() -> String {
    let mut table = String::new();
    for (device, capabilities) in devices() {
        for direction in [TransferDirection::Read, TransferDirection::Write] {
            for new_pages in [false, true] {
                let pages = if new_pages { "new" } else { "old" };
                writeln!(table, "{device}, {direction:?}, {pages} pages").unwrap();
                for (bytes, spread) in BYTES.iter().flat_map(|bytes| SPREADS.map(|spread| (*bytes, spread))) {
                    let runs = RUNS.iter().filter(|runs| **runs <= bytes && (**runs == 1) == (spread == 1));
                    let span = bytes * spread;
                    let sizes = runs.map(|runs| AccessSize { span, bytes, runs: *runs, new_pages });
                    let chosen: Vec<_> = sizes.map(|size| choose(direction, size, &capabilities)).collect();
                    let letters = |scope: usize| -> String {
                        chosen.iter().filter_map(|pair| pair[scope].name().chars().next()).collect()
                    };
                    writeln!(table, "{bytes} in {span}: {} | {}", letters(0), letters(1)).unwrap();
                }
            }
        }
    }
    table
}

#[test]
fn strategies_of_a_grid_of_accesses_are_those_of_the_reference() {
    let choices = choices();
    let changed = choices.lines().zip(REFERENCE.lines()).filter(|(now, before)| now != before).count();
    assert!(choices == REFERENCE, "{changed} lines differ; the choices now:\n{choices}");
}
