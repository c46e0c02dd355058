//! netCDF files (CDF-1, CDF-2, CDF-5).

use aqueduct::netcdf::{
    CdfVersion, NcType, NetcdfCreateOptions, NetcdfDefinitions, NetcdfFile, NetcdfOpenOptions, Values,
};
use pyo3::IntoPyObjectExt;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};

use crate::access::{PartAccess, read_parts, write_parts};
use crate::comm::RankComm;
use crate::datatype::{netcdf_name, netcdf_type};
use crate::error::bad_argument;
use crate::file_options::{FileOptions, with_file_options};
use crate::handle::PythonHandle;

/// An open netCDF file.
#[pyclass(frozen, module = "aqueduct_io._native")]
pub(crate) struct RawNetcdf {
    file: PythonHandle<NetcdfFile>,
}

/// A definition.
enum NetcdfChange {
    Dimension(String, Option<u64>),
    Variable(String, NcType, Vec<String>),
    Attribute(Option<String>, String, Values),
}

/// An attribute: its name, and text or the type and the bytes of its values.
type AttributeTuple = (String, Py<PyAny>);

/// A variable: name, type, dimensions, shape, attributes.
type VariableTuple = (String, &'static str, Vec<String>, Vec<u64>, Vec<AttributeTuple>);

#[pymethods]
impl RawNetcdf {
    /// Creates or opens a file; `version` is that of the format of a new one. Collective.
    #[staticmethod]
    fn open(
        py: Python<'_>,
        comm: &RankComm,
        name: &str,
        options: FileOptions,
        version: u8,
    ) -> PyResult<Self> {
        let version = match version {
            1 => CdfVersion::Cdf1,
            2 => CdfVersion::Cdf2,
            5 => CdfVersion::Cdf5,
            _ => {
                return Err(PyValueError::new_err(format!(
                    "there is no CDF-{version}; there are 1, 2 and 5"
                )));
            }
        };
        let create = |replace| {
            let new = NetcdfCreateOptions::new().version(version);
            with_file_options!(options, new, replace if replace).create(&comm.inner, name)
        };
        let open = |writable| {
            let open = with_file_options!(options, NetcdfOpenOptions::new(), writable if writable);
            open.open(&comm.inner, name)
        };
        Ok(Self { file: PythonHandle::open(py, name, || options.open(name, create, open))? })
    }

    /// The dimensions: name, length, whether it is unlimited.
    fn dimensions(&self, py: Python<'_>) -> PyResult<Vec<(String, u64, bool)>> {
        self.file.with(py, "dimensions", |file| {
            let all = file.header().dimensions.iter();
            Ok(all
                .map(|one| (one.name.clone(), one.length.unwrap_or(file.records()), one.length.is_none()))
                .collect())
        })
    }

    /// The variables.
    fn variables(&self, py: Python<'_>) -> PyResult<Vec<VariableTuple>> {
        let all = self.file.with(py, "variables", |file| {
            let header = file.header();
            let variables = header.variables.iter().map(|variable| {
                let names = variable.dimensions.iter().map(|id| header.dimensions[id.0].name.clone());
                Ok((variable.clone(), names.collect(), file.shape(file.variable(&variable.name)?)?))
            });
            variables.collect::<aqueduct::Result<Vec<(_, Vec<String>, Vec<u64>)>>>()
        })?;
        all.into_iter()
            .map(|(variable, dimensions, shape)| {
                let attributes = attributes(py, &variable.attributes)?;
                Ok((variable.name, netcdf_name(variable.kind), dimensions, shape, attributes))
            })
            .collect()
    }

    /// The shape of a variable.
    fn shape(&self, py: Python<'_>, variable: &str) -> PyResult<Vec<u64>> {
        self.file.with(py, "shape", |file| file.shape(file.variable(variable)?))
    }

    /// The attributes of the file.
    fn attributes(&self, py: Python<'_>) -> PyResult<Vec<AttributeTuple>> {
        let all = self.file.with(py, "attributes", |file| Ok(file.header().attributes.clone()))?;
        attributes(py, &all)
    }

    /// Defines dimensions, variables and attributes, all or nothing. Data is moved if that is needed and allowed. Collective.
    #[pyo3(signature = (definitions, rearrange, problem = None))]
    fn define(
        &self,
        py: Python<'_>,
        definitions: &Bound<'_, PyAny>,
        rearrange: bool,
        problem: Option<String>,
    ) -> PyResult<()> {
        let parsed = match problem {
            Some(problem) => Err(problem),
            None => parse_definitions(definitions).map_err(|error| error.to_string()),
        };
        self.file.with(py, "define", |file| {
            let name = file.name().to_owned();
            let define = |file: &mut NetcdfDefinitions<'_>| {
                let parsed = parsed.map_err(|detail| bad_argument("define", &name, detail))?;
                parsed.into_iter().try_for_each(|one| one.apply(&name, file))
            };
            if rearrange { file.rearrange(define).map(drop) } else { file.define(define) }
        })
    }

    /// Writes parts of variables.
    fn write(&self, py: Python<'_>, accesses: &Bound<'_, PyAny>, collective: bool) -> PyResult<()> {
        let accesses = PartAccess::parse(accesses)?;
        self.file.with(py, "write", |file| write_parts!(file, variable, accesses, collective))
    }

    /// Reads parts of variables.
    fn read(&self, py: Python<'_>, accesses: &Bound<'_, PyAny>, collective: bool) -> PyResult<()> {
        let mut accesses = PartAccess::parse(accesses)?;
        self.file.with(py, "read", |file| read_parts!(file, variable, accesses, collective))
    }

    /// Fills a variable, or a record of it, with its fill value. Collective.
    #[pyo3(signature = (variable, record = None))]
    fn fill(&self, py: Python<'_>, variable: &str, record: Option<u64>) -> PyResult<()> {
        self.file.with(py, "fill", |file| file.fill(file.variable(variable)?, record))
    }

    /// Makes the records that were written a part of the file. Collective.
    fn commit(&self, py: Python<'_>) -> PyResult<()> {
        self.file.with(py, "commit", |file| file.commit())
    }

    /// Looks how many records there are now. Collective.
    fn refresh(&self, py: Python<'_>) -> PyResult<u64> {
        self.file.with(py, "refresh", aqueduct::netcdf::NetcdfFile::refresh)
    }

    /// Closes it. Collective.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.file.end(py, NetcdfFile::close).map(drop)
    }

    /// Whether it was closed.
    fn is_closed(&self, py: Python<'_>) -> bool {
        self.file.is_closed(py)
    }
}

