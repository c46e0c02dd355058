//! The fields of a series and its group `Steps`: what images and particles over time have in common.

use super::ROOT;
use crate::conventions::point_field::{FieldElements, PointField};
use crate::error::{Error, Kind, Result};
use crate::hdf5::{
    DatasetId, Datatype, Hdf5Attribute, Hdf5Compression, Hdf5DatasetOptions, Hdf5Definitions, Hdf5File,
};
use crate::selection::Selection;

/// The group of the steps.
pub(super) const STEPS: &str = "/VTKHDF/Steps";
/// The group of the fields.
const FIELDS: &str = "/VTKHDF/PointData";
/// Numbers of one per step lie in chunks of so many.
pub(super) const STEPS_PER_CHUNK: u64 = 256;

/// A field of every step.
#[derive(Clone, Debug)]
pub(super) struct SeriesField {
    name: String,
    datatype: Datatype,
    components: Option<u64>,
    pub(super) values: DatasetId,
    /// Where the values of each step begin.
    pub(super) offsets: DatasetId,
}

/// Options of chunks, with compression if it is wanted.
pub(super) fn chunked(chunk: &[u64], compression: Option<Hdf5Compression>) -> Hdf5DatasetOptions {
    let options = Hdf5DatasetOptions::new().chunk(chunk).extendible();
    match compression {
        Some(compression) => options.compress(compression),
        None => options,
    }
}

/// Defines a field with the shape of one step, or of its rows, before the components.
pub(super) fn define_field(
    file: &mut Hdf5Definitions<'_>,
    name: &str,
    elements: &FieldElements<'_>,
    shape: &[u64],
    chunk: &[u64],
    compression: Option<Hdf5Compression>,
) -> Result<SeriesField> {
    let with_components = |lengths: &[u64]| -> Vec<u64> {
        lengths.iter().copied().chain(elements.components).map(|length| length.max(1)).collect()
    };
    let mut shape = with_components(shape);
    shape[0] = 0;
    let options = chunked(&with_components(chunk), compression);
    let path = format!("{FIELDS}/{name}");
    let values = file.dataset_with_as(&path, elements.datatype.clone(), &shape, &options)?;
    let path = format!("{STEPS}/PointDataOffsets/{name}");
    let offsets = file.extendible::<i64>(&path, &[0], &[STEPS_PER_CHUNK])?;
    let (datatype, components) = (elements.datatype.clone(), elements.components);
    Ok(SeriesField { name: name.to_owned(), datatype, components, values, offsets })
}

/// The fields that a file has; `dimensions` is the number of dimensions of a scalar.
pub(super) fn find_fields(file: &Hdf5File, dimensions: usize) -> Result<Vec<SeriesField>> {
    let prefix = format!("{FIELDS}/");
    let mut fields = Vec::new();
    for (values, path) in file.datasets() {
        let Some(name) = path.strip_prefix(&prefix) else { continue };
        let dataset = file.describe(values)?;
        fields.push(SeriesField {
            name: name.to_owned(),
            datatype: dataset.datatype.clone(),
            components: dataset.shape.get(dimensions).copied(),
            values,
            offsets: file.dataset(&format!("{STEPS}/PointDataOffsets/{name}"))?,
        });
    }
    Ok(fields)
}

/// The number of steps that a file has, if it is of this type.
pub(super) fn find_steps(file: &Hdf5File, kind: &str) -> Result<u64> {
    let bad = |what: String| Error::new(Kind::WrongType, "open", file.name(), what);
    let found = file.object(ROOT)?.attribute("Type").and_then(Hdf5Attribute::text);
    if found != Some(kind) {
        return Err(bad(format!("it is a VTKHDF file of type {found:?}, not of {kind:?}")));
    }
    let steps = file.object(STEPS)?.attribute("NSteps").and_then(Hdf5Attribute::numbers);
    match steps.as_deref() {
        Some([steps]) => Ok(*steps as u64),
        _ => Err(bad("its group Steps does not have the number of steps".to_owned())),
    }
}

/// Puts the fields of a step in the order of those of the file, if it has any yet; an error if they are others. `count` is how many values each has.
pub(super) fn match_fields<'f>(
    file: &str,
    known: Option<&[SeriesField]>,
    given: &'f [PointField<'_>],
    count: u64,
) -> Result<Vec<FieldElements<'f>>> {
    let bad = |what: String| Error::new(Kind::BadArgument, "write", file, what);
    for (number, field) in given.iter().enumerate() {
        if given[..number].iter().any(|other| other.name() == field.name()) {
            return Err(bad(format!("field {:?} is given twice", field.name())));
        }
        if field.count() != count {
            let detail = format!("field {:?} has {} values for {count} points", field.name(), field.count());
            return Err(bad(detail));
        }
    }
    let Some(known) = known else { return given.iter().map(|field| field.elements(file)).collect() };
    if known.len() != given.len() {
        return Err(bad(format!("{} fields; earlier steps have {}", given.len(), known.len())));
    }
    let find = |wanted: &SeriesField| {
        let found = given.iter().find(|field| field.name() == wanted.name);
        let elements =
            found.ok_or_else(|| bad(format!("field {:?} is missing", wanted.name)))?.elements(file)?;
        if elements.datatype != wanted.datatype || elements.components != wanted.components {
            let detail = format!("field {:?} is of another type than in earlier steps", wanted.name);
            return Err(bad(detail));
        }
        Ok(elements)
    };
    known.iter().map(find).collect()
}

/// The selection of a field: ranges before the components.
pub(super) fn field_part(start: &[u64], count: &[u64], components: Option<u64>) -> Selection {
    let start: Vec<u64> = start.iter().copied().chain(components.map(|_| 0)).collect();
    let count: Vec<u64> = count.iter().copied().chain(components).collect();
    Selection::block(start, count)
}

/// Extends a dataset to at least so many rows.
pub(super) fn extend_to(file: &mut Hdf5Definitions<'_>, rows: &[(DatasetId, u64, u64)]) -> Result<()> {
    rows.iter()
        .filter(|(_, known, wanted)| wanted > known)
        .try_for_each(|(id, _, rows)| file.extend(*id, *rows))
}

/// How many rows a dataset has.
pub(super) fn rows_of(file: &Hdf5File, id: DatasetId) -> Result<u64> {
    Ok(file.describe(id)?.rows())
}

/// Lets readers see one step more, after its data is complete. Collective.
pub(super) fn publish_step(file: &mut Hdf5File, steps: u64) -> Result<()> {
    file.commit()?;
    file.define(|file| file.attribute(STEPS, "NSteps", steps as i64))
}
