//! What a rank has recorded, and its files in the folder of the trace.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aqueduct_comm::Comm;
use aqueduct_report::{Report, ReportSource};

use super::call_clock::{CallTimer, flag_of_thread, now};
use super::extent::FileExtent;
use super::record::{CallPhase, CallRecord, TracedOperation};
use super::run_record::{RingOutcome, RunRecord, RunRing, RunWords, StartedRun};

/// The variable that names the folder of the trace.
pub const TRACE_VARIABLE: &str = "AQUEDUCT_TRACE";
/// Calls that a rank keeps in memory.
pub const BUFFERED_CALLS: usize = 2048;
/// Calls of a rank that are recorded: 200 MB.
pub const MOST_CALLS: u64 = 1 << 20;
/// Bytes of extents of a rank that are recorded. Later calls have the first and the last byte only.
pub const MOST_EXTENT_BYTES: u64 = 64 << 20;
/// After this time recorded calls are written.
const WRITE_INTERVAL: Duration = Duration::from_millis(200);

/// The recorders of the ranks of this process, by world rank; none for a rank whose files could not be created.
static RECORDERS: Mutex<BTreeMap<usize, Option<Arc<RankRecorder>>>> = Mutex::new(BTreeMap::new());

/// True if calls are recorded.
pub(crate) fn is_on() -> bool {
    folder().is_some()
}

/// The folder of the trace, which is created once; none if there is none, or if it cannot be created.
fn folder() -> Option<&'static Path> {
    static FOLDER: OnceLock<Option<PathBuf>> = OnceLock::new();
    let find = || {
        let folder = PathBuf::from(std::env::var_os(TRACE_VARIABLE).filter(|value| !value.is_empty())?);
        match std::fs::create_dir_all(&folder) {
            Ok(()) => Some(folder),
            Err(error) => {
                let name = folder.display();
                warn(&format!(
                    "{TRACE_VARIABLE}: the folder {name} cannot be created ({error}); nothing is recorded"
                ));
                None
            }
        }
    };
    FOLDER.get_or_init(find).as_deref()
}

fn warn(text: &str) {
    Report::new(ReportSource::File).warn(&text);
}

/// The recorder of a rank: its calls to all its files.
pub(super) struct RankRecorder {
    state: Mutex<RecorderState>,
    /// Accesses to one run of the thread that makes most of them.
    runs: Arc<RunRing>,
}

struct RecorderState {
    /// Taken out under the lock of this state.
    runs: Arc<RunRing>,
    /// The facts, the calls and the extents; none after a failed write.
    files: Option<[File; 3]>,
    calls: Vec<u8>,
    extents: Vec<u8>,
    limits: TraceLimits,
    recorded: u64,
    recorded_extents: u64,
    not_recorded: u64,
    /// The number that was written last.
    written_not_recorded: u64,
    next_file: u32,
}

/// How much a rank records.
#[derive(Clone, Copy)]
struct TraceLimits {
    calls: u64,
    extent_bytes: u64,
}

/// An open file in the trace.
pub(crate) struct FileTrace {
    recorder: Arc<RankRecorder>,
    pub(super) number: u32,
    next_sequence: AtomicU32,
}

impl FileTrace {
    /// Begins to record a file that a rank has opened; none if traces are off. `facts` are keys and values.
    pub(crate) fn new(comm: &Comm, name: &str, facts: &[(&str, String)]) -> Option<Arc<Self>> {
        let recorder = RankRecorder::of(comm)?;
        let number = {
            let mut state = recorder.state();
            let number = state.next_file;
            state.next_file += 1;
            let mut line = format!("file\t{number}\t{}", escape(name));
            for (key, value) in facts {
                let _ = write!(line, "\t{key}={}", escape(value));
            }
            state.add_fact(&line);
            number
        };
        Some(Arc::new(Self { recorder, number, next_sequence: AtomicU32::new(1) }))
    }

    /// The number of the next collective call.
    pub(crate) fn next_sequence(&self) -> u32 {
        self.next_sequence.fetch_add(1, Ordering::Relaxed)
    }

