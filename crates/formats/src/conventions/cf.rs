//! CF-1.8, the conventions of climate and forecast: netCDF whose coordinates, units and times a reader finds by itself.
//!
//! These are definitions of [`netcdf`](crate::netcdf), made the way the conventions want them; values are written as to every variable.
//!
//! ```
//! use aqueduct_comm::Launch;
//! use aqueduct_formats::cf;
//! use aqueduct_formats::netcdf::{NetcdfCreateOptions, Selection, NcType};
//!
//! Launch::threads(2).run(|world| {
//!     let mut dataset = NetcdfCreateOptions::new().replace().create(world, "memfs:weather.nc")?;
//!     let (time, x, temperature) = dataset.define(|file| {
//!         cf::conventions(file, "a warm day")?;
//!         let time = cf::time(file, "time", "seconds since 2000-01-01 00:00:00")?;
//!         let x = cf::axis(file, "x", 8, "m")?;
//!         let temperature = cf::field(file, "t", NcType::Float, &[time.dimension, x.dimension], "K", "air_temperature")?;
//!         Ok((time, x, temperature))
//!     })?;
//!     let mine = 4 * world.rank() as u64..4 * (world.rank() as u64 + 1);
//!     let places: Vec<f64> = mine.clone().map(|at| 0.5 * at as f64).collect();
//!     dataset.at(x.variable, mine.clone()).all().write(&places)?;
//!     dataset.at(temperature, [0..1, mine]).all().write(&[280f32; 4])?;
//!     let mut queue = dataset.queue();
//!     if world.rank() == 0 {
//!         queue.put(time.variable, Selection::record(0), &[60.0]);
//!     }
//!     queue.run_all()?;
//!     dataset.close()
//! })?;
//! # Ok::<(), aqueduct_comm::Error>(())
//! ```

use crate::error::{Error, Kind, Result};
use crate::netcdf::{DimensionId, NcType, NetcdfDefinitions, VariableId};

/// A coordinate: a dimension, and the variable of the same name with its values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Coordinate {
    /// The dimension.
    pub dimension: DimensionId,
    /// Its points, as `f64`.
    pub variable: VariableId,
}

/// Adds the attributes `Conventions` and `title`.
pub fn conventions(file: &mut NetcdfDefinitions<'_>, title: &str) -> Result<()> {
    file.attribute("Conventions", "CF-1.8")?;
    file.attribute("title", title)
}

/// The time, along which the file grows: `units` as in "seconds since 2000-01-01 00:00:00".
pub fn time(file: &mut NetcdfDefinitions<'_>, name: &str, units: &str) -> Result<Coordinate> {
    if !units.contains(" since ") {
        let detail = format!("{units:?} is no unit of time; say \"seconds since\" a date");
        return Err(Error::new(Kind::BadArgument, "time", name, detail));
    }
    let dimension = file.unlimited(name)?;
    let variable = coordinate(file, name, dimension, units)?;
    file.attribute_of(variable, "standard_name", "time")?;
    file.attribute_of(variable, "calendar", "standard")?;
    file.attribute_of(variable, "axis", "T")?;
    Ok(Coordinate { dimension, variable })
}

/// An axis with so many points.
pub fn axis(file: &mut NetcdfDefinitions<'_>, name: &str, length: u64, units: &str) -> Result<Coordinate> {
    let dimension = file.dimension(name, length)?;
    let variable = coordinate(file, name, dimension, units)?;
    Ok(Coordinate { dimension, variable })
}

/// A quantity over coordinates, by its name in the table of standard names, or any other that is longer.
pub fn field(
    file: &mut NetcdfDefinitions<'_>,
    name: &str,
    kind: NcType,
    dimensions: &[DimensionId],
    units: &str,
    meaning: &str,
) -> Result<VariableId> {
    let variable = file.variable(name, kind, dimensions)?;
    file.attribute_of(variable, "units", units)?;
    let which = if meaning.contains(' ') { "long_name" } else { "standard_name" };
    file.attribute_of(variable, which, meaning)?;
    Ok(variable)
}

fn coordinate(
    file: &mut NetcdfDefinitions<'_>,
    name: &str,
    dimension: DimensionId,
    units: &str,
) -> Result<VariableId> {
    let variable = file.variable(name, NcType::Double, &[dimension])?;
    file.attribute_of(variable, "units", units)?;
    Ok(variable)
}
