//! Output of streams.

use std::sync::Arc;

use aqueduct::comm::Comm;
use aqueduct::file::hyperslab::Hyperslab;
use aqueduct::object::{decode, encode};
use aqueduct::stream::target::{Hdf5Target, NetcdfTarget, OutputTarget};
use aqueduct::stream::{
    Declaration, Options, Output, OutputMode, OutputReport, OutputStep, Reduction, ResumeState, Stream,
    StreamKindKey, Streams,
};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::comm::RankComm;
use crate::datatype::TypeTree;
use crate::error::{bad_argument, parse_problem, refused};
use crate::handle::PythonHandle;
use crate::memory::Memory;

/// An output that is being written.
#[pyclass(frozen, module = "aqueduct_io._native")]
pub(crate) struct RawOutput {
    output: PythonHandle<(Output, Vec<StreamKindKey>)>,
}

/// A declaration, as the package passes it.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct StreamSpec {
    name: String,
    kind: TypeTree,
    shape: Vec<u64>,
    list: bool,
    block: Option<(Vec<u64>, Vec<u64>)>,
    boxes: Option<Vec<(Vec<u64>, Vec<u64>)>>,
    points: Option<Vec<(u64, u64)>>,
    reduce: String,
    every: Option<u64>,
    from_step: u64,
    stored_as: Option<TypeTree>,
    attributes: Vec<(String, String)>,
    deflate: Option<u32>,
    chunk: Option<Vec<u64>>,
}

/// Options, as the package passes them.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct OutputSpec {
    format: String,
    mode: String,
    memory: Option<u64>,
    buffers: Option<usize>,
    durable_every: Option<u64>,
    steps: Option<u64>,
    replace: bool,
    spill: Option<(String, u64)>,
    group: Option<usize>,
    free_cores: bool,
}

impl StreamSpec {
    fn declare(self, streams: &mut Streams) -> PyResult<StreamKindKey> {
        let kind = self.kind.kind();
        let kind = kind.ok_or_else(|| {
            PyTypeError::new_err(format!(
                "stream {:?}: streams have no kind of values for this dtype",
                self.name
            ))
        })?;
        let mut stream = if self.list {
            Stream::list(&self.name, self.shape.first().copied().unwrap_or(1))
        } else {
            Stream::array(&self.name, self.shape)
        };
        if let Some((start, shape)) = self.block {
            stream = stream.block(start, shape);
        }
        if let Some(boxes) = self.boxes {
            stream = stream.cuboids(boxes.into_iter().map(|(start, shape)| Hyperslab::new(start, shape)));
        }
        if let Some(points) = self.points {
            stream = stream.listed_points(points);
        }
        stream = stream.from(self.from_step).reduce(match &*self.reduce {
            "none" => Reduction::None,
            "max" => Reduction::Max,
            "min" => Reduction::Min,
            "sum" => Reduction::Sum,
            "mean" => Reduction::Mean,
            "rms" => Reduction::Rms,
            "last" => Reduction::Last,
            other => {
                let detail =
                    format!("there is no reduction {other:?}; there are max, min, sum, mean, rms, last");
                return Err(PyValueError::new_err(detail));
            }
        });
        if let Some(steps) = self.every {
            stream = stream.every(steps);
        }
        if let Some(stored) = self.stored_as.and_then(|tree| tree.kind()) {
            stream = stream.stored_as_kind(stored);
        }
        for (name, text) in self.attributes {
            stream = stream.attribute(name, text);
        }
        if let Some(level) = self.deflate {
            stream = stream.deflate(level);
        }
        if let Some(chunk) = self.chunk {
            stream = stream.chunk(chunk);
        }
        Ok(streams.add_kind(stream, kind))
    }
}

impl OutputSpec {
    fn options(&self) -> PyResult<Options> {
        let mut options = Options::new().mode(match &*self.mode {
            "auto" => OutputMode::Auto,
            "blocking" => OutputMode::Blocking,
            "thread" => OutputMode::Thread,
            "leaders" => OutputMode::Leaders,
            other => {
                let detail = format!("there is no mode {other:?}; there are auto, blocking, thread, leaders");
                return Err(PyValueError::new_err(detail));
            }
        });
        if let Some(memory) = self.memory {
            options = options.memory(memory);
        }
        if let Some(buffers) = self.buffers {
            options = options.buffers(buffers);
        }
        if let Some(steps) = self.durable_every {
            options = options.durable_every(steps);
        }
        if let Some(steps) = self.steps {
            options = options.steps(steps);
        }
        if self.replace {
            options = options.replace();
        }
        if let Some((folder, bytes)) = &self.spill {
            options = options.spill(folder, *bytes);
        }
        if let Some(ranks) = self.group {
            options = options.group(ranks);
        }
        Ok(if self.free_cores { options.free_cores() } else { options })
    }
}

/// An array of a step: the number of its stream, the array, and why it cannot be written, if it cannot.
type PutTuple<'py> = (usize, Bound<'py, PyAny>, Option<String>);

