//! Independent and collective access as types: what differs between the two, in one place.

use aqueduct_file::{Access as ByteAccess, Count, File, Incoming, Outgoing, Request, Scope, Sink, Source};

use crate::error::{Error, Result};

/// Access by this rank alone.
#[derive(Clone, Copy, Debug)]
pub struct Independent;

/// Access by a call that all ranks make.
#[derive(Clone, Copy, Debug)]
pub struct Collective;

/// [`Independent`] or [`Collective`]; no other type can implement it, because this module is private.
pub trait ObjectScope: Copy + 'static {
    /// True if all ranks take part.
    const IS_COLLECTIVE: bool;

    /// Writes to the data file.
    fn write(place: ByteAccess<'_>, data: Source<'_>) -> Result<Count>;

    /// Reads from the data file.
    fn read(place: ByteAccess<'_>, data: Sink<'_>) -> Result<Count>;

    /// Starts a write to the data file.
    fn start_write<B: Outgoing + 'static>(place: ByteAccess<'_>, buffer: B) -> Result<Request<B>>;

    /// Starts a read from the data file.
    fn start_read<B: Incoming + 'static>(place: ByteAccess<'_>, buffer: B) -> Result<Request<B>>;

    /// Starts a write of borrowed memory to the data file.
    fn lend_write<'scope, B: Outgoing + 'scope>(
        scope: &'scope Scope<'scope, '_>,
        place: ByteAccess<'_>,
        buffer: B,
    ) -> Result<Request<B>>;

    /// Advances the shared pointer of a file by `count`, in rank order if collective; the position before.
    fn reserve(file: &File, count: u64) -> Result<u64>;

    /// Takes part in a collective write with an error, so that the other ranks fail too; returns the error.
    fn fail_write(place: ByteAccess<'_>, error: Error) -> Error;

    /// Takes part in a collective read with an error, so that the other ranks fail too; returns the error.
    fn fail_read(place: ByteAccess<'_>, error: Error) -> Error;

    /// As [`fail_write`](Self::fail_write), in a non-blocking write.
    fn fail_start_write(place: ByteAccess<'_>, error: Error) -> Error;

    /// As [`fail_read`](Self::fail_read), in a non-blocking read.
    fn fail_start_read(place: ByteAccess<'_>, error: Error) -> Error;
}

impl ObjectScope for Independent {
    const IS_COLLECTIVE: bool = false;

    fn write(place: ByteAccess<'_>, data: Source<'_>) -> Result<Count> {
        place.write(data)
    }

    fn read(place: ByteAccess<'_>, data: Sink<'_>) -> Result<Count> {
        place.read(data)
    }

    fn start_write<B: Outgoing + 'static>(place: ByteAccess<'_>, buffer: B) -> Result<Request<B>> {
        place.start_write(buffer)
    }

    fn start_read<B: Incoming + 'static>(place: ByteAccess<'_>, buffer: B) -> Result<Request<B>> {
        place.start_read(buffer)
    }

    fn lend_write<'scope, B: Outgoing + 'scope>(
        scope: &'scope Scope<'scope, '_>,
        place: ByteAccess<'_>,
        buffer: B,
    ) -> Result<Request<B>> {
        scope.write(place, buffer)
    }

    fn reserve(file: &File, count: u64) -> Result<u64> {
        file.reserve_shared(count)
    }

    fn fail_write(_: ByteAccess<'_>, error: Error) -> Error {
        error
    }

    fn fail_read(_: ByteAccess<'_>, error: Error) -> Error {
        error
    }

    fn fail_start_write(_: ByteAccess<'_>, error: Error) -> Error {
        error
    }

    fn fail_start_read(_: ByteAccess<'_>, error: Error) -> Error {
        error
    }
}

impl ObjectScope for Collective {
    const IS_COLLECTIVE: bool = true;

    fn write(place: ByteAccess<'_>, data: Source<'_>) -> Result<Count> {
        place.all().write(data)
    }

    fn read(place: ByteAccess<'_>, data: Sink<'_>) -> Result<Count> {
        place.all().read(data)
    }

    fn start_write<B: Outgoing + 'static>(place: ByteAccess<'_>, buffer: B) -> Result<Request<B>> {
        place.all().start_write(buffer)
    }

    fn start_read<B: Incoming + 'static>(place: ByteAccess<'_>, buffer: B) -> Result<Request<B>> {
        place.all().start_read(buffer)
    }

    fn lend_write<'scope, B: Outgoing + 'scope>(
        scope: &'scope Scope<'scope, '_>,
        place: ByteAccess<'_>,
        buffer: B,
    ) -> Result<Request<B>> {
        scope.write_all(place.all(), buffer)
    }

    fn reserve(file: &File, count: u64) -> Result<u64> {
        file.reserve_ordered(count)
    }

    fn fail_write(place: ByteAccess<'_>, error: Error) -> Error {
        // The collective call returns the error passed to it.
        let _ = place.all().write(Source::failing(error.clone()));
        error
    }

    fn fail_read(place: ByteAccess<'_>, error: Error) -> Error {
        let _ = place.all().read(Sink::failing(error.clone()));
        error
    }

    fn fail_start_write(place: ByteAccess<'_>, error: Error) -> Error {
        // The operation continues when its request is dropped.
        drop(place.all().start_write(FailingBuffer(error.clone())));
        error
    }

    fn fail_start_read(place: ByteAccess<'_>, error: Error) -> Error {
        drop(place.all().start_read(FailingBuffer(error.clone())));
        error
    }
}

/// No memory, because of this error.
struct FailingBuffer(Error);

impl Outgoing for FailingBuffer {
    fn source(&self) -> Source<'_> {
        Source::failing(self.0.clone())
    }
}

impl Incoming for FailingBuffer {
    fn sink(&mut self) -> Sink<'_> {
        Sink::failing(self.0.clone())
    }
}
