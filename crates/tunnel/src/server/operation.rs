//! The execution of requests.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use aqueduct_device::{Error, HandleExt, Kind, Operation, Result, Segment, SyncScope};

use super::ServerState;
use super::file_table::{OpenFileRequest, OpenedFile, read_with_zeros};
use super::lock_table::RangeLockOwner;
use super::session::Session;
use crate::wire::answer::Answer;
use crate::wire::request::TunnelRequest;
use crate::wire::strips::{WireStrip, total};

/// How long a request for a lock waits before it is answered; the client then asks again.
const LOCK_WAIT: Duration = Duration::from_millis(400);

/// Segments in one call of the device.
const BATCH: usize = 1024;

/// Executes a request. `payload` has what is to be written, or gets what was read.
pub(super) fn execute(
    state: &ServerState,
    session: &Session,
    request: &TunnelRequest,
    payload: &mut Vec<u8>,
) -> Result<Answer> {
    match request {
        TunnelRequest::Open { name, flags, permissions, stripe, part } => {
            let request = OpenFileRequest {
                name,
                flags: *flags,
                permissions: *permissions,
                stripe: *stripe,
                part: *part,
            };
            open(state, session, &request)
        }
        TunnelRequest::Close { handle } => close(state, session, *handle),
        TunnelRequest::Delete { name, part } => Ok(Answer::Deleted { id: state.files.delete(name, *part)? }),
        TunnelRequest::Read { handle, strips } => read(state, &*file(session, *handle)?, strips, payload),
        TunnelRequest::Write { handle, strips } => write(state, &*file(session, *handle)?, strips, payload),
        TunnelRequest::Len { handle } => {
            Ok(Answer::Transferred { bytes: 0, end: file(session, *handle)?.handle.len()? })
        }
        TunnelRequest::SetLen { handle, len } => done(file(session, *handle)?.handle.set_len(*len)),
        TunnelRequest::Preallocate { handle, len } => done(file(session, *handle)?.handle.preallocate(*len)),
        TunnelRequest::Sync { handle, entry } => {
            let scope = if *entry { SyncScope::Entry } else { SyncScope::Data };
            done(file(session, *handle)?.handle.sync(scope))
        }
        TunnelRequest::Lock { handle, ticket, start, end, exclusive, wait } => {
            let owner = RangeLockOwner { session: session.id, handle: *handle, ticket: *ticket };
            let locks = &file(session, *handle)?.entry.locks;
            let granted = locks.request(owner, *start..*end, *exclusive, wait.then_some(LOCK_WAIT));
            Ok(Answer::Lock { granted })
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
    let (id, stripe) = (file.entry.id, file.entry.stripe);
    let persistent = file.handle.capabilities().persistent;
    match session.add(file) {
        Ok(handle) => Ok(Answer::Opened { handle, id, stripe, persistent }),
        Err(file) => {
            state.files.close(file)?;
            let error = Error::new(Kind::ResourceLimit, Operation::Open, "");
            Err(error.advise("this program has too many files open on the server"))
        }
    }
}

fn close(state: &ServerState, session: &Session, handle: u64) -> Result<Answer> {
    let Some(mut file) = session.remove(handle) else { return Ok(Answer::Done) };
    file.entry.locks.release(|owner| owner.session == session.id && owner.handle == handle);
    // Another connection may be about to end an access.
    loop {
        match Arc::try_unwrap(file) {
            Ok(file) => return done(state.files.close(file)),
            Err(used) => file = used,
        }
        std::thread::yield_now();
    }
}

fn write(state: &ServerState, file: &OpenedFile, strips: &[WireStrip], payload: &[u8]) -> Result<Answer> {
    let wanted = total(strips);
    if wanted != payload.len() as u64 {
        let error = Error::new(Kind::InvalidArgument, Operation::Write, "");
        return Err(error.advise("the payload has another length than the strips"));
    }
    let (mut rest, mut written) = (payload, 0);
    let mut runs = strips.iter().flat_map(WireStrip::runs).peekable();
    while runs.peek().is_some() {
        let mut bytes = 0;
        let batch: Vec<Segment<'_>> = runs
            .by_ref()
            .take(BATCH)
            .map(|(offset, len)| {
                let (run, later) = rest.split_at(len as usize);
                (rest, bytes) = (later, bytes + len);
                Segment::new(offset, run)
            })
            .collect();
        file.handle.write_all(&batch).map_err(|error| {
            let before = written + error.transferred();
            error.after(before)
        })?;
        written += bytes;
    }
    state.written.fetch_add(written, Ordering::Relaxed);
    Ok(Answer::Transferred { bytes: written, end: file.handle.len()? })
}

/// Reads all of the strips, with zeros after the end of this part; trailing zeros are not sent.
fn read(
    state: &ServerState,
    file: &OpenedFile,
    strips: &[WireStrip],
    payload: &mut Vec<u8>,
) -> Result<Answer> {
    let wanted = total(strips);
    payload.resize(wanted as usize, 0);
    let end = file.handle.len()?;
    let mut runs = strips.iter().flat_map(WireStrip::runs);
    let present = read_with_zeros(&*file.handle, end, &mut runs, payload)?;
    payload.truncate(present as usize);
    state.read.fetch_add(present, Ordering::Relaxed);
    Ok(Answer::Transferred { bytes: wanted, end })
}
