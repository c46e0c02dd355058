//! Constants that are numbers.

use aqueduct_comm::abi::{Fact, MpiAbi};

macro_rules! integers {
    ($($field:ident $name:literal $openmpi:literal $mpich:literal $standard:literal;)*) => {
        /// The numbers of one implementation.
        #[derive(Debug)]
        pub(crate) struct Integers { $(pub(crate) $field: i64,)* }

        const OPEN_MPI: Integers = Integers { $($field: $openmpi,)* };
        const MPICH: Integers = Integers { $($field: $mpich,)* };
        const STANDARD: Integers = Integers { $($field: $standard,)* };

        impl Integers {
            pub(crate) fn facts(abi: MpiAbi) -> Vec<Fact> {
                let known = Self::of(abi);
                let all = [$(($name, known.$field),)*];
                let there = all.iter().filter(|(_, value)| *value != ABSENT);
                there.map(|(name, value)| Fact { expression: format!("(long)(intptr_t)({name})"), value: *value }).collect()
            }
        }
    };
}

/// The value of a constant that an implementation does not have; no constant has this value.
const ABSENT: i64 = -1_000_000;

impl Integers {
    pub(crate) fn of(abi: MpiAbi) -> &'static Self {
        match abi {
            MpiAbi::OpenMpi => &OPEN_MPI,
            MpiAbi::Mpich => &MPICH,
            MpiAbi::Standard => &STANDARD,
        }
    }
}

integers! {
    // Name, Open MPI, MPICH, the standard ABI.
    access "MPI_ERR_ACCESS" 20 20 20;
    amode "MPI_ERR_AMODE" 21 21 21;
    arg "MPI_ERR_ARG" 13 12 13;
    bad_file "MPI_ERR_BAD_FILE" 23 22 23;
    buffer "MPI_ERR_BUFFER" 1 1 1;
    comm "MPI_ERR_COMM" 5 5 5;
    conversion "MPI_ERR_CONVERSION" 25 23 25;
    count "MPI_ERR_COUNT" 2 2 2;
    dup_datarep "MPI_ERR_DUP_DATAREP" 27 24 27;
    file "MPI_ERR_FILE" 30 27 30;
    file_exists "MPI_ERR_FILE_EXISTS" 28 25 28;
    file_in_use "MPI_ERR_FILE_IN_USE" 29 26 29;
    in_status "MPI_ERR_IN_STATUS" 18 17 19;
    info "MPI_ERR_INFO" 34 28 34;
    intern "MPI_ERR_INTERN" 17 16 17;
    io "MPI_ERR_IO" 35 32 35;
    no_space "MPI_ERR_NO_SPACE" 41 36 41;
    no_such_file "MPI_ERR_NO_SUCH_FILE" 42 37 42;
    not_same "MPI_ERR_NOT_SAME" 40 35 40;
    other "MPI_ERR_OTHER" 16 15 16;
    quota "MPI_ERR_QUOTA" 44 39 44;
    read_only "MPI_ERR_READ_ONLY" 45 40 45;
    request "MPI_ERR_REQUEST" 7 19 7;
    type_ "MPI_ERR_TYPE" 3 3 3;
    unsupported_datarep "MPI_ERR_UNSUPPORTED_DATAREP" 51 43 54;
    unsupported_operation "MPI_ERR_UNSUPPORTED_OPERATION" 52 44 55;

    mode_create "MPI_MODE_CREATE" 1 1 2;
    mode_rdonly "MPI_MODE_RDONLY" 2 2 16;
    mode_wronly "MPI_MODE_WRONLY" 4 4 256;
    mode_rdwr "MPI_MODE_RDWR" 8 8 32;
    mode_delete_on_close "MPI_MODE_DELETE_ON_CLOSE" 16 16 4;
    mode_unique_open "MPI_MODE_UNIQUE_OPEN" 32 32 128;
    mode_excl "MPI_MODE_EXCL" 64 64 8;
    mode_append "MPI_MODE_APPEND" 128 128 1;
    mode_sequential "MPI_MODE_SEQUENTIAL" 256 256 64;
    seek_set "MPI_SEEK_SET" 600 600 403;
    seek_cur "MPI_SEEK_CUR" 602 602 401;
    seek_end "MPI_SEEK_END" 604 604 402;
    displacement_current "MPI_DISPLACEMENT_CURRENT" -54_278_278 -54_278_278 -1;
    longest_datarep "MPI_MAX_DATAREP_STRING" 128 128 128;
    status_ignore "MPI_STATUS_IGNORE" 0 1 0;
    thread_multiple "MPI_THREAD_MULTIPLE" 3 3 4096;
    proc_null "MPI_PROC_NULL" -2 -1 -3;
    keyval_invalid "MPI_KEYVAL_INVALID" -1 0x2400_0000 0;

    order_c "MPI_ORDER_C" 0 56 12;
    order_fortran "MPI_ORDER_FORTRAN" 1 57 15;
    block "MPI_DISTRIBUTE_BLOCK" 0 121 17;
    cyclic "MPI_DISTRIBUTE_CYCLIC" 1 122 18;
    whole "MPI_DISTRIBUTE_NONE" 2 123 16;
    default_argument "MPI_DISTRIBUTE_DFLT_DARG" -1 -49_767 19;

    named "MPI_COMBINER_NAMED" 0 1 101;
    dup "MPI_COMBINER_DUP" 1 2 102;
    contiguous "MPI_COMBINER_CONTIGUOUS" 2 3 103;
    vector "MPI_COMBINER_VECTOR" 3 4 104;
    hvector_integer "MPI_COMBINER_HVECTOR_INTEGER" -1_000_000 5 -1_000_000;
    hvector "MPI_COMBINER_HVECTOR" 5 6 105;
    indexed "MPI_COMBINER_INDEXED" 6 7 106;
    hindexed_integer "MPI_COMBINER_HINDEXED_INTEGER" -1_000_000 8 -1_000_000;
    hindexed "MPI_COMBINER_HINDEXED" 8 9 107;
    indexed_block "MPI_COMBINER_INDEXED_BLOCK" 9 10 108;
    struct_integer "MPI_COMBINER_STRUCT_INTEGER" -1_000_000 11 -1_000_000;
    structure "MPI_COMBINER_STRUCT" 11 12 110;
    subarray "MPI_COMBINER_SUBARRAY" 12 13 111;
    darray "MPI_COMBINER_DARRAY" 13 14 112;
    f90_real "MPI_COMBINER_F90_REAL" 14 15 113;
    f90_complex "MPI_COMBINER_F90_COMPLEX" 15 16 114;
    f90_integer "MPI_COMBINER_F90_INTEGER" 16 17 115;
    resized "MPI_COMBINER_RESIZED" 17 18 116;
    hindexed_block "MPI_COMBINER_HINDEXED_BLOCK" 18 19 109;
}
