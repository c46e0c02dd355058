//! Files that exist, files that another program writes, changed bytes, and invalid steps.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use aqueduct_comm::{Comm, Launch};
use aqueduct_object::Object;
use aqueduct_stream::target::{NetcdfTarget, ObjectTarget, OutputTarget};
use aqueduct_stream::{
    Error, Hyperslab, Kind, Options, Output, OutputMode, Reader, Role, Stream, StreamKey, Streams,
    split_io_servers,
};

/// The file of a child process.
const CHILD: &str = "AQUEDUCT_TEST_STREAM_WRITER";

fn run(ranks: usize, program: impl Fn(&Comm) -> Result<(), Error> + Sync) {
    Launch::threads(ranks).run(program).unwrap();
}

/// Two streams of 8 values, divided among the ranks.
fn declare(world: &Comm) -> (Streams, [StreamKey<u64>; 2]) {
    let mine = 8 / world.size() as u64;
    let stream = |name| Stream::array(name, [8]).block([mine * world.rank() as u64], [mine]);
    let mut streams = Streams::new();
    let keys = [streams.add(stream("level")), streams.add(stream("speed"))];
    (streams, keys)
}

fn write_steps(
    world: &Comm,
    output: &mut Output,
    keys: [StreamKey<u64>; 2],
    steps: u64,
) -> Result<(), Error> {
    let mine = 8 / world.size();
    for step in 0..steps {
        let (level, speed) = (vec![step; mine], vec![100 + step; mine]);
        output.step()?.put(keys[0], &level).put(keys[1], &speed).commit()?;
    }
    Ok(())
}

fn write_file(world: &Comm, options: &Options, name: &str, steps: u64) -> Result<(), Error> {
    let (streams, keys) = declare(world);
    let mut output = options.create(world, name, &streams)?;
    write_steps(world, &mut output, keys, steps)?;
    output.finish().map(drop)
}

fn change_byte(path: &Path, at: usize) {
    let mut bytes = std::fs::read(path).unwrap();
    bytes[at] ^= 1;
    std::fs::write(path, bytes).unwrap();
}

#[test]
fn second_writer_of_a_stream_file_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let name = folder.path().join("run").display().to_string();
    for mode in [OutputMode::Blocking, OutputMode::Thread, OutputMode::Leaders, OutputMode::Auto] {
        run(2, |world| {
            let (streams, keys) = declare(world);
            let options = Options::new().mode(mode).replace();
            let mut first = options.create(world, &name, &streams)?;
            write_steps(world, &mut first, keys, 3)?;
            first.flush()?;
            let refused = options.create(world, &name, &streams).map(drop).unwrap_err();
            assert_eq!(refused.kind(), aqueduct_file::Kind::InUse, "{mode:?}: {refused}");
            let shown = refused.to_string();
            assert!(shown.contains(&name) && shown.contains("close it there first"), "{shown}");
            // Durable steps are still there, and the first writer continues.
            assert_eq!(Reader::open(world, &name)?.stored_steps().len(), 3);
            write_steps(world, &mut first, keys, 1)?;
            first.finish()?;
            write_file(world, &options, &name, 2)
        });
    }
}

/// Opens an output twice at a time: the second one is refused, and the first one is not disturbed.
fn refuses_second_writer(
    comm: &Comm,
    options: &Options,
    name: &str,
    create: impl Fn(&Options, &Streams) -> Result<Output, Error>,
) -> Result<(), Error> {
    let (streams, keys) = declare(comm);
    let mut first = create(options, &streams)?;
    write_steps(comm, &mut first, keys, 2)?;
    first.flush()?;
    for options in [options.clone(), options.clone().replace()] {
        let refused = create(&options, &streams).map(drop).unwrap_err();
        assert_eq!(refused.kind(), aqueduct_file::Kind::InUse, "{name}: {refused}");
        assert!(refused.to_string().contains("close it there first"), "{refused}");
    }
    write_steps(comm, &mut first, keys, 1)?;
    first.finish().map(drop)
}

