//! Files through the functions `MPI_File_*` of the MPI library that the job has loaded.
//!
//! `unsafe` here: calls into the MPI library with handles that it gave and memory that outlives the call.
#![allow(unsafe_code)]

use std::ffi::{CString, c_char, c_int};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, anyhow, bail, ensure};
use aqueduct::comm::{Comm, Host};

use crate::bench_case::Coordination;
use crate::mpi_functions::{MpiConstants, MpiHandle, MpiIoFunctions, MpiStatusSpace, visible_function};
use crate::pattern_file::{FilePosition, PatternFile, PatternOpenOptions, check_count};
use crate::view_tree::{DatatypeTree, ViewTree};

/// MPI-IO of the job's MPI library, or of a preloaded library. Its functions are called by the thread that [`Launch`](aqueduct::comm::Launch) runs
/// a rank on.
pub struct MpiIo {
    name: &'static str,
    library: String,
    functions: MpiIoFunctions,
    constants: MpiConstants,
}

impl std::fmt::Debug for MpiIo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MpiIo")
            .field("name", &self.name)
            .field("library", &self.library)
            .finish_non_exhaustive()
    }
}

impl MpiIo {
    /// That of the MPI library itself, whatever is preloaded.
    pub fn of_library() -> Result<Arc<Self>> {
        let host = host()?;
        let functions = MpiIoFunctions::load(&|name| host.function(name))?;
        Self::new("mpi", &host, functions)
    }

    /// That of a preloaded library, which programs use.
    pub fn preloaded() -> Result<Arc<Self>> {
        let host = host()?;
        let own = host.function("MPI_File_open");
        ensure!(
            visible_function("MPI_File_open").is_some_and(|visible| Some(visible) != own),
            "no library with MPI_File_open is preloaded; run the benchmark under `aqueduct exec`"
        );
        Self::new("preload", &host, MpiIoFunctions::load(&visible_function)?)
    }

    fn new(name: &'static str, host: &Host, functions: MpiIoFunctions) -> Result<Arc<Self>> {
        let library = host.path().display().to_string();
        Ok(Arc::new(Self { name, library, functions, constants: MpiConstants::of(host)? }))
    }

    pub(crate) fn name(&self) -> &str {
        self.name
    }

    /// The file of the MPI library.
    pub fn library(&self) -> &str {
        &self.library
    }

    fn check(&self, code: c_int, call: &str) -> Result<()> {
        if code == 0 {
            return Ok(());
        }
        let mut text = vec![0u8; 8192];
        let mut length = 0;
        // SAFETY: the memory is longer than MPI_MAX_ERROR_STRING of all implementations.
        unsafe { (self.functions.error_string)(code, text.as_mut_ptr().cast::<c_char>(), &raw mut length) };
        text.truncate(length.max(0) as usize);
        Err(anyhow!("{call}: {}", String::from_utf8_lossy(&text).replace('\n', " ")))
    }

    /// Opens a file. Collective over `comm`, which is the world or has one rank.
    pub(crate) fn open(
        self: &Arc<Self>,
        comm: &Comm,
        path: &Path,
        options: &PatternOpenOptions,
    ) -> Result<Box<dyn PatternFile>> {
        let constants = &self.constants;
        let handle_of_comm = match comm.size() {
            1 => constants.own,
            size if size == comm.world_size() => constants.world,
            size => bail!("MPI-IO opens files on all ranks or on one, not on {size}"),
        };
        let access = if options.read_only { constants.mode_read_only } else { constants.mode_read_write };
        let mode = access | if options.create { constants.mode_create } else { 0 };
        let name = CString::new(path.as_os_str().as_bytes()).context("a file name with a NUL byte")?;
        let info = self.info(&options.hints)?;
        let mut file: MpiHandle = 0;
        // SAFETY: the handles are valid, the name is a C string, and the file handle is at most as wide as a word.
        let code = unsafe { (self.functions.open)(handle_of_comm, name.as_ptr(), mode, info, &raw mut file) };
        self.free_info(info)?;
        self.check(code, "MPI_File_open").with_context(|| path.display().to_string())?;
        Ok(Box::new(MpiIoFile { library: Arc::clone(self), file, has_view: false }))
    }

    fn info(&self, hints: &[(String, String)]) -> Result<MpiHandle> {
        if hints.is_empty() {
            return Ok(self.constants.info_null);
        }
        let mut info: MpiHandle = 0;
        // SAFETY: a handle is at most as wide as a word.
        self.check(unsafe { (self.functions.info_create)(&raw mut info) }, "MPI_Info_create")?;
        for (key, value) in hints {
            let (key, value) = (CString::new(key.as_str())?, CString::new(value.as_str())?);
            // SAFETY: the info was created here; both are C strings.
            let code = unsafe { (self.functions.info_set)(info, key.as_ptr(), value.as_ptr()) };
            self.check(code, "MPI_Info_set")?;
        }
        Ok(info)
    }

