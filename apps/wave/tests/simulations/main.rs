//! Simulations in this process: one program, because each one has all transforms.

mod output_files;
mod physics;
mod validation;
