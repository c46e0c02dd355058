//! Searches and their results, with limits. Users take turns.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::search_request::SearchRequest;
use crate::hit::Hit;

/// Limits of a store.
#[derive(Clone, Copy, Debug)]
pub struct StoreLimits {
    /// The most searches of a user that wait or run.
    pub waiting_per_user: usize,
    /// The most searches that are kept; the oldest finished ones are forgotten first.
    pub kept: usize,
    /// The most memory that requests and hits of all searches together take, in bytes.
    pub memory: u64,
    /// The most hits of one search.
    pub hits_per_search: u64,
    /// The most memory that the hits of one search take, in bytes.
    pub memory_per_search: u64,
    /// The longest time of a search.
    pub time: Duration,
}

impl Default for StoreLimits {
    fn default() -> Self {
        let time = Duration::from_secs(600);
        Self {
            waiting_per_user: 200,
            kept: 1000,
            memory: 512 << 20,
            hits_per_search: 100_000,
            memory_per_search: 64 << 20,
            time,
        }
    }
}

/// The state of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SearchState {
    /// In the queue.
    Waiting,
    /// Being executed.
    Running,
    /// All hits are there.
    Finished,
    /// It ended with an error.
    Failed,
    /// Cancelled by its user.
    Cancelled,
}

impl SearchState {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Running => "running",
            Self::Finished => "finished",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    fn is_over(self) -> bool {
        !matches!(self, Self::Waiting | Self::Running)
    }
}

/// A search.
#[derive(Clone, Debug)]
pub struct StoredSearch {
    /// Its number.
    pub id: u64,
    /// Its user.
    pub user: String,
    /// The request; without its regions after the search has ended.
    pub request: Arc<SearchRequest>,
    /// Its state.
    pub state: SearchState,
    /// The part that is done, 0 to 1.
    pub done: f64,
    /// Hits so far.
    pub found: u64,
    /// The hits, after it has finished.
    pub hits: Arc<Vec<Hit>>,
    /// Whether all hits were found.
    pub complete: bool,
    /// Why it failed, or what it waits for.
    pub message: String,
    /// Ends it.
    pub cancel: Arc<AtomicBool>,
    /// The memory of the request and the hits.
    memory: u64,
}

/// A search to execute.
#[derive(Clone, Debug)]
pub struct SearchJob {
    /// Its number.
    pub id: u64,
    /// The request.
    pub request: Arc<SearchRequest>,
    /// Set if it is to end.
    pub cancel: Arc<AtomicBool>,
}

#[derive(Debug, Default)]
struct StoreState {
    searches: BTreeMap<u64, StoredSearch>,
    last: u64,
    /// For each user the number of the turn in which a search was started.
    turns: BTreeMap<String, u64>,
    turn: u64,
}

impl StoreState {
    fn memory(&self) -> u64 {
        self.searches.values().map(|search| search.memory).sum()
    }

    /// Removes the oldest search that is over, except `keep`.
    fn remove_oldest(&mut self, keep: Option<u64>) -> Option<StoredSearch> {
        let oldest =
            self.searches.values().find(|search| search.state.is_over() && Some(search.id) != keep)?.id;
        self.searches.remove(&oldest)
    }
}

/// All searches of a service.
#[derive(Debug)]
pub struct SearchStore {
    state: Mutex<StoreState>,
    changed: Condvar,
    limits: StoreLimits,
}

impl SearchStore {
    /// Without searches.
    pub fn new(limits: StoreLimits) -> Self {
        Self { state: Mutex::default(), changed: Condvar::new(), limits }
    }

    /// Its limits.
    pub fn limits(&self) -> StoreLimits {
        self.limits
    }

