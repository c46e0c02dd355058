//! `PovWriter`: a POV-Ray scene per frame: a shape per component, and each molecule as a rotated and translated shape.
//!
//! After `PovWriter.cpp` of ls1 mardyn; the documentation of POV-Ray, section "Scene File Language", specifies the language.

use std::fmt::Write as _;

use anyhow::Result;
use aqueduct::checkpoint::Molecule;
use aqueduct::file::OpenOptions;
use aqueduct::mardyn::{MoleculeComponent, PhaseSpace};

use super::parallel_text;
use crate::simulation::Simulation;
use crate::simulation::exchange;

/// Writes the molecules of all ranks into a new scene. Collective.
pub fn write(simulation: &Simulation, space: &PhaseSpace, name: &str) -> Result<()> {
    let world = simulation.world();
    let molecules = exchange::sort_by_id(world, simulation.molecules())?;
    let file = OpenOptions::new().read(true).write(true).create(true).open(world, name)?;
    file.set_size(0)?;
    let lines: String = molecules.iter().map(object).collect();
    let head = head(space, simulation.step(), simulation.time());
    parallel_text::write(world, &file, 0, &head, &lines)?;
    file.sync()?;
    Ok(file.close()?)
}

/// The text before the molecules.
fn head(space: &PhaseSpace, step: u64, time: f64) -> String {
    let [x, y, z] = space.length;
    let mut text =
        format!("// md: step {step}, time {time}\n// box: {x} {y} {z}\nbackground {{ rgb <1,1,1> }}\n");
    for (number, component) in space.components.iter().enumerate() {
        let _ = writeln!(text, "#declare T{number} = {}", shape(component, number + 1));
    }
    let eye = [-0.1 * x, 1.1 * y, -1.5 * z].map(|at| at.to_string()).join(",");
    let middle = [x, y, z].map(|edge| (0.5 * edge).to_string()).join(",");
    let _ = writeln!(text, "camera {{ perspective location <{eye}> look_at <{middle}> }}");
    let corners = (0..8).map(|corner| {
        let at = |axis: usize, edge: f64| if corner >> axis & 1 == 1 { edge } else { 0.0 };
        format!("{},{},{}", at(0, x), at(1, y), at(2, z))
    });
    for light in std::iter::once(eye.clone()).chain(corners) {
        let _ = writeln!(text, "light_source {{ <{light}>, color rgb <1,1,1> }}");
    }
    text
}

/// Spheres of the diameter sigma, with a colour per component. A component without Lennard-Jones centres is a small sphere.
fn shape(component: &MoleculeComponent, number: usize) -> String {
    let colour = [number % 2, number / 2 % 2, number / 4 % 2].map(|part| part.to_string()).join(",");
    let mut spheres = String::new();
    for site in &component.lennard_jones {
        let [x, y, z] = site.position;
        let _ = write!(spheres, "sphere {{ <{x},{y},{z}>, {} }} ", 0.5 * site.sigma);
    }
    if spheres.is_empty() {
        spheres.push_str("sphere { <0,0,0>, 0.1 } ");
    }
    let look = "finish { ambient 0.5 diffuse 0.4 phong 0.3 phong_size 3 }";
    format!("union {{ {spheres}pigment {{ color rgb <{colour}> }} {look} }}")
}

/// A molecule. POV-Ray multiplies row vectors by the matrix, so its rows are the columns of the rotation.
fn object(molecule: &Molecule) -> String {
    let [w, x, y, z] = molecule.orientation;
    let rows = [
        [w * w + x * x - y * y - z * z, 2.0 * (x * y + w * z), 2.0 * (x * z - w * y)],
        [2.0 * (x * y - w * z), w * w - x * x + y * y - z * z, 2.0 * (y * z + w * x)],
        [2.0 * (x * z + w * y), 2.0 * (y * z - w * x), w * w - x * x - y * y + z * z],
        molecule.position,
    ];
    let numbers = rows.concat().iter().map(f64::to_string).collect::<Vec<_>>().join(",");
    format!("object {{ T{} matrix <{numbers}> }}\n", molecule.component)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_molecule_is_rotated_and_translated() {
        let mut molecule = Molecule::new(1, [1.0, 2.0, 3.5], [0.0; 3]);
        assert_eq!(object(&molecule), "object { T0 matrix <1,0,0,0,1,0,0,0,1,1,2,3.5> }\n");
        // A rotation by 90° about z maps the x axis, the first row, to y.
        let half = 0.5_f64.sqrt();
        molecule.orientation = [half, 0.0, 0.0, half];
        let text = object(&molecule);
        let numbers = text.split(['<', '>']).nth(1).unwrap().split(',').map(|n| n.parse::<f64>().unwrap());
        let first: Vec<f64> = numbers.take(3).collect();
        assert!(first[0].abs() < 1e-12 && (first[1] - 1.0).abs() < 1e-12 && first[2] == 0.0, "{text}");
    }
}
