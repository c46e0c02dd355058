//! The human door.
fn main() {}