#[test]
fn second_writer_is_refused_by_servers() {
    let folder = tempfile::tempdir().unwrap();
    for (servers, mode) in [(1, OutputMode::Servers), (2, OutputMode::Auto)] {
        let name = folder.path().join(format!("run-{servers}")).display().to_string();
        run(2 + servers, |world| match split_io_servers(world, servers)? {
            Role::Server(server) => server.serve().map(drop),
            Role::Compute(compute) => {
                let options = Options::new().mode(mode).served_by(&compute);
                let create = |options: &Options, streams: &_| options.create(compute.comm(), &name, streams);
                refuses_second_writer(compute.comm(), &options, &name, create)
            }
        });
        run(1, |world| Reader::open(world, &name).map(|reader| assert_eq!(reader.stored_steps().len(), 3)));
    }
}

#[test]
fn second_writer_of_object_files_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let name = folder.path().join("run").display().to_string();
    run(2, |world| {
        let create = |options: &Options, streams: &_| {
            let make = |comm: &Comm, declared: &_| target("object", comm, &name, declared);
            options.create_on(world, &name, streams, make)
        };
        refuses_second_writer(world, &Options::new(), &name, create)
    });
}

/// A program that is refused because a file exists does not lock it: another one can lock it meanwhile.
#[test]
fn refused_writer_takes_no_lock() {
    let folder = tempfile::tempdir().unwrap();
    for kind in ["stream", "object"] {
        let name = folder.path().join(kind).display().to_string();
        let locked = format!("{name}.{}", if kind == "stream" { "steps" } else { "meta" });
        let write = |world: &Comm| {
            let (streams, _) = declare(world);
            let make = |comm: &Comm, declared: &_| target(kind, comm, &name, declared);
            Options::new().create_on(world, &name, &streams, make)?.finish().map(drop)
        };
        run(1, write);
        std::thread::scope(|scope| {
            let refused = scope.spawn(|| {
                run(1, |world| (0..300).try_for_each(|_| write(world).map_or(Ok(()), |()| Err(no_error()))));
            });
            while !refused.is_finished() {
                drop(aqueduct_file::claim(&locked).unwrap());
            }
            refused.join().unwrap();
        });
    }
}

fn no_error() -> Error {
    Error::new(Kind::BadArgument, "create", "the output", "it was not refused")
}

/// One file of several exists: no other one is created, and without it the same call succeeds.
#[test]
fn refused_object_files_leave_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let name = folder.path().join("run").display().to_string();
    for ending in ["", ".meta", ".streams", ".level", ".speed", ".speed.meta"] {
        let path = format!("{name}{ending}");
        std::fs::write(&path, "years of work").unwrap();
        run(2, |world| {
            let (streams, _) = declare(world);
            let make = |comm: &Comm, declared: &_| target("object", comm, &name, declared);
            let refused = Options::new().create_on(world, &name, &streams, make).map(drop).unwrap_err();
            assert_eq!(refused.kind(), aqueduct_file::Kind::FileExists, "{ending}: {refused}");
            assert!(refused.to_string().contains("`Options::replace`"), "{refused}");
            Ok(())
        });
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "{ending}");
        std::fs::remove_file(&path).unwrap();
    }
}

/// The writer that `lock_of_a_killed_writer_is_free_again` starts and kills.
#[test]
fn child_writer() {
    let Ok(name) = std::env::var(CHILD) else { return };
    run(1, |world| {
        let (streams, keys) = declare(world);
        let mut output = Options::new().mode(OutputMode::Thread).create(world, &name, &streams)?;
        write_steps(world, &mut output, keys, 2)?;
        output.flush()?;
        println!("\nwriting");
        std::io::stdout().flush().unwrap();
        std::thread::sleep(std::time::Duration::from_secs(60));
        output.finish().map(drop)
    });
}

#[test]
fn lock_of_a_killed_writer_is_free_again() {
    let folder = tempfile::tempdir().unwrap();
    let name = folder.path().join("run").display().to_string();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child_writer", "--nocapture"])
        .env(CHILD, &name)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.map_while(Result::ok).any(|line| line.contains("writing")), "the child has ended");
    let options = Options::new().replace();
    run(2, |world| {
        let refused = write_file(world, &options, &name, 1).unwrap_err();
        assert_eq!(refused.kind(), aqueduct_file::Kind::InUse, "{refused}");
        assert_eq!(Reader::open(world, &name)?.stored_steps().len(), 2, "the refused writer touched nothing");
        Ok(())
    });
    child.kill().unwrap();
    child.wait().unwrap();
    run(2, |world| write_file(world, &options, &name, 1));
}

