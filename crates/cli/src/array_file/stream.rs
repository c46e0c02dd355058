//! Stream files: the complete steps of each stream as an array.

use std::cell::RefCell;
use std::ffi::OsString;
use std::ops::Range;

use anyhow::{Context, Result, bail, ensure};
use aqueduct::comm::{Comm, Op};
use aqueduct::object::FileProvenance;
use aqueduct::stream::{Hyperslab, Reader, StoredStep, StreamInfo, StreamRegion, ValueKind};

use super::{
    Array, ArrayFile, ArrayPart, AttributeValue, ChunkReference, ChunkReferences, ElementType, Finding,
    NamedAttribute, NumberType, VerifyDepth, object, signature,
};

pub(crate) struct StreamArrayFile {
    world: Comm,
    name: OsString,
    reader: Reader,
    arrays: Vec<Array>,
    layouts: Vec<StreamLocation>,
    /// The values of a step that were read last, with the index of the stream and of the step.
    last: RefCell<Option<(usize, usize, Vec<u8>)>>,
}

/// The layout of a stream's elements.
struct StreamLocation {
    stream: String,
    kind: ValueKind,
    /// The steps with data of the stream, and the index of the first element of each.
    steps: Vec<(StoredStep, u64)>,
    /// Whether steps have any number of items.
    is_list: bool,
    /// The box of the array that is stored in each step, if it is a single one.
    cuboid: Option<Hyperslab>,
}

impl StreamArrayFile {
    pub(crate) fn open(world: &Comm, name: &str) -> Result<Self> {
        let reader = Reader::open(world, name)?;
        let (mut arrays, mut layouts) = (Vec::new(), Vec::new());
        for about in reader.streams() {
            let (array, layout) = describe(&reader, about)?;
            arrays.push(array);
            layouts.push(layout);
        }
        Ok(Self {
            world: world.clone(),
            name: name.into(),
            reader,
            arrays,
            layouts,
            last: RefCell::default(),
        })
    }

    /// The steps whose checksum is wrong; the ranks share the work. Collective.
    fn damaged_steps(&self) -> Result<Vec<u64>> {
        let mut found = Vec::new();
        let mut outcome = Ok(());
        let mine = self.reader.stored_steps().iter().skip(self.world.rank()).step_by(self.world.size());
        for step in mine {
            match self.reader.verify_step(step) {
                Ok(true) => {}
                Ok(false) => found.push(step.step),
                Err(error) => {
                    outcome = Err(error);
                    break;
                }
            }
        }
        let failed = self.world.allreduce_one(Op::Max, u64::from(outcome.is_err()))? > 0;
        outcome?;
        ensure!(!failed, "another rank could not read its steps");
        let mut all = self.world.allgather_varied(&found)?.concat();
        all.sort_unstable();
        Ok(all)
    }

    /// All values of a step of a stream.
    fn read_step(&self, array: usize, at: usize) -> Result<Vec<u8>> {
        let layout = &self.layouts[array];
        let (parcel, _) = &layout.steps[at];
        StepRead { reader: &self.reader, stream: &layout.stream, step: parcel, part: None }.run(layout.kind)
    }
}

fn describe(reader: &Reader, about: &StreamInfo) -> Result<(Array, StreamLocation)> {
    let boxes = about.boxes();
    let cuboid = (boxes.len() == 1).then(|| boxes[0].clone());
    let parcels: Vec<&StoredStep> = reader
        .stored_steps()
        .iter()
        .filter(|parcel| reader.samples(&about.name, parcel).is_ok_and(|samples| samples.is_some()))
        .collect();
    let kind = about.stored();
    let mut element = element_of(kind);
    // The number of elements of a step, if it is the same for all steps.
    let per_step: Option<Vec<u64>> = match &about.region {
        StreamRegion::List => None,
        StreamRegion::Points(count) => Some(vec![*count]),
        StreamRegion::Whole | StreamRegion::Cuboids(_) => match &cuboid {
            Some(cuboid) => Some(cuboid.count.clone()),
            None => Some(vec![boxes.iter().filter_map(Hyperslab::volume).sum()]),
        },
    };
    let mut width = 1;
    if per_step.is_none() {
        match about.object.as_ref().filter(|schema| schema.size().is_some()) {
            Some(schema) => element = object::element(schema),
            None => width = about.shape.first().copied().unwrap_or(1),
        }
    }
    let is_list = per_step.is_none();
    let (mut steps, mut first) = (Vec::new(), 0u64);
    for parcel in parcels {
        steps.push((parcel.clone(), first));
        let count = match &per_step {
            Some(shape) => shape.iter().product(),
            None => reader.items(&about.name, parcel)?.unwrap_or(0).saturating_mul(width),
        };
        first = first.saturating_add(count);
    }
    let shape = match per_step {
        Some(shape) => std::iter::once(steps.len() as u64).chain(shape).collect(),
        None if width == 1 => vec![first],
        None => vec![first / width.max(1), width],
    };
    let array =
        Array { grows: true, attributes: attributes(about), ..Array::new(&about.name, element, shape) };
    Ok((array, StreamLocation { stream: about.name.clone(), kind, steps, is_list, cuboid }))
}

