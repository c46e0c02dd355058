//! Agreement between ranks: on the outcome of a collective operation, and on whether all ranks gave the same argument.
//!
//! ```
//! use aqueduct_comm::agreement::{SharedError, agree, agree_same, hash_of};
//! use aqueduct_comm::{Error, Launch};
//!
//! #[derive(Debug)]
//! struct FileError(String);
//!
//! impl SharedError for FileError {
//!     fn encode(&self) -> (u8, &str) {
//!         (0, &self.0)
//!     }
//!     fn decode(operation: &'static str, name: &str, _: u8, detail: String, rank: usize) -> Self {
//!         Self(format!("{operation} {name} on rank {rank}: {detail}"))
//!     }
//!     fn resolve(self, _agreed: Self) -> Self {
//!         self
//!     }
//!     fn not_same(operation: &'static str, name: &str, detail: String, rank: usize) -> Self {
//!         Self::decode(operation, name, 0, detail, rank)
//!     }
//!     fn from_comm(_: &'static str, _: &str, error: &Error) -> Self {
//!         Self(error.to_string())
//!     }
//! }
//!
//! let outcomes = Launch::threads(3).run(|world| {
//!     let mine = if world.rank() == 1 { Err(FileError("disk full".into())) } else { Ok(()) };
//!     let failed = agree(world, "write", "a.dat", mine).unwrap_err().0;
//!     let size = if world.rank() == 2 { 20 } else { 10 };
//!     let differs = agree_same(world, "resize", "a.dat", Ok(()), "size", Some(hash_of(&size)), []);
//!     let differs = differs.map_err(|error: FileError| error.0).unwrap_err();
//!     assert!(differs.starts_with("resize a.dat on rank 2: the size differs from that of rank 0"));
//!     Ok::<_, Error>(failed)
//! })?;
//! assert_eq!(outcomes, ["write a.dat on rank 1: disk full", "disk full", "write a.dat on rank 1: disk full"]);
//! # Ok::<(), Error>(())
//! ```

use std::hash::{DefaultHasher, Hash, Hasher};

use crate::{Comm, Error, Op};

/// An error that a rank can send to the other ranks.
pub trait SharedError: Sized {
    /// The kind of the error as a number, and its text.
    fn encode(&self) -> (u8, &str);

