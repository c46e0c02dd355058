//! Executes all patterns on some of the ranks.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result};
use aqueduct::comm::{Comm, Op};
use aqueduct_patterns::{
    Coordination, DatatypeTree, FileInterface, FilePosition, PatternFile, PatternOpenOptions, ViewTree,
};

use super::{EffectiveMethod, EffectivePattern, EffectiveType, PatternMeasurement, TypeMeasurement};
use crate::bench::target::{TargetArguments, agree, delete_one};

/// The unit of the lengths of segments.
const SEGMENT_UNIT: u64 = 1 << 20;

/// What a partition measured.
type Measured = (Vec<PatternMeasurement>, Vec<TypeMeasurement>);

/// Some ranks, and how they access files.
pub(super) struct PartitionRun<'a> {
    pub(super) world: &'a Comm,
    pub(super) interface: &'a FileInterface,
    pub(super) ranks: usize,
    /// The prefix of the file names and the hints.
    pub(super) target: &'a TargetArguments,
    /// The time of one unit.
    pub(super) unit_seconds: f64,
    pub(super) rewrites_all: bool,
}

/// The state of a rank of the partition.
struct PatternRank<'a> {
    run: &'a PartitionRun<'a>,
    comm: Comm,
    memory: Vec<u8>,
    /// Repetitions of each pattern, from the first write on.
    repetitions: [u64; 43],
    /// Bytes of the segment of each rank in types 3 and 4.
    segment: u64,
}

impl PartitionRun<'_> {
    /// All types by all methods. Collective over the world; what rank 0 returns counts.
    pub(super) fn execute(&self, patterns: &[EffectivePattern]) -> Result<Measured> {
        let members: Vec<usize> = (0..self.ranks).collect();
        let comm = if self.ranks == self.world.size() {
            Some(self.world.dup()?)
        } else {
            self.world.subgroup(&members)?
        };
        // A rank that fails leaves: the others get an error in their next collective call.
        let measured = comm.map_or_else(|| Ok(Measured::default()), |comm| self.execute_on(comm, patterns));
        let measured =
            measured.with_context(|| format!("{} ranks, {}", self.ranks, self.interface.name()))?;
        self.world.barrier()?;
        Ok(measured)
    }

    fn execute_on(&self, comm: Comm, patterns: &[EffectivePattern]) -> Result<Measured> {
        let largest = patterns.iter().map(|pattern| pattern.memory).max().unwrap_or(0);
        let memory = vec![0u8; largest.max(2 * SEGMENT_UNIT) as usize];
        let mut rank = PatternRank { run: self, comm, memory, repetitions: [0; 43], segment: 0 };
        let mut measured = Measured::default();
        for kind in EffectiveType::ALL {
            let of_file =
                if kind == EffectiveType::Separate { rank.comm.comm_self() } else { rank.comm.clone() };
            self.target.refuse_existing(&of_file, &rank.path(kind))?;
        }
        let outcome = (|| {
            for method in EffectiveMethod::ALL {
                for kind in EffectiveType::ALL {
                    let is_rewritten = self.rewrites_all || kind == EffectiveType::Scatter;
                    if method != EffectiveMethod::Rewrite || is_rewritten {
                        rank.execute_type(patterns, kind, method, &mut measured)?;
                    }
                }
            }
            anyhow::Ok(())
        })();
        let deleted = EffectiveType::ALL.into_iter().try_for_each(|kind| rank.delete(kind));
        outcome.and(deleted).map(|()| measured)
    }
}

