//! Non-blocking writes of borrowed objects: a scope that does not end before they do.

use std::marker::PhantomData;
use std::sync::OnceLock;

use aqueduct_file::{Outgoing, Request, Scope, Source};

use super::ObjectFile;
use super::access::ObjectAccess;
use super::scope::ObjectScope;
use crate::error::Result;
use crate::into_objects::{EncodedBatch, IntoObjects, encode_range, measure_batch};
use crate::object::cast;
use crate::schema::ByteOrder;
use crate::{Encoder, Object};

/// Non-blocking writes of borrowed objects; see [`ObjectFile::scope`].
#[derive(Clone, Copy)]
pub struct BorrowScope<'scope, 'env> {
    scope: &'scope Scope<'scope, 'env>,
}

/// A non-blocking write of borrowed objects. Dropping it does not cancel the write.
#[must_use = "a write is only known to have succeeded after `wait`"]
pub struct BorrowedWrite<'a, T> {
    request: Request<BorrowedObjects<'a>>,
    count: u64,
    objects: PhantomData<&'a T>,
}

impl<T> BorrowedWrite<'_, T> {
    /// Waits until it is done; the number of objects.
    pub fn wait(self) -> Result<u64> {
        self.request.wait().map(|_| self.count)
    }

    /// True if it is done.
    pub fn is_done(&self) -> bool {
        self.request.is_done()
    }
}

/// A function that gives the stored bytes from an index on.
type Generator<'a> = Box<dyn Fn(u64, &mut [u8]) + Send + Sync + 'a>;

/// The stored bytes of borrowed objects.
enum BorrowedObjects<'a> {
    /// The bytes of trivial objects in memory.
    Plain(&'a [u8]),
    /// Encoded when the write was started.
    Encoded(Vec<u8>),
    /// Encoded by the thread that writes.
    Later { size: u64, encode: Generator<'a> },
}

impl Outgoing for BorrowedObjects<'_> {
    fn source(&self) -> Source<'_> {
        match self {
            Self::Plain(bytes) => (*bytes).into(),
            Self::Encoded(bytes) => bytes.into(),
            Self::Later { size, encode } => Source::generated(*size, encode),
        }
    }
}

impl<T: Object> ObjectFile<T> {
    /// Runs `body`, in which writes of borrowed objects can be started; returns when all of them are done. Trivial objects are written from where they
    /// are, others of a slice are encoded by the thread that writes.
    ///
    /// ```
    /// use aqueduct_comm::Launch;
    /// use aqueduct_object::{FromIter, Object, ObjectFile, ObjectView};
    ///
    /// #[derive(Object)]
    /// struct Path { points: Vec<[f64; 3]> }
    ///
    /// Launch::threads(2).run(|world| {
    ///     let paths: Vec<Path> = (0..10).map(|at| Path { points: vec![[0.5; 3]; at] }).collect();
    ///     let file = ObjectFile::create(world, "memfs:lent")?;
    ///     file.set_view(&ObjectView::contiguous(world, 10)?)?;
    ///     file.scope(|scope| {
    ///         let writing = scope.write(file.at(0).all(), &paths)?;
    ///         // … compute, reading the paths …
    ///         assert_eq!(writing.wait()?, 10);
    ///         Ok::<_, aqueduct_object::Error>(())
    ///     })?;
    ///     file.close()
    /// })?;
    /// # Ok::<(), aqueduct_comm::Error>(())
    /// ```
    pub fn scope<'env, R>(&self, body: impl for<'scope> FnOnce(BorrowScope<'scope, 'env>) -> R) -> R {
        self.open_file.data.scope(|scope| body(BorrowScope { scope }))
    }
}

impl<'scope> BorrowScope<'scope, '_> {
    /// Starts writing borrowed objects: a slice, a vector, or the items of an iterator, which are encoded at once.
    #[allow(clippy::needless_pass_by_value, reason = "an access is used up, as by its own methods")]
    pub fn write<T: Object + Sync, S: ObjectScope>(
        self,
        access: ObjectAccess<'_, T, S>,
        objects: impl IntoObjects<'scope, T>,
    ) -> Result<BorrowedWrite<'scope, T>> {
        let file = access.file();
        let is_later = file.open_file.order == ByteOrder::Little && !cast::is_plain::<T>();
        let later = objects.slice().filter(|_| is_later);
        let packed = match later {
            Some(objects) => measure_batch(objects),
            None => objects.encode_batch(),
        };
        let (count, size) = (packed.count as u64, packed.size() as u64);
        let (offset, packed, written) =
            access.prepare_write(packed).map_err(|error| access.fail_start_write(error))?;
        let buffer = match (later, packed) {
            (Some(objects), _) => BorrowedObjects::Later { size, encode: encode_later(objects) },
            (None, EncodedBatch { bytes: std::borrow::Cow::Borrowed(bytes), .. }) => {
                BorrowedObjects::Plain(bytes)
            }
            (None, packed) => BorrowedObjects::Encoded(packed.bytes.into_owned()),
        };
        let request = S::lend_write(self.scope, access.place(offset), buffer)?;
        file.open_file.record_write(written);
        Ok(BorrowedWrite { request, count, objects: PhantomData })
    }
}

/// Encodes objects of constant size when their bytes are needed, others all when the first of their bytes is.
fn encode_later<T: Object + Sync>(objects: &[T]) -> Generator<'_> {
    if T::SIZE.is_some() {
        return Box::new(|from, out| encode_range(objects, from, out));
    }
    let encoded: OnceLock<Vec<u8>> = OnceLock::new();
    Box::new(move |from, out| {
        let encoded = encoded.get_or_init(|| {
            let mut bytes = Vec::with_capacity(objects.iter().map(Object::encoded_size).sum());
            Encoder::new(&mut bytes).put_all(objects);
            bytes
        });
        let bytes = encoded.get(from as usize..).unwrap_or_default();
        let len = bytes.len().min(out.len());
        out[..len].copy_from_slice(&bytes[..len]);
    })
}
