//! An open file on servers.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use aqueduct_device::units::ByteRate;
use aqueduct_device::{
    Capabilities, Error, Handle, Kind, LockGuard, LockKind, LockScope, Operation, Result, Segment,
    SegmentMut, Strip, SyncScope, segment, strip,
};

use super::connection::{Connection, TunnelCallError};
use super::known_end::{KnownEnd, PartEnds};
use super::link::TunnelLink;
use super::link_pace::LinkPace;
use super::placement::{Placement, complete_prefix, prefix_inside};
use super::read_memory::{ReadMemory, SegmentMemory, StripMemory, extent_of, ranges_of};
use super::server_set::unexpected_answer;
use super::transfer::{self, Divisible, TransferOutcome};
use crate::wire::answer::Answer;
use crate::wire::greeting::SessionId;
use crate::wire::request::{FileId, OpenFlags, TunnelRequest};

/// Larger accesses of several servers have a thread for each of them.
const SEQUENTIAL: u64 = 128 << 10;

pub(super) struct TunnelHandle {
    name: String,
    links: Vec<Arc<TunnelLink>>,
    /// The number of the file on each server.
    parts: Vec<Option<u64>>,
    placement: Placement,
    flags: OpenFlags,
    persistent: bool,
    id: FileId,
    known_end: KnownEnd,
    /// How many clients that have lost locks of this file are known, and ended on all servers.
    evicted: Mutex<u64>,
}

/// Transfers the list of one server over a connection; the function gives the numbers of requests.
type TransferWork<B> = fn(
    &mut Connection,
    u64,
    &mut [(Strip, B)],
    &mut dyn FnMut() -> u64,
) -> std::result::Result<TransferOutcome, TunnelCallError>;

/// A list divided among servers, with the server of each list that is not empty.
type Divided<B> = Vec<(usize, Vec<(Strip, B)>)>;

impl TunnelHandle {
    pub(super) fn new(
        name: String,
        links: Vec<Arc<TunnelLink>>,
        placement: Placement,
        flags: OpenFlags,
        persistent: bool,
        id: FileId,
    ) -> Self {
        let (parts, known_end) = (vec![None; links.len()], KnownEnd::new(links.len()));
        let evicted = Mutex::default();
        Self { name, links, parts, placement, flags, persistent, id, known_end, evicted }
    }

    pub(super) fn add_part(&mut self, server: usize, handle: u64) {
        self.parts[server] = Some(handle);
    }

    fn error(&self, kind: Kind, operation: Operation) -> Error {
        Error::new(kind, operation, &self.name)
    }

    fn allow(&self, allowed: bool, operation: Operation) -> Result<()> {
        if allowed { Ok(()) } else { Err(self.error(Kind::PermissionDenied, operation)) }
    }

    fn part(&self, server: usize) -> u64 {
        self.parts[server].unwrap_or(0)
    }

    /// A file with a part on a server that is lost is unusable, also where the other parts are.
    fn check_servers(&self, operation: Operation) -> Result<()> {
        let lost = self.links.iter().find_map(|link| Some((link, link.loss()?)));
        match lost {
            Some((link, why)) => Err(link.disconnected(operation, &self.name, why)),
            None => Ok(()),
        }
    }

    fn call(&self, server: usize, operation: Operation, request: &TunnelRequest) -> Result<Answer> {
        self.check_servers(operation)?;
        self.links[server].call(operation, &self.name, request)
    }

    /// A request to all servers, the first one of the file last: it decides the length.
    fn call_all(&self, operation: Operation, request: impl Fn(u64) -> TunnelRequest) -> Result<()> {
        let others = (0..self.links.len()).filter(|server| *server != self.placement.first);
        for server in others.chain([self.placement.first]) {
            self.call(server, operation, &request(self.part(server)))?;
        }
        Ok(())
    }

    /// The end of the part of a server.
    fn end_of(&self, server: usize, operation: Operation) -> Result<u64> {
        match self.call(server, operation, &TunnelRequest::Len { handle: self.part(server) })? {
            Answer::Transferred { end, generation, .. } => {
                self.known_end.note(server, end, Some(generation));
                Ok(end)
            }
            _ => Err(unexpected_answer(operation, &self.name)),
        }
    }

    /// After a truncation on all servers: no client that has asked some of them before and others after it keeps what it has heard.
    pub(super) fn note_truncation(&self) -> Result<()> {
        self.call_all(Operation::SetLen, |handle| TunnelRequest::SetLen { handle, len: 0 })
    }

    fn check_len(&self, len: u64, operation: Operation) -> Result<()> {
        if len > i64::MAX as u64 { Err(self.error(Kind::InvalidArgument, operation).at(len)) } else { Ok(()) }
    }

