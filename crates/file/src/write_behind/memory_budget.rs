//! The memory budget of the process for data that is written in the background: buffers in use and idle ones, under one
//! limit.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};

use aqueduct_comm::Comm;
use aqueduct_device::available_memory;
use aqueduct_device::units::ByteSize;
use aqueduct_report::{Report, ReportSource};

use super::memory_ledger::{Allocation, Level, MemoryLedger, OwnerLimits};
use super::waiting::wait_while;

/// The memory budget of a process. Write buffers, outputs and checkpoint stores are its owners.
#[derive(Debug)]
pub struct MemoryBudget {
    pool: Mutex<BudgetPool>,
    change: Condvar,
}

#[derive(Debug)]
struct BudgetPool {
    ledger: MemoryLedger,
    /// Buffers that are allocated and not in use. They count; they are freed when the memory is needed.
    idle: Vec<IdleBuffer>,
    /// How often memory was released.
    returns: u64,
    /// The owners of the threads that wait for memory.
    waiting: Vec<u64>,
    /// The owners that several users share: the rank, the owner, the number of users.
    shared: Vec<(u64, u64, usize)>,
    /// The number of users and owners so far.
    users: u64,
}

#[derive(Debug)]
struct IdleBuffer {
    owner: u64,
    user: u64,
    cost: u64,
    bytes: Vec<u8>,
}

impl MemoryBudget {
    /// A budget of its own.
    pub fn new(limit: u64) -> Arc<Self> {
        let pool = BudgetPool {
            ledger: MemoryLedger::new(limit),
            idle: Vec::new(),
            returns: 0,
            waiting: Vec::new(),
            shared: Vec::new(),
            users: 0,
        };
        Arc::new(Self { pool: Mutex::new(pool), change: Condvar::new() })
    }

    /// The budget of this process. The limit is `AQUEDUCT_MEMORY`, or the memory that was available at the first call divided
    /// by the processes of the node, of which `comm` knows its own.
    pub fn of_process(comm: &Comm) -> &'static Arc<Self> {
        static PROCESS: OnceLock<(Arc<MemoryBudget>, Option<u64>)> = OnceLock::new();
        let (budget, available) = PROCESS.get_or_init(|| match limit_from_environment() {
            Some(limit) => (Self::new(limit), None),
            None => {
                let available = available_memory();
                (Self::new(available), Some(available))
            }
        });
        if let Some(available) = available {
            let ranks = comm.ranks_of_node(comm.node_of(comm.rank())).len();
            budget.lock().ledger.lower_limit(available / (ranks / process_ranks(comm)).max(1) as u64);
        }
        budget
    }

    /// Adds an owner with one user.
    pub fn join(self: &Arc<Self>, limits: OwnerLimits) -> BudgetUser {
        self.join_as(None, limits)
    }

    /// Adds a user of the owner that all files of a rank share; the largest limits of its users are those of the owner.
    pub(crate) fn join_rank(self: &Arc<Self>, rank: u64, limits: OwnerLimits) -> BudgetUser {
        self.join_as(Some(rank), limits)
    }

    fn join_as(self: &Arc<Self>, rank: Option<u64>, limits: OwnerLimits) -> BudgetUser {
        let mut pool = self.lock();
        pool.users += 1;
        let user = pool.users;
        let owner = match rank.map(|rank| (rank, pool.shared.iter_mut().find(|(other, ..)| *other == rank))) {
            None => user,
            Some((_, Some((_, owner, users)))) => {
                *users += 1;
                *owner
            }
            Some((rank, None)) => {
                pool.shared.push((rank, user, 1));
                user
            }
        };
        pool.ledger.join(owner, limits);
        while pool.ledger.is_over_limit() && pool.free_idle(owner) {}
        BudgetUser { budget: Arc::clone(self), owner, user }
    }

    /// The limit of the process, the memory that is held now, and the most that was held.
    pub fn level(&self) -> Level {
        self.lock().ledger.process()
    }

    fn lock(&self) -> MutexGuard<'_, BudgetPool> {
        self.pool.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The memory of data that this process writes in the background: the limit, the bytes that are held now, and their peak. The
