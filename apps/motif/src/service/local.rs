//! Execution of searches on the ranks of a server.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use aqueduct::comm::Comm;
use serde_json::{Value, json};

use super::api::DatabaseList;
use super::search_store::{SearchJob, SearchStore};
use crate::hit::{Hit, Regions};
use crate::input::database::DatabaseFile;
use crate::query::{Query, ResidueKind};
use crate::search::{SearchProgress, SearchSettings, search};

/// The files of a server.
#[derive(Clone, Debug)]
pub struct ServedFiles(Vec<Value>);

impl ServedFiles {
    /// The list of these files.
    pub fn new(files: &[DatabaseFile], kind: ResidueKind) -> Self {
        let entry =
            |file: &DatabaseFile| json!({"name": file.name, "bytes": file.length, "kind": kind.name()});
        Self(files.iter().map(entry).collect())
    }
}

impl DatabaseList for ServedFiles {
    fn list(&self) -> Result<Value> {
        Ok(Value::Array(self.0.clone()))
    }
}

/// Executes searches until the process ends. Collective: rank 0 has the store, the others wait for its jobs.
pub fn execute(world: &Comm, files: &[DatabaseFile], store: Option<&Arc<SearchStore>>) -> Result<()> {
    loop {
        let job = store.map(|store| {
            loop {
                if let Some(job) = store.next_job(Duration::from_secs(1)) {
                    break job;
                }
            }
        });
        let text = job.as_ref().map_or(Vec::new(), |job| job.request.to_string().into_bytes());
        let text = world.broadcast_vec(0, text)?;
        let request: Value = serde_json::from_slice(&text).context("the request of rank 0")?;
        let cancel = job.as_ref().map_or_else(Arc::default, |job| Arc::clone(&job.cancel));
        let outcome = execute_one(world, files, &request, &cancel, job.as_ref().zip(store));
        if let (Some(store), Some(job)) = (store, job) {
            store.finish(job.id, outcome);
        }
    }
}

fn execute_one(
    world: &Comm,
    files: &[DatabaseFile],
    request: &Value,
    cancel: &Arc<AtomicBool>,
    job: Option<(&SearchJob, &Arc<SearchStore>)>,
) -> Result<(Vec<Hit>, bool)> {
    let (mut settings, chosen) = settings(files, request)?;
    settings.cancel = Some(Arc::clone(cancel));
    if let Some((_, store)) = job {
        settings.most = settings.most.min(store.limits().hits_per_search);
    }
    let mut most = [settings.most];
    world.broadcast(0, &mut most)?;
    settings.most = most[0];
    let over = AtomicBool::new(false);
    let late = AtomicBool::new(false);
    let outcome = thread::scope(|scope| {
        if let Some((_, store)) = job {
            let (over, late, time) = (&over, &late, store.limits().time);
            scope.spawn(move || {
                let start = Instant::now();
                while !over.load(Ordering::Relaxed) {
                    if start.elapsed() > time {
                        late.store(true, Ordering::Relaxed);
                        cancel.store(true, Ordering::Relaxed);
                    }
                    thread::park_timeout(Duration::from_millis(20));
                }
            });
        }
        let show = |progress: SearchProgress| {
            if let Some((job, store)) = job {
                let done = progress.done as f64 / progress.total.max(1) as f64;
                store.report(job.id, done.min(1.0), progress.hits, "");
            }
        };
        let outcome = search(world, &chosen, &settings, Some(&show));
        over.store(true, Ordering::Relaxed);
        outcome
    });
    ensure!(!late.load(Ordering::Relaxed), "the search took longer than the service allows; narrow it");
    outcome.map(|outcome| (outcome.hits, outcome.complete))
}

/// The settings of a request, the same on all ranks.
fn settings(files: &[DatabaseFile], request: &Value) -> Result<(SearchSettings, Vec<DatabaseFile>)> {
    let kind =
        ResidueKind::from_name(request["kind"].as_str().unwrap_or("dna")).context("an unknown `kind`")?;
    let query = Query::parse(request["query"].as_str().context("`query` is missing")?, kind)?;
    let mut settings = SearchSettings::new(query);
    settings.both_strands = request["strands"].as_str() == Some("both");
    settings.every = request["every"].as_bool().unwrap_or(false);
    settings.most = request["most"].as_u64().unwrap_or(10_000);
    settings.longest = request["longest"].as_u64().map(|longest| longest.clamp(1, 1 << 20) as usize);
    if let Some(regions) = request["regions"].as_array() {
        let span = |region: &Value| {
            Some((
                region[0].as_str()?.to_owned(),
                region[1].as_u64()?,
                region[2].as_u64()?,
                region[3].as_u64()?,
            ))
        };
        let around = request["around"].as_u64().unwrap_or(0);
        settings.within = Some(Arc::new(Regions::of_spans(regions.iter().filter_map(span), around)));
    }
    let names: Vec<&str> =
        request["databases"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let unknown = names.iter().find(|name| !files.iter().any(|file| file.name == **name));
    ensure!(unknown.is_none(), "there is no database {}", unknown.unwrap_or(&""));
    let chosen = files.iter().filter(|file| names.is_empty() || names.contains(&file.name.as_str()));
    Ok((settings, chosen.cloned().collect()))
}
