//! Non-blocking accesses.

use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use aqueduct_file::{Access as ByteAccess, Incoming, Outgoing, Request, Sink, Source};

use super::ObjectFile;
use super::access::ViewRange;
use super::gather::PendingGather;
use super::scope::{Collective, Independent, ObjectScope};
use crate::Object;
use crate::error::Result;
use crate::object::cast;

/// Trivial objects that a request owns.
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

/// A non-blocking write. It owns its objects: dropping it does not cancel the write.
#[must_use = "a write is only known to be done after `wait`"]
pub struct WriteRequest<T>(PendingObjectWrite<T>);

enum PendingObjectWrite<T> {
    Plain(Request<PlainObjects<T>>),
    Encoded(Request<Vec<u8>>, Vec<T>),
}

impl<T: Object + Send> WriteRequest<T> {
    pub(crate) fn start_plain<S: ObjectScope>(place: ByteAccess<'_>, objects: Vec<T>) -> Result<Self> {
        S::start_write(place, PlainObjects(objects)).map(|request| Self(PendingObjectWrite::Plain(request)))
    }

    pub(crate) fn start_encoded<S: ObjectScope>(
        place: ByteAccess<'_>,
        objects: Vec<T>,
        bytes: Vec<u8>,
    ) -> Result<Self> {
        let request = S::start_write(place, bytes)?;
        Ok(Self(PendingObjectWrite::Encoded(request, objects)))
    }

    /// Waits until it is done; the objects.
    pub fn wait(self) -> Result<Vec<T>> {
        match self.0 {
            PendingObjectWrite::Plain(request) => Ok(request.wait()?.0.0),
            PendingObjectWrite::Encoded(request, objects) => request.wait().map(|_| objects),
        }
    }

    /// True if it is done.
    pub fn is_done(&self) -> bool {
        match &self.0 {
            PendingObjectWrite::Plain(request) => request.is_done(),
            PendingObjectWrite::Encoded(request, _) => request.is_done(),
        }
    }
}

/// A non-blocking read.
#[must_use = "`wait` returns the objects"]
pub struct ReadRequest<'f, T, S = Independent> {
    file: &'f ObjectFile<T>,
    placed: ViewRange,
    scope: PhantomData<S>,
    reading: PendingObjectRead<T>,
}

enum PendingObjectRead<T> {
    Plain(Request<PlainObjects<T>>),
    Encoded(Request<Vec<u8>>),
    /// Objects of variable size, in many parts of the file.
    Gather(PendingGather),
}

impl<'f, T: Object + Send, S: ObjectScope> ReadRequest<'f, T, S> {
    pub(crate) fn start(file: &'f ObjectFile<T>, placed: &ViewRange) -> Result<Self> {
        let placed = ViewRange { view: Arc::clone(&placed.view), start: placed.start, count: placed.count };
        let place = file.open_file.data.at(placed.start);
        let reading = match (
            file.open_file.size(),
            file.is_plain.then(|| cast::zeroed(placed.count as usize)).flatten(),
        ) {
            (None, _) => PendingObjectRead::Gather(file.start_gather::<S>(&placed)?),
            (Some(_), Some(objects)) => {
                PendingObjectRead::Plain(S::start_read(place, PlainObjects(objects))?)
            }
            (Some(size), None) => {
                PendingObjectRead::Encoded(S::start_read(place, vec![0; (placed.count * size) as usize])?)
            }
        };
        Ok(Self { file, placed, scope: PhantomData, reading })
    }

    /// Waits until it is done, compares checksums and returns the objects. Collective if the read is.
    pub fn wait(self) -> Result<Vec<T>> {
        let Self { file, placed, reading, .. } = self;
        let size = file.open_file.size().unwrap_or(0);
        match reading {
            PendingObjectRead::Plain(request) => {
                let (objects, count) = request.wait()?;
                file.check_read::<S>(&placed, count, placed.count * size)?;
                Ok(objects.0)
            }
            PendingObjectRead::Encoded(request) => {
                let (mut bytes, count) = request.wait()?;
                file.check_read::<S>(&placed, count, placed.count * size)?;
                let number = placed.view.number(placed.start).unwrap_or(0);
                file.decode_stored(&mut bytes, placed.count as usize, number, number.saturating_mul(size))
            }
            PendingObjectRead::Gather(gathering) => file.finish_gather::<S>(gathering),
        }
    }

    /// True if the bytes have been read, so that `wait` does not block for them.
    pub fn is_done(&self) -> bool {
        match &self.reading {
            PendingObjectRead::Plain(request) => request.is_done(),
            PendingObjectRead::Encoded(request) => request.is_done(),
            PendingObjectRead::Gather(gathering) => gathering.is_done(),
        }
    }
}

/// A split collective operation, between its begin and its end.
#[must_use = "a split operation is complete after `end`"]
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

impl<T: Object + Send> ObjectSplitRequest<ReadRequest<'_, T, Collective>> {
    /// Waits until it is done; the objects.
    pub fn end(self) -> Result<Vec<T>> {
        self.pending.store(false, Ordering::SeqCst);
        self.request.wait()
    }
}
