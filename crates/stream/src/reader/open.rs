//! Opening a stream file: the header, the description, and the valid records.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use aqueduct_comm::{Comm, Op};
use aqueduct_file::prefetcher::Prefetcher;
use aqueduct_file::{self as file, File};

use super::{IncompleteStep, PREFETCH_CAP, Reader, StoredStep};
use crate::declare::stream_info::StreamInfo;
use crate::error::{Error, Kind, Result, agree};
use crate::steps_file::{
    checksum_matches, decode_records, durable_records, read_header, read_steps_file, record_bytes, steps_name,
};
use crate::steps_format::{RecordType, StepRecord, record_size};

/// The time between two looks at a file that is being written: the shortest at first, then twice as long each time.
const SHORTEST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(250);

impl Reader {
    /// Opens a stream file and determines the complete steps. Collective; reading is independent.
    pub fn open(comm: &Comm, name: &str) -> Result<Self> {
        let open = |name: &str| File::open(comm, name);
        let steps = open(&steps_name(name)).map_err(|error| missing(comm, name, error))?;
        let data = open(name).map_err(|error| without_data(name, error))?;
        let found = agree(comm, "open", name, read_steps_file(name, &steps))?;
        let mut reader = Self {
            name: name.into(),
            comm: comm.clone(),
            data,
            streams: found.abouts,
            header: found.header,
            points: found.points,
            written_by: found.written_by,
            records: Vec::new(),
            stored_steps: Vec::new(),
            incomplete_steps: Vec::new(),
            finished: false,
            checked: true,
            verified: Mutex::default(),
            prefetcher: Mutex::new(Prefetcher::new(PREFETCH_CAP)),
        };
        reader.add_records(&steps, 0)?;
        steps.close()?;
        Ok(reader)
    }

    /// Looks for new complete steps of a program that is writing the file; the number of new ones. Steps that were known
    /// stay, unless the program was restarted from an earlier checkpoint: those that it has taken back are forgotten until
    /// they are written again. Collective; reading is independent.
    ///
    /// There are no locks. Both files are opened again, so that a file system with close-to-open consistency shows what was
    /// written; the checksum of each step decides whether all of it has arrived.
    ///
    /// ```
    /// # use aqueduct_comm::Launch;
    /// # use aqueduct_stream::{OutputMode, Options, Reader, Stream, Streams};
    /// # Launch::threads(1).run(|world| {
    /// # let mut streams = Streams::new();
    /// # let level = streams.add::<f64>(Stream::array("level", [4]).block([0], [4]));
    /// # let mut output = Options::new().mode(OutputMode::Blocking).create(world, "memfs:followed", &streams)?;
    /// output.step()?.put(level, &[0.5; 4]).commit()?;
    /// let mut reader = Reader::open(world, "memfs:followed")?;
    /// assert_eq!(reader.stored_steps().len(), 1);
    /// output.step()?.put(level, &[1.5; 4]).commit()?;
    /// assert_eq!(reader.refresh()?, 1);
    /// assert_eq!(reader.read::<f64>("level", reader.step(1).unwrap())?, [1.5; 4]);
    /// # output.finish()?;
    /// # Ok::<_, aqueduct_stream::Error>(())
    /// # })?;
    /// # Ok::<(), aqueduct_comm::Error>(())
    /// ```
    pub fn refresh(&mut self) -> Result<u64> {
        if self.finished {
            return Ok(0);
        }
        let (comm, name) = (self.comm.clone(), Arc::clone(&self.name));
        let steps = File::open(&comm, steps_name(&name))?;
        self.lock_prefetcher().clear();
        self.data = File::open(&comm, &*name)?;
        let same = read_header(&name, &steps).and_then(|header| {
            let detail = "another output has replaced the file since it was opened; open it again";
            if header == self.header {
                Ok(())
            } else {
                Err(Error::new(Kind::Damaged, "refresh", &*name, detail))
            }
        });
        agree(&comm, "refresh", &name, same)?;
        // From the first record on that was not complete; records that are gone were taken back.
        let first = self.incomplete_steps.first().map_or(self.records.len() as u64, |lost| lost.record);
        let each = record_size(self.streams.len()) as u64;
        let count = steps.size().map(|size| size.saturating_sub(self.header.records) / each);
        let count = agree(&comm, "refresh", &name, count)?;
        let least =
            comm.allreduce_one(Op::Min, count).map_err(|error| Error::from_comm("refresh", &name, &error))?;
        let known = self.stored_steps.len();
        self.forget_records(first.min(least));
        self.add_records(&steps, first.min(least))?;
        steps.close()?;
        Ok(self.stored_steps.len().saturating_sub(known) as u64)
    }

