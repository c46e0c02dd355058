//! The command `md`.

fn main() {}
