//! The client's state machine: where data goes that a program hands over. Pure arithmetic on levels; it moves no byte.
//!
//! ```text
//!            keep            keep / spill            wait
//!   Idle ───────────▶ Holding ───────────▶ Full ───────────▶ Overflowing
//!    ▲   all written    │  ▲   room again    │ ▲   room again     │
//!    └──────────────────┘  └─────────────────┘ └──────────────────┘
//!   from every state: Failed, which is final and refuses
//! ```

use super::purse::Claim;

/// What is to be done with the next piece of data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// A block of memory has been taken for it.
    Keep,
    /// Memory is full: so many bytes of the spill file have been taken for it, at most as many as were asked for.
    Spill(u64),
    /// Everything is full: ask again when something has been written.
    Wait,
    /// A write has failed before, and that is final.
    Refuse,
}

/// Where a client stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// It holds nothing.
    Idle,
    /// It holds data and has memory left.
    Holding,
    /// Memory is full; data goes to the spill file.
    Full,
    /// Nothing has room: the program is slowed down.
    Overflowing,
    /// A write has failed.
    Failed,
}

/// A limit that holds, and how near it one came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Level {
    /// Never more than this.
    pub cap: u64,
    /// So many bytes now.
    pub held: u64,
    /// The most there ever were.
    pub peak: u64,
}

impl Level {
    fn new(cap: u64) -> Self {
        Self { cap, held: 0, peak: 0 }
    }

    pub(super) fn room(&self) -> u64 {
        self.cap - self.held
    }

    pub(super) fn take(&mut self, bytes: u64) -> bool {
        let fits = bytes <= self.room();
        if fits {
            self.held += bytes;
            self.peak = self.peak.max(self.held);
        }
        fits
    }

    pub(super) fn give(&mut self, bytes: u64) {
        self.held -= bytes;
    }
}

/// What blocks and lists cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Costs {
    /// Memory of a block with its list.
    pub(crate) block: u64,
    /// Memory of the list of a spilled block.
    pub(crate) list: u64,
}

/// The levels of one rank and file.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    costs: Costs,
    memory: Level,
    spill: Level,
    /// How much of the memory blocks may take: spilled data needs lists, and a block on its way back.
    blocks: u64,
    kept: u64,
    failed: bool,
    /// The spill file takes no more.
    broken: bool,
    /// How often the program had to wait.
    waits: u64,
}

impl Client {
    /// With these caps; there is memory for a block, whatever is asked for.
    pub(crate) fn new(memory: u64, spill: u64, costs: Costs) -> Self {
        let apart = if spill > 0 { costs.block + memory / 16 } else { 0 };
        let blocks = memory.saturating_sub(apart).max(costs.block);
        let memory = memory.max(blocks + if spill > 0 { costs.block + costs.list } else { 0 });
        let (memory, spill) = (Level::new(memory), Level::new(spill));
        Self { costs, memory, spill, blocks, kept: 0, failed: false, broken: false, waits: 0 }
    }

    /// What of the memory is left to spilled data.
    pub(crate) fn apart(&self) -> u64 {
        self.memory.cap - self.blocks
    }

    /// Room for up to `wanted` bytes, as far as the memory of all files has it too: `take` asks for it.
    pub(crate) fn admit(&mut self, wanted: u64, mut take: impl FnMut(Claim) -> bool) -> Verdict {
        if self.failed {
            return Verdict::Refuse;
        }
        let block = self.costs.block;
        let room = self.kept + block <= self.blocks && block <= self.memory.room();
        if room && take(Claim::Block(block)) {
            self.memory.take(block);
            self.kept += block;
            return Verdict::Keep;
        }
        let bytes = if self.broken { 0 } else { wanted.min(self.spill.room()) };
        let list = self.list();
        if bytes > 0 && list <= self.memory.room() && take(Claim::List(list)) {
            self.memory.take(list);
            self.spill.take(bytes);
            return Verdict::Spill(bytes);
        }
        self.waits += 1;
        Verdict::Wait
    }

    /// Memory that the next spilled bytes need: a list, and the first of them a block on the way back.
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
    pub(crate) fn unspilled(&mut self, bytes: u64) -> Claim {
        self.spill.give(bytes);
        let list = self.list();
        self.memory.give(list);
        Claim::List(list)
    }

    /// A block has gone to a server, and its list stays: the memory of both.
    pub(crate) fn handed_over(&mut self) -> (u64, u64) {
        let block = self.written();
        self.memory.take(self.costs.list);
        (block, self.costs.list)
    }

    /// Spilled bytes have gone to a server, and their list stays: the memory that is free.
    pub(crate) fn spill_handed_over(&mut self, bytes: u64) -> Claim {
        let (Claim::List(freed) | Claim::Block(freed)) = self.unspilled(bytes);
        self.memory.take(self.costs.list);
        Claim::List(freed - self.costs.list)
    }

    /// What was with a server is in the file: its list's memory.
    pub(crate) fn landed(&mut self) -> Claim {
        self.memory.give(self.costs.list);
        Claim::List(self.costs.list)
    }

    /// Of the bytes taken, so many are not used: the rest lies elsewhere in the spill file.
    pub(crate) fn spilled_less(&mut self, bytes: u64) {
        self.spill.give(bytes);
    }

    /// The spill file can take no more; what it has can be read, or not.
    pub(crate) fn spill_is_broken(&mut self) {
        self.broken = true;
    }