    /// Starts a call.
    pub(crate) fn start(&self, operation: TracedOperation, is_collective: bool) -> Option<CallTimer<'_>> {
        let sequence = if is_collective { self.next_sequence() } else { 0 };
        CallTimer::start(self, operation, sequence, CallPhase::Engine)
    }

    /// Records that the file was opened, since a time.
    pub(crate) fn record_open(&self, start: u64) {
        let end = now();
        let mut record = CallRecord {
            start,
            end,
            file: self.number,
            operation: TracedOperation::Open as u8,
            ..CallRecord::default()
        };
        record.phases[CallPhase::Engine as usize] = end - start;
        self.record(&mut record, &[], &[]);
    }

    /// Writes everything that was recorded to the folder.
    pub(crate) fn flush(&self) {
        self.recorder.state().write(true);
        self.recorder.runs.release();
    }

    /// Records an access to one run that has ended.
    pub(super) fn record_run(&self, run: &StartedRun, strategy: u8, end: u64) {
        let StartedRun { start, operation, offset, bytes, .. } = *run;
        let (file, operation) = (self.number, operation as u8);
        let flags = flag_of_thread();
        let mut record = RunRecord { start, end, offset, bytes, file, operation, strategy, flags };
        let transferred = run.transferred.get();
        if let (true, Some(words)) = (transferred == Some(bytes), record.words()) {
            return self.recorder.add_run(&words);
        }
        record.bytes = transferred.unwrap_or(0);
        let mut call = record.call();
        let device = [record.extent()];
        if transferred.is_none() {
            (call.flags, call.device_calls) = (flags | CallRecord::FAILED, 0);
        }
        let device = if transferred.is_some() { &device[..] } else { &[] };
        self.record(&mut call, &[FileExtent::run(offset, bytes)], device);
    }

    pub(super) fn record(&self, record: &mut CallRecord, owned: &[FileExtent], device: &[FileExtent]) {
        let spans = if owned.is_empty() { device } else { owned }.iter().map(FileExtent::span);
        if let Some(span) = spans.reduce(|one, other| one.start.min(other.start)..one.end.max(other.end)) {
            record.span = [span.start, span.end];
        }
        (record.owned_extents, record.device_extents) = (owned.len() as u16, device.len() as u16);
        self.recorder.state().add(record, owned, device);
    }
}

/// An output of steps in the trace.
#[derive(Clone)]
pub struct StreamTrace(Arc<FileTrace>);

impl std::fmt::Debug for StreamTrace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("StreamTrace").field(&self.0.number).finish()
    }
}

impl StreamTrace {
    /// Begins to record an output; none if traces are off.
    pub fn new(comm: &Comm, name: &str) -> Option<Self> {
        FileTrace::new(comm, name, &[("kind", "stream".to_owned())]).map(Self)
    }

    /// Records a commit that began so long ago: accepted, visible and durable steps, and the memory of buffers in use and its limit.
    pub fn record_commit(&self, took: Duration, steps: [u64; 3], memory: [u64; 2]) {
        let end = now();
        let nanoseconds = took.as_nanos() as u64;
        let mut record = CallRecord {
            start: end.saturating_sub(nanoseconds),
            end,
            accepted: steps[0],
            visible: steps[1],
            durable: steps[2],
            memory,
            file: self.0.number,
            operation: TracedOperation::StreamStep as u8,
            flags: flag_of_thread(),
            ..CallRecord::default()
        };
        record.phases[CallPhase::Engine as usize] = nanoseconds;
        self.0.record(&mut record, &[], &[]);
    }
}

impl RankRecorder {
    /// The recorder of this rank in this process, made when it is first needed.
    fn of(comm: &Comm) -> Option<Arc<Self>> {
        let folder = folder()?;
        start_trace_writer();
        let mut recorders = RECORDERS.lock().unwrap_or_else(PoisonError::into_inner);
        recorders.entry(comm.world_rank()).or_insert_with(|| Self::create(folder, comm)).clone()
    }

