//! Reading a trace.

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use super::extent::FileExtent;
use super::rank_recorder::unescape;
use super::record::CallRecord;
use super::run_record::RunRecord;
use crate::error::{Error, Kind, Result};

/// The trace of a program.
#[derive(Clone, Debug, Default)]
pub struct TraceFolder {
    /// The ranks, ascending.
    pub ranks: Vec<RankTrace>,
}

/// The trace of a rank.
#[derive(Clone, Debug, Default)]
pub struct RankTrace {
    /// The rank in the world.
    pub rank: usize,
    /// Ranks of the world.
    pub size: usize,
    /// Its node.
    pub node: usize,
    /// The program and its arguments.
    pub program: Vec<String>,
    /// The name of the machine.
    pub host: String,
    /// The number of the process.
    pub process: u64,
    /// How the ranks communicate.
    pub transport: String,
    /// When the trace began: nanoseconds since 1970.
    pub began: u64,
    /// The same, in nanoseconds of the clock of the calls.
    pub began_at: u64,
    /// When the process was started, in nanoseconds of the clock of the calls; 0 if that is not known.
    pub process_started: u64,
    /// How far the clock is ahead of that of the first node, in nanoseconds; it is already subtracted from the times here.
    pub clock_offset: i64,
    /// Calls that were not recorded, because there were too many.
    pub not_recorded: u64,
    /// The files, by number.
    pub files: Vec<TracedFile>,
    /// The calls, in the order in which they ended.
    pub calls: Vec<CallRecord>,
    /// The extents of all calls, one call's after another's; see [`RankTrace::extents_of_calls`].
    pub extents: Vec<FileExtent>,
}

/// A file in the trace of a rank.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TracedFile {
    /// Its name.
    pub name: String,
    /// Mode, hints, capabilities of the device: keys and values.
    pub facts: Vec<(String, String)>,
}

impl TracedFile {
    /// The value of a fact.
    pub fn fact(&self, key: &str) -> Option<&str> {
        self.facts.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
    }
}

impl TraceFolder {
    /// Reads a folder. A call that was not written in full when the program ended is left out.
    pub fn read(folder: impl AsRef<Path>) -> Result<Self> {
        let folder = folder.as_ref();
        let entries = fs::read_dir(folder).map_err(|error| failed(folder, &error.to_string()))?;
        let mut facts: Vec<PathBuf> = entries
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| path.extension().is_some_and(|suffix| suffix == "facts"))
            .collect();
        facts.sort();
        let mut ranks = facts.iter().map(|path| RankTrace::read(path)).collect::<Result<Vec<_>>>()?;
        // An earlier run with more ranks may have used the folder.
        let size = ranks.iter().max_by_key(|rank| rank.began).map_or(0, |newest| newest.size);
        ranks.retain(|rank| rank.rank < size);
        if ranks.is_empty() {
            return Err(failed(folder, "it has no trace; run the program with AQUEDUCT_TRACE=FOLDER"));
        }
        Ok(Self { ranks })
    }
}

impl RankTrace {
    fn read(facts: &Path) -> Result<Self> {
        let read = |path: &Path| fs::read(path).map_err(|error| failed(path, &error.to_string()));
        let [calls, extents] = ["calls", "extents"].map(|kind| read(&facts.with_extension(kind)));
        let decoded = Self::decode(&read(facts)?, &calls?, &extents?);
        decoded.map_err(|detail| failed(facts, &detail))
    }

    /// Decodes the three files of a rank; why that is not possible. Calls from the first damaged one on are left out.
    pub fn decode(facts: &[u8], calls: &[u8], extents: &[u8]) -> std::result::Result<Self, String> {
        let mut trace = Self::from_facts(&String::from_utf8_lossy(facts))?;
        trace.take_calls(calls, &records(extents));
        trace.sort();
        let offset = trace.clock_offset;
        let shift = |time: &mut u64| *time = time.saturating_add_signed(offset.saturating_neg());
        for call in &mut trace.calls {
            shift(&mut call.start);
            shift(&mut call.end);
        }
        shift(&mut trace.began_at);
        shift(&mut trace.process_started);
        Ok(trace)
    }

