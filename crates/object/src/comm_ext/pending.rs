//! Non-blocking collective calls of objects, made of point-to-point messages.

use aqueduct_comm::{Comm, SendRequest};

use super::message::{self, ObjectReceiveRequest};
use super::{ObjectCommExt, decode_part, map_comm_error};
use crate::error::{Error, Kind, Result};
use crate::into_objects::IntoObjects;
use crate::object::Object;

/// The name of these calls in errors.
const CALL: &str = "collective call of objects";

/// A non-blocking collective call of objects. All ranks start such calls on a communicator in the same order.
#[must_use = "`wait` returns the objects"]
pub struct ObjectCollectiveRequest<T> {
    comm: Comm,
    tag: u32,
    /// The objects of each rank that this rank has or gets.
    parts: Vec<Vec<T>>,
    receives: Vec<(usize, ObjectReceiveRequest<T>)>,
    sends: Vec<SendRequest>,
    /// The ranks to which a broadcast is forwarded when it arrives.
    children: Vec<usize>,
}

impl<T: Object> ObjectCollectiveRequest<T> {
    fn new(comm: &Comm) -> Self {
        let parts = (0..comm.size()).map(|_| Vec::new()).collect();
        let tag = comm.next_operation_tag();
        let (receives, sends, children) = (Vec::new(), Vec::new(), Vec::new());
        Self { comm: comm.clone(), tag, parts, receives, sends, children }
    }

    fn receive_from(&mut self, rank: usize) -> Result<()> {
        self.receives.push((rank, self.comm.start_receive_objects(rank, self.tag)?));
        Ok(())
    }

    fn send_to<'a>(&mut self, rank: usize, objects: impl IntoObjects<'a, T>) -> Result<()> {
        let sent = message::start_send(&self.comm, rank, self.tag, objects);
        self.sends.push(map_comm_error(CALL, sent)?);
        Ok(())
    }

    /// The part of this rank itself.
    fn keep<'a>(&mut self, objects: impl IntoObjects<'a, T>) -> Result<()> {
        let packed = objects.encode_batch();
        self.parts[self.comm.rank()] = decode_part(CALL, &packed.bytes, packed.count)?;
        Ok(())
    }

    fn accept(&mut self, rank: usize, objects: Vec<T>) -> Result<()> {
        for child in std::mem::take(&mut self.children) {
            self.send_to(child, &objects)?;
        }
        self.parts[rank] = objects;
        Ok(())
    }

    /// True if all messages for this rank have arrived, so that [`wait`](Self::wait) does not wait for them. It forwards a broadcast that has arrived.
    pub fn test(&mut self) -> Result<bool> {
        for (rank, mut receive) in std::mem::take(&mut self.receives) {
            match receive.test()? {
                Some((objects, _)) => self.accept(rank, objects)?,
                None => self.receives.push((rank, receive)),
            }
        }
        Ok(self.receives.is_empty())
    }

    /// Waits until it is done; the objects of each rank, empty for ranks that have sent none to this one.
    pub fn wait(mut self) -> Result<Vec<Vec<T>>> {
        for (rank, receive) in std::mem::take(&mut self.receives) {
            let (objects, _) = receive.wait()?;
            self.accept(rank, objects)?;
        }
        self.sends.into_iter().try_for_each(|sent| map_comm_error(CALL, sent.wait()))?;
        Ok(self.parts)
    }
}

fn check_root(comm: &Comm, root: usize) -> Result<()> {
    if root < comm.size() {
        return Ok(());
    }
    let detail = format!("there is no rank {root}, the communicator has {} ranks", comm.size());
    Err(Error::new(Kind::BadArgument, CALL, "all ranks", detail))
}

fn check_parts<P>(comm: &Comm, parts: &[P]) -> Result<()> {
    if parts.len() == comm.size() {
        return Ok(());
    }
    let detail = format!("{} parts for {} ranks; give one part for each", parts.len(), comm.size());
    Err(Error::new(Kind::BadArgument, CALL, "all ranks", detail))
}

/// Along a binomial tree, whose root is rank `root`.
pub(super) fn broadcast<'a, T: Object>(
    comm: &Comm,
    root: usize,
    objects: impl IntoObjects<'a, T>,
) -> Result<ObjectCollectiveRequest<T>> {
    check_root(comm, root)?;
    let mut request = ObjectCollectiveRequest::new(comm);
    let size = comm.size();
    let place = (comm.rank() + size - root) % size;
    // The lowest bit of the place is the distance of the parent; children have lower bits.
    let bits = if place == 0 { size.next_power_of_two() } else { place & place.wrapping_neg() };
    let below = std::iter::successors(Some(bits / 2), |bit| Some(bit / 2)).take_while(|bit| *bit > 0);
    let children = below.map(|bit| place + bit).filter(|child| *child < size);
    request.children = children.map(|child| (child + root) % size).collect();
    if place == 0 {
        request.keep(objects)?;
        let objects = std::mem::take(&mut request.parts[root]);
        request.accept(root, objects)?;
    } else {
        let parent = (place - bits + root) % size;
        let receive = comm.start_receive_objects(parent, request.tag)?;
        request.receives.push((root, receive));
    }
    Ok(request)
}

pub(super) fn gather<'a, T: Object>(
    comm: &Comm,
    root: usize,
    objects: impl IntoObjects<'a, T>,
) -> Result<ObjectCollectiveRequest<T>> {
    check_root(comm, root)?;
    let mut request = ObjectCollectiveRequest::new(comm);
    if comm.rank() == root {
        request.keep(objects)?;
        (0..comm.size()).filter(|rank| *rank != root).try_for_each(|rank| request.receive_from(rank))?;
    } else {
        request.send_to(root, objects)?;
    }
    Ok(request)
}

/// Each rank sends to all others, beginning with the next one.
pub(super) fn allgather<'a, T: Object>(
    comm: &Comm,
    objects: impl IntoObjects<'a, T>,
) -> Result<ObjectCollectiveRequest<T>> {
    let mut request = ObjectCollectiveRequest::new(comm);
    let (rank, size) = (comm.rank(), comm.size());
    request.keep(objects)?;
    let mine = std::mem::take(&mut request.parts[rank]);
    for other in (1..size).map(|distance| (rank + distance) % size) {
        request.receive_from(other)?;
        request.send_to(other, &mine)?;
    }
    request.parts[rank] = mine;
    Ok(request)
}

pub(super) fn scatter<T: Object, P: AsRef<[T]>>(
    comm: &Comm,
    root: usize,
    parts: &[P],
) -> Result<ObjectCollectiveRequest<T>> {
    check_root(comm, root)?;
    let mut request = ObjectCollectiveRequest::new(comm);
    if comm.rank() != root {
        request.receive_from(root)?;
        return Ok(request);
    }
    check_parts(comm, parts)?;
    for (rank, part) in parts.iter().enumerate() {
        if rank == root {
            request.keep(part.as_ref())?;
        } else {
            request.send_to(rank, part.as_ref())?;
        }
    }
    Ok(request)
}

pub(super) fn all_to_all<T: Object, P: AsRef<[T]>>(
    comm: &Comm,
    parts: &[P],
) -> Result<ObjectCollectiveRequest<T>> {
    check_parts(comm, parts)?;
    let mut request = ObjectCollectiveRequest::new(comm);
    for (rank, part) in parts.iter().enumerate() {
        if rank == comm.rank() {
            request.keep(part.as_ref())?;
        } else {
            request.receive_from(rank)?;
            request.send_to(rank, part.as_ref())?;
        }
    }
    Ok(request)
}
