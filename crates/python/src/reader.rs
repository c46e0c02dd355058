//! Reading of stream files, also while they are written.

use std::time::Duration;

use aqueduct::file::hyperslab::Hyperslab;
use aqueduct::stream::{Reader, StoredStep, StreamRegion};
use pyo3::prelude::*;

use crate::comm::RankComm;
use crate::datatype::name_of;
use crate::error::bad_argument;
use crate::handle::PythonHandle;
use crate::memory::Memory;

/// A stream file that is open for reading.
#[pyclass(frozen, module = "aqueduct_io._native")]
pub(crate) struct RawReader {
    reader: PythonHandle<Reader>,
}

/// A part of an array: its start and shape.
type SlabTuple = (Vec<u64>, Vec<u64>);

/// A stream: name, type, shape, region (`whole`, `boxes`, `points`, `list`), boxes, reduction, period, first step, attributes, whether it has objects.
type StreamTuple = (
    String,
    &'static str,
    Vec<u64>,
    &'static str,
    Vec<SlabTuple>,
    String,
    Option<u64>,
    u64,
    Vec<(String, String)>,
    bool,
);

#[pymethods]
impl RawReader {
    /// Opens a file. Collective.
    #[staticmethod]
    fn open(py: Python<'_>, comm: &RankComm, name: &str, checked: bool) -> PyResult<Self> {
        let open = || {
            let reader = Reader::open(&comm.inner, name)?;
            Ok(if checked { reader } else { reader.unchecked() })
        };
        Ok(Self { reader: PythonHandle::open(py, name, open)? })
    }

    /// The streams.
    fn streams(&self, py: Python<'_>) -> PyResult<Vec<StreamTuple>> {
        self.reader.with(py, "streams", |reader| {
            let streams = reader.streams().iter().map(|about| {
                let region = match about.region {
                    StreamRegion::Whole => "whole",
                    StreamRegion::Cuboids(_) => "boxes",
                    StreamRegion::Points(_) => "points",
                    StreamRegion::List => "list",
                };
                let boxes = about.boxes().into_iter().map(|one| (one.start, one.count)).collect();
                let reduction = format!("{:?}", about.reduction).to_lowercase();
                let attributes = about.storage.attributes.iter().map(|(name, value)| {
                    let text = match value {
                        aqueduct::stream::StreamAttribute::Text(text)
                        | aqueduct::stream::StreamAttribute::FixedText(text) => text.clone(),
                        other => format!("{other:?}"),
                    };
                    (name.clone(), text)
                });
                (
                    about.name.clone(),
                    name_of(about.stored()),
                    about.shape.clone(),
                    region,
                    boxes,
                    reduction,
                    about.every,
                    about.from,
                    attributes.collect(),
                    about.object.is_some(),
                )
            });
            Ok(streams.collect())
        })
    }

    /// The complete steps: the number of each, and whether it has the reductions of the end.
    fn steps(&self, py: Python<'_>) -> PyResult<Vec<(u64, bool)>> {
        self.reader.with(py, "steps", |reader| {
            Ok(reader.stored_steps().iter().map(|stored| (stored.step, stored.is_closing)).collect())
        })
    }

    /// The number of items of a stream in the stored step of this index; none if it is not stored in it.
    fn items(&self, py: Python<'_>, stream: &str, index: usize) -> PyResult<Option<u64>> {
        self.reader.with(py, "items", |reader| reader.items(stream, &stored(reader, index)?))
    }

    /// The indices of the stored steps that have a stream.
    fn steps_of(&self, py: Python<'_>, stream: &str) -> PyResult<Vec<usize>> {
        self.reader.with(py, "steps", |reader| {
            let mut having = Vec::new();
            for (index, stored) in reader.stored_steps().iter().enumerate() {
                if reader.samples(stream, stored)?.is_some() {
                    having.push(index);
                }
            }
            Ok(having)
        })
    }

    /// The points of a stream, by their numbers in the array.
    fn points(&self, py: Python<'_>, stream: &str) -> PyResult<Vec<u64>> {
        self.reader.with(py, "points", |reader| Ok(reader.points(stream)?.to_vec()))
    }

    /// Fills an array with all values of a stream in a stored step, or with a part of one of its boxes.
    #[pyo3(signature = (stream, index, array, number, part))]
    fn read(
        &self,
        py: Python<'_>,
        stream: &str,
        index: usize,
        array: &Bound<'_, PyAny>,
        number: usize,
        part: Option<SlabTuple>,
    ) -> PyResult<()> {
        let mut memory = Memory::of(array, None)?;
        self.reader.with(py, "read", |reader| {
            let bytes = memory.filled();
            let bytes = bytes.map_err(|error| bad_argument("read", "stream", error.to_string()))?;
            let stored = stored(reader, index)?;
            match part {
                None => reader.read_bytes_into(stream, &stored, bytes),
                Some((start, shape)) => {
                    let part = Hyperslab::new(start, shape);
                    reader.read_part_bytes_into(stream, &stored, (number, &part), bytes)
                }
            }
        })
    }

    /// Looks for new complete steps; their number. Collective.
    fn refresh(&self, py: Python<'_>) -> PyResult<u64> {
        self.reader.with(py, "refresh", Reader::refresh)
    }

    /// Waits for new complete steps, at most so many seconds; their number. Collective.
    fn wait(&self, py: Python<'_>, seconds: f64) -> PyResult<u64> {
        let limit = Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(Duration::MAX);
        self.reader.with(py, "wait", |reader| reader.wait(limit))
    }

    /// Whether the program has ended the output.
    fn is_finished(&self, py: Python<'_>) -> PyResult<bool> {
        self.reader.with(py, "is_finished", |reader| Ok(reader.is_finished()))
    }

    /// The number of incomplete batches, and of those among them that were durable: they are damaged.
    fn incomplete(&self, py: Python<'_>) -> PyResult<(usize, usize)> {
        self.reader.with(py, "incomplete", |reader| {
            let all = reader.incomplete_steps();
            Ok((all.len(), all.iter().filter(|lost| lost.was_durable).count()))
        })
    }

    /// Compares everything with its checksums; the damaged steps.
    fn verify(&self, py: Python<'_>) -> PyResult<Vec<u64>> {
        self.reader
            .with(py, "verify", |reader| Ok(reader.verify()?.into_iter().map(|stored| stored.step).collect()))
    }

    /// Closes it.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.reader.end(py, |reader| {
            drop(reader);
            Ok(())
        })?;
        Ok(())
    }

    /// Whether it was closed.
    fn is_closed(&self, py: Python<'_>) -> bool {
        self.reader.is_closed(py)
    }
}

fn stored(reader: &Reader, index: usize) -> aqueduct::Result<StoredStep> {
    reader.stored_steps().get(index).cloned().ok_or_else(|| {
        let count = reader.stored_steps().len();
        bad_argument("read", "stream", format!("there is no stored step {index} among {count}"))
    })
}
