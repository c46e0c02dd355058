//! A hash of what is simulated and stored, the same for any decomposition: a checkpoint belongs to runs with the same hash.

use anyhow::Result;
use aqueduct::comm::{Comm, Op};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use crate::grid::field_block::FieldBlock;
use crate::output::quantity_streams::SamplingPlan;
use crate::problem::{BlockValues, MediumField, PointSource, SensorMask, WaveProblem};

/// The sum of the hashes of the rows of a field; the number of a row in the grid is its seed.
fn rows<T: bytemuck::Pod>(block: &FieldBlock, values: &[T], salt: u64) -> u64 {
    let width = block.points[0];
    let hash = |(row, values): (usize, &[T])| {
        let seed =
            salt.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add((block.global(row * width) / width) as u64);
        xxh3_64_with_seed(bytemuck::cast_slice(values), seed)
    };
    values.chunks_exact(width).enumerate().map(hash).fold(0, u64::wrapping_add)
}

fn source(block: &FieldBlock, source: &PointSource, salt: u64) -> u64 {
    let width = if source.many { source.points.len() } else { 1 };
    let hash = |(number, point): (usize, &usize)| {
        let column = if source.many { number } else { 0 };
        let values: Vec<f32> = source.values.iter().skip(column).step_by(width.max(1)).copied().collect();
        let seed = salt
            .wrapping_add((block.global(*point) as u64).rotate_left(16))
            .wrapping_add(source.mode.number());
        xxh3_64_with_seed(bytemuck::cast_slice(&values), seed)
    };
    source.points.iter().enumerate().map(hash).fold(0, u64::wrapping_add)
}

/// The sum of the hashes of the points of a sensor on this rank, and what all ranks know of it.
fn sensor(block: &FieldBlock, mask: &SensorMask) -> (u64, String) {
    match mask {
        SensorMask::Points { count, mine } => {
            let hash = |position: u64, local: usize| {
                xxh3_64_with_seed(&(block.global(local) as u64).to_le_bytes(), position)
            };
            let sum = mine.iter().map(|point| hash(point.position, point.local)).fold(0, u64::wrapping_add);
            (sum, count.to_string())
        }
        SensorMask::Boxes(boxes) => (0, format!("{boxes:?}")),
    }
}

/// The hash of a run. Collective.
pub fn fingerprint(
    world: &Comm,
    problem: &WaveProblem,
    plan: Option<&SamplingPlan>,
    width: usize,
) -> Result<u64> {
    let (block, medium, sources) = (&problem.block, &problem.medium, &problem.sources);
    let mut sum = 0u64;
    let mut add = |hash: u64| sum = sum.wrapping_add(hash);
    let absorption = medium.absorption.as_ref().map(|law| &law.coefficient);
    let fields = [Some(&medium.sound_speed), Some(&medium.density), medium.nonlinearity.as_ref(), absorption];
    let fields = fields.into_iter().chain(medium.staggered_density.iter().map(Some));
    let mut uniform = Vec::new();
    for (salt, field) in (1..).zip(fields) {
        match field {
            Some(MediumField::Block(values)) => add(rows(block, values, salt)),
            Some(MediumField::Uniform(value)) => uniform.push(value.to_bits()),
            None => uniform.push(u64::MAX),
        }
    }
    match &sources.initial_pressure {
        Some(BlockValues::Single(values)) => add(rows(block, values, 100)),
        Some(BlockValues::Double(values)) => add(rows(block, values, 101)),
        None => {}
    }
    let [x, y, z] = &sources.velocity;
    for (salt, part) in (200..).zip([&sources.pressure, x, y, z]) {
        part.iter().for_each(|part| add(source(block, part, salt)));
    }
    if let Some(transducer) = &sources.transducer {
        let points = transducer.points.iter().zip(&transducer.delays);
        points.for_each(|(point, delay)| {
            add(xxh3_64_with_seed(&(*delay as u64).to_le_bytes(), block.global(*point) as u64));
        });
        uniform.extend([transducer.steps, xxh3_64(bytemuck::cast_slice(&transducer.signal))]);
    }
    let (points, mask) = sensor(block, &problem.sensor);
    add(points);
    let parts = world.allreduce_one(Op::Sum, sum)?;
    let stored = plan.map_or_else(String::new, |plan| {
        format!("{:?} {} {} {}", plan.quantities, plan.first_step, plan.compression, plan.copy_mask)
    });
    let law = medium.absorption.as_ref().map(|law| (law.power, law.stokes));
    let header = format!(
        "{:?} {} {} {} {:?} {law:?} {uniform:?} {parts} {mask} {stored} {width}",
        problem.grid, problem.steps, problem.dt, problem.reference_speed, problem.pml
    );
    Ok(xxh3_64(header.as_bytes()))
}
