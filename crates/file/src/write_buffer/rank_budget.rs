//! The memory budget of a rank for all its buffered files: blocks in use and free ones, under one limit.

use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};

use super::admission::Level;
use super::memory_quota::{Allocation, MemoryQuota};

/// The memory budget of a rank.
#[derive(Debug, Default)]
pub(crate) struct RankBudget {
    pool: Mutex<BudgetPool>,
    change: Condvar,
}

#[derive(Debug, Default)]
struct BudgetPool {
    quota: MemoryQuota,
    /// Blocks that are allocated and free.
    free: Vec<FreeBlock>,
    /// How often memory was released.
    returns: u64,
    /// Threads that wait for memory.
    waiting: usize,
    /// The number of files so far.
    files: u64,
}

#[derive(Debug)]
struct FreeBlock {
    file: u64,
    cost: u64,
    bytes: Vec<u8>,
}

/// A block and its memory, including its list.
pub(crate) struct MemoryBlock {
    pub(crate) bytes: Vec<u8>,
    pub(crate) cost: u64,
}

impl RankBudget {
    /// The budget of a rank, which exists while the rank has buffered files.
    pub(crate) fn of(rank: u64) -> Arc<Self> {
        static ALL: Mutex<Option<HashMap<u64, Weak<RankBudget>>>> = Mutex::new(None);
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

    /// Adds a file with its limit and the part of it that is reserved for lists.
    pub(crate) fn join(self: &Arc<Self>, cap: u64, reserved: u64) -> FileBudget {
        let mut pool = self.lock();
        pool.quota.join(cap, reserved);
        pool.files += 1;
        FileBudget { budget: Arc::clone(self), file: pool.files }
    }

    fn lock(&self) -> MutexGuard<'_, BudgetPool> {
        self.pool.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl BudgetPool {
    /// Releases the memory of a free block; false if there is none.
    fn free_one(&mut self) -> bool {
        let free = self.free.pop();
        free.map(|free| self.quota.give(Allocation::Block(free.cost))).is_some()
    }

    fn free_of(&mut self, file: u64) -> impl Iterator<Item = &FreeBlock> {
        self.free.iter().filter(move |free| free.file == file)
    }
}

/// The access of one file to the budget.
#[derive(Debug)]
pub(crate) struct FileBudget {
    budget: Arc<RankBudget>,
    file: u64,
}

impl FileBudget {
    /// A block of this size: a free one of any file, or a new one; none if there is no memory for it.
    pub(crate) fn take_block(&self, size: usize, cost: u64) -> Option<Vec<u8>> {
        let allocation = Allocation::Block(cost);
        let mut pool = self.budget.lock();
        let fitting = |free: &FreeBlock| free.bytes.len() == size && free.cost == cost;
        let found = pool.free.iter().rposition(fitting).filter(|_| pool.quota.is_next(self.file, allocation));
        if let Some(found) = found {
            pool.quota.leave_queue(self.file);
            return Some(pool.free.swap_remove(found).bytes);
        }
        self.take(pool, allocation).then(|| vec![0; size])
    }

    /// Allocates memory for the list of spilled data.
    pub(crate) fn take_list(&self, bytes: u64) -> bool {
        self.take(self.budget.lock(), Allocation::List(bytes))
    }

    /// Allocates memory; free blocks are released for it.
    fn take(&self, mut pool: MutexGuard<'_, BudgetPool>, allocation: Allocation) -> bool {
        while pool.quota.is_next(self.file, allocation) && !pool.quota.fits(allocation) && pool.free_one() {}
        pool.quota.take(self.file, allocation)
    }

    /// Releases a block: it is kept for the file's next one, if at most `keep` bytes are kept then and no other file needs it. A block whose bytes are
    /// in the drain target keeps the memory of its list.
    pub(crate) fn put_back(&self, block: MemoryBlock, list: Option<u64>, held: u64, keep: u64) {
        let mut pool = self.budget.lock();
        let MemoryBlock { bytes, cost } = block;
        pool.quota.give(Allocation::Block(cost));
        // The list takes less memory than the block.
        list.map(|list| pool.quota.take(self.file, Allocation::List(list)));
        let kept = held + pool.free_of(self.file).map(|free| free.cost).sum::<u64>();
        let worth = kept + cost <= keep.max(cost) && pool.quota.fits(Allocation::Block(cost));
        // If another file waits for memory, the block is freed; this file finds it among the free blocks.
        if worth && pool.quota.is_next(self.file, Allocation::Block(cost)) {
            pool.quota.take(self.file, Allocation::Block(cost));
            pool.free.push(FreeBlock { file: self.file, cost, bytes });
        }
        self.returned(pool);
    }

    pub(crate) fn give(&self, allocation: Allocation) {
        let mut pool = self.budget.lock();
        pool.quota.give(allocation);
        self.returned(pool);
    }

    fn returned(&self, mut pool: MutexGuard<'_, BudgetPool>) {
        pool.returns += 1;
        if pool.waiting > 0 {
            drop(pool);
            self.budget.change.notify_all();
        }
    }

    /// Wakes all waiting threads: the memory they wait for may never be released.
    pub(crate) fn wake_waiters(&self) {
        self.returned(self.budget.lock());
    }

    /// How often memory was released so far.
    pub(crate) fn returns(&self) -> u64 {
        self.budget.lock().returns
    }

    /// Waits until memory was released more often than this.
    pub(crate) fn wait(&self, returns: u64) {
        let mut pool = self.budget.lock();
        pool.waiting += 1;
        let waits = |pool: &mut BudgetPool| pool.returns == returns;
        let waited = self.budget.change.wait_while(pool, waits);
        waited.unwrap_or_else(PoisonError::into_inner).waiting -= 1;
    }

    /// Removes the file from the queue.
    pub(crate) fn leave_queue(&self) {
        self.budget.lock().quota.leave_queue(self.file);
        // Another file may be the next one now.
        self.wake_waiters();
    }

    /// True if a thread waits for memory.
    pub(crate) fn is_short(&self) -> bool {
        self.budget.lock().waiting > 0
    }

    /// The memory of all files of the rank, including free blocks.
    pub(crate) fn level(&self) -> Level {
        self.budget.lock().quota.memory()
    }
}

impl Drop for FileBudget {
    fn drop(&mut self) {
        let mut pool = self.budget.lock();
        let file = self.file;
        let (mine, others) = std::mem::take(&mut pool.free).into_iter().partition(|free| free.file == file);
        pool.free = others;
        let mine: Vec<FreeBlock> = mine;
        mine.iter().for_each(|free| pool.quota.give(Allocation::Block(free.cost)));
        pool.quota.leave_queue(file);
        self.returned(pool);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_have_their_own_and_files_of_a_rank_share() {
        let rank = u64::MAX - 7;
        let (one, other) = (RankBudget::of(rank), RankBudget::of(rank));
        assert!(Arc::ptr_eq(&one, &other) && !Arc::ptr_eq(&one, &RankBudget::of(rank - 1)));
        let (first, second) = (one.join(100, 0), other.join(200, 0));
        assert!(first.take_list(150) && second.take_block(1, 100).is_none());
        assert_eq!((first.level().cap, second.level().held), (200, 150));
    }

    #[test]
    fn free_blocks_count_and_are_released_when_another_file_needs_them() {
        let budget = Arc::new(RankBudget::default());
        let (first, second) = (budget.join(100, 0), budget.join(100, 0));
        let blocks: Vec<Vec<u8>> = (0..2).filter_map(|_| first.take_block(10, 50)).collect();
        assert_eq!((blocks.len(), first.take_list(1)), (2, false));
        blocks.into_iter().for_each(|bytes| first.put_back(MemoryBlock { bytes, cost: 50 }, None, 0, 100));
        assert_eq!(first.level().held, 100, "they are free");
        assert!(second.take_block(10, 50).is_some() && second.take_block(20, 50).is_some());
        assert_eq!((second.level().held, second.level().peak), (100, 100));
        assert!(first.take_block(10, 50).is_none());
        second.put_back(MemoryBlock { bytes: vec![0; 10], cost: 50 }, None, 50, 100);
        second.put_back(MemoryBlock { bytes: vec![0; 20], cost: 50 }, Some(7), 0, 100);
        assert_eq!(second.level().held, 7, "the first file waits for one");
    }

    #[test]
    fn a_waiting_file_is_woken_by_memory_of_another_file() {
        let budget = Arc::new(RankBudget::default());
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
            first.give(Allocation::Block(100));
            assert_eq!(waiter.join().unwrap(), 60);
        });
    }
}
