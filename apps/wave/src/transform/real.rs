//! The precision of a computation.

use aqueduct::comm::Plain;
use aqueduct::object::Object;
use aqueduct::stream::StreamValue;
use rustfft::FftNum;

/// A floating-point type in which fields are computed.
pub trait Real: FftNum + Plain + PartialOrd + Object + StreamValue {
    /// The nearest value.
    fn of(value: f64) -> Self;

    /// As `f64`.
    fn wide(self) -> f64;

    /// As it is stored in files.
    fn stored(self) -> f32;
}

impl Real for f32 {
    fn of(value: f64) -> Self {
        value as Self
    }

    fn wide(self) -> f64 {
        f64::from(self)
    }

    fn stored(self) -> f32 {
        self
    }
}

impl Real for f64 {
    fn of(value: f64) -> Self {
        value
    }

    fn wide(self) -> f64 {
        self
    }

    fn stored(self) -> f32 {
        self as f32
    }
}
