//! The time of a step: against k-Wave for Python, on two ranks, and against its transforms alone.

use std::env;
use std::hint::black_box;
use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, anyhow, ensure};
use aqueduct::comm::{Comm, Launch};
use aqueduct_wave::grid::WaveGrid;
use aqueduct_wave::grid::decomposition::{DecompositionKind, PencilDecomposition};
use aqueduct_wave::transform::spectral_transform::SpectralTransform;

use super::WaveBench;
use crate::table::FigureTable;
use crate::timing::{alternate, ratios};

/// The time of a step of the solver of k-Wave for Python: runs of few and of more steps, so that its preparation is left out.
const NUMPY_SOLVER: &str = r#"
import sys, time
import numpy as np
from kwave.data import Vector
from kwave.kgrid import kWaveGrid
from kwave.kmedium import kWaveMedium
from kwave.ksensor import kSensor
from kwave.ksource import kSource
from kwave.kspaceFirstOrder import kspaceFirstOrder

side, steps, full = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3] == "full"
axis = np.arange(side) - side // 2
r2 = axis[:, None, None] ** 2 + axis[None, :, None] ** 2 + axis[None, None, :] ** 2

def seconds(steps):
    grid = kWaveGrid(Vector([side] * 3), Vector([1e-4] * 3))
    grid.setTime(steps, 2e-8)
    medium = kWaveMedium(sound_speed=1500, density=1000)
    if full:
        medium = kWaveMedium(sound_speed=1500, density=1000, alpha_coeff=0.75, alpha_power=1.5, BonA=6)
    source, mask = kSource(), np.zeros((side,) * 3)
    source.p0 = np.exp(-r2 / 9.0)
    mask[0, 0, 0] = 1
    start = time.perf_counter()
    kspaceFirstOrder(grid, medium, source, kSensor(mask=mask, record=["p"]), pml_size=(8, 8, 8), pml_inside=True,
                     smooth_p0=False, quiet=True, dtype=np.float32)
    return time.perf_counter() - start

few = seconds(2)
print((seconds(2 + steps) - few) / steps)
"#;

impl WaveBench<'_> {
    pub(super) fn speed(&self, table: &mut FigureTable, quick: bool) -> Result<()> {
        let python =
            env::var_os("AQUEDUCT_TEST_KWAVE").map(|folder| PathBuf::from(folder).join("bin/python"));
        if python.is_none() {
            eprintln!("k-Wave for Python is missing (AQUEDUCT_TEST_KWAVE); its rows are n/a");
        }
        for side in if quick { [32usize, 48] } else { [64, 128] } {
            let grid = side.to_string();
            let steps = (64usize.pow(3) * 100 / side.pow(3)).clamp(10, 200);
            let text = steps.to_string();
            let lossless = Self::ball(&grid, &text, "slice:z");
            let tissue = ["--scenario", "tissue", "--grid", &grid, "--steps", &text];
            for (name, words) in [("lossless", &lossless[..]), ("full", &tissue)] {
                let step = |ranks| Ok::<_, anyhow::Error>(self.wave(ranks, words)?.step());
                if let Some(python) = &python {
                    let theirs = || {
                        let mut command = Command::new(python);
                        command.args([
                            "-W",
                            "ignore",
                            "-c",
                            NUMPY_SOLVER,
                            &grid,
                            &(steps / 5).max(4).to_string(),
                        ]);
                        let output = command.arg(name).output().context("starting Python")?;
                        let errors = String::from_utf8_lossy(&output.stderr);
                        ensure!(output.status.success(), "the solver of k-Wave for Python: {errors}");
                        Ok(String::from_utf8_lossy(&output.stdout).trim().parse()?)
                    };
                    let rounds = alternate(self.rounds, theirs, || step(1))?;
                    let label = format!("{side}³ {name}, step of the NumPy solver / of one rank");
                    table.at_least(&label, &ratios(&rounds), 10.0);
                }
                let rounds = alternate(self.rounds, || step(1), || step(2))?;
                table.at_least(&format!("{side}³ {name}, one rank / two ranks"), &ratios(&rounds), 1.6);
                if name == "lossless" {
                    for ranks in [1, 2] {
                        let rounds = alternate(
                            self.rounds,
                            || step(ranks),
                            || transforms(side, ranks, steps / 5 + 2),
                        )?;
                        let label = format!("{side}³ {name}, step / its ten transforms alone, {ranks} ranks");
                        table.at_most(&label, &ratios(&rounds), 1.5);
                    }
                }
            }
        }
        Ok(())
    }
}

/// Seconds of ten transforms of a field in three dimensions, five in each direction, one after another: those of a lossless step.
fn transforms(side: usize, ranks: usize, repetitions: usize) -> Result<f64> {
    let job = |world: &Comm| -> Result<f64> {
        let grid = WaveGrid { points: [side; 3], spacing: [1.0; 3] };
        let decomposition = PencilDecomposition::new(DecompositionKind::Slab, &grid, world.size());
        let block = decomposition.block(&grid, world.rank());
        let mut transform = SpectralTransform::<f32>::new(world, &grid, &decomposition)?;
        let scale = vec![1.0 / grid.volume() as f32; transform.elements()];
        let mut field = vec![0.5f32; block.volume()];
        let height = block.y.len();
        let mut step = || -> Result<()> {
            for _ in 0..5 {
                transform.forward(1, |_, plane, y, row| {
                    row.copy_from_slice(&field[(plane * height + y) * side..][..side]);
                })?;
                transform.filter(&[&scale]);
                transform.inverse(1, |plane, y, row| {
                    field[(plane * height + y) * side..][..side].copy_from_slice(row);
                })?;
            }
            Ok(())
        };
        step()?;
        world.barrier()?;
        let start = Instant::now();
        (0..repetitions).try_for_each(|_| step())?;
        world.barrier()?;
        let seconds = start.elapsed().as_secs_f64() / repetitions as f64;
        black_box(&field);
        Ok(seconds)
    };
    let seconds = Launch::threads(ranks).run(|world| job(world).map_err(|error| format!("{error:#}")));
    seconds.map_err(|error| anyhow!("{error}"))?.first().copied().context("no ranks")
}
