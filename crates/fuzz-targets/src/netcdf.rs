//! netCDF classic: the header, then the file with all its variables.

use aqueduct_comm::Comm;
use aqueduct_formats::netcdf::{
    CdfVersion, NcType, NetcdfCreateOptions, NetcdfFile, NetcdfHeader, NetcdfHeaderError, NetcdfOpenOptions,
    Selection, VariableId,
};
use aqueduct_formats::{Kind, Result};

use crate::FuzzTarget;
use crate::input::{check_kind, load, run_rank, store};

const NAME: &str = "memfs:fuzzed.nc";

pub(crate) const TARGET: FuzzTarget = FuzzTarget {
    name: "netcdf",
    run,
    seeds,
    words: &["CDF\x01", "CDF\x02", "CDF\x05", "\0\0\0\x0a", "\0\0\0\x0b", "\0\0\0\x0c"],
};

fn run(input: &[u8]) -> bool {
    // A prefix of a longer file, too.
    for length in [input.len() as u64, 1 << 30, 1 << 62] {
        decode_header(input, length);
    }
    run_rank(|world| {
        store(world, NAME, input)?;
        let read =
            NetcdfOpenOptions::new().open(world, NAME).and_then(|dataset| read_all(&dataset, input.len()));
        Ok::<_, aqueduct_formats::Error>(check_kind(read, NAME, &[Kind::Damaged, Kind::BadArgument]))
    })
}

/// An error at an offset of the input, or a header that can be encoded again.
fn decode_header(input: &[u8], length: u64) {
    match NetcdfHeader::decode(input, length) {
        Ok(header) => {
            // Not every header can be encoded: readers accept sizes that writers must not produce.
            if let Ok(bytes) = header.encode() {
                let again =
                    NetcdfHeader::decode(&bytes, i64::MAX as u64).expect("an encoded header can be decoded");
                assert_eq!(again.encode().as_ref(), Ok(&bytes), "{header:?} became {again:?}");
            }
        }
        Err(NetcdfHeaderError::Invalid { offset, .. }) => {
            assert!(offset <= input.len() as u64, "byte {offset} of {}", input.len());
        }
        Err(NetcdfHeaderError::Truncated { needed }) => {
            let given = input.len() as u64;
            assert!(
                needed > given && needed <= length,
                "{needed} bytes are needed of {length}, {given} are given"
            );
        }
    }
}

fn read_all(dataset: &NetcdfFile, length: usize) -> Result<()> {
    for (at, variable) in dataset.header().variables.iter().enumerate() {
        let access = dataset.at(VariableId(at), Selection::whole());
        let values = match variable.kind {
            NcType::Byte => access.read_vec::<i8>()?.len(),
            NcType::Char | NcType::UByte => access.read_vec::<u8>()?.len(),
            NcType::Short => access.read_vec::<i16>()?.len(),
            NcType::UShort => access.read_vec::<u16>()?.len(),
            NcType::Int => access.read_vec::<i32>()?.len(),
            NcType::UInt => access.read_vec::<u32>()?.len(),
            NcType::Int64 => access.read_vec::<i64>()?.len(),
            NcType::UInt64 => access.read_vec::<u64>()?.len(),
            NcType::Float => access.read_vec::<f32>()?.len(),
            NcType::Double => access.read_vec::<f64>()?.len(),
        };
        assert!(values <= length, "{values} values of variable {:?} in {length} bytes", variable.name);
    }
    Ok(())
}

fn seeds() -> Vec<Vec<u8>> {
    let seed = |version: CdfVersion| run_rank(|world| file(world, version));
    [CdfVersion::Cdf1, CdfVersion::Cdf2, CdfVersion::Cdf5].map(seed).into()
}

fn file(world: &Comm, version: CdfVersion) -> Result<Vec<u8>> {
    let create = NetcdfCreateOptions::new().version(version).header_room(0).fixed_room(0).replace();
    let mut dataset = create.create(world, NAME)?;
    let (a, b, c) = dataset.define(|file| {
        let (time, x) = (file.unlimited("time")?, file.dimension("x", 5)?);
        file.attribute("title", "a title")?;
        file.attribute("scale", &[0.5f64, 2.0][..])?;
        let a = file.variable("a", NcType::Int, &[x, x])?;
        let c = file.variable("c", NcType::Short, &[time])?;
        Ok((a, file.variable("b", NcType::Double, &[time, x])?, c))
    })?;
    dataset.at(a, Selection::whole()).write(&[3i32; 25])?;
    dataset.at(b, Selection::whole()).write(&[1.5f64; 20])?;
    dataset.at(c, Selection::whole()).write(&[7i16; 4])?;
    dataset.close()?;
    load(world, NAME)
}
