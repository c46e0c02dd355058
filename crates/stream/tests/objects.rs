//! Streams of objects: the bytes, different types, invalid uses. `streams.rs` checks that they are read back in every
//! mode.

use aqueduct_comm::{Comm, Launch};
use aqueduct_file::{File, OpenOptions};
use aqueduct_object::Object;
use aqueduct_stream::{
    Error, Kind, ObjectKey, Options, OutputMode, OutputReport, Reader, Reduction, Stream, Streams,
};

#[derive(Object, Clone, Copy, Debug, PartialEq)]
struct Point {
    x: f64,
    tag: u32,
}

#[derive(Object, Clone, Debug, PartialEq)]
struct Note {
    text: String,
    weight: u16,
}

const DESCRIPTION: &str = concat!(
    r#"{"format":"aqueduct-stream","version":1,"streams":["#,
    r#"{"name":"points","kind":"u32","shape":[3],"region":"list","reduction":"none","every":null,"#,
    r#""object":{"type":"Point","schema":{"struct":{"name":"Point","fields":[{"name":"x","type":"f64"},{"name":"tag","type":"u32"}]}},"#,
    r#""hash":"HASH1"}},"#,
    r#"{"name":"notes","kind":"u8","shape":[1],"region":"list","reduction":"none","every":null,"#,
    r#""object":{"type":"Note","schema":{"struct":{"name":"Note","fields":[{"name":"text","type":"text"},{"name":"weight","type":"u16"}]}},"#,
    r#""hash":"HASH2"}},"#,
    r#"{"name":"notes.lengths","kind":"u64","shape":[1],"region":"list","reduction":"none","every":null}]}"#
);

fn points(rank: usize) -> Vec<Point> {
    vec![Point { x: 0.5, tag: 7 }; rank]
}

fn notes(rank: usize) -> Vec<Note> {
    let note = |text: &str, weight| Note { text: text.to_owned(), weight };
    if rank == 0 { vec![note("ab", 1), note("", 2)] } else { vec![note("xyz", 0x0304)] }
}

fn declared() -> (Streams, ObjectKey<Point>, ObjectKey<Note>) {
    let mut streams = Streams::new();
    let points = streams.add_objects(Stream::objects("points"));
    let notes = streams.add_objects(Stream::objects("notes"));
    (streams, points, notes)
}

/// A step with objects, and one without.
fn write(name: &str, ranks: usize) -> Vec<OutputReport> {
    let program = |world: &Comm| {
        let (streams, first, second) = declared();
        let mut output = Options::new().replace().mode(OutputMode::Blocking).create(world, name, &streams)?;
        let (points, notes) = (points(world.rank()), notes(world.rank()));
        output.step()?.put_objects(first, &points).put_objects(second, &notes).commit()?;
        output.step()?.put_objects(second, &[]).commit()?;
        output.finish()
    };
    Launch::threads(ranks).run(program).unwrap()
}

fn bytes(name: &str) -> Vec<u8> {
    let read = |world: &Comm| {
        let file = File::open(world, name)?;
        let mut bytes = vec![0u8; file.size()? as usize];
        file.at(0).read(&mut bytes)?;
        Ok::<_, aqueduct_file::Error>(bytes)
    };
    Launch::threads(1).run(read).unwrap().remove(0)
}

/// Runs a reader on one rank.
fn read<R: Send>(name: &str, look: impl Fn(&Reader) -> Result<R, Error> + Sync) -> Result<R, Error> {
    let outcomes = Launch::threads(1).run(|world| Ok::<_, Error>(look(&Reader::open(world, name)?)));
    outcomes.unwrap().remove(0)
}

#[test]
fn the_bytes_are_those_of_the_format() {
    write("memfs:pinned", 2);
    let text = |text: &str| [&(text.len() as u64).to_le_bytes()[..], text.as_bytes()].concat();
    let lengths: Vec<u8> = [12u64, 10, 13].iter().flat_map(|length| length.to_le_bytes()).collect();
    let expected = [
        // One point of rank 1, padded to a multiple of 8 bytes.
        &0.5f64.to_le_bytes()[..],
        &[7, 0, 0, 0],
        &[0; 4],
        // Notes of both ranks, padded; their lengths.
        &[text("ab"), vec![1, 0], text(""), vec![2, 0], text("xyz"), vec![4, 3]].concat(),
        &[0; 5],
        &lengths,
    ];
    assert_eq!(bytes("memfs:pinned"), expected.concat());
    let steps = bytes("memfs:pinned.steps");
    let hash = |schema: &aqueduct_object::Schema| format!("{:016x}", schema.hash());
    let description =
        DESCRIPTION.replace("HASH1", &hash(&Point::schema())).replace("HASH2", &hash(&Note::schema()));
    let streams = description.strip_suffix('}').unwrap();
    assert_eq!(std::str::from_utf8(&steps[512..512 + streams.len()]).unwrap(), streams);
}

