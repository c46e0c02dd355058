//! Reductions and scans of objects: along trees, in ⌈log₂ ranks⌉ steps, operands in rank order.

use aqueduct_comm::{Comm, SendRequest};

use super::{check, decode_part, map_comm_error};
use crate::error::{Error, Kind, Result};
use crate::into_objects::IntoObjects;
use crate::object::{Object, encode_all};

/// The values of several ranks combined element by element; those of lower ranks are the left operands.
fn combine_all<T>(left: Vec<T>, right: Vec<T>, combine: &mut impl FnMut(T, T) -> T) -> Vec<T> {
    left.into_iter().zip(right).map(|(left, right)| combine(left, right)).collect()
}

/// Compares types and counts of all ranks.
fn check_counts<T: Object>(comm: &Comm, call: &'static str, count: usize) -> Result<()> {
    let counts = check::<T>(comm, call, count)?;
    let Some(other) = counts.iter().position(|count| *count != counts[0]) else { return Ok(()) };
    let detail = format!("rank 0 passes {} objects, rank {other} {}", counts[0], counts[other]);
    Err(Error::new(Kind::BadArgument, call, "all ranks", detail))
}

/// Up a binomial tree to rank 0, whose encoded result this is; empty at other ranks.
fn reduce_to_first<T: Object>(
    comm: &Comm,
    call: &'static str,
    objects: &[T],
    combine: &mut impl FnMut(T, T) -> T,
) -> Result<Vec<u8>> {
    let (rank, size, tag) = (comm.rank(), comm.size(), comm.next_operation_tag());
    let mut encoded = objects.encode_batch().bytes.into_owned();
    let mut distance = 1;
    while distance < size {
        if rank & distance != 0 {
            let sent = comm.start_send(rank - distance, tag, encoded).and_then(SendRequest::wait);
            return map_comm_error(call, sent).map(|()| Vec::new());
        }
        if rank + distance < size {
            let (theirs, _) = map_comm_error(call, comm.receive::<u8>(rank + distance, tag))?;
            let mine = decode_part(call, &encoded, objects.len())?;
            let theirs = decode_part(call, &theirs, objects.len())?;
            encoded = encode_all(&combine_all(mine, theirs, combine)).into_owned();
        }
        distance *= 2;
    }
    Ok(encoded)
}

/// The reduction at `root`.
pub(super) fn reduce<T: Object>(
    comm: &Comm,
    call: &'static str,
    root: usize,
    objects: &[T],
    mut combine: impl FnMut(T, T) -> T,
) -> Result<Option<Vec<T>>> {
    check_counts::<T>(comm, call, objects.len())?;
    if root >= comm.size() {
        let detail = format!("there is no rank {root}, the communicator has {} ranks", comm.size());
        return Err(Error::new(Kind::BadArgument, call, "all ranks", detail));
    }
    let mut encoded = reduce_to_first(comm, call, objects, &mut combine)?;
    if root != 0 {
        let tag = comm.next_operation_tag();
        if comm.rank() == 0 {
            let sent = comm.start_send(root, tag, std::mem::take(&mut encoded)).and_then(SendRequest::wait);
            map_comm_error(call, sent)?;
        } else if comm.rank() == root {
            encoded = map_comm_error(call, comm.receive::<u8>(0, tag))?.0;
        }
    }
    (comm.rank() == root).then(|| decode_part(call, &encoded, objects.len())).transpose()
}

/// The reduction at every rank.
pub(super) fn allreduce<T: Object>(
    comm: &Comm,
    call: &'static str,
    objects: &[T],
    mut combine: impl FnMut(T, T) -> T,
) -> Result<Vec<T>> {
    check_counts::<T>(comm, call, objects.len())?;
    let encoded = reduce_to_first(comm, call, objects, &mut combine)?;
    let encoded = map_comm_error(call, comm.broadcast_vec(0, encoded))?;
    decode_part(call, &encoded, objects.len())
}

/// The reduction of ranks 0 to this one, and of those below this one: each step doubles the ranks whose values are combined.
pub(super) fn scan<T: Object>(
    comm: &Comm,
    call: &'static str,
    objects: &[T],
    mut combine: impl FnMut(T, T) -> T,
) -> Result<(Vec<T>, Option<Vec<T>>)> {
    let (rank, size, count) = (comm.rank(), comm.size(), objects.len());
    check_counts::<T>(comm, call, count)?;
    let tag = comm.next_operation_tag();
    let mut upto = objects.encode_batch().bytes.into_owned();
    let mut below: Option<Vec<T>> = None;
    let (mut distance, mut sends) = (1, Vec::new());
    while distance < size {
        if rank + distance < size {
            sends.push(map_comm_error(call, comm.start_send(rank + distance, tag, upto.clone()))?);
        }
        if rank >= distance {
            let (theirs, _) = map_comm_error(call, comm.receive::<u8>(rank - distance, tag))?;
            let decode = |bytes: &[u8]| decode_part::<T>(call, bytes, count);
            let joined = combine_all(decode(&theirs)?, decode(&upto)?, &mut combine);
            upto = encode_all(&joined).into_owned();
            below = Some(match below {
                None => decode(&theirs)?,
                Some(below) => combine_all(decode(&theirs)?, below, &mut combine),
            });
        }
        distance *= 2;
    }
    sends.into_iter().try_for_each(|sent| map_comm_error(call, sent.wait()))?;
    Ok((decode_part(call, &upto, count)?, below))
}
