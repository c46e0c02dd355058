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
//! | [`ObjectCommExt`] | objects between ranks |
//! | [`ObjectFile`], [`ObjectOpenOptions`] | objects in files: all ways of access, commit, checksums |
//! | [`DynObjectFile`], [`DynObjectWriter`], [`SchemaDecoder`] | files and objects of which only the schema is known |
//! | [`ObjectView`] | which objects a rank sees |
//! | [`FieldAccess`] | one field of all objects |
//! | [`repair`] | a file that is not complete, or whose `.meta` is gone |
//!
//! The bytes are in `docs/format-object.md`.

extern crate self as aqueduct_object;

mod codec;
mod comm_ext;
mod dyn_file;
mod error;
mod file;
mod into_objects;
mod object;
pub mod schema;
mod schema_decoder;

pub use aqueduct_derive::Object;
pub use codec::{DecodeError, Decoder, Encoder};
pub use comm_ext::{ObjectCommExt, ObjectReceiveRequest};
pub use dyn_file::{DynObjectFile, DynObjectWriter};
pub use error::{Error, Kind, Result};
pub use file::{
    FieldAccess, ObjectAccess, ObjectFile, ObjectOpenOptions, ObjectSplitRequest, ObjectView, ReadRequest,
    RepairReport, WriteRequest, repair,
};
pub use into_objects::{EncodedBatch, FromIter, IntoObjects, Single};
#[doc(hidden)]
pub use object::fold;
pub use object::{Category, Object, SchemaBuilder, bytes_mut, decode, decode_all, encode, encode_all};
pub use schema::Schema;
pub use schema_decoder::SchemaDecoder;
