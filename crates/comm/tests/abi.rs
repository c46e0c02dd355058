//! Compares every constant and layout of `comm::abi` with each MPI implementation's header.

use aqueduct_comm::abi::facts;
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
