//! Differences between MPI implementations: the width of handles, the values of constants, the layout of a status.
//!
//! The test `abi` compares every constant with the implementation's header.

use std::ffi::c_int;

use super::ThreadLevel;
use super::library::Library;
use crate::Result;

/// The supported ABIs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MpiAbi {
    /// Open MPI 4 and 5: handles are addresses of exported objects.
    OpenMpi,
    /// MPICH and derived libraries (Intel MPI, MVAPICH, Cray): handles are integers.
    Mpich,
    /// The standard ABI of MPI 5: handles are small numbers in pointers.
    Standard,
}

/// An ABI as types.
pub(crate) trait Abi: Send + Sync + 'static {
    const MPI_ABI: MpiAbi;
    const ANY_SOURCE: c_int;
    /// The values of `MPI_THREAD_SINGLE` … `MPI_THREAD_MULTIPLE`.
    const THREAD_LEVELS: [c_int; 4];
    type Handle: Copy + Send + Sync + 'static;
    type Status: AbiStatus;

    fn constants(library: &Library) -> Result<MpiHandles<Self::Handle>>;

    /// A communicator handle of a host program.
    fn handle(raw: usize) -> Self::Handle;

    fn thread_level(value: c_int) -> ThreadLevel {
        // Values between two levels mean the lower one.
        let known = Self::THREAD_LEVELS.iter().rposition(|level| *level <= value);
        ThreadLevel::ALL[known.unwrap_or(0)]
    }
}

/// A status that MPI fills.
pub(crate) trait AbiStatus: Copy + Default + Send {
    fn source(&self) -> c_int;
}

/// The predefined handles that are passed to MPI.
#[derive(Clone, Copy)]
pub(crate) struct MpiHandles<H> {
    pub(crate) world: H,
    pub(crate) byte: H,
    pub(crate) errors_return: H,
    pub(crate) request_null: H,
    pub(crate) message_null: H,
    pub(crate) info_null: H,
    pub(crate) uint64: H,
    pub(crate) sum: H,
    pub(crate) replace: H,
}

impl<H> MpiHandles<H> {
    /// In the order of [`OPEN_MPI_OBJECTS`].
    fn in_order(self) -> [H; HANDLES] {
        let Self { world, byte, errors_return, request_null, message_null, info_null, uint64, sum, replace } =
            self;
        [world, byte, errors_return, request_null, message_null, info_null, uint64, sum, replace]
    }
}

