//! Rounds of a search: every rank says what it needs, all read, and each rank searches its piece.

use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::Result;
use aqueduct::comm::Comm;

use super::cancellation::Cancellation;
use super::partition::LineProbe;
use super::range_search::{FilePart, PartOutcome, PartRegions, PartSearch, RangeSearch, SequencePosition};
use super::{FileDistribution, ProgressReport, SearchProgress, SearchSettings, agree};
use crate::input::PieceRequest;
use crate::input::database::DatabaseFile;
use crate::input::piece_reader::{InputMode, PieceReader};
use crate::matcher::work_meter::InterruptCondition;

/// What needs pieces of a file, one after the other.
pub(super) trait PieceConsumer {
    /// The next piece that it needs.
    fn next_request(&self) -> Option<PieceRequest>;

    /// The piece after that, if it is known.
    fn request_after_next(&self) -> Option<PieceRequest> {
        None
    }

    fn progress(&self) -> PartProgress {
        PartProgress::default()
    }

    /// Takes the next piece.
    fn feed(&mut self, piece: &[u8]);
}

impl PieceConsumer for RangeSearch {
    fn next_request(&self) -> Option<PieceRequest> {
        self.next_request()
    }

    fn request_after_next(&self) -> Option<PieceRequest> {
        self.request_after_next()
    }

    fn progress(&self) -> PartProgress {
        PartProgress::of(self)
    }

    fn feed(&mut self, piece: &[u8]) {
        self.feed(piece);
    }
}

impl PieceConsumer for LineProbe {
    fn next_request(&self) -> Option<PieceRequest> {
        self.next_request()
    }

    fn feed(&mut self, piece: &[u8]) {
        self.feed(piece);
    }
}

/// The state of all rounds of a search on one rank.
pub(super) struct SearchRounds<'a> {
    files: &'a [DatabaseFile],
    pub(super) settings: &'a SearchSettings,
    report: Option<ProgressReport<'a>>,
    pub(super) total: u64,
    pub(super) cancellation: Rc<Cancellation>,
    /// What parts that are complete have.
    pub(super) complete: PartProgress,
    reported: Option<Instant>,
    pub(super) was_stopped: bool,
    pub(super) bytes_read: u64,
    pub(super) compute: Duration,
    pub(super) io: Duration,
    piece: Vec<u8>,
}

/// How far a rank is.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PartProgress {
    /// Bytes that were searched.
    pub(super) done: u64,
    pub(super) hits: u64,
    /// The memory of the hits.
    pub(super) hit_bytes: u64,
}

impl PartProgress {
    pub(super) fn of(search: &RangeSearch) -> Self {
        Self { done: search.progress(), hits: search.hit_count(), hit_bytes: search.hit_bytes() }
    }

    pub(super) fn plus(self, other: Self) -> Self {
        Self {
            done: self.done + other.done,
            hits: self.hits + other.hits,
            hit_bytes: self.hit_bytes + other.hit_bytes,
        }
    }
}

/// What all ranks know after the first step of a round.
struct RoundStatus {
    active: u64,
    stopped: bool,
    /// Whether a rank needs a piece that it does not read ahead.
    is_missing: bool,
}

impl<'a> SearchRounds<'a> {
    pub(super) fn new(
        files: &'a [DatabaseFile],
        settings: &'a SearchSettings,
        report: Option<ProgressReport<'a>>,
        cancellation: Rc<Cancellation>,
    ) -> Self {
        let total = files.iter().map(|file| file.length).sum();
        Self {
            files,
            settings,
            report,
            total,
            cancellation,
            complete: PartProgress::default(),
            reported: None,
            was_stopped: false,
            bytes_read: 0,
            compute: Duration::ZERO,
            io: Duration::ZERO,
            piece: Vec::new(),
        }
    }

    /// Agrees on what the ranks need. An error of one rank is one of all. `alone`: this rank searches for itself.
    fn agree_round(
        &mut self,
        alone: bool,
        active: bool,
        is_missing: bool,
        failure: Option<anyhow::Error>,
        own: PartProgress,
    ) -> Result<RoundStatus> {
        let all = self.complete.plus(own);
        let words = [
            u64::from(active),
            u64::from(failure.is_some()),
            all.done,
            all.hits,
            all.hit_bytes,
            u64::from(is_missing),
        ];
        let (sums, cancelled) = if alone {
            failure.map_or(Ok(()), Err)?;
            (words.to_vec(), self.cancellation.is_met())
        } else {
            let (sums, cancelled) = self.cancellation.sum(&words)?;
            if sums[1] > 0 {
                agree(&self.cancellation, failure.as_ref())?;
            }
            (sums, cancelled)
        };
        let full = sums[3] > self.settings.most || sums[4] > self.settings.most_bytes;
        let stopped = cancelled || full;
        self.was_stopped |= stopped && sums[0] > 0;
        self.show(SearchProgress { done: sums[2], total: self.total, hits: sums[3] });
        Ok(RoundStatus { active: sums[0], stopped, is_missing: sums[5] > 0 })
    }

