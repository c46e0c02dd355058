//! Random accesses of several ranks against plain arrays in memory: independent, collective and queued, of all shapes, with and without records.

use aqueduct_comm::{Comm, Launch};
use aqueduct_formats::netcdf::{
    CdfVersion, NcType, NetcdfCreateOptions, NetcdfFile, NetcdfOpenOptions, Selection, VariableId,
};
use aqueduct_formats::{Error, Result};
use aqueduct_testkit::rng::SeededRng;

const STEPS: usize = 40;
const MOST_RECORDS: u64 = 6;

/// A variable and its expected values.
struct Model {
    id: VariableId,
    kind: NcType,
    /// With the largest number of records.
    lengths: Vec<u64>,
    has_records: bool,
    values: Vec<i32>,
}

/// A part: start, count and stride in each dimension.
#[derive(Clone, Debug)]
struct Part(Vec<[u64; 3]>);

impl Part {
    fn random(seeded: &mut SeededRng, lengths: &[u64]) -> Self {
        let dimension = |length: &u64| {
            let start = seeded.below(*length as usize) as u64;
            let stride = 1 + seeded.below(3) as u64;
            let most = (length - start).div_ceil(stride);
            let least = u64::from(seeded.below(8) > 0);
            [start, least.max(seeded.below(most as usize + 1) as u64), stride]
        };
        Self(lengths.iter().map(dimension).collect())
    }

    /// The part of a rank: every `ranks`th index of the last dimension.
    fn of_rank(&self, rank: u64, ranks: u64) -> Self {
        let mut part = self.clone();
        if let Some([start, count, stride]) = part.0.last_mut() {
            *start += rank * *stride;
            *count = count.saturating_sub(rank).div_ceil(ranks);
            *stride *= ranks;
            // An empty part must start inside the array, too.
            *start = if *count == 0 { 0 } else { *start };
        } else if rank > 0 {
            return Self(vec![[0, 0, 1]]);
        }
        part
    }

    fn slab(&self) -> Selection {
        let column = |at: usize| self.0.iter().map(|dimension| dimension[at]).collect::<Vec<_>>();
        Selection::block(column(0), column(1)).stride(column(2))
    }

    /// The positions of its values in an array of these lengths.
    fn places(&self, lengths: &[u64]) -> Vec<usize> {
        let mut places = vec![0];
        for ([start, count, stride], length) in self.0.iter().zip(lengths) {
            let next = |place: &u64| {
                let first = place * length;
                (0..*count).map(move |at| first + start + at * stride)
            };
            places = places.iter().flat_map(next).collect();
        }
        places.into_iter().map(|place| place as usize).collect()
    }
}

enum Values {
    Byte(Vec<i8>),
    Short(Vec<i16>),
    Int(Vec<i32>),
    Double(Vec<f64>),
}

impl Values {
    fn new(kind: NcType, values: &[i32]) -> Self {
        match kind {
            NcType::Byte => Self::Byte(values.iter().map(|value| *value as i8).collect()),
            NcType::Short => Self::Short(values.iter().map(|value| *value as i16).collect()),
            NcType::Int => Self::Int(values.to_vec()),
            _ => Self::Double(values.iter().map(|value| f64::from(*value)).collect()),
        }
    }

    fn plain(&self) -> Vec<i32> {
        match self {
            Self::Byte(values) => values.iter().map(|value| i32::from(*value)).collect(),
            Self::Short(values) => values.iter().map(|value| i32::from(*value)).collect(),
            Self::Int(values) => values.clone(),
            Self::Double(values) => values.iter().map(|value| *value as i32).collect(),
        }
    }
}

macro_rules! each {
    ($values:expr, $list:ident => $result:expr) => {
        match $values {
            Values::Byte($list) => $result,
            Values::Short($list) => $result,
            Values::Int($list) => $result,
            Values::Double($list) => $result,
        }
    };
}

