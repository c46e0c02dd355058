//! Exact solutions of built-in simulations. Pure.

use std::f64::consts::PI;

/// The pressure as a function of place and time.
#[derive(Clone, Copy, Debug)]
pub enum ExactSolution {
    /// cos(k·x) · cos(ω·t), k in radians per point.
    Mode {
        /// The wave vector.
        k: [f64; 3],
        /// Radians per step.
        omega: f64,
    },
    /// A Gaussian pressure at the beginning, in three dimensions.
    Ball {
        /// The middle.
        centre: [f64; 3],
        /// Its width in points.
        width: f64,
        /// Points that a wave moves in a step.
        courant: f64,
        /// The number of points of the shortest direction: the field is periodic.
        period: f64,
    },
    /// A source in a plane across x: a tone burst.
    Plane {
        /// The plane.
        source: usize,
        /// The first point that is not compared.
        end: usize,
        /// Points that a wave moves in a step.
        courant: f64,
        /// The burst.
        burst: ToneBurst,
    },
}

/// A sine with a Gaussian envelope.
#[derive(Clone, Copy, Debug)]
pub struct ToneBurst {
    /// Steps per period.
    pub period: f64,
    /// The middle of the burst in steps.
    pub middle: f64,
    /// The standard deviation of its envelope in steps.
    pub width: f64,
}

impl ToneBurst {
    /// The value at a time in steps.
    pub fn value(&self, time: f64) -> f64 {
        let from_middle = time - self.middle;
        (2.0 * PI * from_middle / self.period).sin() * (-0.5 * (from_middle / self.width).powi(2)).exp()
    }
}

/// Where the image of a Gaussian in the next period has no influence that counts: this many widths.
const INFLUENCE: f64 = 5.5;

impl ExactSolution {
    /// The pressure at a point after a step, counted from 0; none where it is not known.
    pub fn pressure(&self, point: [usize; 3], step: u64) -> Option<f64> {
        let (place, time) = (point.map(|at| at as f64), step as f64);
        match *self {
            Self::Mode { k, omega } => {
                let phase: f64 = k.iter().zip(place).map(|(k, x)| k * x).sum();
                Some(phase.cos() * (omega * time).cos())
            }
            Self::Ball { centre, width, courant, period } => {
                let offset = [0, 1, 2].map(|at| (place[at] - centre[at]).abs());
                let farthest = offset.iter().copied().fold(0.0, f64::max);
                let travelled = courant * time;
                if farthest > period - travelled - INFLUENCE * width {
                    return None;
                }
                let r = offset.iter().map(|x| x * x).sum::<f64>().sqrt();
                let shape = |x: f64| x * (-(x / width).powi(2)).exp();
                if r == 0.0 {
                    let (t, w) = (travelled, width * width);
                    return Some((1.0 - 2.0 * t * t / w) * (-t * t / w).exp());
                }
                Some((shape(r - travelled) + shape(r + travelled)) / (2.0 * r))
            }
            Self::Plane { source, end, courant, burst } => {
                let known = point[0] > source + 1 && point[0] < end;
                known.then(|| burst.value(time + 0.5 - (place[0] - source as f64) / courant))
            }
        }
    }
}
