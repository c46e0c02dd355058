//! Files of one array as CSV, JSON, or in the format npy of numpy.

use std::ffi::{OsStr, OsString};

use anyhow::{Context, Result, bail};
use aqueduct::comm::Comm;
use aqueduct::file::{File, OpenOptions};

use crate::array_file::{Array, ArrayFileContent, ArrayPart, ArrayWriter};
use crate::file_commands::encoders::{ArrayEncoder, DumpForm};

/// Writes one array; the ranks encode their parts and write them one after the other.
pub(super) struct EncodedArrayWriter {
    world: Comm,
    form: DumpForm,
    file: File,
    name: OsString,
    array: Option<Array>,
    /// The end of what is written.
    end: u64,
}

impl EncodedArrayWriter {
    /// A writer, if the extension of the name is that of one of these formats. Collective.
    pub(super) fn of_name(world: &Comm, name: &OsStr) -> Result<Option<Self>> {
        let text = name.to_string_lossy();
        let form = match text.rsplit_once('.').map(|(_, end)| end) {
            Some("csv") => DumpForm::Csv,
            Some("json") => DumpForm::Json,
            Some("npy") => DumpForm::Npy,
            _ => return Ok(None),
        };
        let file = OpenOptions::new().read(true).write(true).exclusive(true).open(world, name)?;
        Ok(Some(Self { world: world.clone(), form, file, name: name.to_owned(), array: None, end: 0 }))
    }

    fn format(&self) -> &'static str {
        match self.form {
            DumpForm::Csv => "CSV",
            DumpForm::Json => "JSON",
            DumpForm::Npy | DumpForm::Text => "npy",
        }
    }

    /// Writes what every rank has, in the order of the ranks. Collective.
    fn append(&mut self, mine: &[u8]) -> Result<()> {
        let lengths = self.world.allgather(&[mine.len() as u64])?;
        let before: u64 = lengths.iter().take(self.world.rank()).sum();
        self.file.at(self.end + before).write(mine)?;
        self.end += lengths.iter().sum::<u64>();
        Ok(())
    }

    /// Writes text of rank 0. Collective.
    fn append_of_root(&mut self, text: &[u8]) -> Result<()> {
        self.append(if self.world.rank() == 0 { text } else { b"" })
    }
}

impl ArrayWriter for EncodedArrayWriter {
    fn unsupported_reason(&self, array: &Array) -> Option<String> {
        if array.element.size == 0 {
            let (name, format) = (&array.element.name, self.format());
            return Some(format!("its elements {name} have variable size, which {format} cannot store"));
        }
        ArrayEncoder::new(self.form, array, false).err().map(|error| error.to_string())
    }

    fn define(&mut self, content: &ArrayFileContent) -> Result<Vec<String>> {
        let [array] = &content.arrays[..] else {
            bail!(
                "a file of {} can store one array, not {}; select one with --array",
                self.format(),
                content.arrays.len()
            );
        };
        let header = ArrayEncoder::new(self.form, array, false)?.header();
        self.array = Some(array.clone());
        self.append_of_root(&header)?;
        let groups = content.attributes.iter().map(|(_, attributes)| attributes);
        let has_attributes = groups.chain([&array.attributes]).any(|attributes| !attributes.is_empty());
        Ok(if has_attributes {
            vec![format!("{} has no attributes: all are omitted", self.format())]
        } else {
            Vec::new()
        })
    }

    fn write(&mut self, _: usize, part: Option<(&ArrayPart, &[u8])>) -> Result<()> {
        let array = self.array.as_ref().context("nothing is defined")?;
        let encoder = ArrayEncoder::new(self.form, array, false)?;
        let mine = part.map_or(Ok(Vec::new()), |(part, bytes)| encoder.part(part, bytes.to_vec()));
        self.append(&mine?)
    }

    fn created_files(&self) -> Vec<OsString> {
        vec![self.name.clone()]
    }

    fn close(mut self: Box<Self>) -> Result<()> {
        if let Some(array) = self.array.take() {
            let end = ArrayEncoder::new(self.form, &array, false)?.end();
            self.append_of_root(end)?;
        }
        self.file.sync()?;
        Ok(self.file.close()?)
    }
}