fn target(
    kind: &str,
    comm: &Comm,
    name: &str,
    declared: &std::sync::Arc<aqueduct_stream::Declaration>,
) -> Result<Box<dyn OutputTarget>, Error> {
    Ok(match kind {
        "netcdf" => Box::new(NetcdfTarget::create(comm, name, declared)?),
        #[cfg(feature = "hdf5")]
        "hdf5" => Box::new(aqueduct_stream::target::Hdf5Target::create(comm, name, declared)?),
        "object" => Box::new(ObjectTarget::create(comm, name, declared)?),
        _ => Box::new(aqueduct_stream::target::FileTarget::create(comm, name, declared)?),
    })
}

#[test]
fn existing_files_are_refused_unless_they_are_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let kinds: &[&str] = if cfg!(feature = "hdf5") {
        &["stream", "netcdf", "object", "hdf5"]
    } else {
        &["stream", "netcdf", "object"]
    };
    for kind in kinds {
        let name = folder.path().join(kind).display().to_string();
        run(2, |world| {
            let (streams, keys) = declare(world);
            let write = |options: &Options| {
                let make = |comm: &Comm, declared: &_| target(kind, comm, &name, declared);
                let mut output = options.create_on(world, &name, &streams, make)?;
                write_steps(world, &mut output, keys, 2)?;
                output.finish().map(drop)
            };
            write(&Options::new())?;
            world.barrier()?;
            let before = std::fs::read(&name).unwrap();
            let refused = write(&Options::new()).unwrap_err();
            assert_eq!(refused.kind(), aqueduct_file::Kind::FileExists, "{kind}: {refused}");
            assert!(refused.to_string().contains("`Options::replace`"), "{refused}");
            assert_eq!(std::fs::read(&name).unwrap(), before, "{kind}: it was touched");
            world.barrier()?;
            write(&Options::new().replace())
        });
    }
}

#[test]
fn file_of_another_kind_is_not_taken_for_an_output() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("thesis.tex");
    std::fs::write(&path, "years of work").unwrap();
    run(2, |world| {
        let refused = write_file(world, &Options::new(), path.to_str().unwrap(), 1).unwrap_err();
        assert_eq!(refused.kind(), aqueduct_file::Kind::FileExists);
        Ok(())
    });
    assert_eq!(std::fs::read(&path).unwrap(), b"years of work");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left beside it");
}

#[derive(Object, Clone, Debug, PartialEq)]
struct Named {
    name: String,
}

#[test]
fn reads_compare_checksums_unless_disabled() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run");
    let name = path.display().to_string();
    run(2, |world| {
        let (mut streams, keys) = declare(world);
        let names = streams.add_objects::<Named>(Stream::objects("names"));
        let mut output = Output::create(world, &name, &streams)?;
        let (level, objects) = (vec![7; 4], vec![Named { name: "x".into() }; 2]);
        for _ in 0..3 {
            output.step()?.put(keys[0], &level).put(keys[1], &level).put_objects(names, &objects).commit()?;
        }
        output.finish()?;
        if world.rank() == 0 {
            // In the second stream of the middle step.
            let stored = std::fs::metadata(&path).unwrap().len() as usize / 3;
            change_byte(&path, stored + 64);
        }
        world.barrier()?;
        let reader = Reader::open(world, &name)?;
        let [first, changed, last] = [0, 1, 2].map(|step| reader.step(step).unwrap().clone());
        assert_eq!(reader.read::<u64>("level", &first)?, [7; 8]);
        assert_eq!(reader.read::<u64>("speed", &last)?, [7; 8]);
        let part = Hyperslab::new([2], [3]);
        let refused = [
            reader.read::<u64>("level", &changed).map(drop),
            reader.read::<u64>("speed", &changed).map(drop),
            reader.read_part::<u64>("speed", &changed, 0, &part).map(drop),
            reader.objects::<Named>("names", &changed).and_then(|names| names.read(0..1)).map(drop),
        ];
        for error in refused.map(Result::unwrap_err) {
            assert_eq!((error.kind(), error.step()), (Kind::Damaged, Some(1)), "{error}");
            assert!(error.to_string().contains("`Reader::unchecked`"), "{error}");
        }
        let reader = Reader::open(world, &name)?.unchecked();
        assert_ne!(reader.read::<u64>("speed", &changed)?, [7; 8]);
        assert_eq!(reader.objects::<Named>("names", &changed)?.read(0..1)?, objects[..1]);
        Ok(())
    });
}

