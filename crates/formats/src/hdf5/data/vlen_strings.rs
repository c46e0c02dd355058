//! Variable-length strings, which are in the global heaps of the file.

use crate::error::{Kind, Result};
use crate::hdf5::file::{DatasetId, Hdf5File};
use crate::hdf5::model::datatype::Datatype;
use crate::hdf5::reader::metadata_source::MetadataSource;
use crate::hdf5::reader::object_tree::read_texts;
use crate::selection::Selection;

impl Hdf5File {
    /// All elements of a dataset of [text of any length](Datatype::VlenText), those of the last dimension side by side. Rank 0 reads them for all.
    /// Collective.
    pub fn read_vlen_strings(&self, id: DatasetId) -> Result<Vec<String>> {
        let found = if self.is_root() { self.read_texts_alone(id) } else { Ok(Vec::new()) };
        self.broadcast_from_root("read", found)
    }

    fn read_texts_alone(&self, id: DatasetId) -> Result<Vec<String>> {
        let (path, dataset, _) = self.dataset_by_id("read", id)?;
        if dataset.datatype != Datatype::VlenText {
            let detail = format!("dataset {path:?} is of type {}; text is another one", dataset.datatype);
            return Err(self.core.error(Kind::WrongType, "read", detail));
        }
        if dataset.elements() == Some(0) {
            return Ok(Vec::new());
        }
        let elements = self.at(id, Selection::whole()).read_bytes()?;
        let mut source = MetadataSource::new(&self.core.file, self.core.file.size()?);
        read_texts(&mut source, &elements).map_err(|what| match source.take_failure() {
            Some(error) => error,
            None => self.core.error(Kind::Damaged, "read", format!("the text of dataset {path:?}: {what}")),
        })
    }
}