    /// Transfers the part of one server.
    fn transfer_part<B>(
        &self,
        operation: Operation,
        server: usize,
        list: &mut [(Strip, B)],
        work: TransferWork<B>,
    ) -> Result<TransferOutcome> {
        self.check_servers(operation)?;
        let (link, handle) = (&self.links[server], self.part(server));
        let start = Instant::now();
        let outcome = link.run(operation, &self.name, true, &mut |connection| {
            work(connection, handle, list, &mut || link.next_number())
        })?;
        link.pace.note_access(outcome.done, start.elapsed());
        Ok(outcome)
    }

    /// Transfers the parts of all servers; the outcome of each.
    fn transfer<B: Send>(
        &self,
        operation: Operation,
        bytes: u64,
        divided: &mut Divided<B>,
        work: TransferWork<B>,
    ) -> Vec<(usize, Result<TransferOutcome>)> {
        if divided.len() < 2 || bytes <= SEQUENTIAL {
            let each = divided.iter_mut();
            return each
                .map(|(server, list)| (*server, self.transfer_part(operation, *server, list, work)))
                .collect();
        }
        thread::scope(|scope| {
            let start = |(server, list): &'_ mut (usize, Vec<(Strip, B)>)| (*server, std::mem::take(list));
            let parts: Vec<_> = divided.iter_mut().map(start).collect();
            let threads: Vec<_> = parts
                .into_iter()
                .map(|(server, mut list)| {
                    (server, scope.spawn(move || self.transfer_part(operation, server, &mut list, work)))
                })
                .collect();
            let lost = || Err(self.error(Kind::Io, operation).advise("a thread of the access has panicked"));
            threads
                .into_iter()
                .map(|(server, thread)| (server, thread.join().unwrap_or_else(|_| lost())))
                .collect()
        })
    }

    /// The error of an access of several servers, with the exact prefix of the list that is done; or the ends of the parts.
    fn outcome(
        &self,
        operation: Operation,
        strips: &[Strip],
        outcomes: Vec<(usize, Result<TransferOutcome>)>,
    ) -> Result<PartEnds> {
        let (mut done, mut ends) = (vec![0; self.links.len()], vec![None; self.links.len()]);
        let mut failure: Option<Error> = None;
        for (server, outcome) in outcomes {
            match outcome {
                Ok(outcome) => {
                    (done[server], ends[server]) = (outcome.done, Some((outcome.end, outcome.generation)));
                    if let Some(error) = outcome.error {
                        let address = self.links[server].address().to_string();
                        failure.get_or_insert(error.into_error(operation, &self.name, &address));
                    }
                }
                Err(error) => {
                    failure.get_or_insert(error);
                }
            }
        }
        let Some(error) = failure else { return Ok(ends) };
        let prefix = complete_prefix(&self.placement, strips, &done);
        let place = (prefix < strip::total(strips)).then(|| strip::offset_of(strips, prefix));
        let error = error.after(prefix);
        Err(place.map_or_else(|| self.error(Kind::Io, operation), |place| error.at(place)))
    }
}

impl TunnelHandle {
    /// Divides strips and their memory among servers.
    fn divide<B: Divisible>(&self, parts: impl IntoIterator<Item = (Strip, B)>) -> Divided<B> {
        let mut lists: Vec<Vec<(Strip, B)>> = self.links.iter().map(|_| Vec::new()).collect();
        for (strip, memory) in parts {
            let mut rest = Some(memory);
            for (server, part) in self.placement.parts(strip) {
                let Some(memory) = rest.take() else { break };
                let (now, later) = memory.divide(part.size() as usize);
                lists[server].push((part, now));
                rest = Some(later);
            }
        }
        lists.into_iter().enumerate().filter(|(_, list)| !list.is_empty()).collect()
    }

    /// Reads the first bytes from all servers that have parts of them; the ends and generations of those.
    fn read_parts(
        &self,
        strips: &[Strip],
        memory: &mut impl ReadMemory,
        bytes: u64,
        zeros: bool,
    ) -> Result<PartEnds> {
        let mut divided = self.divide(memory.parts(bytes));
        let work: TransferWork<&mut [u8]> = if zeros { transfer::read_inside } else { transfer::read };
        let outcomes = self.transfer(Operation::Read, bytes, &mut divided, work);
        self.outcome(Operation::Read, strips, outcomes)
    }

