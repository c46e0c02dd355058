//! The trace of a rank: facts, calls and extents, then planning them again.

use aqueduct_file::Info;
use aqueduct_file::replan::{RecordedAccess, replan};
use aqueduct_file::trace::{CallRecord, FileExtent, RankTrace};

use crate::FuzzTarget;
use crate::input::{join, split};

pub(crate) const TARGET: FuzzTarget = FuzzTarget {
    name: "rank_trace",
    run,
    seeds,
    words: &["aqueduct-trace\t2\n", "rank\t", "file\t0\t", "clock\t-5\n", "capabilities=maps alignment:512"],
};

fn run(input: &[u8]) -> bool {
    let (_, facts, records) = split(input);
    let (_, calls, extents) = split(records);
    let Ok(trace) = RankTrace::decode(facts, calls, extents) else { return false };
    for (call, owned, device) in trace.extents_of_calls().take(20) {
        assert_eq!(owned.len(), usize::from(call.owned_extents));
        assert_eq!(device.len(), usize::from(call.device_extents));
        let capabilities = trace.files.first().and_then(|file| file.fact("capabilities")).unwrap_or_default();
        let access = |rank| RecordedAccess { rank, node: rank, extents: owned.to_vec() };
        let _ = replan(true, &[access(0), access(1)], capabilities, &Info::new());
    }
    true
}

fn seeds() -> Vec<Vec<u8>> {
    let facts = "aqueduct-trace\t2\nrank\t0\t1\t0\nprogram\tp\nstarted\t1\t2\t1\nfile\t0\tname\tcapabilities=maps block:4096\n";
    let mut call = vec![0u8; CallRecord::SIZE];
    call[8] = 9;
    // One extent of the program, and the operation: a write.
    call[CallRecord::SIZE - 8] = 1;
    call[CallRecord::SIZE - 4] = 4;
    let extent = FileExtent { stride: 8, count: 3, ..FileExtent::run(5, 4) };
    let numbers = [extent.offset, extent.len, extent.stride, extent.count, extent.row_stride, extent.rows];
    let extents: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
    // An access to one run: the marked start, the operation and the duration, the offset, the bytes.
    let run: Vec<u8> =
        [1 << 63 | 2, 4 << 48 | 7, 5, 4u64].iter().flat_map(|word| word.to_le_bytes()).collect();
    let calls = [run.clone(), call, run].concat();
    vec![join(0, facts.as_bytes(), &join(0, &calls, &extents))]
}
