//! Constants that are handles: addresses of exported objects in Open MPI, numbers elsewhere.

use aqueduct_comm::Host;
use aqueduct_comm::abi::{Fact, MpiAbi};

use super::handle_fact;

macro_rules! handles {
    ($($field:ident $name:literal $openmpi:literal $mpich:literal $standard:literal;)*) => {
        /// The handles of one implementation.
        #[derive(Debug)]
        pub(crate) struct Handles { $(pub(crate) $field: usize,)* }

        impl Handles {
            pub(crate) fn of(host: &Host) -> Result<Self, String> {
                let find = |object: &str, mpich: usize, standard: usize| match host.abi() {
                    MpiAbi::Mpich => Ok(mpich),
                    MpiAbi::Standard => Ok(standard),
                    MpiAbi::OpenMpi => host.object(object).ok_or_else(|| {
                        format!("{} lacks {object}; use a complete Open MPI", host.path().display())
                    }),
                };
                Ok(Self { $($field: find($openmpi, $mpich, $standard)?,)* })
            }

            pub(crate) fn facts(abi: MpiAbi) -> Vec<Fact> {
                [$(handle_fact(abi, $name, $openmpi, $mpich, $standard),)*].into_iter().flatten().collect()
            }
        }
    };
}

handles! {
    // Name, Open MPI's object, MPICH, the standard ABI.
    comm_world "MPI_COMM_WORLD" "ompi_mpi_comm_world" 0x4400_0000 0x101;
    comm_self "MPI_COMM_SELF" "ompi_mpi_comm_self" 0x4400_0001 0x102;
    comm_null "MPI_COMM_NULL" "ompi_mpi_comm_null" 0x0400_0000 0x100;
    file_null "MPI_FILE_NULL" "ompi_mpi_file_null" 0 0x118;
    info_null "MPI_INFO_NULL" "ompi_mpi_info_null" 0x1c00_0000 0x130;
    datatype_null "MPI_DATATYPE_NULL" "ompi_mpi_datatype_null" 0x0c00_0000 0x200;
    request_null "MPI_REQUEST_NULL" "ompi_request_null" 0x2c00_0000 0x180;
    byte "MPI_BYTE" "ompi_mpi_byte" 0x4c00_010d 0x247;
    errhandler_null "MPI_ERRHANDLER_NULL" "ompi_mpi_errhandler_null" 0x1400_0000 0x140;
    errors_are_fatal "MPI_ERRORS_ARE_FATAL" "ompi_mpi_errors_are_fatal" 0x5400_0000 0x141;
    errors_return "MPI_ERRORS_RETURN" "ompi_mpi_errors_return" 0x5400_0001 0x143;
}

/// `MPI_ERRORS_ABORT`, which Open MPI has from version 5 on.
pub(crate) fn errors_abort(host: &Host) -> Option<usize> {
    match host.abi() {
        MpiAbi::OpenMpi => host.object("ompi_mpi_errors_abort"),
        MpiAbi::Mpich => Some(0x5400_0003),
        MpiAbi::Standard => Some(0x142),
    }
}
