//! Checkpoints.

use std::sync::Arc;
use std::time::Duration;

use aqueduct::checkpoint::{ArrayBlock, Checkpoint, Generation, Interval, PartSummary, Retention, Store};
use aqueduct::object::Schema;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::comm::RankComm;
use crate::datatype::TypeTree;
use crate::handle::PythonHandle;
use crate::memory::{ItemRuns, Memory};

/// A folder of checkpoints.
#[pyclass(frozen, module = "aqueduct_io._native")]
pub(crate) struct RawStore {
    store: PythonHandle<Store>,
}

/// A part of a checkpoint: name, kind (`array`, `objects`, `value`), type, memory, stored bytes of an element, shape, start, and why it cannot be
/// stored, if it cannot.
type PartTuple<'py> = (
    String,
    String,
    Bound<'py, PyAny>,
    Bound<'py, PyAny>,
    ItemRuns,
    Vec<u64>,
    Vec<u64>,
    Vec<u64>,
    Option<String>,
);

/// A part with its memory, or why it cannot be stored.
struct ParsedPart {
    name: String,
    content: Result<PartContent, String>,
}

struct PartContent {
    kind: String,
    schema: Arc<Schema>,
    memory: Memory,
    block: ArrayBlock,
}

impl ParsedPart {
    fn parse(part: &Bound<'_, PyAny>) -> PyResult<Self> {
        let (name, kind, tree, array, item, shape, start, count, problem): PartTuple<'_> = part.extract()?;
        let content = match problem {
            Some(problem) => Err(problem),
            None => Self::content(kind, &tree, &array, item, ArrayBlock::new(shape, start, count)),
        };
        Ok(Self { name, content })
    }

    fn content(
        kind: String,
        tree: &Bound<'_, PyAny>,
        array: &Bound<'_, PyAny>,
        item: ItemRuns,
        block: ArrayBlock,
    ) -> Result<PartContent, String> {
        let text = |error: PyErr| error.to_string();
        // Text is a type of its own: ("text",).
        let schema = match tree.extract::<TypeTree>() {
            Ok(tree) => tree.schema()?,
            Err(_) => Schema::new(aqueduct::object::schema::Type::Text),
        };
        Ok(PartContent {
            kind,
            schema: Arc::new(schema),
            memory: Memory::of(array, item).map_err(text)?,
            block,
        })
    }

    fn add<'a>(&'a self, checkpoint: &mut Checkpoint<'a>) {
        match &self.content {
            Ok(PartContent { kind, schema, memory, block }) => match &**kind {
                "array" => {
                    checkpoint.array_bytes(&self.name, block, schema, memory.bytes(), memory.layout());
                }
                "objects" => {
                    checkpoint.objects_bytes(&self.name, schema, memory.bytes(), memory.layout());
                }
                _ => match memory.gathered() {
                    Ok(bytes) => {
                        checkpoint.value_bytes(&self.name, schema, &bytes);
                    }
                    Err(error) => {
                        checkpoint.invalid(&self.name, error.to_string());
                    }
                },
            },
            Err(problem) => {
                checkpoint.invalid(&self.name, problem);
            }
        }
    }
}

#[pymethods]
impl RawStore {
    /// Opens a folder, and creates it if it is to be written. `keep` is the number of generations that are kept, 0 for all. Collective.
    #[staticmethod]
    fn open(
        py: Python<'_>,
        comm: &RankComm,
        folder: &str,
        create: bool,
        keep: usize,
        device: Option<String>,
    ) -> PyResult<Self> {
        let open = || {
            let store = if create {
                Store::open_or_create(&comm.inner, folder)?
            } else {
                Store::open(&comm.inner, folder)?
            };
            let store = store.retention(if keep == 0 { Retention::All } else { Retention::Last(keep) });
            Ok(match device {
                Some(device) => store.with_device(device),
                None => store,
            })
        };
        Ok(Self { store: PythonHandle::open(py, folder, open)? })
    }

    /// Commits a checkpoint, which is durable then; its generation. Collective.
    fn write(&self, py: Python<'_>, step: u64, parts: &Bound<'_, PyAny>) -> PyResult<u64> {
        let parts = parse_parts(parts)?;
        self.store.with(py, "save", |store| {
            let mut checkpoint = Checkpoint::new(step);
            parts.iter().for_each(|part| part.add(&mut checkpoint));
            store.write(&checkpoint)
        })
    }

