//! Raw files: bytes that say nothing about themselves.

use std::ffi::OsStr;
use std::ops::Range;

use anyhow::{Result, bail, ensure};
use aqueduct::comm::Comm;
use aqueduct::file::{self, Mode, Open};

use super::{Array, Data, Element, Number, Sink};

/// What raw files are taken for.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Shape {
    /// The numbers of a raw file, little-endian [default: u8]
    #[arg(long = "raw", value_name = "TYPE")]
    number: Option<Number>,
    /// The shape of a raw file, such as 100,20,20; without it one dimension
    #[arg(long = "shape", value_delimiter = ',', value_name = "LENGTHS")]
    shape: Vec<u64>,
}

impl Shape {
    /// Whether somebody knows that a file is raw.
    pub(crate) fn is_given(&self) -> bool {
        self.number.is_some() || !self.shape.is_empty()
    }
}

pub(crate) struct File {
    open: file::File,
    length: u64,
    arrays: [Array; 1],
}

impl File {
    pub(crate) fn open(world: &Comm, name: &OsStr, shape: &Shape) -> Result<Self> {
        let file = Open::new(Mode::read_only()).open(world, name)?;
        let length = file.size()?;
        let element = Element::number(shape.number.unwrap_or(Number::U8));
        let lengths = if shape.shape.is_empty() { vec![length / element.size] } else { shape.shape.clone() };
        let wanted = lengths.iter().try_fold(element.size, |all, length| all.checked_mul(*length));
        let shown = name.display();
        ensure!(
            wanted.is_some_and(|wanted| wanted <= length),
            "{shown}: a raw file of {length} bytes does not hold {lengths:?} numbers of type {}",
            element.name
        );
        let array = Array { name: "data".to_owned(), element, shape: lengths, grows: false, complete: None };
        Ok(Self { open: file, length, arrays: [array] })
    }
}

impl Data for File {
    fn format(&self) -> String {
        format!("raw, {} bytes", self.length)
    }

    fn arrays(&self) -> &[Array] {
        &self.arrays
    }

    fn notes(&self) -> Vec<(String, String)> {
        Vec::new()
    }

    fn read(&self, _: usize, rows: Range<u64>) -> Result<Vec<u8>> {
        let row = self.arrays[0].row();
        let mut bytes = vec![0; ((rows.end - rows.start) * row) as usize];
        let count = self.open.at(rows.start * row).read(&mut bytes)?.bytes();
        ensure!(count == bytes.len() as u64, "the file ends in row {}", rows.start + count / row.max(1));
        Ok(bytes)
    }

    fn complaints(&self) -> Result<Vec<String>> {
        let array = &self.arrays[0];
        let rest = self.length - array.rows() * array.row();
        Ok(if rest == 0 { Vec::new() } else { vec![format!("{rest} bytes behind the last whole row")] })
    }
}

pub(crate) struct Writer {
    file: file::File,
    row: u64,
}

impl Writer {
    pub(crate) fn create(world: &Comm, name: &OsStr) -> Result<Self> {
        let file = Open::new(Mode::read_write().exclusive()).open(world, name)?;
        Ok(Self { file, row: 0 })
    }
}

impl Sink for Writer {
    fn define(&mut self, arrays: &[Array], _: &[(String, String)]) -> Result<()> {
        let [array] = arrays else {
            bail!("a raw file holds one array, here are {}; choose one with --array", arrays.len());
        };
        let (name, element) = (&array.name, &array.element);
        ensure!(
            element.size > 0,
            "array {name:?} holds {} of several sizes, which no raw file can",
            element.name
        );
        self.row = array.row();
        Ok(())
    }

    fn write(&mut self, _: usize, rows: Range<u64>, bytes: &[u8]) -> Result<()> {
        self.file.at(rows.start * self.row).write(bytes)?;
        Ok(())
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.file.sync()?;
        Ok(self.file.close()?)
    }
}
