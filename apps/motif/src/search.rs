//! The parallel search: files are distributed over ranks, every rank searches its parts, rank 0 gets the hits in order.

mod cancellation;
mod collected_hits;
mod gzip_file;
pub mod partition;
pub(crate) mod range_search;
mod rounds;
pub mod sequence_count;

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use aqueduct::comm::{Comm, Op};

use self::cancellation::Cancellation;
use self::collected_hits::{PlacedOutcome, gather_hits};
use self::gzip_file::search_gzip;
pub use self::partition::FileDistribution;
use self::partition::{LineProbe, part_of, state_before};
use self::range_search::{FilePart, PartOutcome, PartRegions, PartSearch, RangeSearch, SequencePosition};
use self::rounds::SearchRounds;
use crate::hit::{Hit, Regions};
use crate::input::database::{DatabaseFile, FileFormat};
use crate::input::fasta::LineState;
use crate::input::piece_reader::InputMode;
use crate::matcher::Matcher;
use crate::query::Query;

/// The longest hit of a query without a limit, if none is given.
pub const DEFAULT_LONGEST: usize = 10_000;

/// How far a search is.
#[derive(Clone, Copy, Debug, Default)]
pub struct SearchProgress {
    /// Bytes that were searched.
    pub done: u64,
    /// Bytes of all files.
    pub total: u64,
    /// Hits so far.
    pub hits: u64,
}

/// Called on rank 0 while a search runs.
pub type ProgressReport<'a> = &'a (dyn Fn(SearchProgress) + Sync);

/// What is searched for, and how.
#[derive(Clone, Debug)]
pub struct SearchSettings {
    /// The query.
    pub query: Query,
    /// The longest hit; by default what the query allows, at most [`DEFAULT_LONGEST`] if it has no limit.
    pub longest: Option<usize>,
    /// All hits of each start instead of the longest.
    pub every: bool,
    /// Both strands of nucleotides.
    pub both_strands: bool,
    /// How files are distributed.
    pub distribution: FileDistribution,
    /// Who reads.
    pub input: InputMode,
    /// Weights of the ranks for [`FileDistribution::Bytes`].
    pub shares: Vec<u64>,
    /// Bytes that a rank reads at once.
    pub buffer: usize,
    /// The search stops after so many hits.
    pub most: u64,
    /// The search stops if its hits take so much memory, in bytes.
    pub most_bytes: u64,
    /// Only within these regions.
    pub within: Option<Arc<Regions>>,
    /// Ends the search, if it is set on any rank; checked about once per millisecond of work.
    pub cancel: Option<Arc<AtomicBool>>,
}

impl SearchSettings {
    /// The defaults for a query: forward strand, all ranks read, cut by bytes.
    pub fn new(query: Query) -> Self {
        Self {
            query,
            longest: None,
            every: false,
            both_strands: false,
            distribution: FileDistribution::Bytes,
            input: InputMode::Together,
            shares: Vec::new(),
            buffer: 1 << 20,
            most: 1_000_000,
            most_bytes: 1 << 30,
            within: None,
            cancel: None,
        }
    }

    /// The longest hit in residues.
    pub fn longest_hit(&self) -> usize {
        let of_query = self.query.most_length();
        self.longest
            .map_or(of_query.unwrap_or(DEFAULT_LONGEST), |given| of_query.unwrap_or(given).min(given))
            .max(1)
    }

    /// Whether the second strand is searched.
    pub fn searches_second_strand(&self) -> bool {
        self.both_strands && self.query.kind.has_strands() && !self.query.is_self_complementary()
    }
}

/// The result of a search.
#[derive(Clone, Debug, Default)]
pub struct SearchOutcome {
    /// The hits in order, on rank 0.
    pub hits: Vec<Hit>,
    /// Whether all hits were found: false if the search stopped at the largest number, or was cancelled.
    pub complete: bool,
    /// Residues that were searched.
    pub residues: u64,
    /// Bytes that were read.
    pub bytes: u64,
    /// Seconds of the slowest rank: computing, reading, and everything.
    pub compute: f64,
    /// Reading and waiting for what others read.
    pub io: f64,
    /// Collecting the hits.
    pub talk: f64,
    /// Everything.
    pub total: f64,
    /// The method that found candidates.
    pub method: String,
}

