//! HDF5: interoperability with h5py, h5dump and h5diff in both directions; invalid definitions and accesses.
#![cfg(feature = "hdf5")]

use std::path::{Path, PathBuf};
use std::process::Command;

use aqueduct_comm::{Comm, Launch};
use aqueduct_formats::hdf5::{
    DatasetId, Datatype, Hdf5Attribute, Hdf5CreateOptions, Hdf5Definitions, Hdf5File, Hdf5OpenOptions,
};
use aqueduct_formats::{Kind, Result, Selection};
use aqueduct_object::Object;
use aqueduct_testkit::external_tools;

#[derive(Object, Clone, Debug, PartialEq)]
struct Particle {
    id: u32,
    position: [f64; 3],
    charged: bool,
}

fn particle(at: u64) -> Particle {
    let place = |axis: u64| (3 * at + axis) as f64 / 4.0;
    Particle { id: 3 * at as u32, position: [place(0), place(1), place(2)], charged: at % 2 == 1 }
}

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

/// The rows of a rank.
fn share(world: &Comm, rows: u64) -> std::ops::Range<u64> {
    let (rank, ranks) = (world.rank() as u64, world.size() as u64);
    rows * rank / ranks..rows * (rank + 1) / ranks
}

/// Calls a function with each numeric type and the number of its kind.
macro_rules! each_number {
    ($function:ident($($argument:expr),*)) => {
        $function::<i8>($($argument),*, 0, "i1")?;
        $function::<i16>($($argument),*, 1, "i2")?;
        $function::<i32>($($argument),*, 2, "i4")?;
        $function::<i64>($($argument),*, 3, "i8")?;
        $function::<u8>($($argument),*, 4, "u1")?;
        $function::<u16>($($argument),*, 5, "u2")?;
        $function::<u32>($($argument),*, 6, "u4")?;
        $function::<u64>($($argument),*, 7, "u8")?;
        $function::<f32>($($argument),*, 8, "f4")?;
        $function::<f64>($($argument),*, 9, "f8")?;
    };
}

trait Number: Object + PartialEq + std::fmt::Debug + Clone {
    fn of(number: u64) -> Self;
}

macro_rules! numbers {
    ($($type:ty)*) => { $(impl Number for $type { fn of(number: u64) -> Self { number as Self } })* };
}
numbers! { i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 }

fn values<T: Number>(first: u64, count: u64, kind: u64) -> Vec<T> {
    (first..first + count).map(|at| T::of(at % 50 + kind)).collect()
}

fn write_numbers<T: Number>(world: &Comm, file: &mut Hdf5File, kind: u64, name: &str) -> Result<()> {
    let dataset = file.define(|file| file.dataset::<T>(&format!("numbers/{name}"), &[6, 10]))?;
    let mine = share(world, 6);
    let values = values::<T>(mine.start * 10, (mine.end - mine.start) * 10, kind);
    file.at(dataset, [mine, 0..10]).all().write(&values)
}

fn read_numbers<T: Number>(file: &Hdf5File, kind: u64, name: &str) -> Result<()> {
    let dataset = file.dataset(&format!("numbers/{name}"))?;
    assert_eq!(file.at(dataset, Selection::whole()).all().read_vec::<T>()?, values::<T>(0, 60, kind));
    let every_third: Vec<T> =
        file.at(dataset, Selection::block([1, 2], [2, 3]).stride([4, 3])).all().read_vec()?;
    let expected: Vec<T> = [12, 15, 18, 52, 55, 58].map(|at| T::of(at % 50 + kind)).to_vec();
    assert_eq!(every_third, expected);
    Ok(())
}