#[test]
fn bytes_of_an_unfinished_step_are_listed_as_lost() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run");
    let name = path.display().to_string();
    run(2, |world| {
        let (streams, keys) = declare(world);
        let mut output = Options::new().mode(OutputMode::Blocking).create(world, &name, &streams)?;
        write_steps(world, &mut output, keys, 2)?;
        drop(output);
        world.barrier()?;
        assert_eq!(Reader::open(world, &name)?.incomplete_steps(), []);
        world.barrier()?;
        // A program that was killed between the bytes of step 2 and their record.
        if world.rank() == 0 {
            let mut data = std::fs::OpenOptions::new().append(true).open(&path).unwrap();
            data.write_all(&[3; 40]).unwrap();
        }
        world.barrier()?;
        let reader = Reader::open(world, &name)?;
        let [lost] = reader.incomplete_steps() else { panic!("{:?}", reader.incomplete_steps()) };
        assert_eq!((lost.record, lost.step, lost.was_durable), (2, None, false));
        assert_eq!(lost.bytes, 256..296);
        assert_eq!((reader.stored_steps().len(), reader.is_finished()), (2, false));
        world.barrier()?;
        // The same for a step with a record whose bytes are changed.
        if world.rank() == 0 {
            change_byte(&path, 130);
        }
        world.barrier()?;
        let reader = Reader::open(world, &name)?;
        let lost: Vec<_> =
            reader.incomplete_steps().iter().map(|lost| (lost.step, lost.bytes.clone())).collect();
        assert_eq!(lost, [(Some(1), 128..256), (None, 256..296)]);
        Ok(())
    });
}

#[test]
fn putting_a_stream_twice_is_an_error() {
    run(2, |world| {
        let (mut streams, keys) = declare(world);
        let names = streams.add_objects::<Named>(Stream::objects("names"));
        let values = [1; 4];
        for twice in ["level", "names"] {
            let mut output = Options::new().replace().create(world, "memfs:twice", &streams)?;
            let step = output.step()?.put(keys[0], &values).put(keys[1], &values).put_objects(names, &[]);
            let step =
                if twice == "level" { step.put(keys[0], &values) } else { step.put_objects(names, &[]) };
            let refused = step.commit().unwrap_err();
            assert_eq!(refused.kind(), Kind::BadArgument);
            assert!(refused.to_string().contains(&format!("stream {twice:?} was put twice")), "{refused}");
        }
        Ok(())
    });
}

#[test]
fn messages_name_the_stream_file_and_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run");
    let name = path.to_str().unwrap();
    run(2, |world| {
        let missing = Reader::open(world, name).map(drop).unwrap_err().to_string();
        assert!(
            missing.contains(&format!("open {name:?}")) && missing.contains("stream file does not exist"),
            "{missing}"
        );
        world.barrier()?;
        if world.rank() == 0 {
            std::fs::write(&path, "data").unwrap();
        }
        world.barrier()?;
        let alone = Reader::open(world, name).map(drop).unwrap_err().to_string();
        assert!(alone.contains("there is no .steps beside it"), "{alone}");
        let unknown =
            Output::create(world, "s3:bucket/run", &declare(world).0).map(drop).unwrap_err().to_string();
        assert!(
            unknown.contains("\"s3:bucket/run\"") && unknown.contains("unknown prefix \"s3\""),
            "{unknown}"
        );
        assert!(!unknown.contains(".steps"), "{unknown}");
        let mut streams = Streams::new();
        streams.add::<f32>(Stream::array("level", [8]).block([6], [4]));
        let outside = Output::create(world, "memfs:outside", &streams).map(drop).unwrap_err().to_string();
        assert!(
            outside.contains("\"level\"")
                && outside.contains("of shape [4] at [6]")
                && outside.contains("array of shape [8]"),
            "{outside}"
        );
        Ok(())
    });
}
