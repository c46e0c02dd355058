//! Execution of searches by a server elsewhere. A search whose server dies is submitted again.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use serde_json::{Value, json};

use super::api::{DatabaseList, hit_from_value};
use super::search_store::{SearchJob, SearchStore};
use crate::hit::Hit;
use crate::protocol::client::{CallError, RpcClient};

/// Hits that are fetched at once.
const PIECE: usize = 2000;
/// A search is submitted again so many times if the server dies while it executes it.
const MOST_SUBMISSIONS: u32 = 4;

/// The databases of a server. The list is kept for times at which the server is not available.
#[derive(Debug)]
pub struct RemoteFiles {
    client: RpcClient,
    known: Mutex<Option<Value>>,
}

impl RemoteFiles {
    /// The databases of the server of this client. A server that does not answer soon is not available.
    pub fn new(client: &RpcClient) -> Self {
        Self { client: client.with_timeout(Duration::from_secs(5)), known: Mutex::new(None) }
    }
}

impl DatabaseList for RemoteFiles {
    fn list(&self) -> Result<Value> {
        let found = self.client.call("motif.databases", &[]).map_err(CallError::into_error);
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        match found {
            Ok(list) => {
                *known = Some(list.clone());
                Ok(list)
            }
            Err(error) => known.clone().ok_or(error),
        }
    }

    fn lengths(&self, database: &str, sequences: &[u64]) -> Result<Value> {
        let parameters = [json!(database), json!(sequences)];
        self.client.call("motif.lengths", &parameters).map_err(CallError::into_error)
    }
}

/// Passes searches on until the process ends. A server that is not reached for `patience` makes a search fail.
pub fn execute(client: &RpcClient, store: &Arc<SearchStore>, patience: Duration) {
    loop {
        if let Some(job) = store.next_job(Duration::from_secs(1)) {
            let mut submission =
                Submission { client, store, job: &job, last_contact: Instant::now(), accepted: 0 };
            let outcome = submission.execute(patience);
            store.finish(job.id, outcome);
        }
    }
}

/// A search that is passed on to a server.
struct Submission<'a> {
    client: &'a RpcClient,
    store: &'a SearchStore,
    job: &'a SearchJob,
    /// When the server last answered.
    last_contact: Instant,
    /// How often the server has accepted the search.
    accepted: u32,
}

impl Submission<'_> {
    fn execute(&mut self, patience: Duration) -> Result<(Vec<Hit>, bool)> {
        // The server gets the regions, not the number of a search that only the proxy has.
        let request = self.job.request.to_value();
        loop {
            if self.job.cancel.load(Ordering::Relaxed) {
                return Ok((Vec::new(), false));
            }
            let error = match self.attempt(&request) {
                Ok(outcome) => return Ok(outcome),
                Err(CallError::Fault(error) | CallError::Refused(error)) => return Err(error),
                Err(CallError::Lost(error)) => error,
            };
            if self.accepted >= MOST_SUBMISSIONS {
                return Err(
                    error.context(format!("the server was lost {} times during this search", self.accepted))
                );
            }
            if self.last_contact.elapsed() > patience {
                return Err(error.context("the server is not available"));
            }
            let message = format!("the server is not available, trying again: {error:#}");
            self.store.report(self.job.id, 0.0, 0, &message);
            thread::sleep(Duration::from_millis(200));
        }
    }

    /// Calls a method of an accepted search. A search that the server does not know any more is lost: the server has restarted.
    fn call(&mut self, method: &str, parameters: &[Value]) -> Result<Value, CallError> {
        let found = self.client.call(method, parameters).map_err(|error| match error {
            CallError::Fault(error) => CallError::Lost(error),
            other => other,
        })?;
        self.last_contact = Instant::now();
        Ok(found)
    }

    /// Executes the search on the server.
    fn attempt(&mut self, request: &Value) -> Result<(Vec<Hit>, bool), CallError> {
        let id = self.client.call("motif.search", std::slice::from_ref(request))?;
        self.accepted += 1;
        self.last_contact = Instant::now();
        let mut pause = Duration::from_millis(2);
        let status = loop {
            let status = self.call("motif.status", std::slice::from_ref(&id))?;
            match status["state"].as_str().unwrap_or("") {
                "finished" => break status,
                "failed" => {
                    return Err(CallError::Fault(anyhow!("{}", status["message"].as_str().unwrap_or(""))));
                }
                "cancelled" => return Ok((Vec::new(), false)),
                _ => {
                    let done = status["done"].as_f64().unwrap_or(0.0);
                    self.store.report(self.job.id, done, status["hits"].as_u64().unwrap_or(0), "");
                }
            }
            if self.job.cancel.load(Ordering::Relaxed) {
                self.call("motif.cancel", std::slice::from_ref(&id))?;
            }
            thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(100));
        };
        let limits = self.store.limits();
        let outcome =
            fetch_hits(&id, &status, limits.hits_per_search, limits.memory_per_search, |parameters| {
                self.call("motif.hits", parameters)
            })?;
        // The server may have forgotten it already.
        let _ = self.client.call("motif.forget", &[id]);
        Ok(outcome)
    }
}

/// Fetches the hits of a finished search up to limits, and whether they are complete.
fn fetch_hits(
    id: &Value,
    status: &Value,
    most: u64,
    most_bytes: u64,
    mut call: impl FnMut(&[Value]) -> Result<Value, CallError>,
) -> Result<(Vec<Hit>, bool), CallError> {
    let total = status["hits"].as_u64().unwrap_or(0);
    let mut complete = status["complete"].as_bool().unwrap_or(false);
    let (mut hits, mut bytes) = (Vec::new(), 0);
    while (hits.len() as u64) < total {
        let piece = call(&[id.clone(), json!(hits.len()), json!(PIECE)])?;
        let piece: Option<Vec<Hit>> =
            piece.as_array().and_then(|all| all.iter().map(hit_from_value).collect());
        let piece = piece.filter(|piece| !piece.is_empty());
        let piece = piece.context("an answer without the hits").map_err(CallError::Lost)?;
        bytes += piece.iter().map(Hit::memory).sum::<u64>();
        hits.extend(piece);
        if hits.len() as u64 > most || bytes > most_bytes {
            hits.truncate(most as usize);
            complete = false;
            break;
        }
    }
    Ok((hits, complete))
}

/// Searches through a service and waits for the hits: `motif search --via`.
pub fn search_via(
    client: &RpcClient,
    request: &Value,
    mut show: impl FnMut(&Value),
) -> Result<(Vec<Hit>, bool)> {
    let call =
        |method: &str, parameters: &[Value]| client.call(method, parameters).map_err(CallError::into_error);
    let id = call("motif.search", std::slice::from_ref(request))?;
    let status = loop {
        let status = call("motif.status", std::slice::from_ref(&id))?;
        show(&status);
        match status["state"].as_str().unwrap_or("") {
            "waiting" | "running" => thread::sleep(Duration::from_millis(50)),
            "finished" => break status,
            state => bail!("the search has {state}: {}", status["message"].as_str().unwrap_or("")),
        }
    };
    let fetched =
        fetch_hits(&id, &status, u64::MAX, u64::MAX, |parameters| client.call("motif.hits", parameters));
    fetched.map_err(CallError::into_error)
}
