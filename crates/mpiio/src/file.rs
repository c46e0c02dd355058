//! An open file of the program: the engine's file, and state that only MPI functions need.
//!
//! `unsafe` here: an MPI group is freed.
#![allow(unsafe_code)]

pub(crate) mod error_handler;
pub(crate) mod handle_table;

use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use aqueduct_file::{File, Split};

use crate::buffer::datarep::Datarep;
use crate::buffer::{AccessBuffer, FileRepresentation};
use crate::datatype::DatatypeRef;
use crate::file::error_handler::ErrorHandler;
use crate::host::Mpi;
use crate::host::MpiError;
use crate::shutdown_table::ShutdownTable;

/// A file that the program has open.
pub(crate) struct MpiFile {
    pub(crate) file: File,
    pub(crate) error_context: Arc<FileErrorContext>,
    /// As the program gave it.
    pub(crate) amode: c_int,
    pub(crate) group: MpiGroup,
    /// The number of files opened before.
    pub(crate) opened: u64,
    /// The state of this process for the other processes while the file is open.
    _board: Arc<ShutdownTable>,
    view: Mutex<ViewTypes>,
    /// True if the view converts no data.
    is_native: AtomicBool,
    split: Mutex<Option<SplitOperation>>,
}

/// The part of a file that requests use: the file may be closed before they are freed.
pub(crate) struct FileErrorContext {
    pub(crate) handle: usize,
    handler: Mutex<Arc<ErrorHandler>>,
}

/// A view as the program set it.
pub(crate) struct ViewTypes {
    pub(crate) displacement: i64,
    pub(crate) etype: DatatypeRef,
    pub(crate) filetype: DatatypeRef,
    pub(crate) representation: String,
    /// A representation of the program.
    pub(crate) datarep: Option<Arc<Datarep>>,
}

/// A split collective operation in progress.
pub(crate) struct SplitOperation {
    pub(crate) call: &'static str,
    pub(crate) split: Split<AccessBuffer>,
}

/// An MPI group, freed when dropped.
pub(crate) struct MpiGroup(pub(crate) usize);

impl Drop for MpiGroup {
    fn drop(&mut self) {
        if let Ok(mpi) = crate::host::mpi()
            && mpi.is_running()
        {
            // SAFETY: a reference owned here, not used again.
            unsafe { (mpi.functions.group_free)(&raw mut self.0) };
        }
    }
}

impl MpiFile {
    pub(crate) fn new(
        mpi: &Mpi,
        file: File,
        owner: Arc<FileErrorContext>,
        amode: c_int,
        group: MpiGroup,
        board: Arc<ShutdownTable>,
    ) -> Self {
        static OPENED: AtomicU64 = AtomicU64::new(0);
        let byte = || DatatypeRef::predefined(mpi.constants.handles.byte);
        let view = ViewTypes {
            displacement: 0,
            etype: byte(),
            filetype: byte(),
            representation: "native".to_owned(),
            datarep: None,
        };
        let opened = OPENED.fetch_add(1, Ordering::Relaxed);
        Self {
            file,
            error_context: owner,
            amode,
            group,
            opened,
            _board: board,
            view: Mutex::new(view),
            is_native: AtomicBool::new(true),
            split: Mutex::new(None),
        }
    }

    /// The engine's file; the rest is dropped.
    pub(crate) fn into_file(self) -> File {
        self.file
    }

    /// As [`into_engine`](Self::into_engine) for a process that exits: MPI is not called.
    pub(crate) fn into_file_at_exit(self) -> File {
        let Self { file, error_context: owner, group, view, split, .. } = self;
        std::mem::forget((owner, group, view, split));
        file
    }

    pub(crate) fn view(&self) -> MutexGuard<'_, ViewTypes> {
        self.view.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a view that the engine has accepted.
    pub(crate) fn set_view(&self, view: ViewTypes) {
        let is_native = view.datarep.is_none() && view.representation != "external32";
        self.is_native.store(is_native, Ordering::Release);
        *self.view() = view;
    }

    /// The conversion of accesses through the current view.
    pub(crate) fn representation(&self) -> FileRepresentation {
        if self.is_native.load(Ordering::Acquire) {
            return FileRepresentation::Native;
        }
        let (datarep, is_external32) = {
            let view = self.view();
            (view.datarep.clone(), view.representation == "external32")
        };
        match datarep {
            Some(datarep) => FileRepresentation::User(datarep),
            None if is_external32 => {
                FileRepresentation::External32 { etype: self.file.view().etype().clone() }
            }
            None => FileRepresentation::Native,
        }
    }

    pub(crate) fn split(&self) -> MutexGuard<'_, Option<SplitOperation>> {
        self.split.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl FileErrorContext {
    pub(crate) fn new(handle: usize, handler: Arc<ErrorHandler>) -> Self {
        Self { handle, handler: Mutex::new(handler) }
    }

    pub(crate) fn handler(&self) -> Arc<ErrorHandler> {
        Arc::clone(&self.handler.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn set_handler(&self, handler: Arc<ErrorHandler>) {
        let mut place = self.handler.lock().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::replace(&mut *place, handler);
        drop((place, before));
    }

    /// Calls the error handler of the file; the code that the call returns.
    pub(crate) fn raise(&self, mpi: &Mpi, call: &str, fault: &MpiError) -> c_int {
        self.handler().handle(mpi, self.handle, call, fault)
    }
}
