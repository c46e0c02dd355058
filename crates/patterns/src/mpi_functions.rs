//! The functions and constants of MPI-IO of one library, found by name.
//!
//! `unsafe` here: addresses become functions, and handles of all implementations are passed as one integer type. An implementation whose
//! handles are C integers reads the lower half of the register, and writes the lower half of a zeroed word.
#![allow(unsafe_code)]

use std::ffi::{CString, c_char, c_int, c_void};

use anyhow::{Context, Result};
use aqueduct::comm::Host;
use aqueduct::comm::abi::MpiAbi;

/// A handle: an address, or a number.
pub(crate) type MpiHandle = usize;

/// Room for an `MPI_Status` of any implementation.
pub(crate) type MpiStatusSpace = [u64; 8];

macro_rules! functions {
    ($($field:ident = $name:literal ($($argument:ty),*);)*) => {
        /// The functions.
        pub(crate) struct MpiIoFunctions { $(pub(crate) $field: unsafe extern "C" fn($($argument),*) -> c_int,)* }

        impl MpiIoFunctions {
            /// The functions at the addresses that `find` gives.
            pub(crate) fn load(find: &dyn Fn(&str) -> Option<usize>) -> Result<Self> {
                Ok(Self {
                    // SAFETY: the MPI standard gives the function this type, up to the width of handles.
                    $($field: unsafe {
                        let address = find($name).with_context(|| format!("the MPI library lacks {}", $name))?;
                        std::mem::transmute::<usize, unsafe extern "C" fn($($argument),*) -> c_int>(address)
                    },)*
                })
            }
        }
    };
}

functions! {
    error_string = "MPI_Error_string" (c_int, *mut c_char, *mut c_int);
    get_count = "MPI_Get_count" (*const MpiStatusSpace, MpiHandle, *mut c_int);
    info_create = "MPI_Info_create" (*mut MpiHandle);
    info_set = "MPI_Info_set" (MpiHandle, *const c_char, *const c_char);
    info_free = "MPI_Info_free" (*mut MpiHandle);
    type_contiguous = "MPI_Type_contiguous" (c_int, MpiHandle, *mut MpiHandle);
    type_resized = "MPI_Type_create_resized" (MpiHandle, isize, isize, *mut MpiHandle);
    type_subarray = "MPI_Type_create_subarray"
        (c_int, *const c_int, *const c_int, *const c_int, c_int, MpiHandle, *mut MpiHandle);
    type_struct = "MPI_Type_create_struct" (c_int, *const c_int, *const isize, *const c_void, *mut MpiHandle);
    type_commit = "MPI_Type_commit" (*mut MpiHandle);
    type_free = "MPI_Type_free" (*mut MpiHandle);
    open = "MPI_File_open" (MpiHandle, *const c_char, c_int, MpiHandle, *mut MpiHandle);
    close = "MPI_File_close" (*mut MpiHandle);
    set_view = "MPI_File_set_view" (MpiHandle, i64, MpiHandle, MpiHandle, *const c_char, MpiHandle);
    set_atomicity = "MPI_File_set_atomicity" (MpiHandle, c_int);
    set_size = "MPI_File_set_size" (MpiHandle, i64);
    sync = "MPI_File_sync" (MpiHandle);
    seek_shared = "MPI_File_seek_shared" (MpiHandle, i64, c_int);
    write_at = "MPI_File_write_at" (MpiHandle, i64, *const c_void, c_int, MpiHandle, *mut MpiStatusSpace);
    write_at_all = "MPI_File_write_at_all" (MpiHandle, i64, *const c_void, c_int, MpiHandle, *mut MpiStatusSpace);
    write_shared = "MPI_File_write_shared" (MpiHandle, *const c_void, c_int, MpiHandle, *mut MpiStatusSpace);
    write_ordered = "MPI_File_write_ordered" (MpiHandle, *const c_void, c_int, MpiHandle, *mut MpiStatusSpace);
    read_at = "MPI_File_read_at" (MpiHandle, i64, *mut c_void, c_int, MpiHandle, *mut MpiStatusSpace);
    read_at_all = "MPI_File_read_at_all" (MpiHandle, i64, *mut c_void, c_int, MpiHandle, *mut MpiStatusSpace);
    read_shared = "MPI_File_read_shared" (MpiHandle, *mut c_void, c_int, MpiHandle, *mut MpiStatusSpace);
    read_ordered = "MPI_File_read_ordered" (MpiHandle, *mut c_void, c_int, MpiHandle, *mut MpiStatusSpace);
}

/// The constants of an implementation.
pub(crate) struct MpiConstants {
    pub(crate) world: MpiHandle,
    pub(crate) own: MpiHandle,
    pub(crate) byte: MpiHandle,
    pub(crate) info_null: MpiHandle,
    pub(crate) mode_create: c_int,
    pub(crate) mode_read_only: c_int,
    pub(crate) mode_read_write: c_int,
    pub(crate) seek_set: c_int,
    pub(crate) order_c: c_int,
    /// True if handles are C integers, also those in arrays.
    pub(crate) has_integer_handles: bool,
}

impl MpiConstants {
    pub(crate) fn of(host: &Host) -> Result<Self> {
        let object =
            |name: &str| host.object(name).with_context(|| format!("{} lacks {name}", host.path().display()));
        Ok(match host.abi() {
            MpiAbi::OpenMpi => Self {
                world: object("ompi_mpi_comm_world")?,
                own: object("ompi_mpi_comm_self")?,
                byte: object("ompi_mpi_byte")?,
                info_null: object("ompi_mpi_info_null")?,
                mode_create: 1,
                mode_read_only: 2,
                mode_read_write: 8,
                seek_set: 600,
                order_c: 0,
                has_integer_handles: false,
            },
            MpiAbi::Mpich => Self {
                world: 0x4400_0000,
                own: 0x4400_0001,
                byte: 0x4c00_010d,
                info_null: 0x1c00_0000,
                mode_create: 1,
                mode_read_only: 2,
                mode_read_write: 8,
                seek_set: 600,
                order_c: 56,
                has_integer_handles: true,
            },
            MpiAbi::Standard => Self {
                world: 0x101,
                own: 0x102,
                byte: 0x247,
                info_null: 0x130,
                mode_create: 2,
                mode_read_only: 16,
                mode_read_write: 32,
                seek_set: 403,
                order_c: 12,
                has_integer_handles: false,
            },
        })
    }
}

/// The address of a function that the program would call: that of a preloaded library, if it has one.
pub(crate) fn visible_function(name: &str) -> Option<usize> {
    let name = CString::new(name).ok()?;
    // SAFETY: the name is a C string; only the address is used.
    let address = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    (!address.is_null()).then_some(address as usize)
}