fn write_sample(world: &Comm, name: &str) -> Result<()> {
    let mut file = Hdf5CreateOptions::new().create(world, name)?;
    each_number!(write_numbers(world, &mut file));
    let (particles, steps, single) = file.define(|file| {
        let particles = file.dataset::<Particle>("/particles", &[12])?;
        let steps = file.extendible::<f64>("/steps/value", &[0, 7], &[2, 4])?;
        file.attribute("/steps/value", "unit", "J")?;
        file.attribute("/steps/value", "range", [0.5, 1.5])?;
        file.attribute("/steps/value", "one", 7i64)?;
        file.attribute("/steps", "names", ["a", "b"])?;
        file.attribute("/steps", "fixed", Hdf5Attribute::fixed("xyz"))?;
        Ok((particles, steps, file.dataset::<f64>("single", &[])?))
    })?;
    let mine = share(world, 12);
    let some: Vec<Particle> = mine.clone().map(particle).collect();
    file.at(particles, mine).all().write(&some)?;
    for rows in 1..=5 {
        file.define(|file| file.extend(steps, rows))?;
        let mine = share(world, 7);
        let row: Vec<f64> = mine.clone().map(|at| ((rows - 1) * 7 + at) as f64).collect();
        file.at(steps, [rows - 1..rows, mine]).all().write(&row)?;
        file.commit()?;
        assert_eq!(file.complete(steps)?, Some(rows));
    }
    let one: &[f64] = if world.rank() == 0 { &[2.5] } else { &[] };
    let mut queue = file.queue();
    if !one.is_empty() {
        queue.put(single, Selection::whole(), one);
    }
    queue.run_all()?;
    file.close()
}

fn read_sample(world: &Comm, name: &str) -> Result<()> {
    let file = Hdf5OpenOptions::new().open(world, name)?;
    each_number!(read_numbers(&file));
    let all: Vec<Particle> = file.at(file.dataset("particles")?, Selection::whole()).all().read_vec()?;
    assert_eq!(all, (0..12).map(particle).collect::<Vec<_>>());
    let steps = file.dataset("/steps/value")?;
    assert_eq!(
        (file.describe(steps)?.shape.as_slice(), file.describe(steps)?.chunk()),
        (&[5, 7][..], Some(&[2, 4][..]))
    );
    let all: Vec<f64> = file.at(steps, Selection::whole()).all().read_vec()?;
    assert_eq!(all, (0..35).map(f64::from).collect::<Vec<_>>());
    let mine = share(world, 5);
    let some: Vec<f64> = file.at(steps, [mine.clone(), 3..6]).all().read_vec()?;
    let expected: Vec<f64> = mine.flat_map(|row| (3..6).map(move |at| (row * 7 + at) as f64)).collect();
    assert_eq!(some, expected);
    let object = file.object("/steps/value")?;
    assert_eq!(object.attribute("unit").and_then(Hdf5Attribute::text), Some("J"));
    assert_eq!(object.attribute("range").and_then(Hdf5Attribute::numbers), Some(vec![0.5, 1.5]));
    assert_eq!(object.attribute("one").and_then(Hdf5Attribute::values::<i64>), Some(vec![7]));
    let names = Hdf5Attribute::Texts(vec!["a".to_owned(), "b".to_owned()]);
    assert_eq!(file.object("steps")?.attribute("names"), Some(&names));
    assert_eq!(file.object("steps")?.attribute("fixed").and_then(Hdf5Attribute::text), Some("xyz"));
    assert_eq!(file.at(file.dataset("single")?, Selection::whole()).all().read_vec::<f64>()?, [2.5]);
    file.close()
}

#[test]
fn h5py_reads_our_files() {
    let folder = Folder::new();
    for ranks in [1, 3] {
        let path = folder.file(&format!("ours-{ranks}.h5"));
        Launch::threads(ranks).run(|world| write_sample(world, text(&path))).unwrap();
        Launch::threads(4 - ranks).run(|world| read_sample(world, text(&path))).unwrap();
        if let Some(printed) = external_tools::run_with("h5py", "hdf5_peer.py", &["read", text(&path)]) {
            assert_eq!(printed, "read\n");
        }
    }
    // The number of ranks leaves no trace.
    let [one, three] = [1, 3].map(|ranks| std::fs::read(folder.file(&format!("ours-{ranks}.h5"))).unwrap());
    assert!(one == three, "files of 1 and 3 ranks differ");
}

