//! The arithmetic of the memory budget: one limit for the process, a cap and a minimum for each owner. Pure; it
//! allocates nothing.
//!
//! Memory within the minimum of an owner is always granted, so that an owner that holds nothing gets what it needs for
//! its work. Memory beyond the minimums of all owners fits below the limit less these minimums. Held memory is released
//! when its data is written, so every wait ends.

use std::collections::{BTreeMap, VecDeque};

/// The part of the limit that is left to the minimums of owners that join later.
const LATER_OWNERS: u64 = 8;

/// A limit, and how much of it is and was used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Level {
    /// The limit in bytes.
    pub cap: u64,
    /// Bytes in use.
    pub held: u64,
    /// The most bytes that were in use.
    pub peak: u64,
}

impl Level {
    pub(crate) fn new(cap: u64) -> Self {
        Self { cap, held: 0, peak: 0 }
    }

    pub(crate) fn room(&self) -> u64 {
        self.cap.saturating_sub(self.held)
    }

    pub(crate) fn take(&mut self, bytes: u64) -> bool {
        let fits = bytes <= self.room();
        if fits {
            self.add(bytes);
        }
        fits
    }

    fn add(&mut self, bytes: u64) {
        self.held += bytes;
        self.peak = self.peak.max(self.held);
    }

    pub(crate) fn give(&mut self, bytes: u64) {
        self.held -= bytes;
    }
}

/// A request for memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Allocation {
    /// A buffer for data.
    Block(u64),
    /// Memory for the lists of spilled data. It is small, so that users do not queue for it.
    List(u64),
}

impl Allocation {
    fn bytes(self) -> u64 {
        let (Self::Block(bytes) | Self::List(bytes)) = self;
        bytes
    }
}

/// What an owner joins with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OwnerLimits {
    /// The most bytes that it may hold.
    pub cap: u64,
    /// Bytes with which it can do all its work, if slowly: granted at any time.
    pub minimum: u64,
    /// The part of the cap that buffers leave to lists, if there is more than one buffer.
    pub reserved: u64,
}

/// The memory of one owner, and those of its users that wait for it.
#[derive(Clone, Debug, Default)]
pub(crate) struct MemoryQuota {
    memory: Level,
    minimum: u64,
    reserved: u64,
    /// Bytes of allocated blocks.
    blocks: u64,
    queue: VecDeque<u64>,
}

impl MemoryQuota {
    /// True if no other user waits for a block before this one.
    pub(crate) fn is_next(&self, user: u64, allocation: Allocation) -> bool {
        matches!(allocation, Allocation::List(_)) || self.queue.front().is_none_or(|first| *first == user)
    }

    fn fits(&self, allocation: Allocation) -> bool {
        match allocation {
            Allocation::List(bytes) => bytes <= self.memory.room(),
            Allocation::Block(bytes) => {
                let limit = self.memory.cap.saturating_sub(self.reserved).max(bytes);
                bytes <= self.memory.room() && self.blocks + bytes <= limit
            }
        }
    }

    fn leave_queue(&mut self, user: u64) {
        self.queue.retain(|waiting| *waiting != user);
    }

    /// Bytes beyond the minimum if it held this many.
    fn beyond(&self, held: u64) -> u64 {
        held.saturating_sub(self.minimum)
    }
}

/// The memory of all owners of a process.
#[derive(Debug)]
pub(crate) struct MemoryLedger {
    /// The limit of the process, and what all owners hold.
    process: Level,
    owners: BTreeMap<u64, MemoryQuota>,
    /// The sum of the minimums, and of what owners hold beyond them.
    minimums: u64,
    beyond: u64,
}

impl MemoryLedger {
    pub(crate) fn new(limit: u64) -> Self {
        Self { process: Level::new(limit), owners: BTreeMap::new(), minimums: 0, beyond: 0 }
    }

    /// Lowers the limit of the process.
    pub(crate) fn lower_limit(&mut self, limit: u64) {
        self.process.cap = self.process.cap.min(limit);
    }

    pub(crate) fn process(&self) -> Level {
        self.process
    }

    /// Adds an owner, or a user of one: the largest limits of the users are those of their owner.
    pub(crate) fn join(&mut self, owner: u64, limits: OwnerLimits) {
        let quota = self.owners.entry(owner).or_default();
        let before = (quota.minimum, quota.beyond(quota.memory.held));
        quota.memory.cap = quota.memory.cap.max(limits.cap).max(limits.minimum);
        quota.minimum = quota.minimum.max(limits.minimum);
        quota.reserved = quota.reserved.max(limits.reserved);
        self.minimums += quota.minimum - before.0;
        self.beyond -= before.1 - quota.beyond(quota.memory.held);
    }

