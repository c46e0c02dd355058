//! An object file whose type the program does not know: for tools.

use std::ops::Range;

use crate::error::{Kind, Result};
use crate::schema::{ByteOrder, Schema};
use crate::store::Store;

/// An object file that is read without knowing its type; see [`ObjectOpen::open_untyped`](crate::ObjectOpen::open_untyped).
///
/// ```
/// use aqueduct_comm::Launch;
/// use aqueduct_object::{ObjectFile, ObjectOpen};
///
/// Launch::threads(1).run(|world| {
///     let file = ObjectFile::<u16>::create(world, "memfs:untyped")?;
///     file.next().all().write(&[1, 2, 3])?;
///     file.close()?;
///     let file = ObjectOpen::open_untyped(world, "memfs:untyped")?;
///     assert_eq!((file.schema().signature(), file.count()?), ("u16", 3));
///     assert_eq!(file.read(1..3)?, [2, 0, 3, 0]);
///     file.verify()
/// })?;
/// # Ok::<(), aqueduct_comm::Error>(())
/// ```
pub struct Untyped {
    store: Store,
}

impl Untyped {
    pub(crate) fn new(store: Store) -> Self {
        Self { store }
    }

    /// What the objects are.
    pub fn schema(&self) -> &Schema {
        &self.store.schema
    }

    /// In which order the bytes of numbers are.
    pub fn byte_order(&self) -> ByteOrder {
        self.store.order
    }

    /// How many objects there are.
    pub fn count(&self) -> Result<u64> {
        self.store.count()
    }

    /// The encoded form of objects of constant size, in the byte order of the file; compared with their checksums.
    pub fn read(&self, objects: Range<u64>) -> Result<Vec<u8>> {
        let Some(size) = self.store.schema.size() else {
            let detail = "the objects have different sizes; a program that knows their type reads them";
            return Err(self.store.error(Kind::Unsupported, "read", detail));
        };
        let count = self.count()?;
        if objects.start > objects.end || objects.end > count {
            let detail = format!("objects {objects:?} are asked for, there are {count}");
            return Err(self.store.error(Kind::BadArgument, "read", detail));
        }
        let bytes = objects.start * size..objects.end * size;
        self.store.verify(bytes.clone())?;
        let mut read = vec![0; (bytes.end - bytes.start) as usize];
        self.store.plain.at(bytes.start).read(&mut read)?;
        Ok(read)
    }

    /// Compares all data with its checksums, the ranks sharing the work. Collective.
    pub fn verify(&self) -> Result<()> {
        self.store.verify_all()
    }
}