    /// A write has failed; nothing is accepted any more, and nothing is held. The memory that blocks and lists took.
    pub(crate) fn fail(&mut self) -> [Claim; 2] {
        let held = [Claim::Block(self.kept), Claim::List(self.memory.held - self.kept)];
        (self.failed, self.kept, self.memory.held, self.spill.held) = (true, 0, 0, 0);
        held
    }

    pub(crate) fn phase(&self) -> Phase {
        let no_block = self.kept + self.costs.block > self.blocks;
        let no_spill = self.broken || self.spill.room() == 0 || self.memory.room() < self.list();
        match (self.failed, no_block, no_spill) {
            (true, _, _) => Phase::Failed,
            (_, true, true) => Phase::Overflowing,
            (_, true, false) => Phase::Full,
            _ if self.kept == 0 && self.spill.held == 0 => Phase::Idle,
            _ => Phase::Holding,
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

    const COSTS: Costs = Costs { block: 100, list: 10 };

    impl Client {
        /// With memory for all files in plenty.
        fn ask(&mut self, wanted: u64) -> Verdict {
            self.admit(wanted, |_| true)
        }
    }

    #[test]
    fn memory_then_spill_then_waiting() {
        let mut client = Client::new(400, 150, COSTS);
        assert_eq!(client.phase(), Phase::Idle);
        // 400 less a block on its way back and a sixteenth for lists.
        assert_eq!([client.ask(90), client.ask(90)], [Verdict::Keep; 2]);
        assert_eq!(client.phase(), Phase::Full);
        assert_eq!(client.ask(90), Verdict::Spill(90));
        assert_eq!(client.ask(90), Verdict::Spill(60));
        assert_eq!(client.phase(), Phase::Overflowing);
        assert_eq!((client.ask(90), client.waits()), (Verdict::Wait, 1));
        client.written();
        assert_eq!((client.phase(), client.ask(1)), (Phase::Holding, Verdict::Keep));
        client.unspilled(90);
        client.fail();
        assert_eq!((client.phase(), client.ask(1)), (Phase::Failed, Verdict::Refuse));
    }

    #[test]
    fn without_a_spill_file_memory_is_all_there_is() {
        let mut client = Client::new(250, 0, COSTS);
        assert_eq!(
            [client.ask(1), client.ask(1), client.ask(1)],
            [Verdict::Keep, Verdict::Keep, Verdict::Wait]
        );
        client.written();
        client.written();
        assert_eq!((client.phase(), client.memory().peak), (Phase::Idle, 200));
    }

    #[test]
    fn what_servers_have_costs_a_list() {
        let mut client = Client::new(400, 150, COSTS);
        assert_eq!(
            [client.ask(90), client.ask(90), client.ask(90)],
            [Verdict::Keep, Verdict::Keep, Verdict::Spill(90)]
        );
        assert_eq!(client.handed_over(), (100, 10));
        assert_eq!(client.spill_handed_over(90), Claim::List(100), "the block on the way back");
        assert_eq!((client.memory().held, client.spill().held), (100 + 10 + 10, 0));
        assert_eq!([client.landed(), client.landed()], [Claim::List(10); 2]);
        assert_eq!((client.written(), client.phase(), client.memory().held), (100, Phase::Idle, 0));
    }

    #[test]
    fn a_broken_spill_file_is_one_that_is_full() {
        let mut client = Client::new(300, 1000, COSTS);
        assert_eq!(client.ask(50), Verdict::Keep);
        assert_eq!(client.ask(50), Verdict::Spill(50));
        client.spill_is_broken();
        assert_eq!(client.ask(50), Verdict::Wait);
        client.unspilled(50);
        assert_eq!((client.spill().held, client.phase()), (0, Phase::Overflowing));
    }

    proptest! {
        /// Caps hold, whoever waits waits for something, and what is given back is what was taken.
        #[test]
        fn caps_hold_and_waiting_ends(memory in 0u64..2000, spill in 0u64..500, wishes in prop::collection::vec(0u64..200, 1..200)) {
            let mut client = Client::new(memory, spill, COSTS);
            let (memory, idle) = (client.memory().cap, client.memory().held);
            let mut held = VecDeque::new();
            for wish in wishes {
                match client.ask(wish.max(1)) {
                    Verdict::Keep => held.push_back(None),
                    Verdict::Spill(bytes) => {
                        prop_assert!(bytes > 0 && bytes <= wish.max(1));
                        held.push_back(Some(bytes));
                    }
                    Verdict::Wait => {
                        prop_assert!(!held.is_empty(), "nobody would ever wake it");
                        match held.pop_front().flatten() {
                            Some(bytes) => _ = client.unspilled(bytes),
                            None => _ = client.written(),
                        }
                    }
                    Verdict::Refuse => prop_assert!(false, "nothing has failed"),
                }
                prop_assert!(client.memory().held <= memory && client.memory().peak <= memory);
                prop_assert!(client.spill().held <= spill && client.spill().peak <= spill);
            }
            for bytes in held {
                match bytes {
                    Some(bytes) => _ = client.unspilled(bytes),
                    None => _ = client.written(),
                }
            }
            prop_assert_eq!((client.memory().held, client.spill().held), (idle, 0));
            prop_assert_eq!(client.phase(), Phase::Idle);
        }
    }
}
