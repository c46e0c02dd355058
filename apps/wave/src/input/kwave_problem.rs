//! The simulation that an input file of k-Wave describes.

use anyhow::{Result, bail, ensure};
use aqueduct::comm::Comm;

use super::kwave_file::KwaveFile;
use super::source_lists::{point_sources, points_in_block, transducer};
use crate::grid::WaveGrid;
use crate::grid::decomposition::{DecompositionKind, PencilDecomposition};
use crate::grid::field_block::FieldBlock;
use crate::grid::pml::PmlLayer;
use crate::problem::{
    Absorption, BlockValues, Medium, MediumField, SensorMask, SensorPoint, Sources, WaveProblem,
};
use crate::solver::memory_estimate::MemoryNeed;

/// The largest number of points per direction, and of all: the bytes of all fields can be counted.
const MOST_POINTS: u64 = 1 << 20;
const MOST_VOLUME: usize = 1 << 42;

const DIRECTIONS: [&str; 3] = ["x", "y", "z"];

/// Flags of simulations that are not supported.
const REFUSED: [&str; 9] = [
    "nonuniform_grid_flag",
    "elastic_flag",
    "axisymmetric_flag",
    "sxx_source_flag",
    "syy_source_flag",
    "szz_source_flag",
    "sxy_source_flag",
    "sxz_source_flag",
    "syz_source_flag",
];

/// An input file before its fields are read.
pub struct KwaveInput {
    file: KwaveFile,
    /// The grid.
    pub grid: WaveGrid,
    /// The number of steps of the file.
    pub steps: u64,
}

impl KwaveInput {
    /// Opens a file and reads its sizes. Collective.
    pub fn open(world: &Comm, name: &str) -> Result<Self> {
        let file = KwaveFile::open(world, name)?;
        for flag in REFUSED {
            let value = file.long_or(flag, 0)?;
            ensure!(value == 0, "{name}: {flag} is {value}; such simulations are not supported");
        }
        let mut points = [1; 3];
        for (points, dataset) in points.iter_mut().zip(["Nx", "Ny", "Nz"]) {
            let value = file.long(dataset)?;
            ensure!(
                (1..=MOST_POINTS).contains(&value),
                "{name}: {dataset} is {value}; it should be from 1 to {MOST_POINTS}"
            );
            *points = value as usize;
        }
        ensure!(
            points[0] > 1 && points[1] > 1,
            "{name}: Nx and Ny are {} and {}; simulations in one dimension are not supported",
            points[0],
            points[1]
        );
        ensure!(
            points.iter().product::<usize>() <= MOST_VOLUME,
            "{name}: Nx, Ny and Nz are {points:?}; at most 2^42 points are supported"
        );
        let mut spacing = [1.0; 3];
        let dimensions = if points[2] > 1 { 3 } else { 2 };
        for (spacing, dataset) in spacing.iter_mut().zip(["dx", "dy", "dz"]).take(dimensions) {
            *spacing = file.positive(dataset)?;
        }
        let steps = file.long("Nt")?;
        ensure!((1..1 << 48).contains(&steps), "{name}: Nt is {steps}; it should be at least 1");
        Ok(Self { file, grid: WaveGrid { points, spacing }, steps })
    }

    /// Reads the part of this rank. Collective.
    pub fn read(&self, world: &Comm, kind: DecompositionKind, steps: Option<u64>) -> Result<WaveProblem> {
        let (file, grid) = (&self.file, self.grid);
        let block = PencilDecomposition::new(kind, &grid, world.size()).block(&grid, world.rank());
        let steps = steps.unwrap_or(self.steps);
        Ok(WaveProblem {
            description: file.description(),
            grid,
            steps,
            dt: file.positive("dt")?,
            reference_speed: file.positive("c_ref")?,
            medium: self.medium(&block)?,
            pml: self.pml()?,
            sources: self.sources(&block, steps)?,
            sensor: self.sensor(&block)?,
            scalars: file.scalars()?,
            block,
        })
    }

    /// What the simulation needs beside its fields.
    pub fn memory_need(&self) -> MemoryNeed {
        let is_array = |name: &&str| self.file.is_field(name, &self.grid);
        let names = ["c0", "rho0", "rho0_sgx", "rho0_sgy", "rho0_sgz", "BonA", "alpha_coeff"];
        let is_corrected = |kind: &str| {
            let mode = format!("{kind}_source_mode");
            self.file.has(&mode) && self.file.long(&mode).is_ok_and(|mode| mode == 2)
        };
        let inputs = ["p_source_input", "ux_source_input", "uy_source_input", "uz_source_input"];
        let boxes = || self.file.corners("sensor_mask_corners").unwrap_or_default();
        let volume = |corners: &[u64; 6]| {
            let side = |at: usize| corners[at + 3].saturating_sub(corners[at]).saturating_add(1);
            side(0).saturating_mul(side(1)).saturating_mul(side(2))
        };
        let listed = self.file.list_length("sensor_mask_index").unwrap_or(0);
        MemoryNeed {
            properties: names.iter().filter(|name| is_array(name)).count() as u64,
            absorbing: self.file.has("alpha_coeff"),
            // Both are read on all ranks.
            corrected: [is_corrected("p"), is_corrected("u")].contains(&true),
            initial: u64::from(is_array(&"p0_source_input")),
            sources: inputs.iter().map(|name| self.file.stored_bytes(name)).sum(),
            sampled: boxes().iter().map(volume).fold(listed, u64::saturating_add),
            listed: listed > 0,
        }
    }

