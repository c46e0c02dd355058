//! Object files.

use std::ffi::{OsStr, OsString};
use std::ops::Range;

use anyhow::{Result, anyhow, bail};
use aqueduct::comm::Comm;
use aqueduct::file::Mode;
use aqueduct::object::schema::ByteOrder;
use aqueduct::object::{DynObjectFile, FileProvenance, Object, ObjectFile, ObjectOpenOptions, Schema};

use super::file_kind::with_suffix;
use super::ragged::RaggedArrayFile;
use super::{
    Array, ArrayFile, ArrayFileContent, ArrayPart, ArrayWriter, ChunkReferences, ElementType, Finding,
    NumberType, VerifyDepth, lost_metadata,
};

pub(crate) struct ObjectArrayFile {
    name: OsString,
    file: DynObjectFile,
    arrays: [Array; 1],
}

impl ObjectArrayFile {
    pub(crate) fn open(world: &Comm, name: &OsStr) -> Result<Self> {
        let file = ObjectOpenOptions::open_dyn(world, name)?;
        let schema = file.schema();
        let element = element(schema);
        let count = file.count()?;
        let array =
            Array { grows: true, complete: Some(count), ..Array::new("objects", element, vec![count]) };
        Ok(Self { name: name.to_owned(), file, arrays: [array] })
    }
}

/// The element type of objects of a schema.
#[cfg(feature = "hdf5")]
pub(super) fn element(schema: &Schema) -> ElementType {
    let element = ElementType::of_schema(schema.name(), schema.root());
    ElementType { datatype: aqueduct::hdf5::Datatype::of_schema(schema).ok(), ..element }
}

#[cfg(not(feature = "hdf5"))]
pub(super) fn element(schema: &Schema) -> ElementType {
    ElementType::of_schema(schema.name(), schema.root())
}

impl ArrayFile for ObjectArrayFile {
    fn as_ragged(&self, world: &Comm) -> Result<Option<Box<dyn ArrayFile>>> {
        if self.arrays[0].element.size > 0 {
            return Ok(None);
        }
        let file = ObjectOpenOptions::open_dyn(world, &self.name)?;
        Ok(Some(Box::new(RaggedArrayFile::new(world, file)?)))
    }

    fn format(&self) -> String {
        "object file".to_owned()
    }

    fn arrays(&self) -> &[Array] {
        &self.arrays
    }

    fn remarks(&self) -> Vec<String> {
        vec![format!("objects = {}", self.file.schema().signature())]
    }

    fn written_by(&self) -> Option<FileProvenance> {
        self.file.written_by()
    }

    fn read(&self, _: usize, part: &ArrayPart) -> Result<Vec<u8>> {
        let mut bytes = self.file.read(part.elements())?;
        if self.file.byte_order() == ByteOrder::Big {
            self.arrays[0].element.swap(&mut bytes);
        }
        Ok(bytes)
    }

    fn references(&self, _: usize) -> Result<ChunkReferences> {
        if self.arrays[0].element.size == 0 {
            bail!("its objects have variable size");
        }
        let is_big_endian = self.file.byte_order() == ByteOrder::Big;
        Ok(ChunkReferences { is_big_endian, ..ChunkReferences::adjacent(&self.arrays[0], &self.name, 0) })
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

    fn findings(&self, depth: VerifyDepth) -> Result<Vec<Finding>> {
        if depth == VerifyDepth::Quick {
            return Ok(Vec::new());
        }
        let verified = self.file.verify().map_err(anyhow::Error::from);
        Ok(verified.err().iter().map(Finding::of).collect())
    }
}

/// Writes one array of numbers as objects.
pub(crate) struct ObjectArrayWriter {
    world: Comm,
    name: OsString,
    open: Option<Box<dyn NumberWriter>>,
}

/// An open object file of one number type.
trait NumberWriter {
    fn write(&self, first: u64, bytes: &[u8]) -> Result<()>;
    fn close(self: Box<Self>) -> Result<()>;
}

struct TypedNumberWriter<T: Object>(ObjectFile<T>, usize);

impl<T: Object> NumberWriter for TypedNumberWriter<T> {
    fn write(&self, first: u64, bytes: &[u8]) -> Result<()> {
        let values: Vec<T> = aqueduct::object::decode_all(bytes, bytes.len() / self.1)?;
        self.0.at(first).all().write(&values)?;
        Ok(())
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(self.0.close()?)
    }
}

impl ObjectArrayWriter {
    pub(crate) fn new(world: &Comm, name: &OsStr) -> Self {
        Self { world: world.clone(), name: name.to_owned(), open: None }
    }

    fn create<T: Object>(&self, number: NumberType) -> Result<Box<dyn NumberWriter>> {
        let open = ObjectOpenOptions::new(Mode::read_write().exclusive());
        Ok(Box::new(TypedNumberWriter(open.open::<T>(&self.world, &self.name)?, number.size() as usize)))
    }
}

impl ArrayWriter for ObjectArrayWriter {
    fn unsupported_reason(&self, array: &Array) -> Option<String> {
        let numbers = array.element.as_number().is_some() && array.shape.len() <= 1;
        (!numbers).then(|| {
            format!(
                "its shape is {:?} and its elements are {}; only one-dimensional arrays of numbers can be converted to an object file, others need \
                 a program with their type",
                array.shape, array.element.name
            )
        })
    }

    fn define(&mut self, content: &ArrayFileContent) -> Result<Vec<String>> {
        let [array] = &content.arrays[..] else {
            bail!(
                "an object file can store one array, not {}; select one with --array",
                content.arrays.len()
            );
        };
        let number = array
            .element
            .as_number()
            .ok_or_else(|| anyhow!("{} has elements that are not numbers", array.name))?;
        self.open = Some(match number {
            NumberType::I8 => self.create::<i8>(number)?,
            NumberType::I16 => self.create::<i16>(number)?,
            NumberType::I32 => self.create::<i32>(number)?,
            NumberType::I64 => self.create::<i64>(number)?,
            NumberType::U8 | NumberType::Char => self.create::<u8>(number)?,
            NumberType::U16 => self.create::<u16>(number)?,
            NumberType::U32 => self.create::<u32>(number)?,
            NumberType::U64 => self.create::<u64>(number)?,
            NumberType::F32 => self.create::<f32>(number)?,
            NumberType::F64 => self.create::<f64>(number)?,
        });
        let mut lost = lost_metadata("an object file", content);
        if number == NumberType::Char {
            lost.push(format!("an object file has no char: {} becomes u8", array.name));
        }
        Ok(lost)
    }

    fn write(&mut self, _: usize, part: Option<(&ArrayPart, &[u8])>) -> Result<()> {
        let (first, bytes) = part.map_or((0, &[][..]), |(part, bytes)| (part.first, bytes));
        self.open.as_ref().ok_or_else(|| anyhow!("nothing is defined"))?.write(first, bytes)
    }

    fn created_files(&self) -> Vec<OsString> {
        self.open.iter().flat_map(|_| [self.name.clone(), with_suffix(&self.name, ".meta")]).collect()
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.open.map_or(Ok(()), NumberWriter::close)
    }
}