    fn free_info(&self, mut info: MpiHandle) -> Result<()> {
        if info == self.constants.info_null {
            return Ok(());
        }
        // SAFETY: it was created here, and is not used again.
        self.check(unsafe { (self.functions.info_free)(&raw mut info) }, "MPI_Info_free")
    }

    /// Builds a datatype, which the caller frees unless it is `MPI_BYTE`.
    fn datatype(&self, tree: &DatatypeTree) -> Result<MpiHandle> {
        let (functions, byte) = (&self.functions, self.constants.byte);
        let int = |number: u64| c_int::try_from(number).context("a number that MPI cannot have");
        let mut made: MpiHandle = 0;
        match tree {
            DatatypeTree::Bytes(1) => return Ok(byte),
            DatatypeTree::Bytes(count) => {
                // SAFETY: a predefined datatype and a place for the new one.
                let code = unsafe { (functions.type_contiguous)(int(*count)?, byte, &raw mut made) };
                self.check(code, "MPI_Type_contiguous")?;
            }
            DatatypeTree::Resized { inner, extent } => {
                let inner = self.datatype(inner)?;
                // SAFETY: a datatype that was built here and a place for the new one.
                let code = unsafe { (functions.type_resized)(inner, 0, *extent as isize, &raw mut made) };
                self.free_type(inner)?;
                self.check(code, "MPI_Type_create_resized")?;
            }
            DatatypeTree::Subarray { shape, start, part } => {
                let ints =
                    |numbers: &[u64]| numbers.iter().map(|number| int(*number)).collect::<Result<Vec<_>>>();
                let (shape, start, part) = (ints(shape)?, ints(start)?, ints(part)?);
                // SAFETY: three lists of as many numbers.
                let code = unsafe {
                    (functions.type_subarray)(
                        shape.len() as c_int,
                        shape.as_ptr(),
                        part.as_ptr(),
                        start.as_ptr(),
                        self.constants.order_c,
                        byte,
                        &raw mut made,
                    )
                };
                self.check(code, "MPI_Type_create_subarray")?;
            }
            DatatypeTree::Structure(members) => {
                let counts = members.iter().map(|member| int(member.count)).collect::<Result<Vec<_>>>()?;
                let places: Vec<isize> = members.iter().map(|member| member.displacement as isize).collect();
                let types = members
                    .iter()
                    .map(|member| self.datatype(&member.datatype))
                    .collect::<Result<Vec<_>>>()?;
                // An array of handles is as wide as handles are.
                let narrow: Vec<c_int> = types.iter().map(|handle| *handle as c_int).collect();
                let array = if self.constants.has_integer_handles {
                    narrow.as_ptr().cast()
                } else {
                    types.as_ptr().cast()
                };
                // SAFETY: three lists of as many entries.
                let code = unsafe {
                    (functions.type_struct)(
                        counts.len() as c_int,
                        counts.as_ptr(),
                        places.as_ptr(),
                        array,
                        &raw mut made,
                    )
                };
                types.into_iter().try_for_each(|datatype| self.free_type(datatype))?;
                self.check(code, "MPI_Type_create_struct")?;
            }
        }
        Ok(made)
    }

    fn free_type(&self, mut datatype: MpiHandle) -> Result<()> {
        if datatype == self.constants.byte {
            return Ok(());
        }
        // SAFETY: it was built here, and is not used again.
        self.check(unsafe { (self.functions.type_free)(&raw mut datatype) }, "MPI_Type_free")
    }

    fn committed(&self, tree: &DatatypeTree) -> Result<MpiHandle> {
        let mut datatype = self.datatype(tree)?;
        // SAFETY: it was built here.
        self.check(unsafe { (self.functions.type_commit)(&raw mut datatype) }, "MPI_Type_commit")?;
        Ok(datatype)
    }
}

/// The MPI library of this job, which runs.
fn host() -> Result<Host> {
    Host::find().context("MPI-IO needs an MPI job; start the ranks by mpirun")
}

/// An open file.
struct MpiIoFile {
    library: Arc<MpiIo>,
    file: MpiHandle,
    has_view: bool,
}

impl MpiIoFile {
    fn finish(&self, code: c_int, status: &MpiStatusSpace, wanted: usize, call: &str) -> Result<()> {
        self.library.check(code, call)?;
        let mut count = 0;
        // SAFETY: the status was filled by the call.
        let code = unsafe {
            (self.library.functions.get_count)(status, self.library.constants.byte, &raw mut count)
        };
        self.library.check(code, "MPI_Get_count")?;
        check_count(count.max(0) as u64, wanted).with_context(|| call.to_owned())
    }
}