fn define(dataset: &mut NetcdfFile, seeded: &mut SeededRng) -> Result<Vec<Model>> {
    dataset.define(|file| {
        let time = file.unlimited("time")?;
        let lengths = [5, 1, 7, 12];
        let ids =
            (0..4).map(|at| file.dimension(&format!("d{at}"), lengths[at])).collect::<Result<Vec<_>>>()?;
        let mut models = Vec::new();
        for number in 0..7 {
            let kind = [NcType::Byte, NcType::Short, NcType::Int, NcType::Double][seeded.below(4)];
            let has_records = number != 0 && seeded.below(2) == 0;
            let inner: Vec<usize> = (0..seeded.below(4)).map(|_| seeded.below(4)).collect();
            let mut dimensions: Vec<_> = has_records.then_some(time).into_iter().collect();
            dimensions.extend(inner.iter().map(|at| ids[*at]));
            let id = file.variable(&format!("v{number}"), kind, &dimensions)?;
            let records = has_records.then_some(MOST_RECORDS);
            let lengths: Vec<u64> = records.into_iter().chain(inner.iter().map(|at| lengths[*at])).collect();
            let values = vec![0; lengths.iter().product::<u64>() as usize];
            models.push(Model { id, kind, lengths, has_records, values });
        }
        Ok(models)
    })
}

/// An access: the variable, the parts of all ranks, and their values.
struct Writing {
    variable: usize,
    parts: Vec<Part>,
    values: Vec<Vec<i32>>,
}

fn writing(models: &mut [Model], seeded: &mut SeededRng, ranks: u64, alone: Option<u64>) -> (Writing, u64) {
    let variable = seeded.below(models.len());
    let model = &mut models[variable];
    let whole = Part::random(seeded, &model.lengths);
    let part = |rank| match alone {
        None if !model.lengths.is_empty() => whole.of_rank(rank, ranks),
        Some(one) if rank == one => whole.clone(),
        None if rank == 0 => whole.clone(),
        _ => Part(model.lengths.iter().map(|_| [0, 0, 1]).collect()),
    };
    let parts: Vec<Part> = (0..ranks).map(part).collect();
    let mut records = 0;
    let mut values = Vec::new();
    for (rank, part) in parts.iter().enumerate() {
        // A scalar has no empty part: only one rank writes it.
        let idle = model.lengths.is_empty() && rank as u64 != alone.unwrap_or(0);
        let places = if idle { Vec::new() } else { part.places(&model.lengths) };
        values.push(places.iter().map(|_| seeded.below(256) as i32 - 128).collect::<Vec<_>>());
        places.iter().zip(&values[rank]).for_each(|(place, value)| model.values[*place] = *value);
        if let (true, [start, count, stride], false) =
            (model.has_records, part.0.first().copied().unwrap_or_default(), places.is_empty())
        {
            records = records.max(start + (count - 1) * stride + 1);
        }
    }
    (Writing { variable, parts, values }, records)
}

struct ModelTest<'a> {
    world: &'a Comm,
    dataset: NetcdfFile,
    models: Vec<Model>,
    records: u64,
}