/// Searches files. Collective, with the same arguments on all ranks; an error is an error on all ranks.
pub fn search(
    world: &Comm,
    files: &[DatabaseFile],
    settings: &SearchSettings,
    report: Option<ProgressReport<'_>>,
) -> Result<SearchOutcome> {
    let start = Instant::now();
    ensure!(
        settings.shares.is_empty() || settings.shares.len() == world.size(),
        "{} shares were given for {} ranks; give one for each",
        settings.shares.len(),
        world.size()
    );
    ensure!(
        settings.shares.is_empty() || settings.shares.iter().any(|share| *share > 0),
        "all shares are 0; give at least one rank a part"
    );
    let mut run = SearchRun::new(world, files, settings, report)?;
    let method = run.matcher.method().to_owned();
    let outcomes = run.outcomes()?;
    let talk = Instant::now();
    let residues: u64 = outcomes.iter().map(|placed| placed.outcome.residues).sum();
    let (sums, cancelled) =
        run.cancellation.sum(&[residues, run.rounds.bytes_read, u64::from(run.rounds.was_stopped)])?;
    let local = outcomes.into_iter().flat_map(|placed| placed.into_hits(files, settings.query.kind));
    let local: Vec<Hit> = local.collect();
    let (hits, has_all) = gather_hits(world, &local, settings)?;
    let seconds = |duration: Duration| duration.as_secs_f64();
    let rounds = &run.rounds;
    let times =
        [seconds(rounds.compute), seconds(rounds.io), seconds(talk.elapsed()), seconds(start.elapsed())];
    let times = world.allreduce(Op::Max, &times)?;
    Ok(SearchOutcome {
        complete: has_all && sums[2] == 0 && !cancelled,
        hits,
        residues: sums[0],
        bytes: sums[1],
        compute: times[0],
        io: times[1],
        talk: times[2],
        total: times[3],
        method,
    })
}

struct SearchRun<'a> {
    cancellation: Rc<Cancellation>,
    world: &'a Comm,
    files: &'a [DatabaseFile],
    settings: &'a SearchSettings,
    matcher: Matcher,
    rounds: SearchRounds<'a>,
}

impl<'a> SearchRun<'a> {
    fn new(
        world: &'a Comm,
        files: &'a [DatabaseFile],
        settings: &'a SearchSettings,
        report: Option<ProgressReport<'a>>,
    ) -> Result<Self> {
        let cancellation = Rc::new(Cancellation::new(world, settings.cancel.as_ref())?);
        let matcher = Matcher::new(&settings.query, settings.longest_hit(), settings.every);
        let matcher = matcher.stop_if(cancellation.is_possible().then(|| Rc::clone(&cancellation) as _));
        let report = report.filter(|_| world.rank() == 0);
        let rounds = SearchRounds::new(files, settings, report, Rc::clone(&cancellation));
        Ok(Self { cancellation, world, files, settings, matcher, rounds })
    }