impl NetcdfChange {
    fn apply(self, name: &str, file: &mut NetcdfDefinitions<'_>) -> aqueduct::Result<()> {
        let missing = |what: &str, wanted: &str| {
            bad_argument("define", name, format!("there is no {what} {wanted:?}; define it first"))
        };
        match self {
            Self::Dimension(name, Some(length)) => file.dimension(&name, length).map(drop),
            Self::Dimension(name, None) => file.unlimited(&name).map(drop),
            Self::Variable(name, ty, dimensions) => {
                let find = |wanted: &String| {
                    file.header().find_dimension(wanted).ok_or_else(|| missing("dimension", wanted))
                };
                let dimensions: Vec<_> = dimensions.iter().map(find).collect::<aqueduct::Result<_>>()?;
                file.variable(&name, ty, &dimensions).map(drop)
            }
            Self::Attribute(None, name, values) => file.attribute(&name, values),
            Self::Attribute(Some(variable), name, values) => {
                let found = file.header().find_variable(&variable);
                let id = found.ok_or_else(|| missing("variable", &variable))?;
                file.attribute_of(id, &name, values)
            }
        }
    }
}

fn parse_definitions(list: &Bound<'_, PyAny>) -> PyResult<Vec<NetcdfChange>> {
    list.try_iter()?.map(|one| parse_definition(one?.cast::<PyTuple>()?)).collect()
}

fn parse_definition(one: &Bound<'_, PyTuple>) -> PyResult<NetcdfChange> {
    let at = |index: usize| one.get_item(index);
    let type_of = |name: String| {
        let found = netcdf_type(&name);
        found
            .ok_or_else(|| PyTypeError::new_err(format!("netCDF has no type for {name}; convert the values")))
    };
    let word: String = at(0)?.extract()?;
    Ok(match &*word {
        "dimension" => NetcdfChange::Dimension(at(1)?.extract()?, at(2)?.extract()?),
        "variable" => {
            NetcdfChange::Variable(at(1)?.extract()?, type_of(at(2)?.extract()?)?, at(3)?.extract()?)
        }
        _ => {
            let (kind, value): (String, Bound<'_, PyAny>) = at(3)?.extract()?;
            let values = if kind == "text" {
                Values::from(value.extract::<String>()?)
            } else {
                values_of(type_of(kind)?, &value.extract::<Vec<u8>>()?)
            };
            NetcdfChange::Attribute(at(1)?.extract()?, at(2)?.extract()?, values)
        }
    })
}

/// Calls a macro with the variant and the type of each type of values.
macro_rules! by_type {
    ($ty:expr, $call:ident) => {
        match $ty {
            NcType::Byte => $call!(Byte, i8),
            NcType::Char => $call!(Char, u8),
            NcType::Short => $call!(Short, i16),
            NcType::Int => $call!(Int, i32),
            NcType::Float => $call!(Float, f32),
            NcType::Double => $call!(Double, f64),
            NcType::UByte => $call!(UByte, u8),
            NcType::UShort => $call!(UShort, u16),
            NcType::UInt => $call!(UInt, u32),
            NcType::Int64 => $call!(Int64, i64),
            NcType::UInt64 => $call!(UInt64, u64),
        }
    };
}

/// The values that these bytes are, in the byte order of the machine.
fn values_of(ty: NcType, bytes: &[u8]) -> Values {
    macro_rules! from_bytes {
        ($variant:ident, $number:ty) => {{
            let parts = bytes.as_chunks::<{ size_of::<$number>() }>().0;
            Values::$variant(parts.iter().map(|part| <$number>::from_ne_bytes(*part)).collect())
        }};
    }
    by_type!(ty, from_bytes)
}

fn bytes_of(values: &Values) -> Vec<u8> {
    macro_rules! to_bytes {
        ($variant:ident, $number:ty) => {
            match values {
                Values::$variant(list) => list.iter().flat_map(|value| value.to_ne_bytes()).collect(),
                _ => Vec::new(),
            }
        };
    }
    by_type!(values.kind(), to_bytes)
}

fn attributes(py: Python<'_>, attributes: &[aqueduct::netcdf::Attribute]) -> PyResult<Vec<AttributeTuple>> {
    attributes
        .iter()
        .map(|attribute| {
            let value = match attribute.values.text() {
                Some(text) => text.into_py_any(py)?,
                None => {
                    let ty = netcdf_name(attribute.values.kind());
                    (ty, PyBytes::new(py, &bytes_of(&attribute.values))).into_py_any(py)?
                }
            };
            Ok((attribute.name.clone(), value))
        })
        .collect()
}
