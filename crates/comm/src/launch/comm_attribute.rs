//! The communicator of this library for each `MPI_Comm` of a host program, kept as an attribute of it, and work before MPI ends. All bindings
//! of a process share them: a file that a C program opens and one that a Python module opens use the same communicator.
//!
//! `unsafe` here: addresses become functions; attributes are addresses, and MPI calls back when they are deleted. Handles of all implementations
//! are passed as one integer type: an implementation whose handles are C integers reads the lower half of the register.
#![allow(unsafe_code)]

use std::any::Any;
use std::ffi::{c_int, c_void};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::host_comm::{Host, prepare_finalize};
use crate::abi::MpiAbi;
use crate::{Comm, Error, Kind, Result};

/// The communicator of this library for an `MPI_Comm` of the host program, made when it is first wanted, and freed with it; and values of the
/// bindings that belong to it.
#[derive(Clone)]
pub struct HostComm {
    comm: Comm,
    values: Arc<Mutex<Vec<Arc<dyn Any + Send + Sync>>>>,
}

impl HostComm {
    /// The communicator of these processes, if it was made before.
    ///
    /// # Safety
    /// As for [`Comm::from_mpi`].
    pub unsafe fn find(handle: usize) -> Result<Option<Self>> {
        let functions = functions()?;
        let (mut value, mut found) = (std::ptr::null_mut(), 0);
        // SAFETY: a communicator of the program, as promised; what is filled lives here.
        let got = unsafe { (functions.get_attr)(handle, key()?, &raw mut value, &raw mut found) };
        check("MPI_Comm_get_attr", got)?;
        // SAFETY: the attribute holds what was put there below, and lives as long as the communicator, which is in use.
        Ok((found != 0).then(|| unsafe { &*value.cast::<Self>() }.clone()))
    }

    /// The communicator of these processes. Collective, in MPI's sense, if it was not made before.
    ///
    /// # Safety
    /// As for [`Comm::from_mpi`].
    pub unsafe fn of(handle: usize) -> Result<Self> {
        // SAFETY: as promised.
        if let Some(known) = unsafe { Self::find(handle)? } {
            return Ok(known);
        }
        // SAFETY: as promised; it is dropped with the attribute, when MPI ends at the latest.
        let comm = unsafe { Comm::from_mpi(handle)? };
        let made = Self { comm, values: Arc::default() };
        let value = Box::into_raw(Box::new(made.clone()));
        // SAFETY: the value is freed when the attribute is deleted.
        let set = unsafe { (functions()?.set_attr)(handle, key()?, value.cast()) };
        check("MPI_Comm_set_attr", set).map(|()| made)
    }

    /// The communicator.
    pub fn comm(&self) -> &Comm {
        &self.comm
    }

    /// The value of this type that belongs to the communicator; the first call makes it.
    pub fn value<T: Any + Send + Sync>(&self, make: impl FnOnce(&Comm) -> Result<Arc<T>>) -> Result<Arc<T>> {
        let find = || {
            let values = self.values.lock().unwrap_or_else(PoisonError::into_inner);
            values.iter().find_map(|value| Arc::clone(value).downcast::<T>().ok())
        };
        if let Some(known) = find() {
            return Ok(known);
        }
        let made = make(&self.comm)?;
        self.values.lock().unwrap_or_else(PoisonError::into_inner).push(made.clone());
        Ok(made)
    }
}

/// What is done before MPI ends, in the order in which it was added.
static HOOKS: Mutex<Vec<fn()>> = Mutex::new(Vec::new());

/// Calls `hook` before the host program finalizes MPI, and then [`prepare_finalize`]. MPI deletes the attributes of `MPI_COMM_SELF` first when it
/// ends, in the reverse order of their creation (MPI 4.1, section 11.2.4): callbacks of attributes that are set later run before the hook and may
/// still use files. So it is added as early as possible.
pub fn before_finalize(hook: fn()) -> Result<()> {
    let mut hooks = HOOKS.lock().unwrap_or_else(PoisonError::into_inner);
    if !hooks.contains(&hook) {
        hooks.push(hook);
    }
    drop(hooks);
    watch_end()
}

/// Functions of the host's MPI.
struct AttributeFunctions {
    create_keyval: CreateKeyvalFn,
    set_attr: SetAttributeFn,
    get_attr: GetAttributeFn,
    comm_self: usize,
}

type CreateKeyvalFn =
    unsafe extern "C" fn(AttributeCopyFn, AttributeDeleteFn, *mut c_int, *mut c_void) -> c_int;
