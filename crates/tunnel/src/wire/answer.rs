//! Answers of servers.

use aqueduct_device::{Error, Kind, Operation};

use super::bytes::{ByteReader, WireDecodeError, put_number, put_string};
use super::greeting::SessionId;
use super::request::{FileId, LONGEST_NAME, put_sessions, read_sessions};

/// The longest text of an error.
const LONGEST_TEXT: usize = 4096;
/// The most files of one listing; the client asks for more.
pub const MOST_LISTED: usize = 4096;
/// Names of one listing have at most this, and those of one file more.
const LISTED_BYTES: usize = 512 << 10;

/// A file of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedFile {
    /// Its name.
    pub name: Vec<u8>,
    /// The end of the part on this server.
    pub end: u64,
}

/// Files of one listing, as long as they fit into an answer.
#[derive(Debug, Default)]
pub struct ListingPage {
    /// The files so far.
    pub files: Vec<ListedFile>,
    bytes: usize,
}

impl ListingPage {
    /// True if no more files fit.
    pub fn is_full(&self) -> bool {
        self.files.len() == MOST_LISTED || self.bytes > LISTED_BYTES
    }

    /// Adds a file.
    pub fn add(&mut self, file: ListedFile) {
        self.bytes += file.name.len();
        self.files.push(file);
    }
}

/// The state of a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServerStatus {
    /// Bytes of memory that files may take; zero if files are in a folder.
    pub memory: u64,
    /// Bytes that they take.
    pub used: u64,
    /// Number of files; zero if files are in a folder.
    pub files: u64,
    /// Number of sessions.
    pub sessions: u64,
    /// Number of connections.
    pub connections: u64,
    /// Bytes written by clients since the start.
    pub written: u64,
    /// Bytes read by clients since the start.
    pub read: u64,
    /// Milliseconds since the start.
    pub uptime: u64,
    /// Greetings that were refused.
    pub refused: u64,
    /// Requests that were answered, without signs of life.
    pub requests: u64,
}

/// What a server answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It is done.
    Done,
    /// A file is open.
    Opened {
        /// The handle, for this session.
        handle: u64,
        /// The identity of the file.
        id: FileId,
        /// The stripe size of the file.
        stripe: u64,
        /// What is synced survives the server.
        persistent: bool,
    },
    /// A file was deleted.
    Deleted {
        /// Its identity.
        id: FileId,
    },
    /// Bytes were transferred, or the end was asked for.
    Transferred {
        /// How many.
        bytes: u64,
        /// The end of the part on this server.
        end: u64,
        /// Another one after each truncation of the file.
        generation: u64,
    },
    /// Whether a lock is held.
    Lock {
        /// It is.
        granted: bool,
        /// Sessions that have lost a lock of this file, after those that the client knows.
        evicted: Vec<SessionId>,
    },
    /// Some files.
    Listing {
        /// In the order of their names.
        files: Vec<ListedFile>,
        /// There are more.
        more: bool,
    },
    /// The state of the server.
    Status(ServerStatus),
}

/// An error of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WireError {
    /// The kind.
    pub kind: Kind,
    /// Where in the file.
    pub offset: Option<u64>,
    /// Bytes of the list that were transferred before it.
    pub transferred: u64,
    /// What happened, and the remedy.
    pub text: String,
}

/// The kinds by their numbers; new ones are added at the end.
const KINDS: [Kind; 15] = [
    Kind::Io,
    Kind::NotFound,
    Kind::AlreadyExists,
    Kind::NotAFile,
    Kind::PermissionDenied,
    Kind::NoSpace,
    Kind::Quota,
    Kind::Busy,
    Kind::InvalidName,
    Kind::UnknownDevice,
    Kind::InvalidArgument,
    Kind::Unsupported,
    Kind::ResourceLimit,
    Kind::PowerLost,
    Kind::Disconnected,
];

impl WireError {
    /// The error of a device.
    pub fn new(error: &Error) -> Self {
        let (kind, offset) = (error.kind(), error.offset());
        Self { kind, offset, transferred: error.transferred(), text: error.explanation() }
    }

