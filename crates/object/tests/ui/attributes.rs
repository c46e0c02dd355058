//! Attributes that are unknown or contradict each other.

use aqueduct_object::Object;

#[derive(Object)]
struct Unknown {
    #[object(colour = "red")]
    a: u32,
}

#[derive(Object)]
struct Skipped {
    #[object(skip, unit = "m")]
    a: u32,
}

#[derive(Object)]
struct Twice {
    #[object(rename = "b")]
    a: u32,
    b: u32,
}

#[derive(Object)]
struct Path {
    #[object(rename = "a.b")]
    a: u32,
}

#[derive(Object)]
#[object(removed("C"))]
enum Choice {
    A,
    B,
}

fn main() {}