    pub(super) fn show(&mut self, progress: SearchProgress) {
        let due = self.reported.is_none_or(|last| last.elapsed() > Duration::from_millis(50));
        if let (Some(report), true) = (self.report, due) {
            report(progress);
            self.reported = Some(Instant::now());
        }
    }

    /// Reads in rounds until no rank needs more.
    fn run(
        &mut self,
        reader: &mut PieceReader<'_>,
        file: usize,
        consumer: &mut impl PieceConsumer,
    ) -> Result<()> {
        let alone = reader.comm().size() == 1;
        let mut failure = None;
        loop {
            let since = Instant::now();
            let request = consumer.next_request().filter(|_| failure.is_none());
            let is_missing = request.is_some_and(|request| !reader.is_ahead(&request));
            let progress = consumer.progress();
            let status = self.agree_round(alone, request.is_some(), is_missing, failure.take(), progress)?;
            if status.active == 0 || status.stopped {
                break;
            }
            let mut piece = std::mem::take(&mut self.piece);
            let mut outcome = reader.read(file, request, status.is_missing, &mut piece)?;
            if let (Ok(()), Some(next)) = (&outcome, consumer.request_after_next()) {
                outcome = reader.read_ahead(&next);
            }
            self.io += since.elapsed();
            let since = Instant::now();
            match outcome {
                Ok(()) if request.is_some() => consumer.feed(&piece),
                Ok(()) => {}
                Err(error) => failure = Some(error),
            }
            self.piece = piece;
            self.compute += since.elapsed();
        }
        Ok(())
    }

    /// Reads for one part of the same file on every rank.
    pub(super) fn run_together<C: PieceConsumer>(
        &mut self,
        world: &Comm,
        file: usize,
        mut consumer: C,
    ) -> Result<C> {
        let mut reader = PieceReader::new(world, self.files, self.settings.input);
        self.run(&mut reader, file, &mut consumer)?;
        reader.finish()?;
        self.bytes_read += reader.bytes_read;
        self.complete = self.complete.plus(consumer.progress());
        Ok(consumer)
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
        let mut queue = PartQueue {
            waiting: parts.into_iter(),
            prototype,
            regions,
            open: None,
            buffer: self.settings.buffer,
            done: Vec::new(),
            complete: PartProgress::default(),
        };
        queue.advance();
        let outcome = self.run(&mut reader, 0, &mut queue).and_then(|()| reader.finish());
        self.bytes_read += reader.bytes_read;
        agree(&self.cancellation, outcome.as_ref().err())?;
        queue.close();
        self.complete = self.complete.plus(queue.complete);
        Ok(queue.done)
    }
}

/// The outcome of a part, with the number of its file and its position.
pub(super) type WholeOutcome = (usize, SequencePosition, PartOutcome);

/// The parts of a rank that are searched one after the other.
struct PartQueue<F> {
    waiting: std::vec::IntoIter<(FilePart, SequencePosition)>,
    prototype: PartSearch,
    /// The regions of a part of a file at a position.
    regions: F,
    open: Option<(SequencePosition, RangeSearch)>,
    buffer: usize,
    done: Vec<WholeOutcome>,
    /// What parts that are done have.
    complete: PartProgress,
}

impl<F: Fn(usize, &SequencePosition) -> PartRegions> PartQueue<F> {
    fn close(&mut self) {
        if let Some((position, search)) = self.open.take() {
            self.complete = self.complete.plus(PartProgress::of(&search));
            self.done.push((search.part.file, position, search.into_outcome()));
        }
    }

    /// Opens the next part that needs bytes.
    fn advance(&mut self) {
        while self.open.as_ref().is_none_or(|(_, search)| search.next_request().is_none()) {
            self.close();
            let Some((part, position)) = self.waiting.next() else { return };
            let regions = (self.regions)(part.file, &position);
            let search = PartSearch { regions, ..self.prototype.clone() };
            self.open = Some((position, RangeSearch::new(part, search, self.buffer)));
        }
    }
}

impl<F: Fn(usize, &SequencePosition) -> PartRegions> PieceConsumer for PartQueue<F> {
    fn next_request(&self) -> Option<PieceRequest> {
        self.open.as_ref().and_then(|(_, search)| search.next_request())
    }

    fn request_after_next(&self) -> Option<PieceRequest> {
        self.open.as_ref().and_then(|(_, search)| search.request_after_next())
    }

    fn progress(&self) -> PartProgress {
        let open = self.open.as_ref().map(|(_, search)| PartProgress::of(search));
        self.complete.plus(open.unwrap_or_default())
    }

    fn feed(&mut self, piece: &[u8]) {
        if let Some((_, search)) = &mut self.open {
            search.feed(piece);
        }
        self.advance();
    }
}