    /// Removes an owner with all that it holds.
    pub(crate) fn leave(&mut self, owner: u64) {
        if let Some(quota) = self.owners.remove(&owner) {
            self.minimums -= quota.minimum;
            self.beyond -= quota.beyond(quota.memory.held);
            self.process.give(quota.memory.held);
        }
    }

    pub(crate) fn quota(&self, owner: u64) -> &MemoryQuota {
        &self.owners[&owner]
    }

    pub(crate) fn level(&self, owner: u64) -> Level {
        self.quota(owner).memory
    }

    /// True if the owner holds memory that it could do without.
    pub(crate) fn is_beyond_minimum(&self, owner: u64) -> bool {
        let quota = self.quota(owner);
        quota.beyond(quota.memory.held) > 0
    }

    /// True if there is memory below the cap of the owner and the limit of the process.
    pub(crate) fn fits(&self, owner: u64, allocation: Allocation) -> bool {
        let quota = self.quota(owner);
        let held = quota.memory.held;
        let more = quota.beyond(held + allocation.bytes()) - quota.beyond(held);
        let limit = self.process.cap;
        quota.fits(allocation) && (more == 0 || self.beyond + more <= self.room_beyond(limit))
    }

    fn room_beyond(&self, limit: u64) -> u64 {
        limit.saturating_sub(self.minimums.max(limit / LATER_OWNERS))
    }

    /// True if more memory is held beyond the minimums than may be, because an owner has joined.
    pub(crate) fn is_over_limit(&self) -> bool {
        self.beyond > self.room_beyond(self.process.cap)
    }

    /// Allocates memory for a user of an owner; a user that gets none for a block waits in the queue of its owner.
    pub(crate) fn take(&mut self, owner: u64, user: u64, allocation: Allocation) -> bool {
        let fits = self.quota(owner).is_next(user, allocation) && self.fits(owner, allocation);
        let Some(quota) = self.owners.get_mut(&owner) else { return false };
        if !fits {
            if matches!(allocation, Allocation::Block(_)) && !quota.queue.contains(&user) {
                quota.queue.push_back(user);
            }
            return false;
        }
        quota.leave_queue(user);
        if let Allocation::Block(bytes) = allocation {
            quota.blocks += bytes;
        }
        let (held, bytes) = (quota.memory.held, allocation.bytes());
        quota.memory.add(bytes);
        self.beyond += quota.beyond(held + bytes) - quota.beyond(held);
        self.process.add(bytes);
        true
    }

    pub(crate) fn give(&mut self, owner: u64, allocation: Allocation) {
        let Some(quota) = self.owners.get_mut(&owner) else { return };
        if let Allocation::Block(bytes) = allocation {
            quota.blocks -= bytes;
        }
        let (held, bytes) = (quota.memory.held, allocation.bytes());
        quota.memory.give(bytes);
        self.beyond -= quota.beyond(held) - quota.beyond(held - bytes);
        self.process.give(bytes);
    }

    /// Releases a block except for `list` bytes of it, which become the memory of a list.
    pub(crate) fn shrink_to_list(&mut self, owner: u64, block: u64, list: u64) {
        self.give(owner, Allocation::Block(block - list));
        if let Some(quota) = self.owners.get_mut(&owner) {
            quota.blocks -= list;
        }
    }

