//! HDF5 files.

use aqueduct::hdf5::{
    Datatype, Hdf5Attribute, Hdf5Compression, Hdf5CreateOptions, Hdf5DatasetOptions, Hdf5Definitions,
    Hdf5File, Hdf5OpenOptions,
};
use pyo3::IntoPyObjectExt;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};

use crate::access::{PartAccess, read_parts, write_parts};
use crate::comm::RankComm;
use crate::datatype::{TypeTree, hdf5_tree};
use crate::error::bad_argument;
use crate::file_options::{FileOptions, with_file_options};
use crate::handle::PythonHandle;

/// An open HDF5 file.
#[pyclass(frozen, module = "aqueduct_io._native")]
pub(crate) struct RawHdf5 {
    file: PythonHandle<Hdf5File>,
}

/// A definition.
enum Hdf5Change {
    Group(String),
    Dataset(String, Datatype, Vec<u64>, Box<Hdf5DatasetOptions>),
    Extend(String, u64),
    Attribute(String, String, Hdf5Attribute),
}

/// Chunk, whether it can be extended, compression and its level, whether bytes are shuffled, whether chunks have checksums.
type DatasetOptionsTuple = (Option<Vec<u64>>, bool, Option<(String, u32)>, bool, bool);

/// A dataset: type, shape, chunk, which dimensions are unlimited, filters, complete rows, fill value.
type DatasetTuple = (Py<PyAny>, Vec<u64>, Option<Vec<u64>>, Vec<bool>, Vec<String>, Option<u64>, Py<PyBytes>);

#[pymethods]
impl RawHdf5 {
    /// Creates or opens a file. Collective.
    #[staticmethod]
    fn open(py: Python<'_>, comm: &RankComm, name: &str, options: FileOptions) -> PyResult<Self> {
        let create = |replace| {
            let create = with_file_options!(options, Hdf5CreateOptions::new(), replace if replace);
            create.create(&comm.inner, name)
        };
        let open = |writable| {
            let open = with_file_options!(options, Hdf5OpenOptions::new(), writable if writable);
            open.open(&comm.inner, name)
        };
        Ok(Self { file: PythonHandle::open(py, name, || options.open(name, create, open))? })
    }

    /// The paths of all objects, and whether each is a dataset.
    fn paths(&self, py: Python<'_>) -> PyResult<Vec<(String, bool)>> {
        self.file.with(py, "paths", |file| {
            let objects = file.tree().iter();
            Ok(objects.map(|(path, object)| (path.clone(), object.dataset.is_some())).collect())
        })
    }

    /// A dataset; none for a group.
    fn dataset(&self, py: Python<'_>, path: &str) -> PyResult<Option<DatasetTuple>> {
        let found = self.file.with(py, "dataset", |file| {
            let object = file.object(path)?;
            Ok(object.dataset.clone().map(|dataset| (dataset, object.complete())))
        })?;
        let Some((dataset, complete)) = found else { return Ok(None) };
        let unlimited = (0..dataset.shape.len()).map(|dimension| dataset.is_unlimited(dimension));
        let filters = dataset.filters().iter().map(|filter| filter.name.clone()).collect();
        Ok(Some((
            hdf5_tree(py, &dataset.datatype)?,
            dataset.shape.clone(),
            dataset.chunk().map(<[u64]>::to_vec),
            unlimited.collect(),
            filters,
            complete,
            PyBytes::new(py, &dataset.fill_value()).unbind(),
        )))
    }

    /// The shape of a dataset.
    fn shape(&self, py: Python<'_>, path: &str) -> PyResult<Vec<u64>> {
        self.file.with(py, "shape", |file| Ok(file.describe(file.dataset(path)?)?.shape.clone()))
    }

    /// The attributes of an object.
    fn attributes(&self, py: Python<'_>, path: &str) -> PyResult<Vec<(String, Py<PyAny>)>> {
        let all = self.file.with(py, "attributes", |file| {
            Ok(file.object(path)?.attributes.clone().into_iter().collect::<Vec<_>>())
        })?;
        all.into_iter().map(|(name, value)| Ok((name, attribute_value(py, value)?))).collect()
    }

    /// Defines groups, datasets and attributes, all or nothing. Collective.
    #[pyo3(signature = (definitions, problem = None))]
    fn define(
        &self,
        py: Python<'_>,
        definitions: &Bound<'_, PyAny>,
        problem: Option<String>,
    ) -> PyResult<()> {
        let parsed = match problem {
            Some(problem) => Err(problem),
            None => parse_definitions(definitions).map_err(|error| error.to_string()),
        };
        self.file.with(py, "define", |file| {
            let ids: Vec<_> = file.datasets().map(|(id, path)| (id, path.to_owned())).collect();
            let name = file.name().to_owned();
            file.define(|file| {
                let refuse = |detail: String| bad_argument("define", &name, detail);
                parsed.map_err(refuse)?.into_iter().try_for_each(|definition| {
                    let id_of = |path: &str| {
                        let known =
                            ids.iter().find(|(_, known)| known.trim_matches('/') == path.trim_matches('/'));
                        known.map(|(id, _)| *id).ok_or_else(|| {
                            bad_argument("define", &name, format!("there is no dataset {path:?}"))
                        })
                    };
                    definition.apply(file, id_of)
                })
            })
        })
    }

    /// Writes parts of datasets.
    fn write(&self, py: Python<'_>, accesses: &Bound<'_, PyAny>, collective: bool) -> PyResult<()> {
        let accesses = PartAccess::parse(accesses)?;
        self.file.with(py, "write", |file| write_parts!(file, dataset, accesses, collective))
    }

