//! The calls of all ranks, grouped: the collective calls that belong together, and the calls to each file.

use std::collections::BTreeMap;

use aqueduct::file::trace::{CallRecord, FileExtent, RankTrace, TraceFolder, TracedFile, TracedOperation};

/// A call with its rank and the bytes of the program's data.
#[derive(Clone, Copy)]
pub(super) struct RankCall<'t> {
    /// The index of the rank in the trace.
    pub(super) at: usize,
    pub(super) call: &'t CallRecord,
    pub(super) owned: &'t [FileExtent],
}

/// The calls to the files of one name.
#[derive(Default)]
pub(super) struct FileCalls<'t> {
    pub(super) facts: Option<&'t TracedFile>,
    /// Collective accesses: by opening and sequence, the calls of all ranks.
    pub(super) collective: BTreeMap<(usize, u32), Vec<RankCall<'t>>>,
    /// Accesses by one rank.
    pub(super) independent: Vec<RankCall<'t>>,
    /// Syncs for which the program waited, in the same way.
    pub(super) syncs: BTreeMap<(usize, u32), Vec<RankCall<'t>>>,
}

impl<'t> FileCalls<'t> {
    /// The collective accesses and the syncs: the calls of all ranks of each.
    pub(super) fn collective_calls(&self) -> impl Iterator<Item = &Vec<RankCall<'t>>> {
        self.collective.values().chain(self.syncs.values())
    }
}

pub(super) struct CallGroups<'t> {
    pub(super) trace: &'t TraceFolder,
    /// By name.
    pub(super) files: BTreeMap<&'t str, FileCalls<'t>>,
}

impl<'t> CallGroups<'t> {
    pub(super) fn new(trace: &'t TraceFolder) -> Self {
        let mut files: BTreeMap<&str, FileCalls<'_>> = BTreeMap::new();
        for (at, rank) in trace.ranks.iter().enumerate() {
            let openings = openings(rank);
            for (call, owned, _) in rank.extents_of_calls() {
                let Some(file) = rank.files.get(call.file as usize) else { continue };
                let found = files.entry(file.name.as_str()).or_default();
                if found.facts.is_none() || rank.rank == 0 {
                    found.facts = Some(file);
                }
                let member = RankCall { at, call, owned };
                let is_access =
                    matches!(call.operation(), Some(TracedOperation::Read | TracedOperation::Write));
                let group = || (openings[call.file as usize], call.sequence);
                if call.operation() == Some(TracedOperation::Sync) && !call.is_background() {
                    found.syncs.entry(group()).or_default().push(member);
                } else if is_access && call.is_collective() {
                    found.collective.entry(group()).or_default().push(member);
                } else if is_access && !call.is_background() {
                    found.independent.push(member);
                }
            }
        }
        Self { trace, files }
    }

    pub(super) fn rank(&self, call: &RankCall<'_>) -> &'t RankTrace {
        &self.trace.ranks[call.at]
    }
}

/// For each file of a rank: how many files of its name it had opened before.
fn openings(rank: &RankTrace) -> Vec<usize> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let mut all = Vec::with_capacity(rank.files.len());
    for file in &rank.files {
        let count = counts.entry(file.name.as_str()).or_default();
        all.push(*count);
        *count += 1;
    }
    all
}
