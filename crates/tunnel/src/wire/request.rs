//! Requests of clients.

use aqueduct_device::Strip;

use super::bytes::{ByteReader, WireDecodeError, put_number, put_string};
use super::greeting::SessionId;
use super::strips::{put_strips, read_strips};

/// The longest file name.
pub const LONGEST_NAME: usize = 4096;

/// The most sessions that have lost locks of a file in one message; there may be more messages.
pub const MOST_EVICTED: usize = 256;

/// The identity of a file: another file of the same name has another one.
pub type FileId = [u8; 16];

/// How a file is opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is an independent yes or no")]
pub struct OpenFlags {
    /// Reads are allowed.
    pub read: bool,
    /// Writes are allowed.
    pub write: bool,
    /// A missing file is created.
    pub create: bool,
    /// An existing file is an error.
    pub exclusive: bool,
    /// An existing file is truncated.
    pub truncate: bool,
}

/// What a server is for a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenRole {
    /// The first server, which decides whether the file exists and keeps its locks.
    First {
        /// The hash of the epochs of all servers of the set: if a server was started again, its stripes are lost.
        epochs: [u8; 16],
    },
    /// Another one, with a part of the file.
    Part {
        /// The identity that the first server gave.
        id: FileId,
        /// The session of the client on the first server: if it loses a lock there, it is fenced here.
        owner: SessionId,
    },
}

/// What a client asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TunnelRequest {
    /// Opens a file. Its first server decides whether it exists; the others open the part with that identity.
    Open {
        /// The name.
        name: Vec<u8>,
        /// How.
        flags: OpenFlags,
        /// Permission bits of a new file.
        permissions: u32,
        /// The stripe size of a new file.
        stripe: u64,
        /// What the server is for the file.
        role: OpenRole,
    },
    /// Closes a handle.
    Close {
        /// The handle.
        handle: u64,
    },
    /// Deletes a file, or the part of it on another server than the first.
    Delete {
        /// The name.
        name: Vec<u8>,
        /// The part with this identity only.
        part: Option<FileId>,
    },
    /// Reads.
    Read {
        /// The handle.
        handle: u64,
        /// The ranges.
        strips: Vec<Strip>,
    },
    /// Writes the payload.
    Write {
        /// The handle.
        handle: u64,
        /// The ranges.
        strips: Vec<Strip>,
    },
    /// Asks for the end of this server's part.
    Len {
        /// The handle.
        handle: u64,
    },
    /// Truncates or extends.
    SetLen {
        /// The handle.
        handle: u64,
        /// The length.
        len: u64,
    },
    /// Reserves space.
    Preallocate {
        /// The handle.
        handle: u64,
        /// The length.
        len: u64,
    },
    /// Makes durable what the server can make durable.
    Sync {
        /// The handle.
        handle: u64,
        /// The directory entry too.
        entry: bool,
    },
    /// Locks a range, or waits for it a while.
    Lock {
        /// The handle.
        handle: u64,
        /// Identifies the lock in the session; a request with the same ticket keeps its place in the queue.
        ticket: u64,
        /// First byte.
        start: u64,
        /// After the last byte.
        end: u64,
        /// Others may not share it.
        exclusive: bool,
        /// Without it, a range that is locked is answered at once and not waited for.
        wait: bool,
        /// How many sessions that have lost locks of this file the client knows.
        known: u64,
    },
    /// Releases a lock, or stops waiting for it.
    Unlock {
        /// The handle.
        handle: u64,
        /// The ticket.
        ticket: u64,
    },
    /// Lists files.
    List {
        /// Names begin with this.
        prefix: Vec<u8>,
        /// Names after this one.
        after: Vec<u8>,
    },
    /// Asks for the state of the server.
    Status,
    /// A sign of life.
    Ping,
    /// Ends the session.
    Bye,
    /// Closes parts of a file for clients that have lost their locks on its first server, after what they have under way.
    Evict {
        /// The file.
        id: FileId,
        /// Their sessions on the first server.
        owners: Vec<SessionId>,
    },
}

/// A request of each operation is known by its number.
impl TunnelRequest {
    /// The number of the operation.
    pub fn operation(&self) -> u8 {
        match self {
            Self::Open { .. } => 1,
            Self::Close { .. } => 2,
            Self::Delete { .. } => 3,
            Self::Read { .. } => 4,
            Self::Write { .. } => 5,
            Self::Len { .. } => 6,
            Self::SetLen { .. } => 7,
            Self::Preallocate { .. } => 8,
            Self::Sync { .. } => 9,
            Self::Lock { .. } => 10,
            Self::Unlock { .. } => 11,
            Self::List { .. } => 12,
            Self::Status => 13,
            Self::Ping => 14,
            Self::Bye => 15,
            Self::Evict { .. } => 16,
        }
    }

    /// True if a second execution has another effect or another answer: the server keeps the answer.
    pub fn is_answered_once(&self) -> bool {
        matches!(self, Self::Open { .. } | Self::Close { .. } | Self::Delete { .. })
    }

