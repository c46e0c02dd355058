//! Things that are not data.

use aqueduct_object::Object;

#[derive(Object)]
struct Locked {
    value: std::sync::Mutex<u32>,
}

#[derive(Object)]
struct Open {
    name: String,
    file: Option<std::fs::File>,
}

#[derive(Object)]
union Either {
    a: u32,
    b: f32,
}

#[derive(Object)]
enum Never {}

fn main() {}
