//! The initial state: a ball of gas at rest.

use anyhow::{Result, ensure};

use crate::matrix::scaled_identity;
use crate::packet::MassPacket;

/// A ball of radius 1 and mass 1 with the density (1 − r²)^(1/(γ−1)), at rest and with constant entropy: packets on a lattice, the `count` innermost ones. This
/// profile expands self-similarly.
pub fn ball<const D: usize>(count: usize, gamma: f64) -> Result<Vec<MassPacket<D>>> {
    ensure!(count > 0, "a ball needs packets");
    // Distances in units of half the lattice constant: odd integers, exact.
    let edge = ((count as f64).powf(1.0 / D as f64) * 1.3 + 4.0) as i64;
    let odd: Vec<i64> = (-edge..edge).map(|at| 2 * at + 1).collect();
    let mut places: Vec<(i64, [i64; D])> = Vec::new();
    for number in 0..odd.len().pow(D as u32) {
        let place: [i64; D] =
            std::array::from_fn(|axis| odd[number / odd.len().pow(axis as u32) % odd.len()]);
        places.push((place.iter().map(|at| at * at).sum(), place));
    }
    places.sort_unstable();
    let shell = |at: usize| places.get(at).map_or(i64::MAX, |(square, _)| *square);
    ensure!(
        shell(count - 1) != shell(count),
        "{count} packets do not fill whole shells of the lattice, which would not be round; nearest: {}",
        nearest_shells(&places, count)
    );
    let outermost = (shell(count - 1) as f64).sqrt();
    // The outermost packets are inside the radius by half a lattice constant.
    let half = 1.0 / (outermost + 1.0);
    let exponent = 1.0 / (gamma - 1.0);
    let density = |square: i64| (1.0 - square as f64 * half * half).max(0.0).powf(exponent);
    let total: f64 = places[..count].iter().map(|(square, _)| density(*square)).sum();
    let packet = |(square, place): &(i64, [i64; D])| MassPacket {
        flag: 1.0,
        position: place.map(|at| at as f64 * half),
        velocity: [0.0; D],
        mass: density(*square) / total,
        entropy: 0.0,
        deformation: scaled_identity(2.0 * half),
        deformation_rate: [[0.0; D]; D],
    };
    Ok(places[..count].iter().map(packet).collect())
}

/// The numbers of packets of whole shells around `count`, as text.
fn nearest_shells<const D: usize>(places: &[(i64, [i64; D])], count: usize) -> String {
    let is_whole = |at: &usize| places[at - 1].0 != places[*at].0;
    let below = (1..count).rev().find(is_whole);
    let above = (count + 1..places.len()).find(is_whole);
    let found: Vec<String> = below.into_iter().chain(above).map(|count| count.to_string()).collect();
    found.join(" and ")
}
