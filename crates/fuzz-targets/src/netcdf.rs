//! netCDF classic: the header alone, then the file with all its variables.

use aqueduct_comm::Comm;
use aqueduct_format::Result;
use aqueduct_format::netcdf::{Create, Dataset, Flaw, Header, Open, Slab, Type, VariableId, Version};

use crate::FuzzTarget;
use crate::input::{check_named, load, run_rank, store};

const NAME: &str = "memfs:fuzzed.nc";

pub(crate) const TARGET: FuzzTarget = FuzzTarget {
    name: "netcdf",
    run,
    seeds,
    words: &["CDF\x01", "CDF\x02", "CDF\x05", "\0\0\0\x0a", "\0\0\0\x0b", "\0\0\0\x0c"],
};

fn run(input: &[u8]) -> bool {
    let length = input.len() as u64;
    match Header::decode(input, length) {
        Ok(header) => {
            // What is written again means the same. Not everything is: readers accept sizes that writers must not produce.
            if let Ok(bytes) = header.encode() {
                let again = Header::decode(&bytes, i64::MAX as u64).expect("what was written can be read");
                assert_eq!(again.encode().as_ref(), Ok(&bytes), "{header:?} became {again:?}");
            }
        }
        Err(Flaw::Wrong { offset, .. }) => assert!(offset <= length, "byte {offset} of {length}"),
        Err(Flaw::Cut { needed }) => panic!("{needed} bytes are needed of a file that has {length}"),
    }
    run_rank(|world| {
        store(world, NAME, input)?;
        let read = Open::new().open(world, NAME).and_then(|dataset| read_all(&dataset, input.len()));
        Ok::<_, aqueduct_format::Error>(check_named(read, NAME))
    })
}

fn read_all(dataset: &Dataset, length: usize) -> Result<()> {
    for (at, variable) in dataset.header().variables.iter().enumerate() {
        let access = dataset.at(VariableId(at), Slab::whole());
        let values = match variable.kind {
            Type::Byte => access.read_vec::<i8>()?.len(),
            Type::Char | Type::UByte => access.read_vec::<u8>()?.len(),
            Type::Short => access.read_vec::<i16>()?.len(),
            Type::UShort => access.read_vec::<u16>()?.len(),
            Type::Int => access.read_vec::<i32>()?.len(),
            Type::UInt => access.read_vec::<u32>()?.len(),
            Type::Int64 => access.read_vec::<i64>()?.len(),
            Type::UInt64 => access.read_vec::<u64>()?.len(),
            Type::Float => access.read_vec::<f32>()?.len(),
            Type::Double => access.read_vec::<f64>()?.len(),
        };
        assert!(values <= length, "{values} values of variable {:?} in {length} bytes", variable.name);
    }
    Ok(())
}

fn seeds() -> Vec<Vec<u8>> {
    let seed = |version: Version| run_rank(|world| file(world, version));
    [Version::Cdf1, Version::Cdf2, Version::Cdf5].map(seed).into()
}

fn file(world: &Comm, version: Version) -> Result<Vec<u8>> {
    let create = Create::new().version(version).header_room(0).fixed_room(0).replace();
    let mut dataset = create.create(world, NAME)?;
    let (a, b, c) = dataset.define(|file| {
        let (time, x) = (file.unlimited("time")?, file.dimension("x", 5)?);
        file.attribute("title", "a title")?;
        file.attribute("scale", &[0.5f64, 2.0][..])?;
        let a = file.variable("a", Type::Int, &[x, x])?;
        let c = file.variable("c", Type::Short, &[time])?;
        Ok((a, file.variable("b", Type::Double, &[time, x])?, c))
    })?;
    dataset.at(a, Slab::whole()).write(&[3i32; 25])?;
    dataset.at(b, Slab::whole()).write(&[1.5f64; 20])?;
    dataset.at(c, Slab::whole()).write(&[7i16; 4])?;
    dataset.close()?;
    Ok(load(world, NAME)?)
}
