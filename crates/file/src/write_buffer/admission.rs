//! Admission control: whether accepted data goes to memory, to the spill file, or has to wait. Pure arithmetic on levels; it moves no byte.
//!
//! ```text
//!           memory          memory / spill           wait
//!   Idle ───────────▶ Holding ───────────▶ Full ───────────▶ Overflowing
//!    ▲   all written    │  ▲   room again    │ ▲   room again     │
//!    └──────────────────┘  └─────────────────┘ └──────────────────┘
//!   from every state: Failed, which is final
//! ```

use crate::write_behind::memory_ledger::Allocation;
use crate::write_behind::{Level, OwnerLimits};

/// Where the next data goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// A block of memory was allocated for it.
    Memory,
    /// Memory is full: so many bytes of the spill file were allocated for it, at most as many as were requested.
    Spill(u64),
    /// Memory and spill file are full: try again when data has been written.
    Wait,
    /// A write has failed before, which is final.
    Fail,
}

/// The state of admission control.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FillState {
    /// It holds nothing.
    Idle,
    /// It holds data and has memory left.
    Holding,
    /// Memory is full; data goes to the spill file.
    Full,
    /// Memory and spill file are full: the program waits.
    Overflowing,
    /// A write has failed.
    Failed,
}

/// The memory of blocks and lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlockCosts {
    /// Memory of a block with its list.
    pub(crate) block: u64,
    /// Memory of the list of a spilled block.
    pub(crate) list: u64,
}

/// The levels of one rank and file.
#[derive(Clone, Debug)]
pub(crate) struct AdmissionControl {
    costs: BlockCosts,
    memory: Level,
    spill: Level,
    /// The memory that blocks may use: spilled data needs lists, and a block when it is read back.
    blocks: u64,
    kept: u64,
    failed: bool,
    /// Writing to the spill file has failed.
    broken: bool,
    /// How often the program had to wait.
    waits: u64,
}

impl AdmissionControl {
    /// With these limits; there is memory for at least one block.
    pub(crate) fn new(memory: u64, spill: u64, costs: BlockCosts) -> Self {
        let reserved = if spill > 0 { costs.block + memory / 16 } else { 0 };
        let blocks = memory.saturating_sub(reserved).max(costs.block);
        let memory = memory.max(blocks + if spill > 0 { costs.block + costs.list } else { 0 });
        let (memory, spill) = (Level::new(memory), Level::new(spill));
        Self { costs, memory, spill, blocks, kept: 0, failed: false, broken: false, waits: 0 }
    }

    /// The limits of its memory: the minimum is a block and, with a spill file, what spilled data needs.
    pub(crate) fn limits(&self) -> OwnerLimits {
        let spilled = if self.spill.cap > 0 { self.costs.block + self.costs.list } else { 0 };
        let minimum = self.costs.block + spilled;
        OwnerLimits { cap: self.memory.cap, minimum, reserved: self.memory.cap - self.blocks }
    }

    /// Admits up to `wanted` bytes; `take` allocates from the memory of all files of the rank.
    pub(crate) fn admit(&mut self, wanted: u64, mut take: impl FnMut(Allocation) -> bool) -> Admission {
        if self.failed {
            return Admission::Fail;
        }
        let block = self.costs.block;
        let room = self.kept + block <= self.blocks && block <= self.memory.room();
        if room && take(Allocation::Block(block)) {
            self.memory.take(block);
            self.kept += block;
            return Admission::Memory;
        }
        let bytes = if self.broken { 0 } else { wanted.min(self.spill.room()) };
        let list = self.list();
        if bytes > 0 && list <= self.memory.room() && take(Allocation::List(list)) {
            self.memory.take(list);
            self.spill.take(bytes);
            return Admission::Spill(bytes);
        }
        self.waits += 1;
        Admission::Wait
    }

    /// The memory that the next spilled bytes need: a list, and for the first of them a block to read them back.
    fn list(&self) -> u64 {
        self.costs.list + if self.spill.held == 0 { self.costs.block } else { 0 }
    }

    /// A block in memory is free again; its memory.
    pub(crate) fn written(&mut self) -> u64 {
        self.kept -= self.costs.block;
        self.memory.give(self.costs.block);
        self.costs.block
    }

    /// Spilled bytes are no longer needed; the memory that they took.
    pub(crate) fn unspilled(&mut self, bytes: u64) -> Allocation {
        self.spill.give(bytes);
        let list = self.list();
        self.memory.give(list);
        Allocation::List(list)
    }

    /// A block was handed to the drain target, and its list stays: the memory of both.
    pub(crate) fn handed_over(&mut self) -> (u64, u64) {
        let block = self.written();
        self.memory.take(self.costs.list);
        (block, self.costs.list)
    }

    /// Spilled bytes were handed to the drain target, and their list stays: the memory that is free.
    pub(crate) fn spill_handed_over(&mut self, bytes: u64) -> Allocation {
        let (Allocation::List(freed) | Allocation::Block(freed)) = self.unspilled(bytes);
        self.memory.take(self.costs.list);
        Allocation::List(freed - self.costs.list)
    }

    /// Data of the drain target is in the file: the memory of its list.
    pub(crate) fn remote_written(&mut self) -> Allocation {
        self.memory.give(self.costs.list);
        Allocation::List(self.costs.list)
    }

    /// So many of the allocated bytes are not used: the rest is at another offset of the spill file.
    pub(crate) fn spilled_less(&mut self, bytes: u64) {
        self.spill.give(bytes);
    }

    /// Writing to the spill file has failed; reading may still work.
    pub(crate) fn spill_is_broken(&mut self) {
        self.broken = true;
    }

