//! Files with views, as MPI-IO has them.

use aqueduct::file::hyperslab::Hyperslab;
use aqueduct::file::layout::{Layout, Order};
use aqueduct::file::{File, OpenOptions, Sink, Source, View, Whence};
use pyo3::prelude::*;

use crate::comm::RankComm;
use crate::error::{bad_argument, refused};
use crate::handle::PythonHandle;
use crate::memory::{ItemRuns, Memory};

/// An open file.
#[pyclass(frozen, module = "aqueduct_io._native")]
pub(crate) struct RawFile {
    file: PythonHandle<File>,
}

/// Where an access begins.
#[derive(Clone, Copy)]
enum Position {
    Offset(u64),
    Pointer,
    Shared,
}

impl Position {
    fn of(offset: Option<u64>, shared: bool) -> Self {
        match offset {
            Some(offset) => Self::Offset(offset),
            None if shared => Self::Shared,
            None => Self::Pointer,
        }
    }

    fn access(self, file: &File) -> aqueduct::file::Access<'_> {
        match self {
            Self::Offset(offset) => file.at(offset),
            Self::Pointer => file.at_pointer(),
            Self::Shared => file.shared(),
        }
    }
}

#[pymethods]
impl RawFile {
    /// Opens a file; `flags` has the letters r, w, c (create), x (exclusive), t (truncate), a (append), d (delete on close).
    #[staticmethod]
    fn open(
        py: Python<'_>,
        comm: &RankComm,
        name: &str,
        flags: &str,
        hints: Vec<(String, String)>,
    ) -> PyResult<Self> {
        let has = |flag| flags.contains(flag);
        let mut options = OpenOptions::new()
            .read(has('r'))
            .write(has('w'))
            .create(has('c'))
            .exclusive(has('x'))
            .truncate(has('t'))
            .append(has('a'))
            .delete_on_close(has('d'));
        for (key, value) in hints {
            options = options.hint(key, value);
        }
        Ok(Self { file: PythonHandle::open(py, name, || options.open(&comm.inner, name))? })
    }

    /// Writes an array; the bytes that were written.
    #[allow(clippy::too_many_arguments, reason = "the package passes them in order")]
    #[pyo3(signature = (array, item, problem, offset, shared, collective))]
    fn write(
        &self,
        py: Python<'_>,
        array: &Bound<'_, PyAny>,
        item: ItemRuns,
        problem: Option<String>,
        offset: Option<u64>,
        shared: bool,
        collective: bool,
    ) -> PyResult<u64> {
        let memory = self.memory(array, item, problem, "write");
        self.file.with(py, "write", |file| {
            let access = Position::of(offset, shared).access(file);
            let source = memory.as_ref().map_err(Clone::clone).and_then(|memory| {
                Source::laid_out(memory.bytes(), memory.layout(), 1)
                    .map_err(|error| bad_argument("write", self.file.name(), error.to_string()))
            });
            let source = source.unwrap_or_else(Source::failing);
            let count = if collective { access.all().write(source) } else { access.write(source) };
            Ok(count?.bytes())
        })
    }

    /// Fills an array; the bytes that were read, less at the end of the file.
    #[pyo3(signature = (array, problem, offset, shared, collective))]
    fn read(
        &self,
        py: Python<'_>,
        array: &Bound<'_, PyAny>,
        problem: Option<String>,
        offset: Option<u64>,
        shared: bool,
        collective: bool,
    ) -> PyResult<u64> {
        let mut memory = self.memory(array, None, problem, "read");
        self.file.with(py, "read", |file| {
            let access = Position::of(offset, shared).access(file);
            let filled = memory.as_mut().map_err(|error| error.clone()).and_then(|memory| {
                memory.filled().map_err(|error| bad_argument("read", self.file.name(), error.to_string()))
            });
            let sink = match filled {
                Ok(bytes) => Sink::from(bytes),
                Err(error) => Sink::failing(error),
            };
            let count = if collective { access.all().read(sink) } else { access.read(sink) };
            Ok(count?.bytes())
        })
    }