/// communicator is any of the program; it determines the limit, if no owner of memory has before.
pub fn memory_level(comm: &Comm) -> Level {
    MemoryBudget::of_process(comm).level()
}

/// The ranks of a communicator that are threads of this process.
pub fn process_ranks(comm: &Comm) -> usize {
    if comm.thread_level().is_some() { 1 } else { comm.ranks_of_node(comm.node_of(comm.rank())).len() }
}

/// The value of `AQUEDUCT_MEMORY`; one that is not a size is reported and ignored.
fn limit_from_environment() -> Option<u64> {
    let value = std::env::var("AQUEDUCT_MEMORY").ok().filter(|value| !value.is_empty())?;
    match value.parse() {
        Ok(ByteSize(bytes)) => Some(bytes),
        Err(error) => {
            let message = format!("AQUEDUCT_MEMORY={value} is ignored: {error}");
            Report::new(ReportSource::File).warn(&message);
            None
        }
    }
}

impl BudgetPool {
    /// Frees an idle buffer for an owner: one of its own, or one of another owner that holds more than its minimum. False if
    /// there is none.
    fn free_idle(&mut self, owner: u64) -> bool {
        let own = self.idle.iter().rposition(|idle| idle.owner == owner);
        let other = || self.idle.iter().rposition(|idle| self.ledger.is_beyond_minimum(idle.owner));
        let Some(found) = own.or_else(other) else { return false };
        let idle = self.idle.swap_remove(found);
        self.ledger.give(idle.owner, Allocation::Block(idle.cost));
        true
    }

    fn take(&mut self, owner: u64, user: u64, allocation: Allocation) -> bool {
        let is_next = self.ledger.quota(owner).is_next(user, allocation);
        while is_next && !self.ledger.fits(owner, allocation) && self.free_idle(owner) {}
        self.ledger.take(owner, user, allocation)
    }
}

/// The access of one user, such as a file or an output, to the memory of its owner.
#[derive(Debug)]
pub struct BudgetUser {
    budget: Arc<MemoryBudget>,
    owner: u64,
    user: u64,
}

impl BudgetUser {
    /// Allocates memory for a buffer; false if there is none, then the user is in the queue of its owner.
    pub fn take(&self, bytes: u64) -> bool {
        self.budget.lock().take(self.owner, self.user, Allocation::Block(bytes))
    }

    /// Releases memory of a buffer.
    pub fn give(&self, bytes: u64) {
        self.release(Allocation::Block(bytes));
    }

    /// A buffer of this size, whose memory costs `cost`: an idle one of any user of the owner, or a new one. None if there is no
    /// memory for it.
    pub(crate) fn take_block(&self, size: usize, cost: u64) -> Option<Vec<u8>> {
        let allocation = Allocation::Block(cost);
        let mut pool = self.budget.lock();
        let (owner, user) = (self.owner, self.user);
        let fitting =
            |idle: &IdleBuffer| idle.owner == owner && idle.bytes.len() == size && idle.cost == cost;
        let is_next = pool.ledger.quota(owner).is_next(user, allocation);
        if let Some(found) = pool.idle.iter().rposition(fitting).filter(|_| is_next) {
            pool.ledger.leave_queue(owner, user);
            return Some(pool.idle.swap_remove(found).bytes);
        }
        pool.take(owner, user, allocation).then(|| vec![0; size])
    }

