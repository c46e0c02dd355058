//! Pictures of planes of a field.

use std::fs::File;
use std::io::BufWriter;
use std::path::Path;

use anyhow::{Context, Result};
use aqueduct::comm::{Comm, Op};

use crate::grid::field_block::FieldBlock;

/// The smallest width of a picture in pixels; points of small grids are enlarged.
const WIDTH: usize = 512;

/// The colour of a value from −1 to 1: blue, white, red.
fn colour(value: f64) -> [u8; 3] {
    let strength = value.abs().min(1.0).sqrt();
    let mix = |end: f64| (255.0 + (end - 255.0) * strength).round() as u8;
    let end = if value < 0.0 { [33.0, 76.0, 164.0] } else { [178.0, 24.0, 43.0] };
    end.map(mix)
}

/// Writes a picture of values, `width` per row; the scale is that of the greatest value.
pub fn write_picture(file: &Path, width: usize, values: &[f32], greatest: f32) -> Result<()> {
    let height = values.len() / width.max(1);
    let scale = WIDTH.div_ceil(width.max(1)).max(1);
    let mut pixels = Vec::with_capacity(values.len() * scale * scale * 3);
    for row in values.chunks_exact(width) {
        let mut line = Vec::with_capacity(width * scale * 3);
        for value in row {
            let colour = colour(f64::from(*value) / f64::from(greatest.max(f32::MIN_POSITIVE)));
            (0..scale).for_each(|_| line.extend(colour));
        }
        (0..scale).for_each(|_| pixels.extend_from_slice(&line));
    }
    let out = File::create(file).with_context(|| file.display().to_string())?;
    let mut encoder = png::Encoder::new(BufWriter::new(out), (width * scale) as u32, (height * scale) as u32);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    Ok(encoder.write_header()?.write_image_data(&pixels)?)
}

/// The middle planes of a field across x, y and z, on rank 0: the direction, the width of a row, the values. Collective.
fn middle_planes(world: &Comm, block: &FieldBlock, field: &[f32]) -> Result<Vec<(usize, usize, Vec<f32>)>> {
    let mut planes = Vec::new();
    for direction in 0..3 {
        let [nx, ny, nz] = block.points;
        if nz == 1 && direction < 2 {
            continue;
        }
        let middle = block.points[direction] / 2;
        let (width, height) = match direction {
            0 => (ny, nz),
            1 => (nx, nz),
            _ => (nx, ny),
        };
        let mut plane = vec![0.0f32; width * height];
        for (local, value) in field.iter().enumerate() {
            let index = block.global(local);
            let point = [index % nx, index / nx % ny, index / nx / ny];
            if point[direction] == middle {
                let (column, row) = match direction {
                    0 => (point[1], point[2]),
                    1 => (point[0], point[2]),
                    _ => (point[0], point[1]),
                };
                plane[row * width + column] = *value;
            }
        }
        // Each value is on one rank, and zero on the others.
        if let Some(whole) = world.reduce(0, Op::Sum, &plane)? {
            planes.push((direction, width, whole));
        }
    }
    Ok(planes)
}

/// Writes pictures of the middle planes of a field to `<prefix>-x.png` and so on. Collective.
pub fn write_pictures(world: &Comm, prefix: &str, block: &FieldBlock, field: &[f32]) -> Result<()> {
    let planes = middle_planes(world, block, field)?;
    let greatest =
        planes.iter().flat_map(|(_, _, values)| values).fold(0.0f32, |most, value| most.max(value.abs()));
    for (direction, width, values) in planes {
        let name = ["x", "y", "z"][direction];
        write_picture(Path::new(&format!("{prefix}-{name}.png")), width, &values, greatest)?;
    }
    Ok(())
}
