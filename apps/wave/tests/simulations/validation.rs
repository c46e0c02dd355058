//! Simulations with exact solutions, in single and double precision, on several ranks.

use aqueduct::comm::Launch;
use aqueduct_wave::run::{RunInput, WaveSettings, run};
use aqueduct_wave::scenario::built_in::{Scenario, ScenarioKind, ScenarioOptions};

fn error(double: bool, options: ScenarioOptions) -> (f64, f64) {
    let scenario = Scenario::new(options).unwrap();
    let bound = scenario.bound(double);
    let settings = WaveSettings::new(RunInput::Scenario(Box::new(scenario)));
    let summary = Launch::threads(2)
        .run(|world| if double { run::<f64>(world, &settings) } else { run::<f32>(world, &settings) })
        .unwrap();
    (summary[0].exact_error.unwrap(), bound)
}

fn check(options: ScenarioOptions) {
    for double in [true, false] {
        let (error, bound) = error(double, options);
        println!(
            "{:?} Courant {} double {double}: {error:.2e} of {bound:.0e}",
            options.kind, options.courant
        );
        assert!(error <= bound, "{options:?}, double {double}: {error:e} is above {bound:e}");
    }
}

#[test]
fn a_standing_wave_is_exact_at_any_time_step() {
    for courant in [0.1, 0.3, 1.0, 3.0] {
        check(ScenarioOptions {
            kind: ScenarioKind::Mode,
            points: [16, 12, 10],
            courant,
            ..ScenarioOptions::default()
        });
    }
}

#[test]
fn a_ball_is_exact_until_it_meets_the_border() {
    check(ScenarioOptions { steps: 70, ..ScenarioOptions::default() });
}

#[test]
fn the_pressure_of_a_plane_source_has_the_amplitude_and_phase_of_its_signal() {
    for corrected in [true, false] {
        let points = [256, 4, 4];
        check(ScenarioOptions {
            kind: ScenarioKind::Plane,
            points,
            steps: 500,
            corrected,
            ..ScenarioOptions::default()
        });
    }
}
