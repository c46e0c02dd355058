//! Objects between ranks: messages and collective calls of [`Comm`], for any type that is an object.

mod message;
mod pending;
mod reduction;

use aqueduct_comm::{Comm, MessageSource, SendRequest, Status};

use crate::error::{Error, Kind, Result};
use crate::into_objects::{EncodedBatch, IntoObjects};
use crate::object::{Object, cast, decode_all};
use message::{differing, message};

pub use message::ObjectReceiveRequest;
pub use pending::ObjectCollectiveRequest;

/// Objects between ranks, as methods of [`Comm`].
///
/// ```
/// use aqueduct_comm::Launch;
/// use aqueduct_object::{FromIter, Object, Single, ObjectCommExt};
///
/// #[derive(Object, Clone, Debug, PartialEq)]
/// struct Species { name: String, charges: Vec<f64> }
///
/// Launch::threads(3).run(|world| {
///     let mine = Species { name: format!("s{}", world.rank()), charges: vec![1.0; world.rank()] };
///     // One object to the next rank, one from the previous rank.
///     let (next, previous) = ((world.rank() + 1) % 3, (world.rank() + 2) % 3);
///     world.send_objects(next, 7, Single(&mine))?;
///     let (got, _) = world.receive_object::<Species>(previous, 7)?;
///     assert_eq!(got.charges.len(), previous);
///     // The objects of all ranks on every rank; each rank passes any number.
///     let all = world.allgather_objects(Single(&mine))?;
///     assert_eq!(all[previous][0], got);
///     // The longest name, by a closure.
///     let longest = world.allreduce_object(mine, |a, b| if a.name.len() >= b.name.len() { a } else { b })?;
///     assert_eq!(longest.name, "s0");
///     Ok::<(), aqueduct_object::Error>(())
/// })?;
/// # Ok::<(), aqueduct_comm::Error>(())
/// ```
///
/// Sent are `&[T]`, `&Vec<T>`, [`Single`](crate::Single) object, [`FromIter`](crate::FromIter) of an iterator. Received
/// are a new vector, an existing slice (`_into`), or any container that can be extended (`_onto`).
/// Counts may differ from rank to rank. A message of another type is an error that names both.
pub trait ObjectCommExt {
    /// Sends objects to rank `to`. They may be changed when it returns.
    fn send_objects<'a, T: Object>(
        &self,
        to: usize,
        tag: u32,
        objects: impl IntoObjects<'a, T>,
    ) -> Result<()>;

    /// Starts sending objects to rank `to`: it sends their encoded form, so they may be changed at once.
    fn start_send_objects<'a, T: Object>(
        &self,
        to: usize,
        tag: u32,
        objects: impl IntoObjects<'a, T>,
    ) -> Result<SendRequest>;

    /// As [`start_send_objects`](ObjectCommExt::start_send_objects), of a vector that is given away: trivial objects are not copied, and a receiver in the same
    /// process gets the vector itself.
    fn start_send_vec<T: Object + Send + Sync>(
        &self,
        to: usize,
        tag: u32,
        objects: Vec<T>,
    ) -> Result<SendRequest>;

    /// Starts receiving the next message of objects.
    fn start_receive_objects<T: Object>(
        &self,
        from: impl Into<MessageSource>,
        tag: u32,
    ) -> Result<ObjectReceiveRequest<T>>;

    /// The objects of the next message.
    fn receive_objects<T: Object>(
        &self,
        from: impl Into<MessageSource>,
        tag: u32,
    ) -> Result<(Vec<T>, Status)> {
        self.start_receive_objects(from, tag)?.wait()
    }

    /// The one object of the next message.
    fn receive_object<T: Object>(&self, from: impl Into<MessageSource>, tag: u32) -> Result<(T, Status)> {
        let (mut objects, status) = self.receive_objects::<T>(from, tag)?;
        match (objects.pop(), objects.len()) {
            (Some(object), 0) => Ok((object, status)),
            (last, rest) => {
                let count = rest + usize::from(last.is_some());
                let detail = format!("the message has {count} objects, expected one; use receive_objects");
                Err(Error::new(Kind::BadArgument, "receive_object", message(status.source, tag), detail))
            }
        }
    }

    /// Receives the next message into the first elements of `objects`; returns the number of objects. A message with more objects than fit is an error.
    fn receive_objects_into<T: Object>(
        &self,
        from: impl Into<MessageSource>,
        tag: u32,
        objects: &mut [T],
    ) -> Result<(usize, Status)> {
        let (received, count, status) = self.start_receive_objects(from, tag)?.wait_into(objects)?;
        if count > objects.len() {
            let detail = format!("the message has {count} objects, the slice has {}", objects.len());
            let place = message(status.source, tag);
            return Err(Error::new(Kind::BadArgument, "receive_objects_into", &place, detail));
        }
        objects.iter_mut().zip(received.into_iter().flatten()).for_each(|(old, new)| *old = new);
        Ok((count, status))
    }

    /// Appends the objects of the next message to a container; returns their number.
    fn receive_objects_onto<T: Object>(
        &self,
        from: impl Into<MessageSource>,
        tag: u32,
        container: &mut impl Extend<T>,
    ) -> Result<(usize, Status)> {
        let (received, status) = self.receive_objects(from, tag)?;
        let count = received.len();
        container.extend(received);
        Ok((count, status))
    }

    /// Broadcasts the object of `root`; it overwrites those of the other ranks.
    fn broadcast_object<T: Object>(&self, root: usize, object: &mut T) -> Result<()>;

    /// Broadcasts the objects of `root`; they replace those of the other ranks, with their number.
    fn broadcast_objects<T: Object>(&self, root: usize, objects: &mut Vec<T>) -> Result<()>;

    /// Gathers the objects of each rank at `root`, by rank; `None` on the other ranks.
    fn gather_objects<'a, T: Object>(
        &self,
        root: usize,
        objects: impl IntoObjects<'a, T>,
    ) -> Result<Option<Vec<Vec<T>>>>;

    /// Scatters the parts of `root`, of any lengths: part `r` to rank `r`. The argument of other ranks is ignored.
    fn scatter_objects<T: Object, P: AsRef<[T]>>(&self, root: usize, parts: &[P]) -> Result<Vec<T>>;

    /// Gathers the objects of each rank on every rank, by rank.
    fn allgather_objects<'a, T: Object>(&self, objects: impl IntoObjects<'a, T>) -> Result<Vec<Vec<T>>>;

    /// Sends part `r` to rank `r`; returns the part that each rank sent to this one, by rank.
    fn all_to_all_objects<T: Object, P: AsRef<[T]>>(&self, parts: &[P]) -> Result<Vec<Vec<T>>>;

    /// Reduces the objects of all ranks to one, at `root`. `combine` is applied in rank order and must be associative.
    fn reduce_object<T: Object>(
        &self,
        root: usize,
        object: T,
        combine: impl FnMut(T, T) -> T,
    ) -> Result<Option<T>> {
        let reduced = self.reduce_objects(root, std::slice::from_ref(&object), combine)?;
        Ok(reduced.and_then(|mut objects| objects.pop()))
    }

    /// As [`reduce_object`](ObjectCommExt::reduce_object), element by element of slices of equal length.
    fn reduce_objects<T: Object>(
        &self,
        root: usize,
        objects: &[T],
        combine: impl FnMut(T, T) -> T,
    ) -> Result<Option<Vec<T>>>;

    /// As [`reduce_objects`](ObjectCommExt::reduce_objects), with the result on every rank.
    fn allreduce_objects<T: Object>(&self, objects: &[T], combine: impl FnMut(T, T) -> T) -> Result<Vec<T>>;

    /// Reduces the slices of ranks 0 to this one, element by element, in rank order.
    fn scan_objects<T: Object>(&self, objects: &[T], combine: impl FnMut(T, T) -> T) -> Result<Vec<T>>;

    /// Reduces the slices of the ranks below this one, element by element, in rank order; none at rank 0.
    fn exclusive_scan_objects<T: Object>(
        &self,
        objects: &[T],
        combine: impl FnMut(T, T) -> T,
    ) -> Result<Option<Vec<T>>>;

    /// As [`reduce_object`](ObjectCommExt::reduce_object), with the result on every rank.
    fn allreduce_object<T: Object>(&self, object: T, combine: impl FnMut(T, T) -> T) -> Result<T> {
        let reduced = self.allreduce_objects(std::slice::from_ref(&object), combine)?.pop();
        Ok(reduced.unwrap_or(object))
    }

    /// Starts broadcasting the objects of `root` along a tree; those of other ranks are ignored. The request gives the objects on every rank.
    fn start_broadcast_objects<'a, T: Object>(
        &self,
        root: usize,
        objects: impl IntoObjects<'a, T>,
    ) -> Result<ObjectCollectiveRequest<T>>;

    /// Starts gathering the objects of each rank at `root`. The request gives them by rank, at other ranks nothing.
    fn start_gather_objects<'a, T: Object>(
        &self,
        root: usize,
        objects: impl IntoObjects<'a, T>,
    ) -> Result<ObjectCollectiveRequest<T>>;

    /// Starts gathering the objects of each rank on every rank. The request gives them by rank.
    fn start_allgather_objects<'a, T: Object>(
        &self,
        objects: impl IntoObjects<'a, T>,
    ) -> Result<ObjectCollectiveRequest<T>>;

    /// Starts scattering the parts of `root`, part `r` to rank `r`. The request gives this rank's part, as the part of `root`.
    fn start_scatter_objects<T: Object, P: AsRef<[T]>>(
        &self,
        root: usize,
        parts: &[P],
    ) -> Result<ObjectCollectiveRequest<T>>;

    /// Starts sending part `r` to rank `r`. The request gives the parts that were sent to this rank, by rank.
    fn start_all_to_all_objects<T: Object, P: AsRef<[T]>>(
        &self,
        parts: &[P],
    ) -> Result<ObjectCollectiveRequest<T>>;
}

