//! Functions of the host's MPI library, found at run time under their profiling names (`PMPI_*`), so that profiling tools do not
//! count calls of this library as calls of the program.
//!
//! `unsafe` here: addresses become functions, and handles of all implementations are passed as one integer type. An implementation
//! whose handles are C integers reads the lower half of the register, and writes the lower half of a zeroed word.
#![allow(unsafe_code)]

use std::ffi::{c_char, c_int, c_void};

use aqueduct_comm::Host;

macro_rules! functions {
    (required { $($field:ident = $name:literal ($($argument:ty),*);)* } optional { $($maybe:ident = $other:literal ($($given:ty),*);)* }) => {
        /// Functions of the host's MPI.
        pub(crate) struct Functions {
            $(pub(crate) $field: unsafe extern "C" fn($($argument),*) -> c_int,)*
            $(pub(crate) $maybe: Option<unsafe extern "C" fn($($given),*) -> c_int>,)*
        }

        impl Functions {
            pub(super) fn load(host: &Host) -> Result<Self, String> {
                let find = |name: &str| host.function(&format!("P{name}")).or_else(|| host.function(name));
                let lacks = |name| format!("{} lacks {name}; use a library that implements MPI 3", host.path().display());
                Ok(Self {
                    // SAFETY: the MPI standard gives the function this type, up to the width of handles.
                    $($field: unsafe {
                        let address = find($name).ok_or_else(|| lacks($name))?;
                        std::mem::transmute::<usize, unsafe extern "C" fn($($argument),*) -> c_int>(address)
                    },)*
                    // SAFETY: as above.
                    $($maybe: find($other).map(|address| unsafe {
                        std::mem::transmute::<usize, unsafe extern "C" fn($($given),*) -> c_int>(address)
                    }),)*
                })
            }
        }
    };
}

/// Called when an attribute is copied with its object.
pub(crate) type CopyAttribute =
    unsafe extern "C" fn(usize, c_int, *mut c_void, *mut c_void, *mut c_void, *mut c_int) -> c_int;
/// Called when an attribute is deleted.
pub(crate) type DeleteAttribute = unsafe extern "C" fn(usize, c_int, *mut c_void, *mut c_void) -> c_int;
/// The callbacks of a generalized request.
pub(crate) type Query = unsafe extern "C" fn(*mut c_void, *mut c_void) -> c_int;
pub(crate) type Free = unsafe extern "C" fn(*mut c_void) -> c_int;
pub(crate) type Cancel = unsafe extern "C" fn(*mut c_void, c_int) -> c_int;
pub(crate) type Poll = unsafe extern "C" fn(*mut c_void, *mut c_void) -> c_int;
pub(crate) type WaitAll = unsafe extern "C" fn(c_int, *mut *mut c_void, f64, *mut c_void) -> c_int;
/// An error handler of a communicator. MPI passes further arguments, which are not used.
pub(crate) type CommHandler = unsafe extern "C" fn(*mut usize, *mut c_int);

functions! {
    required {
    initialized = "MPI_Initialized" (*mut c_int);
    finalized = "MPI_Finalized" (*mut c_int);
    query_thread = "MPI_Query_thread" (*mut c_int);
    abort = "MPI_Abort" (usize, c_int);
    error_string = "MPI_Error_string" (c_int, *mut c_char, *mut c_int);
    library_version = "MPI_Get_library_version" (*mut c_char, *mut c_int);
    iprobe = "MPI_Iprobe" (c_int, c_int, usize, *mut c_int, *mut c_void);
    error_class = "MPI_Error_class" (c_int, *mut c_int);
    send = "MPI_Send" (*const c_void, c_int, usize, c_int, c_int, usize);
    comm_split = "MPI_Comm_split" (usize, c_int, c_int, *mut usize);
    comm_free = "MPI_Comm_free" (*mut usize);
    comm_group = "MPI_Comm_group" (usize, *mut usize);
    comm_test_inter = "MPI_Comm_test_inter" (usize, *mut c_int);
    comm_get_attr = "MPI_Comm_get_attr" (usize, c_int, *mut *mut c_void, *mut c_int);
    comm_create_errhandler = "MPI_Comm_create_errhandler" (CommHandler, *mut usize);
    comm_get_errhandler = "MPI_Comm_get_errhandler" (usize, *mut usize);
    comm_set_errhandler = "MPI_Comm_set_errhandler" (usize, usize);
    errhandler_free = "MPI_Errhandler_free" (*mut usize);
    group_free = "MPI_Group_free" (*mut usize);
    group_union = "MPI_Group_union" (usize, usize, *mut usize);
    type_create_keyval = "MPI_Type_create_keyval" (CopyAttribute, DeleteAttribute, *mut c_int, *mut c_void);
    type_set_attr = "MPI_Type_set_attr" (usize, c_int, *mut c_void);
    type_get_attr = "MPI_Type_get_attr" (usize, c_int, *mut *mut c_void, *mut c_int);
    type_size_x = "MPI_Type_size_x" (usize, *mut i64);
    type_get_extent_x = "MPI_Type_get_extent_x" (usize, *mut i64, *mut i64);
    type_get_envelope = "MPI_Type_get_envelope" (usize, *mut c_int, *mut c_int, *mut c_int, *mut c_int);
    type_get_contents = "MPI_Type_get_contents" (usize, c_int, c_int, c_int, *mut c_int, *mut i64, *mut c_void);
    type_dup = "MPI_Type_dup" (usize, *mut usize);
    type_free = "MPI_Type_free" (*mut usize);
    status_set_elements_x = "MPI_Status_set_elements_x" (*mut c_void, usize, i64);
    status_set_cancelled = "MPI_Status_set_cancelled" (*mut c_void, c_int);
    grequest_start = "MPI_Grequest_start" (Query, Free, Cancel, *mut c_void, *mut usize);
    grequest_complete = "MPI_Grequest_complete" (usize);
    info_create = "MPI_Info_create" (*mut usize);
    info_set = "MPI_Info_set" (usize, *const c_char, *const c_char);
    info_get_nkeys = "MPI_Info_get_nkeys" (usize, *mut c_int);
    info_get_nthkey = "MPI_Info_get_nthkey" (usize, c_int, *mut c_char);
    info_get_valuelen = "MPI_Info_get_valuelen" (usize, *const c_char, *mut c_int, *mut c_int);
    info_get = "MPI_Info_get" (usize, *const c_char, c_int, *mut c_char, *mut c_int);
    file_create_errhandler = "MPI_File_create_errhandler" (*const c_void, *mut usize);
    file_set_errhandler = "MPI_File_set_errhandler" (usize, usize);
    file_get_errhandler = "MPI_File_get_errhandler" (usize, *mut usize);
    }
    optional {
    type_get_envelope_c = "MPI_Type_get_envelope_c" (usize, *mut i64, *mut i64, *mut i64, *mut i64, *mut c_int);
    type_get_contents_c = "MPI_Type_get_contents_c"
        (usize, i64, i64, i64, i64, *mut c_int, *mut i64, *mut i64, *mut c_void);
    grequest_start_polled = "MPIX_Grequest_start" (Query, Free, Cancel, Poll, WaitAll, *mut c_void, *mut usize);
    }
}
