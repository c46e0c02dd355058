//! Absorption, nonlinearity and the layer at the border against theory. Waves run along x in a grid of two rows.

use std::f64::consts::PI;

use aqueduct::comm::{Comm, Launch};
use aqueduct_wave::grid::WaveGrid;
use aqueduct_wave::grid::decomposition::{DecompositionKind, PencilDecomposition};
use aqueduct_wave::grid::pml::PmlLayer;
use aqueduct_wave::problem::{
    Absorption, BlockValues, Medium, MediumField, PointSource, SensorMask, SourceMode, Sources, WaveProblem,
};
use aqueduct_wave::solver::time_step::WaveSolver;
use aqueduct_wave::transform::real::Real;

const SPEED: f64 = 1500.0;
const DENSITY: f64 = 1000.0;

/// A wave along x.
struct PlaneProblem {
    points: usize,
    spacing: f64,
    courant: f64,
    steps: u64,
    layer: PmlLayer,
    absorption: Option<Absorption>,
    /// B/A
    nonlinearity: Option<f64>,
    /// The width in points and the place of a Gaussian pressure at the beginning.
    pulse: Option<(f64, f64)>,
    /// The place and the pressure of a source.
    source: Option<(usize, Vec<f64>)>,
}

impl PlaneProblem {
    fn dt(&self) -> f64 {
        self.courant * self.spacing / SPEED
    }

    fn problem(&self, world: &Comm) -> WaveProblem {
        let grid = WaveGrid { points: [self.points, 2, 1], spacing: [self.spacing; 3] };
        let decomposition = PencilDecomposition::new(DecompositionKind::Auto, &grid, world.size());
        let block = decomposition.block(&grid, world.rank());
        let gaussian = |(width, place): (f64, f64)| {
            BlockValues::Double(block.sampled(|point| (-((point[0] as f64 - place) / width).powi(2)).exp()))
        };
        let source = |(place, signal): &(usize, Vec<f64>)| PointSource {
            mode: SourceMode::Corrected,
            steps: signal.len() as u64,
            points: (0..2).filter_map(|row| block.local(place + row * self.points)).collect(),
            many: false,
            // As files scale it.
            values: signal.iter().map(|p| (p * self.dt() / (SPEED * self.spacing)) as f32).collect(),
        };
        let none = PmlLayer { size: 0, alpha: 2.0 };
        WaveProblem {
            description: String::new(),
            grid,
            steps: self.steps,
            dt: self.dt(),
            reference_speed: SPEED,
            medium: Medium {
                sound_speed: MediumField::Uniform(SPEED),
                density: MediumField::Uniform(DENSITY),
                staggered_density: vec![MediumField::Uniform(DENSITY); 2],
                nonlinearity: self.nonlinearity.map(MediumField::Uniform),
                absorption: self.absorption.clone(),
            },
            pml: [self.layer, none, none],
            sources: Sources {
                initial_pressure: self.pulse.map(gaussian),
                pressure: self.source.as_ref().map(source),
                ..Sources::default()
            },
            sensor: SensorMask::Points { count: 0, mine: Vec::new() },
            scalars: Vec::new(),
            block,
        }
    }

    /// The first row of the pressure after each step.
    fn run<T: Real>(&self, mut visit: impl FnMut(u64, &[T]) + Send) {
        let visit = std::sync::Mutex::new(&mut visit);
        let run = |world: &Comm| {
            let mut problem = self.problem(world);
            let decomposition = PencilDecomposition::new(DecompositionKind::Auto, &problem.grid, 1);
            let mut solver = WaveSolver::<T>::new(world, &decomposition, &mut problem)?;
            for step in 0..self.steps {
                solver.advance()?;
                (visit.lock().unwrap())(step, &solver.fields.pressure[..self.points]);
            }
            Ok::<_, anyhow::Error>(())
        };
        Launch::threads(1).run(run).unwrap();
    }
}

/// The amplitude of a signal at so many radians per step.
fn amplitude(signal: &[f64], omega: f64) -> f64 {
    let sum = signal.iter().enumerate().fold([0.0; 2], |[re, im], (step, value)| {
        let phase = omega * step as f64;
        [re + value * phase.cos(), im + value * phase.sin()]
    });
    2.0 * sum[0].hypot(sum[1]) / signal.len() as f64
}