    /// Removes a user from the queue of its owner.
    pub(crate) fn leave_queue(&mut self, owner: u64, user: u64) {
        self.owners.entry(owner).and_modify(|quota| quota.leave_queue(user));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ANY: u64 = 1 << 40;

    fn limits(cap: u64, minimum: u64) -> OwnerLimits {
        OwnerLimits { cap, minimum, reserved: 0 }
    }

    #[test]
    fn users_of_an_owner_are_served_in_the_order_of_the_queue() {
        let mut ledger = MemoryLedger::new(ANY);
        ledger.join(0, limits(100, 0));
        ledger.join(0, limits(250, 0));
        assert!(ledger.take(0, 1, Allocation::Block(100)) && ledger.take(0, 1, Allocation::Block(100)));
        assert!(!ledger.take(0, 2, Allocation::Block(100)) && !ledger.quota(0).queue.is_empty());
        assert!(!ledger.take(0, 1, Allocation::Block(40)), "another user waits");
        assert!(ledger.take(0, 1, Allocation::List(40)), "lists do not queue");
        ledger.give(0, Allocation::Block(100));
        assert!(!ledger.take(0, 1, Allocation::Block(1)) && ledger.take(0, 2, Allocation::Block(100)));
        ledger.leave_queue(0, 1);
        assert_eq!(
            (ledger.quota(0).queue.len(), ledger.level(0)),
            (0, Level { cap: 250, held: 240, peak: 240 })
        );
    }

    #[test]
    fn blocks_leave_memory_for_lists_unless_there_is_one_block() {
        let mut ledger = MemoryLedger::new(ANY);
        ledger.join(0, OwnerLimits { cap: 100, minimum: 0, reserved: 50 });
        assert!(ledger.take(0, 1, Allocation::Block(80)), "it would never get it");
        assert!(!ledger.take(0, 2, Allocation::Block(10)) && ledger.take(0, 2, Allocation::List(20)));
        assert!(!ledger.take(0, 2, Allocation::List(1)));
        ledger.shrink_to_list(0, 80, 5);
        assert_eq!((ledger.level(0).held, ledger.quota(0).blocks), (25, 0));
    }

    #[test]
    fn minimums_are_granted_when_other_owners_hold_everything() {
        let mut ledger = MemoryLedger::new(800);
        ledger.join(0, limits(ANY, 100));
        assert!(
            ledger.take(0, 0, Allocation::Block(800)),
            "700 beyond the minimum, 100 left to later owners"
        );
        assert!(!ledger.take(0, 0, Allocation::Block(1)) && !ledger.is_over_limit());
        ledger.join(1, limits(ANY, 50));
        assert!(ledger.is_over_limit(), "the first owner has to release its idle buffers");
        assert!(ledger.take(1, 1, Allocation::Block(50)) && !ledger.take(1, 1, Allocation::Block(1)));
        ledger.give(0, Allocation::Block(800));
        assert!(ledger.take(1, 1, Allocation::Block(600)));
        assert_eq!(ledger.process().held, 650);
    }

    proptest! {
        /// Owners of all sizes join, allocate, release and wait. The limit holds up to the minimums, caps hold, and no user
        /// waits while its owner holds nothing.
        #[test]
        fn the_limit_holds_up_to_minimums_and_waits_end(
            limit in 0u64..2000,
            owners in prop::collection::vec((1u64..100, 0u64..400, 0u64..100), 1..5),
            deeds in prop::collection::vec((0usize..5, 0u64..3, any::<bool>(), any::<bool>()), 1..300),
        ) {
            let mut ledger = MemoryLedger::new(limit);
            let minimums: u64 = owners.iter().map(|(minimum, ..)| minimum).sum();
            for (owner, (minimum, more, reserved)) in owners.iter().enumerate() {
                let limits = OwnerLimits { cap: minimum + more, minimum: *minimum, reserved: *reserved.min(more) };
                ledger.join(owner as u64, limits);
            }
            let mut held: Vec<(u64, Allocation)> = Vec::new();
            for (owner, user, list, back) in deeds {
                let owner = owner % owners.len();
                let (minimum, more, _) = owners[owner];
                let allocation = if list && more > 0 { Allocation::List(more) } else { Allocation::Block(minimum) };
                let owner = owner as u64;
                if ledger.take(owner, user, allocation) {
                    held.push((owner, allocation));
                } else if matches!(allocation, Allocation::Block(_)) && !held.iter().any(|(other, _)| *other == owner) {
                    prop_assert!(!ledger.quota(owner).is_next(user, allocation), "it waits and its owner holds nothing");
                }
                if back && !held.is_empty() {
                    let (owner, allocation) = held.swap_remove(0);
                    ledger.give(owner, allocation);
                }
                let level = ledger.level(owner);
                prop_assert!(level.peak <= level.cap);
                prop_assert!(ledger.process().peak <= limit.max(minimums), "{:?}", ledger.process());
            }
            held.drain(..).for_each(|(owner, allocation)| ledger.give(owner, allocation));
            // The users that are left in the queues are served in order.
            for (owner, (minimum, ..)) in owners.iter().enumerate() {
                let (owner, allocation) = (owner as u64, Allocation::Block(*minimum));
                while let Some(first) = ledger.quota(owner).queue.front().copied() {
                    prop_assert!(ledger.take(owner, first, allocation));
                    ledger.give(owner, allocation);
                }
                ledger.leave(owner);
            }
            prop_assert_eq!((ledger.process().held, ledger.beyond, ledger.minimums), (0, 0, 0));
        }
    }
}
