//! Managing a file: deletion, space, mode, hints, sync without a commit, byte offsets, atomic mode.

use std::ffi::OsStr;

use aqueduct_file::{self as byte_file, Info, Mode};

use super::index_list::delete_indices;
use super::open_options::{lock_meta, meta_name};
use super::{BEYOND_LIMIT, ObjectFile};
use crate::Object;
use crate::error::{Kind, Result};

/// Deletes the data and the `.meta` of this name, and the sorted indices on its fields. Not collective: one rank does it. A file that a program is
/// writing is not deleted.
#[doc(alias = "MPI_File_delete")]
pub fn delete(name: impl AsRef<OsStr>) -> Result<()> {
    let name = name.as_ref();
    let shown = name.to_string_lossy();
    let _claim = lock_meta("delete", name, &shown)?;
    delete_indices(name)?;
    let meta = byte_file::delete(meta_name(name));
    let data = byte_file::delete(name);
    // Raw files have no `.meta`, and a `.meta` may have lost its data.
    match (data, meta) {
        (Err(error), Ok(())) if error.kind() == Kind::NoSuchFile => Ok(()),
        (Ok(()), Err(error)) if error.kind() == Kind::NoSuchFile => Ok(()),
        (data, meta) => data.and(meta),
    }
}

impl<T: Object> ObjectFile<T> {
    /// Reserves space for the first `count` objects; the file has at least so many afterwards, those that were not written are zeros. For objects of
    /// constant size. Collective, with the same count on all ranks.
    #[doc(alias = "MPI_File_preallocate")]
    pub fn preallocate(&self, count: u64) -> Result<()> {
        let store = &self.open_file;
        let refuse = |kind, detail| store.error(kind, "preallocate", detail);
        let length = store.size().map_or_else(
            || {
                let detail = "the space of objects of variable size is not known before they are encoded";
                Err(refuse(Kind::Unsupported, detail))
            },
            |size| count.checked_mul(size).ok_or_else(|| refuse(Kind::BadArgument, BEYOND_LIMIT)),
        );
        let length = store.agree("preallocate", length)?;
        let old = store.raw_data.size()?;
        if length > old {
            let marked = store.mark_dirty(old..length, false);
            store.agree("preallocate", marked)?;
        }
        store.data.preallocate(length)?;
        let mut changes = store.changes();
        changes.high = changes.high.max(count);
        Ok(())
    }

    /// The mode that it was opened with.
    #[doc(alias = "MPI_File_get_amode")]
    pub fn mode(&self) -> Mode {
        self.open_file.mode
    }

    /// The hints in use.
    #[doc(alias = "MPI_File_get_info")]
    pub fn info(&self) -> Info {
        self.open_file.data.info()
    }

    /// Changes hints; those not named keep their values. Collective.
    #[doc(alias = "MPI_File_set_info")]
    pub fn set_info(&self, info: &Info) -> Result<()> {
        self.open_file.data.set_info(info)
    }

    /// Makes the written bytes durable, without a [commit](ObjectFile::commit): readers still find the last committed state. Collective.
    #[doc(alias = "MPI_File_sync")]
    pub fn sync(&self) -> Result<()> {
        self.open_file.data.sync()
    }

    /// Bytes of an object in the file; none if objects have variable size.
    #[doc(alias = "MPI_File_get_type_extent")]
    pub fn object_size(&self) -> Option<u64> {
        self.open_file.size()
    }

    /// The byte of the data at which object `number` of the view begins. An object of variable size must have been written.
    #[doc(alias = "MPI_File_get_byte_offset")]
    pub fn byte_offset(&self, number: u64) -> Result<u64> {
        let (store, view) = (&self.open_file, self.view());
        let missing = |detail: String| store.error(Kind::BadArgument, "byte_offset", detail);
        let Some(size) = store.size() else {
            let entries = store.entries(&view, number, 1)?;
            let first = entries.first().map(|(_, entry)| entry.offset);
            return first.ok_or_else(|| missing(format!("object {number} is not in the view")));
        };
        let offset = view.number(number).and_then(|number| number.checked_mul(size));
        offset.ok_or_else(|| missing(format!("object {number} of the view: {BEYOND_LIMIT}")))
    }

    /// In atomic mode, concurrent accesses of ranks to the same objects look as if one came after the other, and what one rank has written others read
    /// at once. For objects of constant size; those of variable size are found by an index that other ranks get with the next
    /// [commit](ObjectFile::commit), so that there is no order of single accesses to keep. Collective, with the same value on all ranks.
    #[doc(alias = "MPI_File_set_atomicity")]
    pub fn set_atomic(&self, atomic: bool) -> Result<()> {
        let store = &self.open_file;
        let able = if atomic && store.size().is_none() {
            let detail = "objects of variable size become visible to other ranks by the commit, not by single writes; \
                          commit between conflicting accesses";
            Err(store.error(Kind::Unsupported, "set_atomic", detail))
        } else {
            Ok(())
        };
        store.agree("set_atomic", able)?;
        store.data.set_atomic(atomic)
    }

    /// True if it is in atomic mode.
    #[doc(alias = "MPI_File_get_atomicity")]
    pub fn is_atomic(&self) -> bool {
        self.open_file.data.is_atomic()
    }
}