    /// A buffer of at least this size: an idle one of this user, or a new one. None if there is no memory for it.
    pub fn take_buffer(&self, size: usize) -> Option<Vec<u8>> {
        let mut pool = self.budget.lock();
        let fitting = |idle: &IdleBuffer| idle.user == self.user && idle.bytes.capacity() >= size;
        if let Some(found) = pool.idle.iter().rposition(fitting) {
            return Some(pool.idle.swap_remove(found).bytes);
        }
        let taken = pool.take(self.owner, self.user, Allocation::Block(size as u64));
        // An output has one thread that waits, so that no queue is needed.
        pool.ledger.leave_queue(self.owner, self.user);
        drop(pool);
        taken.then(|| {
            let mut buffer = Vec::new();
            buffer.reserve_exact(size);
            buffer
        })
    }

    /// Keeps a buffer for the next [`take_buffer`](Self::take_buffer).
    pub fn put_buffer(&self, bytes: Vec<u8>) {
        let mut pool = self.budget.lock();
        let (owner, user, cost) = (self.owner, self.user, bytes.capacity() as u64);
        pool.idle.push(IdleBuffer { owner, user, cost, bytes });
        self.returned(pool);
    }

    /// Allocates memory for the list of spilled data.
    pub(crate) fn take_list(&self, bytes: u64) -> bool {
        self.budget.lock().take(self.owner, self.user, Allocation::List(bytes))
    }

    /// Releases a block: it is kept for the next one, if at most `keep` bytes are kept then and no other file needs it. A block
    /// whose bytes are in the drain target keeps the memory of its list.
    pub(crate) fn put_block(&self, bytes: Vec<u8>, cost: u64, list: Option<u64>, held: u64, keep: u64) {
        let mut pool = self.budget.lock();
        let (owner, user) = (self.owner, self.user);
        let block = Allocation::Block(cost);
        match list {
            Some(list) => pool.ledger.shrink_to_list(owner, cost, list),
            None => pool.ledger.give(owner, block),
        }
        let mine = pool.idle.iter().filter(|idle| idle.user == user).map(|idle| idle.cost).sum::<u64>();
        let worth = held + mine + cost <= keep.max(cost) && pool.ledger.fits(owner, block);
        // If another file of the rank waits for memory, the block is freed.
        if worth && pool.ledger.quota(owner).is_next(user, block) && pool.ledger.take(owner, user, block) {
            pool.idle.push(IdleBuffer { owner, user, cost, bytes });
        }
        self.returned(pool);
    }

    pub(crate) fn release(&self, allocation: Allocation) {
        let mut pool = self.budget.lock();
        pool.ledger.give(self.owner, allocation);
        self.returned(pool);
    }

    fn returned(&self, mut pool: MutexGuard<'_, BudgetPool>) {
        pool.returns += 1;
        if !pool.waiting.is_empty() {
            drop(pool);
            self.budget.change.notify_all();
        }
    }

    /// Wakes all threads that wait for memory: what they wait for may never be released.
    pub(crate) fn wake_waiters(&self) {
        self.returned(self.budget.lock());
    }

    /// How often memory was released so far.
    pub fn returns(&self) -> u64 {
        self.budget.lock().returns
    }

    /// Waits until memory was released more often than this.
    pub fn wait(&self, returns: u64) {
        let budget = &self.budget;
        budget.lock().waiting.push(self.owner);
        let waits = |pool: &mut BudgetPool| pool.returns == returns;
        let (mut pool, _) = wait_while(|| budget.lock(), &budget.change, |_| None, waits);
        if let Some(mine) = pool.waiting.iter().position(|owner| *owner == self.owner) {
            pool.waiting.swap_remove(mine);
        }
    }

    /// Removes the user from the queue of its owner.
    pub(crate) fn leave_queue(&self) {
        self.budget.lock().ledger.leave_queue(self.owner, self.user);
        // Another user may be the next one now.
        self.wake_waiters();
    }

    /// True if a user of this owner waits for memory.
    pub(crate) fn is_short(&self) -> bool {
        self.budget.lock().waiting.contains(&self.owner)
    }

    /// The memory of the owner, including idle buffers.
    pub fn level(&self) -> Level {
        self.budget.lock().ledger.level(self.owner)
    }

