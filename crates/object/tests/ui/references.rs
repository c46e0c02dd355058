//! Data of others.

use aqueduct_object::Object;

#[derive(Object)]
struct Borrowed<'a> {
    text: &'a str,
}

#[derive(Object)]
struct Static {
    text: &'static str,
}

#[derive(Object)]
struct Pointer(*const u8);

#[derive(Object)]
struct Callback {
    call: fn(u32) -> u32,
}

#[derive(Object)]
struct Dynamic {
    shapes: Vec<Box<dyn std::fmt::Debug>>,
}

fn main() {}