    /// The outcomes of this rank's parts.
    fn outcomes(&mut self) -> Result<Vec<PlacedOutcome>> {
        let mut outcomes = Vec::new();
        let (gzip, divisible): (Vec<usize>, Vec<usize>) =
            (0..self.files.len()).partition(|file| self.files[*file].format == FileFormat::Gzip);
        match self.settings.distribution {
            FileDistribution::Bytes => {
                for file in divisible {
                    outcomes.push(self.cut_file(file)?);
                }
            }
            FileDistribution::Sequences => {
                let mut parts = Vec::new();
                for file in divisible {
                    parts.extend(self.sequences_of(file)?);
                }
                self.whole_parts(parts, &mut outcomes)?;
            }
            FileDistribution::Files => {
                let (rank, ranks) = (self.world.rank(), self.world.size());
                let mine = divisible.into_iter().enumerate().filter(|(at, _)| at % ranks == rank);
                let parts =
                    mine.map(|(_, file)| (self.part(file, 0..self.files[file].length, LineState::Start), 0));
                let parts = parts.collect();
                self.whole_parts(parts, &mut outcomes)?;
            }
        }
        let mut failure = None;
        for (at, file) in gzip.into_iter().enumerate() {
            let reader = if self.settings.input == InputMode::Master { 0 } else { at % self.world.size() };
            if reader == self.world.rank() && failure.is_none() {
                match self.gzip_file(file) {
                    Ok(outcome) => outcomes.push(outcome),
                    Err(error) => failure = Some(error),
                }
            }
        }
        agree(&self.cancellation, failure.as_ref())?;
        Ok(outcomes)
    }

    fn part(&self, file: usize, bytes: std::ops::Range<u64>, state: LineState) -> FilePart {
        FilePart { file, bytes, file_length: self.files[file].length, state }
    }

    fn part_search(&self, file: usize, position: Option<&SequencePosition>) -> PartSearch {
        PartSearch {
            matcher: Some(self.matcher.clone()),
            kind: self.settings.query.kind,
            both_strands: self.settings.searches_second_strand(),
            most: self.settings.most,
            most_bytes: self.settings.most_bytes,
            keeps_lengths: false,
            regions: part_regions(self.settings, self.files, file, position),
        }
    }

    /// Counts residues only.
    fn count_search(&self) -> PartSearch {
        PartSearch::counting(self.settings.query.kind, false)
    }

    /// Searches this rank's part of a file that is cut into one part per rank.
    fn cut_file(&mut self, file: usize) -> Result<PlacedOutcome> {
        let (rank, ranks) = (self.world.rank(), self.world.size());
        let bytes = part_of(self.files[file].length, rank, ranks, &self.settings.shares);
        let state = self.start_state(file, &bytes)?;
        let part = self.part(file, bytes, state);
        let mut position = None;
        if self.settings.within.is_some() {
            // Regions are positions in whole sequences: these must be known before the search.
            let counted = RangeSearch::new(part.clone(), self.count_search(), self.settings.buffer);
            let counted = self.rounds.run_together(self.world, file, counted)?.into_outcome();
            position = Some(self.place(&counted)?.0);
        }
        let search = RangeSearch::new(part, self.part_search(file, position.as_ref()), self.settings.buffer);
        let outcome = self.rounds.run_together(self.world, file, search)?.into_outcome();
        let (position, name) = self.place(&outcome)?;
        Ok(PlacedOutcome { file, position, name, outcome })
    }

    /// What the first byte of this rank's part is inside of.
    fn start_state(&mut self, file: usize, bytes: &std::ops::Range<u64>) -> Result<LineState> {
        let probe = LineProbe::new(file, bytes.clone(), self.settings.buffer);
        let probe = self.rounds.run_together(self.world, file, probe)?;
        let codes = self.world.allgather(&[probe.code()])?;
        Ok(state_before(&codes[..self.world.rank()]))
    }

    /// Counts the sequences of a file that is cut into one part per rank.
    fn count_file(&mut self, file: usize) -> Result<PartOutcome> {
        let bytes = part_of(self.files[file].length, self.world.rank(), self.world.size(), &[]);
        let state = self.start_state(file, &bytes)?;
        let search = PartSearch::counting(self.settings.query.kind, true);
        let search = RangeSearch::new(self.part(file, bytes, state), search, self.settings.buffer);
        Ok(self.rounds.run_together(self.world, file, search)?.into_outcome())
    }

    /// The position of this rank's first residue, and the name of its sequence.
    fn place(&self, outcome: &PartOutcome) -> Result<(SequencePosition, String)> {
        let counts = self.world.allgather(&[outcome.headers, outcome.tail])?;
        let name = if outcome.headers > 0 { outcome.last_name.as_bytes() } else { &[] };
        let names = self.world.allgather_varied(name)?;
        let (mut position, mut last) = (SequencePosition::default(), String::new());
        for (rank, count) in counts.chunks_exact(2).take(self.world.rank()).enumerate() {
            position.sequence += count[0];
            if count[0] > 0 {
                position.residues = 0;
                last = String::from_utf8_lossy(&names[rank]).into_owned();
            }
            position.residues += count[1];
        }
        Ok((position, last))
    }

