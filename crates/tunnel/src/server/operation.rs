//! The execution of requests.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use aqueduct_device::{
    Error, Handle, HandleExt, Kind, Operation, Result, SegmentMut, Strip, SyncScope, strip, total_mut,
};

use super::ServerState;
use super::buffer_memory::PayloadBuffer;
use super::file_table::{OpenFileRequest, OpenedFile};
use super::lock_table::RangeLockOwner;
use super::session::Session;
use crate::wire::answer::Answer;
use crate::wire::request::TunnelRequest;

/// How long a request for a lock waits before it is answered; the client then asks again.
const LOCK_WAIT: Duration = Duration::from_millis(400);

/// Segments in one call of the device.
const BATCH: usize = 1024;

/// Executes a request. `payload` has what is to be written, or gets what was read.
pub(super) fn execute(
    state: &ServerState,
    session: &Session,
    request: &TunnelRequest,
    payload: &mut PayloadBuffer,
) -> Result<Answer> {
    match request {
        TunnelRequest::Open { name, flags, permissions, stripe, role } => {
            let request = OpenFileRequest {
                name,
                flags: *flags,
                permissions: *permissions,
                stripe: *stripe,
                role: *role,
            };
            open(state, session, &request)
        }
        TunnelRequest::Close { handle } => close(state, session, *handle),
        TunnelRequest::Delete { name, part } => Ok(Answer::Deleted { id: state.files.delete(name, *part)? }),
        TunnelRequest::Read { handle, strips } => read(state, &*file(session, *handle)?, strips, payload),
        TunnelRequest::Write { handle, strips } => {
            write(state, &*file(session, *handle)?, strips, payload.bytes())
        }
        TunnelRequest::Len { handle } => {
            let file = file(session, *handle)?;
            // Read before the end: a truncation meanwhile is noticed later.
            let generation = file.entry.generation();
            Ok(Answer::Transferred { bytes: 0, end: file.end()?, generation })
        }
        TunnelRequest::SetLen { handle, len } => {
            let file = file(session, *handle)?;
            file.writable(Operation::SetLen)?.set_len(*len)?;
            file.entry.note_truncation();
            Ok(Answer::Done)
        }
        TunnelRequest::Preallocate { handle, len } => {
            done(file(session, *handle)?.writable(Operation::Preallocate)?.preallocate(*len))
        }
        TunnelRequest::Sync { handle, entry } => {
            let scope = if *entry { SyncScope::Entry } else { SyncScope::Data };
            let file = file(session, *handle)?;
            done(file.handle()?.map_or(Ok(()), |handle| handle.sync(scope)))
        }
        TunnelRequest::Lock { .. } => lock(session, request),
        TunnelRequest::Evict { id, owners } => {
            let is_evicted =
                |file: &OpenedFile| file.id == *id && file.owner.is_some_and(|owner| owners.contains(&owner));
            state.sessions.evict(&state.files, is_evicted);
            Ok(Answer::Done)
        }
        TunnelRequest::Unlock { handle, ticket } => {
            let owner = RangeLockOwner { session: session.id, handle: *handle, ticket: *ticket };
            file(session, *handle)?.entry.locks.release(|held| *held == owner);
            Ok(Answer::Done)
        }
        TunnelRequest::List { prefix, after } => {
            let (files, more) = state.list(prefix, after)?;
            Ok(Answer::Listing { files, more })
        }
        TunnelRequest::Status => Ok(Answer::Status(state.status())),
        TunnelRequest::Ping | TunnelRequest::Bye => Ok(Answer::Done),
    }
}

fn done(outcome: Result<()>) -> Result<Answer> {
    outcome.map(|()| Answer::Done)
}

fn file(session: &Session, handle: u64) -> Result<Arc<OpenedFile>> {
    session.file(handle).ok_or_else(|| {
        let error = Error::new(Kind::Disconnected, Operation::Open, "");
        error.advise("the file is not open in this session, which may have ended; open it again")
    })
}

fn open(state: &ServerState, session: &Session, request: &OpenFileRequest<'_>) -> Result<Answer> {
    if state.stopping.load(Ordering::Acquire) {
        let error = Error::new(Kind::Disconnected, Operation::Open, "");
        return Err(error.advise("the server is stopping and opens no more files"));
    }
    let file = state.files.open(request)?;
    let (id, stripe) = (file.id, file.stripe);
    let handle = file.handle().ok().flatten();
    let persistent = handle.is_some_and(|handle| handle.capabilities().persistent);
    match session.add(file) {
        Ok(handle) => Ok(Answer::Opened { handle, id, stripe, persistent }),
        Err(file) => {
            state.files.close(Arc::new(file))?;
            let error = Error::new(Kind::ResourceLimit, Operation::Open, "");
            Err(error.advise("this program has too many files open on the server"))
        }
    }
}

