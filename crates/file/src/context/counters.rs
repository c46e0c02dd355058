//! Counters of what a rank has done to a file: cheap, always on, readable by the program.

use std::ops::{Add, Sub};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use crate::hints::TransferDirection;
use crate::trace::CallTimer;

/// Declares each counter once: as a number, as an atomic counter, as a word of a reduction.
macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)+) => {
        /// What a rank has done to a file since it was opened; the difference of two is what was done between.
        ///
        /// ```
        /// use aqueduct_file::File;
        ///
        /// # aqueduct_comm::Launch::threads(1).run(|world| {
        /// let file = File::create(world, "memfs:counted")?;
        /// file.at(0).write(&[1u8; 100])?;
        /// let before = file.counters();
        /// file.at(50).write(&[2u8; 100])?;
        /// let done = file.counters() - before;
        /// assert_eq!((done.writes, done.written, done.messages), (1, 100, 0));
        /// # file.close()
        /// # })?;
        /// # Ok::<(), aqueduct_comm::Error>(())
        /// ```
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Counters {
            $($(#[$doc])* pub $name: u64,)+
        }

        /// The counters of an open file, which its threads increment too.
        #[derive(Debug, Default)]
        pub(crate) struct CounterCells {
            $(pub(crate) $name: CounterCell,)+
        }

        impl Counters {
            pub(crate) fn words(&self) -> Vec<u64> {
                vec![$(self.$name),+]
            }

            /// From as many words.
            pub(crate) fn from_words(words: &[u64]) -> Self {
                let mut words = words.iter().copied();
                Self { $($name: words.next().unwrap_or(0),)+ }
            }
        }

        impl Add for Counters {
            type Output = Self;

            fn add(self, other: Self) -> Self {
                Self { $($name: self.$name.saturating_add(other.$name),)+ }
            }
        }

        impl Sub for Counters {
            type Output = Self;

            fn sub(self, earlier: Self) -> Self {
                Self { $($name: self.$name.saturating_sub(earlier.$name),)+ }
            }
        }

        impl CounterCells {
            pub(crate) fn read(&self) -> Counters {
                Counters { $($name: self.$name.0.load(Ordering::Relaxed),)+ }
            }
        }
    };
}

counters! {
    /// Read operations.
    reads,
    /// Write operations.
    writes,
    /// Bytes that the program has read.
    read,
    /// Bytes that the program has written.
    written,
    /// System calls for reads, writes and mappings, where the device makes some.
    system_calls,
    /// Bytes that the engine copied from one place in memory to another.
    copied,
    /// Messages sent to other ranks.
    messages,
    /// Bytes in them.
    sent,
    /// Buffers and lists that the engine allocated, shared ones too.
    allocations,
    /// Bytes of them.
    allocated,
    /// Locks taken.
    locks,
    /// Locks that had to be waited for.
    lock_waits,
    /// Rounds of collective accesses that were planned; an access with a cached plan counts none.
    planned,
    /// Nanoseconds in reads, if reports are enabled, else 0.
    read_nanos,
    /// Nanoseconds in writes, if reports are enabled, else 0.
    write_nanos,
}

/// One counter.
#[derive(Debug, Default)]
pub(crate) struct CounterCell(AtomicU64);

impl CounterCell {
    pub(crate) fn add(&self, amount: u64) {
        if amount > 0 {
            self.0.fetch_add(amount, Ordering::Relaxed);
        }
    }
}

impl CounterCells {
    /// A buffer of so many bytes was allocated.
    pub(crate) fn count_buffer(&self, bytes: usize) {
        self.allocations.add(1);
        self.allocated.add(bytes as u64);
    }

    /// Starts an operation: everything that this thread does until the timer is dropped is counted.
    pub(crate) fn start_operation(&self, direction: TransferDirection) -> OpTimer<'_> {
        let start = aqueduct_report::is_enabled().then(Instant::now);
        let (calls, waits) = (aqueduct_device::syscalls(), aqueduct_device::lock_waits());
        OpTimer { counters: self, direction, start, calls, waits, call: None }
    }
}

/// An operation in progress.
pub(crate) struct OpTimer<'a> {
    counters: &'a CounterCells,
    direction: TransferDirection,
    start: Option<Instant>,
    calls: u64,
    waits: u64,
    call: Option<CallTimer<'a>>,
}

impl<'a> OpTimer<'a> {
    /// Recorded as a call of the trace too.
    pub(crate) fn traced(mut self, call: Option<CallTimer<'a>>) -> Self {
        self.call = call;
        self
    }

    /// The operation has transferred so many bytes.
    pub(crate) fn finish(self, bytes: u64) {
        let (operations, transferred) = match self.direction {
            TransferDirection::Read => (&self.counters.reads, &self.counters.read),
            TransferDirection::Write => (&self.counters.writes, &self.counters.written),
        };
        operations.add(1);
        transferred.add(bytes);
        if let Some(call) = &self.call {
            call.finish(bytes);
        }
    }
}

impl Drop for OpTimer<'_> {
    fn drop(&mut self) {
        self.counters.system_calls.add(aqueduct_device::syscalls() - self.calls);
        self.counters.lock_waits.add(aqueduct_device::lock_waits() - self.waits);
        let Some(start) = self.start else { return };
        let nanos = match self.direction {
            TransferDirection::Read => &self.counters.read_nanos,
            TransferDirection::Write => &self.counters.write_nanos,
        };
        nanos.add(u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_back() {
        let counters = Counters { reads: 1, copied: 2, lock_waits: 3, write_nanos: 4, ..Counters::default() };
        assert_eq!(Counters::from_words(&counters.words()), counters);
        assert_eq!(counters - counters, Counters::default());
    }

    #[test]
    fn only_a_finished_operation_is_counted() {
        let counters = CounterCells::default();
        counters.count_buffer(10);
        counters.start_operation(TransferDirection::Write).finish(7);
        drop(counters.start_operation(TransferDirection::Read));
        let seen = Counters { write_nanos: 0, read_nanos: 0, ..counters.read() };
        let expected =
            Counters { allocations: 1, allocated: 10, writes: 1, written: 7, ..Counters::default() };
        assert_eq!(seen, expected);
    }
}
