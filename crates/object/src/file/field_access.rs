//! Projection: one field of all or some objects, without moving the rest.

use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;

use aqueduct_file::{File, Mode, OpenOptions, Sink, Source};

use super::ObjectFile;
use super::view::ObjectView;
use crate::codec::Decoder;
use crate::error::{Kind, Result, wrong_type};
use crate::into_objects::IntoObjects;
use crate::object::cast;
use crate::schema::{ByteOrder, Schema, SchemaMismatch, Type, TypeContext, skip, swap};
use crate::{DecodeError, Object};

/// One field of the objects that a rank sees; see [`ObjectFile::field`].
pub struct FieldAccess<'f, T, F> {
    file: &'f ObjectFile<T>,
    view: Arc<ObjectView>,
    /// The same data, seen as this field alone; none where objects have different sizes.
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
    ///     // 8 bytes of each object's 32 are moved.
    ///     let masses = file.field::<f64>("mass")?.read_all(5..15)?;
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
            let why = format!("field {path:?} holds {} and is wanted as {}", there.name(), wanted.name());
            return Err(wrong_type("field", &store.name, &SchemaMismatch::new(&there, &wanted, why)));
        }
        if there.size() == Some(0) {
            return Err(bad(&"a field without bytes"));
        }
        // Behind parts of variable size the place differs from object to object.
        Ok((there, found.offset.unwrap_or(0), found.steps))
    }
}

impl<T: Object, F: Object> FieldAccess<'_, T, F> {
    /// The field of these objects of the view, less at the end of the file.
    pub fn read(&self, objects: Range<u64>) -> Result<Vec<F>> {
        self.get(objects, false)
    }

    /// As [`read`](FieldAccess::read), all ranks together, each with its own range. Collective.
    pub fn read_all(&self, objects: Range<u64>) -> Result<Vec<F>> {
        self.get(objects, true)
    }

    /// Overwrites the field of objects from `start` of the view on; how many. Other fields stay as they are.
    pub fn write<'a>(&self, start: u64, values: impl IntoObjects<'a, F>) -> Result<u64> {
        self.put(start, values, false)
    }

    /// As [`write`](FieldAccess::write), all ranks together, each with its own values. Collective.
    pub fn write_all<'a>(&self, start: u64, values: impl IntoObjects<'a, F>) -> Result<u64> {
        self.put(start, values, true)
    }

    fn get(&self, objects: Range<u64>, together: bool) -> Result<Vec<F>> {
        let store = &self.file.open_file;
        let count = store.count().map(|count| {
            let there = self.view.count_before(count);
            objects.end.min(there).saturating_sub(objects.start)
        });
        let Some(column) = &self.column else {
            let read = count.and_then(|count| self.pick(objects.start, count));
            return store.outcome(together, "read", read);
        };
        let place = column.at(objects.start);
        let count = count.inspect_err(|error| {
            if together {
                // The others learn of it in their read; what comes back is the error that was brought.
                let _ = place.all().read(Sink::failing(error.clone()));
            }
        })?;
        if store.order == ByteOrder::Little
            && let Some(mut values) = cast::zeroed::<F>(count as usize)
            && let Some(bytes) = cast::bytes_mut(&mut values)
        {
            if together {
                place.all().read(bytes)?
            } else {
                place.read(bytes)?
            };
            self.verify(objects.start, count, together)?;
            return Ok(values);
        }
        let mut bytes = vec![0; (count * self.size) as usize];
        if together {
            place.all().read(&mut bytes)?
        } else {
            place.read(&mut bytes)?
        };
        self.verify(objects.start, count, together)?;
        let values = self.decoded(&mut bytes, count as usize);
        store.outcome(together, "read", values)
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
    fn verify(&self, start: u64, count: u64, together: bool) -> Result<()> {
        let (store, whole) = (&self.file.open_file, self.file.open_file.size().unwrap_or(1));
        let hull = match (count > 0).then(|| (self.view.number(start), self.view.number(start + count - 1))) {
            Some((Some(first), Some(last))) => first * whole..(last + 1) * whole,
            _ => 0..0,
        };
        if together { store.verify_collective(hull) } else { store.verify(hull) }
    }

    /// Objects of different sizes are read whole, and the field taken out of them.
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

    fn put<'a>(&self, start: u64, values: impl IntoObjects<'a, F>, together: bool) -> Result<u64> {
        let store = &self.file.open_file;
        let mut packed = values.encode_batch();
        let count = packed.count as u64;
        let mut prepare = || {
            let whole = store.size().ok_or_else(|| {
                let detail = "fields of objects of variable size cannot be written alone; write the objects";
                store.error(Kind::Unsupported, "write", detail)
            })?;
            if !store.mode.is_write() {
                return Err(store.error(Kind::BadArgument, "write", "the file was opened for reading only"));
            }
            let last = self.view.number(start.saturating_add(count.saturating_sub(1)));
            let there = store.count()?;
            if count > 0 && last.is_none_or(|last| last >= there) {
                let detail =
                    format!("there are {there} objects; a field can be written of objects that are there");
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
            return store.outcome(together, "write", prepared).map(|()| 0);
        };
        let place = column.at(start);
        prepared.inspect_err(|error| {
            if together {
                let _ = place.all().write(Source::failing(error.clone()));
            }
        })?;
        let bytes: &[u8] = &packed.bytes;
        if together {
            place.all().write(bytes)?
        } else {
            place.write(bytes)?
        };
        Ok(count)
    }

    /// Where the field begins in an object, if that is the same for all.
    pub fn offset(&self) -> Option<u64> {
        self.column.is_some().then_some(self.offset)
    }
}

/// Goes to the part that the steps lead to.
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
    let missing = || DecodeError::new("a path that leads nowhere", 0);
    around.enter(ty).map_err(|why| input.error(why))?;
    for place in 0..*step {
        skip(part(place).ok_or_else(missing)?, input, around)?;
    }
    walk(part(*step).ok_or_else(missing)?, rest, input, around)
}
