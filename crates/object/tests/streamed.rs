//! Many objects are encoded and written in parts: the file is the same, and the outcome is the same on all ranks.

use aqueduct_comm::{Comm, Launch};
use aqueduct_object::{Error, FromIter, Object, ObjectFile, ObjectView};

/// The objects of a rank: 60 000 of rank 0 have about 8 MiB, those of rank 1 a few KiB, rank 2 has none, rank 3 one of 5 MiB.
fn mine(rank: usize) -> Vec<Vec<u32>> {
    let make = |id: usize| vec![id as u32; id % 64 + 1];
    match rank % 4 {
        0 => (0..60_000).map(make).collect(),
        1 => (0..100).map(make).collect(),
        2 => Vec::new(),
        _ => vec![vec![7; 5 << 18], vec![8]],
    }
}

fn first(rank: usize) -> u64 {
    (0..rank).map(|before| mine(before).len() as u64).sum()
}

fn write(world: &Comm, name: &str) -> Result<(), Error> {
    let file = ObjectFile::<Vec<u32>>::replace(world, name)?;
    let (place, objects) = (first(world.rank()), mine(world.rank()));
    file.at(place).all().write(&objects)?;
    // The same objects again after them, independently: objects of an iterator are encoded first.
    let behind = first(world.size()) + place;
    if world.rank() == 1 {
        file.at(behind).write(FromIter(objects.iter()))?
    } else {
        file.at(behind).write(&objects)?
    };
    file.close()
}

fn read(world: &Comm, name: &str, writers: usize) -> Result<(), Error> {
    let file = ObjectFile::<Vec<u32>>::open(world, name)?;
    for rank in (0..writers).filter(|rank| rank % world.size() == world.rank()) {
        for place in [first(rank), first(writers) + first(rank)] {
            let expected = mine(rank);
            assert!(file.at(place).read_vec(expected.len() as u64)? == expected, "of rank {rank} at {place}");
        }
    }
    file.close()
}

#[test]
fn ranks_with_few_and_many_objects() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["memfs:streamed".to_owned(), format!("ufs:{}/a", folder.path().display())] {
        for (writers, readers) in [(1, 2), (4, 3), (5, 1)] {
            Launch::threads(writers).run(|world| write(world, &name)).unwrap();
            Launch::threads(readers).run(|world| read(world, &name, writers)).unwrap();
        }
    }
}

#[test]
fn a_failing_device_is_an_error_on_all_ranks() {
    let mut failed = 0;
    for failing in 1..12 {
        let name = format!("fault=write=#{failing}:memfs:streamed-{failing}");
        let outcome = Launch::threads(4).run(|world| {
            let Ok(file) = ObjectFile::<Vec<u32>>::replace(world, &name) else { return Ok(0) };
            let written = file.at(first(world.rank())).all().write(&mine(world.rank()));
            Ok::<_, Error>(u8::from(written.is_ok()) + 1)
        });
        let outcomes = outcome.unwrap();
        assert!(outcomes.iter().all(|one| *one == outcomes[0]), "write {failing}: {outcomes:?}");
        failed += u32::from(outcomes[0] == 1);
    }
    assert!(failed > 2, "{failed} writes failed");
}

/// An object of constant size, whose 27 bytes are not those in memory.
#[derive(Object, Clone, Debug, PartialEq)]
struct Sample {
    valid: bool,
    place: [u16; 5],
    value: (u64, f64),
}

/// So many objects that each rank writes at least 3 MB, of which no two ranks have the same number.
fn samples(rank: usize) -> Vec<Sample> {
    let make =
        |at: u64| Sample { valid: at.is_multiple_of(3), place: [at as u16; 5], value: (at, -(at as f64)) };
    (0..120_000 + 7 * rank as u64).map(|at| make(at * 16 + rank as u64)).collect()
}

#[test]
fn many_objects_of_constant_size_are_encoded_in_the_chunks_of_the_access() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["memfs:generated".to_owned(), format!("{}/generated", folder.path().display())] {
        for ranks in [1, 3] {
            let check = |world: &Comm| {
                let objects = samples(world.rank());
                let count = objects.len() as u64;
                let views = [ObjectView::round_robin(world), ObjectView::contiguous(world, count)?];
                for (view, method) in views.iter().flat_map(|view| (0..3).map(move |method| (view, method))) {
                    let file = ObjectFile::<Sample>::replace(world, &name)?;
                    file.set_view(view)?;
                    match method {
                        0 => _ = file.at_pointer().all().write(&objects)?,
                        1 => _ = file.at(0).write(&objects)?,
                        _ => file.scope(|scope| scope.write(file.at(0).all(), &objects)?.wait().map(drop))?,
                    }
                    file.commit()?;
                    assert!(file.at(0).all().read_vec(count)? == objects, "method {method}");
                    file.verify()?;
                    file.close()?;
                }
                Ok::<_, Error>(())
            };
            Launch::threads(ranks).run(check).unwrap();
        }
    }
}