fn attributes(about: &StreamInfo) -> Vec<NamedAttribute> {
    let text = |name: &str, value: String| NamedAttribute::new(name, AttributeValue::Text(value));
    let reduction = format!("{:?}", about.reduction).to_lowercase();
    let mut all = Vec::new();
    if reduction != "none" {
        all.push(text("reduction", reduction));
    }
    all.extend(about.every.map(|every| {
        NamedAttribute::new(
            "every",
            AttributeValue::Numbers(NumberType::U64, Vec::new(), every.to_le_bytes().to_vec()),
        )
    }));
    if let StreamRegion::Cuboids(cuboids) = &about.region {
        let shown = cuboids.iter().map(|cuboid| format!("{:?} from {:?} on", cuboid.count, cuboid.start));
        all.push(text("cuboids", shown.collect::<Vec<_>>().join("; ")));
    }
    all
}

/// The elements of a stream; complex numbers as two of them.
fn element_of(kind: ValueKind) -> ElementType {
    ElementType::number(match kind {
        ValueKind::I8 => NumberType::I8,
        ValueKind::I16 => NumberType::I16,
        ValueKind::I32 => NumberType::I32,
        ValueKind::I64 => NumberType::I64,
        ValueKind::U8 | ValueKind::Bool => NumberType::U8,
        ValueKind::U16 => NumberType::U16,
        ValueKind::U32 => NumberType::U32,
        ValueKind::U64 => NumberType::U64,
        ValueKind::F32 => NumberType::F32,
        ValueKind::F64 => NumberType::F64,
        ValueKind::F16 | ValueKind::Complex64 | ValueKind::Complex128 => {
            let part = match kind {
                ValueKind::F16 => return signature::element("f16", 2),
                ValueKind::Complex64 => "f32",
                _ => "f64",
            };
            return signature::element(&format!("Complex{{r:{part},i:{part}}}"), kind.width());
        }
    })
}

/// Reads a step or a box of it.
struct StepRead<'r> {
    reader: &'r Reader,
    stream: &'r str,
    step: &'r StoredStep,
    part: Option<Hyperslab>,
}

impl StepRead<'_> {
    fn run(&self, kind: ValueKind) -> Result<Vec<u8>> {
        let Some(part) = &self.part else { return Ok(self.reader.read_bytes(self.stream, self.step)?) };
        let bytes = part.volume().and_then(|elements| elements.checked_mul(kind.width()));
        let mut values = vec![0; bytes.context("a part larger than memory")? as usize];
        self.reader.read_part_bytes_into(self.stream, self.step, (0, part), &mut values)?;
        Ok(values)
    }
}

impl ArrayFile for StreamArrayFile {
    fn format(&self) -> String {
        let (steps, lost) = (self.reader.stored_steps().len(), self.reader.incomplete_steps().len());
        let finished =
            if self.reader.is_finished() { "finished" } else { "incomplete: being written, or interrupted" };
        let lost = if lost == 0 { String::new() } else { format!(", {lost} not complete") };
        format!("stream file, {steps} steps complete{lost}, {finished}")
    }

    fn arrays(&self) -> &[Array] {
        &self.arrays
    }