    fn lock(&self) -> MutexGuard<'_, StoreState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a search; its number.
    pub fn add(&self, user: &str, request: SearchRequest) -> Result<u64> {
        let mut state = self.lock();
        let open =
            state.searches.values().filter(|search| search.user == user && !search.state.is_over()).count();
        ensure!(
            open < self.limits.waiting_per_user,
            "{open} searches of {user} wait already; try again later"
        );
        let memory = request.memory();
        ensure!(memory <= self.limits.memory, "the request is too large: {memory} bytes");
        while state.searches.len() >= self.limits.kept || state.memory() + memory > self.limits.memory {
            state.remove_oldest(None).context("the service has too many searches; try again later")?;
        }
        state.last += 1;
        let id = state.last;
        let search = StoredSearch {
            id,
            user: user.to_owned(),
            request: Arc::new(request),
            state: SearchState::Waiting,
            done: 0.0,
            found: 0,
            hits: Arc::default(),
            complete: false,
            message: String::new(),
            cancel: Arc::default(),
            memory,
        };
        state.searches.insert(id, search);
        self.changed.notify_all();
        Ok(id)
    }

    /// The search that comes next: the oldest one of the user whose last turn is longest ago. Waits up to `timeout`.
    pub fn next_job(&self, timeout: Duration) -> Option<SearchJob> {
        let mut state = self.lock();
        if !state.searches.values().any(|search| search.state == SearchState::Waiting) {
            state = self.changed.wait_timeout(state, timeout).unwrap_or_else(PoisonError::into_inner).0;
        }
        let waiting = state.searches.iter().filter(|(_, search)| search.state == SearchState::Waiting);
        let turn = |user: &str| state.turns.get(user).copied().unwrap_or(0);
        let id = waiting.min_by_key(|(id, search)| (turn(&search.user), **id)).map(|(id, _)| *id)?;
        state.turn += 1;
        let turn = state.turn;
        let search = state.searches.get_mut(&id)?;
        search.state = SearchState::Running;
        let job = SearchJob { id, request: Arc::clone(&search.request), cancel: Arc::clone(&search.cancel) };
        let user = search.user.clone();
        state.turns.insert(user, turn);
        Some(job)
    }

    /// Reports the progress of a search.
    pub fn report(&self, id: u64, done: f64, found: u64, message: &str) {
        if let Some(search) = self.lock().searches.get_mut(&id) {
            (search.done, search.found) = (done, found);
            message.clone_into(&mut search.message);
        }
    }

    /// Ends a search.
    pub fn finish(&self, id: u64, outcome: Result<(Vec<Hit>, bool)>) {
        let mut state = self.lock();
        let Some(search) = state.searches.get_mut(&id) else { return };
        search.message.clear();
        match outcome {
            Ok(_) if search.cancel.load(Ordering::Relaxed) => search.end(SearchState::Cancelled),
            Ok((hits, complete)) => {
                search.found = hits.len() as u64;
                (search.hits, search.complete, search.done) = (Arc::new(hits), complete, 1.0);
                search.end(SearchState::Finished);
            }
            Err(error) => {
                search.message = format!("{error:#}");
                search.end(SearchState::Failed);
            }
        }
        while state.memory() > self.limits.memory && state.remove_oldest(Some(id)).is_some() {}
    }

    /// A search of a user.
    pub fn get(&self, user: &str, id: u64) -> Result<StoredSearch> {
        let state = self.lock();
        let search = state.searches.get(&id).filter(|search| search.user == user);
        search.cloned().with_context(|| format!("there is no search {id}; it may have been forgotten"))
    }

    /// Cancels a search.
    pub fn cancel(&self, user: &str, id: u64) -> Result<()> {
        self.get(user, id)?.cancel.store(true, Ordering::Relaxed);
        if let Some(search) = self.lock().searches.get_mut(&id)
            && search.state == SearchState::Waiting
        {
            search.end(SearchState::Cancelled);
        }
        Ok(())
    }

    /// Forgets a search and its hits; cancels it first.
    pub fn forget(&self, user: &str, id: u64) -> Result<()> {
        self.cancel(user, id)?;
        self.lock().searches.remove(&id);
        Ok(())
    }