    /// The error that rank `rank` has encoded, in `operation` on the file `name`.
    fn decode(operation: &'static str, name: &str, code: u8, detail: String, rank: usize) -> Self;

    /// What a rank returns that failed with `self`, when the ranks agreed on the error of another rank.
    #[must_use]
    fn resolve(self, agreed: Self) -> Self;

    /// An argument of rank `rank` differs from that of rank 0.
    fn not_same(operation: &'static str, name: &str, detail: String, rank: usize) -> Self;

    /// The agreement itself failed.
    fn from_comm(operation: &'static str, name: &str, error: &Error) -> Self;
}

/// The agreed outcome of a collective operation: if any rank failed, every rank fails with the error of the lowest rank that failed. A rank with
/// an error of its own may keep it; see [`SharedError::resolve`]. One reduction, and a broadcast if a rank failed.
pub fn agree<T, E: SharedError>(
    comm: &Comm,
    operation: &'static str,
    name: &str,
    mine: Result<T, E>,
) -> Result<T, E> {
    agree_comparing(comm, operation, name, mine, [], []).map(|agreed: AgreedValues<T, 0, 0>| agreed.outcome)
}

/// As [`agree`], with the maximum of each number over all ranks, in the same reduction.
pub fn agree_with_max<T, E: SharedError, const N: usize>(
    comm: &Comm,
    operation: &'static str,
    name: &str,
    mine: Result<T, E>,
    numbers: [u64; N],
) -> Result<(T, [u64; N]), E> {
    let agreed = agree_comparing(comm, operation, name, mine, [], numbers)?;
    Ok((agreed.outcome, agreed.maxima))
}

/// As [`agree`], and for each flag whether it is set on all ranks, in the same reduction.
pub fn agree_with_flags<T, E: SharedError, const N: usize>(
    comm: &Comm,
    operation: &'static str,
    name: &str,
    mine: Result<T, E>,
    flags: [bool; N],
) -> Result<(T, [bool; N]), E> {
    let is_unset = flags.map(|flag| u64::from(!flag));
    let (mine, any_unset) = agree_with_max(comm, operation, name, mine, is_unset)?;
    Ok((mine, any_unset.map(|unset| unset == 0)))
}

/// As [`agree_with_max`], and all ranks fail if they gave different values of the argument `what`; the error names the first rank that differs.
/// The value of a large argument is its [hash](hash_of). A rank without a value is not compared.
pub fn agree_same<T, E: SharedError, const N: usize>(
    comm: &Comm,
    operation: &'static str,
    name: &str,
    mine: Result<T, E>,
    what: &str,
    value: Option<u64>,
    numbers: [u64; N],
) -> Result<(T, [u64; N]), E> {
    let agreed = agree_comparing(comm, operation, name, mine, [value], numbers)?;
    match agreed.differing {
        [Some(rank)] => Err(differing_argument(operation, name, what, rank)),
        [None] => Ok((agreed.outcome, agreed.maxima)),
    }
}

/// The error of an argument `what` whose value on rank `rank` differs from that of rank 0.
pub fn differing_argument<E: SharedError>(operation: &'static str, name: &str, what: &str, rank: usize) -> E {
    let detail = format!("the {what} differs from that of rank 0; give the same on all ranks");
    E::not_same(operation, name, detail, rank)
}

/// For each value the first rank whose value differs from that of the lowest rank; none if it is the same on all ranks. Ranks without a value
/// are not compared. One reduction.
pub fn first_differing_ranks<const N: usize>(
    comm: &Comm,
    values: [Option<u64>; N],
) -> Result<[Option<usize>; N], Error> {
    let entries = values.map(|value| ReductionEntry::compared(comm, value));
    let merged = comm.allreduce_with(&entries, ReductionEntry::merge)?;
    Ok(std::array::from_fn(|at| merged[at].differing_rank()))
}

/// A hash for comparing an argument between the ranks of a program.
pub fn hash_of(value: &(impl Hash + ?Sized)) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// Bytes that rank 0 computed, on all ranks; if it failed, its error on all ranks. The results of other ranks are ignored. One broadcast.
pub fn from_root<E: SharedError>(
    comm: &Comm,
    operation: &'static str,
    name: &str,
    mine: Result<Vec<u8>, E>,
) -> Result<Vec<u8>, E> {
    let message = match &mine {
        _ if comm.rank() > 0 => Vec::new(),
        Ok(bytes) => [&[0][..], bytes].concat(),
        Err(error) => [&[1][..], &encode_error(error)].concat(),
    };
    let message = comm.broadcast_vec(0, message).map_err(|error| E::from_comm(operation, name, &error))?;
    match message.split_first() {
        _ if comm.rank() == 0 => mine,
        Some((0, bytes)) => Ok(bytes.to_vec()),
        _ => {
            comm.mark_induced_failure(Some(0));
            Err(decode_error(operation, name, message.get(1..).unwrap_or_default(), 0))
        }
    }
}

/// An agreed outcome, the first differing rank of each value, and the maximum of each number.
struct AgreedValues<T, const V: usize, const N: usize> {
    outcome: T,
    differing: [Option<usize>; V],
    maxima: [u64; N],
}

/// As [`agree`], comparing values and reducing numbers in the same reduction.
fn agree_comparing<T, E: SharedError, const V: usize, const N: usize>(
    comm: &Comm,
    operation: &'static str,
    name: &str,
    mine: Result<T, E>,
    values: [Option<u64>; V],
    numbers: [u64; N],
) -> Result<AgreedValues<T, V, N>, E> {
    let failed = |error: Error| E::from_comm(operation, name, &error);
    // The maximum of these is that of the lowest rank that failed.
    let failure = if mine.is_err() { u64::MAX - comm.rank() as u64 } else { 0 };
    let merged = if V == 0 {
        // Plain words: the outcome of every collective access is agreed this way.
        let words: Vec<u64> = std::iter::once(failure).chain(numbers).collect();
        let maxima = comm.allreduce(Op::Max, &words).map_err(failed)?;
        maxima.into_iter().map(ReductionEntry::number).collect()
    } else {
        let mut entries = vec![ReductionEntry::number(failure)];
        entries.extend(values.map(|value| ReductionEntry::compared(comm, value)));
        entries.extend(numbers.map(ReductionEntry::number));
        comm.allreduce_with(&entries, ReductionEntry::merge).map_err(failed)?
    };
    let failure = merged[0].value;
    if failure == 0 {
        let differing = std::array::from_fn(|at| merged[1 + at].differing_rank());
        let maxima = std::array::from_fn(|at| merged[1 + V + at].value);
        return mine.map(|outcome| AgreedValues { outcome, differing, maxima });
    }
    let first = (u64::MAX - failure) as usize;
    let message = mine.as_ref().err().map(encode_error).unwrap_or_default();
    let message = comm.broadcast_vec(first, message).map_err(failed)?;
    if mine.is_ok() {
        comm.mark_induced_failure(Some(first));
    }
    match mine {
        Err(own) if first == comm.rank() => Err(own),
        Err(own) => Err(own.resolve(decode_error(operation, name, &message, first))),
        Ok(_) => Err(decode_error(operation, name, &message, first)),
    }
}

fn encode_error(error: &impl SharedError) -> Vec<u8> {
    let (code, detail) = error.encode();
    [&[code], detail.as_bytes()].concat()
}

fn decode_error<E: SharedError>(operation: &'static str, name: &str, message: &[u8], rank: usize) -> E {
    let (code, detail) = message.split_first().unwrap_or((&0, &[]));
    E::decode(operation, name, *code, String::from_utf8_lossy(detail).into_owned(), rank)
}

/// What some ranks contribute to one entry of an agreement.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
struct ReductionEntry {
    /// The maximum of a number, or the value of the rank `lowest`.
    value: u64,
    /// The lowest rank that gave a value to compare; [`NO_RANK`] for a number and if no rank gave a value.
    lowest: u32,
    /// The first rank whose value differs from that of `lowest`; [`NO_RANK`] if there is none.
    differing: u32,
}

const NO_RANK: u32 = u32::MAX;

impl ReductionEntry {
    fn number(value: u64) -> Self {
        Self { value, lowest: NO_RANK, differing: NO_RANK }
    }

    fn compared(comm: &Comm, value: Option<u64>) -> Self {
        value.map_or(Self::number(0), |value| Self { value, lowest: comm.rank() as u32, differing: NO_RANK })
    }

    /// Merges the entries of two disjoint sets of ranks, in any order.
    fn merge(&mut self, other: &Self) {
        if self.lowest == other.lowest {
            self.value = self.value.max(other.value);
            return;
        }
        let (low, high) = if self.lowest < other.lowest { (*self, *other) } else { (*other, *self) };
        // If the lowest rank of the higher set differs, it is the first rank of that set that does.
        let differs = high.lowest != NO_RANK && high.value != low.value;
        let of_high = if differs { high.lowest } else { high.differing };
        *self = Self { differing: low.differing.min(of_high), ..low };
    }

    fn differing_rank(&self) -> Option<usize> {
        (self.differing != NO_RANK).then_some(self.differing as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(rank: u32, value: Option<u64>) -> ReductionEntry {
        value.map_or(ReductionEntry::number(0), |value| ReductionEntry {
            value,
            lowest: rank,
            differing: NO_RANK,
        })
    }

    /// All ways to merge the entries of four ranks in a tree, in any order.
    fn merged_in_all_orders(entries: Vec<ReductionEntry>) -> Vec<ReductionEntry> {
        if entries.len() == 1 {
            return entries;
        }
        let mut results = Vec::new();
        for a in 0..entries.len() {
            for b in (0..entries.len()).filter(|b| *b != a) {
                let mut merged = entries[a];
                merged.merge(&entries[b]);
                let rest = (0..entries.len()).filter(|at| *at != a && *at != b).map(|at| entries[at]);
                results.extend(merged_in_all_orders(rest.chain([merged]).collect()));
            }
        }
        results
    }

    #[test]
    fn the_first_differing_rank_does_not_depend_on_the_order_of_merges() {
        let values = [None, Some(0), Some(7), Some(u64::MAX)];
        for code in 0..values.len().pow(4) {
            let given: Vec<_> = (0..4).map(|rank| values[code / values.len().pow(rank) % 4]).collect();
            let entries = (0..).zip(&given).map(|(rank, value)| entry(rank, *value)).collect();
            let first = given.iter().flatten().next();
            let differs = |value: &Option<u64>| value.is_some_and(|value| Some(&value) != first);
            let expected = given.iter().position(differs);
            for merged in merged_in_all_orders(entries) {
                assert_eq!(merged.differing_rank(), expected, "{given:?}");
            }
        }
    }

    #[test]
    fn the_maximum_of_a_number_is_taken() {
        let entries = [3, 9, 0, 4].map(ReductionEntry::number);
        assert!(merged_in_all_orders(entries.to_vec()).iter().all(|merged| merged.value == 9));
    }
}