    /// Waits until there is a new complete step, or the program has ended the output: the number of new steps. 0 after
    /// `limit` without one, and at the end. Collective.
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # use aqueduct_stream::Reader;
    /// # fn follow(world: &aqueduct_comm::Comm) -> Result<(), aqueduct_stream::Error> {
    /// let mut reader = Reader::open(world, "run.out")?;
    /// let mut seen = 0;
    /// while !reader.is_finished() && reader.wait(Duration::from_secs(60))? > 0 {
    ///     for stored in &reader.stored_steps()[seen..] {
    ///         println!("step {}", stored.step);
    ///     }
    ///     seen = reader.stored_steps().len();
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn wait(&mut self, limit: Duration) -> Result<u64> {
        let begin = Instant::now();
        let mut pause = SHORTEST_PAUSE;
        loop {
            let new = self.refresh()?;
            // The ranks end together, although their clocks differ.
            let over = u64::from(begin.elapsed() >= limit);
            let over = self.comm.allreduce_one(Op::Max, over);
            let over = over.map_err(|error| Error::from_comm("refresh", &self.name, &error))? > 0;
            if new > 0 || self.finished || over {
                return Ok(new);
            }
            std::thread::sleep(pause.min(limit));
            pause = (2 * pause).min(LONGEST_PAUSE);
        }
    }

    /// Forgets the records from this number on.
    fn forget_records(&mut self, first: u64) {
        let kept = self.records.partition_point(|record| record.number < first);
        self.records.truncate(kept);
        self.stored_steps.truncate(kept);
        self.verified.get_mut().unwrap_or_else(PoisonError::into_inner).truncate(kept);
        self.incomplete_steps.clear();
    }

    /// Adds the records from this number on, which rank 0 reads for all: the file may be growing. Collective.
    fn add_records(&mut self, steps: &File, first: u64) -> Result<()> {
        let (comm, name) = (self.comm.clone(), Arc::clone(&self.name));
        let lost = |error: aqueduct_comm::Error| Error::from_comm("open", &name, &error);
        let mine = if comm.rank() == 0 { record_bytes(steps, &self.header, first) } else { Ok(Vec::new()) };
        let bytes = comm.broadcast_vec(0, agree(&comm, "open", &name, mine)?).map_err(lost)?;
        let records = decode_records(&bytes, &self.header, first);
        let durable = durable_records(&records);
        let complete = check_complete(&comm, &name, (&self.data, &self.streams), (&records, first, durable))?;
        let size = one_size(&comm, &name, &self.data)?;
        let begin = self.records.last().map_or(0, |last| last.start.saturating_add(last.length)).min(size);
        let places = places(&records, begin, size);
        for (at, (record, complete)) in records.into_iter().zip(complete).enumerate() {
            let number = first + at as u64;
            self.enter(number, record, complete, number < durable, &places[at]);
        }
        let rest = places[places.len() - 1].clone();
        let is_new = self.incomplete_steps.last().is_none_or(|last| last.bytes.end < rest.end);
        if !self.finished && is_new && !rest.is_empty() {
            let record = first + places.len() as u64 - 1;
            self.incomplete_steps.push(IncompleteStep {
                record,
                step: None,
                was_durable: false,
                bytes: rest,
            });
        }
        Ok(())
    }

    /// Adds a record.
    fn enter(
        &mut self,
        number: u64,
        record: Option<StepRecord>,
        complete: bool,
        was_durable: bool,
        bytes: &Range<u64>,
    ) {
        let step = record.as_ref().map(|record| record.step);
        let Some(record) = record.filter(|_| complete) else {
            self.incomplete_steps.push(IncompleteStep {
                record: number,
                step,
                was_durable,
                bytes: bytes.clone(),
            });
            return;
        };
        match record.record_type {
            RecordType::End => self.finished = true,
            of => {
                let (step, is_closing) = (record.step, of == RecordType::Closing);
                self.stored_steps.push(StoredStep { step, is_closing, record: self.records.len() });
                self.records.push(record);
                // Records that were not durable were compared with their checksums already.
                self.verified.get_mut().unwrap_or_else(PoisonError::into_inner).push(!was_durable);
            }
        }
    }
}

/// The bytes of the data that belong to each record, as far as they exist; last those without a record. For a record
/// that cannot be read, the bytes between its neighbours.
fn places(records: &[Option<StepRecord>], begin: u64, size: u64) -> Vec<Range<u64>> {
    let bytes = |record: &StepRecord| record.start..record.start.saturating_add(record.length);
    places_of(records.len(), begin..size, |number| records[number].as_ref().map(bytes))
}

/// The same for this number of records, each of which is visited twice: `bytes` returns the bytes of a record, unless
/// it cannot be read.
fn places_of(count: usize, all: Range<u64>, bytes: impl Fn(usize) -> Option<Range<u64>>) -> Vec<Range<u64>> {
    // The start of the bytes after all earlier records, and the end of the bytes before all later ones.
    let Range { start: mut begin, end: size } = all;
    let mut places = Vec::with_capacity(count + 1);
    for number in 0..count {
        let own = bytes(number);
        places.push(begin..size);
        begin = own.map_or(begin, |own| own.end.min(size).max(begin));
    }
    places.push(begin..size);
    let mut end = size;
    for (number, place) in places.iter_mut().enumerate().take(count).rev() {
        match bytes(number) {
            Some(own) => {
                *place = own.start.min(size)..own.end.min(size);
                end = end.min(own.start);
            }
            None => place.end = end.max(place.start),
        }
    }
    places
}

