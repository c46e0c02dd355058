//! The short record of an access to one run of the file, and the ring that keeps such records until they are written.
//!
//! A small access takes about a microsecond, so that its record is 32 bytes, and the thread that makes most accesses of a rank stores it
//! without a lock.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

use super::extent::FileExtent;
use super::record::{CallPhase, CallRecord, TracedOperation};

/// Words of a record.
const WORDS: usize = 4;
/// Records that a ring keeps.
const SLOTS: usize = 2048;
/// Set in the first word of a short record, which is the time of the start in both kinds.
const MARK: u64 = 1 << 63;

/// An access to one run that transferred all of its bytes in one access to the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RunRecord {
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) offset: u64,
    pub(super) bytes: u64,
    pub(super) file: u32,
    pub(super) operation: u8,
    pub(super) strategy: u8,
    pub(super) flags: u8,
}

/// A record as it is stored.
pub(super) type RunWords = [u64; WORDS];

impl RunRecord {
    /// Its size in a file.
    pub(super) const SIZE: usize = size_of::<RunWords>();

    /// As it is stored; none if a number is too large.
    pub(super) fn words(&self) -> Option<RunWords> {
        let duration = u32::try_from(self.end - self.start).ok()?;
        let file = u16::try_from(self.file).ok()?;
        let kind = [self.operation, self.strategy].map(u64::from);
        let facts = u64::from(duration) | u64::from(file) << 32 | kind[0] << 48 | kind[1] << 52;
        Some([MARK | self.start, facts | u64::from(self.flags) << 56, self.offset, self.bytes])
    }

    /// The record at the start of these bytes; none if there is a long one.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let words: RunWords = bytemuck::pod_read_unaligned(bytes.get(..Self::SIZE)?);
        let [start, facts, offset, bytes] = words;
        (start & MARK != 0).then(|| {
            let start = start & !MARK;
            let nibble = |at: u32| (facts >> at & 15) as u8;
            Self {
                start,
                end: start.saturating_add(facts & u64::from(u32::MAX)),
                offset,
                bytes,
                file: (facts >> 32 & 0xffff) as u32,
                operation: nibble(48),
                strategy: nibble(52),
                flags: (facts >> 56) as u8,
            }
        })
    }

    /// The bytes of the file.
    pub(super) fn extent(&self) -> FileExtent {
        FileExtent::run(self.offset, self.bytes)
    }

    /// The record that the call would have had.
    pub(super) fn call(&self) -> CallRecord {
        let mut call = CallRecord {
            start: self.start,
            end: self.end,
            bytes: self.bytes,
            runs: 1,
            span: [self.offset, self.offset.saturating_add(self.bytes)],
            device_bytes: self.bytes,
            file: self.file,
            device_calls: 1,
            owned_extents: 1,
            device_extents: 1,
            operation: self.operation,
            strategy: self.strategy,
            flags: self.flags,
            ..CallRecord::default()
        };
        call.phases[CallPhase::Device as usize] = self.end - self.start;
        call
    }
}

/// What an access to one run is, before it has ended.
pub(super) struct StartedRun {
    pub(super) start: u64,
    pub(super) operation: TracedOperation,
    pub(super) offset: u64,
    pub(super) bytes: u64,
    /// Bytes that were transferred; none if the access has failed.
    pub(super) transferred: Cell<Option<u64>>,
}

/// Records of one thread at a time; another one may take them out, which must hold a lock for that.
pub(super) struct RunRing {
    /// The [number](thread_number) of the thread that stores records; 0 if there is none.
    owner: AtomicU64,
    /// Records that were stored, and that were taken out, since the beginning.
    stored: AtomicU64,
    taken: AtomicU64,
    slots: Box<[[AtomicU64; WORDS]]>,
}

/// What became of a record that a thread wanted to store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RingOutcome {
    Stored,
    Full,
    /// Another thread stores records.
    NotOwner,
}

/// A number of this thread that no other one has had, from 1 on.
fn thread_number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    thread_local! {
        static NUMBER: Cell<u64> = const { Cell::new(0) };
    }
    if NUMBER.get() == 0 {
        NUMBER.set(NEXT.fetch_add(1, Ordering::Relaxed));
    }
    NUMBER.get()
}

