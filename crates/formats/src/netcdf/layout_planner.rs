//! Offsets of variables. Pure. Existing variables keep their offsets if possible; otherwise the plan has shifts of data, which the caller refuses
//! or executes.

use super::header::{NetcdfHeader, Variable};
use super::sizes::{DatasetSizes, padded};

/// Space that is left for later definitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReservedSpace {
    /// For the header; it has at least half of its size to grow.
    pub(crate) header: u64,
    /// For variables without records, before the records.
    pub(crate) fixed: u64,
}

impl ReservedSpace {
    /// The offset of the data after a header of this size.
    fn data_start(self, header: u64) -> u64 {
        if self.header == 0 {
            return padded(header);
        }
        self.header.max(header + header / 2).next_multiple_of(512)
    }
}

/// What has been written already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExistingData {
    /// Nothing: all places are free.
    Empty,
    /// Something, and so many records.
    Data {
        /// How many.
        records: u64,
    },
}

/// Equal blocks of bytes that have to move upwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DataShift {
    pub(crate) from: u64,
    pub(crate) to: u64,
    pub(crate) size: u64,
    pub(crate) count: u64,
    /// From one block to the next, before and after.
    pub(crate) strides: (u64, u64),
}

impl DataShift {
    pub(crate) fn bytes(&self) -> u64 {
        self.size.saturating_mul(self.count)
    }
}

/// What it takes to give all variables of a header their places.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LayoutPlan {
    pub(crate) shifts: Vec<DataShift>,
    /// Why anything has to move.
    pub(crate) why: String,
}

/// A header, the sizes of its variables, and how many bytes it has itself.
pub(crate) struct SizedHeader<'a> {
    pub(crate) header: &'a mut NetcdfHeader,
    pub(crate) sizes: &'a DatasetSizes,
    pub(crate) length: u64,
}

/// Gives the variables of a new header, which begin with those of `old`, their places.
pub(crate) fn plan_layout(
    old: &NetcdfHeader,
    new: SizedHeader<'_>,
    standing: ExistingData,
    room: ReservedSpace,
) -> Result<LayoutPlan, String> {
    let SizedHeader { header: new, sizes: geometry, length } = new;
    let arranged = match standing {
        ExistingData::Data { records } if !old.variables.is_empty() => {
            let before = DatasetSizes::of(old)?;
            extend(ExistingLayout { old, before: &before, records }, new, geometry, length, room)?
        }
        _ => {
            place_all(new, geometry, length, room)?;
            LayoutPlan::default()
        }
    };
    geometry.fits(new)?;
    geometry.end(new, new.records).ok_or("the data exceeds the maximum file size (2^63 - 1)")?;
    Ok(arranged)
}

fn place_all(
    new: &mut NetcdfHeader,
    geometry: &DatasetSizes,
    header: u64,
    room: ReservedSpace,
) -> Result<(), String> {
    let mut end = room.data_start(header);
    for is_record in [false, true] {
        for (variable, extent) in new.variables.iter_mut().zip(&geometry.extents) {
            if extent.is_record == is_record {
                variable.begin = end;
                end = step(end, extent.padded())?;
            }
        }
        end = step(end, padded(room.fixed))?;
    }
    Ok(())
}

fn step(at: u64, size: u64) -> Result<u64, String> {
    let next = at.checked_add(size).filter(|next| i64::try_from(*next).is_ok());
    next.ok_or_else(|| "the data exceeds the maximum file size (2^63 - 1)".to_owned())
}

/// The existing layout.
#[derive(Clone, Copy)]
struct ExistingLayout<'a> {
    old: &'a NetcdfHeader,
    before: &'a DatasetSizes,
    records: u64,
}

impl ExistingLayout<'_> {
    fn placed(&self, is_record: bool) -> impl Iterator<Item = (&Variable, u64)> {
        let placed = self.old.variables.iter().zip(&self.before.extents);
        placed
            .filter(move |(_, extent)| extent.is_record == is_record)
            .map(|(variable, extent)| (variable, extent.size))
    }

    fn first(&self, is_record: bool) -> Option<u64> {
        self.placed(is_record).map(|(variable, _)| variable.begin).min()
    }
}