    /// Reads parts of datasets.
    fn read(&self, py: Python<'_>, accesses: &Bound<'_, PyAny>, collective: bool) -> PyResult<()> {
        let mut accesses = PartAccess::parse(accesses)?;
        self.file.with(py, "read", |file| read_parts!(file, dataset, accesses, collective))
    }

    /// The texts of a dataset of texts of variable length. Collective.
    fn texts(&self, py: Python<'_>, path: &str) -> PyResult<Vec<String>> {
        self.file.with(py, "read", |file| file.read_vlen_strings(file.dataset(path)?))
    }

    /// Makes what was written a part of the file. Collective.
    fn commit(&self, py: Python<'_>) -> PyResult<()> {
        self.file.with(py, "commit", Hdf5File::commit)
    }

    /// Looks for what another program has committed; how many datasets are new or changed. Collective.
    fn refresh(&self, py: Python<'_>) -> PyResult<u64> {
        self.file.with(py, "refresh", Hdf5File::refresh)
    }

    /// Whether all of the file was complete when it was closed; none where it does not say.
    fn is_complete(&self, py: Python<'_>) -> PyResult<Option<bool>> {
        self.file.with(py, "is_complete", |file| Ok(file.is_complete()))
    }

    /// The number of complete rows of a dataset; none where the file does not say.
    fn complete(&self, py: Python<'_>, path: &str) -> PyResult<Option<u64>> {
        self.file.with(py, "complete", |file| file.complete(file.dataset(path)?))
    }

    /// Closes it. Collective.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.file.end(py, Hdf5File::close).map(drop)
    }

    /// Whether it was closed.
    fn is_closed(&self, py: Python<'_>) -> bool {
        self.file.is_closed(py)
    }
}

impl Hdf5Change {
    fn apply(
        self,
        file: &mut Hdf5Definitions<'_>,
        id_of: impl Fn(&str) -> aqueduct::Result<aqueduct::hdf5::DatasetId>,
    ) -> aqueduct::Result<()> {
        match self {
            Self::Group(path) => file.group(&path),
            Self::Dataset(path, ty, shape, options) => {
                file.dataset_with_as(&path, ty, &shape, &options).map(drop)
            }
            Self::Extend(path, rows) => file.extend(id_of(&path)?, rows),
            Self::Attribute(path, name, value) => file.attribute(&path, &name, value),
        }
    }
}

fn parse_definitions(list: &Bound<'_, PyAny>) -> PyResult<Vec<Hdf5Change>> {
    list.try_iter()?.map(|one| parse_definition(one?.cast::<PyTuple>()?)).collect()
}

fn parse_definition(one: &Bound<'_, PyTuple>) -> PyResult<Hdf5Change> {
    let at = |index: usize| one.get_item(index);
    let bad = |detail: String| PyValueError::new_err(detail);
    let (word, path): (String, String) = (at(0)?.extract()?, at(1)?.extract()?);
    Ok(match &*word {
        "group" => Hdf5Change::Group(path),
        "dataset" => {
            let tree: TypeTree = at(2)?.extract()?;
            let (chunk, extendible, compression, shuffle, checksum): DatasetOptionsTuple =
                at(4)?.extract()?;
            let mut options = Hdf5DatasetOptions::new();
            if let Some(chunk) = chunk {
                options = options.chunk(&chunk);
            }
            if extendible {
                options = options.extendible();
            }
            if let Some((method, level)) = compression {
                options = options.compress(match &*method {
                    "gzip" => Hdf5Compression::Deflate(level),
                    "zstd" => Hdf5Compression::Zstd(level),
                    other => return Err(bad(format!("no compression {other:?}; there are gzip and zstd"))),
                });
            }
            if !shuffle {
                options = options.without_shuffle();
            }
            if checksum {
                options = options.checksum();
            }
            Hdf5Change::Dataset(path, tree.hdf5().map_err(bad)?, at(3)?.extract()?, Box::new(options))
        }
        "extend" => Hdf5Change::Extend(path, at(2)?.extract()?),
        _ => Hdf5Change::Attribute(path, at(2)?.extract()?, parse_attribute(at(3)?.cast::<PyTuple>()?)?),
    })
}

fn parse_attribute(value: &Bound<'_, PyTuple>) -> PyResult<Hdf5Attribute> {
    let word: String = value.get_item(0)?.extract()?;
    Ok(match &*word {
        "text" => Hdf5Attribute::Text(value.get_item(1)?.extract()?),
        "texts" => Hdf5Attribute::Texts(value.get_item(1)?.extract()?),
        _ => {
            let tree: TypeTree = value.get_item(1)?.extract()?;
            let ty = tree.hdf5().map_err(PyValueError::new_err)?;
            Hdf5Attribute::Values(ty, value.get_item(2)?.extract()?, value.get_item(3)?.extract()?)
        }
    })
}

/// Text, a list of texts, `(type, shape, bytes)`, lists of paths, or none.
fn attribute_value(py: Python<'_>, value: Hdf5Attribute) -> PyResult<Py<PyAny>> {
    if let Some(text) = value.text() {
        return text.into_py_any(py);
    }
    if let Some(texts) = value.texts() {
        return texts.into_py_any(py);
    }
    match value {
        Hdf5Attribute::Values(ty, shape, bytes) => {
            (hdf5_tree(py, &ty)?, shape, PyBytes::new(py, &bytes)).into_py_any(py)
        }
        Hdf5Attribute::References(lists) => ("references", lists).into_py_any(py),
        _ => Ok(py.None()),
    }
}
