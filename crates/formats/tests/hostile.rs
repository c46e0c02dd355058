//! Changed files, opened and read as a whole: an error that names the file, or values; never a panic, a hang or memory that the file does not have.

use aqueduct_comm::{Comm, Launch};
use aqueduct_formats::netcdf::{
    CdfVersion, NcType, NetcdfCreateOptions, NetcdfFile, NetcdfOpenOptions, Selection, VariableId,
};
use aqueduct_formats::{Error, Kind, Result};
use aqueduct_testkit::rng::SeededRng;

fn original(world: &Comm, name: &str, version: CdfVersion) -> Result<Vec<u8>> {
    let mut dataset = NetcdfCreateOptions::new()
        .version(version)
        .header_room(0)
        .fixed_room(0)
        .replace()
        .create(world, name)?;
    let (a, b) = dataset.define(|file| {
        let (time, x) = (file.unlimited("time")?, file.dimension("x", 5)?);
        file.attribute("title", "a title")?;
        let a = file.variable("a", NcType::Int, &[x, x])?;
        file.variable("c", NcType::Short, &[time])?;
        Ok((a, file.variable("b", NcType::Double, &[time, x])?))
    })?;
    dataset.at(a, Selection::whole()).write(&[3i32; 25])?;
    dataset.at(b, Selection::whole()).write(&[1.5f64; 20])?;
    dataset.close()?;
    let file = aqueduct_file::File::open(world, name)?;
    let mut bytes = vec![0u8; file.size()? as usize];
    file.at(0).read(&mut bytes)?;
    file.close()?;
    Ok(bytes)
}

fn mutate(bytes: &mut Vec<u8>, seeded: &mut SeededRng) {
    for _ in 0..=seeded.below(3) {
        // Most of what matters lies at the start.
        let at = seeded.below(bytes.len().clamp(1, 300));
        match seeded.below(5) {
            0 if at < bytes.len() => bytes[at] ^= 1 << seeded.below(8),
            1 if seeded.below(3) == 0 => bytes.truncate(seeded.below(bytes.len() + 1)),
            2 if at + 8 <= bytes.len() => {
                let number = [1, 1 << 33, 1 << 62, u64::MAX][seeded.below(4)];
                bytes[at..at + 8].copy_from_slice(&u64::to_be_bytes(number));
            }
            _ if at + 4 <= bytes.len() => {
                let number = [0, 1, 4, 6, 100, i32::MAX as u32, u32::MAX][seeded.below(7)];
                let at = at / 4 * 4;
                bytes[at..at + 4].copy_from_slice(&u32::to_be_bytes(number));
            }
            _ => {}
        }
    }
}

fn read_all(dataset: &NetcdfFile) -> Result<usize> {
    let mut values = 0;
    for (at, variable) in dataset.header().variables.iter().enumerate() {
        let access = dataset.at(VariableId(at), Selection::whole());
        values += match variable.kind {
            NcType::Int => access.read_vec::<i32>()?.len(),
            NcType::Short => access.read_vec::<i16>()?.len(),
            NcType::Double => access.read_vec::<f64>()?.len(),
            // What else a changed type may be is read by one byte.
            _ => 0,
        };
    }
    Ok(values)
}

#[test]
fn changed_files_are_refused_or_read() {
    let story = |world: &Comm| {
        let name = "memfs:hostile.nc";
        let originals = [
            original(world, name, CdfVersion::Cdf1)?,
            original(world, name, CdfVersion::Cdf2)?,
            original(world, name, CdfVersion::Cdf5)?,
        ];
        let (mut read, mut refused) = (0, 0);
        for seed in 0..100_000 {
            let seeded = &mut SeededRng::new(seed);
            let mut bytes = originals[seeded.below(3)].clone();
            mutate(&mut bytes, seeded);
            let file =
                aqueduct_file::OpenOptions::new().read(true).write(true).create(true).open(world, name)?;
            file.set_size(0)?;
            file.at(0).write(&bytes)?;
            file.close()?;
            let outcome = NetcdfOpenOptions::new().open(world, name).and_then(|dataset| {
                let values = read_all(&dataset)?;
                dataset.close()?;
                Ok(values)
            });
            match outcome {
                Ok(values) => {
                    assert!(values <= bytes.len(), "seed {seed}: {values} values of {} bytes", bytes.len());
                    read += 1;
                }
                Err(error) => {
                    assert!(
                        [Kind::Damaged, Kind::BadArgument].contains(&error.kind()),
                        "seed {seed}: {error}"
                    );
                    assert!(error.to_string().contains(name), "seed {seed}: {error}");
                    refused += 1;
                }
            }
        }
        assert!(read > 5000 && refused > 10_000, "{read} read, {refused} refused");
        Ok::<_, Error>(())
    };
    Launch::threads(1).run(story).unwrap();
}