#[test]
fn files_of_h5py_are_read_and_extended() {
    let folder = Folder::new();
    let theirs = folder.file("theirs.h5");
    let Some(printed) = external_tools::run_with("h5py", "hdf5_peer.py", &["write", text(&theirs)]) else {
        return;
    };
    assert_eq!(printed, "written\n");
    Launch::threads(3).run(|world| read_sample(world, text(&theirs))).unwrap();
    let extend = |world: &Comm| {
        let mut file = Hdf5OpenOptions::new().writable().open(world, &theirs)?;
        assert_eq!(file.is_complete(), None, "others say nothing about that");
        let (packed, turned) = (file.dataset("packed")?, file.dataset("big_endian")?);
        let unpacked: Vec<f64> = file.at(packed, Selection::whole()).all().read_vec()?;
        assert_eq!(unpacked, [0.0; 1000]);
        let swapped: Vec<i32> = file.at(turned, Selection::whole()).all().read_vec()?;
        assert_eq!(swapped, [0, 1, 2, 3]);
        let error = file.at(turned, Selection::whole()).all().write(&swapped).map(drop).unwrap_err();
        assert_eq!(error.kind(), Kind::Unsupported, "{error}");
        // A dataset of more chunks than anybody could list costs what is read of it.
        let crumbs: Vec<f64> = file.at(file.dataset("crumbs")?, [0..2, 0..2]).all().read_vec()?;
        assert_eq!(crumbs, [0.0; 4]);
        let steps = file.dataset("/steps/value")?;
        let more = file.define(|file| {
            file.extend(steps, 6)?;
            file.attribute("/steps/value", "unit", "J")?;
            file.dataset::<u8>("more/and/more", &[world.size() as u64])
        })?;
        let rank = world.rank() as u64;
        file.at(more, rank..rank + 1).all().write(&[rank as u8])?;
        file.at(steps, [5..6, 3 * rank..3 * rank + 3]).all().write(&[rank as f64; 3])?;
        file.close()
    };
    Launch::threads(2).run(extend).unwrap();
    if let Some(h5dump) = external_tools::command("h5dump") {
        let dump = |path| {
            external_tools::output_of(Command::new(&h5dump).args(["-d", path, "-m", "%g"]).arg(&theirs))
        };
        let (more, steps) = (dump("/more/and/more"), dump("/steps/value"));
        assert!(more.contains("(0): 0,") && more.contains("(1): 1") && !more.contains("complete"), "{more}");
        assert!(steps.contains("(5,3): 1,") && steps.contains("(4,6): 34,"), "{steps}");
    }
}

/// h5diff finds no difference to a file of h5py with the same values, and finds a changed value.
#[test]
fn h5diff_finds_no_difference() {
    let folder = Folder::new();
    let (ours, theirs) = (folder.file("ours.h5"), folder.file("theirs.h5"));
    Launch::threads(2).run(|world| write_sample(world, text(&ours))).unwrap();
    let Some(h5diff) = external_tools::command("h5diff") else { return };
    let copied = external_tools::run_with("h5py", "hdf5_peer.py", &["again", text(&ours), text(&theirs)]);
    if copied.is_none() {
        return;
    }
    assert_eq!(external_tools::output_of(Command::new(&h5diff).args([&ours, &theirs])), "");
    let change = |world: &Comm| {
        let file = Hdf5OpenOptions::new().writable().open(world, &ours)?;
        file.at(file.dataset("/numbers/i2")?, [3..4, 4..5]).all().write(&[77i16])?;
        file.close()
    };
    Launch::threads(1).run(change).unwrap();
    let output = Command::new(&h5diff).args([&ours, &theirs]).output().unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.code() == Some(1) && printed.contains("</numbers/i2>"), "{printed}");
}