    /// Reads all strips that are inside the file.
    fn read_into(&self, strips: &[Strip], memory: &mut impl ReadMemory) -> Result<u64> {
        let (wanted, last) = extent_of(strips);
        if self.links.len() == 1 {
            let ends = self.read_parts(strips, memory, wanted, false)?;
            let end = ends.into_iter().flatten().map(|(end, _)| end).min().unwrap_or(0);
            return Ok(prefix_inside(strips, end));
        }
        // With several servers a part that ends early may be a hole. What lies before an end that was heard is in the file, unless the file
        // was truncated since: the answers say so.
        if let Some(known) = self.known_end.covering(last) {
            let ends = self.read_parts(strips, memory, wanted, true)?;
            if known.is_confirmed(&ends) {
                return Ok(wanted);
            }
        }
        let inside = prefix_inside(strips, self.len()?);
        self.read_parts(strips, memory, inside, true)?;
        Ok(inside)
    }

    /// Writes strips with their memory.
    fn write_from<'b>(
        &self,
        strips: &[Strip],
        parts: impl IntoIterator<Item = (Strip, &'b [u8])>,
    ) -> Result<u64> {
        let wanted = strip::total(strips);
        let work = |connection: &mut Connection,
                    handle,
                    list: &mut [(Strip, &[u8])],
                    numbers: &mut dyn FnMut() -> u64| {
            transfer::write(connection, handle, list, numbers)
        };
        let outcomes = self.transfer(Operation::Write, wanted, &mut self.divide(parts), work);
        let ends = self.outcome(Operation::Write, strips, outcomes)?;
        for (server, (end, generation)) in
            ends.into_iter().enumerate().filter_map(|(at, end)| Some((at, end?)))
        {
            self.known_end.note(server, end, generation);
        }
        Ok(wanted)
    }
}

impl Handle for TunnelHandle {
    fn read(&self, segments: &mut [SegmentMut<'_>]) -> Result<u64> {
        self.allow(self.flags.read, Operation::Read)?;
        segment::check(segments, Operation::Read, &self.name)?;
        self.read_into(&ranges_of(segments), &mut SegmentMemory(segments))
    }

    fn write(&self, segments: &[Segment<'_>]) -> Result<u64> {
        self.allow(self.flags.write, Operation::Write)?;
        segment::check(segments, Operation::Write, &self.name)?;
        let parts = segments
            .iter()
            .map(|segment| (Strip::run(segment.offset, segment.bytes.len() as u64), segment.bytes));
        self.write_from(&ranges_of(segments), parts)
    }

    fn read_strips(&self, strips: &[Strip], bytes: &mut [u8]) -> Result<u64> {
        self.allow(self.flags.read, Operation::Read)?;
        strip::check(strips, bytes.len(), Operation::Read, &self.name)?;
        self.read_into(strips, &mut StripMemory(strips, bytes))
    }

    fn write_strips(&self, strips: &[Strip], bytes: &[u8]) -> Result<u64> {
        self.allow(self.flags.write, Operation::Write)?;
        strip::check(strips, bytes.len(), Operation::Write, &self.name)?;
        let mut rest = bytes;
        let parts = strips.iter().map(|strip| {
            let (part, later) = rest.split_at(strip.size() as usize);
            rest = later;
            (*strip, part)
        });
        self.write_from(strips, parts)
    }

    fn len(&self) -> Result<u64> {
        let mut ends = (0..self.links.len()).map(|server| self.end_of(server, Operation::Len));
        ends.try_fold(0, |len, end| end.map(|end| end.max(len)))
    }

    fn set_len(&self, len: u64) -> Result<()> {
        self.allow(self.flags.write, Operation::SetLen)?;
        self.check_len(len, Operation::SetLen)?;
        // The second time for the generations: see `note_truncation`.
        let rounds = if self.links.len() == 1 { 1 } else { 2 };
        (0..rounds).try_for_each(|_| {
            self.call_all(Operation::SetLen, |handle| TunnelRequest::SetLen { handle, len })
        })
    }

    fn sync(&self, scope: SyncScope) -> Result<()> {
        let entry = scope == SyncScope::Entry;
        self.call_all(Operation::Sync, |handle| TunnelRequest::Sync { handle, entry })
    }

    fn capabilities(&self) -> Capabilities {
        let pace = || self.links.iter().map(|link| &link.pace);
        let slowest = pace().map(|pace| pace.bandwidth().0).min().unwrap_or(1);
        Capabilities {
            latency: pace().filter_map(LinkPace::latency).max(),
            bandwidth: Some(ByteRate(slowest.saturating_mul(self.links.len() as u64))),
            persistent: self.persistent,
            shared: true,
            coherent: true,
            native_lists: true,
            native_strips: true,
            locks: LockScope::System,
            block: u32::try_from(self.placement.stripe).unwrap_or(1 << 20),
            concurrency: 4 * self.links.len() as u32,
            ..Capabilities::default()
        }
    }

    fn preallocate(&self, len: u64) -> Result<()> {
        self.allow(self.flags.write, Operation::Preallocate)?;
        self.check_len(len, Operation::Preallocate)?;
        // The other servers reserve nothing: which part of the space they will need is not known to them.
        let request = TunnelRequest::Preallocate { handle: self.part(self.placement.first), len };
        self.call(self.placement.first, Operation::Preallocate, &request).map(drop)
    }

    fn lock(&self, range: Range<u64>, kind: LockKind) -> Result<Box<dyn LockGuard + '_>> {
        let ticket = self.links[self.placement.first].next_ticket();
        loop {
            // Dropped after an error, it takes the request out of the queue.
            let guard = TunnelLock { handle: self, ticket };
            if self.request_lock(&range, kind, ticket, true)? {
                return Ok(Box::new(guard));
            }
            std::mem::forget(guard);
        }
    }

    fn try_lock(&self, range: Range<u64>, kind: LockKind) -> Result<Option<Box<dyn LockGuard + '_>>> {
        let ticket = self.links[self.placement.first].next_ticket();
        // Dropped after an error or a refusal, it releases what was granted.
        let guard = TunnelLock { handle: self, ticket };
        if self.request_lock(&range, kind, ticket, false)? {
            return Ok(Some(Box::new(guard)));
        }
        std::mem::forget(guard);
        Ok(None)
    }

