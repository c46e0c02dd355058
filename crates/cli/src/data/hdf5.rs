//! HDF5 files.

use std::cell::OnceCell;
use std::ffi::OsStr;
use std::ops::Range;

use anyhow::{Context, Result, anyhow};
use aqueduct::comm::Comm;
use aqueduct::hdf5::{Attribute, Container, Create, DatasetId, Datatype, Open};

use super::{Array, Data, Element, Number, Sink, element};
use crate::look;

fn element(ty: &Datatype) -> Element {
    let mut parts = Vec::new();
    let known = collect(ty, 0, "", &mut parts).is_some();
    // Text of any length is known by no size.
    let size = if *ty == Datatype::AnyText { 0 } else { ty.size() };
    Element { name: ty.to_string(), size, parts: known.then_some(parts) }
}

/// The numbers of a type; none where it has others.
fn collect(ty: &Datatype, at: u64, name: &str, parts: &mut Vec<(u64, String, Number)>) -> Option<()> {
    let number = match ty {
        Datatype::Int(1) => Number::I8,
        Datatype::Int(2) => Number::I16,
        Datatype::Int(4) => Number::I32,
        Datatype::Int(8) => Number::I64,
        Datatype::UInt(1) | Datatype::Bool => Number::U8,
        Datatype::UInt(2) => Number::U16,
        Datatype::UInt(4) | Datatype::Enum(4, _) => Number::U32,
        Datatype::UInt(8) => Number::U64,
        Datatype::Float(4) => Number::F32,
        Datatype::Float(8) => Number::F64,
        Datatype::Array(of, count) => {
            return (0..*count).try_for_each(|index| {
                collect(of, at + index * of.size(), &format!("{name}[{index}]"), parts)
            });
        }
        Datatype::Compound(_, fields) => {
            return fields.iter().try_for_each(|(field, offset, ty)| {
                let inner = if name.is_empty() { field.clone() } else { format!("{name}.{field}") };
                collect(ty, at + offset, &inner, parts)
            });
        }
        _ => return None,
    };
    element::push(parts, (at, name.to_owned(), number))
}

/// The type of records whose numbers are these.
fn datatype(element: &Element) -> Result<Datatype> {
    let one = |number: Number| match number {
        Number::I8 | Number::I16 | Number::I32 | Number::I64 => Datatype::Int(number.size() as u32),
        Number::U8 | Number::U16 | Number::U32 | Number::U64 => Datatype::UInt(number.size() as u32),
        Number::F32 | Number::F64 => Datatype::Float(number.size() as u32),
    };
    if let Some(number) = element.as_number() {
        return Ok(one(number));
    }
    let foreign = || anyhow!("{} is not made of numbers; choose arrays with --array", element.name);
    let parts = element.parts.as_ref().ok_or_else(foreign)?;
    let fields = parts.iter().map(|(at, name, number)| (name.clone(), *at, one(*number))).collect();
    Ok(Datatype::Compound(element.size, fields))
}

pub(crate) struct File {
    open: Container,
    datasets: Vec<DatasetId>,
    arrays: Vec<Array>,
    /// Of each array that is text, once it is asked for.
    texts: Vec<OnceCell<Vec<String>>>,
}

impl File {
    pub(crate) fn open(world: &Comm, name: &OsStr) -> Result<Self> {
        let file = Open::new().looked_at_by(look::look).open(world, name)?;
        let (mut datasets, mut arrays) = (Vec::new(), Vec::new());
        for (id, path) in file.datasets() {
            let dataset = file.describe(id)?;
            arrays.push(Array {
                name: path.to_owned(),
                element: element(&dataset.datatype),
                shape: dataset.shape.clone(),
                grows: dataset.grows,
                complete: file.complete(id)?,
            });
            datasets.push(id);
        }
        let texts = arrays.iter().map(|_| OnceCell::new()).collect();
        Ok(Self { open: file, datasets, arrays, texts })
    }

    fn is_text(&self, array: usize) -> bool {
        self.open.describe(self.datasets[array]).is_ok_and(|dataset| dataset.datatype == Datatype::AnyText)
    }

    /// Rows of text, each as its elements.
    fn texts(&self, array: usize, rows: &Range<u64>) -> Result<impl Iterator<Item = &[String]>> {
        let all = match self.texts[array].get() {
            Some(all) => all,
            None => {
                let all = self.open.texts(self.datasets[array])?;
                self.texts[array].get_or_init(|| all)
            }
        };
        let row = self.arrays[array].shape.iter().skip(1).product::<u64>().max(1) as usize;
        let wanted = rows.end.saturating_sub(rows.start) as usize;
        Ok(all.chunks(row).skip(rows.start as usize).take(wanted))
    }
}