#[test]
fn h5dump_prints_the_written_values() {
    let folder = Folder::new();
    let path = folder.file("dumped.h5");
    let write = |world: &Comm| {
        let mut file = Hdf5CreateOptions::new().create(world, &path)?;
        let grid = file.define(|file| file.dataset::<i32>("group/grid", &[2, 4]))?;
        let rank = world.rank() as u64;
        file.at(grid, [0..2, 2 * rank..2 * rank + 2])
            .all()
            .write(&[1, 2, 3, 4].map(|at| at + 10 * rank as i32))?;
        file.close()
    };
    Launch::threads(2).run(write).unwrap();
    let Some(h5dump) = external_tools::command("h5dump") else { return };
    let printed = external_tools::output_of(Command::new(h5dump).arg(&path));
    for part in [
        "H5T_STD_I32LE",
        "(0,0): 1, 2, 11, 12",
        "(1,0): 3, 4, 13, 14",
        "\"aqueduct_complete\"",
        "GROUP \"group\"",
    ] {
        assert!(printed.contains(part), "{part}: {printed}");
    }
}

fn define_number<T: Number>(file: &mut Hdf5Definitions<'_>, at: u64) -> Result<DatasetId> {
    file.dataset::<T>(&format!("many/d{at}"), &[6])
}

fn put_number<T: Number>(file: &Hdf5File, id: DatasetId, mine: std::ops::Range<u64>, at: u64) -> Result<()> {
    let values: Vec<T> = mine.clone().map(|row| T::of(row + at % 50)).collect();
    file.at(id, mine).all().write(&values)
}

/// Hundreds of datasets that are defined in one batch; h5py reads them, and the file is extended.
#[test]
fn many_datasets_of_one_batch_are_read_by_h5py() {
    let folder = Folder::new();
    let path = folder.file("plain.h5");
    let makers = [
        define_number::<i8>,
        define_number::<i16>,
        define_number::<i32>,
        define_number::<i64>,
        define_number::<u8>,
        define_number::<u16>,
        define_number::<u32>,
        define_number::<u64>,
        define_number::<f32>,
        define_number::<f64>,
    ];
    let write = |world: &Comm| {
        let mut file = Hdf5CreateOptions::new().without_sync().create(world, &path)?;
        let (many, single) = file.define(|file| {
            let many = (0..300).map(|at| makers[at as usize % 10](file, at)).collect::<Result<Vec<_>>>()?;
            let single = file.dataset::<f64>("deep/single", &[])?;
            file.attribute("deep/single", "three", [1i32, 2, 3])?;
            file.dataset::<i32>("nothing", &[0, 4])?;
            Ok((many, single))
        })?;
        let mine = share(world, 6);
        let writers = [
            put_number::<i8>,
            put_number::<i16>,
            put_number::<i32>,
            put_number::<i64>,
            put_number::<u8>,
            put_number::<u16>,
            put_number::<u32>,
            put_number::<u64>,
            put_number::<f32>,
            put_number::<f64>,
        ];
        for (at, id) in (0u64..).zip(many) {
            writers[at as usize % 10](&file, id, mine.clone(), at)?;
        }
        file.at(single, Selection::whole()).all().write(&[0.5f64])?;
        file.close()
    };
    Launch::threads(2).run(write).unwrap();
    if let Some(printed) = external_tools::run_with("h5py", "hdf5_peer.py", &["plain", text(&path)]) {
        assert_eq!(printed, "plain\n");
        let copy = folder.file("copy.h5");
        external_tools::run_with("h5py", "hdf5_peer.py", &["again", text(&path), text(&copy)]);
        let Some(h5diff) = external_tools::command("h5diff") else { return };
        // h5diff cannot compare datasets without values.
        let compare = &mut Command::new(&h5diff);
        assert_eq!(
            external_tools::output_of(compare.args(["-c", "--exclude-path=/nothing"]).args([&path, &copy])),
            ""
        );
    }
    Launch::threads(3)
        .run(|world| {
            let mut file = Hdf5OpenOptions::new().writable().open(world, &path)?;
            let late = file.define(|file| file.dataset::<u16>("deep/late", &[3]))?;
            let rank = world.rank() as u64;
            file.at(late, rank..rank + 1).all().write(&[7 + rank as u16])?;
            assert_eq!(file.at(late, Selection::whole()).all().read_vec::<u16>()?, [7, 8, 9]);
            let old = file.dataset("many/d257")?;
            assert_eq!(file.at(old, Selection::whole()).all().read_vec::<u64>()?, [7, 8, 9, 10, 11, 12]);
            file.close()
        })
        .unwrap();
}

