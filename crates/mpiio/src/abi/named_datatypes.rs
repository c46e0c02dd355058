//! The predefined datatypes of MPI.

use std::collections::HashMap;

use aqueduct_comm::Host;
use aqueduct_comm::abi::{Fact, MpiAbi};
use aqueduct_file::layout::Basic;

use super::handle_fact;

/// The kind of a named datatype.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// One value.
    One(Basic),
    /// Two values, as in a C structure.
    Pair(Basic, Basic),
    /// Fortran types whose size depends on compiler options.
    Logical,
    Integer,
    Real,
    Complex,
    /// A marker of bounds, without data.
    Mark,
}

/// The named datatypes of one implementation, by handle.
pub(crate) struct NamedDatatypes(HashMap<usize, Kind>);

impl NamedDatatypes {
    pub(crate) fn of(host: &Host) -> Self {
        let handle = |object: &str, mpich: usize, standard: usize| match host.abi() {
            MpiAbi::OpenMpi => host.object(object),
            MpiAbi::Mpich => Some(mpich).filter(|handle| *handle != 0),
            MpiAbi::Standard => Some(standard).filter(|handle| *handle != 0),
        };
        let known = TYPES.iter().filter_map(|(_, object, mpich, standard, kind)| {
            handle(object, *mpich, *standard).map(|handle| (handle, *kind))
        });
        Self(known.collect())
    }

    pub(crate) fn kind(&self, handle: usize) -> Option<Kind> {
        self.0.get(&handle).copied()
    }

    /// Those that every header has; the others depend on versions and compilers.
    pub(crate) fn facts(abi: MpiAbi) -> Vec<Fact> {
        let common = TYPES.iter().filter(|(name, ..)| !RARE.contains(name));
        common
            .filter_map(|(name, object, mpich, standard, _)| {
                handle_fact(abi, name, object, *mpich, *standard)
            })
            .collect()
    }
}

/// Datatypes that some builds of an implementation do not have.
const RARE: [&str; 14] = [
    "MPI_LB",
    "MPI_UB",
    "MPI_LOGICAL1",
    "MPI_LOGICAL2",
    "MPI_LOGICAL4",
    "MPI_LOGICAL8",
    "MPI_LOGICAL16",
    "MPI_INTEGER16",
    "MPI_REAL2",
    "MPI_REAL16",
    "MPI_COMPLEX4",
    "MPI_COMPLEX32",
    "MPI_2COMPLEX",
    "MPI_2DOUBLE_COMPLEX",
];

