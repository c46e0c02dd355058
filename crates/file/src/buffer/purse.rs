//! Memory that several files share: one cap for all, and whose turn it is when there is none left. Pure arithmetic; it allocates nothing.
//!
//! Whatever is taken is on its way to a file and comes back by itself, so that who waits in the queue gets what it wants: at the latest when it is the
//! first and nothing is held, because nobody wants more than the cap.

use std::collections::VecDeque;

use super::client::Level;

/// What memory is wanted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    /// A block, with its list.
    Block(u64),
    /// What spilled data needs in memory. It is little, so that nobody queues for it.
    List(u64),
}

/// The memory of all files, and who waits for it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Purse {
    memory: Level,
    /// Of what is held, blocks.
    blocks: u64,
    /// What blocks leave to lists, as long as there are several of them.
    apart: u64,
    queue: VecDeque<u64>,
}

impl Purse {
    /// A file joins: it may take so much, and leaves so much of it to lists. The largest file sets the cap.
    pub(crate) fn join(&mut self, cap: u64, apart: u64) {
        self.memory.cap = self.memory.cap.max(cap);
        self.apart = self.apart.max(apart);
    }

    /// Takes memory for a file; one that gets none for a block waits in the queue.
    pub(crate) fn take(&mut self, file: u64, claim: Claim) -> bool {
        let fits = self.is_next(file, claim) && self.fits(claim);
        if fits {
            self.step_back(file);
        } else if matches!(claim, Claim::Block(_)) && !self.queue.contains(&file) {
            self.queue.push_back(file);
        }
        if let (true, Claim::Block(bytes)) = (fits, claim) {
            self.blocks += bytes;
        }
        let (Claim::Block(bytes) | Claim::List(bytes)) = claim;
        fits && self.memory.take(bytes)
    }

    /// Whether no other file waits for a block before this one.
    pub(crate) fn is_next(&self, file: u64, claim: Claim) -> bool {
        matches!(claim, Claim::List(_)) || self.queue.front().is_none_or(|first| *first == file)
    }

    /// Whether there is room.
    pub(crate) fn fits(&self, claim: Claim) -> bool {
        match claim {
            Claim::List(bytes) => bytes <= self.memory.room(),
            Claim::Block(bytes) => {
                let limit = self.memory.cap.saturating_sub(self.apart).max(bytes);
                bytes <= self.memory.room() && self.blocks + bytes <= limit
            }
        }
    }

    pub(crate) fn give(&mut self, claim: Claim) {
        if let Claim::Block(bytes) = claim {
            self.blocks -= bytes;
        }
        let (Claim::Block(bytes) | Claim::List(bytes)) = claim;
        self.memory.give(bytes);
    }

    /// A file waits no longer.
    pub(crate) fn step_back(&mut self, file: u64) {
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
    fn whoever_came_first_is_served_first() {
        let mut purse = Purse::default();
        purse.join(100, 0);
        purse.join(250, 0);
        assert!(purse.take(1, Claim::Block(100)) && purse.take(1, Claim::Block(100)));
        assert!(!purse.take(2, Claim::Block(100)) && !purse.queue.is_empty());
        assert!(!purse.take(1, Claim::Block(40)), "another one waits");
        assert!(purse.take(1, Claim::List(40)), "little things do not queue");
        purse.give(Claim::Block(100));
        assert!(!purse.take(1, Claim::Block(1)) && purse.take(2, Claim::Block(100)));
        purse.step_back(1);
        assert_eq!((purse.queue.len(), purse.memory().held, purse.memory().peak), (0, 240, 240));
    }

    #[test]
    fn blocks_leave_room_for_lists_unless_there_is_but_one() {
        let mut purse = Purse::default();
        purse.join(100, 50);
        assert!(purse.take(1, Claim::Block(80)), "it would never get it");
        assert!(!purse.take(2, Claim::Block(10)) && purse.take(2, Claim::List(20)));
        assert!(!purse.take(2, Claim::List(1)));
    }

    proptest! {
        /// Files of all sizes that take, give back and wait: the cap holds, and nobody waits when nothing is held.
        #[test]
        fn the_cap_holds_and_waiting_ends(
            files in prop::collection::vec((1u64..100, 0u64..100), 1..5),
            deeds in prop::collection::vec((0usize..5, any::<bool>(), any::<bool>()), 1..300),
        ) {
            let mut purse = Purse::default();
            for (block, more) in &files {
                purse.join(block + more, *more);
            }
            let cap = files.iter().map(|(block, more)| block + more).max().unwrap();
            let mut held: Vec<Claim> = Vec::new();
            for (file, list, back) in deeds {
                let file = file % files.len();
                let (block, more) = files[file];
                let claim = if list && more > 0 { Claim::List(more) } else { Claim::Block(block) };
                if purse.take(file as u64, claim) {
                    held.push(claim);
                } else if held.is_empty() {
                    prop_assert!(!purse.is_next(file as u64, claim), "it waits for nobody");
                }
                if back && !held.is_empty() {
                    purse.give(held.swap_remove(0));
                }
                prop_assert!(purse.memory().peak <= cap);
            }
            held.drain(..).for_each(|claim| purse.give(claim));
            // What is left of the queue is served in its order.
            while let Some(first) = purse.queue.front().copied() {
                let claim = Claim::Block(files[first as usize].0);
                prop_assert!(purse.take(first, claim));
                purse.give(claim);
            }
            prop_assert_eq!(purse.memory().held, 0);
        }
    }
}