    /// The error as that of a file of a server.
    pub fn into_error(self, operation: Operation, name: &str, server: &str) -> Error {
        let error = Error::new(self.kind, operation, name).after(self.transferred);
        let error = error.advise(format!("server {server}: {}", self.text));
        match self.offset {
            Some(offset) => error.at(offset),
            None => error,
        }
    }

    /// Appends the descriptor.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let code = KINDS.iter().position(|kind| *kind == self.kind).unwrap_or(0);
        out.push(code as u8);
        put_number(out, self.offset.map_or(0, |offset| offset.saturating_add(1)));
        put_number(out, self.transferred);
        put_string(out, &self.text.as_bytes()[..self.text.len().min(LONGEST_TEXT)]);
    }

    /// Reads a descriptor.
    pub fn decode(descriptor: &[u8]) -> Result<Self, WireDecodeError> {
        let mut reader = ByteReader::new(descriptor);
        let code = usize::from(reader.byte()?);
        let kind = *KINDS.get(code).unwrap_or(&Kind::Io);
        let offset = reader.number()?.checked_sub(1);
        let error = Self { kind, offset, transferred: reader.number()?, text: reader.text(LONGEST_TEXT)? };
        reader.finish()?;
        Ok(error)
    }
}

impl Answer {
    /// Appends the descriptor.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Done => out.push(0),
            Self::Opened { handle, id, stripe, persistent } => {
                out.push(1);
                put_number(out, *handle);
                out.extend_from_slice(id);
                put_number(out, *stripe);
                out.push(u8::from(*persistent));
            }
            Self::Deleted { id } => {
                out.push(2);
                out.extend_from_slice(id);
            }
            Self::Transferred { bytes, end, generation } => {
                out.push(3);
                [*bytes, *end, *generation].into_iter().for_each(|number| put_number(out, number));
            }
            Self::Lock { granted, evicted } => {
                out.extend_from_slice(&[4, u8::from(*granted)]);
                put_sessions(out, evicted);
            }
            Self::Listing { files, more } => {
                out.extend_from_slice(&[5, u8::from(*more)]);
                put_number(out, files.len() as u64);
                for file in files {
                    put_string(out, &file.name);
                    put_number(out, file.end);
                }
            }
            Self::Status(status) => {
                out.push(6);
                status.numbers().into_iter().for_each(|number| put_number(out, number));
            }
        }
    }

    /// Reads a descriptor.
    pub fn decode(descriptor: &[u8]) -> Result<Self, WireDecodeError> {
        let mut reader = ByteReader::new(descriptor);
        let r = &mut reader;
        let answer = match r.byte()? {
            0 => Self::Done,
            1 => Self::Opened {
                handle: r.number()?,
                id: r.array()?,
                stripe: r.number()?,
                persistent: r.byte()? != 0,
            },
            2 => Self::Deleted { id: r.array()? },
            3 => Self::Transferred { bytes: r.number()?, end: r.number()?, generation: r.number()? },
            4 => Self::Lock { granted: r.byte()? != 0, evicted: read_sessions(r)? },
            5 => {
                let more = r.byte()? != 0;
                let count = r.number_up_to(MOST_LISTED as u64)?;
                let file = |_| Ok(ListedFile { name: r.string(LONGEST_NAME)?.to_vec(), end: r.number()? });
                Self::Listing { files: (0..count).map(file).collect::<Result<_, WireDecodeError>>()?, more }
            }
            6 => {
                let mut numbers = [0; 10];
                for number in &mut numbers {
                    *number = r.number()?;
                }
                Self::Status(ServerStatus::from_numbers(numbers))
            }
            _ => return Err(r.error("an unknown answer")),
        };
        reader.finish()?;
        Ok(answer)
    }
}

impl ServerStatus {
    fn numbers(self) -> [u64; 10] {
        let Self { memory, used, files, sessions, connections, written, read, uptime, refused, requests } =
            self;
        [memory, used, files, sessions, connections, written, read, uptime, refused, requests]
    }

    fn from_numbers(numbers: [u64; 10]) -> Self {
        let [memory, used, files, sessions, connections, written, read, uptime, refused, requests] = numbers;
        Self { memory, used, files, sessions, connections, written, read, uptime, refused, requests }
    }
}
