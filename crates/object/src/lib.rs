//! Typed objects: schema, encoding, messages between ranks, object files.
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
//! | [`Object`] | the trait of types that can be sent and stored; derived |
//! | [`Category`] | whether values are copied as memory, or encoded; known at compile time |
//! | [`schema`] | types as values: printed, compared, hashed, as a numpy dtype |
//! | [`ObjectCommExt`] | objects between ranks |
//! | [`ObjectFile`], [`ObjectOpenOptions`] | objects in files: independent and collective access, commit, checksums |
//! | [`DynObjectFile`], [`DynObjectWriter`], [`SchemaDecoder`] | files and objects whose type is known at run time only |
//! | [`ObjectView`] | which objects a rank sees |
//! | [`FieldAccess`] | one field of all objects |
//! | [`FieldIndex`] | objects found by the value of a field |
//! | [`compact`], [`delete`] | a copy without overwritten objects; deletion of a file |
//! | [`repair`] | repairs a file that is incomplete, or whose `.meta` is missing or damaged |
//!
//! `docs/format-object.md` specifies the format.

extern crate self as aqueduct_object;

mod codec;
mod comm_ext;
mod dyn_file;
mod error;
mod file;
mod into_objects;
mod object;
mod provenance;
pub mod schema;
mod schema_decoder;

pub use aqueduct_derive::Object;
pub use codec::{DecodeError, Decoder, Encoder};
pub use comm_ext::{ObjectCollectiveRequest, ObjectCommExt, ObjectReceiveRequest};
pub use dyn_file::{DynObjectFile, DynObjectWriter};
pub use error::{Error, Kind, Result};
pub use file::{
    BorrowScope, BorrowedWrite, Collective, CollectiveFieldAccess, CollectiveObjectAccess, CompactionReport,
    FieldAccess, FieldIndex, Independent, ObjectAccess, ObjectFile, ObjectOpenOptions, ObjectSplitRequest,
    ObjectView, ReadRequest, RepairReport, WriteRequest, compact, delete, repair, repair_described,
};
pub use into_objects::{EncodedBatch, FromIter, IntoObjects, Single};
#[doc(hidden)]
pub use object::fold;
pub use object::{
    Category, Object, SchemaBuilder, bytes_mut, decode, decode_all, encode, encode_all, zeroed,
};
pub use provenance::{FileProvenance, UtcTime};
pub use schema::Schema;
pub use schema_decoder::SchemaDecoder;