    /// Appends the descriptor.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Open { name, flags, permissions, stripe, role } => {
                let is_part = matches!(role, OpenRole::Part { .. });
                let bits = [flags.read, flags.write, flags.create, flags.exclusive, flags.truncate, is_part];
                out.push(bits.iter().enumerate().map(|(at, bit)| u8::from(*bit) << at).sum());
                put_number(out, u64::from(*permissions));
                put_number(out, *stripe);
                match role {
                    OpenRole::First { epochs } => out.extend_from_slice(epochs),
                    OpenRole::Part { id, owner } => {
                        [id, owner].iter().for_each(|id| out.extend_from_slice(*id));
                    }
                }
                put_string(out, name);
            }
            Self::Delete { name, part } => {
                out.push(u8::from(part.is_some()));
                out.extend_from_slice(part.iter().flatten().copied().collect::<Vec<_>>().as_slice());
                put_string(out, name);
            }
            Self::Close { handle } | Self::Len { handle } => put_number(out, *handle),
            Self::Read { handle, strips } | Self::Write { handle, strips } => {
                put_number(out, *handle);
                put_strips(out, strips);
            }
            Self::SetLen { handle, len } | Self::Preallocate { handle, len } => {
                put_number(out, *handle);
                put_number(out, *len);
            }
            Self::Sync { handle, entry } => {
                put_number(out, *handle);
                out.push(u8::from(*entry));
            }
            Self::Lock { handle, ticket, start, end, exclusive, wait, known } => {
                [*handle, *ticket, *start, *end, *known]
                    .into_iter()
                    .for_each(|number| put_number(out, number));
                out.push(u8::from(*exclusive) | u8::from(*wait) << 1);
            }
            Self::Unlock { handle, ticket } => {
                put_number(out, *handle);
                put_number(out, *ticket);
            }
            Self::List { prefix, after } => {
                put_string(out, prefix);
                put_string(out, after);
            }
            Self::Evict { id, owners } => {
                out.extend_from_slice(id);
                put_sessions(out, owners);
            }
            Self::Status | Self::Ping | Self::Bye => {}
        }
    }

    /// Reads a descriptor; none for an operation that is unknown.
    pub fn decode(operation: u8, descriptor: &[u8]) -> Result<Option<Self>, WireDecodeError> {
        let mut reader = ByteReader::new(descriptor);
        let r = &mut reader;
        let request = match operation {
            1 => decode_open(r)?,
            2 => Self::Close { handle: r.number()? },
            3 => {
                let has_part = flag_bits(r, 1)? == 1;
                let part = if has_part { Some(r.array()?) } else { None };
                Self::Delete { part, name: r.string(LONGEST_NAME)?.to_vec() }
            }
            4 => Self::Read { handle: r.number()?, strips: read_strips(r)? },
            5 => Self::Write { handle: r.number()?, strips: read_strips(r)? },
            6 => Self::Len { handle: r.number()? },
            7 => Self::SetLen { handle: r.number()?, len: r.number()? },
            8 => Self::Preallocate { handle: r.number()?, len: r.number()? },
            9 => Self::Sync { handle: r.number()?, entry: flag_bits(r, 1)? == 1 },
            10 => {
                let (handle, ticket, start, end) = (r.number()?, r.number()?, r.number()?, r.number()?);
                let (known, bits) = (r.number()?, flag_bits(r, 2)?);
                Self::Lock {
                    handle,
                    ticket,
                    start,
                    end,
                    exclusive: bits & 1 != 0,
                    wait: bits & 2 != 0,
                    known,
                }
            }
            11 => Self::Unlock { handle: r.number()?, ticket: r.number()? },
            12 => Self::List {
                prefix: r.string(LONGEST_NAME)?.to_vec(),
                after: r.string(LONGEST_NAME)?.to_vec(),
            },
            13 => Self::Status,
            14 => Self::Ping,
            15 => Self::Bye,
            16 => Self::Evict { id: r.array()?, owners: read_sessions(r)? },
            _ => return Ok(None),
        };
        reader.finish()?;
        Ok(Some(request))
    }
}

fn decode_open(r: &mut ByteReader<'_>) -> Result<TunnelRequest, WireDecodeError> {
    let bits = flag_bits(r, 6)?;
    let bit = |at: u8| bits >> at & 1 != 0;
    let flags =
        OpenFlags { read: bit(0), write: bit(1), create: bit(2), exclusive: bit(3), truncate: bit(4) };
    let (permissions, stripe) = (r.number_up_to(0o7777)? as u32, r.number()?);
    let role = if bit(5) {
        OpenRole::Part { id: r.array()?, owner: r.array()? }
    } else {
        OpenRole::First { epochs: r.array()? }
    };
    Ok(TunnelRequest::Open { name: r.string(LONGEST_NAME)?.to_vec(), flags, permissions, stripe, role })
}

/// A byte with at most so many bits.
fn flag_bits(r: &mut ByteReader<'_>, bits: u8) -> Result<u8, WireDecodeError> {
    let byte = r.byte()?;
    if byte >> bits == 0 { Ok(byte) } else { Err(r.error("unknown bits")) }
}

/// Appends at most [`MOST_EVICTED`] sessions.
pub(super) fn put_sessions(out: &mut Vec<u8>, sessions: &[SessionId]) {
    let sessions = &sessions[..sessions.len().min(MOST_EVICTED)];
    put_number(out, sessions.len() as u64);
    sessions.iter().for_each(|session| out.extend_from_slice(session));
}

/// Reads sessions.
pub(super) fn read_sessions(r: &mut ByteReader<'_>) -> Result<Vec<SessionId>, WireDecodeError> {
    let count = r.number_up_to(MOST_EVICTED as u64)?;
    (0..count).map(|_| r.array()).collect()
}
