//! The views of a file handle.

use std::sync::Arc;

use aqueduct_comm::agreement::{agree_same, agree_with_flags, hash_of};

use super::file::{File, ViewState};
use crate::error::{Error, Kind, Result};
use crate::hints::Info;
use crate::layout::Layout;
use crate::view::View;

impl File {
    /// Sets what this rank sees of the file; pointers go to its start. Collective: each rank has its own view, etypes of equal extent, the same
    /// representation.
    #[doc(alias = "MPI_File_set_view")]
    pub fn set_view(&self, view: &View) -> Result<()> {
        self.set_view_and_info(view, &Info::new())
    }

    /// As [`set_view`](File::set_view), and changes hints as [`set_info`](File::set_info) does, if any rank gives some.
    pub fn set_view_and_info(&self, view: &View, info: &Info) -> Result<()> {
        self.wait_idle();
        let key = hash_of(&(view.etype().extent(), view.representation().name()));
        let hints = self.compare_views(Some(key), info.iter().count())?;
        self.change_view(self.check_view(view).map(|()| view))?;
        if hints > 0 { self.adopt_info("set_view", info) } else { Ok(()) }
    }

    /// Fails if the keys of views differ between ranks that have one; the largest number of hints that a rank gives. Collective.
    fn compare_views(&self, key: Option<u64>, hints: usize) -> Result<u64> {
        let (cx, what) = (self.cx(), "extent of the etype or the representation");
        let same = agree_same(&cx.comm, "set_view", &cx.name, Ok(()), what, key, [hints as u64]);
        same.map(|((), [hints])| hints)
    }

    /// Changes the view of this rank, if all ranks can. Collective, after another collective call.
    fn change_view(&self, view: Result<&View>) -> Result<()> {
        let shared = |to: u64| self.cx().comm_result("set_view", self.engine.shared_pointer.set(to));
        // No rank moves the shared pointer any more, and none continues before it is set.
        let before = if self.cx().comm.rank() == 0 { shared(0).map(Some) } else { Ok(None) };
        let (before, view) = match before {
            Ok(before) => (before, view),
            Err(error) => (None, Err(error)),
        };
        let cx = self.cx();
        // In one machine's page cache, a rank with a contiguous view needs no other rank to access its bytes.
        let one_page_cache = cx.capabilities.maps && cx.comm.node_count() == 1;
        let is_contiguous = view.as_ref().is_ok_and(|view| one_page_cache && view.pattern().is_contiguous());
        match agree_with_flags(&cx.comm, "set_view", &cx.name, view, [is_contiguous]) {
            Ok((view, [all_views_contiguous])) => {
                self.engine.set_plain_view(view);
                *self.view_state() = ViewState { view: Arc::new(view.clone()), pointer: 0 };
                self.engine.collective.change_views(all_views_contiguous);
                Ok(())
            }
            Err(error) => {
                let restored = before.map_or(Ok(0), shared);
                self.cx().comm_result("set_view", self.cx().comm.barrier())?;
                restored.and(Err(error))
            }
        }
    }

    /// As [`set_view`](File::set_view), from where the shared pointer is: for sequential files, which cannot seek. Collective.
    #[doc(alias = "MPI_DISPLACEMENT_CURRENT")]
    pub fn set_view_here(&self, etype: &Layout, filetype: &Layout) -> Result<()> {
        self.set_view_here_and_info(etype, filetype, &Info::new())
    }

    /// As [`set_view_here`](File::set_view_here), and changes hints as [`set_info`](File::set_info) does, if any rank gives some.
    pub fn set_view_here_and_info(&self, etype: &Layout, filetype: &Layout, info: &Info) -> Result<()> {
        self.wait_idle();
        let sequential = if self.cx().mode.is_sequential() { Ok(()) } else { Err(self.not_sequential()) };
        self.cx().agree("set_view_here", sequential)?;
        let here = self.engine.shared_pointer.advance_ordered(self.cx(), "set_view_here", 0)?;
        let start = self.view().byte_offset(here).unwrap_or(u64::MAX);
        let view = self.cx().agree("set_view_here", View::new(start, etype, filetype))?;
        self.set_view_and_info(&view, info)
    }

    /// Takes part in [`set_view`](File::set_view) for a rank that has no view to set: all ranks fail. Collective with it.
    pub fn refuse_view(&self, error: Error) -> Result<()> {
        self.wait_idle();
        self.compare_views(None, 0)?;
        self.change_view(Err(error))
    }

    /// As [`refuse_view`](File::refuse_view), for [`set_view_here`](File::set_view_here).
    pub fn refuse_view_here(&self, error: Error) -> Result<()> {
        self.wait_idle();
        self.cx().agree("set_view_here", Err(error))
    }

    fn not_sequential(&self) -> Error {
        let detail =
            "the displacement \"current\" is for files opened in sequential mode; give a displacement";
        self.cx().error(Kind::Unsupported, "set_view_here", detail)
    }

    fn check_view(&self, view: &View) -> Result<()> {
        if let Some(objection) = view.objection() {
            return Err(self.cx().error(Kind::Conversion, "set_view", objection));
        }
        if self.cx().mode.is_write() && !view.is_writable() {
            let detail = "the filetype holds a byte twice, which is for reading only; open the file so";
            return Err(self.cx().error(Kind::BadLayout, "set_view", detail));
        }
        Ok(())
    }

    /// What this rank sees of the file.
    #[doc(alias = "MPI_File_get_view")]
    pub fn view(&self) -> Arc<View> {
        Arc::clone(&self.view_state().view)
    }

    /// The bytes from one `layout` to the next in this file.
    #[doc(alias = "MPI_File_get_type_extent")]
    pub fn type_extent(&self, layout: &Layout) -> i64 {
        self.view().representation().extent(layout)
    }

    /// The byte of the file at which etype `offset` of the view begins.
    #[doc(alias = "MPI_File_get_byte_offset")]
    pub fn byte_offset(&self, offset: u64) -> Result<u64> {
        let beyond = || {
            let detail = format!("etype {offset} of the view exceeds the maximum file size (2^63-1 bytes)");
            self.cx().error(Kind::BadArgument, "byte_offset", detail)
        };
        self.view().byte_offset(offset).ok_or_else(beyond)
    }
}
