//! Accesses under way.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use aqueduct_file::{Access as Bytes, Incoming, Outgoing, Request, Sink, Source};

use crate::access::Placed;
use crate::error::Result;
use crate::file::ObjectFile;
use crate::gather::Gathering;
use crate::{Object, cast};

/// Trivial objects that a request keeps.
struct Straight<T>(Vec<T>);

impl<T: Object + Send> Outgoing for Straight<T> {
    fn source(&self) -> Source<'_> {
        cast::bytes(&self.0).unwrap_or_default().into()
    }
}

impl<T: Object + Send> Incoming for Straight<T> {
    fn sink(&mut self) -> Sink<'_> {
        cast::bytes_mut(&mut self.0).unwrap_or_default().into()
    }
}

/// A write under way. It owns its objects: dropping it lets the write go on.
#[must_use = "a write is only known to be done after `wait`"]
pub struct WriteRequest<T>(Writing<T>);

enum Writing<T> {
    Straight(Request<Straight<T>>),
    Encoded(Request<Vec<u8>>, Vec<T>),
}

impl<T: Object + Send> WriteRequest<T> {
    pub(crate) fn straight(place: Bytes<'_>, together: bool, objects: Vec<T>, _count: u64) -> Result<Self> {
        let buffer = Straight(objects);
        let request = if together { place.all().start_write(buffer)? } else { place.start_write(buffer)? };
        Ok(Self(Writing::Straight(request)))
    }

    pub(crate) fn encoded(place: Bytes<'_>, together: bool, objects: Vec<T>, bytes: Vec<u8>) -> Result<Self> {
        let request = if together { place.all().start_write(bytes)? } else { place.start_write(bytes)? };
        Ok(Self(Writing::Encoded(request, objects)))
    }

    /// Waits until it is done; the objects.
    pub fn wait(self) -> Result<Vec<T>> {
        match self.0 {
            Writing::Straight(request) => Ok(request.wait()?.0.0),
            Writing::Encoded(request, objects) => request.wait().map(|_| objects).map_err(Into::into),
        }
    }

    /// Whether it is done.
    pub fn is_done(&self) -> bool {
        match &self.0 {
            Writing::Straight(request) => request.is_done(),
            Writing::Encoded(request, _) => request.is_done(),
        }
    }
}

/// A read under way.
#[must_use = "a read gives its objects to `wait`"]
pub struct ReadRequest<'f, T> {
    file: &'f ObjectFile<T>,
    placed: Placed,
    together: bool,
    reading: Reading<T>,
}

enum Reading<T> {
    Straight(Request<Straight<T>>),
    Encoded(Request<Vec<u8>>),
    /// Objects of variable size, in many places; or why they cannot be read, which all ranks learn when they wait.
    Gathered(Result<Gathering>),
}

impl<'f, T: Object + Send> ReadRequest<'f, T> {
    pub(crate) fn start(file: &'f ObjectFile<T>, placed: &Placed, together: bool) -> Result<Self> {
        let placed = Placed { view: Arc::clone(&placed.view), start: placed.start, count: placed.count };
        let place = file.store.data.at(placed.start);
        let reading =
            match (file.store.size(), file.straight.then(|| cast::zeroed(placed.count as usize)).flatten()) {
                (None, _) => Reading::Gathered(file.start_gather(&placed)),
                (Some(_), Some(objects)) => {
                    let buffer = Straight(objects);
                    Reading::Straight(if together {
                        place.all().start_read(buffer)?
                    } else {
                        place.start_read(buffer)?
                    })
                }
                (Some(size), None) => {
                    let bytes = vec![0; (placed.count * size) as usize];
                    Reading::Encoded(if together {
                        place.all().start_read(bytes)?
                    } else {
                        place.start_read(bytes)?
                    })
                }
            };
        Ok(Self { file, placed, together, reading })
    }

    /// Waits until it is done; the objects. If all ranks read together, all wait together too: checksums are compared.
    pub fn wait(self) -> Result<Vec<T>> {
        let Self { file, placed, together, reading } = self;
        let size = file.store.size().unwrap_or(0);
        match reading {
            Reading::Straight(request) => {
                let (objects, count) = request.wait()?;
                file.check_read(&placed, together, count, placed.count * size)?;
                Ok(objects.0)
            }
            Reading::Encoded(request) => {
                let (mut bytes, count) = request.wait()?;
                file.check_read(&placed, together, count, placed.count * size)?;
                let number = placed.view.number(placed.start).unwrap_or(0);
                file.loaded(&mut bytes, placed.count as usize, number, number.saturating_mul(size))
            }
            Reading::Gathered(gathering) => {
                let read = gathering.and_then(|gathering| file.finish_gather(gathering));
                file.store.outcome(together, "read", read)
            }
        }
    }

    /// Whether the bytes have been read, so that `wait` does not wait for them.
    pub fn is_done(&self) -> bool {
        match &self.reading {
            Reading::Straight(request) => request.is_done(),
            Reading::Encoded(request) => request.is_done(),
            Reading::Gathered(gathering) => gathering.as_ref().map_or(true, Gathering::is_done),
        }
    }
}

/// A collective operation between its begin and its end.
#[must_use = "a split operation is done after `end`"]
pub struct Split<R> {
    request: R,
    pending: Arc<AtomicBool>,
}

impl<R> Split<R> {
    pub(crate) fn new(request: R, pending: Arc<AtomicBool>) -> Self {
        pending.store(true, Ordering::SeqCst);
        Self { request, pending }
    }
}

impl<T: Object + Send> Split<WriteRequest<T>> {
    /// Waits until it is done; the objects.
    pub fn end(self) -> Result<Vec<T>> {
        self.pending.store(false, Ordering::SeqCst);
        self.request.wait()
    }
}

impl<T: Object + Send> Split<ReadRequest<'_, T>> {
    /// Waits until it is done; the objects.
    pub fn end(self) -> Result<Vec<T>> {
        self.pending.store(false, Ordering::SeqCst);
        self.request.wait()
    }
}