macro_rules! status {
    ($(#[$doc:meta])* $name:ident { $($field:ident: $type:ty),* }) => {
        $(#[$doc])*
        #[repr(C)]
        #[derive(Clone, Copy, Default)]
        pub(crate) struct $name { $($field: $type),* }
        impl AbiStatus for $name {
            fn source(&self) -> c_int {
                self.source
            }
        }
    };
}

status!(OpenMpiStatus { source: c_int, tag: c_int, error: c_int, cancelled: c_int, count: usize });
status!(MpichStatus { count_low: c_int, count_high: c_int, source: c_int, tag: c_int, error: c_int });
status!(StandardStatus { source: c_int, tag: c_int, error: c_int, reserved: [c_int; 5] });

pub(crate) struct OpenMpi;
pub(crate) struct Mpich;
pub(crate) struct StandardAbi;

/// The number of predefined handles.
const HANDLES: usize = 9;

const OPEN_MPI_OBJECTS: [(&str, &str); HANDLES] = [
    ("MPI_COMM_WORLD", "ompi_mpi_comm_world"),
    ("MPI_BYTE", "ompi_mpi_byte"),
    ("MPI_ERRORS_RETURN", "ompi_mpi_errors_return"),
    ("MPI_REQUEST_NULL", "ompi_request_null"),
    ("MPI_MESSAGE_NULL", "ompi_message_null"),
    ("MPI_INFO_NULL", "ompi_mpi_info_null"),
    ("MPI_UINT64_T", "ompi_mpi_uint64_t"),
    ("MPI_SUM", "ompi_mpi_op_sum"),
    ("MPI_REPLACE", "ompi_mpi_op_replace"),
];

impl Abi for OpenMpi {
    const MPI_ABI: MpiAbi = MpiAbi::OpenMpi;
    const ANY_SOURCE: c_int = -1;
    const THREAD_LEVELS: [c_int; 4] = [0, 1, 2, 3];
    type Handle = usize;
    type Status = OpenMpiStatus;

    fn constants(library: &Library) -> Result<MpiHandles<usize>> {
        let object = |index: usize| library.address(OPEN_MPI_OBJECTS[index].1);
        Ok(MpiHandles {
            world: object(0)?,
            byte: object(1)?,
            errors_return: object(2)?,
            request_null: object(3)?,
            message_null: object(4)?,
            info_null: object(5)?,
            uint64: object(6)?,
            sum: object(7)?,
            replace: object(8)?,
        })
    }

    fn handle(raw: usize) -> usize {
        raw
    }
}

const MPICH: MpiHandles<c_int> = MpiHandles {
    world: 0x4400_0000,
    byte: 0x4c00_010d,
    errors_return: 0x5400_0001,
    request_null: 0x2c00_0000,
    message_null: 0x2c00_0000,
    info_null: 0x1c00_0000,
    uint64: 0x4c00_083e,
    sum: 0x5800_0003,
    replace: 0x5800_000d,
};

impl Abi for Mpich {
    const MPI_ABI: MpiAbi = MpiAbi::Mpich;
    const ANY_SOURCE: c_int = -2;
    const THREAD_LEVELS: [c_int; 4] = [0, 1, 2, 3];
    type Handle = c_int;
    type Status = MpichStatus;

    fn constants(_library: &Library) -> Result<MpiHandles<c_int>> {
        Ok(MPICH)
    }

    fn handle(raw: usize) -> c_int {
        raw as c_int
    }
}

const STANDARD: MpiHandles<usize> = MpiHandles {
    world: 0x101,
    byte: 0x247,
    errors_return: 0x143,
    request_null: 0x180,
    message_null: 0x128,
    info_null: 0x130,
    uint64: 0x259,
    sum: 0x21,
    replace: 0x3c,
};

impl Abi for StandardAbi {
    const MPI_ABI: MpiAbi = MpiAbi::Standard;
    const ANY_SOURCE: c_int = -1;
    const THREAD_LEVELS: [c_int; 4] = [0, 1024, 2048, 4096];
    type Handle = usize;
    type Status = StandardStatus;

    fn constants(_library: &Library) -> Result<MpiHandles<usize>> {
        Ok(STANDARD)
    }

    fn handle(raw: usize) -> usize {
        raw
    }
}

/// A fact that this crate relies on, to be compared with a header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fact {
    /// A C expression over the names of `mpi.h`.
    pub expression: String,
    /// Its value, as a `long`.
    pub value: i64,
}

/// All facts for `abi`. (For Open MPI the expressions check that a constant is the address of an exported object.)
pub fn facts(abi: MpiAbi) -> Vec<Fact> {
    match abi {
        MpiAbi::OpenMpi => {
            let mut facts = common_facts::<OpenMpi>();
            facts.extend(OPEN_MPI_OBJECTS.iter().map(|(constant, object)| Fact {
                expression: format!("(void *){constant} == dlsym(RTLD_DEFAULT, \"{object}\")"),
                value: 1,
            }));
            facts
        }
        MpiAbi::Mpich => [common_facts::<Mpich>(), handle_facts(MPICH.in_order().map(i64::from))].concat(),
        MpiAbi::Standard => {
            let known = STANDARD.in_order().map(|handle| handle as i64);
            [common_facts::<StandardAbi>(), handle_facts(known)].concat()
        }
    }
}

fn handle_facts(values: [i64; HANDLES]) -> Vec<Fact> {
    let named = OPEN_MPI_OBJECTS.iter().map(|(constant, _)| constant).zip(values);
    named.map(|(constant, value)| fact(format!("(long)(intptr_t){constant}"), value)).collect()
}

fn common_facts<A: Abi>() -> Vec<Fact> {
    let mut facts = vec![
        fact("MPI_SUCCESS", 0),
        fact("MPI_ANY_SOURCE", i64::from(A::ANY_SOURCE)),
        fact("sizeof(MPI_Status)", size_of::<A::Status>() as i64),
        fact("offsetof(MPI_Status, MPI_SOURCE)", source_offset::<A>()),
        fact("sizeof(MPI_Aint)", size_of::<isize>() as i64),
        fact("MPI_MAX_ERROR_STRING <= 8192", 1),
        fact("MPI_MAX_LIBRARY_VERSION_STRING <= 8192", 1),
    ];
    let handles = ["Comm", "Datatype", "Request", "Message", "Errhandler", "Info", "Op", "Win"];
    for handle in handles {
        facts.push(fact(format!("sizeof(MPI_{handle})"), size_of::<A::Handle>() as i64));
    }
    let levels = ["SINGLE", "FUNNELED", "SERIALIZED", "MULTIPLE"];
    for (level, value) in levels.iter().zip(A::THREAD_LEVELS) {
        facts.push(fact(format!("MPI_THREAD_{level}"), i64::from(value)));
    }
    facts
}

fn source_offset<A: Abi>() -> i64 {
    let offset = match A::MPI_ABI {
        MpiAbi::OpenMpi => std::mem::offset_of!(OpenMpiStatus, source),
        MpiAbi::Mpich => std::mem::offset_of!(MpichStatus, source),
        MpiAbi::Standard => std::mem::offset_of!(StandardStatus, source),
    };
    offset as i64
}

fn fact(expression: impl Into<String>, value: i64) -> Fact {
    Fact { expression: expression.into(), value }
}