fn close(state: &ServerState, session: &Session, handle: u64) -> Result<Answer> {
    let Some(file) = session.remove(handle) else { return Ok(Answer::Done) };
    file.entry.locks.release(|owner| owner.session == session.id && owner.handle == handle);
    done(state.files.close(file))
}

/// Asks for a lock, and gives the sessions that have lost one.
fn lock(session: &Session, request: &TunnelRequest) -> Result<Answer> {
    let &TunnelRequest::Lock { handle, ticket, start, end, exclusive, wait, known } = request else {
        return Ok(Answer::Done);
    };
    let owner = RangeLockOwner { session: session.id, handle, ticket };
    let entry = &file(session, handle)?.entry;
    let granted = entry.locks.request(owner, start..end, exclusive, wait.then_some(LOCK_WAIT));
    let too_many = || {
        let error = Error::new(Kind::ResourceLimit, Operation::Lock, "");
        error.advise("too many requests for locks of this file are waiting")
    };
    let granted = granted.ok_or_else(too_many)?;
    Ok(Answer::Lock { granted, evicted: if granted { entry.evicted(known) } else { Vec::new() } })
}

fn write(state: &ServerState, file: &OpenedFile, strips: &[Strip], payload: &[u8]) -> Result<Answer> {
    let handle = file.writable(Operation::Write)?;
    handle.write_all_strips(strips, payload)?;
    let bytes = payload.len() as u64;
    state.written.fetch_add(bytes, Ordering::Relaxed);
    let generation = file.entry.generation();
    Ok(Answer::Transferred { bytes, end: handle.len()?, generation })
}

/// Reads all of the strips, with zeros after the end of this part; trailing zeros are not sent.
fn read(
    state: &ServerState,
    file: &OpenedFile,
    strips: &[Strip],
    payload: &mut PayloadBuffer,
) -> Result<Answer> {
    let wanted = strip::total(strips);
    let bytes = payload.prepare(wanted as usize);
    let (generation, end) = (file.entry.generation(), file.end()?);
    let present = match file.handle()? {
        Some(handle) => {
            let is_inside = strips.iter().all(|strip| strip.span().end as u64 <= end);
            if is_inside && handle.read_full_strips(strips, bytes)? == wanted {
                wanted
            } else {
                let mut runs = strips.iter().flat_map(Strip::runs);
                read_with_zeros(&**handle, end, &mut runs, bytes)?
            }
        }
        None => 0,
    };
    payload.truncate(present as usize);
    state.read.fetch_add(present, Ordering::Relaxed);
    Ok(Answer::Transferred { bytes: wanted, end, generation })
}

/// Reads all of a list; bytes after the end of the file are zeros. Returns how many bytes, from the first of the list on, may be other than zeros.
fn read_with_zeros(
    handle: &dyn Handle,
    end: u64,
    runs: &mut dyn Iterator<Item = (u64, u64)>,
    bytes: &mut [u8],
) -> Result<u64> {
    let mut rest = bytes;
    let (mut at, mut present, mut batch) = (0, 0, Vec::new());
    for (offset, len) in runs {
        let (run, later) = std::mem::take(&mut rest).split_at_mut(len as usize);
        let there = end.saturating_sub(offset).min(len);
        let (inside, outside) = run.split_at_mut(there as usize);
        outside.fill(0);
        if there > 0 {
            present = at + there;
            batch.push(SegmentMut::new(offset, inside));
        }
        at += len;
        rest = later;
        if batch.len() == BATCH {
            read_batch(handle, &mut batch)?;
            batch.clear();
        }
    }
    read_batch(handle, &mut batch)?;
    Ok(present)
}

/// Reads segments that were inside the file; where it was truncated meanwhile, zeros.
fn read_batch(handle: &dyn Handle, batch: &mut [SegmentMut<'_>]) -> Result<()> {
    let wanted: u64 = total_mut(batch);
    if wanted == 0 || handle.read_full(batch)? == wanted {
        return Ok(());
    }
    for segment in batch {
        let count = handle.read_full(&mut [SegmentMut::new(segment.offset, segment.bytes)])?;
        segment.bytes[count as usize..].fill(0);
    }
    Ok(())
}
