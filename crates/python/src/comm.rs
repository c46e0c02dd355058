//! Communicators: of one rank, of an MPI communicator of the program, or of ranks that are threads.
//!
//! `unsafe` here: the package passes handles of communicators that are valid.
#![allow(unsafe_code)]

use aqueduct::comm::{Comm, HostComm, Launch};
use aqueduct::{Error, Kind};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::error::{exception, refused};

/// The ranks of a program.
#[pyclass(frozen, name = "Comm", module = "aqueduct_io")]
pub(crate) struct RankComm {
    pub(crate) inner: Comm,
}

#[pymethods]
impl RankComm {
    /// A communicator of this process alone.
    #[staticmethod]
    fn single() -> PyResult<Self> {
        Ok(Self { inner: Comm::single().map_err(comm_error)? })
    }

    /// The communicator of the processes of an MPI communicator, by its handle. Collective.
    #[staticmethod]
    fn of_mpi(py: Python<'_>, handle: usize) -> PyResult<Self> {
        // SAFETY: the package takes the handle from a communicator of mpi4py, which is valid.
        let made = py.detach(|| unsafe { HostComm::of(handle) });
        Ok(Self { inner: made.map_err(comm_error)?.comm().clone() })
    }

    /// The number of this rank, from 0.
    #[getter]
    fn rank(&self) -> usize {
        self.inner.rank()
    }

    /// The number of ranks.
    #[getter]
    fn size(&self) -> usize {
        self.inner.size()
    }

    /// Waits for all ranks. Collective.
    fn barrier(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.inner.barrier()).map_err(comm_error)
    }

    /// Another communicator of the same ranks. Collective.
    fn dup(&self, py: Python<'_>) -> PyResult<Self> {
        Ok(Self { inner: py.detach(|| self.inner.dup()).map_err(comm_error)? })
    }

    /// Splits the ranks by colour, ordered by key; a rank without a colour gets no communicator. Collective.
    #[pyo3(signature = (colour, key = 0))]
    fn split(&self, py: Python<'_>, colour: Option<u32>, key: i64) -> PyResult<Option<Self>> {
        let made = py.detach(|| self.inner.split(colour, key)).map_err(comm_error)?;
        Ok(made.map(|inner| Self { inner }))
    }

    /// The bytes of one rank on all ranks. Collective.
    #[pyo3(signature = (data, root = 0))]
    fn broadcast<'py>(&self, py: Python<'py>, data: Vec<u8>, root: usize) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = py.detach(|| self.inner.broadcast_vec(root, data)).map_err(comm_error)?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// The bytes of all ranks on each. Collective.
    fn allgather<'py>(&self, py: Python<'py>, data: Vec<u8>) -> PyResult<Vec<Bound<'py, PyBytes>>> {
        let all = py.detach(|| self.inner.allgather_varied(&data)).map_err(comm_error)?;
        Ok(all.iter().map(|bytes| PyBytes::new(py, bytes)).collect())
    }

    /// Fails on all ranks if any rank has a problem. Collective.
    #[pyo3(signature = (operation, name, problem = None))]
    fn agree(&self, py: Python<'_>, operation: &str, name: &str, problem: Option<String>) -> PyResult<()> {
        // Names of operations live as long as the program; there are few.
        let known = ["create", "open", "write", "read", "save", "define"];
        let operation = known.into_iter().find(|known| *known == operation).unwrap_or("call");
        let mine = refused(operation, name, problem);
        let agreed = py.detach(|| aqueduct::comm::agreement::agree(&self.inner, operation, name, mine));
        agreed.map_err(|error| exception(&error))
    }

    fn __repr__(&self) -> String {
        format!("<aqueduct_io.Comm rank {} of {}>", self.inner.rank(), self.inner.size())
    }
}

fn comm_error(error: aqueduct::comm::Error) -> PyErr {
    exception(&Error::from(error))
}

/// Runs `program(comm)` on every rank; the results of the ranks of this process. Under an MPI launcher this process is one rank, otherwise ranks
/// are threads. An exception of one rank ends the calls of the others, and is raised.
#[pyfunction]
#[pyo3(signature = (program, ranks = None))]
pub(crate) fn run(py: Python<'_>, program: Py<PyAny>, ranks: Option<usize>) -> PyResult<Vec<Py<PyAny>>> {
    let mut launch = Launch::from_env().map_err(|error| PyValueError::new_err(error.to_string()))?;
    if let Some(ranks) = ranks {
        launch = launch.ranks(ranks);
    }
    let outcome = py.detach(|| {
        launch.run(|comm| {
            let comm = RankComm { inner: comm.clone() };
            Python::attach(|py| program.call1(py, (comm,)))
        })
    });
    outcome.map_err(|error| {
        let rank = error.rank();
        let error = Error::from(error);
        let raised = exception(&error);
        if let Some(rank) = rank.filter(|_| error.kind() == Kind::Program) {
            let note = format!("on rank {rank} of aqueduct_io.run");
            // The note is for readers; without it the exception is complete.
            let _ = raised.value(py).call_method1("add_note", (note,));
        }
        raised
    })
}