/// Places new variables after the old ones, and moves those only as far as necessary.
fn extend(
    known: ExistingLayout<'_>,
    new: &mut NetcdfHeader,
    geometry: &DatasetSizes,
    header: u64,
    room: ReservedSpace,
) -> Result<LayoutPlan, String> {
    let (fixed, records) = (known.first(false), known.first(true));
    let first = fixed.into_iter().chain(records).min().unwrap_or(header);
    let up = if header <= first { 0 } else { padded(room.data_start(header) - first) };
    let mut arranged = LayoutPlan::default();
    if up > 0 {
        arranged.why = format!("the header needs {header} bytes and has room for {first}");
    }
    // Fixed variables: the old ones keep their offsets or are all shifted equally, the new ones follow.
    let mut end = match fixed {
        Some(_) => {
            known.placed(false).map(|(variable, size)| padded(variable.begin + size) + up).max().unwrap_or(0)
        }
        None => room.data_start(header).min(records.map_or(u64::MAX, |begin| begin + up)).max(padded(header)),
    };
    let mut gains_fixed = false;
    for (at, extent) in geometry.extents.iter().enumerate().filter(|(_, extent)| !extent.is_record) {
        match known.old.variables.get(at) {
            Some(variable) => new.variables[at].begin = variable.begin + up,
            None => {
                new.variables[at].begin = end;
                end = step(end, extent.padded())?;
                gains_fixed = true;
            }
        }
    }
    if up > 0 {
        let moved = known.placed(false).map(|(variable, size)| {
            let (from, to) = (variable.begin, variable.begin + up);
            DataShift { from, to, size, count: 1, strides: (0, 0) }
        });
        arranged.shifts.extend(moved);
    }
    let record = place_records(known, new, geometry, end, room)?;
    if let Some(shift) = record {
        if arranged.why.is_empty() {
            let larger = shift.strides.0 != shift.strides.1 || !gains_fixed;
            let why = ["variables without records do not fit before the records", "the records get larger"];
            arranged.why = why[usize::from(larger)].into();
        }
        arranged.shifts.push(shift);
    }
    Ok(arranged)
}

/// The records keep their offset or start after `end`; the shift, if there are records.
fn place_records(
    known: ExistingLayout<'_>,
    new: &mut NetcdfHeader,
    geometry: &DatasetSizes,
    end: u64,
    room: ReservedSpace,
) -> Result<Option<DataShift>, String> {
    let was = known.first(true);
    let begin = match was {
        Some(was) if was >= end => was,
        _ => step(end, padded(room.fixed))?,
    };
    let mut next = 0;
    for (at, extent) in geometry.extents.iter().enumerate().filter(|(_, extent)| extent.is_record) {
        let inside = match (known.old.variables.get(at), was) {
            (Some(variable), Some(was)) => variable.begin - was,
            _ => next,
        };
        new.variables[at].begin = step(begin, inside)?;
        next = next.max(step(inside, extent.padded())?);
    }
    let (Some(was), true) = (was, known.records > 0) else { return Ok(None) };
    let strides = (known.before.record, geometry.record);
    let stays = was == begin && strides.0 == strides.1;
    let shift = DataShift { from: was, to: begin, size: known.before.record, count: known.records, strides };
    Ok((!stays).then_some(shift))
}

#[cfg(test)]
mod tests {
    use super::super::header::{DimensionId, NetcdfDimension};
    use super::super::nc_type::NcType;
    use super::super::version::CdfVersion;
    use super::*;

    fn arrange(
        old: &NetcdfHeader,
        new: &mut NetcdfHeader,
        standing: ExistingData,
        room: ReservedSpace,
    ) -> Result<LayoutPlan, String> {
        let (geometry, length) = (DatasetSizes::of(new)?, new.encode()?.len() as u64);
        super::plan_layout(old, SizedHeader { header: new, sizes: &geometry, length }, standing, room)
    }

    const ROOM: ReservedSpace = ReservedSpace { header: 1024, fixed: 100 };
    const DATA: ExistingData = ExistingData::Data { records: 3 };

    fn variable(name: &str, kind: NcType, dimensions: &[usize]) -> Variable {
        let dimensions = dimensions.iter().copied().map(DimensionId).collect();
        Variable { name: name.to_owned(), kind, dimensions, attributes: Vec::new(), begin: 0 }
    }

    fn header(variables: impl IntoIterator<Item = Variable>) -> NetcdfHeader {
        let dimension = |name: &str, length| NetcdfDimension { name: name.to_owned(), length };
        NetcdfHeader {
            dimensions: vec![dimension("time", None), dimension("x", Some(10))],
            variables: variables.into_iter().collect(),
            ..NetcdfHeader::new(CdfVersion::Cdf5)
        }
    }