    /// The sequences of a file that belong to this rank, each with the number of headers before it.
    fn sequences_of(&mut self, file: usize) -> Result<Vec<(FilePart, u64)>> {
        let (rank, ranks, length) = (self.world.rank(), self.world.size(), self.files[file].length);
        let bytes = part_of(length, rank, ranks, &[]);
        let state = self.start_state(file, &bytes)?;
        let search =
            RangeSearch::new(self.part(file, bytes, state), self.count_search(), self.settings.buffer);
        let counted = self.rounds.run_together(self.world, file, search)?.into_outcome();
        let headers: Vec<u64> = self.world.allgather_varied(&counted.header_offsets)?.concat();
        let bounds: Vec<u64> = [&[0], &headers[..], &[length]].concat();
        let all = bounds.windows(2).enumerate().filter(|(number, _)| number % ranks == rank);
        let parts = all.map(|(number, bounds)| {
            (self.part(file, bounds[0]..bounds[1], LineState::Start), (number as u64).saturating_sub(1))
        });
        Ok(parts.filter(|(part, _)| !part.bytes.is_empty()).collect())
    }

    /// Searches parts that begin with a header or a file.
    fn whole_parts(&mut self, parts: Vec<(FilePart, u64)>, outcomes: &mut Vec<PlacedOutcome>) -> Result<()> {
        let placed =
            parts.into_iter().map(|(part, sequence)| (part, SequencePosition { sequence, residues: 0 }));
        let placed = placed.collect();
        let (settings, files) = (self.settings, self.files);
        let regions =
            |file: usize, position: &SequencePosition| part_regions(settings, files, file, Some(position));
        let prototype = self.part_search(0, None);
        let done = self.rounds.run_whole(self.world, placed, prototype, regions)?;
        let placed =
            |(file, position, outcome)| PlacedOutcome { file, position, name: String::new(), outcome };
        outcomes.extend(done.into_iter().map(placed));
        Ok(())
    }

    fn gzip_file(&mut self, file: usize) -> Result<PlacedOutcome> {
        let position = SequencePosition::default();
        let outcome = self.whole_gzip(file, self.part_search(file, Some(&position)))?;
        Ok(PlacedOutcome { file, position, name: String::new(), outcome })
    }

    fn whole_gzip(&mut self, file: usize, search: PartSearch) -> Result<PartOutcome> {
        let part = FilePart { file, bytes: 0..u64::MAX, file_length: u64::MAX, state: LineState::Start };
        let mut search = RangeSearch::new(part, search, self.settings.buffer);
        search_gzip(self.world, &self.files[file], &mut search, &mut self.rounds)?;
        Ok(search.into_outcome())
    }
}

fn part_regions(
    settings: &SearchSettings,
    files: &[DatabaseFile],
    file: usize,
    position: Option<&SequencePosition>,
) -> PartRegions {
    let (regions, position) = settings.within.as_ref().zip(position)?;
    Some((Arc::clone(regions), files[file].name.clone(), position.clone()))
}

/// If any rank has an error, an error on all ranks.
fn agree(cancellation: &Cancellation, failure: Option<&anyhow::Error>) -> Result<()> {
    let (failed, _) = cancellation.sum(&[u64::from(failure.is_some())])?;
    if failed[0] == 0 {
        return Ok(());
    }
    let message = failure.map_or(String::new(), |error| format!("{error:#}"));
    let all = cancellation.world().allgather_varied(message.as_bytes())?;
    let first = all.iter().find(|message| !message.is_empty());
    bail!("{}", first.map_or("a rank failed".into(), |message| String::from_utf8_lossy(message)))
}
