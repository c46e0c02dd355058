//! Datatypes of the program as layouts of the engine: decoded once, cached as an attribute of the datatype.
//!
//! `unsafe` here: MPI fills arrays, and attributes are addresses.
#![allow(unsafe_code)]

pub(crate) mod committed;
mod contents;
mod decode;

use std::ffi::{c_int, c_void};
use std::sync::OnceLock;

use aqueduct_file::layout::{Basic, Layout};

use crate::abi::Kind;
use crate::host::Mpi;
use crate::host::{MpiError, Outcome};

pub(crate) use decode::ValueSizes;

/// A datatype that is kept after a call: a duplicate, unless it is predefined.
#[derive(Debug)]
pub(crate) struct DatatypeRef {
    pub(crate) handle: usize,
    owned: bool,
}

impl DatatypeRef {
    /// A predefined datatype.
    pub(crate) fn predefined(handle: usize) -> Self {
        Self { handle, owned: false }
    }

    /// A datatype of the program's.
    pub(crate) fn new(mpi: &Mpi, handle: usize) -> Outcome<Self> {
        if contents::is_predefined(mpi, handle)? {
            return Ok(Self::predefined(handle));
        }
        let mut copy = 0;
        // SAFETY: a valid datatype; the duplicate is owned here.
        mpi.check("MPI_Type_dup", unsafe { (mpi.functions.type_dup)(handle, &raw mut copy) })?;
        Ok(Self { handle: copy, owned: true })
    }

    /// A handle for the program: a predefined one, or a duplicate that it frees.
    pub(crate) fn to_program(&self, mpi: &Mpi) -> Outcome<usize> {
        Self::new(mpi, self.handle).map(|kept| {
            let handle = kept.handle;
            std::mem::forget(kept);
            handle
        })
    }
}

impl Drop for DatatypeRef {
    fn drop(&mut self) {
        if let Ok(mpi) = crate::host::mpi()
            && self.owned
            && mpi.is_running()
        {
            // SAFETY: the duplicate is owned here and not used again.
            unsafe { (mpi.functions.type_free)(&raw mut self.handle) };
        }
    }
}

unsafe extern "C" fn copied(
    _object: usize,
    _key: c_int,
    _extra: *mut c_void,
    value: *mut c_void,
    copy: *mut c_void,
    flag: *mut c_int,
) -> c_int {
    // SAFETY: the value was made by `remember`; MPI passes places for the copy and the flag.
    unsafe {
        let layout = (*value.cast::<Layout>()).clone();
        *copy.cast::<*mut Layout>() = Box::into_raw(Box::new(layout));
        *flag = 1;
    }
    0
}

unsafe extern "C" fn gone(_object: usize, _key: c_int, value: *mut c_void, _extra: *mut c_void) -> c_int {
    // SAFETY: the value was created by `remember` or `copied`, and MPI deletes it once.
    drop(unsafe { Box::from_raw(value.cast::<Layout>()) });
    0
}

fn key(mpi: &Mpi) -> Outcome<c_int> {
    static KEY: OnceLock<Result<c_int, MpiError>> = OnceLock::new();
    let make = || {
        let mut key = 0;
        // SAFETY: callbacks of the types that MPI prescribes.
        let made =
            unsafe { (mpi.functions.type_create_keyval)(copied, gone, &raw mut key, std::ptr::null_mut()) };
        mpi.check("MPI_Type_create_keyval", made).map(|()| key)
    };
    KEY.get_or_init(make).clone()
}

/// The size of a predefined datatype of one value, whose elements are contiguous; none for others.
pub(crate) fn element_size(mpi: &Mpi, handle: usize) -> Option<u64> {
    if handle == mpi.constants.handles.byte {
        return Some(1);
    }
    match mpi.constants.named.kind(handle)? {
        Kind::One(basic) => Some(basic.size()),
        _ => None,
    }
}

/// The layout of a datatype in memory.
pub(crate) fn layout(mpi: &Mpi, handle: usize) -> Outcome<Layout> {
    if handle == mpi.constants.handles.byte {
        return Ok(bytes().clone());
    }
    check(mpi, handle)?;
    if let Some(kind) = mpi.constants.named.kind(handle) {
        return decode::named(mpi, handle, kind, ValueSizes::Memory);
    }
    let key = key(mpi)?;
    let (mut value, mut found) = (std::ptr::null_mut(), 0);
    // SAFETY: a datatype of the program; what is filled lives here.
    let got = unsafe { (mpi.functions.type_get_attr)(handle, key, &raw mut value, &raw mut found) };
    mpi.check("MPI_Type_get_attr", got)?;
    if found != 0 {
        // SAFETY: the attribute holds a layout, as long as the datatype lives.
        return Ok(unsafe { &*value.cast::<Layout>() }.clone());
    }
    // A datatype with a layout is committed.
    committed::check(mpi, handle)?;
    let layout = decode::decode(mpi, handle, ValueSizes::Memory)?;
    let value = Box::into_raw(Box::new(layout.clone()));
    // SAFETY: freed when the attribute is deleted.
    let set = unsafe { (mpi.functions.type_set_attr)(handle, key, value.cast()) };
    mpi.check("MPI_Type_set_attr", set)?;
    Ok(layout)
}

/// The layout of a datatype in a file whose values have other sizes.
pub(crate) fn stored_layout(mpi: &Mpi, handle: usize, sizes: ValueSizes<'_>) -> Outcome<Layout> {
    check(mpi, handle)?;
    decode::decode(mpi, handle, sizes)
}

fn check(mpi: &Mpi, handle: usize) -> Outcome<()> {
    if handle == mpi.constants.handles.datatype_null || handle == 0 {
        return Err(MpiError::new(mpi.constants.integers.type_, "MPI_DATATYPE_NULL is not a datatype"));
    }
    Ok(())
}

fn bytes() -> &'static Layout {
    static BYTE: OnceLock<Layout> = OnceLock::new();
    BYTE.get_or_init(|| Basic::Byte.into())
}
