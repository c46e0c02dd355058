//! Object access needs no more messages than byte access. Every rank is on its own node, so that every collective call sends messages.

use aqueduct_comm::{Comm, Launch};
use aqueduct_file::{Counters, Mode, OpenOptions, View};
use aqueduct_object::{Error, Kind, Object, ObjectFile, ObjectView};

const RANKS: usize = 4;
/// Objects per rank.
const COUNT: usize = 1000;

#[derive(Object, Clone, Debug, PartialEq)]
struct Named {
    id: u64,
    name: String,
}

fn apart<R: Send>(job: impl Fn(&Comm) -> Result<R, Error> + Sync) -> Vec<R> {
    Launch::threads(RANKS).node_ranks(1).run(job).unwrap()
}

/// The number of messages that a rank sends in one call.
fn messages(counters: impl Fn() -> Counters, call: impl FnOnce() -> Result<(), Error>) -> Result<u64, Error> {
    let before = counters();
    call()?;
    Ok((counters() - before).messages)
}

/// The messages of the first and the second write and read: of bytes, and of objects.
fn compared(world: &Comm) -> Result<[(u64, u64); 4], Error> {
    let mode = Mode::read_write().create().delete_on_close();
    let raw = OpenOptions::from(mode).open(world, "memfs:calls-raw")?;
    raw.set_view(&View::round_robin::<i32>(world)?)?;
    let file = ObjectFile::<i32>::replace(world, "memfs:calls")?;
    file.set_view(&ObjectView::round_robin(world))?;
    let mut numbers = vec![world.rank() as i32; COUNT];
    let writes = || -> Result<(u64, u64), Error> {
        let of_bytes = messages(|| raw.counters(), || raw.at(0).all().write(&numbers).map(drop))?;
        let of_objects = messages(|| file.counters(), || file.at(0).all().write(&numbers).map(drop))?;
        Ok((of_bytes, of_objects))
    };
    let (first_write, second_write) = (writes()?, writes()?);
    file.close()?;
    let file = ObjectFile::<i32>::open(world, "memfs:calls")?;
    file.set_view(&ObjectView::round_robin(world))?;
    // The first read of a block compares its checksum collectively.
    file.at(0).all().read(&mut numbers)?;
    raw.at(0).all().read(&mut numbers)?;
    let mut reads = || -> Result<(u64, u64), Error> {
        let of_bytes = messages(|| raw.counters(), || raw.at(0).all().read(&mut numbers).map(drop))?;
        let of_objects = messages(|| file.counters(), || file.at(0).all().read(&mut numbers).map(drop))?;
        Ok((of_bytes, of_objects))
    };
    let (first_read, second_read) = (reads()?, reads()?);
    assert!(numbers.iter().all(|number| *number == world.rank() as i32));
    file.close()?;
    raw.close()?;
    Ok([first_write, second_write, first_read, second_read])
}

#[test]
fn collective_object_accesses_take_the_messages_of_byte_accesses() {
    for (rank, calls) in apart(compared).into_iter().enumerate() {
        for (call, (of_bytes, of_objects)) in calls.into_iter().enumerate() {
            assert!(of_bytes > 0, "rank {rank}, call {call}: nothing was counted");
            // On a big-endian machine objects are decoded, and the ranks agree on the outcome.
            let is_decoded = cfg!(target_endian = "big") && call >= 2;
            let same = if is_decoded { of_objects > of_bytes } else { of_objects == of_bytes };
            assert!(same, "rank {rank}, call {call}: {of_objects} messages, {of_bytes} for bytes");
        }
    }
}