impl PatternFile for MpiIoFile {
    fn set_view(&mut self, view: &ViewTree) -> Result<()> {
        if view.is_plain() && !self.has_view {
            return Ok(());
        }
        self.has_view = true;
        let library = &self.library;
        let (etype, file_type) = (library.committed(&view.etype)?, library.committed(&view.file_type)?);
        // SAFETY: an open file, datatypes that were committed here, a C string.
        let code = unsafe {
            (library.functions.set_view)(
                self.file,
                view.displacement as i64,
                etype,
                file_type,
                c"native".as_ptr(),
                library.constants.info_null,
            )
        };
        library.free_type(etype)?;
        library.free_type(file_type)?;
        library.check(code, "MPI_File_set_view")
    }

    fn set_atomic(&mut self) -> Result<()> {
        // SAFETY: an open file.
        let code = unsafe { (self.library.functions.set_atomicity)(self.file, 1) };
        self.library.check(code, "MPI_File_set_atomicity")
    }

    fn write(&mut self, position: FilePosition, coordination: Coordination, bytes: &[u8]) -> Result<()> {
        let (functions, byte) = (&self.library.functions, self.library.constants.byte);
        let (memory, count) = (bytes.as_ptr().cast(), c_int::try_from(bytes.len())?);
        let mut status = MpiStatusSpace::default();
        // SAFETY: an open file, memory of so many bytes that outlives the call, room for a status.
        let code = unsafe {
            match (position, coordination) {
                (FilePosition::Offset(at), Coordination::Independent) => {
                    (functions.write_at)(self.file, at as i64, memory, count, byte, &raw mut status)
                }
                (FilePosition::Offset(at), Coordination::Collective) => {
                    (functions.write_at_all)(self.file, at as i64, memory, count, byte, &raw mut status)
                }
                (FilePosition::Shared, Coordination::Independent) => {
                    (functions.write_shared)(self.file, memory, count, byte, &raw mut status)
                }
                (FilePosition::Shared, Coordination::Collective) => {
                    (functions.write_ordered)(self.file, memory, count, byte, &raw mut status)
                }
            }
        };
        self.finish(code, &status, bytes.len(), "writing through MPI-IO")
    }

    fn read(&mut self, position: FilePosition, coordination: Coordination, bytes: &mut [u8]) -> Result<()> {
        let (functions, byte) = (&self.library.functions, self.library.constants.byte);
        let (memory, count) = (bytes.as_mut_ptr().cast(), c_int::try_from(bytes.len())?);
        let mut status = MpiStatusSpace::default();
        // SAFETY: an open file, memory of so many bytes that is borrowed for the call, room for a status.
        let code = unsafe {
            match (position, coordination) {
                (FilePosition::Offset(at), Coordination::Independent) => {
                    (functions.read_at)(self.file, at as i64, memory, count, byte, &raw mut status)
                }
                (FilePosition::Offset(at), Coordination::Collective) => {
                    (functions.read_at_all)(self.file, at as i64, memory, count, byte, &raw mut status)
                }
                (FilePosition::Shared, Coordination::Independent) => {
                    (functions.read_shared)(self.file, memory, count, byte, &raw mut status)
                }
                (FilePosition::Shared, Coordination::Collective) => {
                    (functions.read_ordered)(self.file, memory, count, byte, &raw mut status)
                }
            }
        };
        self.finish(code, &status, bytes.len(), "reading through MPI-IO")
    }

    fn rewind_shared(&mut self) -> Result<()> {
        // SAFETY: an open file.
        let code =
            unsafe { (self.library.functions.seek_shared)(self.file, 0, self.library.constants.seek_set) };
        self.library.check(code, "MPI_File_seek_shared")
    }

    fn sync(&mut self) -> Result<()> {
        // SAFETY: an open file.
        self.library.check(unsafe { (self.library.functions.sync)(self.file) }, "MPI_File_sync")
    }

    fn set_size(&mut self, bytes: u64) -> Result<()> {
        // SAFETY: an open file.
        let code = unsafe { (self.library.functions.set_size)(self.file, bytes as i64) };
        self.library.check(code, "MPI_File_set_size")
    }

    fn close(self: Box<Self>) -> Result<()> {
        let mut file = self.file;
        // SAFETY: an open file, which is not used again.
        self.library.check(unsafe { (self.library.functions.close)(&raw mut file) }, "MPI_File_close")
    }
}
