//! Projection: access to one field of objects, without transferring the others.

use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;

use aqueduct_file::{File, Mode, OpenOptions};

use super::ObjectFile;
use super::scope::{Collective, Independent, ObjectScope};
use super::view::ObjectView;
use crate::codec::Decoder;
use crate::error::{Kind, Result, wrong_type};
use crate::into_objects::{EncodedBatch, IntoObjects};
use crate::object::cast;
use crate::schema::{ByteOrder, Schema, SchemaMismatch, Type, TypeContext, skip, swap};
use crate::{DecodeError, Object};

/// One field of the objects that a rank sees; see [`ObjectFile::field`].
pub struct FieldAccess<'f, T, F> {
    file: &'f ObjectFile<T>,
    view: Arc<ObjectView>,
    /// The data with a view of this field only; none if objects have variable size.
    column: Option<File>,
    offset: u64,
    size: u64,
    schema: Schema,
    steps: Vec<usize>,
    values: PhantomData<fn() -> F>,
}

impl<T: Object> ObjectFile<T> {
    /// One field of the objects that this rank sees, by its path in the file's schema: `mass`, `cell.corner`, `position[2]`. Collective.
    ///
    /// ```
    /// use aqueduct_comm::Launch;
    /// use aqueduct_object::{Object, ObjectFile};
    ///
    /// #[derive(Object, Clone)]
    /// struct Body { position: [f64; 3], mass: f64 }
    ///
    /// Launch::threads(2).run(|world| {
    ///     let file = ObjectFile::create(world, "memfs:bodies")?;
    ///     let body = Body { position: [1.0, 2.0, 3.0], mass: world.rank() as f64 };
    ///     file.at(10 * world.rank() as u64).all().write(&vec![body; 10])?;
    ///     file.commit()?;
    ///     // 8 of the 32 bytes of each object are read.
    ///     let masses = file.field::<f64>("mass")?.all().read(5..15)?;
    ///     assert_eq!(masses, [[0.0; 5], [1.0; 5]].concat());
    ///     file.close()
    /// })?;
    /// # Ok::<(), aqueduct_comm::Error>(())
    /// ```
    pub fn field<F: Object>(&self, path: &str) -> Result<FieldAccess<'_, T, F>> {
        let store = &self.open_file;
        let found = self.locate::<F>(path);
        let (schema, offset, steps) = store.agree("field", found)?;
        let (view, size) = (self.view(), schema.size().unwrap_or(0));
        let column = match store.size() {
            Some(whole) => {
                let bytes = store.agree("field", view.bytes(whole, offset, size))?;
                let mode = if store.mode.is_write() { Mode::read_write() } else { Mode::read_only() };
                let column = OpenOptions::from(mode).open(store.comm.parent(), self.open_file.data.name())?;
                column.set_view(&bytes)?;
                Some(column)
            }
            None => None,
        };
        Ok(FieldAccess { file: self, view, column, offset, size, schema, steps, values: PhantomData })
    }

    fn locate<F: Object>(&self, path: &str) -> Result<(Schema, u64, Vec<usize>)> {
        let store = &self.open_file;
        let bad = |error: &dyn std::fmt::Display| store.error(Kind::BadArgument, "field", error.to_string());
        let found = store.schema.locate(path).map_err(|error| bad(&error))?;
        let (there, wanted) = (Schema::new(found.ty.clone()), F::schema());
        if there != *wanted {
            let why = format!("field {path:?} is of type {}, requested as {}", there.name(), wanted.name());
            return Err(wrong_type("field", &store.name, &SchemaMismatch::new(&there, &wanted, why)));
        }
        if there.size() == Some(0) {
            return Err(bad(&"the field has no bytes"));
        }
        // After parts of variable size the offset differs between objects.
        Ok((there, found.offset.unwrap_or(0), found.steps))
    }
}

/// One field of the objects that a rank sees, for collective access; see [`FieldAccess::all`].
#[derive(Clone, Copy)]
pub struct CollectiveFieldAccess<'a, 'f, T, F>(&'a FieldAccess<'f, T, F>);

impl<T: Object, F: Object> CollectiveFieldAccess<'_, '_, T, F> {
    /// As [`FieldAccess::read`], each rank with its own range. Collective.
    pub fn read(self, objects: Range<u64>) -> Result<Vec<F>> {
        self.0.get::<Collective>(objects)
    }

    /// As [`FieldAccess::write`], each rank with its own values. Collective.
    pub fn write<'v>(self, start: u64, values: impl IntoObjects<'v, F>) -> Result<u64> {
        self.0.put::<Collective>(start, values.encode_batch())
    }
}

impl<'f, T: Object, F: Object> FieldAccess<'f, T, F> {
    /// Collective access to the field.
    pub fn all(&self) -> CollectiveFieldAccess<'_, 'f, T, F> {
        CollectiveFieldAccess(self)
    }

    /// Reads the field of these objects of the view; fewer at the end of the file.
    pub fn read(&self, objects: Range<u64>) -> Result<Vec<F>> {
        self.get::<Independent>(objects)
    }

