//! Simulations that need no input file, most of them with an exact solution.

pub mod built_in;
pub mod exact_solution;
pub mod input_writer;
pub mod listed_points;
