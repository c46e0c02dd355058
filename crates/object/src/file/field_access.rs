//! Projection: access to one field of objects, without transferring the others.

use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;

use aqueduct_file::layout::{Basic, Layout};
use aqueduct_file::{File, Mode, OpenOptions, View};

use super::ObjectFile;
use super::meta_file::IndexEntry;
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
        self.field_in_view(path, self.view())
    }

    /// As [`field`](ObjectFile::field), of the objects of a view.
    pub(super) fn field_in_view<F: Object>(
        &self,
        path: &str,
        view: Arc<ObjectView>,
    ) -> Result<FieldAccess<'_, T, F>> {
        let store = &self.open_file;
        let found = self.locate::<F>(path);
        let (schema, offset, steps) = store.agree("field", found)?;
        let size = schema.size().unwrap_or(0);
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
            return self.pick::<S>(count.and_then(|count| store.entries(&self.view, objects.start, count)));
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

    /// Reads objects of variable size, in one access, and decodes the field.
    fn pick<S: ObjectScope>(&self, entries: Result<Vec<(u64, IndexEntry)>>) -> Result<Vec<F>> {
        let store = &self.file.open_file;
        store.read_objects::<S, _>(entries, |plan, bytes| {
            let mut values = Vec::with_capacity(plan.entries.len());
            for (number, entry) in &plan.entries {
                let bytes = bytes.get_mut(plan.place(*entry)).unwrap_or_default();
                let range = self.find_value(bytes).map_err(|why| self.broken(*number, *entry, &why))?;
                let mut input = Decoder::new(&bytes[range]);
                values.push(F::decode(&mut input).map_err(|error| self.broken(*number, *entry, &error))?);
            }
            Ok(values)
        })
    }

    /// Puts the bytes of an object in little-endian order; the bytes of the field among them.
    fn find_value(&self, bytes: &mut [u8]) -> std::result::Result<Range<usize>, String> {
        let store = &self.file.open_file;
        if store.order == ByteOrder::Big {
            swap(store.schema.root(), ByteOrder::Big, bytes)?;
        }
        let mut input = Decoder::new(bytes);
        let error = |error: DecodeError| error.to_string();
        walk(store.schema.root(), &self.steps, &mut input, &mut TypeContext::default()).map_err(error)?;
        let start = input.position();
        skip(self.schema.root(), &mut input, &mut TypeContext::default()).map_err(error)?;
        Ok(start..input.position())
    }

    fn broken(&self, number: u64, entry: IndexEntry, why: &dyn std::fmt::Display) -> crate::Error {
        let detail = format!("object {number}, from byte {} of the data on: {why}", entry.offset);
        self.file.open_file.error(Kind::Damaged, "read", detail)
    }

    /// Overwrites the field in objects of variable size. A field of constant size is overwritten in place, in one access; for one of variable size the
    /// objects are written anew.
    fn put_in_objects<S: ObjectScope>(&self, start: u64, packed: &EncodedBatch<'_>) -> Result<u64> {
        let (store, count) = (&self.file.open_file, packed.count as u64);
        let entries = self.may_write(start, count).and_then(|()| store.entries(&self.view, start, count));
        let entries = match entries {
            Ok(entries) if entries.len() as u64 != count => {
                Err(store.error(Kind::BadArgument, "write", "the view ends before these objects"))
            }
            entries => entries,
        };
        let value = |at: usize| match F::SIZE {
            Some(size) => at * size..(at + 1) * size,
            None => {
                let start = at.checked_sub(1).map_or(0, |before| packed.ends[before]);
                start as usize..packed.ends[at] as usize
            }
        };
        let changed = store.read_objects::<S, _>(entries, |plan, bytes| {
            let mut changes = FieldChanges::default();
            for (at, (number, entry)) in plan.entries.iter().enumerate() {
                let bytes = bytes.get_mut(plan.place(*entry)).unwrap_or_default();
                let range = self.find_value(bytes).map_err(|why| self.broken(*number, *entry, &why))?;
                let value = &packed.bytes[value(at)];
                if F::SIZE.is_some() {
                    changes.places.push((entry.offset + range.start as u64, at));
                } else {
                    for part in [&bytes[..range.start], value, &bytes[range.end..]] {
                        changes.objects.extend_from_slice(part);
                    }
                    changes.ends.push(changes.objects.len() as u64);
                }
            }
            Ok(changes)
        })?;
        if F::SIZE.is_some() {
            return self.overwrite_values::<S>(changed.places, packed);
        }
        let packed = EncodedBatch { bytes: changed.objects.into(), count: packed.count, ends: changed.ends };
        self.file.write_batch::<S>(&self.view, start, packed)
    }

    /// Overwrites values of constant size at these offsets of the data.
    fn overwrite_values<S: ObjectScope>(
        &self,
        mut places: Vec<(u64, usize)>,
        packed: &EncodedBatch<'_>,
    ) -> Result<u64> {
        let (store, size) = (&self.file.open_file, self.size as usize);
        places.sort_unstable();
        let mut bytes = Vec::with_capacity(packed.bytes.len());
        places.iter().for_each(|(_, at)| bytes.extend_from_slice(&packed.bytes[at * size..(at + 1) * size]));
        let mut prepare = || {
            if store.order == ByteOrder::Big {
                let turned = swap(self.schema.root(), ByteOrder::Little, &mut bytes);
                turned.map_err(|why| store.error(Kind::BadArgument, "write", why))?;
            }
            let (Some(first), Some(last)) = (places.first(), places.last()) else {
                return View::of(0, &Layout::from(Basic::Byte));
            };
            store.mark_dirty(first.0..last.0 + self.size, true)?;
            let blocks = places.iter().map(|(offset, _)| (self.size, *offset as i64));
            let layout = Layout::from(Basic::Byte).hindexed(blocks);
            let layout =
                layout.map_err(|error| store.error(Kind::BadArgument, "write", error.to_string()))?;
            View::new(0, &Layout::from(Basic::Byte), &layout)
        };
        let view = prepare().map_err(|error| S::fail_write(store.data.at(0), error))?;
        S::write(store.data.with_view(&view), bytes.as_slice().into())?;
        Ok(packed.count as u64)
    }

    /// Fails if fields of these objects cannot be written.
    fn may_write(&self, start: u64, count: u64) -> Result<()> {
        let store = &self.file.open_file;
        if !store.mode.is_write() {
            return Err(store.error(Kind::BadArgument, "write", "the file was opened for reading only"));
        }
        let last = self.view.number(start.saturating_add(count.saturating_sub(1)));
        let there = store.count()?;
        if count > 0 && last.is_none_or(|last| last >= there) {
            let detail = format!("the file has {there} objects; write the objects before their fields");
            return Err(store.error(Kind::BadArgument, "write", detail));
        }
        Ok(())
    }

    fn put<S: ObjectScope>(&self, start: u64, mut packed: EncodedBatch<'_>) -> Result<u64> {
        let store = &self.file.open_file;
        let count = packed.count as u64;
        let Some(column) = &self.column else {
            return self.put_in_objects::<S>(start, &packed);
        };
        let mut prepare = || {
            let whole = store.size().unwrap_or(1);
            self.may_write(start, count)?;
            let last = self.view.number(start.saturating_add(count.saturating_sub(1)));
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
        let place = column.at(start);
        prepare().map_err(|error| S::fail_write(place, error))?;
        S::write(place, packed.bytes.as_ref().into())?;
        Ok(count)
    }

    /// The offset of the field in an object, if it is the same in all objects.
    pub fn offset(&self) -> Option<u64> {
        self.column.is_some().then_some(self.offset)
    }
}

/// What a write of fields changes: the places of values of constant size, or whole objects.
#[derive(Default)]
struct FieldChanges {
    /// The offset in the data and the number of each value.
    places: Vec<(u64, usize)>,
    objects: Vec<u8>,
    ends: Vec<u64>,
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