impl ObjectCommExt for Comm {
    fn send_objects<'a, T: Object>(
        &self,
        to: usize,
        tag: u32,
        objects: impl IntoObjects<'a, T>,
    ) -> Result<()> {
        let sent = message::send(self, to, tag, objects);
        sent.map_err(|error| Error::from_comm("send_objects", message(to, tag), &error))
    }

    fn start_send_objects<'a, T: Object>(
        &self,
        to: usize,
        tag: u32,
        objects: impl IntoObjects<'a, T>,
    ) -> Result<SendRequest> {
        let sent = message::start_send(self, to, tag, objects);
        sent.map_err(|error| Error::from_comm("send_objects", message(to, tag), &error))
    }

    fn start_send_vec<T: Object + Send + Sync>(
        &self,
        to: usize,
        tag: u32,
        objects: Vec<T>,
    ) -> Result<SendRequest> {
        let sent = message::start_send_vec(self, to, tag, objects);
        sent.map_err(|error| Error::from_comm("send_objects", message(to, tag), &error))
    }

    fn start_receive_objects<T: Object>(
        &self,
        from: impl Into<MessageSource>,
        tag: u32,
    ) -> Result<ObjectReceiveRequest<T>> {
        let started = self.start_receive(from, tag);
        let bytes = started.map_err(|error| Error::from_comm("receive_objects", "message", &error))?;
        Ok(ObjectReceiveRequest::new(bytes, tag))
    }

    fn broadcast_object<T: Object>(&self, root: usize, object: &mut T) -> Result<()> {
        if let Some(bytes) = cast::bytes_mut(std::slice::from_mut(object)) {
            check::<T>(self, "broadcast_object", 1)?;
            return map_comm_error("broadcast_object", self.broadcast(root, bytes));
        }
        check::<T>(self, "broadcast_object", 1)?;
        let mine = if self.rank() == root { crate::encode(object) } else { Vec::new() };
        let bytes = map_comm_error("broadcast_object", self.broadcast_vec(root, mine))?;
        if self.rank() != root {
            *object = decode_part("broadcast_object", &bytes, 1)?.remove(0);
        }
        Ok(())
    }

    fn broadcast_objects<T: Object>(&self, root: usize, objects: &mut Vec<T>) -> Result<()> {
        let counts = check::<T>(self, "broadcast_objects", objects.len())?;
        let count = counts.get(root).map_or(0, |count| *count as usize);
        if self.rank() != root
            && let Some(zeroed) = cast::zeroed(count)
        {
            *objects = zeroed;
        }
        if let Some(bytes) = cast::bytes_mut(objects) {
            return map_comm_error("broadcast_objects", self.broadcast(root, bytes));
        }
        let mine = if self.rank() == root {
            objects.as_slice().encode_batch().bytes.into_owned()
        } else {
            Vec::new()
        };
        let bytes = map_comm_error("broadcast_objects", self.broadcast_vec(root, mine))?;
        if self.rank() != root {
            *objects = decode_part("broadcast_objects", &bytes, count)?;
        }
        Ok(())
    }

    fn gather_objects<'a, T: Object>(
        &self,
        root: usize,
        objects: impl IntoObjects<'a, T>,
    ) -> Result<Option<Vec<Vec<T>>>> {
        let packed = objects.encode_batch();
        let counts = check::<T>(self, "gather_objects", packed.count)?;
        let all = map_comm_error("gather_objects", self.gather_varied(root, &packed.bytes))?;
        all.map(|all| decode_parts("gather_objects", &all, &counts)).transpose()
    }

    fn scatter_objects<T: Object, P: AsRef<[T]>>(&self, root: usize, parts: &[P]) -> Result<Vec<T>> {
        check::<T>(self, "scatter_objects", 0)?;
        let mine = if self.rank() == root { parts } else { &[] };
        let packed: Vec<EncodedBatch<'_>> = mine.iter().map(|part| part.as_ref().encode_batch()).collect();
        let counts: Vec<[u64; 1]> = packed.iter().map(|part| [part.count as u64]).collect();
        let bytes: Vec<&[u8]> = packed.iter().map(|part| &*part.bytes).collect();
        let count = map_comm_error("scatter_objects", self.scatter_varied::<u64, _>(root, &counts))?;
        let bytes = map_comm_error("scatter_objects", self.scatter_varied::<u8, _>(root, &bytes))?;
        decode_part("scatter_objects", &bytes, count.first().map_or(0, |count| *count as usize))
    }

    fn allgather_objects<'a, T: Object>(&self, objects: impl IntoObjects<'a, T>) -> Result<Vec<Vec<T>>> {
        let packed = objects.encode_batch();
        let counts = check::<T>(self, "allgather_objects", packed.count)?;
        let all = map_comm_error("allgather_objects", self.allgather_varied(&packed.bytes))?;
        decode_parts("allgather_objects", &all, &counts)
    }

    fn all_to_all_objects<T: Object, P: AsRef<[T]>>(&self, parts: &[P]) -> Result<Vec<Vec<T>>> {
        check::<T>(self, "all_to_all_objects", 0)?;
        let packed: Vec<EncodedBatch<'_>> = parts.iter().map(|part| part.as_ref().encode_batch()).collect();
        let counts: Vec<[u64; 1]> = packed.iter().map(|part| [part.count as u64]).collect();
        let bytes: Vec<&[u8]> = packed.iter().map(|part| &*part.bytes).collect();
        let counts =
            map_comm_error("all_to_all_objects", self.all_to_all_varied::<u64, _>(&counts))?.concat();
        let all = map_comm_error("all_to_all_objects", self.all_to_all_varied::<u8, _>(&bytes))?;
        decode_parts("all_to_all_objects", &all, &counts)
    }

    fn reduce_objects<T: Object>(
        &self,
        root: usize,
        objects: &[T],
        combine: impl FnMut(T, T) -> T,
    ) -> Result<Option<Vec<T>>> {
        reduction::reduce(self, "reduce_objects", root, objects, combine)
    }

    fn allreduce_objects<T: Object>(&self, objects: &[T], combine: impl FnMut(T, T) -> T) -> Result<Vec<T>> {
        reduction::allreduce(self, "allreduce_objects", objects, combine)
    }

    fn scan_objects<T: Object>(&self, objects: &[T], combine: impl FnMut(T, T) -> T) -> Result<Vec<T>> {
        reduction::scan(self, "scan_objects", objects, combine).map(|(upto, _)| upto)
    }

    fn exclusive_scan_objects<T: Object>(
        &self,
        objects: &[T],
        combine: impl FnMut(T, T) -> T,
    ) -> Result<Option<Vec<T>>> {
        reduction::scan(self, "exclusive_scan_objects", objects, combine).map(|(_, below)| below)
    }

    fn start_broadcast_objects<'a, T: Object>(
        &self,
        root: usize,
        objects: impl IntoObjects<'a, T>,
    ) -> Result<ObjectCollectiveRequest<T>> {
        pending::broadcast(self, root, objects)
    }

    fn start_gather_objects<'a, T: Object>(
        &self,
        root: usize,
        objects: impl IntoObjects<'a, T>,
    ) -> Result<ObjectCollectiveRequest<T>> {
        pending::gather(self, root, objects)
    }

    fn start_allgather_objects<'a, T: Object>(
        &self,
        objects: impl IntoObjects<'a, T>,
    ) -> Result<ObjectCollectiveRequest<T>> {
        pending::allgather(self, objects)
    }

    fn start_scatter_objects<T: Object, P: AsRef<[T]>>(
        &self,
        root: usize,
        parts: &[P],
    ) -> Result<ObjectCollectiveRequest<T>> {
        pending::scatter(self, root, parts)
    }

    fn start_all_to_all_objects<T: Object, P: AsRef<[T]>>(
        &self,
        parts: &[P],
    ) -> Result<ObjectCollectiveRequest<T>> {
        pending::all_to_all(self, parts)
    }
}