#[test]
fn a_queue_of_many_datasets_is_one_collective_write() {
    const COUNT: usize = 1000;
    let run = |world: &Comm| {
        let mut file = Hdf5CreateOptions::new().replace().create(world, "memfs:many.h5")?;
        let define = |at| format!("group{}/dataset{at}", at % 7);
        let datasets: Vec<DatasetId> = file.define(|file| {
            (0..COUNT).map(|at| file.dataset::<u32>(&define(at), &[4])).collect::<Result<_>>()
        })?;
        let rank = world.rank() as u64;
        let data: Vec<[u32; 2]> = (0..COUNT as u32).map(|at| [at, at + rank as u32]).collect();
        let before = file.counters();
        let mut queue = file.queue();
        for (dataset, data) in datasets.iter().zip(&data) {
            queue.put(*dataset, 2 * rank..2 * rank + 2, data);
        }
        let writing = queue.start_all()?;
        writing.wait()?;
        let after = file.counters();
        assert_eq!(after.writes - before.writes, 1);
        file.commit()?;
        for (at, dataset) in datasets.iter().enumerate() {
            assert_eq!(file.complete(*dataset)?, Some(4), "{at}");
        }
        file.close()?;
        let file = Hdf5OpenOptions::new().open(world, "memfs:many.h5")?;
        let mut back = vec![[9u32; 4]; COUNT];
        let mut queue = file.queue();
        for (at, back) in back.iter_mut().enumerate() {
            queue.get(file.dataset(&define(at))?, Selection::whole(), back);
        }
        queue.run_all()?;
        for (at, back) in (0u32..).zip(back) {
            assert_eq!(back, [at, at, at, at + 1]);
        }
        file.close()
    };
    Launch::threads(2).run(run).unwrap();
}

#[test]
fn invalid_definitions_and_accesses_are_errors_on_all_ranks() {
    let run = |world: &Comm| {
        let mut file = Hdf5CreateOptions::new().replace().create(world, "memfs:refused.h5")?;
        let grid = file.define(|file| file.dataset::<f64>("grid", &[4, 4]))?;
        let kinds = [
            file.define(|file| file.dataset::<f64>("grid", &[1])).unwrap_err(),
            file.define(|file| file.dataset::<f64>("grid/inside", &[1])).unwrap_err(),
            file.define(|file| file.extend(grid, 9)).unwrap_err(),
            file.define(|file| file.extendible::<f64>("chunked", &[4, 4], &[4])).unwrap_err(),
            file.define(|file| file.dataset::<String>("text", &[4])).unwrap_err(),
            file.define(|file| file.attribute("nowhere", "name", 1i32)).unwrap_err(),
            file.define(|file| file.dataset::<f64>("huge", &[1 << 40, 1 << 40])).unwrap_err(),
            file.define(|file| file.extendible::<f64>("crumbs", &[1 << 40], &[1])).unwrap_err(),
            file.define(|file| file.dataset::<f64>(if world.rank() == 0 { "a" } else { "b" }, &[1]))
                .unwrap_err(),
            file.at(grid, Selection::whole()).all().write(&[0f32; 16]).unwrap_err(),
            file.at(grid, [0..4, 0..5]).all().write(&[0f64; 20]).unwrap_err(),
            file.at(grid, Selection::whole()).all().read_vec::<u64>().unwrap_err(),
        ]
        .map(|error| error.kind());
        let expected = [
            Kind::NameExists,
            Kind::NameExists,
            Kind::BadArgument,
            Kind::BadArgument,
            Kind::WrongType,
            Kind::NoSuchName,
            Kind::TooLarge,
            Kind::TooLarge,
            Kind::NotSame,
            Kind::WrongType,
            Kind::BadArgument,
            Kind::WrongType,
        ];
        assert_eq!(kinds, expected);
        // The error of one rank is an error on all ranks.
        let values = vec![1f64; if world.rank() == 1 { 3 } else { 16 }];
        let error = file.at(grid, Selection::whole()).all().write(&values).unwrap_err();
        assert!(error.kind() == Kind::BadArgument && error.to_string().contains("grid"), "{error}");
        file.close()?;
        let file = Hdf5OpenOptions::new().open(world, "memfs:refused.h5")?;
        let error = file.at(file.dataset("grid")?, Selection::whole()).all().write(&[0f64; 16]).unwrap_err();
        assert_eq!(error.kind(), Kind::ReadOnly);
        file.close()
    };
    Launch::threads(3).run(run).unwrap();
}

