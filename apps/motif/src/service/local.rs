//! Execution of searches on the ranks of a server.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use aqueduct::comm::Comm;
use serde_json::{Value, json};

use super::api::DatabaseList;
use super::search_request::SearchRequest;
use super::search_store::{SearchJob, SearchStore};
use crate::hit::Hit;
use crate::input::database::DatabaseFile;
use crate::query::ResidueKind;
use crate::search::sequence_count::{SequenceCount, count_sequences};
use crate::search::{SearchProgress, SearchSettings, search};

/// The most lengths of one answer.
const MOST_LENGTHS_PER_CALL: usize = 10_000;

/// The files of a server, with the kinds and the numbers of their sequences.
#[derive(Clone, Debug)]
pub struct ServedFiles {
    list: Vec<Value>,
    /// For each file its name and the lengths of its sequences.
    lengths: Vec<(String, Vec<u64>)>,
}

impl ServedFiles {
    /// Reads the files once. Collective; rank 0 gets the list.
    pub fn inspect(world: &Comm, files: &[DatabaseFile]) -> Result<Self> {
        let kinds = DatabaseFile::guess_kinds(world, files)?;
        let counts = count_sequences(world, files)?;
        let entry = |((file, kind), count): ((&DatabaseFile, &Option<ResidueKind>), &SequenceCount)| {
            json!({
                "name": file.name, "bytes": file.length, "sequences": count.sequences,
                "residues": count.residues, "kind": kind.map_or("unknown", ResidueKind::name),
            })
        };
        let list = files.iter().zip(&kinds).zip(&counts).map(entry).collect();
        let names = files.iter().map(|file| file.name.clone());
        let lengths = names.zip(counts.into_iter().map(|count| count.lengths)).collect();
        Ok(Self { list, lengths })
    }
}

impl DatabaseList for ServedFiles {
    fn list(&self) -> Result<Value> {
        Ok(Value::Array(self.list.clone()))
    }

    fn lengths(&self, database: &str, sequences: &[u64]) -> Result<Value> {
        ensure!(
            sequences.len() <= MOST_LENGTHS_PER_CALL,
            "at most {MOST_LENGTHS_PER_CALL} sequences at once"
        );
        let found = self.lengths.iter().find(|(name, _)| name == database);
        let lengths = &found.with_context(|| format!("there is no database {database}"))?.1;
        let length = |number: &u64| {
            let known = usize::try_from(*number).ok().and_then(|number| lengths.get(number));
            known.map_or(json!(-1), |length| json!(length))
        };
        Ok(sequences.iter().map(length).collect())
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
        let text = job.as_ref().map_or(Vec::new(), |job| job.request.to_value().to_string().into_bytes());
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
    let mut limits = [settings.most, settings.most_bytes];
    if let Some((_, store)) = job {
        limits = [limits[0].min(store.limits().hits_per_search), store.limits().memory_per_search];
    }
    world.broadcast(0, &mut limits)?;
    [settings.most, settings.most_bytes] = limits;
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
    let (request, _) = SearchRequest::from_value(request, |_| Ok(ResidueKind::Dna))?;
    let settings = request.settings()?;
    let names = &request.databases;
    let unknown = names.iter().find(|name| !files.iter().any(|file| file.name == **name));
    ensure!(unknown.is_none(), "there is no database {}", unknown.map_or("", String::as_str));
    let chosen = files.iter().filter(|file| names.is_empty() || names.contains(&file.name));
    Ok((settings, chosen.cloned().collect()))
}