#[test]
fn any_rank_reads_any_object() {
    write("memfs:any", 3);
    let look = |world: &Comm| {
        let reader = Reader::open(world, "memfs:any")?;
        let all: Vec<Note> = (0..3).flat_map(notes).collect();
        let found = reader.objects::<Note>("notes", reader.step(0).unwrap())?;
        assert_eq!(found.count(), 4);
        for (first, last) in (0..=4).flat_map(|first| (first..=4).map(move |last| (first, last))) {
            assert_eq!(found.read(first..last)?, all[first as usize..last as usize]);
        }
        let shares: Vec<_> = (0..world.size()).map(|rank| found.share(rank, world.size())).collect();
        assert!(shares[0].start == 0 && shares.last().unwrap().end == 4);
        assert!(shares.windows(2).all(|both| both[0].end == both[1].start));
        assert_eq!(reader.objects::<Point>("points", reader.step(0).unwrap())?.read(0..3)?, points(3));
        // A step without objects.
        assert_eq!(reader.objects::<Point>("points", reader.step(1).unwrap())?.count(), 0);
        assert_eq!(reader.objects::<Note>("notes", reader.step(1).unwrap())?.read(0..0)?, []);
        let error = found.read(2..5).unwrap_err();
        assert!(error.kind() == Kind::BadArgument && error.step() == Some(0), "{error}");
        assert!(error.to_string().contains("2..5") && error.to_string().contains("there are 4"), "{error}");
        Ok::<_, Error>(())
    };
    for ranks in [1, 2, 5] {
        Launch::threads(ranks).run(look).unwrap();
    }
}

#[test]
fn an_error_shows_the_stored_type_and_the_requested_one() {
    #[derive(Object, Debug)]
    struct Other {
        text: String,
        weight: u32,
    }
    write("memfs:other", 1);
    let error =
        read("memfs:other", |reader| reader.objects::<Other>("notes", reader.step(0).unwrap()).map(drop));
    let text = error.as_ref().unwrap_err().to_string();
    assert_eq!(error.unwrap_err().kind(), Kind::NoSuchName);
    for words in ["\"notes\"", "in the file", "in the program", "weight: u16", "weight: u32"] {
        assert!(text.contains(words), "{words}: {text}");
    }
    let values = read("memfs:other", |reader| {
        reader.objects::<u64>("notes.lengths", reader.step(0).unwrap()).map(drop)
    });
    assert!(values.unwrap_err().to_string().contains("has values, not objects"));
}

#[test]
fn a_newer_type_reads_what_an_older_one_stored() {
    #[derive(Object, Debug, PartialEq)]
    #[object(rename = "Note")]
    struct Newer {
        #[object(alias = "text")]
        words: String,
        weight: u16,
        #[object(default = 9)]
        level: u8,
    }
    write("memfs:newer", 2);
    let found =
        read("memfs:newer", |reader| reader.objects::<Newer>("notes", reader.step(0).unwrap())?.read(1..3));
    let newer = |words: &str, weight| Newer { words: words.to_owned(), weight, level: 9 };
    assert_eq!(found.unwrap(), [newer("", 2), newer("xyz", 0x0304)]);
}

