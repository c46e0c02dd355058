//! Memory for the buffers of all connections: limited, however many connections are busy.

use std::sync::{Condvar, Mutex, PoisonError};

use crate::wire::frame::{FrameHead, LONGEST_PAYLOAD};
use crate::wire::request::TunnelRequest;

/// Requests and answers up to this are not counted: each connection has so much anyway.
const SMALL: u64 = 8 << 10;

/// Decoded ranges take more than encoded ones: 32 bytes for 4.
const DECODED: u64 = 8;

/// What the thread of a connection takes besides: its stack, the buffer of its socket, tables of the allocator.
const CONNECTION: u64 = 48 << 10;

/// Buffers get so much, however many connections there are.
const LEAST: u64 = 1 << 20;

/// The memory that connections share.
#[derive(Debug)]
pub(super) struct BufferMemory {
    limit: u64,
    state: Mutex<BufferUse>,
    freed: Condvar,
}

#[derive(Debug, Default)]
struct BufferUse {
    used: u64,
    waiting: usize,
    connections: u64,
}

impl BufferMemory {
    pub(super) fn new(limit: u64) -> Self {
        Self { limit, state: Mutex::default(), freed: Condvar::new() }
    }

    /// Waits until there is room. A request that needs more than all memory is served alone.
    fn take(&self, bytes: u64) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.waiting += 1;
        while state.used > 0 && state.used + bytes > self.limit_beside(state.connections) {
            state = self.freed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.waiting -= 1;
        state.used += bytes;
    }

    /// What is left for buffers beside so many connections.
    fn limit_beside(&self, connections: u64) -> u64 {
        self.limit.saturating_sub(connections * CONNECTION).max(LEAST.min(self.limit))
    }

    fn give(&self, bytes: u64) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).used -= bytes;
        self.freed.notify_all();
    }

    fn is_contended(&self) -> bool {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).waiting > 0
    }
}

/// Bytes of one request after the other: the memory is filled with zeros only when it grows.
#[derive(Debug, Default)]
pub(super) struct PayloadBuffer {
    memory: Vec<u8>,
    len: usize,
}

impl PayloadBuffer {
    /// Memory for so many bytes, with what earlier requests have left in it.
    pub(super) fn prepare(&mut self, len: usize) -> &mut [u8] {
        if self.memory.len() < len {
            self.memory.resize(len, 0);
        }
        self.len = len;
        &mut self.memory[..len]
    }

    /// Keeps the first bytes only.
    pub(super) fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    /// The bytes.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.memory[..self.len]
    }
}

/// Memory of a connection while it is busy.
#[derive(Debug)]
pub(super) struct RequestBuffers<'a> {
    pub(super) descriptor: Vec<u8>,
    pub(super) payload: PayloadBuffer,
    pub(super) answer: Vec<u8>,
    memory: &'a BufferMemory,
    taken: u64,
}

impl<'a> RequestBuffers<'a> {
    pub(super) fn new(memory: &'a BufferMemory) -> Self {
        memory.state.lock().unwrap_or_else(PoisonError::into_inner).connections += 1;
        Self {
            descriptor: Vec::new(),
            payload: PayloadBuffer::default(),
            answer: Vec::new(),
            memory,
            taken: 0,
        }
    }

    /// Takes the memory for a request whose head has arrived, and returns that of its descriptor. Only one request is under way in a
    /// connection, and nothing is held while this waits: all get their turn.
    pub(super) fn reserve(&mut self, head: &FrameHead) -> &mut Vec<u8> {
        let is_read = head.operation == TunnelRequest::Read { handle: 0, strips: Vec::new() }.operation();
        let answer = if is_read { LONGEST_PAYLOAD } else { 0 };
        let needed = head.payload.max(answer) as u64 + head.descriptor as u64 * (1 + DECODED);
        if needed > SMALL && needed > self.taken {
            self.free();
            self.memory.take(needed);
            self.taken = needed;
        }
        &mut self.descriptor
    }

    /// True if the buffers have memory that an idle connection does not need.
    pub(super) fn hold_memory(&self) -> bool {
        self.taken > 0
    }

    /// Frees the buffers if other connections wait for memory.
    pub(super) fn share(&mut self) {
        if self.taken > 0 && self.memory.is_contended() {
            self.free();
        }
    }

    pub(super) fn free(&mut self) {
        (self.descriptor, self.answer) = (Vec::new(), Vec::new());
        self.payload = PayloadBuffer::default();
        if self.taken > 0 {
            self.memory.give(self.taken);
            self.taken = 0;
        }
    }
}

impl Drop for RequestBuffers<'_> {
    fn drop(&mut self) {
        self.free();
        self.memory.state.lock().unwrap_or_else(PoisonError::into_inner).connections -= 1;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn a_payload_has_nothing_of_earlier_ones() {
        let mut payload = PayloadBuffer::default();
        payload.prepare(5).copy_from_slice(b"abcde");
        payload.truncate(3);
        assert_eq!(payload.bytes(), b"abc");
        payload.prepare(2).copy_from_slice(b"xy");
        payload.truncate(4);
        assert_eq!(payload.bytes(), b"xy");
        payload.prepare(0);
        assert_eq!(payload.bytes(), b"");
    }

    #[test]
    fn connections_wait_for_memory_and_all_get_it() {
        let memory = BufferMemory::new(600 << 10);
        let write = |bytes| FrameHead::new(5, 0, 1, b"descriptor", bytes);
        let (most, now) = (AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let mut buffers = RequestBuffers::new(&memory);
                    for _ in 0..50 {
                        buffers.reserve(&write(LONGEST_PAYLOAD));
                        most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                        std::thread::yield_now();
                        now.fetch_sub(1, Ordering::SeqCst);
                        buffers.free();
                    }
                });
            }
        });
        assert!(most.into_inner() <= 2);
        let mut buffers = RequestBuffers::new(&memory);
        buffers.reserve(&write(1000));
        assert!(!buffers.hold_memory(), "small requests are not counted");
        let alone = BufferMemory::new(10);
        RequestBuffers::new(&alone).reserve(&write(LONGEST_PAYLOAD));
        assert_eq!(alone.state.lock().unwrap().used, 0, "given back");
    }
}