#[pymethods]
impl RawOutput {
    /// Creates an output, or continues one from the states of a checkpoint. Collective.
    #[staticmethod]
    #[pyo3(signature = (comm, name, streams, options, states = None, problem = None))]
    fn create(
        py: Python<'_>,
        comm: &RankComm,
        name: &str,
        streams: &Bound<'_, PyAny>,
        options: &Bound<'_, PyAny>,
        states: Option<Vec<Vec<u8>>>,
        problem: Option<String>,
    ) -> PyResult<Self> {
        let parsed = refused("create", name, problem).and_then(|()| {
            let parse = || -> PyResult<_> {
                let mut declared = Streams::new();
                let specs = streams.try_iter()?.map(|spec| spec?.extract::<StreamSpec>());
                let specs = specs.collect::<PyResult<Vec<_>>>()?;
                let keys = specs.into_iter().map(|spec| spec.declare(&mut declared));
                let keys = keys.collect::<PyResult<Vec<_>>>()?;
                let spec: OutputSpec = options.extract()?;
                Ok((declared, keys, spec.options()?, spec.format))
            };
            parse().map_err(|error| bad_argument("create", name, error.value(py).to_string()))
        });
        let open = || {
            let comm = &comm.inner;
            let (declared, keys, options, format) =
                aqueduct::comm::agreement::agree(comm, "create", name, parsed)?;
            let states: Option<aqueduct::Result<Vec<ResumeState>>> = states.map(|states| {
                let damaged = |_| bad_argument("resume", name, "the state of an output is damaged");
                states.iter().map(|state| decode(state).map_err(damaged)).collect()
            });
            let states = aqueduct::comm::agreement::agree(comm, "create", name, states.transpose())?;
            let output = match (&*format, states) {
                ("stream", None) => options.create(comm, name, &declared)?,
                ("stream", Some(states)) => options.resume(comm, name, &declared, &states)?,
                (format, states) => {
                    let is_netcdf = format == "netcdf";
                    let target = |comm: &Comm, declared: &Arc<Declaration>| {
                        let target: Box<dyn OutputTarget> = if is_netcdf {
                            Box::new(NetcdfTarget::create(comm, name, declared)?)
                        } else {
                            Box::new(Hdf5Target::create(comm, name, declared)?)
                        };
                        Ok(target)
                    };
                    match states {
                        None => options.create_on(comm, name, &declared, target)?,
                        Some(states) => options.resume_on(comm, name, &declared, &states, target)?,
                    }
                }
            };
            Ok((output, keys))
        };
        Ok(Self { output: PythonHandle::open(py, name, open)? })
    }

    /// Writes a step; its number. Collective.
    #[pyo3(signature = (puts, problem = None))]
    fn step(&self, py: Python<'_>, puts: Vec<PutTuple<'_>>, problem: Option<String>) -> PyResult<u64> {
        let memories: Vec<(usize, Result<Memory, String>)> = puts
            .iter()
            .map(|(stream, array, problem)| {
                let memory = match problem {
                    Some(problem) => Err(problem.clone()),
                    None => Memory::of(array, None).map_err(|error| error.to_string()),
                };
                (*stream, memory)
            })
            .collect();
        self.output.with(py, "step", |(output, keys)| {
            let mut step = output.step()?;
            if let Some(problem) = &problem {
                step = fail(step, problem);
            }
            for (stream, memory) in &memories {
                step = match (memory, keys.get(*stream)) {
                    (Ok(memory), Some(key)) => step.put_bytes(*key, memory.bytes(), memory.layout()),
                    (Err(problem), _) => fail(step, problem),
                    (_, None) => fail(step, "there is no such stream; it belongs to another output"),
                };
            }
            step.commit().map(|receipt| receipt.step())
        })
    }

    /// Waits until all steps are durable. Collective.
    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        self.output.with(py, "flush", |(output, _)| output.flush())
    }

    /// The number of steps that are accepted, visible, durable.
    fn progress(&self, py: Python<'_>) -> PyResult<(u64, u64, u64)> {
        self.output.with(py, "progress", |(output, _)| {
            let progress = output.progress();
            Ok((progress.accepted, progress.visible, progress.durable))
        })
    }

    /// The mode, and the reason for it.
    fn mode(&self, py: Python<'_>) -> PyResult<(String, String)> {
        self.output.with(py, "mode", |(output, _)| {
            let (mode, reason) = output.mode();
            Ok((format!("{mode:?}").to_lowercase(), reason.to_owned()))
        })
    }

    /// The state for a checkpoint.
    fn state<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let state = self.output.with(py, "state", |(output, _)| Ok(encode(&output.state()?)))?;
        Ok(PyBytes::new(py, &state))
    }

    /// Ends the output; what it has done, nothing if it was ended before. Collective.
    fn finish<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let report = self.output.end(py, |(output, _)| output.finish())?;
        report.map(|report| report_dict(py, &report)).transpose()
    }

    /// Ends it without storing reductions: the program failed.
    fn abandon(&self, py: Python<'_>) -> PyResult<()> {
        self.output.end(py, |output| {
            drop(output);
            Ok(())
        })?;
        Ok(())
    }

    /// Whether it was ended.
    fn is_closed(&self, py: Python<'_>) -> bool {
        self.output.is_closed(py)
    }
}

/// Makes a step fail with what the package says of an argument.
fn fail<'o, 'd>(step: OutputStep<'o, 'd>, problem: &str) -> OutputStep<'o, 'd> {
    let (kind, detail) = parse_problem(problem);
    step.fail(kind, detail)
}

fn report_dict<'py>(py: Python<'py>, report: &OutputReport) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("mode", format!("{:?}", report.mode).to_lowercase())?;
    dict.set_item("reason", &report.reason)?;
    dict.set_item("steps", report.steps)?;
    dict.set_item("bytes", report.bytes)?;
    dict.set_item("memory_peak", report.memory_peak)?;
    dict.set_item("memory_cap", report.memory_cap)?;
    dict.set_item("reduction_memory", report.reduction_memory)?;
    dict.set_item("spilled", report.spilled)?;
    dict.set_item("computing", report.computing.as_secs_f64())?;
    dict.set_item("in_commit", report.in_commit.as_secs_f64())?;
    dict.set_item("writing", report.writing.as_secs_f64())?;
    Ok(dict)
}