fn shown(value: &Attribute) -> String {
    match value {
        Attribute::Text(text) | Attribute::FixedText(text) => text.clone(),
        Attribute::Texts(texts) => texts.join(", "),
        Attribute::Other(what) => format!("({what})"),
        Attribute::Values(ty, _, _) => value.numbers().map_or(format!("({ty})"), |numbers| {
            numbers.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
        }),
    }
}

impl Data for File {
    fn format(&self) -> String {
        let complete = match self.open.is_complete() {
            None => "says nothing about completeness",
            Some(true) => "complete",
            Some(false) => "not closed: being written, or interrupted",
        };
        format!("HDF5, {complete}")
    }

    fn arrays(&self) -> &[Array] {
        &self.arrays
    }

    fn notes(&self) -> Vec<(String, String)> {
        let nodes = self.open.tree().iter();
        let all = nodes.flat_map(|(path, node)| {
            node.attributes.iter().map(move |(name, value)| (format!("{path}@{name}"), shown(value)))
        });
        all.collect()
    }

    fn read(&self, array: usize, rows: Range<u64>) -> Result<Vec<u8>> {
        if self.is_text(array) {
            let texts = self.texts(array, &rows)?.flatten();
            return Ok(texts.flat_map(|text| text.bytes().chain([0])).collect());
        }
        Ok(self.open.at(self.datasets[array], self.arrays[array].slab(&rows)).all().read_bytes()?)
    }

    fn is_stored(&self, array: usize) -> bool {
        let dataset = self.open.describe(self.datasets[array]);
        // What lies where it cannot be read is for reading to tell.
        dataset.is_ok_and(|dataset| !dataset.is_sparse() || dataset.stored() > 0)
    }

    fn lines(&self, array: usize, rows: Range<u64>) -> Option<Result<Vec<String>>> {
        let line = |row: &[String]| row.iter().map(|text| format!("{text:?}")).collect::<Vec<_>>().join(" ");
        self.is_text(array).then(|| Ok(self.texts(array, &rows)?.map(line).collect()))
    }

    fn complaints(&self) -> Result<Vec<String>> {
        let mut complaints = Vec::new();
        for (at, array) in self.arrays.iter().enumerate().filter(|(at, _)| self.is_text(*at)) {
            complaints
                .extend(self.texts(at, &(0..0)).err().map(|error| format!("{}: {error:#}", array.name)));
        }
        if self.open.is_complete() == Some(false) {
            complaints
                .push("it was not closed: it is being written, or its program was interrupted".to_owned());
        }
        for array in &self.arrays {
            if let Some(complete) = array.complete.filter(|complete| *complete < array.rows()) {
                complaints.push(format!("{}: {complete} of {} rows are complete", array.name, array.rows()));
            }
        }
        Ok(complaints)
    }
}

pub(crate) struct Writer {
    file: Container,
    arrays: Vec<(DatasetId, Array)>,
}

impl Writer {
    pub(crate) fn create(world: &Comm, name: &OsStr) -> Result<Self> {
        Ok(Self { file: Create::new().create(world, name)?, arrays: Vec::new() })
    }
}

impl Sink for Writer {
    fn define(&mut self, arrays: &[Array], notes: &[(String, String)]) -> Result<()> {
        let types = arrays
            .iter()
            .map(|array| datatype(&array.element).with_context(|| format!("array {:?}", array.name)));
        let types = types.collect::<Result<Vec<_>>>()?;
        let made = self.file.define(|file| {
            let mut datasets = Vec::new();
            for (array, ty) in arrays.iter().zip(types) {
                let dataset = if array.grows {
                    // Chunks of about a MiB.
                    let rows = ((1 << 20) / array.row().max(1)).clamp(1, array.rows().max(1));
                    let others = array.shape.iter().skip(1).map(|length| (*length).max(1));
                    let chunk: Vec<u64> = std::iter::once(rows).chain(others).collect();
                    file.growing_as(&array.name, ty, &array.shape, &chunk)?
                } else {
                    file.dataset_as(&array.name, ty, &array.shape)?
                };
                for (note, value) in notes {
                    let own = note.strip_prefix(array.name.as_str()).and_then(|rest| rest.strip_prefix('@'));
                    if let Some(own) = own.filter(|own| *own != aqueduct::hdf5::MARK) {
                        file.attribute(&array.name, own, value.as_str())?;
                    }
                }
                datasets.push(dataset);
            }
            Ok(datasets)
        })?;
        self.arrays = made.into_iter().zip(arrays.iter().cloned()).collect();
        Ok(())
    }

    fn write(&mut self, array: usize, rows: Range<u64>, bytes: &[u8]) -> Result<()> {
        let (dataset, what) = &self.arrays[array];
        let mut queue = self.file.queue();
        queue.put_bytes(*dataset, what.slab(&rows), bytes);
        Ok(queue.run_all()?)
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(self.file.close()?)
    }
}