    /// A write has failed; nothing is accepted any more, and nothing is held. The memory that blocks and lists took.
    pub(crate) fn fail(&mut self) -> [Allocation; 2] {
        let held = [Allocation::Block(self.kept), Allocation::List(self.memory.held - self.kept)];
        (self.failed, self.kept, self.memory.held, self.spill.held) = (true, 0, 0, 0);
        held
    }

    pub(crate) fn phase(&self) -> FillState {
        let no_block = self.kept + self.costs.block > self.blocks;
        let no_spill = self.broken || self.spill.room() == 0 || self.memory.room() < self.list();
        match (self.failed, no_block, no_spill) {
            (true, _, _) => FillState::Failed,
            (_, true, true) => FillState::Overflowing,
            (_, true, false) => FillState::Full,
            _ if self.kept == 0 && self.spill.held == 0 => FillState::Idle,
            _ => FillState::Holding,
        }
    }

    pub(crate) fn memory(&self) -> Level {
        self.memory
    }

    pub(crate) fn spill(&self) -> Level {
        self.spill
    }

    pub(crate) fn waits(&self) -> u64 {
        self.waits
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;
    use proptest::prelude::*;

    const COSTS: BlockCosts = BlockCosts { block: 100, list: 10 };

    impl AdmissionControl {
        /// With enough memory for all files.
        fn ask(&mut self, wanted: u64) -> Admission {
            self.admit(wanted, |_| true)
        }
    }

    #[test]
    fn memory_then_spill_then_waiting() {
        let mut admission = AdmissionControl::new(400, 150, COSTS);
        assert_eq!(admission.phase(), FillState::Idle);
        // 400 less a block on its way back and a sixteenth for lists.
        assert_eq!([admission.ask(90), admission.ask(90)], [Admission::Memory; 2]);
        assert_eq!(admission.phase(), FillState::Full);
        assert_eq!(admission.ask(90), Admission::Spill(90));
        assert_eq!(admission.ask(90), Admission::Spill(60));
        assert_eq!(admission.phase(), FillState::Overflowing);
        assert_eq!((admission.ask(90), admission.waits()), (Admission::Wait, 1));
        admission.written();
        assert_eq!((admission.phase(), admission.ask(1)), (FillState::Holding, Admission::Memory));
        admission.unspilled(90);
        admission.fail();
        assert_eq!((admission.phase(), admission.ask(1)), (FillState::Failed, Admission::Fail));
    }

    #[test]
    fn without_a_spill_file_only_memory_is_used() {
        let mut admission = AdmissionControl::new(250, 0, COSTS);
        assert_eq!(
            [admission.ask(1), admission.ask(1), admission.ask(1)],
            [Admission::Memory, Admission::Memory, Admission::Wait]
        );
        admission.written();
        admission.written();
        assert_eq!((admission.phase(), admission.memory().peak), (FillState::Idle, 200));
    }

    #[test]
    fn data_of_the_drain_target_costs_a_list() {
        let mut admission = AdmissionControl::new(400, 150, COSTS);
        assert_eq!(
            [admission.ask(90), admission.ask(90), admission.ask(90)],
            [Admission::Memory, Admission::Memory, Admission::Spill(90)]
        );
        assert_eq!(admission.handed_over(), (100, 10));
        assert_eq!(admission.spill_handed_over(90), Allocation::List(100), "the block on the way back");
        assert_eq!((admission.memory().held, admission.spill().held), (100 + 10 + 10, 0));
        assert_eq!([admission.remote_written(), admission.remote_written()], [Allocation::List(10); 2]);
        assert_eq!(
            (admission.written(), admission.phase(), admission.memory().held),
            (100, FillState::Idle, 0)
        );
    }

    #[test]
    fn a_broken_spill_file_counts_as_full() {
        let mut admission = AdmissionControl::new(300, 1000, COSTS);
        assert_eq!(admission.ask(50), Admission::Memory);
        assert_eq!(admission.ask(50), Admission::Spill(50));
        admission.spill_is_broken();
        assert_eq!(admission.ask(50), Admission::Wait);
        admission.unspilled(50);
        assert_eq!((admission.spill().held, admission.phase()), (0, FillState::Overflowing));
    }

    proptest! {
        /// The limits hold, a wait has something to wait for, and what is released is what was allocated.
        #[test]
        fn caps_hold_and_waiting_ends(memory in 0u64..2000, spill in 0u64..500, wishes in prop::collection::vec(0u64..200, 1..200)) {
            let mut admission = AdmissionControl::new(memory, spill, COSTS);
            let (memory, idle) = (admission.memory().cap, admission.memory().held);
            let mut held = VecDeque::new();
            for wish in wishes {
                match admission.ask(wish.max(1)) {
                    Admission::Memory => held.push_back(None),
                    Admission::Spill(bytes) => {
                        prop_assert!(bytes > 0 && bytes <= wish.max(1));
                        held.push_back(Some(bytes));
                    }
                    Admission::Wait => {
                        prop_assert!(!held.is_empty(), "the wait would never end");
                        match held.pop_front().flatten() {
                            Some(bytes) => _ = admission.unspilled(bytes),
                            None => _ = admission.written(),
                        }
                    }
                    Admission::Fail => prop_assert!(false, "nothing has failed"),
                }
                prop_assert!(admission.memory().held <= memory && admission.memory().peak <= memory);
                prop_assert!(admission.spill().held <= spill && admission.spill().peak <= spill);
            }
            for bytes in held {
                match bytes {
                    Some(bytes) => _ = admission.unspilled(bytes),
                    None => _ = admission.written(),
                }
            }
            prop_assert_eq!((admission.memory().held, admission.spill().held), (idle, 0));
            prop_assert_eq!(admission.phase(), FillState::Idle);
        }
    }
}