    /// Copies a checkpoint and commits it in the background. Collective.
    fn start(&self, py: Python<'_>, step: u64, parts: &Bound<'_, PyAny>) -> PyResult<()> {
        let parts = parse_parts(parts)?;
        self.store.with(py, "save", |store| {
            let mut checkpoint = Checkpoint::new(step);
            parts.iter().for_each(|part| part.add(&mut checkpoint));
            store.start(checkpoint)
        })
    }

    /// Waits for the checkpoint in the background; its generation, if there was one. Collective.
    fn wait(&self, py: Python<'_>) -> PyResult<Option<u64>> {
        self.store.with(py, "wait", Store::wait)
    }

    /// Whether a checkpoint is being written.
    fn is_busy(&self, py: Python<'_>) -> PyResult<bool> {
        self.store.with(py, "is_busy", |store| Ok(store.is_busy()))
    }

    /// The numbers of all generations. Collective.
    fn generations(&self, py: Python<'_>) -> PyResult<Vec<u64>> {
        self.store.with(py, "generations", |store| store.generations())
    }

    /// A generation. Collective.
    fn generation(&self, py: Python<'_>, number: u64) -> PyResult<RawGeneration> {
        let found = self.store.with(py, "generation", |store| store.generation(number))?;
        Ok(RawGeneration { generation: PythonHandle::open(py, self.store.name(), || Ok(found))? })
    }

    /// The newest complete generation, if there is one. Collective.
    fn latest(&self, py: Python<'_>) -> PyResult<Option<RawGeneration>> {
        let found = self.store.with(py, "latest", |store| store.latest())?;
        let open = |found| PythonHandle::open(py, self.store.name(), || Ok(found));
        Ok(found.map(open).transpose()?.map(|generation| RawGeneration { generation }))
    }

    /// Problems that did not make a checkpoint fail.
    fn warnings(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        self.store.with(py, "warnings", |store| Ok(store.take_warnings()))
    }

    /// Waits and closes it. Collective.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.store.end(py, |mut store| store.wait().map(drop)).map(drop)
    }

    /// Whether it was closed.
    fn is_closed(&self, py: Python<'_>) -> bool {
        self.store.is_closed(py)
    }
}

/// A committed checkpoint.
#[pyclass(frozen, module = "aqueduct_io._native")]
pub(crate) struct RawGeneration {
    generation: PythonHandle<Generation>,
}

/// A part: name, kind, signature, shape, number of objects, bytes, encoded value.
type SummaryTuple<'py> = (String, String, String, Vec<u64>, Option<u64>, u64, Option<Bound<'py, PyBytes>>);

#[pymethods]
impl RawGeneration {
    /// Its number, step, ranks and time.
    fn about(&self, py: Python<'_>) -> PyResult<(u64, u64, u64, u64)> {
        self.generation.with(py, "about", |one| Ok((one.number(), one.step(), one.ranks(), one.time())))
    }

    /// Its parts.
    fn parts<'py>(&self, py: Python<'py>) -> PyResult<Vec<SummaryTuple<'py>>> {
        let all = self.generation.with(py, "parts", |one| Ok(one.summaries().collect::<Vec<_>>()))?;
        let tuple = |part: PartSummary| {
            let value = part.value.map(|value| PyBytes::new(py, &value));
            (part.name, part.kind, part.signature, part.shape, part.count, part.bytes, value)
        };
        Ok(all.into_iter().map(tuple).collect())
    }

    /// The bytes of a block of an array. Collective.
    fn array<'py>(
        &self,
        py: Python<'py>,
        name: &str,
        shape: Vec<u64>,
        start: Vec<u64>,
        count: Vec<u64>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let block = ArrayBlock::new(shape, start, count);
        let bytes = self.generation.with(py, "read", |one| one.array_bytes(name, &block))?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// The bytes of this rank's share of a list of objects. Collective.
    fn objects<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = self.generation.with(py, "read", |one| one.objects_bytes(name))?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// Compares all parts with their checksums. Collective.
    fn verify(&self, py: Python<'_>) -> PyResult<()> {
        self.generation.with(py, "verify", |one| one.verify())
    }
}

fn parse_parts(parts: &Bound<'_, PyAny>) -> PyResult<Vec<ParsedPart>> {
    parts.try_iter()?.map(|part| ParsedPart::parse(&part?)).collect()
}

/// The best time between checkpoints in seconds (Daly), for these costs and this mean time between failures, all in seconds.
#[pyfunction]
pub(crate) fn best_interval(between_failures: f64, costs: Vec<f64>) -> f64 {
    let seconds = |seconds: f64| Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(Duration::MAX);
    let mut interval = Interval::new(seconds(between_failures));
    costs.into_iter().for_each(|cost| interval.cost(seconds(cost)));
    interval.best().as_secs_f64()
}