    fn directions(&self) -> impl Iterator<Item = (usize, &'static str)> + use<> {
        DIRECTIONS.into_iter().enumerate().take(self.grid.dimensions())
    }

    fn medium(&self, block: &FieldBlock) -> Result<Medium> {
        let (file, name) = (&self.file, self.file.name());
        let sound_speed = file.medium("c0", block, Some(0.0))?;
        let density = file.medium("rho0", block, Some(0.0))?;
        let mut staggered_density = Vec::new();
        for (_, direction) in self.directions() {
            let dataset = format!("rho0_sg{direction}");
            let field = file.medium(&dataset, block, Some(0.0))?;
            let alike =
                matches!(field, MediumField::Uniform(_)) == matches!(density, MediumField::Uniform(_));
            ensure!(alike, "{name}: of rho0 and {dataset} only one is an array; both should be");
            staggered_density.push(field);
        }
        let nonlinearity = match file.long("nonlinear_flag")? {
            0 => None,
            1 => Some(file.medium("BonA", block, None)?),
            other => bail!("{name}: nonlinear_flag is {other}; it should be 0 or 1"),
        };
        let absorption = match file.long("absorbing_flag")? {
            0 => None,
            flag @ (1 | 2) => {
                let stokes = flag == 2;
                let power = if stokes { 2.0 } else { file.float("alpha_power")? };
                ensure!(
                    power.is_finite() && (0.0..=3.0).contains(&power),
                    "{name}: alpha_power is {power}; it should be from 0 to 3"
                );
                ensure!(
                    stokes || power != 1.0,
                    "{name}: alpha_power is 1, where the dispersion is infinite; use 1.01 or 0.99"
                );
                Some(Absorption { coefficient: file.medium("alpha_coeff", block, None)?, power, stokes })
            }
            other => bail!("{name}: absorbing_flag is {other}; it should be 0, 1 or 2"),
        };
        Ok(Medium { sound_speed, density, staggered_density, nonlinearity, absorption })
    }

    fn pml(&self) -> Result<[PmlLayer; 3]> {
        let (file, name) = (&self.file, self.file.name());
        let mut layers = [PmlLayer::default(); 3];
        for (at, direction) in self.directions() {
            let size = file.long(&format!("pml_{direction}_size"))?;
            let alpha = file.float(&format!("pml_{direction}_alpha"))?;
            let points = self.grid.points[at];
            ensure!(
                size < points as u64 && 2 * size < points as u64,
                "{name}: pml_{direction}_size is {size}; two layers should be thinner than the grid of {points} points"
            );
            ensure!(alpha.is_finite(), "{name}: pml_{direction}_alpha is {alpha}");
            layers[at] = PmlLayer { size: size as usize, alpha };
        }
        Ok(layers)
    }

    fn sources(&self, block: &FieldBlock, steps: u64) -> Result<Sources> {
        let (file, name) = (&self.file, self.file.name());
        let pressure = point_sources(file, "p", &["p"], steps, block)?.pop().flatten();
        let components: Vec<String> =
            self.directions().map(|(_, direction)| format!("u{direction}")).collect();
        let components: Vec<&str> = components.iter().map(String::as_str).collect();
        let mut velocity = point_sources(file, "u", &components, steps, block)?.into_iter();
        let velocity = [(); 3].map(|()| velocity.next().flatten());
        let initial_pressure = match file.long("p0_source_flag")? {
            0 => None,
            1 => Some(BlockValues::Single(file.block("p0_source_input", block)?)),
            other => bail!("{name}: p0_source_flag is {other}; it should be 0 or 1"),
        };
        Ok(Sources { initial_pressure, pressure, velocity, transducer: transducer(file, block)? })
    }

    fn sensor(&self, block: &FieldBlock) -> Result<SensorMask> {
        let (file, name) = (&self.file, self.file.name());
        match file.long_or("sensor_mask_type", 0)? {
            0 if !file.has("sensor_mask_index") => Ok(SensorMask::Points { count: 0, mine: Vec::new() }),
            0 => {
                let points = points_in_block(file, "sensor_mask_index", block)?.into_iter();
                let mine = points
                    .map(|point| SensorPoint { position: point.position, local: point.local })
                    .collect();
                Ok(SensorMask::Points { count: file.list_length("sensor_mask_index")?, mine })
            }
            1 => {
                let mut boxes = Vec::new();
                for (number, corners) in file.corners("sensor_mask_corners")?.into_iter().enumerate() {
                    let inside = |at: usize| {
                        let (first, last) = (corners[at], corners[at + 3]);
                        first >= 1 && first <= last && last <= self.grid.points[at] as u64
                    };
                    ensure!(
                        (0..3).all(inside),
                        "{name}: box {} of sensor_mask_corners is {corners:?}; it should lie in the grid of {:?} points",
                        number + 1,
                        self.grid.points
                    );
                    boxes.push([0, 1, 2].map(|at| corners[at] as usize - 1..corners[at + 3] as usize));
                }
                Ok(SensorMask::Boxes(boxes))
            }
            other => bail!("{name}: sensor_mask_type is {other}; it should be 0 or 1"),
        }
    }
}