impl RunRing {
    pub(super) fn new() -> Self {
        let slots = (0..SLOTS).map(|_| std::array::from_fn(|_| AtomicU64::new(0))).collect();
        Self { owner: AtomicU64::new(0), stored: AtomicU64::new(0), taken: AtomicU64::new(0), slots }
    }

    /// Stores a record, if this thread does, or may begin to.
    #[inline]
    pub(super) fn store(&self, record: &RunWords) -> RingOutcome {
        let own = thread_number();
        // Acquire: the thread that stored before has stored everything.
        let is_owner = self.owner.load(Ordering::Relaxed) == own
            || self.owner.compare_exchange(0, own, Ordering::Acquire, Ordering::Relaxed).is_ok();
        if !is_owner {
            return RingOutcome::NotOwner;
        }
        let at = self.stored.load(Ordering::Relaxed);
        // Acquire: who took the slot's last record out has read it.
        if at - self.taken.load(Ordering::Acquire) >= SLOTS as u64 {
            return RingOutcome::Full;
        }
        for (slot, word) in self.slots[at as usize % SLOTS].iter().zip(record) {
            slot.store(*word, Ordering::Relaxed);
        }
        self.stored.store(at + 1, Ordering::Release);
        RingOutcome::Stored
    }

    /// Another thread may store records, if this one did.
    pub(super) fn release(&self) {
        // Release: the next thread continues after what this one has stored. It fails if another thread stores.
        let _ = self.owner.compare_exchange(thread_number(), 0, Ordering::Release, Ordering::Relaxed);
    }

    /// Takes all records out, in order. Only one thread at a time may do this.
    pub(super) fn take(&self, mut each: impl FnMut(&RunWords)) {
        let (from, until) = (self.taken.load(Ordering::Relaxed), self.stored.load(Ordering::Acquire));
        for at in from..until {
            let slot = &self.slots[at as usize % SLOTS];
            each(&std::array::from_fn(|word| slot[word].load(Ordering::Relaxed)));
        }
        self.taken.store(until, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    fn record() -> RunRecord {
        RunRecord {
            start: 1 << 60,
            end: (1 << 60) + u64::from(u32::MAX),
            offset: u64::MAX >> 3,
            bytes: 1 << 42,
            file: 0xffff,
            operation: TracedOperation::Write as u8,
            strategy: 5,
            flags: CallRecord::BACKGROUND,
        }
    }

    #[test]
    fn records_are_decoded_as_they_were() {
        let words = record().words().unwrap();
        assert_eq!(RunRecord::decode(bytemuck::bytes_of(&words)), Some(record()));
        assert_eq!(RunRecord::decode(&bytemuck::bytes_of(&words)[1..]), None, "it is not whole");
        assert_eq!(RunRecord::decode(bytemuck::bytes_of(&CallRecord::default())), None, "a long record");
        for too_large in
            [RunRecord { end: (1 << 60) + (1 << 32), ..record() }, RunRecord { file: 1 << 16, ..record() }]
        {
            assert_eq!(too_large.words(), None);
        }
        let call = record().call();
        assert_eq!(
            (call.duration(), call.phases[CallPhase::Device as usize]),
            (u32::MAX.into(), u32::MAX.into())
        );
        assert_eq!((call.operation(), call.is_background()), (Some(TracedOperation::Write), true));
    }

    #[test]
    fn records_come_out_in_order_while_another_thread_stores() {
        const COUNT: u64 = 200_000;
        let (ring, ended) = (RunRing::new(), AtomicBool::new(false));
        let mut next = 0;
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for number in 0..COUNT {
                    while ring.store(&[number, number + 1, number + 2, number + 3]) == RingOutcome::Full {
                        std::hint::spin_loop();
                    }
                }
                ring.release();
                ended.store(true, Ordering::Release);
            });
            loop {
                let is_last = ended.load(Ordering::Acquire);
                ring.take(|words| {
                    assert_eq!(*words, [next, next + 1, next + 2, next + 3]);
                    next += 1;
                });
                if is_last {
                    break;
                }
            }
        });
        assert_eq!(next, COUNT);
        assert_eq!(ring.store(&[0; WORDS]), RingOutcome::Stored, "the next thread");
        let other = std::thread::scope(|scope| scope.spawn(|| ring.store(&[0; WORDS])).join().unwrap());
        assert_eq!(other, RingOutcome::NotOwner);
    }
}