impl PatternRank<'_> {
    fn path(&self, kind: EffectiveType) -> PathBuf {
        let base = format!("{}.type-{}", self.run.target.file, kind as usize);
        PathBuf::from(if kind == EffectiveType::Separate {
            format!("{base}-{}", self.comm.rank())
        } else {
            base
        })
    }

    fn delete(&self, kind: EffectiveType) -> Result<()> {
        let is_mine = kind == EffectiveType::Separate || self.comm.rank() == 0;
        if is_mine { delete_one(&self.path(kind)) } else { Ok(()) }
    }

    /// All patterns of a type by a method: from before it is opened until after it is closed.
    fn execute_type(
        &mut self,
        patterns: &[EffectivePattern],
        kind: EffectiveType,
        method: EffectiveMethod,
        measured: &mut Measured,
    ) -> Result<()> {
        let comm = self.comm.clone();
        let own = comm.comm_self();
        let of_file = if kind == EffectiveType::Separate { &own } else { &comm };
        if method == EffectiveMethod::Write {
            self.plan_segments(patterns, kind);
            agree(&comm, self.delete(kind))?;
        }
        comm.barrier()?;
        let start = Instant::now();
        let options = PatternOpenOptions {
            create: method == EffectiveMethod::Write,
            read_only: method == EffectiveMethod::Read,
            direct: false,
            hints: self.run.target.hints.clone(),
        };
        let mut file = self.run.interface.open(of_file, &self.path(kind), &options)?;
        let (mut place, mut bytes) = (0, 0);
        for pattern in patterns.iter().filter(|pattern| pattern.kind == kind) {
            let measurement = self.execute_pattern(&mut *file, pattern, method, &mut place)?;
            bytes += measurement.bytes;
            measured.0.push(measurement);
        }
        file.close()?;
        comm.barrier()?;
        let seconds = comm.allreduce_one(Op::Max, start.elapsed().as_secs_f64())?;
        measured.1.push(TypeMeasurement { kind, method, bytes, seconds });
        Ok(())
    }

    /// The repetitions of types 3 and 4, which follow from those of types 0 to 2, so that the length of a segment is known.
    fn plan_segments(&mut self, patterns: &[EffectivePattern], kind: EffectiveType) {
        if !matches!(kind, EffectiveType::Segmented | EffectiveType::SegmentedCollective) {
            return;
        }
        let of_type = |kind: EffectiveType, chunk: u64| {
            // Type 0 has two patterns of 1 MiB after the first one, which only warms up; the later one has calls of one chunk.
            let mut same =
                patterns.iter().filter(move |pattern| pattern.kind == kind && pattern.chunk == chunk);
            same.rfind(|pattern| pattern.units > 0)
        };
        let mut used = 0;
        for pattern in patterns.iter().filter(|pattern| pattern.kind == kind && pattern.chunk > 0) {
            let repetitions = |kind: EffectiveType| {
                let found = of_type(kind, pattern.chunk);
                found.map_or((1, pattern.chunk), |found| (self.repetitions[found.number], found.memory))
            };
            let ((scatter, memory), (shared, _), (separate, _)) = (
                repetitions(EffectiveType::Scatter),
                repetitions(EffectiveType::Shared),
                repetitions(EffectiveType::Separate),
            );
            let least = (scatter * memory / pattern.chunk).min(10 * shared).min(separate).max(1);
            self.repetitions[pattern.number] = if pattern.units == 0 { 1 } else { least };
            used += self.repetitions[pattern.number] * pattern.chunk;
        }
        self.segment = used.next_multiple_of(SEGMENT_UNIT);
    }

    /// One pattern. `place` is where its data begins: in the file for type 0, else in the part of this rank.
    fn execute_pattern(
        &mut self,
        file: &mut dyn PatternFile,
        pattern: &EffectivePattern,
        method: EffectiveMethod,
        place: &mut u64,
    ) -> Result<PatternMeasurement> {
        let is_time_driven = method == EffectiveMethod::Write
            && matches!(
                pattern.kind,
                EffectiveType::Scatter | EffectiveType::Shared | EffectiveType::Separate
            );
        let (rank, ranks) = (self.comm.rank() as u64, self.comm.size() as u64);
        let scheduled = self.run.unit_seconds * pattern.units as f64;
        // The rest of the segment is one call, if something is left.
        let memory = if pattern.chunk > 0 { pattern.memory } else { self.segment - *place };
        let (mut repetition, mut errors) = (0, 0);
        self.comm.barrier()?;
        let start = Instant::now();
        if pattern.kind == EffectiveType::Scatter {
            let file_type = DatatypeTree::Bytes(pattern.chunk).resized(pattern.chunk * ranks);
            let displacement = *place + pattern.chunk * rank;
            file.set_view(&ViewTree { displacement, etype: DatatypeTree::Bytes(1), file_type })?;
        }
        let most = match (is_time_driven, pattern.chunk) {
            (true, _) => u64::MAX,
            (false, 0) => u64::from(memory > 0),
            (false, _) => self.repetitions[pattern.number],
        };
        while repetition < most {
            let at = self.position(pattern, *place, memory, repetition);
            let seed = seed(pattern.number, repetition, rank);
            errors += self.access(file, pattern, method, at, memory, seed)?;
            repetition += 1;
            if is_time_driven {
                self.comm.barrier()?;
                let elapsed = start.elapsed().as_secs_f64();
                let goes_on = elapsed * (repetition + 1) as f64 / repetition as f64 <= scheduled;
                let mut decision = [u8::from(goes_on)];
                self.comm.broadcast(0, &mut decision)?;
                if decision[0] == 0 {
                    break;
                }
            }
        }
        if method != EffectiveMethod::Read {
            file.sync()?;
        }
        self.comm.barrier()?;
        let seconds = self.comm.allreduce_one(Op::Max, start.elapsed().as_secs_f64())?;
        if is_time_driven {
            self.repetitions[pattern.number] = repetition;
        }
        let shares = if pattern.kind == EffectiveType::Scatter { ranks } else { 1 };
        *place += repetition * memory * shares;
        let (bytes, errors) = (repetition * memory * ranks, self.comm.allreduce_one(Op::Sum, errors)?);
        Ok(PatternMeasurement { pattern: *pattern, method, repetitions: repetition, bytes, seconds, errors })
    }

    fn position(&self, pattern: &EffectivePattern, place: u64, memory: u64, repetition: u64) -> FilePosition {
        match pattern.kind {
            EffectiveType::Scatter => FilePosition::Offset(repetition * memory),
            EffectiveType::Shared => FilePosition::Shared,
            EffectiveType::Separate => FilePosition::Offset(place + repetition * memory),
            EffectiveType::Segmented | EffectiveType::SegmentedCollective => {
                let first = self.segment * self.comm.rank() as u64;
                FilePosition::Offset(first + place + repetition * memory)
            }
        }
    }

    /// One call. Before a write the first and the last number of each chunk are set, after a read they are compared; how many differ.
    fn access(
        &mut self,
        file: &mut dyn PatternFile,
        pattern: &EffectivePattern,
        method: EffectiveMethod,
        at: FilePosition,
        memory: u64,
        seed: u64,
    ) -> Result<u64> {
        let chunk = if pattern.chunk > 0 { pattern.chunk } else { memory };
        let coordination = match pattern.kind {
            EffectiveType::Separate | EffectiveType::Segmented => Coordination::Independent,
            _ => Coordination::Collective,
        };
        // What is read was written by the last method that wrote the type.
        let is_rewritten = self.run.rewrites_all || pattern.kind == EffectiveType::Scatter;
        let written_by = match method {
            EffectiveMethod::Read if is_rewritten => EffectiveMethod::Rewrite,
            EffectiveMethod::Read => EffectiveMethod::Write,
            writing => writing,
        };
        let bytes = &mut self.memory[..memory as usize];
        let numbers = |number: usize| {
            let first =
                seed.wrapping_add(written_by as u64) ^ (number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            [first.to_le_bytes(), (!first).to_le_bytes()]
        };
        if method != EffectiveMethod::Read {
            for (number, chunk) in bytes.chunks_exact_mut(chunk as usize).enumerate() {
                let [first, last] = numbers(number);
                let end = chunk.len() - 8;
                // A chunk of one number has the first one.
                chunk[end..].copy_from_slice(&last);
                chunk[..8].copy_from_slice(&first);
            }
            file.write(at, coordination, bytes)?;
            return Ok(0);
        }
        file.read(at, coordination, bytes)?;
        let mut errors = 0;
        for (number, chunk) in bytes.chunks_exact_mut(chunk as usize).enumerate() {
            let [first, last] = numbers(number);
            let end = chunk.len() - 8;
            errors += u64::from(chunk[..8] != first) + u64::from(end > 0 && chunk[end..] != last);
            // Else the numbers of this call could be mistaken for those of the next.
            chunk[..8].fill(0);
            chunk[end..].fill(0);
        }
        Ok(errors)
    }
}

fn seed(pattern: usize, repetition: u64, rank: u64) -> u64 {
    (pattern as u64) << 56 | (rank & 0xffff) << 40 | (repetition & 0xff_ffff_ffff)
}
