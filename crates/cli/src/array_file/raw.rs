//! Raw files: bytes without metadata.

use std::ffi::{OsStr, OsString};

use anyhow::{Result, bail, ensure};
use aqueduct::comm::Comm;
use aqueduct::file::{self, File, OpenOptions};

use super::{
    Array, ArrayFile, ArrayFileContent, ArrayPart, ArrayWriter, ChunkReferences, ElementType, Finding,
    NumberType, VerifyDepth, lost_metadata,
};

/// Type and shape of raw files.
#[derive(clap::Args, Clone, Debug, Default)]
pub(crate) struct RawShape {
    /// Number type of a raw file, little-endian [default: u8]
    #[arg(long = "raw", value_name = "TYPE")]
    number: Option<NumberType>,
    /// Shape of a raw file, for example 100,20,20 [default: one dimension]
    #[arg(long = "shape", value_delimiter = ',', value_name = "LENGTHS")]
    shape: Vec<u64>,
}

impl RawShape {
    /// Whether the user says that a file is raw.
    pub(crate) fn is_given(&self) -> bool {
        self.number.is_some() || !self.shape.is_empty()
    }
}

pub(crate) struct RawArrayFile {
    open: file::File,
    length: u64,
    arrays: [Array; 1],
    /// Whether the user gave the number of values.
    has_shape: bool,
}

impl RawArrayFile {
    pub(crate) fn open(world: &Comm, name: &OsStr, shape: &RawShape) -> Result<Self> {
        let file = File::open(world, name)?;
        let length = file.size()?;
        let element = ElementType::number(shape.number.unwrap_or(NumberType::U8));
        let lengths = if shape.shape.is_empty() { vec![length / element.size] } else { shape.shape.clone() };
        let wanted = lengths.iter().try_fold(element.size, |all, length| all.checked_mul(*length));
        let shown = name.display();
        ensure!(
            wanted.is_some_and(|wanted| wanted <= length),
            "{shown}: the shape {lengths:?} of type {} does not match the {length} bytes of the file",
            element.name
        );
        let has_shape = !shape.shape.is_empty();
        Ok(Self { open: file, length, arrays: [Array::new("data", element, lengths)], has_shape })
    }
}

impl ArrayFile for RawArrayFile {
    fn format(&self) -> String {
        format!("raw, {} bytes", self.length)
    }

    fn arrays(&self) -> &[Array] {
        &self.arrays
    }

    fn names_arrays(&self) -> bool {
        false
    }

    fn read(&self, _: usize, part: &ArrayPart) -> Result<Vec<u8>> {
        let size = self.arrays[0].element.size;
        let mut bytes = vec![0; (part.count * size) as usize];
        let count = self.open.at(part.first * size).read(&mut bytes)?.bytes();
        ensure!(count == bytes.len() as u64, "the file ends in element {}", part.first + count / size);
        Ok(bytes)
    }

    fn references(&self, _: usize) -> Result<ChunkReferences> {
        Ok(ChunkReferences::adjacent(&self.arrays[0], OsStr::new(self.open.name()), 0))
    }

    fn findings(&self, _: VerifyDepth) -> Result<Vec<Finding>> {
        let array = &self.arrays[0];
        let rest = self.length - array.rows() * array.row();
        Ok(match (self.has_shape, rest) {
            (true, 0) => Vec::new(),
            (true, rest) => vec![Finding::damage(format!("{rest} bytes after the last whole row"))],
            (false, _) => vec![Finding::unknown(
                "a raw file has no metadata to check; give its type and shape with --raw and --shape",
            )],
        })
    }
}

pub(crate) struct RawArrayWriter {
    file: file::File,
    name: OsString,
    size: u64,
}

impl RawArrayWriter {
    pub(crate) fn create(world: &Comm, name: &OsStr) -> Result<Self> {
        let file = OpenOptions::new().read(true).write(true).exclusive(true).open(world, name)?;
        Ok(Self { file, name: name.to_owned(), size: 0 })
    }
}

impl ArrayWriter for RawArrayWriter {
    fn unsupported_reason(&self, array: &Array) -> Option<String> {
        let size = array.element.size;
        (size == 0).then(|| {
            format!("its elements {} have variable size, which a raw file cannot store", array.element.name)
        })
    }

    fn define(&mut self, content: &ArrayFileContent) -> Result<Vec<String>> {
        let [array] = &content.arrays[..] else {
            bail!("a raw file can store one array, not {}; select one with --array", content.arrays.len());
        };
        self.size = array.element.size;
        Ok(lost_metadata("a raw file", content))
    }

    fn write(&mut self, _: usize, part: Option<(&ArrayPart, &[u8])>) -> Result<()> {
        let Some((part, bytes)) = part else { return Ok(()) };
        self.file.at(part.first * self.size).write(bytes)?;
        Ok(())
    }

    fn created_files(&self) -> Vec<OsString> {
        vec![self.name.clone()]
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.file.sync()?;
        Ok(self.file.close()?)
    }
}