/// The attenuation of a pulse over 2 cm against α0 · f^y.
#[test]
fn absorption_is_a_power_law_of_the_frequency() {
    // (y, α0 in dB/(MHz^y cm), whether it is Stokes absorption, bound)
    let laws =
        [(1.5, 0.75, false, 0.03), (1.9, 0.5, false, 0.03), (2.0, 0.5, true, 0.03), (1.1, 2.0, false, 0.12)];
    for (power, coefficient, stokes, bound) in laws {
        let spacing = 5e-5;
        let (near, far) = (150, 550);
        let problem = PlaneProblem {
            points: 648,
            spacing,
            courant: 0.1,
            steps: 5200,
            layer: PmlLayer { size: 20, alpha: 2.0 },
            absorption: Some(Absorption { coefficient: MediumField::Uniform(coefficient), power, stokes }),
            nonlinearity: None,
            pulse: Some((2.0, 100.0)),
            source: None,
        };
        let mut signals = [Vec::new(), Vec::new()];
        problem.run::<f64>(|_, pressure| {
            signals[0].push(pressure[near]);
            signals[1].push(pressure[far]);
        });
        let mut worst: f64 = 0.0;
        for tenth in 7..=40 {
            let frequency = f64::from(tenth) * 0.1;
            let omega = 2.0 * PI * frequency * 1e6 * problem.dt();
            let [first, second] = [&signals[0], &signals[1]].map(|signal| amplitude(signal, omega));
            let centimetres = (far - near) as f64 * spacing * 100.0;
            let found = 20.0 * (first / second).log10() / centimetres;
            let expected = coefficient * frequency.powf(power);
            worst = worst.max((found / expected - 1.0).abs());
        }
        println!("y = {power}: {:.1} % of α0 · f^y at most (bound {:.0} %)", 100.0 * worst, 100.0 * bound);
        assert!(worst <= bound, "y = {power}: {worst}");
    }
}

/// The Bessel function of the first kind, by its integral.
fn bessel(order: usize, x: f64) -> f64 {
    let parts = 2000;
    let value = |at: usize| {
        let angle = PI * (at as f64 + 0.5) / f64::from(parts);
        (order as f64 * angle - x * angle.sin()).cos()
    };
    (0..parts as usize).map(value).sum::<f64>() / f64::from(parts)
}

/// The harmonics of a plane wave at half the distance at which a shock forms, against the solution of Fubini.
#[test]
fn harmonics_of_a_nonlinear_wave_are_those_of_fubini() {
    let (per_wavelength, ratio) = (40.0, 5.0);
    let (source, distance) = (41usize, 320usize);
    let courant = 0.2;
    // The distance of the shock is twice that of the sensor: ρ c³ / (β ω p), with β = 1 + B/2A.
    let (spacing, beta) = (3.75e-5, 1.0 + ratio / 2.0);
    let omega = 2.0 * PI * SPEED / (per_wavelength * spacing);
    let pressure = DENSITY * SPEED.powi(3) / (beta * omega * 2.0 * distance as f64 * spacing);
    let period = per_wavelength / courant;
    let steps = 4200;
    let signal = (0..steps).map(|step| {
        let time = f64::from(step) / period;
        let ramp = (time / 4.0).min(1.0);
        pressure * (0.5 - 0.5 * (PI * ramp).cos()) * (2.0 * PI * time).sin()
    });
    let problem = PlaneProblem {
        points: 432,
        spacing,
        courant,
        steps: steps as u64,
        layer: PmlLayer { size: 20, alpha: 2.0 },
        absorption: None,
        nonlinearity: Some(ratio),
        pulse: None,
        source: Some((source, signal.collect())),
    };
    let mut last = Vec::new();
    problem.run::<f64>(|step, field| {
        if step + 2 * period as u64 >= problem.steps {
            last.push(field[source + distance]);
        }
    });
    for harmonic in 1..=5 {
        let found = amplitude(&last, 2.0 * PI * harmonic as f64 / period) / pressure;
        let order = harmonic as f64;
        let expected = 2.0 * bessel(harmonic, order * 0.5) / (order * 0.5);
        let error = (found / expected - 1.0).abs();
        println!("harmonic {harmonic}: {found:.5}, Fubini {expected:.5}, {:.2} %", 100.0 * error);
        assert!(error <= 0.01, "harmonic {harmonic}: {found} instead of {expected}");
    }
}

/// What a layer of 10 or 20 points leaves of a plane Gaussian pulse, in single precision.
#[test]
fn the_layer_at_the_border_leaves_little() {
    for (size, bound) in [(10, -90.0), (20, -125.0)] {
        let problem = PlaneProblem {
            points: 240,
            spacing: 1e-4,
            courant: 0.3,
            steps: 720,
            layer: PmlLayer { size, alpha: 2.0 },
            absorption: None,
            nonlinearity: None,
            pulse: Some((3.0, 120.0)),
            source: None,
        };
        let inside = size..240 - size;
        let mut left = 0.0f32;
        problem.run::<f32>(|step, pressure| {
            // After 450 steps both halves have passed the border. The grid is periodic: what is left of them comes back at the other end, and
            // meets in the middle after 800 steps.
            if step > 450 {
                let most = pressure[inside.clone()].iter().fold(0.0f32, |most, value| most.max(value.abs()));
                left = left.max(most);
            }
        });
        let decibels = 20.0 * f64::from(left).log10();
        println!("{size} points: {decibels:.0} dB of the pressure at the beginning (bound {bound})");
        assert!(decibels <= bound, "{size} points leave {decibels} dB");
    }
}