#[test]
fn completion_is_reset_before_complete_data_changes() {
    let folder = Folder::new();
    let path = folder.file("again.h5");
    let run = |world: &Comm| {
        let mut file = Hdf5CreateOptions::new().create(world, &path)?;
        let dataset = file.define(|file| file.dataset::<i64>("d", &[6]))?;
        let rank = world.rank() as u64;
        file.at(dataset, 3 * rank..3 * rank + 3).all().write(&[1i64, 2, 3])?;
        file.commit()?;
        assert_eq!(file.complete(dataset)?, Some(6));
        let alone = file.at(dataset, 0..1).write(&[7i64]).unwrap_err();
        assert!(alone.to_string().contains("together"), "{alone}");
        file.at(dataset, 3 * rank + 1..3 * rank + 2).all().write(&[9i64])?;
        assert_eq!(file.complete(dataset)?, Some(1));
        // Readers see that before the next commit, too.
        let other = Hdf5OpenOptions::new().open(world, &path)?;
        assert_eq!((other.complete(dataset)?, other.is_complete()), (Some(1), Some(false)));
        other.close()?;
        file.commit()?;
        assert_eq!(file.complete(dataset)?, Some(6));
        file.close()
    };
    Launch::threads(2).run(run).unwrap();
}

#[test]
fn truncated_files_and_other_formats_are_errors() {
    let folder = Folder::new();
    let path = folder.file("cut.h5");
    Launch::threads(1).run(|world| write_sample(world, text(&path))).unwrap();
    let whole = std::fs::read(&path).unwrap();
    for length in [0, 7, 100, 2000, whole.len() / 2, whole.len() - 1] {
        std::fs::write(&path, &whole[..length]).unwrap();
        let read = |world: &Comm| {
            let error = Hdf5OpenOptions::new().open(world, &path).map(drop).unwrap_err();
            assert_eq!(error.kind(), Kind::Damaged, "{length}: {error}");
            assert!(error.to_string().contains("cut.h5"), "{length}: {error}");
            Ok::<_, aqueduct_formats::Error>(())
        };
        Launch::threads(2).run(read).unwrap();
    }
    std::fs::write(&path, b"CDF\x05 is something else").unwrap();
    let error = format!(
        "{:?}",
        Launch::threads(2).run(|world| Hdf5OpenOptions::new().open(world, &path).map(drop)).unwrap_err()
    );
    assert!(error.contains("is it an HDF5 file"), "{error}");
}

#[test]
fn datatypes_are_displayed() {
    assert_eq!(
        Datatype::of::<Particle>().unwrap().to_string(),
        "{id: u32, position: [f64; 3], charged: bool}"
    );
}
