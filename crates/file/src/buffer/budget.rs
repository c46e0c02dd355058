//! The memory that a rank has for all its buffered files: blocks in use and spare ones, under one cap.

use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};

use super::client::Level;
use super::purse::{Claim, Purse};

/// The memory of a rank.
#[derive(Debug, Default)]
pub(crate) struct Budget {
    pool: Mutex<Pool>,
    change: Condvar,
}

#[derive(Debug, Default)]
struct Pool {
    purse: Purse,
    /// Blocks that are allocated and free.
    spare: Vec<Spare>,
    /// How often something came back.
    returns: u64,
    /// How many wait for that.
    waiting: usize,
    /// Files so far.
    files: u64,
}

#[derive(Debug)]
struct Spare {
    file: u64,
    cost: u64,
    bytes: Vec<u8>,
}

/// A block and what it costs.
pub(crate) struct Block {
    pub(crate) bytes: Vec<u8>,
    pub(crate) cost: u64,
}

impl Budget {
    /// That of a rank, as long as it has buffered files.
    pub(crate) fn of(rank: u64) -> Arc<Self> {
        static ALL: Mutex<Option<HashMap<u64, Weak<Budget>>>> = Mutex::new(None);
        let mut all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
        let all = all.get_or_insert_default();
        all.retain(|_, budget| budget.strong_count() > 0);
        if let Some(budget) = all.get(&rank).and_then(Weak::upgrade) {
            return budget;
        }
        let budget = Arc::default();
        all.insert(rank, Arc::downgrade(&budget));
        budget
    }

    /// A file joins: it may take so much, and leaves so much of it to lists.
    pub(crate) fn join(self: &Arc<Self>, cap: u64, apart: u64) -> Share {
        let mut pool = self.lock();
        pool.purse.join(cap, apart);
        pool.files += 1;
        Share { budget: Arc::clone(self), file: pool.files }
    }

    fn lock(&self) -> MutexGuard<'_, Pool> {
        self.pool.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pool {
    /// Makes room by letting go of a spare block; whether there was one.
    fn let_go(&mut self) -> bool {
        let spare = self.spare.pop();
        spare.map(|spare| self.purse.give(Claim::Block(spare.cost))).is_some()
    }

    fn spare_of(&mut self, file: u64) -> impl Iterator<Item = &Spare> {
        self.spare.iter().filter(move |spare| spare.file == file)
    }
}

/// What a file has of it. It shrinks and grows with the needs of all.
#[derive(Debug)]
pub(crate) struct Share {
    budget: Arc<Budget>,
    file: u64,
}

impl Share {
    /// A block of this size: a spare one, whosever it was, or a new one; none if there is no memory for it.
    pub(crate) fn take_block(&self, size: usize, cost: u64) -> Option<Vec<u8>> {
        let claim = Claim::Block(cost);
        let mut pool = self.budget.lock();
        let fitting = |spare: &Spare| spare.bytes.len() == size && spare.cost == cost;
        let found = pool.spare.iter().rposition(fitting).filter(|_| pool.purse.is_next(self.file, claim));
        if let Some(found) = found {
            pool.purse.step_back(self.file);
            return Some(pool.spare.swap_remove(found).bytes);
        }
        self.take(pool, claim).then(|| vec![0; size])
    }

    /// Memory for what spilled data needs.
    pub(crate) fn take_list(&self, bytes: u64) -> bool {
        self.take(self.budget.lock(), Claim::List(bytes))
    }

    /// Memory; spare blocks are let go for it.
    fn take(&self, mut pool: MutexGuard<'_, Pool>, claim: Claim) -> bool {
        while pool.purse.is_next(self.file, claim) && !pool.purse.fits(claim) && pool.let_go() {}
        pool.purse.take(self.file, claim)
    }

    /// A block has come back: it is kept for the file's next one, as far as so much memory is worth keeping and nobody needs it. One whose bytes have gone
    /// elsewhere leaves a list behind.
    pub(crate) fn put_back(&self, block: Block, list: Option<u64>, held: u64, keep: u64) {
        let mut pool = self.budget.lock();
        let Block { bytes, cost } = block;
        pool.purse.give(Claim::Block(cost));
        // It fits where the block was.
        list.map(|list| pool.purse.take(self.file, Claim::List(list)));
        let kept = held + pool.spare_of(self.file).map(|spare| spare.cost).sum::<u64>();
        let worth = kept + cost <= keep.max(cost) && pool.purse.fits(Claim::Block(cost));
        // What another file waits for is freed at once; this one finds it here.
        if worth && pool.purse.is_next(self.file, Claim::Block(cost)) {
            pool.purse.take(self.file, Claim::Block(cost));
            pool.spare.push(Spare { file: self.file, cost, bytes });
        }
        self.returned(pool);
    }