    /// A file with a fixed variable of 10 bytes and a record variable of 20 bytes.
    fn placed() -> NetcdfHeader {
        let mut made = header([variable("a", NcType::Byte, &[1]), variable("r", NcType::Short, &[0, 1])]);
        assert_eq!(
            arrange(&header([]), &mut made, ExistingData::Empty, ROOM).unwrap(),
            LayoutPlan::default()
        );
        assert_eq!([made.variables[0].begin, made.variables[1].begin], [1024, 1024 + 12 + 100]);
        made
    }

    fn with(old: &NetcdfHeader, more: impl IntoIterator<Item = Variable>) -> NetcdfHeader {
        let mut new = old.clone();
        new.variables.extend(more);
        new
    }

    #[test]
    fn what_fits_moves_nothing() {
        let old = placed();
        let mut new = with(&old, [variable("b", NcType::Double, &[1])]);
        assert_eq!(arrange(&old, &mut new, DATA, ROOM).unwrap(), LayoutPlan::default());
        assert_eq!(new.variables[2].begin, 1036);
        assert_eq!(new.variables[..2], old.variables[..]);
        // Without records the variables of a record go where there is room.
        let mut new = with(&old, [variable("b", NcType::Double, &[1]), variable("c", NcType::Double, &[1])]);
        let standing = ExistingData::Data { records: 0 };
        assert_eq!(arrange(&old, &mut new, standing, ROOM).unwrap(), LayoutPlan::default());
        assert_eq!([new.variables[3].begin, new.variables[1].begin], [1116, 1116 + 80 + 100]);
    }

    #[test]
    fn what_does_not_fit_is_told_as_shifts() {
        let old = placed();
        // A variable of 160 bytes does not fit before the records.
        let mut new = with(&old, [variable("b", NcType::Double, &[1]), variable("c", NcType::Double, &[1])]);
        let arranged = arrange(&old, &mut new, DATA, ROOM).unwrap();
        let shift = DataShift { from: 1136, to: 1296, size: 20, count: 3, strides: (20, 20) };
        assert_eq!(arranged.shifts, [shift]);
        assert!(arranged.why.contains("before the records"), "{}", arranged.why);
        // Another variable in each record.
        let mut new = with(&old, [variable("s", NcType::Byte, &[0])]);
        let arranged = arrange(&old, &mut new, DATA, ROOM).unwrap();
        assert_eq!(
            arranged.shifts,
            [DataShift { from: 1136, to: 1136, size: 20, count: 3, strides: (20, 24) }]
        );
        assert_eq!(new.variables[2].begin, 1136 + 20);
        assert!(arranged.why.contains("larger"), "{}", arranged.why);
        // A longer header.
        let mut new = old.clone();
        new.dimensions[1].name = "x".repeat(1000);
        let arranged = arrange(&old, &mut new, DATA, ROOM).unwrap();
        assert_eq!(arranged.shifts[0].from, 1024);
        assert!(arranged.shifts[0].to >= new.encode().unwrap().len() as u64);
        assert!(arranged.why.contains("header"), "{}", arranged.why);
        assert_eq!(arranged.shifts.len(), 2);
    }

    #[test]
    fn a_version_holds_only_so_much() {
        let huge = |length: u64, kinds: [NcType; 2]| {
            let mut new = header(kinds.map(|kind| variable(&kind.to_string(), kind, &[1])));
            new.version = CdfVersion::Cdf2;
            new.dimensions[1].length = Some(length);
            arrange(&header([]), &mut new, ExistingData::Empty, ROOM).map(drop)
        };
        assert_eq!(huge(1 << 29, [NcType::Int, NcType::Double]), Ok(()), "the last may be larger");
        let refused = huge(1 << 29, [NcType::Double, NcType::Int]).unwrap_err();
        assert!(refused.contains("\"double\"") && refused.contains("define it last"), "{refused}");
        let mut old = header([variable("a", NcType::Int, &[1]), variable("b", NcType::Int, &[1])]);
        old.version = CdfVersion::Cdf1;
        old.dimensions[1].length = Some((1 << 29) - 1);
        let refused = arrange(&header([]), &mut old, ExistingData::Empty, ROOM).unwrap_err();
        assert!(refused.contains("CDF-1 reaches up to"), "{refused}");
    }
}