    fn read(&self, array: usize, part: &ArrayPart) -> Result<Vec<u8>> {
        let layout = &self.layouts[array];
        let size = self.arrays[array].element.size;
        // A part of one step of a single box is read without the rest of the step.
        if let (Some(cuboid), [step, start @ ..], [1, shape @ ..]) =
            (&layout.cuboid, &part.slab.start[..], &part.slab.count[..])
        {
            let start: Vec<u64> = start.iter().zip(&cuboid.start).map(|(at, start)| at + start).collect();
            let wanted = Hyperslab::new(start, shape);
            let (parcel, _) = layout.steps.get(*step as usize).context("the step does not exist")?;
            let read =
                StepRead { reader: &self.reader, stream: &layout.stream, step: parcel, part: Some(wanted) };
            return read.run(layout.kind);
        }
        let mut bytes = Vec::with_capacity((part.count * size) as usize);
        let mut wanted = part.elements();
        while wanted.start < wanted.end {
            let at = layout.steps.partition_point(|(_, first)| *first <= wanted.start).saturating_sub(1);
            let first = layout.steps.get(at).context("the step does not exist")?.1;
            let mut last = self.last.borrow_mut();
            if last.as_ref().is_none_or(|(stream, step, _)| (*stream, *step) != (array, at)) {
                *last = Some((array, at, self.read_step(array, at)?));
            }
            let values = last.as_ref().map_or(&[][..], |(_, _, values)| values);
            let from = ((wanted.start - first) * size) as usize;
            let until = values.len().min(from + ((wanted.end - wanted.start) * size) as usize);
            let some = values.get(from..until).filter(|some| !some.is_empty());
            let some =
                some.with_context(|| format!("stream {} ends in element {}", layout.stream, wanted.start))?;
            bytes.extend_from_slice(some);
            wanted.start += some.len() as u64 / size;
        }
        Ok(bytes)
    }

    fn list_steps(&self, array: usize) -> Option<Vec<(u64, Range<u64>)>> {
        let (layout, shape) = (&self.layouts[array], &self.arrays[array].shape);
        let width = shape.iter().skip(1).product::<u64>().max(1);
        let ends = layout.steps.iter().skip(1).map(|(_, first)| first / width);
        let ends = ends.chain(shape.first().copied());
        let steps = layout.steps.iter().zip(ends).map(|((step, first), end)| (step.step, first / width..end));
        layout.is_list.then(|| steps.collect())
    }

    fn references(&self, array: usize) -> Result<ChunkReferences> {
        let (layout, shown) = (&self.layouts[array], &self.arrays[array]);
        let mut ranges = Vec::new();
        for (step, _) in &layout.steps {
            let range = self.reader.byte_range(&layout.stream, step)?;
            ranges.push(range.context("the stream is not stored in a step")?);
        }
        // The items of a list in one step, or the steps of an array.
        if layout.is_list {
            let [range] = &ranges[..] else { bail!("its steps have different lengths") };
            return Ok(ChunkReferences::adjacent(shown, &self.name, range.start));
        }
        let chunk = std::iter::once(1).chain(shown.shape.iter().skip(1).copied()).collect();
        let reference = |(number, range): (u64, Range<u64>)| {
            let mut index = vec![0; shown.shape.len()];
            index[0] = number;
            ChunkReference {
                index,
                file: self.name.clone(),
                offset: range.start,
                bytes: range.end - range.start,
            }
        };
        Ok(ChunkReferences::plain(chunk, (0..).zip(ranges).map(reference).collect()))
    }

    fn has_checksums(&self) -> bool {
        true
    }

    fn written_by(&self) -> Option<FileProvenance> {
        self.reader.written_by().cloned()
    }

    fn is_finished(&self) -> Option<bool> {
        Some(self.reader.is_finished())
    }

    fn findings(&self, depth: VerifyDepth) -> Result<Vec<Finding>> {
        let mut findings = Vec::new();
        for lost in self.reader.incomplete_steps().iter().filter(|lost| lost.was_durable) {
            let text = format!("record {} was durable, but its checksum is wrong", lost.record);
            findings.push(Finding::damage(text));
        }
        let damaged = if depth == VerifyDepth::Full { self.damaged_steps()? } else { Vec::new() };
        for step in damaged {
            let text = format!("step {step}: the checksum of its data is wrong, or the data is truncated");
            findings.push(Finding::damage(text));
        }
        if !self.reader.is_finished() {
            let count = self.reader.incomplete_steps().iter().filter(|lost| !lost.was_durable).count();
            let text = format!(
                "incomplete: the file is being written, or its program was interrupted; {} steps are complete, {count} are incomplete",
                self.reader.stored_steps().len()
            );
            findings.push(Finding::damage(text));
        }
        Ok(findings)
    }
}
