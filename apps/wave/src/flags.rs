//! Options of the command line that name quantities, as k-Wave has them.

use aqueduct_wave::output::quantities::QuantityFlags;

/// Quantities that are stored.
#[derive(clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "independent options")]
pub(crate) struct QuantityArguments {
    /// Store the pressure of every step at the sensor (the default)
    #[arg(short = 'p', long = "p_raw")]
    p_raw: bool,
    /// Store the root mean square of the pressure
    #[arg(long = "p_rms")]
    p_rms: bool,
    /// Store the maximum of the pressure
    #[arg(long = "p_max")]
    p_max: bool,
    /// Store the minimum of the pressure
    #[arg(long = "p_min")]
    p_min: bool,
    /// Store the maximum of the pressure in the whole grid
    #[arg(long = "p_max_all")]
    p_max_all: bool,
    /// Store the minimum of the pressure in the whole grid
    #[arg(long = "p_min_all")]
    p_min_all: bool,
    /// Store the pressure after the last step in the whole grid
    #[arg(long = "p_final")]
    p_final: bool,
    /// Store the velocity of every step at the sensor
    #[arg(short = 'u', long = "u_raw")]
    u_raw: bool,
    /// Store the velocity of every step at the places of the pressure
    #[arg(long = "u_non_staggered_raw")]
    u_non_staggered_raw: bool,
    /// Store the root mean square of the velocity
    #[arg(long = "u_rms")]
    u_rms: bool,
    /// Store the maximum of the velocity
    #[arg(long = "u_max")]
    u_max: bool,
    /// Store the minimum of the velocity
    #[arg(long = "u_min")]
    u_min: bool,
    /// Store the maximum of the velocity in the whole grid
    #[arg(long = "u_max_all")]
    u_max_all: bool,
    /// Store the minimum of the velocity in the whole grid
    #[arg(long = "u_min_all")]
    u_min_all: bool,
    /// Store the velocity after the last step in the whole grid
    #[arg(long = "u_final")]
    u_final: bool,
    /// Store the mean intensity at the sensor
    #[arg(long = "I_avg")]
    i_avg: bool,
}

impl QuantityArguments {
    pub(crate) fn flags(&self) -> QuantityFlags {
        let flags = QuantityFlags {
            p_raw: self.p_raw,
            p_rms: self.p_rms,
            p_max: self.p_max,
            p_min: self.p_min,
            p_max_all: self.p_max_all,
            p_min_all: self.p_min_all,
            p_final: self.p_final,
            u_raw: self.u_raw,
            u_non_staggered_raw: self.u_non_staggered_raw,
            u_rms: self.u_rms,
            u_max: self.u_max,
            u_min: self.u_min,
            u_max_all: self.u_max_all,
            u_min_all: self.u_min_all,
            u_final: self.u_final,
            i_avg: self.i_avg,
        };
        flags.or_default()
    }
}
