//! Six integrators: Butcher tableaus, and the control of the step size by an error estimate.

/// An integrator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IntegratorKind {
    /// Euler's explicit method, of first order.
    Euler,
    /// Leapfrog in the form kick, drift, kick with predicted velocities, of second order.
    Leapfrog,
    /// The midpoint rule, of second order.
    RungeKutta2,
    /// The classical Runge–Kutta method, of fourth order.
    RungeKutta4,
    /// Bogacki and Shampine 1989: third order, with an error estimate of second order.
    BogackiShampine,
    /// Cash and Karp 1990: fifth order, with an error estimate of fourth order.
    CashKarp,
}

/// The coefficients of an explicit Runge–Kutta method.
#[derive(Clone, Copy, Debug)]
pub struct Tableau {
    /// Weights of the earlier stages in each stage; the first stage is the state.
    pub stages: &'static [&'static [f64]],
    /// Weights of the stages in the result.
    pub weights: &'static [f64],
    /// Weights of the less accurate result, for the error estimate.
    pub embedded: Option<&'static [f64]>,
    /// The order of the result.
    pub order: i32,
}

const EULER: Tableau = Tableau { stages: &[&[]], weights: &[1.0], embedded: None, order: 1 };
const LEAPFROG: Tableau = Tableau { order: 2, ..EULER };
const MIDPOINT: Tableau = Tableau { stages: &[&[], &[0.5]], weights: &[0.0, 1.0], embedded: None, order: 2 };
const CLASSICAL: Tableau = Tableau {
    stages: &[&[], &[0.5], &[0.0, 0.5], &[0.0, 0.0, 1.0]],
    weights: &[1.0 / 6.0, 1.0 / 3.0, 1.0 / 3.0, 1.0 / 6.0],
    embedded: None,
    order: 4,
};
const BOGACKI_SHAMPINE: Tableau = Tableau {
    stages: &[&[], &[0.5], &[0.0, 0.75], &[2.0 / 9.0, 1.0 / 3.0, 4.0 / 9.0]],
    weights: &[2.0 / 9.0, 1.0 / 3.0, 4.0 / 9.0, 0.0],
    embedded: Some(&[7.0 / 24.0, 0.25, 1.0 / 3.0, 0.125]),
    order: 3,
};
const CASH_KARP: Tableau = Tableau {
    stages: &[
        &[],
        &[0.2],
        &[3.0 / 40.0, 9.0 / 40.0],
        &[0.3, -0.9, 1.2],
        &[-11.0 / 54.0, 2.5, -70.0 / 27.0, 35.0 / 27.0],
        &[1631.0 / 55296.0, 175.0 / 512.0, 575.0 / 13824.0, 44275.0 / 110_592.0, 253.0 / 4096.0],
    ],
    weights: &[37.0 / 378.0, 0.0, 250.0 / 621.0, 125.0 / 594.0, 0.0, 512.0 / 1771.0],
    embedded: Some(&[2825.0 / 27648.0, 0.0, 18575.0 / 48384.0, 13525.0 / 55296.0, 277.0 / 14336.0, 0.25]),
    order: 5,
};

impl IntegratorKind {
    /// All integrators.
    pub const ALL: [Self; 6] = [
        Self::Euler,
        Self::Leapfrog,
        Self::RungeKutta2,
        Self::RungeKutta4,
        Self::BogackiShampine,
        Self::CashKarp,
    ];

    /// Its name in a configuration.
    pub fn name(self) -> &'static str {
        match self {
            Self::Euler => "euler",
            Self::Leapfrog => "leapfrog",
            Self::RungeKutta2 => "rk2",
            Self::RungeKutta4 => "rk4",
            Self::BogackiShampine => "bogacki-shampine",
            Self::CashKarp => "cash-karp",
        }
    }

    /// Its coefficients. Those of leapfrog have one stage, the rates at the beginning of the step.
    pub fn tableau(self) -> &'static Tableau {
        match self {
            Self::Euler => &EULER,
            Self::Leapfrog => &LEAPFROG,
            Self::RungeKutta2 => &MIDPOINT,
            Self::RungeKutta4 => &CLASSICAL,
            Self::BogackiShampine => &BOGACKI_SHAMPINE,
            Self::CashKarp => &CASH_KARP,
        }
    }

    /// The number of stages that are stored.
    pub fn stages(self) -> usize {
        self.tableau().stages.len()
    }

    /// Whether it estimates its error.
    pub fn controls_error(self) -> bool {
        self.tableau().embedded.is_some()
    }
}

impl Tableau {
    /// The factor of the step size after a step with error `error`; the step is accepted if the error is at most one.
    pub fn step_factor(&self, error: f64) -> f64 {
        if error.is_finite() { (0.9 * error.powf(-1.0 / f64::from(self.order))).clamp(0.2, 5.0) } else { 0.2 }
    }

    /// The weights of the error estimate: the difference of both results.
    pub fn error_weight(&self, stage: usize) -> f64 {
        self.embedded.map_or(0.0, |embedded| self.weights[stage] - embedded[stage])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Integrates y' = f(t, y), as a system of t and y, with constant steps.
    fn integrate(tableau: &Tableau, weights: &[f64], steps: u32) -> f64 {
        let rate = |[t, y]: [f64; 2]| [1.0, y * t.cos()];
        let (dt, mut state) = (1.0 / f64::from(steps), [0.0, 1.0]);
        for _ in 0..steps {
            let mut rates: Vec<[f64; 2]> = Vec::new();
            let moved = |weights: &[f64], rates: &[[f64; 2]]| {
                let sum =
                    |part: usize| weights.iter().zip(rates).map(|(w, rate)| w * rate[part]).sum::<f64>();
                [state[0] + dt * sum(0), state[1] + dt * sum(1)]
            };
            for stage in tableau.stages {
                let next = rate(moved(stage, &rates));
                rates.push(next);
            }
            state = moved(weights, &rates);
        }
        (state[1] - 1f64.sin().exp()).abs()
    }

    #[test]
    fn methods_have_their_order() {
        for kind in IntegratorKind::ALL.into_iter().filter(|kind| *kind != IntegratorKind::Leapfrog) {
            let tableau = kind.tableau();
            let order = |weights| (integrate(tableau, weights, 20) / integrate(tableau, weights, 40)).log2();
            let found = order(tableau.weights);
            assert!((found - f64::from(tableau.order)).abs() < 0.35, "{kind:?}: {found}");
            if let Some(embedded) = tableau.embedded {
                let found = order(embedded);
                assert!((found - f64::from(tableau.order - 1)).abs() < 0.35, "{kind:?}: {found}");
            }
        }
    }

    #[test]
    fn the_step_factor_is_limited() {
        let tableau = IntegratorKind::CashKarp.tableau();
        assert_eq!([tableau.step_factor(0.0), tableau.step_factor(1e-30)], [5.0, 5.0]);
        assert_eq!([tableau.step_factor(f64::NAN), tableau.step_factor(1e9)], [0.2, 0.2]);
        assert!((tableau.step_factor(1.0) - 0.9).abs() < 1e-12);
    }
}