    /// Sets the view: from byte `displacement` on, a part of an array of elements of `size` bytes. Collective.
    fn set_array_view(
        &self,
        py: Python<'_>,
        displacement: u64,
        size: u64,
        shape: Vec<u64>,
        start: Vec<u64>,
        count: Vec<u64>,
    ) -> PyResult<()> {
        self.set_view(py, |_| {
            let element = Layout::bytes(size).map_err(|error| error.to_string())?;
            let part = element.subarray(&shape, &Hyperslab::new(start, count), Order::C);
            let view = View::new(displacement, &element, &part.map_err(|error| error.to_string())?);
            view.map_err(|error| error.detail().to_owned())
        })
    }

    /// Sets the view: blocks of elements of `size` bytes, round-robin over the ranks. Collective.
    fn set_cyclic_view(&self, py: Python<'_>, size: u64, block: u64) -> PyResult<()> {
        self.set_view(py, |file| {
            let element = Layout::bytes(size).map_err(|error| error.to_string())?;
            View::cyclic_of(file.comm(), &element, block).map_err(|error| error.detail().to_owned())
        })
    }

    /// Sets the view of all bytes, counted in elements of `size` bytes. Collective.
    fn set_plain_view(&self, py: Python<'_>, displacement: u64, size: u64) -> PyResult<()> {
        self.set_view(py, |_| {
            let element = Layout::bytes(size).map_err(|error| error.to_string())?;
            View::of(displacement, &element).map_err(|error| error.detail().to_owned())
        })
    }

    /// The length in bytes.
    fn size(&self, py: Python<'_>) -> PyResult<u64> {
        self.file.with(py, "size", |file| file.size())
    }

    /// Cuts or extends the file. Collective.
    fn set_size(&self, py: Python<'_>, size: u64) -> PyResult<()> {
        self.file.with(py, "set_size", |file| file.set_size(size))
    }

    /// Makes what was written durable. Collective.
    fn sync(&self, py: Python<'_>) -> PyResult<()> {
        self.file.with(py, "sync", |file| file.sync())
    }

    /// Moves the individual pointer; where it then is.
    fn seek(&self, py: Python<'_>, offset: i64, whence: u8) -> PyResult<u64> {
        let whence = match whence {
            0 => Whence::Start,
            1 => Whence::Current,
            _ => Whence::End,
        };
        self.file.with(py, "seek", |file| file.seek(offset, whence))
    }

    /// Where the individual pointer is.
    fn position(&self, py: Python<'_>) -> PyResult<u64> {
        self.file.with(py, "position", |file| file.position())
    }

    /// The hints in force.
    fn hints(&self, py: Python<'_>) -> PyResult<Vec<(String, String)>> {
        self.file.with(py, "hints", |file| {
            let info = file.info();
            Ok(info.iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect())
        })
    }

    /// Whether what is synced survives the machine.
    fn is_persistent(&self, py: Python<'_>) -> PyResult<bool> {
        self.file.with(py, "is_persistent", |file| Ok(file.is_persistent()))
    }

    /// Closes it. Collective.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.file.end(py, File::close).map(drop)
    }

    /// Whether it was closed.
    fn is_closed(&self, py: Python<'_>) -> bool {
        self.file.is_closed(py)
    }
}

impl RawFile {
    fn memory(
        &self,
        array: &Bound<'_, PyAny>,
        item: ItemRuns,
        problem: Option<String>,
        operation: &'static str,
    ) -> aqueduct::Result<Memory> {
        refused(operation, self.file.name(), problem)?;
        Memory::of(array, item).map_err(|error| bad_argument(operation, self.file.name(), error.to_string()))
    }

    fn set_view(
        &self,
        py: Python<'_>,
        view: impl FnOnce(&File) -> Result<View, String> + Send,
    ) -> PyResult<()> {
        self.file.with(py, "set_view", |file| match view(file) {
            Ok(view) => file.set_view(&view),
            // The other ranks fail when they set theirs.
            Err(detail) => {
                let error = bad_argument("set_view", self.file.name(), detail);
                file.refuse_view(error.clone()).and(Err(error))
            }
        })
    }
}
