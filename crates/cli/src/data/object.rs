//! Object files.

use std::ffi::{OsStr, OsString};
use std::ops::Range;

use anyhow::{Result, anyhow, bail};
use aqueduct::comm::Comm;
use aqueduct::file::Mode;
use aqueduct::object::schema::ByteOrder;
use aqueduct::object::{Object, ObjectFile, ObjectOpen, Schema, Untyped};

use super::kind::with_end;
use super::{Array, ArrayPart, Content, Data, Element, Finding, Number, Sink, lost_metadata};

pub(crate) struct File {
    file: Untyped,
    arrays: [Array; 1],
}

impl File {
    pub(crate) fn open(world: &Comm, name: &OsStr) -> Result<Self> {
        let file = ObjectOpen::open_untyped(world, name)?;
        let schema = file.schema();
        let element = element(schema);
        let count = file.count()?;
        let array =
            Array { grows: true, complete: Some(count), ..Array::new("objects", element, vec![count]) };
        Ok(Self { file, arrays: [array] })
    }
}

/// The element that objects of a schema are.
#[cfg(feature = "hdf5")]
pub(super) fn element(schema: &Schema) -> Element {
    let element = Element::of_schema(schema.name(), schema.root());
    Element { datatype: aqueduct::hdf5::Datatype::of_schema(schema).ok(), ..element }
}

#[cfg(not(feature = "hdf5"))]
pub(super) fn element(schema: &Schema) -> Element {
    Element::of_schema(schema.name(), schema.root())
}

impl Data for File {
    fn format(&self) -> String {
        "object file".to_owned()
    }

    fn arrays(&self) -> &[Array] {
        &self.arrays
    }

    fn remarks(&self) -> Vec<String> {
        vec![format!("objects = {}", self.file.schema().signature())]
    }

    fn read(&self, _: usize, part: &ArrayPart) -> Result<Vec<u8>> {
        let mut bytes = self.file.read(part.elements())?;
        if self.file.byte_order() == ByteOrder::Big {
            self.arrays[0].element.swap(&mut bytes);
        }
        Ok(bytes)
    }

    fn names_arrays(&self) -> bool {
        false
    }

    fn lines(&self, _: usize, rows: Range<u64>) -> Option<Result<Vec<String>>> {
        let numbers = self.arrays[0].element.as_number().is_some();
        (!numbers).then(|| Ok(self.file.show(rows)?))
    }

    fn has_checksums(&self) -> bool {
        true
    }

    fn findings(&self) -> Result<Vec<Finding>> {
        let verified = self.file.verify().map_err(anyhow::Error::from);
        Ok(verified.err().iter().map(Finding::of).collect())
    }
}

/// Writes one array of numbers as objects.
pub(crate) struct Writer {
    world: Comm,
    name: OsString,
    open: Option<Box<dyn Numbers>>,
}

/// An open object file of some kind of number.
trait Numbers {
    fn write(&self, first: u64, bytes: &[u8]) -> Result<()>;
    fn close(self: Box<Self>) -> Result<()>;
}

struct Typed<T: Object>(ObjectFile<T>, usize);

impl<T: Object> Numbers for Typed<T> {
    fn write(&self, first: u64, bytes: &[u8]) -> Result<()> {
        let values: Vec<T> = aqueduct::object::decode_all(bytes, bytes.len() / self.1)?;
        self.0.at(first).all().write(&values)?;
        Ok(())
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(self.0.close()?)
    }
}

impl Writer {
    pub(crate) fn new(world: &Comm, name: &OsStr) -> Self {
        Self { world: world.clone(), name: name.to_owned(), open: None }
    }

    fn create<T: Object>(&self, number: Number) -> Result<Box<dyn Numbers>> {
        let open = ObjectOpen::new(Mode::read_write().exclusive());
        Ok(Box::new(Typed(open.open::<T>(&self.world, &self.name)?, number.size() as usize)))
    }
}

impl Sink for Writer {
    fn refusal(&self, array: &Array) -> Option<String> {
        let numbers = array.element.as_number().is_some() && array.shape.len() <= 1;
        (!numbers).then(|| {
            format!(
                "it has shape {:?} and holds {}; object files are made here of numbers in one dimension, others by a program that knows \
                 their type",
                array.shape, array.element.name
            )
        })
    }

    fn define(&mut self, content: &Content) -> Result<Vec<String>> {
        let [array] = &content.arrays[..] else {
            bail!(
                "an object file holds one array, here are {}; choose one with --array",
                content.arrays.len()
            );
        };
        let number = array.element.as_number().ok_or_else(|| anyhow!("{} holds no numbers", array.name))?;
        self.open = Some(match number {
            Number::I8 => self.create::<i8>(number)?,
            Number::I16 => self.create::<i16>(number)?,
            Number::I32 => self.create::<i32>(number)?,
            Number::I64 => self.create::<i64>(number)?,
            Number::U8 | Number::Char => self.create::<u8>(number)?,
            Number::U16 => self.create::<u16>(number)?,
            Number::U32 => self.create::<u32>(number)?,
            Number::U64 => self.create::<u64>(number)?,
            Number::F32 => self.create::<f32>(number)?,
            Number::F64 => self.create::<f64>(number)?,
        });
        let mut lost = lost_metadata("an object file", content);
        if number == Number::Char {
            lost.push(format!("an object file has no char: {} becomes u8", array.name));
        }
        Ok(lost)
    }

    fn write(&mut self, _: usize, part: &ArrayPart, bytes: &[u8]) -> Result<()> {
        self.open.as_ref().ok_or_else(|| anyhow!("nothing is defined"))?.write(part.first, bytes)
    }

    fn made(&self) -> Vec<OsString> {
        self.open.iter().flat_map(|_| [self.name.clone(), with_end(&self.name, ".meta")]).collect()
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.open.map_or(Ok(()), Numbers::close)
    }
}
