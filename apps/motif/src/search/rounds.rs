//! Rounds of a search: every rank says what it needs, all read, and each rank searches its piece.

use std::io::{self, Read};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use aqueduct::comm::{Comm, Op};
use aqueduct::file::File;
use flate2::read::MultiGzDecoder;

use super::partition::LineProbe;
use super::range_search::{FilePart, PartOutcome, PartRegions, PartSearch, RangeSearch, SequencePosition};
use super::{FileDistribution, ProgressReport, SearchProgress, SearchSettings, agree};
use crate::input::PieceRequest;
use crate::input::database::DatabaseFile;
use crate::input::piece_reader::{InputMode, PieceReader};

/// The state of all rounds of a search on one rank.
pub(super) struct SearchRounds<'a> {
    files: &'a [DatabaseFile],
    settings: &'a SearchSettings,
    report: Option<ProgressReport<'a>>,
    total: u64,
    /// Bytes and hits of parts that are complete.
    done: u64,
    hits: u64,
    reported: Option<Instant>,
    pub(super) was_stopped: bool,
    pub(super) bytes_read: u64,
    pub(super) compute: Duration,
    pub(super) io: Duration,
    piece: Vec<u8>,
}

/// What all ranks know after the first step of a round.
struct RoundStatus {
    active: u64,
    stopped: bool,
}

impl<'a> SearchRounds<'a> {
    pub(super) fn new(
        files: &'a [DatabaseFile],
        settings: &'a SearchSettings,
        report: Option<ProgressReport<'a>>,
        total: u64,
    ) -> Self {
        Self {
            files,
            settings,
            report,
            total,
            done: 0,
            hits: 0,
            reported: None,
            was_stopped: false,
            bytes_read: 0,
            compute: Duration::ZERO,
            io: Duration::ZERO,
            piece: Vec::new(),
        }
    }

    /// Agrees on what the ranks need. An error of one rank is one of all.
    fn agree_round(
        &mut self,
        comm: &Comm,
        active: bool,
        failure: Option<&anyhow::Error>,
        own: (u64, u64),
    ) -> Result<RoundStatus> {
        let cancel = self.settings.cancel.as_ref().is_some_and(|cancel| cancel.load(Ordering::Relaxed));
        let (done, hits) = (self.done + own.0, self.hits + own.1);
        let words = [u64::from(active), u64::from(failure.is_some()), u64::from(cancel), done, hits];
        let sums = comm.allreduce(Op::Sum, &words)?;
        if sums[1] > 0 {
            agree(comm, failure)?;
        }
        let stopped = sums[2] > 0 || sums[4] > self.settings.most;
        self.was_stopped |= stopped && sums[0] > 0;
        self.show(SearchProgress { done: sums[3], total: self.total, hits: sums[4] });
        Ok(RoundStatus { active: sums[0], stopped })
    }

    fn show(&mut self, progress: SearchProgress) {
        let due = self.reported.is_none_or(|last| last.elapsed() > Duration::from_millis(50));
        if let (Some(report), true) = (self.report, due) {
            report(progress);
            self.reported = Some(Instant::now());
        }
    }

    /// Reads in rounds until no rank needs more.
    fn run<S>(
        &mut self,
        reader: &mut PieceReader<'_>,
        file: usize,
        state: &mut S,
        next: impl Fn(&S) -> Option<PieceRequest>,
        own: impl Fn(&S) -> (u64, u64),
        mut feed: impl FnMut(&mut S, &[u8]),
    ) -> Result<()> {
        let mut failure = None;
        loop {
            let since = Instant::now();
            let request = next(state).filter(|_| failure.is_none());
            let status = self.agree_round(
                &reader.comm().clone(),
                request.is_some(),
                failure.take().as_ref(),
                own(state),
            )?;
            if status.active == 0 || status.stopped {
                break;
            }
            let mut piece = std::mem::take(&mut self.piece);
            let outcome = reader.read(file, request, &mut piece)?;
            self.io += since.elapsed();
            let since = Instant::now();
            match outcome {
                Ok(()) if request.is_some() => feed(state, &piece),
                Ok(()) => {}
                Err(error) => failure = Some(error),
            }
            self.piece = piece;
            self.compute += since.elapsed();
        }
        Ok(())
    }

    /// Searches one part of the same file on every rank.
    pub(super) fn run_collective(
        &mut self,
        world: &Comm,
        file: usize,
        mut search: RangeSearch,
    ) -> Result<RangeSearch> {
        let mut reader = PieceReader::new(world, self.files, self.settings.input);
        let next = |search: &RangeSearch| search.next_request();
        let own = |search: &RangeSearch| (search.progress(), search.hit_count());
        self.run(&mut reader, file, &mut search, next, own, super::range_search::RangeSearch::feed)?;
        reader.finish()?;
        self.bytes_read += reader.bytes_read;
        self.done += search.progress();
        self.hits += search.hit_count();
        Ok(search)
    }

    pub(super) fn run_probe(&mut self, world: &Comm, file: usize, mut probe: LineProbe) -> Result<LineProbe> {
        let mut reader = PieceReader::new(world, self.files, self.settings.input);
        let most = self.settings.buffer;
        let next = |probe: &LineProbe| probe.next_request();
        self.run(&mut reader, file, &mut probe, next, |_| (0, 0), |probe, piece| probe.feed(piece, most))?;
        reader.finish()?;
        self.bytes_read += reader.bytes_read;
        Ok(probe)
    }

