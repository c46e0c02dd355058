//! A picture of a slice through the middle of the box: density of the air, and diesel.

use std::fs::File;
use std::io::BufWriter;
use std::path::Path;

use anyhow::{Context, Result};
use aqueduct::comm::Op;

use crate::fluid::Fluid;
use crate::quantity::{scalar, vector};
use crate::simulation::SphSimulation;

/// The width of a picture in pixels.
const WIDTH: usize = 960;

/// The colours of air from 0.7 to 1.3 times the density at rest.
const AIR: [[f64; 3]; 5] = [
    [12.0, 30.0, 80.0],
    [48.0, 98.0, 160.0],
    [120.0, 170.0, 210.0],
    [205.0, 228.0, 240.0],
    [255.0, 255.0, 255.0],
];
const DIESEL: [f64; 3] = [205.0, 92.0, 8.0];
const SOLID: [f64; 3] = [70.0, 70.0, 74.0];

/// The sums of a pixel: weights of air, weights times density ratio of air, weights of diesel, weights of walls.
const SUMS: usize = 4;

/// Renders the slice z = middle (all of it in two dimensions) and writes it as PNG on rank 0. Collective.
pub fn write(simulation: &SphSimulation, path: &Path) -> Result<()> {
    let (sums, width, height) = sums(simulation)?;
    if simulation.world().rank() != 0 {
        return Ok(());
    }
    let mut pixels = Vec::with_capacity(3 * width * height);
    for row in (0..height).rev() {
        for column in 0..width {
            let at = SUMS * (row * width + column);
            pixels.extend(colour(&sums[at..at + SUMS]));
        }
    }
    let write = || {
        let file = BufWriter::new(File::create(path)?);
        let mut encoder = png::Encoder::new(file, width as u32, height as u32);
        encoder.set_color(png::ColorType::Rgb);
        encoder.set_depth(png::BitDepth::Eight);
        let mut writer = encoder.write_header()?;
        writer.write_image_data(&pixels)?;
        writer.finish()
    };
    write().with_context(|| format!("writing {}", path.display()))
}

/// The sums of all pixels of all ranks; width and height of the picture.
fn sums(simulation: &SphSimulation) -> Result<(Vec<f64>, usize, usize)> {
    let (config, scene) = (simulation.config(), simulation.scene());
    let used = |axis: usize| {
        scene
            .chamber
            .as_ref()
            .map_or(scene.grid.length[axis], |chamber| chamber.low[axis] + chamber.high[axis])
    };
    let (length, breadth) = (used(0), if config.dimensions > 1 { used(1) } else { 4.0 * config.spacing });
    let scale = WIDTH as f64 / length;
    let height = ((breadth * scale).ceil() as usize).clamp(1, 4 * WIDTH);
    let middle = if config.dimensions > 2 { 0.5 * used(2) } else { 0.0 };
    let particles = simulation.particles();
    let mut sums = vec![0.0; SUMS * WIDTH * height];
    let radius = 1.1 * config.spacing;
    let pixels = (radius * scale).ceil() as i64;
    for at in 0..particles.len() {
        let [x, y, z] = particles.vectors[vector::POSITION][at];
        let y = if config.dimensions > 1 { y } else { 0.5 * breadth };
        let off = (z - middle) * (z - middle);
        if off >= radius * radius {
            continue;
        }
        let ratio = particles.scalars[scalar::DENSITY][at] / config.air_density;
        let (column, row) = ((x * scale) as i64, (y * scale) as i64);
        for row in (row - pixels).max(0)..(row + pixels + 1).min(height as i64) {
            for column in (column - pixels).max(0)..(column + pixels + 1).min(WIDTH as i64) {
                let (dx, dy) = ((column as f64 + 0.5) / scale - x, (row as f64 + 0.5) / scale - y);
                let square = (dx * dx + dy * dy + off) / (radius * radius);
                if square < 1.0 {
                    let weight = (1.0 - square) * (1.0 - square);
                    let sum = &mut sums[SUMS * (row as usize * WIDTH + column as usize)..][..SUMS];
                    match particles.fluids[at] {
                        Fluid::Air => {
                            sum[0] += weight;
                            sum[1] += weight * ratio;
                        }
                        Fluid::Diesel => sum[2] += weight,
                        Fluid::Wall => sum[3] += weight,
                    }
                }
            }
        }
    }
    let sums = simulation.world().reduce(0, Op::Sum, &sums)?.unwrap_or_default();
    Ok((sums, WIDTH, height))
}

/// The colour of a pixel: air by its density, with narrow borders to diesel and walls.
fn colour(sums: &[f64]) -> [u8; 3] {
    let total = sums[0] + sums[2] + sums[3];
    let ratio = if sums[0] > 0.0 { sums[1] / sums[0] } else { 1.0 };
    let place = ((ratio - 0.7) / 0.6).clamp(0.0, 1.0) * (AIR.len() - 1) as f64;
    let below = (place as usize).min(AIR.len() - 2);
    let part = place - below as f64;
    // Cubes of the shares make borders narrow; where there is nothing, there is a wall.
    let cube = |sum: f64| if total > 0.0 { (sum / total).powi(3) } else { 0.0 };
    let [air, diesel, solid] = [cube(sums[0]), cube(sums[2]), cube(sums[3]).max(1e-9)];
    std::array::from_fn(|channel| {
        let gas = AIR[below][channel] * (1.0 - part) + AIR[below + 1][channel] * part;
        let mixed = air * gas + diesel * DIESEL[channel] + solid * SOLID[channel];
        (mixed / (air + diesel + solid)).round().clamp(0.0, 255.0) as u8
    })
}
