//! The bytes of a parcel, fetched from the clients window by window.

use super::desk::{Desk, Held};
use super::ledger::Phase;
use crate::error::{Error, Kind, Result};
use crate::group::Assembly;

/// What a server has fetched of a parcel.
pub(super) struct Fetched<'a> {
    desk: &'a Desk,
    assembly: &'a Assembly,
    /// Where the next window begins.
    start: u64,
    clients: Vec<Cursor>,
}

/// How far a client's bytes are fetched.
#[derive(Default)]
struct Cursor {
    /// The chunk that is being fetched, and how much of it was.
    chunk: Option<(Held, usize)>,
    done: u64,
}

impl<'a> Fetched<'a> {
    pub(super) fn new(desk: &'a Desk, assembly: &'a Assembly) -> Self {
        let clients = (0..desk.clients()).map(|_| Cursor::default()).collect();
        Self { desk, assembly, start: 0, clients }
    }

    /// Puts the next window together.
    pub(super) fn fill(&mut self, buffer: &mut Vec<u8>) -> Result<()> {
        let window = self.assembly.window(self.start, self.desk.window);
        let length = (window.end - window.start) as usize;
        self.desk.turn_to(Phase::Fetching);
        if buffer.capacity() < length {
            let before = buffer.capacity();
            buffer.reserve_exact(length - buffer.len());
            self.desk.grow((buffer.capacity() - before) as u64);
        }
        buffer.resize(length, 0);
        for client in 0..self.clients.len() {
            let bytes = self.assembly.of(client, &window);
            self.fetch(client, bytes.end - bytes.start, buffer)?;
        }
        self.start = window.end;
        self.desk.turn_to(Phase::Writing);
        Ok(())
    }

    /// Fetches so many bytes of a client into the window that begins at `start`.
    fn fetch(&mut self, client: usize, bytes: u64, window: &mut [u8]) -> Result<()> {
        let mut left = bytes;
        while left > 0 {
            let cursor = &mut self.clients[client];
            let (held, at) = match cursor.chunk.take() {
                Some(chunk) => chunk,
                None => (self.desk.chunk(client)?, 0),
            };
            let length = length(&held);
            let now = (length - at).min(left as usize);
            let mut put = |chunk: &[u8]| {
                self.assembly.put(client, cursor.done, &chunk[at..at + now], self.start, window)
            };
            let put = match &held {
                Held::Private(chunk) => Some(put(chunk.bytes())),
                Held::Slot(row, slot, bytes) => {
                    let symmetric = self.desk.symmetric.as_ref();
                    symmetric.and_then(|symmetric| symmetric.show(*row, *slot, *bytes, put))
                }
                Held::Nothing => None,
            };
            let refuse = |detail: &str| Error::new(Kind::Communication, "fetch", &self.desk.name, detail);
            let put = put.ok_or_else(|| refuse("a rank told of bytes where none can be"))?;
            put.map_err(|error| refuse(&error.to_string()))?;
            cursor.done += now as u64;
            left -= now as u64;
            if at + now == length {
                self.desk.release(client, held);
            } else {
                cursor.chunk = Some((held, at + now));
            }
        }
        Ok(())
    }
}

fn length(held: &Held) -> usize {
    match held {
        Held::Slot(_, _, bytes) => *bytes,
        Held::Private(private) => private.bytes().len(),
        Held::Nothing => 0,
    }
}
