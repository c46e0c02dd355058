//! Every constant and layout that files rely on, compared with each MPI implementation's own header.

use aqueduct_mpiio::abi::facts;
use aqueduct_testkit::headers;

#[test]
fn open_mpi() {
    headers::open_mpi(facts);
}

#[test]
fn mpich() {
    headers::mpich(facts);
}

#[test]
fn standard() {
    headers::standard(facts);
}

#[test]
fn mpich_5() {
    headers::mpich_5(facts);
}

#[test]
fn open_mpi_5() {
    headers::open_mpi_5(facts);
}
