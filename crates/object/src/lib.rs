//! Typed objects: sent between ranks, stored in files, found again.
//!
//! ```
//! use aqueduct_object::{Category, Object};
//!
//! #[derive(Object)]
//! struct Particle {
//!     #[object(unit = "m")]
//!     position: [f64; 3],
//!     charge: f64,
//! }
//!
//! assert_eq!((Particle::CATEGORY, Particle::SIZE), (Category::Trivial, Some(32)));
//! println!("{}", Particle::schema());
//! ```
//!
//! | | |
//! |---|---|
//! | [`Object`] | what can be sent and stored; derived, never written by hand |
//! | [`Category`] | how much work that is, known at compile time |
//! | [`schema`] | types as values: printed, compared, hashed, as a numpy dtype |
//! | [`Talk`] | objects between ranks |

#![allow(dead_code, reason = "object files are on their way")]

extern crate self as aqueduct_object;

mod cast;
mod category;
mod codec;
mod compound;
mod container;
mod error;
mod items;
mod object;
mod primitive;
pub mod schema;
mod talk;

pub use aqueduct_derive::Object;
pub use category::Category;
#[doc(hidden)]
pub use category::fold;
pub use codec::{DecodeError, Decoder, Encoder};
pub use error::{Error, Kind, Result};
pub use items::{Each, Items, One, Packed};
pub use object::{Object, decode, encode};
pub use schema::Schema;
pub use talk::{ReceivingObjects, Talk};
