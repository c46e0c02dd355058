//! Quantities that a run can store, as k-Wave names them. Pure.

/// Which quantities are stored; the names are those of the options of k-Wave.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "independent options of the command line")]
pub struct QuantityFlags {
    /// Pressure of every step.
    pub p_raw: bool,
    /// Root mean square of the pressure.
    pub p_rms: bool,
    /// Its maximum.
    pub p_max: bool,
    /// Its minimum.
    pub p_min: bool,
    /// Its maximum in the whole grid.
    pub p_max_all: bool,
    /// Its minimum in the whole grid.
    pub p_min_all: bool,
    /// The pressure after the last step in the whole grid.
    pub p_final: bool,
    /// Velocity of every step.
    pub u_raw: bool,
    /// Velocity at the places of the pressure of every step.
    pub u_non_staggered_raw: bool,
    /// Root mean square of the velocity.
    pub u_rms: bool,
    /// Its maximum.
    pub u_max: bool,
    /// Its minimum.
    pub u_min: bool,
    /// Its maximum in the whole grid.
    pub u_max_all: bool,
    /// Its minimum in the whole grid.
    pub u_min_all: bool,
    /// The velocity after the last step in the whole grid.
    pub u_final: bool,
    /// The mean intensity.
    pub i_avg: bool,
}

/// A field that is sampled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SampledField {
    /// The pressure.
    Pressure,
    /// The velocity in a direction.
    Velocity(usize),
    /// The velocity in a direction at the places of the pressure.
    ShiftedVelocity(usize),
}

/// What is stored of the samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoredForm {
    /// Each of them.
    Raw,
    /// The largest.
    Max,
    /// The smallest.
    Min,
    /// √(Σ v² / n)
    Rms,
    /// The last one.
    Final,
    /// The mean of the product of the velocity in this direction and the pressure.
    Intensity(usize),
}

/// A quantity of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaveQuantity {
    /// Its name in the file.
    pub name: String,
    /// The field.
    pub field: SampledField,
    /// What is stored of it.
    pub form: StoredForm,
    /// Whether it is stored in the whole grid, not at the sensor.
    pub whole: bool,
}

const DIRECTIONS: [&str; 3] = ["x", "y", "z"];

impl QuantityFlags {
    /// These flags, or the default of k-Wave if there are none.
    #[must_use]
    pub fn or_default(self) -> Self {
        if self == Self::default() { Self { p_raw: true, ..self } } else { self }
    }

    /// All quantities of a run, in the order in which they are stored.
    pub fn quantities(&self, dimensions: usize) -> Vec<WaveQuantity> {
        use StoredForm::{Final, Max, Min, Raw, Rms};
        let mut list = Vec::new();
        let mut add = |wanted: bool, name: String, field, form, whole| {
            if wanted {
                list.push(WaveQuantity { name, field, form, whole });
            }
        };
        let p = SampledField::Pressure;
        add(self.p_raw, "p".into(), p, Raw, false);
        add(self.p_rms, "p_rms".into(), p, Rms, false);
        add(self.p_max, "p_max".into(), p, Max, false);
        add(self.p_min, "p_min".into(), p, Min, false);
        add(self.p_max_all, "p_max_all".into(), p, Max, true);
        add(self.p_min_all, "p_min_all".into(), p, Min, true);
        add(self.p_final, "p_final".into(), p, Final, true);
        for (at, direction) in DIRECTIONS.iter().enumerate().take(dimensions) {
            let (u, shifted) = (SampledField::Velocity(at), SampledField::ShiftedVelocity(at));
            add(self.u_raw, format!("u{direction}"), u, Raw, false);
            add(self.u_non_staggered_raw, format!("u{direction}_non_staggered"), shifted, Raw, false);
            add(self.u_rms, format!("u{direction}_rms"), u, Rms, false);
            add(self.u_max, format!("u{direction}_max"), u, Max, false);
            add(self.u_min, format!("u{direction}_min"), u, Min, false);
            add(self.u_max_all, format!("u{direction}_max_all"), u, Max, true);
            add(self.u_min_all, format!("u{direction}_min_all"), u, Min, true);
            add(self.u_final, format!("u{direction}_final"), u, Final, true);
            add(self.i_avg, format!("I{direction}_avg"), shifted, StoredForm::Intensity(at), false);
        }
        list
    }
}
