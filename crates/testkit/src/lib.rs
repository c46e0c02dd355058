//! The judges.

pub mod seeded;
pub mod transport;
