//! A netCDF file written by all ranks, which `ncdump` and xarray read: `cargo run --example netcdf [file]`.

use aqueduct::netcdf::{NcType, NetcdfCreateOptions, NetcdfOpenOptions, Selection};

fn main() -> Result<(), aqueduct::Error> {
    let name = std::env::args().nth(1).unwrap_or_else(|| "weather.nc".to_owned());
    aqueduct::run(|world| {
        let mut dataset = NetcdfCreateOptions::new().replace().create(world, &name)?;
        let temperature = dataset.define(|file| {
            let (time, x) = (file.unlimited("time")?, file.dimension("x", 1000 * world.size() as u64)?);
            let temperature = file.variable("temperature", NcType::Float, &[time, x])?;
            file.attribute_of(temperature, "units", "K")?;
            Ok(temperature)
        })?;
        let mine = 1000 * world.rank() as u64..1000 * (world.rank() as u64 + 1);
        for step in 0..3 {
            let values = vec![270.0 + step as f32; 1000];
            dataset.at(temperature, [step..step + 1, mine.clone()]).all().write(&values)?;
            // The step is durable and visible to readers.
            dataset.commit()?;
        }
        dataset.close()?;

        let dataset = NetcdfOpenOptions::new().open(world, &name)?;
        let last: Vec<f32> = dataset.at(temperature, Selection::record(2)).all().read_vec()?;
        assert!(last.iter().all(|value| value.to_bits() == 272f32.to_bits()));
        if world.rank() == 0 {
            println!(
                "{name}: {} records of {} values, written by {} ranks",
                dataset.records(),
                last.len(),
                world.size()
            );
        }
        dataset.close()
    })
    .map(drop)
}