type SetAttributeFn = unsafe extern "C" fn(usize, c_int, *mut c_void) -> c_int;
type GetAttributeFn = unsafe extern "C" fn(usize, c_int, *mut *mut c_void, *mut c_int) -> c_int;
/// Called when an attribute is copied with its object.
type AttributeCopyFn =
    unsafe extern "C" fn(usize, c_int, *mut c_void, *mut c_void, *mut c_void, *mut c_int) -> c_int;
/// Called when an attribute is deleted.
type AttributeDeleteFn = unsafe extern "C" fn(usize, c_int, *mut c_void, *mut c_void) -> c_int;

fn functions() -> Result<&'static AttributeFunctions> {
    static FUNCTIONS: OnceLock<AttributeFunctions> = OnceLock::new();
    if let Some(known) = FUNCTIONS.get() {
        return Ok(known);
    }
    let host = Host::find()?;
    let lacks = |name: &str| {
        let detail = format!("{} lacks {name}; use a complete MPI library", host.path().display());
        Error::new(Kind::NoMpi, "from_mpi", detail)
    };
    let find = |name: &str| {
        let own = host.function(&format!("P{name}")).or_else(|| host.function(name));
        own.ok_or_else(|| lacks(name))
    };
    let comm_self = match host.abi() {
        MpiAbi::Mpich => 0x4400_0001,
        MpiAbi::Standard => 0x102,
        MpiAbi::OpenMpi => host.object("ompi_mpi_comm_self").ok_or_else(|| lacks("ompi_mpi_comm_self"))?,
    };
    // SAFETY: the MPI standard gives these functions these types, up to the width of handles.
    let found = unsafe {
        AttributeFunctions {
            create_keyval: std::mem::transmute::<usize, CreateKeyvalFn>(find("MPI_Comm_create_keyval")?),
            set_attr: std::mem::transmute::<usize, SetAttributeFn>(find("MPI_Comm_set_attr")?),
            get_attr: std::mem::transmute::<usize, GetAttributeFn>(find("MPI_Comm_get_attr")?),
            comm_self,
        }
    };
    Ok(FUNCTIONS.get_or_init(|| found))
}

fn check(call: &'static str, code: c_int) -> Result<()> {
    if code == 0 {
        return Ok(());
    }
    Err(Error::new(Kind::Mpi, call, format!("MPI reports error {code}; pass a valid communicator")))
}

/// Copies of a communicator get their own when they are used.
unsafe extern "C" fn not_copied(
    _object: usize,
    _key: c_int,
    _extra: *mut c_void,
    _value: *mut c_void,
    _copy: *mut c_void,
    flag: *mut c_int,
) -> c_int {
    // SAFETY: MPI passes an integer to be filled.
    unsafe { *flag = 0 };
    0
}

unsafe extern "C" fn gone(_object: usize, _key: c_int, value: *mut c_void, _extra: *mut c_void) -> c_int {
    // SAFETY: the value was made by `of`, and MPI deletes it once.
    drop(unsafe { Box::from_raw(value.cast::<HostComm>()) });
    0
}

unsafe extern "C" fn end(_object: usize, _key: c_int, _value: *mut c_void, _extra: *mut c_void) -> c_int {
    let hooks: Vec<fn()> = HOOKS.lock().unwrap_or_else(PoisonError::into_inner).clone();
    hooks.iter().for_each(|hook| hook());
    prepare_finalize();
    0
}

/// The value of the attribute of `MPI_COMM_SELF`.
static END: u8 = 0;

/// Sets the attribute of `MPI_COMM_SELF`, once.
fn watch_end() -> Result<()> {
    static SET: Mutex<bool> = Mutex::new(false);
    let mut set = SET.lock().unwrap_or_else(PoisonError::into_inner);
    if !*set {
        let functions = functions()?;
        let last = create_keyval(functions, end)?;
        // SAFETY: the value is a static.
        let done =
            unsafe { (functions.set_attr)(functions.comm_self, last, (&raw const END).cast_mut().cast()) };
        check("MPI_Comm_set_attr", done)?;
        *set = true;
    }
    Ok(())
}

/// The key of the attribute with the communicators.
fn key() -> Result<c_int> {
    static KEY: Mutex<Option<c_int>> = Mutex::new(None);
    watch_end()?;
    let mut key = KEY.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = *key {
        return Ok(known);
    }
    let made = create_keyval(functions()?, gone)?;
    *key = Some(made);
    Ok(made)
}

fn create_keyval(functions: &AttributeFunctions, deleted: AttributeDeleteFn) -> Result<c_int> {
    let mut key = 0;
    // SAFETY: callbacks of the types that MPI prescribes; the integer lives here.
    let made = unsafe { (functions.create_keyval)(not_copied, deleted, &raw mut key, std::ptr::null_mut()) };
    check("MPI_Comm_create_keyval", made).map(|()| key)
}