    fn close(self: Arc<Self>) -> Result<()> {
        Arc::into_inner(self).map_or(Ok(()), |mut handle| handle.close_parts())
    }
}

impl TunnelHandle {
    /// Ends what clients that have lost their locks on the first server may still do on the others.
    fn evict(&self, owners: &[SessionId]) -> Result<()> {
        let request = TunnelRequest::Evict { id: self.id, owners: owners.to_vec() };
        let first = self.placement.first;
        (0..self.links.len())
            .filter(|server| *server != first)
            .try_for_each(|server| self.call(server, Operation::Lock, &request).map(drop))
    }

    fn request_lock(&self, range: &Range<u64>, kind: LockKind, ticket: u64, wait: bool) -> Result<bool> {
        let server = self.placement.first;
        let exclusive = kind == LockKind::Exclusive;
        loop {
            self.check_servers(Operation::Lock)?;
            let known = *self.evicted.lock().unwrap_or_else(PoisonError::into_inner);
            let request = TunnelRequest::Lock {
                handle: self.part(server),
                ticket,
                start: range.start,
                end: range.end,
                exclusive,
                wait,
                known,
            };
            let answer = self.links[server].call_waiting(Operation::Lock, &self.name, &request);
            match answer.map_err(|error| error.at(range.start))? {
                Answer::Lock { granted, evicted } if evicted.is_empty() => return Ok(granted),
                // The lock is held when all of them have ended.
                Answer::Lock { evicted, .. } => {
                    if self.links.len() > 1 {
                        self.evict(&evicted).map_err(|error| error.at(range.start))?;
                    }
                    let mut all = self.evicted.lock().unwrap_or_else(PoisonError::into_inner);
                    *all = (*all).max(known + evicted.len() as u64);
                }
                _ => return Err(unexpected_answer(Operation::Lock, &self.name)),
            }
        }
    }

    /// Closes the file on all servers, on its first one last: then it can be deleted.
    fn close_parts(&mut self) -> Result<()> {
        let first = self.placement.first;
        let others = (0..self.links.len()).filter(|server| *server != first);
        let mut outcome = Ok(());
        for server in others.chain([first]) {
            if let Some(handle) = self.parts[server].take() {
                // A lost server is an error, and the parts on the others are closed nevertheless.
                let request = TunnelRequest::Close { handle };
                let closed = self.links[server].call(Operation::Close, &self.name, &request);
                outcome = outcome.and(closed.map(drop));
            }
        }
        outcome
    }
}

impl Drop for TunnelHandle {
    fn drop(&mut self) {
        // Errors of closing are reported by `close`. Calls of a link that is lost, or of a forked process, fail at once.
        let _ = self.close_parts();
    }
}

struct TunnelLock<'a> {
    handle: &'a TunnelHandle,
    ticket: u64,
}

impl LockGuard for TunnelLock<'_> {}

impl Drop for TunnelLock<'_> {
    fn drop(&mut self) {
        let server = self.handle.placement.first;
        let request = TunnelRequest::Unlock { handle: self.handle.part(server), ticket: self.ticket };
        // If the server cannot be reached, it releases the lock with the session.
        let _ = self.handle.links[server].call_waiting(Operation::Lock, &self.handle.name, &request);
    }
}
