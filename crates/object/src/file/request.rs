//! Accesses under way.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use aqueduct_file::{Access as Bytes, Incoming, Outgoing, Request, Sink, Source};

use super::ObjectFile;
use super::access::ViewRange;
use super::gather::PendingGather;
use crate::Object;
use crate::error::Result;
use crate::object::cast;

/// Trivial objects that a request keeps.
struct PlainObjects<T>(Vec<T>);

impl<T: Object + Send> Outgoing for PlainObjects<T> {
    fn source(&self) -> Source<'_> {
        cast::bytes(&self.0).unwrap_or_default().into()
    }
}

impl<T: Object + Send> Incoming for PlainObjects<T> {
    fn sink(&mut self) -> Sink<'_> {
        cast::bytes_mut(&mut self.0).unwrap_or_default().into()
    }
}

/// A write under way. It owns its objects: dropping it lets the write go on.
#[must_use = "a write is only known to be done after `wait`"]
pub struct WriteRequest<T>(PendingObjectWrite<T>);

enum PendingObjectWrite<T> {
    Plain(Request<PlainObjects<T>>),
    Encoded(Request<Vec<u8>>, Vec<T>),
}

impl<T: Object + Send> WriteRequest<T> {
    pub(crate) fn start_plain(
        place: Bytes<'_>,
        together: bool,
        objects: Vec<T>,
        _count: u64,
    ) -> Result<Self> {
        let buffer = PlainObjects(objects);
        let request = if together { place.all().start_write(buffer)? } else { place.start_write(buffer)? };
        Ok(Self(PendingObjectWrite::Plain(request)))
    }

    pub(crate) fn start_encoded(
        place: Bytes<'_>,
        together: bool,
        objects: Vec<T>,
        bytes: Vec<u8>,
    ) -> Result<Self> {
        let request = if together { place.all().start_write(bytes)? } else { place.start_write(bytes)? };
        Ok(Self(PendingObjectWrite::Encoded(request, objects)))
    }

    /// Waits until it is done; the objects.
    pub fn wait(self) -> Result<Vec<T>> {
        match self.0 {
            PendingObjectWrite::Plain(request) => Ok(request.wait()?.0.0),
            PendingObjectWrite::Encoded(request, objects) => request.wait().map(|_| objects),
        }
    }

    /// Whether it is done.
    pub fn is_done(&self) -> bool {
        match &self.0 {
            PendingObjectWrite::Plain(request) => request.is_done(),
            PendingObjectWrite::Encoded(request, _) => request.is_done(),
        }
    }
}

/// A read under way.
#[must_use = "a read gives its objects to `wait`"]
pub struct ReadRequest<'f, T> {
    file: &'f ObjectFile<T>,
    placed: ViewRange,
    collective: bool,
    reading: PendingObjectRead<T>,
}

enum PendingObjectRead<T> {
    Plain(Request<PlainObjects<T>>),
    Encoded(Request<Vec<u8>>),
    /// Objects of variable size, in many places; or why they cannot be read, which all ranks learn when they wait.
    Gather(Result<PendingGather>),
}

impl<'f, T: Object + Send> ReadRequest<'f, T> {
    pub(crate) fn start(file: &'f ObjectFile<T>, placed: &ViewRange, together: bool) -> Result<Self> {
        let placed = ViewRange { view: Arc::clone(&placed.view), start: placed.start, count: placed.count };
        let place = file.open_file.data.at(placed.start);
        let reading = match (
            file.open_file.size(),
            file.is_plain.then(|| cast::zeroed(placed.count as usize)).flatten(),
        ) {
            (None, _) => PendingObjectRead::Gather(file.start_gather(&placed)),
            (Some(_), Some(objects)) => {
                let buffer = PlainObjects(objects);
                PendingObjectRead::Plain(if together {
                    place.all().start_read(buffer)?
                } else {
                    place.start_read(buffer)?
                })
            }
            (Some(size), None) => {
                let bytes = vec![0; (placed.count * size) as usize];
                PendingObjectRead::Encoded(if together {
                    place.all().start_read(bytes)?
                } else {
                    place.start_read(bytes)?
                })
            }
        };
        Ok(Self { file, placed, collective: together, reading })
    }

    /// Waits until it is done; the objects. If all ranks read together, all wait together too: checksums are compared.
    pub fn wait(self) -> Result<Vec<T>> {
        let Self { file, placed, collective: together, reading } = self;
        let size = file.open_file.size().unwrap_or(0);
        match reading {
            PendingObjectRead::Plain(request) => {
                let (objects, count) = request.wait()?;
                file.check_read(&placed, together, count, placed.count * size)?;
                Ok(objects.0)
            }
            PendingObjectRead::Encoded(request) => {
                let (mut bytes, count) = request.wait()?;
                file.check_read(&placed, together, count, placed.count * size)?;
                let number = placed.view.number(placed.start).unwrap_or(0);
                file.decode_stored(&mut bytes, placed.count as usize, number, number.saturating_mul(size))
            }
            PendingObjectRead::Gather(gathering) => {
                let read = gathering.and_then(|gathering| file.finish_gather(gathering));
                file.open_file.outcome(together, "read", read)
            }
        }
    }

    /// Whether the bytes have been read, so that `wait` does not wait for them.
    pub fn is_done(&self) -> bool {
        match &self.reading {
            PendingObjectRead::Plain(request) => request.is_done(),
            PendingObjectRead::Encoded(request) => request.is_done(),
            PendingObjectRead::Gather(gathering) => gathering.as_ref().map_or(true, PendingGather::is_done),
        }
    }
}

/// A collective operation between its begin and its end.
#[must_use = "a split operation is done after `end`"]
pub struct ObjectSplitRequest<R> {
    request: R,
    pending: Arc<AtomicBool>,
}

impl<R> ObjectSplitRequest<R> {
    pub(crate) fn new(request: R, pending: Arc<AtomicBool>) -> Self {
        pending.store(true, Ordering::SeqCst);
        Self { request, pending }
    }
}

impl<T: Object + Send> ObjectSplitRequest<WriteRequest<T>> {
    /// Waits until it is done; the objects.
    pub fn end(self) -> Result<Vec<T>> {
        self.pending.store(false, Ordering::SeqCst);
        self.request.wait()
    }
}

impl<T: Object + Send> ObjectSplitRequest<ReadRequest<'_, T>> {
    /// Waits until it is done; the objects.
    pub fn end(self) -> Result<Vec<T>> {
        self.pending.store(false, Ordering::SeqCst);
        self.request.wait()
    }
}