    /// Takes the calls in, up to the first damaged one.
    fn take_calls(&mut self, mut calls: &[u8], mut extents: &[FileExtent]) {
        loop {
            let run = RunRecord::decode(calls);
            let (call, size) = match run {
                Some(run) => (run.call(), RunRecord::SIZE),
                None => match calls.get(..CallRecord::SIZE) {
                    Some(bytes) => (bytemuck::pod_read_unaligned::<CallRecord>(bytes), CallRecord::SIZE),
                    None => return,
                },
            };
            let of_run = run.map(|run| [run.extent(); 2]);
            let own = match &of_run {
                Some(own) => own,
                None => {
                    let needed = usize::from(call.owned_extents) + usize::from(call.device_extents);
                    let Some((own, others)) = extents.split_at_checked(needed) else { return };
                    extents = others;
                    own
                }
            };
            if !call.is_plausible() || !own.iter().all(FileExtent::is_plausible) {
                return;
            }
            self.extents.extend_from_slice(own);
            self.calls.push(call);
            calls = &calls[size..];
        }
    }

    /// Orders calls by their ends: those of different threads are stored one thread after another.
    fn sort(&mut self) {
        if self.calls.is_sorted_by_key(|call| call.end) {
            return;
        }
        let mut all: Vec<(CallRecord, Range<usize>)> = Vec::with_capacity(self.calls.len());
        let mut at = 0;
        for call in &self.calls {
            let end = at + usize::from(call.owned_extents) + usize::from(call.device_extents);
            all.push((*call, at..end));
            at = end;
        }
        all.sort_by_key(|(call, _)| call.end);
        let extents = std::mem::take(&mut self.extents);
        self.extents = all.iter().flat_map(|(_, range)| &extents[range.clone()]).copied().collect();
        self.calls = all.into_iter().map(|(call, _)| call).collect();
    }

    fn from_facts(text: &str) -> std::result::Result<Self, String> {
        let mut lines = text.lines();
        if lines.next() != Some("aqueduct-trace\t2") {
            return Err("it is not the trace of a rank in version 2".to_owned());
        }
        let mut trace = Self::default();
        for (at, line) in lines.enumerate() {
            let words: Vec<&str> = line.split('\t').collect();
            trace.take_fact(&words).ok_or_else(|| format!("line {} is damaged: {line:?}", at + 2))?;
        }
        if trace.rank >= trace.size {
            return Err(format!("rank {} of {} does not exist", trace.rank, trace.size));
        }
        Ok(trace)
    }

    /// Takes a line in; none if it is damaged. Lines of later versions are skipped.
    fn take_fact(&mut self, words: &[&str]) -> Option<()> {
        match words {
            ["rank", rank, size, node] => {
                (self.rank, self.size, self.node) =
                    (rank.parse().ok()?, size.parse().ok()?, node.parse().ok()?);
            }
            ["program", program @ ..] => self.program = program.iter().map(|word| unescape(word)).collect(),
            ["host", host, process] => (self.host, self.process) = (unescape(host), process.parse().ok()?),
            ["transport", transport] => self.transport = unescape(transport),
            ["started", wall, began, process] => {
                (self.began, self.began_at) = (wall.parse().ok()?, began.parse().ok()?);
                self.process_started = process.parse().ok()?;
            }
            ["clock", offset] => self.clock_offset = offset.parse().ok()?,
            ["not-recorded", count] => self.not_recorded = count.parse().ok()?,
            ["file", number, name, facts @ ..] => {
                if number.parse::<usize>().ok()? != self.files.len() {
                    return None;
                }
                let facts = facts.iter().filter_map(|fact| fact.split_once('='));
                let facts = facts.map(|(key, value)| (key.to_owned(), unescape(value))).collect();
                self.files.push(TracedFile { name: unescape(name), facts });
            }
            _ => {}
        }
        Some(())
    }

    /// The calls with their extents: those of the program's data, and those that this rank accessed on the device.
    pub fn extents_of_calls(&self) -> impl Iterator<Item = (&CallRecord, &[FileExtent], &[FileExtent])> {
        let mut rest = self.extents.as_slice();
        self.calls.iter().map(move |call| {
            let (owned, others) = rest.split_at(usize::from(call.owned_extents).min(rest.len()));
            let (device, others) = others.split_at(usize::from(call.device_extents).min(others.len()));
            rest = others;
            (call, owned, device)
        })
    }
}

/// The records in a file; a last one that is not whole is left out.
fn records<T: bytemuck::Pod>(bytes: &[u8]) -> Vec<T> {
    bytes.chunks_exact(size_of::<T>()).map(bytemuck::pod_read_unaligned).collect()
}

fn failed(path: &Path, detail: &str) -> Error {
    Error::new(Kind::Io, "read a trace", path.display().to_string(), detail)
}