impl ModelTest<'_> {
    fn rank(&self) -> usize {
        self.world.rank()
    }

    fn write_collective(&mut self, seeded: &mut SeededRng) -> Result<()> {
        let ranks = self.world.size() as u64;
        let (writing, records) = writing(&mut self.models, seeded, ranks, None);
        self.records = self.records.max(records);
        let model = &self.models[writing.variable];
        let values = Values::new(model.kind, &writing.values[self.rank()]);
        if model.lengths.is_empty() {
            // All ranks write the same scalar.
            let values = Values::new(model.kind, &writing.values[0]);
            return each!(&values, list => self.dataset.at(model.id, Selection::whole()).all().write(list));
        }
        let slab = writing.parts[self.rank()].slab();
        each!(&values, list => self.dataset.at(model.id, slab).all().write(list))
    }

    fn write_independent(&mut self, seeded: &mut SeededRng) -> Result<()> {
        let ranks = self.world.size() as u64;
        let one = seeded.below(ranks as usize);
        let (writing, records) = writing(&mut self.models, seeded, ranks, Some(one as u64));
        self.records = self.records.max(records);
        let model = &self.models[writing.variable];
        if one == self.rank() {
            let values = Values::new(model.kind, &writing.values[one]);
            let slab = writing.parts[one].slab();
            each!(&values, list => self.dataset.at(model.id, slab).write(list))?;
        }
        // All ranks learn of its records.
        self.dataset.commit()
    }

    fn write_queued(&mut self, seeded: &mut SeededRng) -> Result<()> {
        let ranks = self.world.size() as u64;
        let one = seeded.below(ranks as usize) as u64;
        let mut all = Vec::new();
        for _ in 0..seeded.below(6) {
            // Of accesses of one rank to the same values the last one counts.
            let (writing, records) = writing(&mut self.models, seeded, ranks, Some(one));
            self.records = self.records.max(records);
            let kind = self.models[writing.variable].kind;
            all.push((Values::new(kind, &writing.values[self.rank()]), writing));
        }
        let mut queue = self.dataset.queue();
        for (values, writing) in &all {
            let model = &self.models[writing.variable];
            if self.rank() as u64 == one {
                each!(values, list => { queue.put(model.id, writing.parts[self.rank()].slab(), list); });
            }
        }
        queue.run_all()
    }

    fn read(&self, seeded: &mut SeededRng, queued: bool, together: bool) -> Result<()> {
        // Each rank reads other parts.
        let mut own = SeededRng::new(seeded.number().wrapping_add(self.rank() as u64));
        assert_eq!(self.dataset.records(), self.records);
        let mut reads = Vec::new();
        for _ in 0..if queued { own.below(6) } else { 1 } {
            let model = &self.models[own.below(self.models.len())];
            let mut lengths = model.lengths.clone();
            if model.has_records {
                lengths[0] = self.records.max(1);
            }
            let mut part = Part::random(&mut own, &lengths);
            if model.has_records && self.records == 0 {
                part.0[0] = [0, 0, 1];
            }
            let expected: Vec<i32> = part.places(&model.lengths).iter().map(|at| model.values[*at]).collect();
            reads.push((model, part, Values::new(model.kind, &vec![99; expected.len()]), expected));
        }
        let mut queue = self.dataset.queue();
        for (model, part, values, _) in &mut reads {
            let (id, slab) = (model.id, part.slab());
            match (queued, together) {
                (true, _) => each!(values, list => { queue.get(id, slab, list); }),
                (false, true) => each!(values, list => self.dataset.at(id, slab).all().read(list))?,
                (false, false) => each!(values, list => self.dataset.at(id, slab).read(list))?,
            }
        }
        if together && queued { queue.run_all() } else { queue.run() }?;
        for (_, part, values, expected) in &reads {
            assert_eq!(values.plain(), *expected, "{part:?}");
        }
        Ok(())
    }
}

fn run_model(world: &Comm, seed: u64) -> Result<()> {
    let seeded = &mut SeededRng::new(seed);
    let version = CdfVersion::ALL[seeded.below(3)];
    let name = format!("memfs:random-{seed}.nc");
    let mut dataset = NetcdfCreateOptions::new().version(version).create(world, &name)?;
    let models = define(&mut dataset, seeded)?;
    let mut test = ModelTest { world, dataset, models, records: 0 };
    for _ in 0..STEPS {
        match seeded.below(7) {
            0 | 1 => test.write_collective(seeded)?,
            2 => test.write_independent(seeded)?,
            3 => test.write_queued(seeded)?,
            4 => test.read(seeded, false, true)?,
            5 => test.read(seeded, true, true)?,
            _ => {
                test.world.barrier()?;
                let queued = seeded.below(2) == 0;
                test.read(seeded, queued, false)?;
                test.world.barrier()?;
            }
        }
    }
    let ModelTest { dataset, models, records, .. } = test;
    dataset.close()?;
    // Everything is read back after reopening.
    let dataset = NetcdfOpenOptions::new().open(world, &name)?;
    assert_eq!(dataset.records(), records);
    for model in &models {
        let count = if model.has_records {
            model.values.len() as u64 / MOST_RECORDS * records
        } else {
            model.values.len() as u64
        };
        let mut values = Values::new(model.kind, &vec![99; count as usize]);
        each!(&mut values, list => dataset.at(model.id, Selection::whole()).all().read(list))?;
        assert_eq!(values.plain(), model.values[..count as usize]);
    }
    dataset.close()?;
    if world.rank() == 0 {
        aqueduct_file::delete(&name)?;
    }
    Ok::<_, Error>(())
}

#[test]
fn accesses_match_plain_arrays() {
    for seed in 0..300 {
        let outcome = Launch::threads(1 + (seed % 4) as usize).run(|world| run_model(world, seed));
        assert!(outcome.is_ok(), "seed {seed}: {outcome:?}");
    }
}