/// Name, Open MPI's object, MPICH, the standard ABI, kind.
#[rustfmt::skip]
const TYPES: [(&str, &str, usize, usize, Kind); 74] = [
    ("MPI_BYTE", "ompi_mpi_byte", 0x4c00_010d, 0x247, Kind::One(Basic::Byte)),
    ("MPI_PACKED", "ompi_mpi_packed", 0x4c00_010f, 0x207, Kind::One(Basic::Packed)),
    ("MPI_CHAR", "ompi_mpi_char", 0x4c00_0101, 0x243, Kind::One(Basic::Char)),
    ("MPI_CHARACTER", "ompi_mpi_character", 0x4c00_011a, 0x21e, Kind::One(Basic::Char)),
    ("MPI_SIGNED_CHAR", "ompi_mpi_signed_char", 0x4c00_0118, 0x244, Kind::One(Basic::I8)),
    ("MPI_UNSIGNED_CHAR", "ompi_mpi_unsigned_char", 0x4c00_0102, 0x245, Kind::One(Basic::U8)),
    ("MPI_WCHAR", "ompi_mpi_wchar", 0x4c00_040e, 0x23c, Kind::One(Basic::WideChar)),
    ("MPI_SHORT", "ompi_mpi_short", 0x4c00_0203, 0x208, Kind::One(Basic::I16)),
    ("MPI_UNSIGNED_SHORT", "ompi_mpi_unsigned_short", 0x4c00_0204, 0x20c, Kind::One(Basic::U16)),
    ("MPI_INT", "ompi_mpi_int", 0x4c00_0405, 0x209, Kind::One(Basic::I32)),
    ("MPI_UNSIGNED", "ompi_mpi_unsigned", 0x4c00_0406, 0x20d, Kind::One(Basic::U32)),
    ("MPI_LONG", "ompi_mpi_long", 0x4c00_0807, 0x20a, Kind::One(Basic::Long)),
    ("MPI_UNSIGNED_LONG", "ompi_mpi_unsigned_long", 0x4c00_0808, 0x20e, Kind::One(Basic::UnsignedLong)),
    ("MPI_LONG_LONG_INT", "ompi_mpi_long_long_int", 0x4c00_0809, 0x20b, Kind::One(Basic::I64)),
    ("MPI_UNSIGNED_LONG_LONG", "ompi_mpi_unsigned_long_long", 0x4c00_0819, 0x20f, Kind::One(Basic::U64)),
    ("MPI_INT8_T", "ompi_mpi_int8_t", 0x4c00_0137, 0x240, Kind::One(Basic::I8)),
    ("MPI_INT16_T", "ompi_mpi_int16_t", 0x4c00_0238, 0x248, Kind::One(Basic::I16)),
    ("MPI_INT32_T", "ompi_mpi_int32_t", 0x4c00_0439, 0x250, Kind::One(Basic::I32)),
    ("MPI_INT64_T", "ompi_mpi_int64_t", 0x4c00_083a, 0x258, Kind::One(Basic::I64)),
    ("MPI_UINT8_T", "ompi_mpi_uint8_t", 0x4c00_013b, 0x241, Kind::One(Basic::U8)),
    ("MPI_UINT16_T", "ompi_mpi_uint16_t", 0x4c00_023c, 0x249, Kind::One(Basic::U16)),
    ("MPI_UINT32_T", "ompi_mpi_uint32_t", 0x4c00_043d, 0x251, Kind::One(Basic::U32)),
    ("MPI_UINT64_T", "ompi_mpi_uint64_t", 0x4c00_083e, 0x259, Kind::One(Basic::U64)),
    ("MPI_AINT", "ompi_mpi_aint", 0x4c00_0843, 0x201, Kind::One(Basic::I64)),
    ("MPI_OFFSET", "ompi_mpi_offset", 0x4c00_0844, 0x203, Kind::One(Basic::I64)),
    ("MPI_COUNT", "ompi_mpi_count", 0x4c00_0845, 0x202, Kind::One(Basic::I64)),
    ("MPI_C_BOOL", "ompi_mpi_c_bool", 0x4c00_013f, 0x238, Kind::One(Basic::Bool)),
    ("MPI_CXX_BOOL", "ompi_mpi_cxx_bool", 0x4c00_0133, 0x239, Kind::One(Basic::Bool)),
    ("MPI_FLOAT", "ompi_mpi_float", 0x4c00_040a, 0x210, Kind::One(Basic::F32)),
    ("MPI_DOUBLE", "ompi_mpi_double", 0x4c00_080b, 0x214, Kind::One(Basic::F64)),
    ("MPI_LONG_DOUBLE", "ompi_mpi_long_double", 0x4c00_100c, 0x220, Kind::One(Basic::LongDouble)),
    ("MPI_C_FLOAT_COMPLEX", "ompi_mpi_c_float_complex", 0x4c00_0840, 0x212, Kind::One(Basic::ComplexF32)),
    ("MPI_C_DOUBLE_COMPLEX", "ompi_mpi_c_double_complex", 0x4c00_1041, 0x216, Kind::One(Basic::ComplexF64)),
    ("MPI_C_LONG_DOUBLE_COMPLEX", "ompi_mpi_c_long_double_complex", 0x4c00_2042, 0x224, Kind::One(Basic::ComplexLongDouble)),
    ("MPI_CXX_FLOAT_COMPLEX", "ompi_mpi_cxx_cplex", 0x4c00_0834, 0x213, Kind::One(Basic::ComplexF32)),
    ("MPI_CXX_DOUBLE_COMPLEX", "ompi_mpi_cxx_dblcplex", 0x4c00_1035, 0x217, Kind::One(Basic::ComplexF64)),
    ("MPI_CXX_LONG_DOUBLE_COMPLEX", "ompi_mpi_cxx_ldblcplex", 0x4c00_2036, 0x225, Kind::One(Basic::ComplexLongDouble)),
    ("MPI_LOGICAL", "ompi_mpi_logical", 0x4c00_041d, 0x218, Kind::Logical),
    ("MPI_LOGICAL1", "ompi_mpi_logical1", 0x4c00_0147, 0x2c0, Kind::One(Basic::I8)),
    ("MPI_LOGICAL2", "ompi_mpi_logical2", 0x4c00_0248, 0x2c8, Kind::One(Basic::I16)),
    ("MPI_LOGICAL4", "ompi_mpi_logical4", 0x4c00_0449, 0x2d0, Kind::One(Basic::Logical)),
    ("MPI_LOGICAL8", "ompi_mpi_logical8", 0x4c00_084a, 0x2d8, Kind::One(Basic::I64)),
    ("MPI_LOGICAL16", "", 0x4c00_104b, 0x2e0, Kind::One(Basic::I128)),
    ("MPI_INTEGER", "ompi_mpi_integer", 0x4c00_041b, 0x219, Kind::Integer),
    ("MPI_INTEGER1", "ompi_mpi_integer1", 0x4c00_012d, 0x2c1, Kind::One(Basic::I8)),
    ("MPI_INTEGER2", "ompi_mpi_integer2", 0x4c00_022f, 0x2c9, Kind::One(Basic::I16)),
    ("MPI_INTEGER4", "ompi_mpi_integer4", 0x4c00_0430, 0x2d1, Kind::One(Basic::I32)),
    ("MPI_INTEGER8", "ompi_mpi_integer8", 0x4c00_0831, 0x2d9, Kind::One(Basic::I64)),
    ("MPI_INTEGER16", "ompi_mpi_integer16", 0x4c00_1032, 0x2e1, Kind::One(Basic::I128)),
    ("MPI_REAL", "ompi_mpi_real", 0x4c00_041c, 0x21a, Kind::Real),
    ("MPI_DOUBLE_PRECISION", "ompi_mpi_dblprec", 0x4c00_081f, 0x21c, Kind::Real),
    ("MPI_REAL2", "ompi_mpi_real2", 0x4c00_0226, 0x2ca, Kind::One(Basic::F16)),
    ("MPI_REAL4", "ompi_mpi_real4", 0x4c00_0427, 0x2d2, Kind::One(Basic::F32)),
    ("MPI_REAL8", "ompi_mpi_real8", 0x4c00_0829, 0x2da, Kind::One(Basic::F64)),
    ("MPI_REAL16", "ompi_mpi_real16", 0x4c00_102b, 0x2e2, Kind::One(Basic::F128)),
    ("MPI_COMPLEX", "ompi_mpi_cplex", 0x4c00_081e, 0x21b, Kind::Complex),
    ("MPI_DOUBLE_COMPLEX", "ompi_mpi_dblcplex", 0x4c00_1022, 0x21d, Kind::Complex),
    ("MPI_COMPLEX4", "ompi_mpi_complex4", 0x4c00_042e, 0x2d3, Kind::One(Basic::ComplexF16)),
    ("MPI_COMPLEX8", "ompi_mpi_complex8", 0x4c00_0828, 0x2db, Kind::One(Basic::ComplexF32)),
    ("MPI_COMPLEX16", "ompi_mpi_complex16", 0x4c00_102a, 0x2e3, Kind::One(Basic::ComplexF64)),
    ("MPI_COMPLEX32", "ompi_mpi_complex32", 0x4c00_202c, 0x2eb, Kind::One(Basic::ComplexF128)),
    ("MPI_FLOAT_INT", "ompi_mpi_float_int", 0x8c00_0000, 0x228, Kind::Pair(Basic::F32, Basic::I32)),
    ("MPI_DOUBLE_INT", "ompi_mpi_double_int", 0x8c00_0001, 0x229, Kind::Pair(Basic::F64, Basic::I32)),
    ("MPI_LONG_INT", "ompi_mpi_long_int", 0x8c00_0002, 0x22a, Kind::Pair(Basic::Long, Basic::I32)),
    ("MPI_SHORT_INT", "ompi_mpi_short_int", 0x8c00_0003, 0x22c, Kind::Pair(Basic::I16, Basic::I32)),
    ("MPI_LONG_DOUBLE_INT", "ompi_mpi_longdbl_int", 0x8c00_0004, 0x22d, Kind::Pair(Basic::LongDouble, Basic::I32)),
    ("MPI_2INT", "ompi_mpi_2int", 0x4c00_0816, 0x22b, Kind::Pair(Basic::I32, Basic::I32)),
    ("MPI_2INTEGER", "ompi_mpi_2integer", 0x4c00_0820, 0x232, Kind::Pair(Basic::I32, Basic::I32)),
    ("MPI_2REAL", "ompi_mpi_2real", 0x4c00_0821, 0x230, Kind::Pair(Basic::F32, Basic::F32)),
    ("MPI_2DOUBLE_PRECISION", "ompi_mpi_2dblprec", 0x4c00_1023, 0x231, Kind::Pair(Basic::F64, Basic::F64)),
    ("MPI_2COMPLEX", "ompi_mpi_2cplex", 0x4c00_1024, 0, Kind::Pair(Basic::ComplexF32, Basic::ComplexF32)),
    ("MPI_2DOUBLE_COMPLEX", "ompi_mpi_2dblcplex", 0x4c00_2025, 0, Kind::Pair(Basic::ComplexF64, Basic::ComplexF64)),
    ("MPI_LB", "ompi_mpi_lb", 0x4c00_0010, 0, Kind::Mark),
    ("MPI_UB", "ompi_mpi_ub", 0x4c00_0011, 0, Kind::Mark),
];
