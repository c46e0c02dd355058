//! What objects cost beside the bytes of the raw engine, counted: with every rank on a node of its own, a meeting of the ranks is messages.

use aqueduct_comm::{Comm, Launch};
use aqueduct_file::{Counters, Mode, OpenOptions, View};
use aqueduct_object::{Error, Kind, Object, ObjectFile, ObjectView};

const RANKS: usize = 4;
/// Per rank.
const COUNT: usize = 1000;

#[derive(Object, Clone, Debug, PartialEq)]
struct Named {
    id: u64,
    name: String,
}

fn apart<R: Send>(job: impl Fn(&Comm) -> Result<R, Error> + Sync) -> Vec<R> {
    Launch::threads(RANKS).node_ranks(1).run(job).unwrap()
}

/// Messages that a rank sends in one call.
fn messages(counters: impl Fn() -> Counters, call: impl FnOnce() -> Result<(), Error>) -> Result<u64, Error> {
    let before = counters();
    call()?;
    Ok((counters() - before).messages)
}

/// Of a write and a read that are new, and of their repetition: the raw engine's and those of objects.
fn compared(world: &Comm) -> Result<[(u64, u64); 4], Error> {
    let mode = Mode::read_write().create().delete_on_close();
    let raw = OpenOptions::from(mode).open(world, "memfs:meetings-raw")?;
    raw.set_view(&View::round_robin::<i32>(world)?)?;
    let file = ObjectFile::<i32>::replace(world, "memfs:meetings")?;
    file.set_view(&ObjectView::round_robin(world))?;
    let mut numbers = vec![world.rank() as i32; COUNT];
    let writes = || -> Result<(u64, u64), Error> {
        let theirs = messages(|| raw.counters(), || raw.at(0).all().write(&numbers).map(drop))?;
        let ours = messages(|| file.counters(), || file.at(0).all().write(&numbers).map(drop))?;
        Ok((theirs, ours))
    };
    let (first_write, second_write) = (writes()?, writes()?);
    file.close()?;
    let file = ObjectFile::<i32>::open(world, "memfs:meetings")?;
    file.set_view(&ObjectView::round_robin(world))?;
    // Checksums are compared when a block is first touched: here, and the ranks tell each other.
    file.at(0).all().read(&mut numbers)?;
    raw.at(0).all().read(&mut numbers)?;
    let mut reads = || -> Result<(u64, u64), Error> {
        let theirs = messages(|| raw.counters(), || raw.at(0).all().read(&mut numbers).map(drop))?;
        let ours = messages(|| file.counters(), || file.at(0).all().read(&mut numbers).map(drop))?;
        Ok((theirs, ours))
    };
    let (first_read, second_read) = (reads()?, reads()?);
    assert!(numbers.iter().all(|number| *number == world.rank() as i32));
    file.close()?;
    raw.close()?;
    Ok([first_write, second_write, first_read, second_read])
}

#[test]
fn collective_accesses_take_no_more_messages_than_those_of_bytes() {
    for (rank, calls) in apart(compared).into_iter().enumerate() {
        for (call, (theirs, ours)) in calls.into_iter().enumerate() {
            assert!(theirs > 0, "rank {rank}, call {call}: nothing was counted");
            assert_eq!(ours, theirs, "rank {rank}, call {call}");
        }
    }
}

#[test]
fn objects_of_variable_size_are_written_as_bytes_in_rank_order_are() {
    let counted = apart(|world| {
        let mode = Mode::read_write().create().delete_on_close();
        let raw = OpenOptions::from(mode).open(world, "memfs:meetings-ordered")?;
        let file = ObjectFile::replace(world, "memfs:meetings-named")?;
        let mine = vec![Named { id: 7, name: "seven".to_owned() }; COUNT];
        let bytes = vec![1u8; mine.iter().map(Object::encoded_size).sum()];
        let theirs = messages(|| raw.counters(), || raw.shared().all().write(&bytes).map(drop))?;
        let start = (COUNT * world.rank()) as u64;
        let ours = messages(|| file.counters(), || file.at(start).all().write(&mine).map(drop))?;
        file.close()?;
        raw.close()?;
        Ok((theirs, ours))
    });
    assert!(counted.iter().all(|(theirs, ours)| theirs == ours && *theirs > 0), "{counted:?}");
}

/// The meetings that are gone were for errors of single ranks: they still reach all.
#[test]
fn what_one_rank_does_wrong_all_ranks_learn() {
    for ranks_per_node in [1, RANKS] {
        let job = |world: &Comm| {
            let file = ObjectFile::<u32>::replace(world, "memfs:meetings-wrong")?;
            let wrong = world.rank() == 2;
            let far = if wrong { u64::MAX / 2 } else { world.rank() as u64 };
            let error = file.at(far).all().write(&[7]).unwrap_err();
            assert_eq!(error.kind(), Kind::BadArgument, "{error}");
            assert_eq!(error.rank(), if wrong { None } else { Some(2) }, "{error}");
            assert!(error.to_string().contains("reach behind every file"), "{error}");
            // The file goes on.
            file.at(world.rank() as u64).all().write(&[world.rank() as u32])?;
            let view = if wrong { ObjectView::all().starting_at(u64::MAX) } else { ObjectView::all() };
            let error = file.set_view(&view).unwrap_err();
            assert_eq!((error.kind(), error.rank()), (Kind::BadArgument, (!wrong).then_some(2)), "{error}");
            file.close()?;
            let file = ObjectFile::<u32>::open(world, "memfs:meetings-wrong")?;
            assert_eq!(file.at(0).all().read_vec(9)?, [0, 1, 2, 3]);
            file.close()
        };
        Launch::threads(RANKS).node_ranks(ranks_per_node).run(job).unwrap();
        let job = |world: &Comm| {
            let file = ObjectFile::<Named>::replace(world, "memfs:meetings-wrong-named")?;
            let far = if world.rank() == 2 { u64::MAX - 1 } else { world.rank() as u64 };
            let one = Named { id: world.rank() as u64, name: "x".repeat(world.rank()) };
            let error = file.at(far).all().write(&vec![one.clone(); 5]).unwrap_err();
            assert_eq!(error.kind(), Kind::BadArgument, "{error}");
            file.at(world.rank() as u64).all().write(&[one])?;
            file.close()
        };
        Launch::threads(RANKS).node_ranks(ranks_per_node).run(job).unwrap();
    }
}

/// Opening is a dozen messages for the busiest of four ranks: a fixed number of meetings, each of a logarithmic number of steps.
#[test]
fn opening_takes_few_meetings() {
    let counted = apart(|world| {
        let write = |name: &str| -> Result<(), Error> {
            let file = ObjectFile::<u32>::replace(world, name)?;
            file.at(world.rank() as u64).all().write(&[1])?;
            file.close()
        };
        write("memfs:meetings-open")?;
        let opened = ObjectFile::<u32>::open(world, "memfs:meetings-open")?;
        let messages = opened.counters().messages;
        opened.close()?;
        Ok(messages)
    });
    assert!(counted.iter().all(|messages| (1..=12).contains(messages)), "{counted:?}");
}