#[test]
fn writes_of_variable_objects_take_the_messages_of_ordered_byte_writes() {
    let counted = apart(|world| {
        let mode = Mode::read_write().create().delete_on_close();
        let raw = OpenOptions::from(mode).open(world, "memfs:calls-ordered")?;
        let file = ObjectFile::replace(world, "memfs:calls-named")?;
        let mine = vec![Named { id: 7, name: "seven".to_owned() }; COUNT];
        let bytes = vec![1u8; mine.iter().map(Object::encoded_size).sum()];
        let of_bytes = messages(|| raw.counters(), || raw.shared().all().write(&bytes).map(drop))?;
        let start = (COUNT * world.rank()) as u64;
        let of_objects = messages(|| file.counters(), || file.at(start).all().write(&mine).map(drop))?;
        file.close()?;
        raw.close()?;
        Ok((of_bytes, of_objects))
    });
    assert!(
        counted.iter().all(|(of_bytes, of_objects)| of_bytes == of_objects && *of_bytes > 0),
        "{counted:?}"
    );
}

/// A maximum, a sync if the ranks have no common page cache, and a broadcast. More blocks than one are shared among the ranks.
#[test]
fn a_small_commit_takes_three_collective_calls() {
    let counted = apart(|world| {
        let file = ObjectFile::<[u64; 15]>::replace(world, "memfs:calls-commit")?;
        let mut commits = Vec::new();
        for step in 0..4 {
            let count = if step < 3 { 100 } else { 1000 };
            file.set_view(&ObjectView::contiguous(world, count)?)?;
            file.seek(0, aqueduct_file::Whence::End)?;
            file.at_pointer().all().write(&vec![[step; 15]; count as usize])?;
            commits.push(messages(|| file.counters(), || file.commit())?);
        }
        file.verify()?;
        file.close()?;
        Ok(commits)
    });
    let sent = |commit: usize| counted.iter().map(|commits| commits[commit]).sum::<u64>();
    // Up the tree to rank 0 and down again: six messages per call.
    assert!((0..3).all(|commit| sent(commit) == 18), "{counted:?}");
    assert!(sent(3) > 18, "{counted:?}");
}

/// Errors of one rank are errors on all ranks, without a collective call of their own.
#[test]
fn an_error_of_one_rank_is_an_error_on_all_ranks() {
    for ranks_per_node in [1, RANKS] {
        let job = |world: &Comm| {
            let file = ObjectFile::<u32>::replace(world, "memfs:calls-wrong")?;
            let wrong = world.rank() == 2;
            let far = if wrong { u64::MAX / 2 } else { world.rank() as u64 };
            let error = file.at(far).all().write(&[7]).unwrap_err();
            assert_eq!(error.kind(), Kind::BadArgument, "{error}");
            assert_eq!(error.rank(), if wrong { None } else { Some(2) }, "{error}");
            assert!(error.to_string().contains("exceed the maximum file size"), "{error}");
            // The file remains usable.
            file.at(world.rank() as u64).all().write(&[world.rank() as u32])?;
            let view = if wrong { ObjectView::all().starting_at(u64::MAX) } else { ObjectView::all() };
            let error = file.set_view(&view).unwrap_err();
            assert_eq!((error.kind(), error.rank()), (Kind::BadArgument, (!wrong).then_some(2)), "{error}");
            file.close()?;
            let file = ObjectFile::<u32>::open(world, "memfs:calls-wrong")?;
            assert_eq!(file.at(0).all().read_vec(9)?, [0, 1, 2, 3]);
            file.close()
        };
        Launch::threads(RANKS).node_ranks(ranks_per_node).run(job).unwrap();
        let job = |world: &Comm| {
            let file = ObjectFile::<Named>::replace(world, "memfs:calls-wrong-named")?;
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

/// Opening takes at most 12 messages per rank on four ranks: a fixed number of collective calls, each with a logarithmic number of steps.
#[test]
fn opening_takes_at_most_twelve_messages_per_rank() {
    let counted = apart(|world| {
        let write = |name: &str| -> Result<(), Error> {
            let file = ObjectFile::<u32>::replace(world, name)?;
            file.at(world.rank() as u64).all().write(&[1])?;
            file.close()
        };
        write("memfs:calls-open")?;
        let opened = ObjectFile::<u32>::open(world, "memfs:calls-open")?;
        let messages = opened.counters().messages;
        opened.close()?;
        Ok(messages)
    });
    assert!(counted.iter().all(|messages| (1..=12).contains(messages)), "{counted:?}");
}
