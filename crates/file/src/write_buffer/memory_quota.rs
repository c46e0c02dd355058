//! A memory quota that several files share: one limit for all, and a queue of files that wait for memory. Pure arithmetic; it allocates
//! nothing.
//!
//! Allocated memory holds data that is being written and is released then, so that every file in the queue is served: at the latest when it is
//! the first one and nothing is allocated, because no file requests more than the limit.

use std::collections::VecDeque;

use super::admission::Level;

/// A request for memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Allocation {
    /// A block, with its list.
    Block(u64),
    /// Memory for the lists of spilled data. It is small, so that files do not queue for it.
    List(u64),
}

/// The memory of all files, and the files that wait for it.
#[derive(Clone, Debug, Default)]
pub(crate) struct MemoryQuota {
    memory: Level,
    /// Bytes of allocated blocks.
    blocks: u64,
    /// Bytes that are reserved for lists, if there is more than one block.
    reserved: u64,
    queue: VecDeque<u64>,
}

impl MemoryQuota {
    /// Adds a file with its limit and the part of it that is reserved for lists. The largest file sets the limit.
    pub(crate) fn join(&mut self, cap: u64, reserved: u64) {
        self.memory.cap = self.memory.cap.max(cap);
        self.reserved = self.reserved.max(reserved);
    }

    /// Allocates memory for a file; a file that gets none for a block waits in the queue.
    pub(crate) fn take(&mut self, file: u64, allocation: Allocation) -> bool {
        let fits = self.is_next(file, allocation) && self.fits(allocation);
        if fits {
            self.leave_queue(file);
        } else if matches!(allocation, Allocation::Block(_)) && !self.queue.contains(&file) {
            self.queue.push_back(file);
        }
        if let (true, Allocation::Block(bytes)) = (fits, allocation) {
            self.blocks += bytes;
        }
        let (Allocation::Block(bytes) | Allocation::List(bytes)) = allocation;
        fits && self.memory.take(bytes)
    }

    /// True if no other file waits for a block before this one.
    pub(crate) fn is_next(&self, file: u64, allocation: Allocation) -> bool {
        matches!(allocation, Allocation::List(_)) || self.queue.front().is_none_or(|first| *first == file)
    }

    /// True if there is enough memory.
    pub(crate) fn fits(&self, allocation: Allocation) -> bool {
        match allocation {
            Allocation::List(bytes) => bytes <= self.memory.room(),
            Allocation::Block(bytes) => {
                let limit = self.memory.cap.saturating_sub(self.reserved).max(bytes);
                bytes <= self.memory.room() && self.blocks + bytes <= limit
            }
        }
    }

    pub(crate) fn give(&mut self, allocation: Allocation) {
        if let Allocation::Block(bytes) = allocation {
            self.blocks -= bytes;
        }
        let (Allocation::Block(bytes) | Allocation::List(bytes)) = allocation;
        self.memory.give(bytes);
    }

    /// Removes a file from the queue.
    pub(crate) fn leave_queue(&mut self, file: u64) {
        self.queue.retain(|waiting| *waiting != file);
    }

    pub(crate) fn memory(&self) -> Level {
        self.memory
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn files_are_served_in_the_order_of_the_queue() {
        let mut quota = MemoryQuota::default();
        quota.join(100, 0);
        quota.join(250, 0);
        assert!(quota.take(1, Allocation::Block(100)) && quota.take(1, Allocation::Block(100)));
        assert!(!quota.take(2, Allocation::Block(100)) && !quota.queue.is_empty());
        assert!(!quota.take(1, Allocation::Block(40)), "another one waits");
        assert!(quota.take(1, Allocation::List(40)), "little things do not queue");
        quota.give(Allocation::Block(100));
        assert!(!quota.take(1, Allocation::Block(1)) && quota.take(2, Allocation::Block(100)));
        quota.leave_queue(1);
        assert_eq!((quota.queue.len(), quota.memory().held, quota.memory().peak), (0, 240, 240));
    }

    #[test]
    fn blocks_leave_memory_for_lists_unless_there_is_one_block() {
        let mut quota = MemoryQuota::default();
        quota.join(100, 50);
        assert!(quota.take(1, Allocation::Block(80)), "it would never get it");
        assert!(!quota.take(2, Allocation::Block(10)) && quota.take(2, Allocation::List(20)));
        assert!(!quota.take(2, Allocation::List(1)));
    }

    proptest! {
        /// Files of all sizes allocate, release and wait: the limit holds, and no file waits when nothing is allocated.
        #[test]
        fn the_limit_holds_and_waits_end(
            files in prop::collection::vec((1u64..100, 0u64..100), 1..5),
            deeds in prop::collection::vec((0usize..5, any::<bool>(), any::<bool>()), 1..300),
        ) {
            let mut quota = MemoryQuota::default();
            for (block, more) in &files {
                quota.join(block + more, *more);
            }
            let cap = files.iter().map(|(block, more)| block + more).max().unwrap();
            let mut held: Vec<Allocation> = Vec::new();
            for (file, list, back) in deeds {
                let file = file % files.len();
                let (block, more) = files[file];
                let allocation = if list && more > 0 { Allocation::List(more) } else { Allocation::Block(block) };
                if quota.take(file as u64, allocation) {
                    held.push(allocation);
                } else if held.is_empty() {
                    prop_assert!(!quota.is_next(file as u64, allocation), "a file waits although nothing is allocated");
                }
                if back && !held.is_empty() {
                    quota.give(held.swap_remove(0));
                }
                prop_assert!(quota.memory().peak <= cap);
            }
            held.drain(..).for_each(|allocation| quota.give(allocation));
            // What is left of the queue is served in its order.
            while let Some(first) = quota.queue.front().copied() {
                let allocation = Allocation::Block(files[first as usize].0);
                prop_assert!(quota.take(first, allocation));
                quota.give(allocation);
            }
            prop_assert_eq!(quota.memory().held, 0);
        }
    }
}