    /// The searches of a user, newest first.
    pub fn list(&self, user: &str) -> Vec<Value> {
        let state = self.lock();
        let mine = state.searches.iter().rev().filter(|(_, search)| search.user == user);
        mine.take(200).map(|(_, search)| search.status()).collect()
    }
}

impl StoredSearch {
    /// Its status.
    pub fn status(&self) -> Value {
        json!({
            "id": self.id, "state": self.state.name(), "done": self.done, "hits": self.found,
            "complete": self.complete, "message": self.message, "query": self.request.query,
        })
    }

    /// Ends it. The regions are needed no more.
    fn end(&mut self, state: SearchState) {
        self.state = state;
        if self.request.regions.is_some() {
            self.request = Arc::new(SearchRequest { regions: None, ..SearchRequest::clone(&self.request) });
        }
        self.memory = self.request.memory() + self.hits.iter().map(Hit::memory).sum::<u64>();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hit::Regions;
    use crate::query::ResidueKind;

    fn request(query: &str) -> SearchRequest {
        let value = json!({"query": query, "kind": "dna"});
        SearchRequest::from_value(&value, |_| Ok(ResidueKind::Dna)).unwrap().0
    }

    fn hit(residues: usize) -> Hit {
        Hit {
            file_number: 0,
            sequence: 1,
            start: 1,
            end: residues as u64,
            reverse: 0,
            term_lengths: vec![residues as u64],
            file: "a.fa".to_owned(),
            name: "a".to_owned(),
            residues: "A".repeat(residues),
        }
    }

    #[test]
    fn users_take_turns_and_limits_hold() {
        let limits = StoreLimits { waiting_per_user: 3, kept: 5, ..StoreLimits::default() };
        let store = SearchStore::new(limits);
        let ids: Vec<u64> = (0..3).map(|_| store.add("first", request("A")).unwrap()).collect();
        assert!(store.add("first", request("A")).is_err());
        let other = store.add("second", request("A")).unwrap();
        let order: Vec<u64> = (0..4).map(|_| store.next_job(Duration::ZERO).unwrap().id).collect();
        assert_eq!(order, [ids[0], other, ids[1], ids[2]]);
        assert!(store.next_job(Duration::ZERO).is_none());
        store.finish(ids[0], Ok((Vec::new(), true)));
        assert_eq!(store.get("first", ids[0]).unwrap().state, SearchState::Finished);
        assert!(store.get("second", ids[0]).is_err(), "others do not see it");
        store.finish(ids[1], Err(anyhow::anyhow!("no")));
        store.add("second", request("A")).unwrap();
        store.add("second", request("A")).unwrap();
        assert!(store.get("first", ids[0]).is_err(), "the oldest finished search is forgotten");
    }

    #[test]
    fn memory_is_limited_and_regions_are_dropped() {
        let limits = StoreLimits { memory: 20_000, ..StoreLimits::default() };
        let store = SearchStore::new(limits);
        let first = store.add("user", request("A")).unwrap();
        store.finish(first, Ok((vec![hit(6000)], true)));
        let mut within = request("C");
        within.regions = Some(Arc::new(Regions::of_hits(&vec![hit(9); 1000], 0)));
        let regions = Arc::downgrade(within.regions.as_ref().unwrap());
        let second = store.add("user", within).unwrap();
        let job = store.next_job(Duration::ZERO).unwrap();
        assert!(Arc::ptr_eq(&job.request, &store.get("user", second).unwrap().request), "shared, not copied");
        drop(job);
        store.finish(second, Ok((vec![hit(6000)], true)));
        assert!(regions.upgrade().is_none(), "the regions are dropped when the search has ended");
        let third = store.add("user", request("G")).unwrap();
        store.finish(third, Ok((vec![hit(12_000)], true)));
        assert!(store.get("user", first).is_err(), "the oldest hits are forgotten");
        assert!(store.get("user", second).is_ok() && store.get("user", third).is_ok());
        let long = SearchRequest { query: "A".repeat(30_000), ..request("A") };
        assert!(store.add("user", long).is_err());
    }
}
