//! Interoperability of netCDF files with ncvalidator, ncdump and the netCDF4 module of Python, in both directions.

#[path = "common/sample.rs"]
mod sample;

use std::path::{Path, PathBuf};

use aqueduct_comm::Launch;
use aqueduct_formats::netcdf::{CdfVersion, NcType, NetcdfCreateOptions, NetcdfOpenOptions, Selection};
use aqueduct_formats::{Kind, Result};
use aqueduct_testkit::external_tools;
use sample::{code, read_sample, write_sample};

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap())
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
}

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

#[test]
fn netcdf4_reads_our_files() {
    let folder = Folder::new();
    for version in CdfVersion::ALL {
        for ranks in [1, 3] {
            let path = folder.file(&format!("ours-{version}-{ranks}.nc"));
            Launch::threads(ranks).run(|world| write_sample(world, text(&path), version)).unwrap();
            external_tools::validate(&path);
            if let Some(printed) =
                external_tools::run_python("peer.py", &["read", text(&path), code(version)])
            {
                assert_eq!(printed, "read\n");
            }
        }
    }
}

#[test]
fn files_of_netcdf4_are_read_and_extended() {
    let folder = Folder::new();
    for version in CdfVersion::ALL {
        let path = folder.file(&format!("theirs-{version}.nc"));
        let Some(printed) = external_tools::run_python("peer.py", &["write", text(&path), code(version)])
        else {
            return;
        };
        assert_eq!(printed, "written\n");
        Launch::threads(3).run(|world| read_sample(world, text(&path), version)).unwrap();
        let extend = |world: &aqueduct_comm::Comm| {
            let mut dataset = NetcdfOpenOptions::new().writable().open(world, &path)?;
            // Their header has no free space; data is only moved by `rearrange`.
            let more = "more ".repeat(1000);
            let refused = dataset.define(|file| file.attribute("more", more.as_str())).unwrap_err();
            assert_eq!(refused.kind(), Kind::HeaderFull, "{refused}");
            let ((), moved) = dataset.rearrange(|file| file.attribute("more", more.as_str()))?;
            assert!(moved > 0);
            dataset.close()?;
            read_sample(world, text(&path), version)
        };
        Launch::threads(3).run(extend).unwrap();
        external_tools::validate(&path);
        let printed = external_tools::run_python("peer.py", &["read", text(&path), code(version)]);
        assert_eq!(printed.as_deref(), Some("read\n"));
    }
}

const DUMPED: &str = r#"netcdf dumped {
dimensions:
    time = UNLIMITED ; // (2 currently)
    x = 3 ;
variables:
    int x(x) ;
        x:units = "km" ;
    byte flags(time, x) ;
    char word(x) ;

// global attributes:
        :note = 1.5, 2. ;
data:

 x = 10, 20, 30 ;

 flags =
  1, 2, 3,
  4, 5, 6 ;

 word = "abc" ;
}
"#;

#[test]
fn ncdump_prints_the_written_values() {
    let folder = Folder::new();
    let path = folder.file("dumped.nc");
    let write = |world: &aqueduct_comm::Comm| {
        let mut dataset = NetcdfCreateOptions::new().version(CdfVersion::Cdf1).create(world, &path)?;
        let (x, flags, word) = dataset.define(|file| {
            let (time, x) = (file.unlimited("time")?, file.dimension("x", 3)?);
            file.attribute("note", [1.5f64, 2.0])?;
            let values = file.variable("x", NcType::Int, &[x])?;
            file.attribute_of(values, "units", "km")?;
            // The only record variable: there is no padding between its records.
            Ok((
                values,
                file.variable("flags", NcType::Byte, &[time, x])?,
                file.variable("word", NcType::Char, &[x])?,
            ))
        })?;
        let mut queue = dataset.queue();
        if world.rank() == 0 {
            queue.put(x, Selection::whole(), &[10, 20, 30]).put(flags, Selection::record(1), &[4i8, 5, 6]);
        } else {
            queue.put(flags, Selection::record(0), &[1i8, 2, 3]).put(word, Selection::whole(), b"abc");
        }
        queue.run_all()?;
        dataset.close()
    };
    Launch::threads(2).run(write).unwrap();
    external_tools::validate(&path);
    if let Some(printed) = external_tools::dump(&path) {
        assert_eq!(printed.replace('\t', "    "), DUMPED);
    }
}

#[test]
fn five_thousand_variables_and_dimensions() {
    const COUNT: u64 = 5000;
    let folder = Folder::new();
    for version in [CdfVersion::Cdf1, CdfVersion::Cdf5] {
        let path = folder.file(&format!("many-{version}.nc"));
        let write = |world: &aqueduct_comm::Comm| {
            let mut dataset = NetcdfCreateOptions::new().version(version).create(world, &path)?;
            let variables = dataset.define(|file| {
                let define = |at| {
                    let dimension = file.dimension(&format!("d{at}"), 1 + at % 3)?;
                    file.variable(&format!("v{at}"), NcType::Int, &[dimension])
                };
                (0..COUNT).map(define).collect::<Result<Vec<_>>>()
            })?;
            let values: Vec<Vec<i32>> = (0..COUNT).map(|at| vec![at as i32; 1 + at as usize % 3]).collect();
            let mut queue = dataset.queue();
            for (at, (variable, values)) in variables.iter().zip(&values).enumerate() {
                if at % world.size() == world.rank() {
                    queue.put(*variable, Selection::whole(), values);
                }
            }
            queue.run_all()?;
            dataset.close()?;
            let dataset = NetcdfOpenOptions::new().open(world, &path)?;
            let mut back: Vec<Vec<i32>> = values.iter().map(|values| vec![-1; values.len()]).collect();
            let mut queue = dataset.queue();
            for (variable, back) in variables.iter().zip(&mut back) {
                queue.get(*variable, Selection::whole(), back);
            }
            queue.run_all()?;
            assert_eq!(back, values);
            dataset.close()
        };
        Launch::threads(2).run(write).unwrap();
        external_tools::validate(&path);
        if let Some(printed) = external_tools::run_python("peer.py", &["many", text(&path), "5000"]) {
            assert_eq!(printed, "many\n");
        }
    }
}