    fn create(folder: &Path, comm: &Comm) -> Option<Arc<Self>> {
        let rank = comm.world_rank();
        let create = |kind: &str| File::create(folder.join(format!("rank-{rank:06}.{kind}")));
        let files = (|| Ok([create("facts")?, create("calls")?, create("extents")?]))();
        let files = files.inspect_err(|error: &std::io::Error| {
            warn(&format!("{}: the trace of rank {rank} cannot be written ({error})", folder.display()));
        });
        let limits = TraceLimits { calls: MOST_CALLS, extent_bytes: MOST_EXTENT_BYTES };
        let mut state = RecorderState::new(files.ok()?, limits);
        state.add_fact("aqueduct-trace\t2");
        let (size, node) = (comm.world_size(), comm.node_of(comm.rank()));
        state.add_fact(&format!("rank\t{rank}\t{size}\t{node}"));
        let program: Vec<String> = std::env::args_os().map(|word| escape(&word.to_string_lossy())).collect();
        state.add_fact(&format!("program\t{}", program.join("\t")));
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        state.add_fact(&format!("host\t{}\t{}", escape(&host), std::process::id()));
        state.add_fact(&format!("transport\t{}", escape(&comm.transport())));
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos() as u64);
        state.add_fact(&format!("started\t{wall}\t{}\t{}", now(), process_start()));
        let runs = Arc::clone(&state.runs);
        Some(Arc::new(Self { state: Mutex::new(state), runs }))
    }

    #[inline]
    fn add_run(&self, words: &RunWords) {
        match self.runs.store(words) {
            RingOutcome::Stored => {}
            RingOutcome::Full => {
                let mut state = self.state();
                state.take_runs();
                state.add_run(words);
                state.write_if_full();
            }
            RingOutcome::NotOwner => {
                let mut state = self.state();
                state.add_run(words);
                state.write_if_full();
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, RecorderState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Records how far this node's clock is ahead of that of the first node, in nanoseconds.
pub(super) fn record_offset(trace: &FileTrace, nanoseconds: i64) {
    trace.recorder.state().add_fact(&format!("clock\t{nanoseconds}"));
}

/// Starts the thread that writes what the ranks of this process have recorded: also that of ranks that compute or wait.
fn start_trace_writer() {
    static STARTED: OnceLock<()> = OnceLock::new();
    let write_regularly = || {
        loop {
            std::thread::sleep(WRITE_INTERVAL);
            let all: Vec<Arc<RankRecorder>> = {
                let recorders = RECORDERS.lock().unwrap_or_else(PoisonError::into_inner);
                recorders.values().flatten().cloned().collect()
            };
            all.iter().for_each(|recorder| recorder.state().write(false));
        }
    };
    STARTED.get_or_init(|| {
        let started = std::thread::Builder::new().name("aqueduct trace".to_owned()).spawn(write_regularly);
        if let Err(error) = started {
            warn(&format!(
                "no thread can be started for the trace ({error}); it is written when a file is closed"
            ));
        }
    });
}

impl RecorderState {
    fn new(files: [File; 3], limits: TraceLimits) -> Self {
        Self {
            runs: Arc::new(RunRing::new()),
            files: Some(files),
            calls: Vec::with_capacity(BUFFERED_CALLS * CallRecord::SIZE),
            extents: Vec::new(),
            limits,
            recorded: 0,
            recorded_extents: 0,
            not_recorded: 0,
            written_not_recorded: 0,
            next_file: 0,
        }
    }

    fn add_fact(&mut self, line: &str) {
        if let Some([facts, ..]) = &mut self.files
            && facts.write_all(format!("{line}\n").as_bytes()).is_err()
        {
            self.files = None;
        }
    }

    /// Takes the accesses to one run in that are in the ring.
    fn take_runs(&mut self) {
        let runs = Arc::clone(&self.runs);
        runs.take(|words| self.add_run(words));
    }

    /// Takes an access to one run in.
    fn add_run(&mut self, words: &RunWords) {
        if self.counts_next() {
            self.calls.extend_from_slice(bytemuck::bytes_of(words));
        }
    }

    /// Counts a call; false if it is not recorded.
    fn counts_next(&mut self) -> bool {
        let is_recorded = self.recorded < self.limits.calls;
        if self.files.is_some() {
            *if is_recorded { &mut self.recorded } else { &mut self.not_recorded } += 1;
        }
        is_recorded && self.files.is_some()
    }

    /// Takes a call in, after the accesses to one run before it. If the limit of extents is reached, the record has none.
    fn add(&mut self, record: &mut CallRecord, owned: &[FileExtent], device: &[FileExtent]) {
        self.take_runs();
        if !self.counts_next() {
            return;
        }
        let bytes = ((owned.len() + device.len()) * FileExtent::SIZE) as u64;
        if bytes > 0 && self.recorded_extents + bytes > self.limits.extent_bytes {
            (record.owned_extents, record.device_extents) = (0, 0);
            record.flags |= CallRecord::INEXACT;
        } else {
            self.recorded_extents += bytes;
            self.extents.extend_from_slice(bytemuck::cast_slice(owned));
            self.extents.extend_from_slice(bytemuck::cast_slice(device));
        }
        self.calls.extend_from_slice(bytemuck::bytes_of(record));
        self.write_if_full();
    }

    fn write_if_full(&mut self) {
        if self.calls.len() >= BUFFERED_CALLS * CallRecord::SIZE {
            self.write(false);
        }
    }

    /// Writes what was recorded: extents first, so that each call in a file has its extents. The number of calls that were not recorded is
    /// written if it has grown by an eighth, or if it has changed and `is_last`.
    fn write(&mut self, is_last: bool) {
        self.take_runs();
        let Some([_, calls, extents]) = &mut self.files else { return };
        if !self.calls.is_empty() {
            let written = extents.write_all(&self.extents).and_then(|()| calls.write_all(&self.calls));
            self.calls.clear();
            self.extents.clear();
            if let Err(error) = written {
                warn(&format!("the trace cannot be written ({error}); it ends here"));
                self.files = None;
            }
        }
        let (before, growth) = (self.written_not_recorded, self.written_not_recorded / 8);
        if self.not_recorded > before + if is_last { 0 } else { growth } {
            self.written_not_recorded = self.not_recorded;
            self.add_fact(&format!("not-recorded\t{}", self.not_recorded));
        }
    }
}

/// When this process was started, in nanoseconds of the monotonic clock; 0 if the system does not say.
fn process_start() -> u64 {
    let ticks = || {
        let text = std::fs::read_to_string("/proc/self/stat").ok()?;
        // The 22nd field; the second one, in brackets, may have spaces.
        text.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse::<u64>().ok()
    };
    let per_second = rustix::param::clock_ticks_per_second().max(1);
    // Ticks since the boot, which the monotonic clock counts too, but for times of suspension.
    let boot = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let boot = boot.tv_sec as u64 * 1_000_000_000 + boot.tv_nsec as u64;
    let ahead = boot.saturating_sub(now());
    ticks().map_or(0, |ticks| (ticks * (1_000_000_000 / per_second)).saturating_sub(ahead))
}

/// Text without tabs and ends of lines.
fn escape(text: &str) -> String {
    text.replace('\\', "\\\\").replace('\t', "\\t").replace('\n', "\\n")
}

/// The text that was [escaped](escape).
pub(super) fn unescape(text: &str) -> String {
    let mut letters = text.chars();
    let mut plain = String::with_capacity(text.len());
    while let Some(letter) = letters.next() {
        plain.push(match (letter, letter == '\\') {
            (_, true) => match letters.next() {
                Some('t') => '\t',
                Some('n') => '\n',
                other => other.unwrap_or('\\'),
            },
            (letter, false) => letter,
        });
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escaped_text_comes_back() {
        for text in ["", "plain", "a\tb\nc\\d", "\\t", "\\\\n"] {
            assert!(!escape(text).contains(['\t', '\n']));
            assert_eq!(unescape(&escape(text)), text);
        }
    }

    #[test]
    fn a_trace_has_a_limit_of_calls_and_of_extents() {
        let folder = tempfile::tempdir().unwrap();
        let paths = ["facts", "calls", "extents"].map(|kind| folder.path().join(kind));
        let files = [0, 1, 2].map(|at| File::create(&paths[at]).unwrap());
        let limits = TraceLimits { calls: 5000, extent_bytes: 1000 * FileExtent::SIZE as u64 };
        let mut state = RecorderState::new(files, limits);
        state.add_fact("aqueduct-trace\t2\nrank\t0\t1\t0");
        let extents = [FileExtent::run(0, 8), FileExtent::run(100, 8)];
        for number in 0..7000u64 {
            let mut record = CallRecord { start: number, end: number, ..CallRecord::default() };
            (record.operation, record.owned_extents) = (TracedOperation::Write as u8, 2);
            state.add(&mut record, &extents, &[]);
        }
        let read = || {
            let [facts, calls, extents] = [0, 1, 2].map(|at| std::fs::read(&paths[at]).unwrap());
            super::super::RankTrace::decode(&facts, &calls, &extents).unwrap()
        };
        state.write(false);
        assert_eq!(read().not_recorded, 2000, "before the file is closed");
        let mut ignored = CallRecord::default();
        state.add(&mut ignored, &[], &[]);
        state.write(false);
        assert_eq!(read().not_recorded, 2000, "no line for each of many calls");
        state.write(true);
        let trace = read();
        assert_eq!((trace.calls.len(), trace.extents.len(), trace.not_recorded), (5000, 1000, 2001));
        assert!(!trace.calls[499].is_inexact() && trace.calls[500].is_inexact());
        assert!(trace.extents_of_calls().all(|(call, owned, _)| owned.len() == 2 || call.is_inexact()));
    }

    #[test]
    fn the_process_started_in_the_past() {
        let start = process_start();
        assert!(start > 0 && start <= now(), "{start}");
    }
}