    /// Overwrites the field of the objects from `start` of the view on; how many. Other fields keep their values.
    pub fn write<'v>(&self, start: u64, values: impl IntoObjects<'v, F>) -> Result<u64> {
        self.put::<Independent>(start, values.encode_batch())
    }

    fn get<S: ObjectScope>(&self, objects: Range<u64>) -> Result<Vec<F>> {
        let store = &self.file.open_file;
        let count = store.count().map(|count| {
            let there = self.view.count_before(count);
            objects.end.min(there).saturating_sub(objects.start)
        });
        let Some(column) = &self.column else {
            let read = count.and_then(|count| self.pick(objects.start, count));
            return store.outcome::<S, _>("read", read);
        };
        let place = column.at(objects.start);
        let count = count.map_err(|error| S::fail_read(place, error))?;
        if store.order == ByteOrder::Little
            && let Some(mut values) = cast::zeroed::<F>(count as usize)
            && let Some(bytes) = cast::bytes_mut(&mut values)
        {
            S::read(place, bytes.into())?;
            self.verify::<S>(objects.start, count)?;
            return Ok(values);
        }
        let mut bytes = vec![0; (count * self.size) as usize];
        S::read(place, (&mut bytes).into())?;
        self.verify::<S>(objects.start, count)?;
        store.outcome::<S, _>("read", self.decoded(&mut bytes, count as usize))
    }

    fn decoded(&self, bytes: &mut [u8], count: usize) -> Result<Vec<F>> {
        let broken = |error: &dyn std::fmt::Display| {
            self.file.open_file.error(Kind::Damaged, "read", format!("a field: {error}"))
        };
        if self.file.open_file.order == ByteOrder::Big {
            swap(self.schema.root(), ByteOrder::Big, bytes).map_err(|why| broken(&why))?;
        }
        Decoder::new(bytes).take_all(count).map_err(|error| broken(&error))
    }

    /// Compares the checksums of the objects whose fields were read.
    fn verify<S: ObjectScope>(&self, start: u64, count: u64) -> Result<()> {
        let (store, whole) = (&self.file.open_file, self.file.open_file.size().unwrap_or(1));
        let hull = match (count > 0).then(|| (self.view.number(start), self.view.number(start + count - 1))) {
            Some((Some(first), Some(last))) => first * whole..(last + 1) * whole,
            _ => 0..0,
        };
        store.verify_in::<S>(hull)
    }

    /// Reads whole objects of variable size and decodes the field.
    fn pick(&self, start: u64, count: u64) -> Result<Vec<F>> {
        let store = &self.file.open_file;
        let mut values = Vec::with_capacity(count as usize);
        for (number, entry) in store.entries(&self.view, start, count)? {
            let mut bytes = vec![0; entry.length as usize];
            store.read_bytes(entry.offset, &mut bytes)?;
            store.verify(entry.offset..entry.offset + entry.length)?;
            let broken = |error: &dyn std::fmt::Display| {
                let detail = format!("object {number}, from byte {} of the data on: {error}", entry.offset);
                store.error(Kind::Damaged, "read", detail)
            };
            if store.order == ByteOrder::Big {
                swap(store.schema.root(), ByteOrder::Big, &mut bytes).map_err(|why| broken(&why))?;
            }
            let mut input = Decoder::new(&bytes);
            walk(store.schema.root(), &self.steps, &mut input, &mut TypeContext::default())
                .map_err(|error| broken(&error))?;
            values.push(F::decode(&mut input).map_err(|error| broken(&error))?);
        }
        Ok(values)
    }

    fn put<S: ObjectScope>(&self, start: u64, mut packed: EncodedBatch<'_>) -> Result<u64> {
        let store = &self.file.open_file;
        let count = packed.count as u64;
        let mut prepare = || {
            let whole = store.size().ok_or_else(|| {
                let detail = "fields of objects of variable size cannot be written; write the objects";
                store.error(Kind::Unsupported, "write", detail)
            })?;
            if !store.mode.is_write() {
                return Err(store.error(Kind::BadArgument, "write", "the file was opened for reading only"));
            }
            let last = self.view.number(start.saturating_add(count.saturating_sub(1)));
            let there = store.count()?;
            if count > 0 && last.is_none_or(|last| last >= there) {
                let detail = format!("the file has {there} objects; write the objects before their fields");
                return Err(store.error(Kind::BadArgument, "write", detail));
            }
            if store.order == ByteOrder::Big {
                let turned = swap(self.schema.root(), ByteOrder::Little, packed.bytes.to_mut());
                turned.map_err(|why| store.error(Kind::BadArgument, "write", why))?;
            }
            match (self.view.number(start), last) {
                (Some(first), Some(last)) if count > 0 => {
                    store.mark_dirty(first * whole..(last + 1) * whole, false)
                }
                _ => Ok(()),
            }
        };
        let prepared = prepare();
        let Some(column) = &self.column else {
            return store.outcome::<S, _>("write", prepared).map(|()| 0);
        };
        let place = column.at(start);
        prepared.map_err(|error| S::fail_write(place, error))?;
        S::write(place, packed.bytes.as_ref().into())?;
        Ok(count)
    }

    /// The offset of the field in an object, if it is the same in all objects.
    pub fn offset(&self) -> Option<u64> {
        self.column.is_some().then_some(self.offset)
    }
}

/// Skips to the part that the steps of a path lead to.
fn walk<'s>(
    ty: &'s Type,
    steps: &[usize],
    input: &mut Decoder<'_>,
    around: &mut TypeContext<'s>,
) -> std::result::Result<(), DecodeError> {
    let Some((step, rest)) = steps.split_first() else { return Ok(()) };
    let part = |place: usize| match ty {
        Type::Struct(structure) => structure.fields.get(place).map(|field| &field.ty),
        Type::Tuple(parts) => parts.get(place),
        Type::Array { of, .. } => Some(of.as_ref()),
        _ => None,
    };
    let missing = || DecodeError::new("the path does not exist in the type", 0);
    around.enter(ty).map_err(|why| input.error(why))?;
    for place in 0..*step {
        skip(part(place).ok_or_else(missing)?, input, around)?;
    }
    walk(part(*step).ok_or_else(missing)?, rest, input, around)
}
