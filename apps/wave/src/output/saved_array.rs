//! Arrays of a checkpoint: what they are called, and which block of them a rank has.

use anyhow::Result;
use aqueduct::comm::Comm;

use super::mask_layout::MaskLayout;
use crate::grid::decomposition::share;

/// A rank's block of a distributed array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArrayPlace {
    /// The name of the array.
    pub name: String,
    /// Its shape.
    pub shape: Vec<u64>,
    /// The start of the block.
    pub start: Vec<u64>,
    /// The shape of the block.
    pub count: Vec<u64>,
}

/// Values of a block: in the precision of the fields, or in double precision.
#[derive(Clone, Debug)]
pub enum SavedValues<T> {
    /// In that of the fields.
    Field(Vec<T>),
    /// In double precision.
    Wide(Vec<f64>),
}

/// A block of an array with its values.
pub type SavedArray<T> = (ArrayPlace, SavedValues<T>);

/// Reads blocks of the arrays of a checkpoint. Collective.
pub trait SavedArrays<T> {
    /// A block in the precision of the fields.
    fn field(&self, place: &ArrayPlace) -> Result<Vec<T>>;

    /// A block in double precision.
    fn wide(&self, place: &ArrayPlace) -> Result<Vec<f64>>;
}

/// Where the values of the regions of a mask are saved: one array per box, or one for all points. `own` has the values that this rank reads: for
/// points those from its first to its last position.
pub fn mask_places(layout: &MaskLayout, name: &str) -> Vec<ArrayPlace> {
    let place = |(region, shape): (usize, &Vec<u64>)| {
        let parts = || layout.parts.iter().filter(|part| part.region == region);
        let name = if layout.boxes { format!("{name}.{}", region + 1) } else { name.to_owned() };
        let (start, count) = if layout.boxes {
            let empty = || (vec![0; shape.len()], vec![0; shape.len()]);
            parts().next().map_or_else(empty, |part| (part.start.clone(), part.count.clone()))
        } else {
            let first = parts().map(|part| part.start[0]).min().unwrap_or(0);
            let end = parts().map(|part| part.start[0] + part.count[0]).max().unwrap_or(0);
            (vec![first], vec![end - first])
        };
        ArrayPlace { name, shape: shape.clone(), start, count }
    };
    layout.regions.iter().enumerate().map(place).collect()
}

/// The samples of this rank from the blocks of [`mask_places`].
pub fn from_blocks<V: Copy>(layout: &MaskLayout, blocks: &[Vec<V>], places: &[ArrayPlace]) -> Vec<V> {
    let mut values = Vec::with_capacity(layout.samples);
    for part in &layout.parts {
        let first = if layout.boxes { 0 } else { (part.start[0] - places[0].start[0]) as usize };
        values.extend_from_slice(&blocks[part.region][first..first + part.len()]);
    }
    values
}

/// The samples of all ranks as blocks, each element on one rank: boxes as they are, points in even shares of the list. Collective.
pub fn to_blocks(
    world: &Comm,
    layout: &MaskLayout,
    name: &str,
    values: &[f64],
) -> Result<Vec<(ArrayPlace, Vec<f64>)>> {
    let mut places = mask_places(layout, name);
    if layout.boxes {
        let block = |(region, place): (usize, ArrayPlace)| {
            let part = layout.parts.iter().find(|part| part.region == region);
            let mine =
                part.map_or_else(Vec::new, |part| values[part.first..part.first + part.len()].to_vec());
            (place, mine)
        };
        return Ok(places.into_iter().enumerate().map(block).collect());
    }
    let count = layout.regions[0][0] as usize;
    let mut parts: Vec<Vec<[u64; 2]>> = vec![Vec::new(); world.size()];
    let owned: Vec<_> = (0..world.size()).map(|rank| share(count, world.size(), rank)).collect();
    for part in &layout.parts {
        for (position, value) in (part.start[0]..).zip(&values[part.first..part.first + part.len()]) {
            let owner = owned.partition_point(|range| range.end <= position as usize);
            parts[owner].push([position, value.to_bits()]);
        }
    }
    let mine = &owned[world.rank()];
    let mut block = vec![0.0; mine.len()];
    for received in world.all_to_all_varied(&parts)? {
        for [position, bits] in received {
            block[position as usize - mine.start] = f64::from_bits(bits);
        }
    }
    let mut place = places.remove(0);
    (place.start, place.count) = (vec![mine.start as u64], vec![mine.len() as u64]);
    Ok(vec![(place, block)])
}
