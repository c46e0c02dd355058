//! Searches and their results, with limits. Users take turns.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::hit::Hit;

/// Limits of a store.
#[derive(Clone, Copy, Debug)]
pub struct StoreLimits {
    /// The most searches of a user that wait or run.
    pub waiting_per_user: usize,
    /// The most searches that are kept; the oldest finished ones are forgotten first.
    pub kept: usize,
    /// The most hits that are kept in all searches together.
    pub hits: usize,
    /// The most hits of one search.
    pub hits_per_search: u64,
    /// The longest time of a search.
    pub time: Duration,
}

impl Default for StoreLimits {
    fn default() -> Self {
        let time = Duration::from_secs(600);
        Self { waiting_per_user: 200, kept: 1000, hits: 2_000_000, hits_per_search: 100_000, time }
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
    /// Its user.
    pub user: String,
    /// The request.
    pub request: Value,
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
}

/// A search to execute.
#[derive(Clone, Debug)]
pub struct SearchJob {
    /// Its number.
    pub id: u64,
    /// The request.
    pub request: Value,
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
    pub fn add(&self, user: &str, request: Value) -> Result<u64> {
        let mut state = self.lock();
        let open =
            state.searches.values().filter(|search| search.user == user && !search.state.is_over()).count();
        ensure!(
            open < self.limits.waiting_per_user,
            "{open} searches of {user} wait already; try again later"
        );
        while state.searches.len() >= self.limits.kept {
            let oldest = state.searches.iter().find(|(_, search)| search.state.is_over()).map(|(id, _)| *id);
            let oldest = oldest.context("the service has too many searches; try again later")?;
            state.searches.remove(&oldest);
        }
        state.last += 1;
        let id = state.last;
        let search = StoredSearch {
            user: user.to_owned(),
            request,
            state: SearchState::Waiting,
            done: 0.0,
            found: 0,
            hits: Arc::default(),
            complete: false,
            message: String::new(),
            cancel: Arc::default(),
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
        let job = SearchJob { id, request: search.request.clone(), cancel: Arc::clone(&search.cancel) };
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
            Ok(_) if search.cancel.load(Ordering::Relaxed) => search.state = SearchState::Cancelled,
            Ok((hits, complete)) => {
                search.found = hits.len() as u64;
                (search.hits, search.complete, search.done) = (Arc::new(hits), complete, 1.0);
                search.state = SearchState::Finished;
            }
            Err(error) => {
                search.state = SearchState::Failed;
                search.message = format!("{error:#}");
            }
        }
        let mut kept: usize = state.searches.values().map(|search| search.hits.len()).sum();
        while kept > self.limits.hits {
            let Some(oldest) =
                state.searches.iter().find(|(known, search)| **known != id && !search.hits.is_empty())
            else {
                break;
            };
            let oldest = *oldest.0;
            kept -= state.searches.remove(&oldest).map_or(0, |search| search.hits.len());
        }
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
            search.state = SearchState::Cancelled;
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
        mine.take(200).map(|(id, search)| search.status(*id)).collect()
    }
}

impl StoredSearch {
    /// Its status.
    pub fn status(&self, id: u64) -> Value {
        json!({
            "id": id, "state": self.state.name(), "done": self.done, "hits": self.found, "complete": self.complete,
            "message": self.message, "query": self.request["query"].as_str().unwrap_or(""),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_take_turns_and_limits_hold() {
        let limits = StoreLimits { waiting_per_user: 3, kept: 5, hits: 1, ..StoreLimits::default() };
        let store = SearchStore::new(limits);
        let ids: Vec<u64> = (0..3).map(|_| store.add("first", json!({})).unwrap()).collect();
        assert!(store.add("first", json!({})).is_err());
        let other = store.add("second", json!({})).unwrap();
        let order: Vec<u64> = (0..4).map(|_| store.next_job(Duration::ZERO).unwrap().id).collect();
        assert_eq!(order, [ids[0], other, ids[1], ids[2]]);
        assert!(store.next_job(Duration::ZERO).is_none());
        store.finish(ids[0], Ok((Vec::new(), true)));
        assert_eq!(store.get("first", ids[0]).unwrap().state, SearchState::Finished);
        assert!(store.get("second", ids[0]).is_err(), "others do not see it");
        store.finish(ids[1], Err(anyhow::anyhow!("no")));
        store.add("second", json!({})).unwrap();
        store.add("second", json!({})).unwrap();
        assert!(store.get("first", ids[0]).is_err(), "the oldest finished search is forgotten");
    }
}