/// The length of the data, the same on all ranks: the file may be growing. Collective.
fn one_size(comm: &Comm, name: &str, data: &File) -> Result<u64> {
    let mut size = [agree(comm, "open", name, data.size())?];
    comm.broadcast(0, &mut size).map_err(|error| Error::from_comm("open", name, &error))?;
    Ok(size[0])
}

/// The error of a missing `.steps` as an error of the stream file. All ranks have the same error.
fn missing(comm: &Comm, name: &str, error: file::Error) -> Error {
    let refuse = |detail: &str| Error::new(error.kind(), "open", name, detail);
    match error.kind() {
        file::Kind::NoSuchFile if File::open(&comm.comm_self(), name).is_ok() => refuse(
            "there is no .steps beside it: it is not a stream file, or was moved without it; move both together",
        ),
        file::Kind::NoSuchFile => refuse("the stream file does not exist; check its name"),
        file::Kind::BadName => refuse(error.detail()),
        _ => error,
    }
}

/// The error of missing data.
fn without_data(name: &str, error: file::Error) -> Error {
    if error.kind() != file::Kind::NoSuchFile {
        return error;
    }
    let detail = "only its .steps exists, the data is gone; move both files together";
    Error::new(error.kind(), "open", name, detail)
}

/// Which of the records, whose numbers begin with `first`, are of complete batches. The ranks compare checksums in turn.
/// Collective.
fn check_complete(
    comm: &Comm,
    name: &str,
    (data, abouts): (&File, &[StreamInfo]),
    (records, first, durable): (&[Option<StepRecord>], u64, u64),
) -> Result<Vec<bool>> {
    let mut complete: Vec<u64> = vec![0; records.len()];
    let mut outcome = Ok(());
    let undecided = records.iter().enumerate().filter_map(|(at, record)| Some((at, record.as_ref()?)));
    for (turn, (at, record)) in undecided.enumerate() {
        if turn % comm.size() != comm.rank() {
            continue;
        }
        let right = first + (at as u64) < durable
            || checksum_matches(data, abouts, record, None).unwrap_or_else(|error| {
                outcome = Err(error);
                false
            });
        complete[at] = u64::from(right);
    }
    agree(comm, "open", name, outcome)?;
    let all = comm.allreduce(Op::Max, &complete).map_err(|error| Error::from_comm("open", name, &error))?;
    Ok(all.into_iter().map(|complete| complete == 1).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use aqueduct_testkit::rng::SeededRng;
    use std::cell::Cell;

    /// The places by their definition.
    fn model(records: &[Option<Range<u64>>], size: u64) -> Vec<Range<u64>> {
        let between = |number: usize| {
            let before = records[..number].iter().flatten().map(|own| own.end).max().unwrap_or(0).min(size);
            let after = records[number..].iter().flatten().map(|own| own.start).min();
            before..after.unwrap_or(size).clamp(before, size)
        };
        let place = |number: usize| match records.get(number) {
            Some(Some(own)) => own.start.min(size)..own.end.min(size),
            Some(None) | None => between(number),
        };
        (0..=records.len()).map(place).collect()
    }

    #[test]
    fn places_of_random_records_are_those_of_the_model() {
        for number in 0..2000 {
            let mut seed = SeededRng::new(number);
            let size = seed.number() % 50;
            let count = seed.below(8);
            let records: Vec<Option<Range<u64>>> = (0..count)
                .map(|_| {
                    let start = seed.number() % 60;
                    let end = start + seed.number() % 20;
                    (seed.below(2) == 0).then_some(start..end)
                })
                .collect();
            let found = places_of(count, 0..size, |number| records[number].clone());
            assert_eq!(found, model(&records, size), "seed {number}: {records:?} of {size} bytes");
        }
    }

    /// A tail of zeros, as a file system may leave it: each record is visited twice, whatever their number.
    #[test]
    fn unreadable_records_have_constant_cost() {
        const COUNT: usize = 100_000;
        let looks = Cell::new(0);
        let places = places_of(COUNT, 0..1 << 20, |number| {
            looks.set(looks.get() + 1);
            (number == 0).then_some(0..512)
        });
        assert_eq!((places.len(), looks.get()), (COUNT + 1, 2 * COUNT));
        assert_eq!(
            (&places[0], &places[COUNT - 1], &places[COUNT]),
            (&(0..512), &(512..1 << 20), &(512..1 << 20))
        );
    }
}
