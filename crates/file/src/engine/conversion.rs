//! Conversion between the representation in memory and that in the file.

use crate::context::FileContext;
use crate::error::{Kind, Result};
use crate::layout::LayoutError;
use crate::memory::chunks::WriteData;
use crate::memory::{Sink, Source};
use crate::view::View;

/// The data of a write as it is stored in the file.
pub(super) fn to_file<'d>(
    cx: &FileContext,
    view: &View,
    first: u64,
    data: &'d Source<'_>,
) -> Result<WriteData<'d>> {
    let bad_layout = |error: LayoutError| cx.error(Kind::BadCount, "write", error.to_string());
    let data = data.write_data().map_err(bad_layout)?;
    if view.representation().is_native() {
        return Ok(data);
    }
    let (kinds, from) = view.kinds(first);
    let packed = data.packed(&cx.counters, 0..data.len()).into_owned();
    let stored = view.representation().store(kinds, from, packed);
    let stored = stored.map_err(|text| cx.error(Kind::Conversion, "write", text))?;
    Ok(WriteData::Contiguous(stored.into()))
}

/// Fails if the layout of a read exceeds its memory.
pub(super) fn check_memory(cx: &FileContext, data: &Sink<'_>) -> Result<()> {
    data.check().map_err(|error| cx.error(Kind::BadCount, "read", error.to_string()))
}

/// A buffer for the data of a read as it is stored in the file.
pub(super) fn packed_buffer(view: &View, data: &Sink<'_>) -> Vec<u8> {
    vec![0; (data.size() / view.etype().size() * view.stored()) as usize]
}

/// Converts data that was read and copies it to its memory; how many bytes of memory.
pub(super) fn to_memory(
    cx: &FileContext,
    view: &View,
    first: u64,
    packed: Vec<u8>,
    data: &mut Sink<'_>,
) -> Result<u64> {
    let (kinds, from) = view.kinds(first);
    let converted = view.representation().load(kinds, from, packed);
    let values = converted.map_err(|text| cx.error(Kind::Conversion, "read", text))?;
    let bad_layout = |error: LayoutError| cx.error(Kind::BadCount, "read", error.to_string());
    data.unpack(&values).map_err(bad_layout)?;
    Ok(values.len() as u64)
}