/// Objects far larger than the buffers, in every mode with buffers; the reported memory stays below its cap.
#[test]
fn objects_larger_than_the_memory() {
    let note = |step: usize| Note { text: "long ".repeat(3000 * step), weight: step as u16 };
    for mode in [OutputMode::Blocking, OutputMode::Thread, OutputMode::Leaders] {
        let name = format!("memfs:large-{mode:?}");
        let program = |world: &Comm| {
            let (streams, first, second) = declared();
            let mut output =
                Options::new().replace().mode(mode).memory(900).group(2).create(world, &name, &streams)?;
            for step in 0..3 {
                let (points, notes) = (vec![points(1)[0]; 100 * step], vec![note(step); world.rank()]);
                output.step()?.put_objects(first, &points).put_objects(second, &notes).commit()?;
            }
            output.finish()
        };
        for report in Launch::threads(3).run(program).unwrap() {
            assert!(report.memory_peak <= report.memory_cap && report.memory_cap <= 900, "{report:?}");
        }
        let look = |reader: &Reader| {
            let last = reader.step(2).unwrap();
            assert_eq!(reader.objects::<Note>("notes", last)?.read(0..3)?, vec![note(2); 3]);
            assert_eq!(reader.objects::<Point>("points", last)?.read(599..600)?, points(1));
            reader.verify()
        };
        assert_eq!(read(&name, look).unwrap(), []);
    }
}

/// The declaration of a rank.
type Declare = dyn Fn(&mut Streams, usize) + Sync;

#[test]
fn invalid_declarations_are_an_error_on_all_ranks() {
    let refused = |make: &Declare| {
        let program = |world: &Comm| {
            let mut streams = Streams::new();
            make(&mut streams, world.rank());
            Ok::<_, Error>(
                Options::new().replace().create(world, "memfs:refused", &streams).map(drop).unwrap_err(),
            )
        };
        Launch::threads(2).run(program).unwrap()
    };
    let cases: [(&Declare, &str); 5] = [
        (&|streams, _| _ = streams.add_objects::<()>(Stream::objects("a")), "no bytes"),
        (&|streams, _| _ = streams.add_objects::<Note>(Stream::array("a", [4])), "Stream::objects"),
        (
            &|streams, _| _ = streams.add_objects::<Note>(Stream::objects("a").reduce(Reduction::Max)),
            "cannot be reduced",
        ),
        (
            &|streams, _| {
                streams.add_objects::<Note>(Stream::objects("a"));
                streams.add::<u64>(Stream::list("a.lengths", 1));
            },
            "another one of this name",
        ),
        (
            &|streams, rank| {
                if rank == 0 {
                    streams.add_objects::<Note>(Stream::objects("a"));
                } else {
                    streams.add_objects::<String>(Stream::objects("a"));
                }
            },
            "declaration of the streams",
        ),
    ];
    for (make, words) in cases {
        for error in refused(make) {
            assert!(error.to_string().contains(words), "{words}: {error}");
        }
    }
}

#[test]
fn a_key_of_another_output_is_refused_with_the_step() {
    let program = |world: &Comm| {
        let mut others = Streams::new();
        others.add::<f64>(Stream::list("x", 1));
        let key = others.add_objects::<Point>(Stream::objects("points"));
        let (streams, ..) = declared();
        let mut output =
            Options::new().replace().mode(OutputMode::Blocking).create(world, "memfs:keys", &streams)?;
        let error = output.step()?.put_objects(key, &[Point { x: 1.0, tag: 1 }]).commit().unwrap_err();
        assert!(error.kind() == Kind::BadArgument && error.step() == Some(0), "{error}");
        assert!(error.to_string().contains("Point"), "{error}");
        Ok::<_, Error>(())
    };
    Launch::threads(2).run(program).unwrap();
}

/// Changed bytes: an error or other objects, never a panic; checksums detect changes of steps that were not durable.
#[test]
fn changed_lengths_are_detected() {
    write("memfs:hostile", 2);
    let good = bytes("memfs:hostile");
    for (at, value) in [(56, 0xff), (63, 0x7f), (64, 11), (56, 13)] {
        let mut changed = good.clone();
        changed[at] = value;
        let put = |world: &Comm| {
            let file = OpenOptions::new().read(true).write(true).open(world, "memfs:hostile")?;
            file.at(0).write(&changed)?;
            file.close()
        };
        Launch::threads(1).run(put).unwrap();
        let found = read("memfs:hostile", |reader| {
            assert_eq!(reader.verify()?.len(), 1);
            reader.objects::<Note>("notes", reader.step(0).unwrap())?.read(0..3)
        });
        let error = found.unwrap_err();
        assert!(error.kind() == Kind::Damaged && error.step() == Some(0), "{error}");
    }
}
