//! Object files: structured arrays.

use aqueduct::comm::Op;
use aqueduct::file::Mode;
use aqueduct::file::layout::{Layout, Member};
use aqueduct::object::schema::ByteOrder;
use aqueduct::object::{DynObjectFile, ObjectOpenOptions};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::comm::RankComm;
use crate::datatype::TypeTree;
use crate::error::{bad_argument, exception, refused};
use crate::handle::PythonHandle;
use crate::memory::{ItemRuns, Memory};

/// An object file that is open for reading.
#[pyclass(frozen, module = "aqueduct_io._native")]
pub(crate) struct RawObjects {
    file: PythonHandle<DynObjectFile>,
}

#[pymethods]
impl RawObjects {
    /// Opens a file. Collective.
    #[staticmethod]
    fn open(py: Python<'_>, comm: &RankComm, name: &str) -> PyResult<Self> {
        Ok(Self { file: PythonHandle::open(py, name, || ObjectOpenOptions::open_dyn(&comm.inner, name))? })
    }

    /// The dtype as a literal of Python; none for objects of variable size.
    fn dtype(&self, py: Python<'_>) -> PyResult<Option<String>> {
        self.file.with(py, "dtype", |file| Ok(file.schema().dtype(file.byte_order()).ok()))
    }

    /// The signature of the type, and the schema as JSON.
    fn schema(&self, py: Python<'_>) -> PyResult<(String, String)> {
        self.file.with(py, "schema", |file| {
            let json = serde_json::to_string(file.schema());
            let json = json.map_err(|error| bad_argument("schema", "schema", error.to_string()))?;
            Ok((file.schema().signature().to_owned(), json))
        })
    }

    /// Whether numbers are little-endian.
    fn is_little_endian(&self, py: Python<'_>) -> PyResult<bool> {
        self.file.with(py, "byte_order", |file| Ok(file.byte_order() == ByteOrder::Little))
    }

    /// The number of objects.
    fn count(&self, py: Python<'_>) -> PyResult<u64> {
        self.file.with(py, "count", |file| file.count())
    }

    /// The bytes of objects of constant size. Checksums are compared.
    fn read<'py>(&self, py: Python<'py>, start: u64, end: u64) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = self.file.with(py, "read", |file| file.read(start..end))?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// Objects as text.
    fn show(&self, py: Python<'_>, start: u64, end: u64) -> PyResult<Vec<String>> {
        self.file.with(py, "show", |file| file.show(start..end))
    }

    /// Compares all data with its checksums. Collective.
    fn verify(&self, py: Python<'_>) -> PyResult<()> {
        self.file.with(py, "verify", |file| file.verify())
    }

    /// Closes it.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.file.end(py, |_| Ok(())).map(drop)
    }

    /// Whether it was closed.
    fn is_closed(&self, py: Python<'_>) -> bool {
        self.file.is_closed(py)
    }
}

/// Writes the objects of all ranks, in rank order, into a new file, or after those of an existing one. Collective.
#[pyfunction]
#[pyo3(signature = (comm, name, tree, array, item, mode, problem = None))]
#[allow(clippy::too_many_arguments, reason = "the package passes them in order")]
pub(crate) fn write_objects(
    py: Python<'_>,
    comm: &RankComm,
    name: &str,
    tree: &Bound<'_, PyAny>,
    array: &Bound<'_, PyAny>,
    item: ItemRuns,
    mode: &str,
    problem: Option<String>,
) -> PyResult<u64> {
    let given = refused("write", name, problem).and_then(|()| {
        let bad = |error: PyErr| bad_argument("write", name, error.to_string());
        let tree: TypeTree = tree.extract().map_err(bad)?;
        let schema = tree.schema().map_err(|detail| bad_argument("write", name, detail))?;
        Ok((schema, Memory::of(array, item).map_err(bad)?))
    });
    let write = || {
        let comm = &comm.inner;
        let (schema, memory) = aqueduct::comm::agreement::agree(comm, "write", name, given)?;
        let bytes = memory.gathered().map_err(|error| bad_argument("write", name, error.to_string()));
        let bytes = aqueduct::comm::agreement::agree(comm, "write", name, bytes)?;
        let size = schema.size().unwrap_or(0).max(1);
        let lost = |error: aqueduct::comm::Error| aqueduct::Error::from_comm("write", name, &error);
        let mine = bytes.len() as u64;
        let before = comm.exclusive_scan(Op::Sum, &[mine]).map_err(lost)?.map_or(0, |before| before[0]);
        let all = comm.allreduce_one(Op::Sum, mine).map_err(lost)?;
        let options = match mode {
            "w" => ObjectOpenOptions::new(Mode::read_write().create()).replace(),
            "a" => ObjectOpenOptions::new(Mode::read_write().create()),
            _ => ObjectOpenOptions::new(Mode::read_write().exclusive()),
        };
        let file = options.open_encoded(comm, name, &schema)?;
        let layout = Layout::bytes(mine)
            .and_then(|layout| Layout::structure([Member { count: 1, displacement: before as i64, layout }]));
        let layout = layout.map_err(|error| bad_argument("write", name, error.to_string()))?;
        file.extend(all / size, all, &layout)?;
        file.write(0, &*bytes)?;
        file.close()?;
        Ok(all / size)
    };
    py.detach(write).map_err(|error| exception(&error))
}