    pub(crate) fn give(&self, claim: Claim) {
        let mut pool = self.budget.lock();
        pool.purse.give(claim);
        self.returned(pool);
    }

    fn returned(&self, mut pool: MutexGuard<'_, Pool>) {
        pool.returns += 1;
        if pool.waiting > 0 {
            drop(pool);
            self.budget.change.notify_all();
        }
    }

    /// Wakes whoever waits: what it waits for may never come.
    pub(crate) fn knock(&self) {
        self.returned(self.budget.lock());
    }

    /// How often something came back so far.
    pub(crate) fn returns(&self) -> u64 {
        self.budget.lock().returns
    }

    /// Waits until something has come back after so many times.
    pub(crate) fn wait(&self, returns: u64) {
        let mut pool = self.budget.lock();
        pool.waiting += 1;
        let waits = |pool: &mut Pool| pool.returns == returns;
        let waited = self.budget.change.wait_while(pool, waits);
        waited.unwrap_or_else(PoisonError::into_inner).waiting -= 1;
    }

    /// The file waits no longer.
    pub(crate) fn step_back(&self) {
        self.budget.lock().purse.step_back(self.file);
        // The next one may be somebody else now.
        self.knock();
    }

    /// Whether anybody waits for memory.
    pub(crate) fn is_short(&self) -> bool {
        self.budget.lock().waiting > 0
    }

    /// What all files of the rank hold together, spare blocks included.
    pub(crate) fn level(&self) -> Level {
        self.budget.lock().purse.memory()
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut pool = self.budget.lock();
        let file = self.file;
        let (mine, others) =
            std::mem::take(&mut pool.spare).into_iter().partition(|spare| spare.file == file);
        pool.spare = others;
        let mine: Vec<Spare> = mine;
        mine.iter().for_each(|spare| pool.purse.give(Claim::Block(spare.cost)));
        pool.purse.step_back(file);
        self.returned(pool);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_have_their_own_and_files_of_a_rank_share() {
        let rank = u64::MAX - 7;
        let (one, other) = (Budget::of(rank), Budget::of(rank));
        assert!(Arc::ptr_eq(&one, &other) && !Arc::ptr_eq(&one, &Budget::of(rank - 1)));
        let (first, second) = (one.join(100, 0), other.join(200, 0));
        assert!(first.take_list(150) && second.take_block(1, 100).is_none());
        assert_eq!((first.level().cap, second.level().held), (200, 150));
    }

    #[test]
    fn spare_blocks_count_and_are_let_go_when_another_file_needs_them() {
        let budget = Arc::new(Budget::default());
        let (first, second) = (budget.join(100, 0), budget.join(100, 0));
        let blocks: Vec<Vec<u8>> = (0..2).filter_map(|_| first.take_block(10, 50)).collect();
        assert_eq!((blocks.len(), first.take_list(1)), (2, false));
        blocks.into_iter().for_each(|bytes| first.put_back(Block { bytes, cost: 50 }, None, 0, 100));
        assert_eq!(first.level().held, 100, "they are spare");
        assert!(second.take_block(10, 50).is_some() && second.take_block(20, 50).is_some());
        assert_eq!((second.level().held, second.level().peak), (100, 100));
        assert!(first.take_block(10, 50).is_none());
        second.put_back(Block { bytes: vec![0; 10], cost: 50 }, None, 50, 100);
        second.put_back(Block { bytes: vec![0; 20], cost: 50 }, Some(7), 0, 100);
        assert_eq!(second.level().held, 7, "the first file waits for one");
    }

    #[test]
    fn who_waits_is_woken_by_what_another_file_gives_back() {
        let budget = Arc::new(Budget::default());
        let (first, second) = (budget.join(100, 0), budget.join(100, 0));
        assert!(first.take_block(1, 100).is_some());
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| {
                loop {
                    let seen = second.returns();
                    if second.take_block(1, 60).is_some() {
                        return second.level().held;
                    }
                    second.wait(seen);
                }
            });
            while !first.is_short() {
                std::thread::yield_now();
            }
            first.give(Claim::Block(100));
            assert_eq!(waiter.join().unwrap(), 60);
        });
    }
}