fn map_comm_error<R>(call: &'static str, outcome: aqueduct_comm::Result<R>) -> Result<R> {
    outcome.map_err(|error| Error::from_comm(call, "all ranks", &error))
}

fn decode_part<T: Object>(call: &'static str, bytes: &[u8], count: usize) -> Result<Vec<T>> {
    decode_all(bytes, count).map_err(|error| Error::new(Kind::Damaged, call, "all ranks", error.to_string()))
}

fn decode_parts<T: Object>(call: &'static str, all: &[Vec<u8>], counts: &[u64]) -> Result<Vec<Vec<T>>> {
    all.iter().zip(counts).map(|(bytes, count)| decode_part(call, bytes, *count as usize)).collect()
}

/// Compares the types of all ranks and returns the number of objects of each. One small collective call, and a second one if types differ.
fn check<T: Object>(comm: &Comm, call: &'static str, count: usize) -> Result<Vec<u64>> {
    let schema = T::schema();
    let all = map_comm_error(call, comm.allgather(&[[schema.hash(), count as u64]]))?;
    let Some(other) = all.iter().position(|[hash, _]| *hash != all[0][0]) else {
        return Ok(all.into_iter().map(|[_, count]| count).collect());
    };
    let names = map_comm_error(call, comm.allgather_varied(schema.name().as_bytes()))?;
    let name = |rank: usize| String::from_utf8_lossy(&names[rank]).into_owned();
    let detail = format!("rank 0 passes {}, rank {other} {}", name(0), differing(&name(other), &name(0)));
    Err(Error::new(Kind::WrongType, call, "all ranks", detail))
}
