//! netCDF files.

use std::ffi::OsStr;
use std::ops::Range;

use anyhow::{Result, anyhow};
use aqueduct::comm::Comm;
use aqueduct::netcdf::{Create, Dataset, Open, Slab, Type, Value, Values, VariableId};

use super::{Array, Data, Element, Number, Sink};

fn number(kind: Type) -> Number {
    match kind {
        Type::Byte => Number::I8,
        Type::Char | Type::UByte => Number::U8,
        Type::Short => Number::I16,
        Type::UShort => Number::U16,
        Type::Int => Number::I32,
        Type::UInt => Number::U32,
        Type::Int64 => Number::I64,
        Type::UInt64 => Number::U64,
        Type::Float => Number::F32,
        Type::Double => Number::F64,
    }
}

fn kind(number: Number) -> Type {
    match number {
        Number::I8 => Type::Byte,
        Number::U8 => Type::UByte,
        Number::I16 => Type::Short,
        Number::U16 => Type::UShort,
        Number::I32 => Type::Int,
        Number::U32 => Type::UInt,
        Number::I64 => Type::Int64,
        Number::U64 => Type::UInt64,
        Number::F32 => Type::Float,
        Number::F64 => Type::Double,
    }
}

/// Calls a function with the type of a kind of number.
macro_rules! typed {
    ($number:expr, $function:ident($($argument:expr),*)) => {
        match $number {
            Number::I8 => $function::<i8>($($argument),*),
            Number::I16 => $function::<i16>($($argument),*),
            Number::I32 => $function::<i32>($($argument),*),
            Number::I64 => $function::<i64>($($argument),*),
            Number::U8 => $function::<u8>($($argument),*),
            Number::U16 => $function::<u16>($($argument),*),
            Number::U32 => $function::<u32>($($argument),*),
            Number::U64 => $function::<u64>($($argument),*),
            Number::F32 => $function::<f32>($($argument),*),
            Number::F64 => $function::<f64>($($argument),*),
        }
    };
}

fn read<T: Value + aqueduct::object::Object>(
    dataset: &Dataset,
    variable: VariableId,
    slab: Slab,
) -> Result<Vec<u8>> {
    let values: Vec<T> = dataset.at(variable, slab).all().read_vec()?;
    Ok(aqueduct::object::encode_all(&values).into_owned())
}

fn write<T: Value + aqueduct::object::Object>(
    dataset: &Dataset,
    variable: VariableId,
    slab: Slab,
    bytes: &[u8],
) -> Result<()> {
    let values: Vec<T> = aqueduct::object::decode_all(bytes, bytes.len() / size_of::<T>())?;
    Ok(dataset.at(variable, slab).all().write(&values)?)
}

pub(crate) struct File {
    dataset: Dataset,
    variables: Vec<VariableId>,
    arrays: Vec<Array>,
}

impl File {
    pub(crate) fn open(world: &Comm, name: &OsStr) -> Result<Self> {
        let dataset = Open::new().open(world, name)?;
        let (mut variables, mut arrays) = (Vec::new(), Vec::new());
        for variable in &dataset.header().variables {
            let id = dataset.variable(&variable.name)?;
            let grows = dataset.header().is_record(variable);
            arrays.push(Array {
                name: variable.name.clone(),
                element: Element::number(number(variable.kind)),
                shape: dataset.shape(id)?,
                grows,
                complete: grows.then(|| dataset.records()),
            });
            variables.push(id);
        }
        Ok(Self { dataset, variables, arrays })
    }
}

fn shown(values: &Values) -> String {
    let numbers = || {
        let numbers: Vec<String> =
            values.numbers().unwrap_or_default().iter().map(ToString::to_string).collect();
        numbers.join(" ")
    };
    values.text().map_or_else(numbers, str::to_owned)
}

impl Data for File {
    fn format(&self) -> String {
        format!("netCDF, {}, {} records", self.dataset.header().version, self.dataset.records())
    }

    fn arrays(&self) -> &[Array] {
        &self.arrays
    }

    fn notes(&self) -> Vec<(String, String)> {
        let header = self.dataset.header();
        let whole = header.attributes.iter().map(|note| (format!("@{}", note.name), shown(&note.values)));
        let parts = header.variables.iter().flat_map(|variable| {
            variable
                .attributes
                .iter()
                .map(|note| (format!("{}@{}", variable.name, note.name), shown(&note.values)))
        });
        whole.chain(parts).collect()
    }

    fn read(&self, array: usize, rows: Range<u64>) -> Result<Vec<u8>> {
        let what = &self.arrays[array];
        let number = what.element.as_number().ok_or_else(|| anyhow!("{} holds no numbers", what.name))?;
        typed!(number, read(&self.dataset, self.variables[array], what.slab(&rows)))
    }

    fn complaints(&self) -> Result<Vec<String>> {
        Ok(Vec::new())
    }
}

pub(crate) struct Writer {
    dataset: Dataset,
    arrays: Vec<(VariableId, Array)>,
}

impl Writer {
    pub(crate) fn create(world: &Comm, name: &OsStr) -> Result<Self> {
        Ok(Self { dataset: Create::new().create(world, name)?, arrays: Vec::new() })
    }
}

impl Sink for Writer {
    fn define(&mut self, arrays: &[Array], notes: &[(String, String)]) -> Result<()> {
        for array in arrays {
            let what = (&array.name, &array.element.name);
            array.element.as_number().ok_or_else(|| {
                anyhow!(
                    "array {:?} holds {}; netCDF holds numbers alone: choose arrays with --array",
                    what.0,
                    what.1
                )
            })?;
        }
        // Arrays grow together in netCDF: as steps of one dimension only if all have as many.
        let mut growing = arrays.iter().filter(|array| array.grows).map(Array::rows);
        let records = growing.next().filter(|first| growing.all(|rows| rows == *first));
        let made = self.dataset.define(|file| {
            let time = records.map(|_| file.unlimited("step")).transpose()?;
            let mut variables = Vec::new();
            for array in arrays {
                let name = array.name.trim_matches('/').replace('/', ".");
                let mut dimensions = Vec::new();
                for (at, length) in array.shape.iter().enumerate() {
                    dimensions.push(match time.filter(|_| at == 0 && array.grows) {
                        Some(time) => time,
                        None => file.dimension(&format!("{name}.{at}"), *length)?,
                    });
                }
                let number = array.element.as_number().unwrap_or(Number::U8);
                let variable = file.variable(&name, kind(number), &dimensions)?;
                for (note, value) in notes {
                    let own = note.strip_prefix(array.name.as_str()).and_then(|rest| rest.strip_prefix('@'));
                    if let Some(own) = own.filter(|own| *own != "_FillValue" && *own != "aqueduct_complete") {
                        file.attribute_of(variable, own, value.as_str())?;
                    }
                }
                variables.push(variable);
            }
            Ok(variables)
        })?;
        self.arrays = made.into_iter().zip(arrays.iter().cloned()).collect();
        Ok(())
    }

    fn write(&mut self, array: usize, rows: Range<u64>, bytes: &[u8]) -> Result<()> {
        let (variable, what) = &self.arrays[array];
        let number = what.element.as_number().ok_or_else(|| anyhow!("{} holds no numbers", what.name))?;
        typed!(number, write(&self.dataset, *variable, what.slab(&rows), bytes))
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(self.dataset.close()?)
    }
}
