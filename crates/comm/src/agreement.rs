//! What all ranks come to together: an outcome that is the same everywhere, whichever rank failed.
//!
//! ```
//! use aqueduct_comm::agreement::{SharedError, agree};
//! use aqueduct_comm::{Error, Launch};
//!
//! #[derive(Debug)]
//! struct Trouble(String);
//!
//! impl SharedError for Trouble {
//!     fn encode(&self) -> ([u8; 2], &str) {
//!         ([0, 0], &self.0)
//!     }
//!     fn decode(operation: &'static str, name: &str, (_, detail): ([u8; 2], String), rank: usize) -> Self {
//!         Self(format!("{operation} {name} on rank {rank}: {detail}"))
//!     }
//!     fn from_comm(_: &'static str, _: &str, error: &Error) -> Self {
//!         Self(error.to_string())
//!     }
//! }
//!
//! let outcomes = Launch::threads(3).run(|world| {
//!     let mine = if world.rank() == 1 { Err(Trouble("no paper".into())) } else { Ok(()) };
//!     Ok::<_, Error>(agree(world, "print", "a page", mine).unwrap_err().0)
//! })?;
//! assert_eq!(outcomes, ["print a page on rank 1: no paper", "no paper", "print a page on rank 1: no paper"]);
//! # Ok::<(), Error>(())
//! ```

use crate::{Comm, Error, Op};

/// An error that one rank can tell the others of.
pub trait SharedError: Sized {
    /// What went wrong here, and in the layer below if it did there (0 if not), each as a number; and the text.
    fn encode(&self) -> ([u8; 2], &str);

    /// What a rank has told that failed in an operation on a file.
    fn decode(operation: &'static str, name: &str, told: ([u8; 2], String), rank: usize) -> Self;

    /// The ranks could not talk.
    fn from_comm(operation: &'static str, name: &str, error: &Error) -> Self;
}

/// The outcome of a collective operation, agreed: if any rank failed, every rank fails; those where something failed with their own error, the others
/// with that of the lowest rank that did.
pub fn agree<T, E: SharedError>(
    comm: &Comm,
    operation: &'static str,
    name: &str,
    mine: Result<T, E>,
) -> Result<T, E> {
    agree_with_max(comm, operation, name, mine, []).map(|(agreed, [])| agreed)
}

/// The same, and the greatest of each of the ranks' numbers: both in one meeting.
pub fn agree_with_max<T, E: SharedError, const N: usize>(
    comm: &Comm,
    operation: &'static str,
    name: &str,
    mine: Result<T, E>,
    numbers: [u64; N],
) -> Result<(T, [u64; N]), E> {
    let talk = |error: Error| E::from_comm(operation, name, &error);
    // The greatest of what is left when the rank is taken off is the lowest rank.
    let failed = if mine.is_err() { u64::MAX - comm.rank() as u64 } else { 0 };
    let all: Vec<u64> = std::iter::once(failed).chain(numbers).collect();
    let most = comm.allreduce(Op::Max, &all).map_err(talk)?;
    let mut greatest = numbers;
    greatest.copy_from_slice(&most[1..]);
    if most[0] == 0 {
        return mine.map(|mine| (mine, greatest));
    }
    let first = (u64::MAX - most[0]) as usize;
    let told =
        comm.broadcast_vec(first, mine.as_ref().err().map(encode_error).unwrap_or_default()).map_err(talk)?;
    mine.and_then(|_| Err(receive_error(comm, operation, name, &told, first)))
}

/// What rank 0 found or made, told to all ranks, in one meeting; its error is everybody's. What the others bring is not looked at.
pub fn from_root<E: SharedError>(
    comm: &Comm,
    operation: &'static str,
    name: &str,
    mine: Result<Vec<u8>, E>,
) -> Result<Vec<u8>, E> {
    let told = match &mine {
        _ if comm.rank() > 0 => Vec::new(),
        Ok(found) => [&[0][..], found].concat(),
        Err(error) => [&[1][..], &encode_error(error)].concat(),
    };
    let told = comm.broadcast_vec(0, told).map_err(|error| E::from_comm(operation, name, &error))?;
    match told.split_first() {
        _ if comm.rank() == 0 => mine,
        Some((0, found)) => Ok(found.to_vec()),
        _ => Err(receive_error(comm, operation, name, told.get(1..).unwrap_or_default(), 0)),
    }
}

fn receive_error<E: SharedError>(
    comm: &Comm,
    operation: &'static str,
    name: &str,
    told: &[u8],
    from: usize,
) -> E {
    comm.mark_induced_failure(Some(from));
    E::decode(operation, name, decode_error(told), from)
}

fn encode_error(error: &impl SharedError) -> Vec<u8> {
    let (codes, detail) = error.encode();
    [&codes[..], detail.as_bytes()].concat()
}

fn decode_error(told: &[u8]) -> ([u8; 2], String) {
    let (codes, text) = told.split_first_chunk().unwrap_or((&[0; 2], &[]));
    (*codes, String::from_utf8_lossy(text).into_owned())
}
