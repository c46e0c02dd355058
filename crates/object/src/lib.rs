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

pub mod access;
mod cast;
mod category;
mod codec;
mod comm_ext;
mod compound;
mod container;
mod dyn_file;
mod error;
mod field_access;
mod file;
mod gather;
mod into_objects;
mod meta_file;
mod object;
mod open_file;
mod primitive;
mod request;
pub mod schema;
mod schema_decoder;
mod view;

pub use access::ObjectAccess;
pub use aqueduct_derive::Object;
pub use category::Category;
#[doc(hidden)]
pub use category::fold;
pub use codec::{DecodeError, Decoder, Encoder};
pub use comm_ext::{ObjectCommExt, ObjectReceiveRequest};
pub use dyn_file::{DynObjectFile, DynObjectWriter};
pub use error::{Error, Kind, Result};
pub use field_access::FieldAccess;
pub use file::ObjectFile;
pub use into_objects::{EncodedBatch, FromIter, IntoObjects, Single};
pub use object::{Object, bytes_mut, decode, decode_all, encode, encode_all};
pub use open_file::{ObjectOpenOptions, RepairReport, repair};
pub use request::{ObjectSplitRequest, ReadRequest, WriteRequest};
pub use schema::Schema;
pub use schema_decoder::SchemaDecoder;
pub use view::ObjectView;
