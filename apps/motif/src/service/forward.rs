//! Execution of searches by a server elsewhere. A search whose server dies is submitted again.

use std::sync::Arc;
use std::sync::atomic::Ordering;
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

/// The databases of a server.
#[derive(Debug)]
pub struct RemoteFiles(pub RpcClient);

impl DatabaseList for RemoteFiles {
    fn list(&self) -> Result<Value> {
        self.0.call("motif.databases", &[]).map_err(CallError::into_error)
    }
}

/// Passes searches on until the process ends. A server that is not reached for `patience` makes a search fail.
pub fn execute(client: &RpcClient, store: &Arc<SearchStore>, patience: Duration) {
    loop {
        if let Some(job) = store.next_job(Duration::from_secs(1)) {
            let outcome = execute_one(client, store, &job, patience);
            store.finish(job.id, outcome);
        }
    }
}

fn execute_one(
    client: &RpcClient,
    store: &SearchStore,
    job: &SearchJob,
    patience: Duration,
) -> Result<(Vec<Hit>, bool)> {
    let mut request = job.request.clone();
    // The server gets the regions, not the number of a search that only the proxy has.
    if let Some(map) = request.as_object_mut() {
        map.remove("within");
    }
    let mut lost_since = None;
    loop {
        if job.cancel.load(Ordering::Relaxed) {
            return Ok((Vec::new(), false));
        }
        match attempt(client, store, job, &request) {
            Ok(outcome) => return Ok(outcome),
            Err(CallError::Fault(error)) => return Err(error),
            Err(CallError::Lost(error)) => {
                let since = *lost_since.get_or_insert_with(Instant::now);
                if since.elapsed() > patience {
                    return Err(error.context("the server is not available"));
                }
                store.report(
                    job.id,
                    0.0,
                    0,
                    &format!("the server is not available, trying again: {error:#}"),
                );
                thread::sleep(Duration::from_millis(200));
            }
        }
    }
}

/// Executes a search on the server. A search that the server does not know any more is lost: it has restarted.
fn attempt(
    client: &RpcClient,
    store: &SearchStore,
    job: &SearchJob,
    request: &Value,
) -> Result<(Vec<Hit>, bool), CallError> {
    let id = client.call("motif.search", std::slice::from_ref(request))?;
    let lost = |error: CallError| CallError::Lost(error.into_error());
    let mut pause = Duration::from_millis(2);
    let complete = loop {
        let status = client.call("motif.status", std::slice::from_ref(&id)).map_err(lost)?;
        let (done, found) = (status["done"].as_f64().unwrap_or(0.0), status["hits"].as_u64().unwrap_or(0));
        match status["state"].as_str().unwrap_or("") {
            "finished" => break status["complete"].as_bool().unwrap_or(false),
            "failed" => {
                return Err(CallError::Fault(anyhow!("{}", status["message"].as_str().unwrap_or(""))));
            }
            "cancelled" => return Ok((Vec::new(), false)),
            _ => store.report(job.id, done, found, ""),
        }
        if job.cancel.load(Ordering::Relaxed) {
            client.call("motif.cancel", std::slice::from_ref(&id)).map_err(lost)?;
        }
        thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(100));
    };
    let mut hits = Vec::new();
    loop {
        let parameters = [id.clone(), json!(hits.len()), json!(PIECE)];
        let piece = client.call("motif.hits", &parameters).map_err(lost)?;
        let piece = piece.as_array().context("an answer without hits").map_err(CallError::Lost)?;
        hits.extend(piece.iter().filter_map(hit_from_value));
        if piece.len() < PIECE {
            break;
        }
    }
    // The server may have forgotten it already.
    let _ = client.call("motif.forget", &[id]);
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
    let mut hits: Vec<Hit> = Vec::new();
    loop {
        let piece = call("motif.hits", &[id.clone(), json!(hits.len()), json!(PIECE)])?;
        let piece = piece.as_array().context("an answer without hits")?;
        hits.extend(piece.iter().filter_map(hit_from_value));
        if piece.len() < PIECE {
            return Ok((hits, status["complete"].as_bool().unwrap_or(false)));
        }
    }
}
