//! Object files.

use std::ffi::{OsStr, OsString};
use std::ops::Range;

use anyhow::{Result, anyhow, bail};
use aqueduct::comm::Comm;
use aqueduct::file::Mode;
use aqueduct::object::schema::ByteOrder;
use aqueduct::object::{Object, ObjectFile, ObjectOpen, Untyped};

use super::{Array, Data, Element, Number, Sink};

pub(crate) struct File {
    file: Untyped,
    arrays: [Array; 1],
}

impl File {
    pub(crate) fn open(world: &Comm, name: &OsStr) -> Result<Self> {
        let file = ObjectOpen::open_untyped(world, name)?;
        let schema = file.schema();
        let element = Element::of_schema(schema.name(), schema.root());
        let count = file.count()?;
        let array = Array {
            name: "objects".to_owned(),
            element,
            shape: vec![count],
            grows: true,
            complete: Some(count),
        };
        Ok(Self { file, arrays: [array] })
    }
}

impl Data for File {
    fn format(&self) -> String {
        "object file".to_owned()
    }

    fn arrays(&self) -> &[Array] {
        &self.arrays
    }

    fn notes(&self) -> Vec<(String, String)> {
        vec![("objects".to_owned(), self.file.schema().signature().to_owned())]
    }

    fn read(&self, _: usize, rows: Range<u64>) -> Result<Vec<u8>> {
        let mut bytes = self.file.read(rows)?;
        if self.file.byte_order() == ByteOrder::Big {
            self.arrays[0].element.swap(&mut bytes);
        }
        Ok(bytes)
    }

    fn lines(&self, _: usize, rows: Range<u64>) -> Option<Result<Vec<String>>> {
        let numbers = self.arrays[0].element.as_number().is_some();
        (!numbers).then(|| Ok(self.file.show(rows)?))
    }

    fn complaints(&self) -> Result<Vec<String>> {
        Ok(self.file.verify().err().map(|error| error.to_string()).into_iter().collect())
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
    fn define(&mut self, arrays: &[Array], _: &[(String, String)]) -> Result<()> {
        let [array] = arrays else {
            bail!("an object file holds one array, here are {}; choose one with --array", arrays.len());
        };
        let Some(number) = array.element.as_number().filter(|_| array.shape.len() <= 1) else {
            bail!(
                "array {:?} of shape {:?} holds {}; object files are made here of numbers in one dimension, \
                 others by a program that knows their type",
                array.name,
                array.shape,
                array.element.name
            );
        };
        self.open = Some(match number {
            Number::I8 => self.create::<i8>(number)?,
            Number::I16 => self.create::<i16>(number)?,
            Number::I32 => self.create::<i32>(number)?,
            Number::I64 => self.create::<i64>(number)?,
            Number::U8 => self.create::<u8>(number)?,
            Number::U16 => self.create::<u16>(number)?,
            Number::U32 => self.create::<u32>(number)?,
            Number::U64 => self.create::<u64>(number)?,
            Number::F32 => self.create::<f32>(number)?,
            Number::F64 => self.create::<f64>(number)?,
        });
        Ok(())
    }

    fn write(&mut self, _: usize, rows: Range<u64>, bytes: &[u8]) -> Result<()> {
        self.open.as_ref().ok_or_else(|| anyhow!("nothing is defined"))?.write(rows.start, bytes)
    }

    fn made(&self, name: &OsStr) -> Vec<OsString> {
        self.open.iter().flat_map(|_| [name.to_owned(), super::meta(name)]).collect()
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.open.map_or(Ok(()), Numbers::close)
    }
}
