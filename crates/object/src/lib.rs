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
//! | [`ObjectFile`], [`ObjectOpen`] | objects in files: all ways of access, commit, checksums |
//! | [`Untyped`], [`UntypedWriter`], [`Decoding`] | files and objects of which only the schema is known |
//! | [`ObjectView`] | which objects a rank sees |
//! | [`Field`] | one field of all objects |
//! | [`repair`] | a file that is not complete, or whose `.meta` is gone |
//!
//! The bytes are in `docs/format-object.md`.

extern crate self as aqueduct_object;

pub mod access;
mod cast;
mod category;
mod codec;
mod compound;
mod container;
mod decoding;
mod error;
mod field;
mod file;
mod gather;
mod items;
mod meta;
mod object;
mod primitive;
mod request;
pub mod schema;
mod store;
mod talk;
mod untyped;
mod view;

pub use access::Access;
pub use aqueduct_derive::Object;
pub use category::Category;
#[doc(hidden)]
pub use category::fold;
pub use codec::{DecodeError, Decoder, Encoder};
pub use decoding::Decoding;
pub use error::{Error, Kind, Result};
pub use field::Field;
pub use file::ObjectFile;
pub use items::{Each, Items, One, Packed};
pub use object::{Object, bytes_mut, decode, decode_all, encode, encode_all};
pub use request::{ReadRequest, Split, WriteRequest};
pub use schema::Schema;
pub use store::{ObjectOpen, Repaired, repair};
pub use talk::{ReceivingObjects, Talk};
pub use untyped::{Untyped, UntypedWriter};
pub use view::ObjectView;