    /// The limit of the process in bytes.
    pub fn process_limit(&self) -> u64 {
        self.budget.level().cap
    }
}

impl Drop for BudgetUser {
    fn drop(&mut self) {
        let mut pool = self.budget.lock();
        let (owner, user) = (self.owner, self.user);
        while let Some(found) = pool.idle.iter().position(|idle| idle.user == user) {
            let cost = pool.idle.swap_remove(found).cost;
            pool.ledger.give(owner, Allocation::Block(cost));
        }
        pool.ledger.leave_queue(owner, user);
        let users = pool.shared.iter_mut().find(|(_, shared, _)| *shared == owner);
        let left = users.map_or(0, |(_, _, users)| {
            *users -= 1;
            *users
        });
        if left == 0 {
            pool.shared.retain(|(_, shared, _)| *shared != owner);
            pool.ledger.leave(owner);
        }
        self.returned(pool);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(cap: u64) -> OwnerLimits {
        OwnerLimits { cap, ..OwnerLimits::default() }
    }

    #[test]
    fn files_of_a_rank_share_an_owner_and_ranks_do_not() {
        let budget = MemoryBudget::new(1 << 20);
        let (first, second) = (budget.join_rank(7, limits(100)), budget.join_rank(7, limits(200)));
        let other = budget.join_rank(8, limits(50));
        assert!(first.take_list(150) && second.take_block(1, 100).is_none() && other.take(50));
        assert_eq!((first.level().cap, second.level().held, other.level().held), (200, 150, 50));
        assert_eq!(budget.level().held, 200);
        first.release(Allocation::List(150));
        drop((first, second));
        other.give(50);
        assert_eq!(budget.level().held, 0);
        assert_eq!(budget.lock().shared.len(), 1, "the first rank has left");
    }

    #[test]
    fn idle_blocks_count_and_are_released_when_another_file_needs_them() {
        let budget = MemoryBudget::new(1 << 20);
        let (first, second) = (budget.join_rank(7, limits(100)), budget.join_rank(7, limits(100)));
        let blocks: Vec<Vec<u8>> = (0..2).filter_map(|_| first.take_block(10, 50)).collect();
        assert_eq!((blocks.len(), first.take_list(1)), (2, false));
        blocks.into_iter().for_each(|bytes| first.put_block(bytes, 50, None, 0, 100));
        assert_eq!(first.level().held, 100, "they are idle");
        assert!(second.take_block(10, 50).is_some() && second.take_block(20, 50).is_some());
        assert_eq!((second.level().held, second.level().peak), (100, 100));
        assert!(first.take_block(10, 50).is_none());
        second.put_block(vec![0; 10], 50, None, 50, 100);
        second.put_block(vec![0; 20], 50, Some(7), 0, 100);
        assert_eq!(second.level().held, 7, "the first file waits for one");
        first.release(Allocation::List(7));
    }

    #[test]
    fn idle_buffers_of_another_owner_are_released_at_the_limit_of_the_process() {
        let budget = MemoryBudget::new(800);
        let (one, other) = (budget.join(limits(1000)), budget.join(limits(1000)));
        let buffers: Vec<Vec<u8>> = (0..2).filter_map(|_| one.take_buffer(300)).collect();
        assert!(!other.take(300), "they are in use");
        buffers.into_iter().for_each(|buffer| one.put_buffer(buffer));
        assert_eq!(budget.level().held, 600);
        assert!(other.take(300) && budget.level().held == 600);
        assert!(one.take_buffer(300).is_some(), "one is left");
        other.give(300);
        one.give(300);
    }

    #[test]
    fn a_waiting_file_is_woken_by_memory_of_another_file() {
        let budget = MemoryBudget::new(1 << 20);
        let (first, second) = (budget.join_rank(7, limits(100)), budget.join_rank(7, limits(100)));
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
            first.give(100);
            assert_eq!(waiter.join().unwrap(), 60);
        });
        second.give(60);
    }
}
