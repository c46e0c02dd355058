//! Layouts against an oracle that follows the definitions of the MPI standard literally, against MPI itself, and at sizes no oracle reaches.

#[path = "layout/arrays.rs"]
mod arrays;
#[path = "layout/bounds.rs"]
mod bounds;
#[path = "layout/copies.rs"]
mod copies;
#[path = "layout/errors.rs"]
mod errors;
#[path = "layout/huge.rs"]
mod huge;
#[path = "layout/mpi.rs"]
mod mpi;
#[path = "layout/oracle.rs"]
mod oracle;
#[path = "layout/properties.rs"]
mod properties;
#[path = "layout/shapes.rs"]
mod shapes;
#[path = "layout/spec.rs"]
mod spec;
#[path = "layout/speed.rs"]
mod speed;