#[test]
fn more_than_four_gibibytes_in_a_variable() {
    // 3 × 500 000 000 ints, nearly all of them holes.
    const LENGTH: u64 = 500_000_000;
    let folder = Folder::new();
    for version in [CdfVersion::Cdf2, CdfVersion::Cdf5] {
        let path = folder.file(&format!("huge-{version}.nc"));
        let write = |world: &aqueduct_comm::Comm| {
            let mut dataset =
                NetcdfCreateOptions::new().version(version).without_sync().create(world, &path)?;
            let huge = dataset.define(|file| {
                let dimensions = [file.dimension("y", 3)?, file.dimension("x", LENGTH)?];
                file.variable("small", NcType::Double, &[])?;
                file.variable("huge", NcType::Int, &dimensions)
            })?;
            if version == CdfVersion::Cdf2 {
                let again = dataset.define(|file| file.variable("after", NcType::Int, &[])).unwrap_err();
                assert_eq!(again.kind(), Kind::TooLarge, "{again}");
            }
            let rank = world.rank() as u64;
            let index = [[0, 0], [2, LENGTH / 2], [2, LENGTH - 1]][world.rank()];
            dataset.at(huge, Selection::value(index)).all().write(&[rank as i32 + 1])?;
            dataset.close()?;
            let dataset = NetcdfOpenOptions::new().open(world, &path)?;
            let row: Vec<i32> = dataset
                .at(huge, Selection::block([2, 0], [1, 3]).stride([1, LENGTH / 2 - 1]))
                .all()
                .read_vec()?;
            assert_eq!(row, [0, 0, 0]);
            let far: Vec<i32> = dataset.at(huge, [2..3, LENGTH - 2..LENGTH]).all().read_vec()?;
            assert_eq!(far, [0, 3]);
            dataset.close()
        };
        Launch::threads(3).run(write).unwrap();
        external_tools::validate(&path);
        if let Some(printed) = external_tools::run_python("peer.py", &["huge", text(&path)]) {
            assert_eq!(printed, "huge\n");
        }
        std::fs::remove_file(&path).unwrap();
    }
}

fn dataset_of(path: &Path, values: u64) -> PathBuf {
    let write = |world: &aqueduct_comm::Comm| {
        let mut dataset = NetcdfCreateOptions::new().create(world, path)?;
        let long = dataset.define(|file| {
            let length = file.dimension("length", values)?;
            file.variable("long", NcType::Double, &[length])
        })?;
        dataset.at(long, Selection::whole()).all().write(&vec![0.5; values as usize])?;
        dataset.close()
    };
    Launch::threads(1).run(write).unwrap();
    path.to_owned()
}

#[test]
fn truncated_files_are_errors() {
    let folder = Folder::new();
    let path = folder.file("cut.nc");
    Launch::threads(1).run(|world| write_sample(world, text(&path), CdfVersion::Cdf5)).unwrap();
    let length = std::fs::metadata(&path).unwrap().len();
    std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(length - 8).unwrap();
    let read = |world: &aqueduct_comm::Comm| {
        let dataset = NetcdfOpenOptions::new().open(world, &path)?;
        let last = dataset.variable("moving10")?;
        let error = dataset.at(last, Selection::whole()).all().read_vec::<u64>().unwrap_err();
        assert_eq!(error.kind(), Kind::Damaged, "{error}");
        assert!(error.to_string().contains("cut off"), "{error}");
        dataset.close()
    };
    Launch::threads(2).run(read).unwrap();
    // Also if the file is shorter than the part that is read.
    let shorter = dataset_of(&folder.file("short.nc"), 100_000);
    std::fs::OpenOptions::new().write(true).open(&shorter).unwrap().set_len(70_000).unwrap();
    let read = |world: &aqueduct_comm::Comm| {
        let dataset = NetcdfOpenOptions::new().open(world, &shorter)?;
        let error =
            dataset.at(dataset.variable("long")?, Selection::whole()).all().read_vec::<f64>().unwrap_err();
        assert!(error.kind() == Kind::Damaged && error.to_string().contains("cut off"), "{error}");
        dataset.close()
    };
    Launch::threads(2).run(read).unwrap();
    std::fs::write(&path, b"CDF\x05\0\0").unwrap();
    let error =
        Launch::threads(2).run(|world| NetcdfOpenOptions::new().open(world, &path).map(drop)).unwrap_err();
    let text = format!("{error:?}");
    assert!(text.contains("cut off") && text.contains("at byte 4"), "{text}");
}