    /// Searches whole sequences or files, those of each rank one after the other.
    pub(super) fn run_whole(
        &mut self,
        world: &Comm,
        parts: Vec<(FilePart, SequencePosition)>,
        prototype: PartSearch,
        regions: impl Fn(usize, &SequencePosition) -> PartRegions,
    ) -> Result<Vec<WholeOutcome>> {
        debug_assert!(self.settings.distribution != FileDistribution::Bytes);
        // With a master all ranks take part in each round; otherwise each rank reads for itself.
        let master = self.settings.input == InputMode::Master;
        let comm = if master { world.clone() } else { world.comm_self() };
        let mut reader = PieceReader::new(&comm, self.files, self.settings.input);
        let buffer = self.settings.buffer;
        let mut queue = PartQueue {
            waiting: parts.into_iter(),
            prototype,
            open: None,
            buffer,
            done: Vec::new(),
            counts: (0, 0),
        };
        queue.advance(&regions);
        let next = |queue: &PartQueue| queue.open.as_ref().and_then(|(_, search)| search.next_request());
        let own = |queue: &PartQueue| {
            let open =
                queue.open.as_ref().map_or((0, 0), |(_, search)| (search.progress(), search.hit_count()));
            (open.0 + queue.counts.0, open.1 + queue.counts.1)
        };
        let outcome = self.run(&mut reader, 0, &mut queue, next, own, |queue, piece| {
            if let Some((_, search)) = &mut queue.open {
                search.feed(piece);
            }
            queue.advance(&regions);
        });
        let outcome = outcome.and_then(|()| reader.finish());
        self.bytes_read += reader.bytes_read;
        agree(world, outcome.as_ref().err())?;
        queue.close();
        self.done += queue.counts.0;
        self.hits += queue.counts.1;
        Ok(queue.done)
    }
}

/// The outcome of a part, with the number of its file and its position.
pub(super) type WholeOutcome = (usize, SequencePosition, PartOutcome);

/// The parts of a rank that are searched one after the other.
struct PartQueue {
    waiting: std::vec::IntoIter<(FilePart, SequencePosition)>,
    prototype: PartSearch,
    open: Option<(SequencePosition, RangeSearch)>,
    buffer: usize,
    done: Vec<WholeOutcome>,
    /// Bytes and hits of parts that are done.
    counts: (u64, u64),
}

impl PartQueue {
    fn close(&mut self) {
        if let Some((position, search)) = self.open.take() {
            self.counts.0 += search.progress();
            self.counts.1 += search.hit_count();
            self.done.push((search.part.file, position, search.into_outcome()));
        }
    }

    /// Opens the next part that needs bytes.
    fn advance(&mut self, regions: &dyn Fn(usize, &SequencePosition) -> PartRegions) {
        while self.open.as_ref().is_none_or(|(_, search)| search.next_request().is_none()) {
            self.close();
            let Some((part, position)) = self.waiting.next() else { return };
            let search = PartSearch { regions: regions(part.file, &position), ..self.prototype.clone() };
            self.open = Some((position, RangeSearch::new(part, search, self.buffer)));
        }
    }
}

/// A file as a stream.
struct FileStream {
    file: File,
    offset: u64,
    bytes: u64,
}

impl Read for FileStream {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let count = self.file.at(self.offset).read(&mut *out).map_err(io::Error::other)?.bytes();
        self.offset += count;
        self.bytes += count;
        Ok(count as usize)
    }
}

/// Searches a gzip file, which one rank reads from its start to its end.
pub(super) fn search_gzip(
    world: &Comm,
    file: &DatabaseFile,
    search: &mut RangeSearch,
    rounds: &mut SearchRounds<'_>,
) -> Result<()> {
    let open = File::open(&world.comm_self(), &file.name)?;
    let stream = FileStream { file: open, offset: 0, bytes: 0 };
    let buffered = io::BufReader::with_capacity(1 << 18, stream);
    let mut decoder = MultiGzDecoder::new(buffered);
    let mut piece = vec![0; rounds.settings.buffer.clamp(1 << 10, 1 << 20)];
    let hits = rounds.hits;
    loop {
        if rounds.settings.cancel.as_ref().is_some_and(|cancel| cancel.load(Ordering::Relaxed)) {
            rounds.was_stopped = true;
            break;
        }
        let since = Instant::now();
        let count = decoder.read(&mut piece).with_context(|| format!("{}: inflating", file.name))?;
        rounds.io += since.elapsed();
        let since = Instant::now();
        if count == 0 {
            search.finish();
            rounds.compute += since.elapsed();
            break;
        }
        search.feed(&piece[..count]);
        rounds.compute += since.elapsed();
        rounds.hits = hits + search.hit_count();
        if rounds.hits > rounds.settings.most {
            rounds.was_stopped = true;
            break;
        }
        let done = rounds.done + decoder.get_ref().get_ref().bytes;
        rounds.show(SearchProgress { done, total: rounds.total, hits: rounds.hits });
    }
    let stream = decoder.into_inner().into_inner();
    if stream.bytes == 0 && file.length > 0 {
        bail!("{}: nothing could be read", file.name);
    }
    rounds.bytes_read += stream.bytes;
    rounds.done += stream.bytes;
    stream.file.close()?;
    Ok(())
}
