//! Variable-length strings, which libhdf5 reads from the heaps of the file.

use std::ffi::OsStr;

use aqueduct_file as file;

use crate::error::{Kind, Result};
use crate::hdf5::file::{DatasetId, Hdf5File};
use crate::hdf5::metadata::libhdf5;
use crate::hdf5::model::datatype::Datatype;

impl Hdf5File {
    /// All elements of a dataset of [text of any length](Datatype::VlenText), those of the last dimension side by side. The library reads them, on
    /// rank 0: the file needs a path of the operating system. Collective.
    pub fn read_vlen_strings(&self, id: DatasetId) -> Result<Vec<String>> {
        let read = || -> Result<Vec<String>> {
            let (path, dataset, _) = self.dataset_by_id("read", id)?;
            if dataset.datatype != Datatype::VlenText {
                let detail = format!("dataset {path:?} is of type {}; text is another one", dataset.datatype);
                return Err(self.core.error(Kind::WrongType, "read", detail));
            }
            let Some(name) = file::path(OsStr::new(self.name())) else {
                let detail = format!(
                    "the library reads the text of {path:?} from a file with a path only; copy it to one"
                );
                return Err(self.core.error(Kind::BadArgument, "read", detail));
            };
            libhdf5::read_vlen_strings(&name, path).map_err(|error| {
                self.core.error(Kind::Library, "read", format!("the text of dataset {path:?}: {error}"))
            })
        };
        let found = if self.is_root() { read() } else { Ok(Vec::new()) };
        self.broadcast_from_root("read", found.as_ref().map_err(Clone::clone))
    }
}
