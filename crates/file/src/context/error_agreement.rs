//! Agreement on the outcome of a collective call: all ranks return an error of the same class, or none does.

use std::sync::Arc;

use aqueduct_comm::{Comm, Op};

use crate::error::{Error, Kind, Result};

/// The outcome of a collective call, agreed: if any rank failed, every rank fails with the error of the lowest rank that failed. A
/// rank whose own error has the same class keeps its own.
pub(crate) fn agree<T>(comm: &Comm, operation: &'static str, file: &Arc<str>, mine: Result<T>) -> Result<T> {
    let first = comm.allreduce_one(Op::Min, failing_rank(comm, &mine));
    let first = first.map_err(|error| Error::from_comm(operation, file, &error))?;
    agree_after(comm, operation, file, mine, first)
}

/// As [`agree`], and for each flag whether it is set on all ranks.
pub(crate) fn agree_flags<T, const N: usize>(
    comm: &Comm,
    operation: &'static str,
    file: &Arc<str>,
    mine: Result<T>,
    flags: [bool; N],
) -> Result<(T, [bool; N])> {
    let mut words = vec![failing_rank(comm, &mine)];
    words.extend(flags.map(u64::from));
    let all = comm.allreduce(Op::Min, &words).map_err(|error| Error::from_comm(operation, file, &error))?;
    let mine = agree_after(comm, operation, file, mine, all[0])?;
    Ok((mine, std::array::from_fn(|flag| all[flag + 1] == 1)))
}

/// This rank if it has failed, else a number above all ranks.
fn failing_rank<T>(comm: &Comm, mine: &Result<T>) -> u64 {
    if mine.is_err() { comm.rank() as u64 } else { comm.size() as u64 }
}

/// Completes an agreement in which `first` is the lowest rank that failed, or the number of ranks if none did.
fn agree_after<T>(
    comm: &Comm,
    operation: &'static str,
    file: &Arc<str>,
    mine: Result<T>,
    first: u64,
) -> Result<T> {
    if first >= comm.size() as u64 {
        return mine;
    }
    let failed = |error: aqueduct_comm::Error| Error::from_comm(operation, file, &error);
    let encoded = mine.as_ref().err().map(encode).unwrap_or_default();
    let encoded = comm.broadcast_vec(first as usize, encoded).map_err(failed)?;
    let agreed = decode(operation, file, &encoded).on_rank(first as usize);
    if mine.is_ok() {
        comm.mark_induced_failure(Some(first as usize));
    }
    Err(match mine {
        Err(own) if own.class() == agreed.class() => own,
        Err(own) => agreed.after(own.transferred()),
        Ok(_) => agreed,
    })
}

fn encode(error: &Error) -> Vec<u8> {
    let mut bytes = vec![error.kind() as u8];
    bytes.extend_from_slice(error.detail().as_bytes());
    bytes
}

fn decode(operation: &'static str, file: &Arc<str>, encoded: &[u8]) -> Error {
    let (kind, text) = encoded.split_first().unwrap_or((&0, &[]));
    Error::new(Kind::from_code(*kind), operation, file, String::from_utf8_lossy(text))
}
