//! Named distributions and PFS modes: which rank has which element.

use aqueduct_comm::{Comm, Launch};
use aqueduct_file::layout::{Basic, Distributed, Distribution, Layout, Order};
use aqueduct_file::{Kind, OpenOptions, PfsMode, Result, View, Whence};

fn element() -> Layout {
    Layout::from(Basic::I32)
}

/// Checks that each rank's first elements are those `owned` says, in order, for several numbers of ranks.
fn check(view: fn(&Comm) -> Result<View>, owned: fn(usize, usize, usize) -> usize) {
    for ranks in [1, 2, 3, 5] {
        let outcome = Launch::threads(ranks).run(|world| {
            let view = view(world)?;
            for at in 0..12 {
                let expected = owned(world.rank(), world.size(), at) as u64 * 4;
                assert_eq!(view.byte_offset(at as u64), Some(expected), "rank {} of {ranks}", world.rank());
            }
            Ok::<_, aqueduct_file::Error>(())
        });
        outcome.unwrap();
    }
}

#[test]
fn round_robin_distributes_single_elements() {
    check(|world| View::round_robin_of(world, &element()), |rank, size, at| at * size + rank);
}

#[test]
fn cyclic_distributes_blocks() {
    check(
        |world| View::cyclic_of(world, &element(), 3),
        |rank, size, at| at / 3 * 3 * size + rank * 3 + at % 3,
    );
}

#[test]
fn contiguous_gives_each_rank_its_part() {
    check(|world| View::contiguous_of(world, &element(), 20), |rank, _, at| rank * 20 + at);
}

#[test]
fn block_repeats_with_the_array() {
    // Arrays of 60 elements, one after the other: each rank goes on in the next array.
    let owned = |rank: usize, size: usize, at: usize| {
        let block = 60 / size;
        at / block * 60 + rank * block + at % block
    };
    check(|world| View::block_of(world, &element(), 60), owned);
}

#[test]
fn a_rank_without_elements_takes_part() {
    let outcome = Launch::threads(4).run(|world| {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .delete_on_close(true)
            .open(world, "memfs:few")?;
        // Five elements in blocks of two: the last rank has none.
        file.set_view(&View::block_of(world, &element(), 5)?)?;
        let mine = [2, 2, 1, 0][world.rank()];
        file.at(0).all().write(&vec![world.rank() as i32; mine])?;
        let refused = file.at(0).write(&[1i32]).map(drop);
        assert_eq!(refused.is_err(), world.rank() == 3);
        world.barrier().unwrap();
        file.set_view(&View::default())?;
        assert_eq!(file.size()?, 20);
        file.close()
    });
    outcome.unwrap();
}

#[test]
fn arrays_are_distributed_per_dimension() {
    let outcome = Launch::threads(6).run(|world| {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .delete_on_close(true)
            .open(world, "memfs:matrix")?;
        let rows = Distributed { size: 4, distribution: Distribution::CyclicOf(1), processes: 2 };
        let columns = Distributed { size: 9, distribution: Distribution::Block, processes: 3 };
        file.set_view(&View::array_of(world, &element(), &[rows, columns], Order::C)?)?;
        file.at_pointer().all().write(&[world.rank() as i32; 6])?;
        file.set_view(&View::default())?;
        let mut all = vec![-1i32; 36];
        file.at(0).all().read(&mut all)?;
        let owner = |row: usize, column: usize| (row % 2 * 3 + column / 3) as i32;
        let expected: Vec<i32> = (0..36).map(|at| owner(at / 9, at % 9)).collect();
        assert_eq!(all, expected);
        let grid = Distributed { processes: 5, ..rows };
        let refused = View::array_of(world, &element(), &[grid], Order::C).unwrap_err();
        assert_eq!(refused.kind(), Kind::BadLayout);
        file.close()
    });
    outcome.unwrap();
}

#[test]
fn pfs_modes_set_view_and_pointer() {
    let outcome = Launch::threads(3).run(|world| {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .delete_on_close(true)
            .open(world, "memfs:modes")?;
        let mine = [world.rank() as u8; 4];

        let sync = file.in_mode(PfsMode::Sync)?;
        sync.write(&mine)?;
        sync.write(&mine)?;
        let global = file.in_mode(PfsMode::Global)?;
        let mut all = [9u8; 24];
        assert_eq!(global.read(&mut all)?.bytes(), 24);
        assert_eq!(all, [[0; 4], [1; 4], [2; 4], [0; 4], [1; 4], [2; 4]].concat()[..]);

        let record = file.in_mode(PfsMode::Record { bytes: 4 })?;
        let mut got = [9u8; 8];
        record.read(&mut got)?;
        assert_eq!(got, [world.rank() as u8; 8]);

        let log = file.in_mode(PfsMode::Log)?;
        log.write(&mine)?;
        world.barrier().unwrap();
        assert_eq!(file.position_shared()?, 12);

        let unix = file.in_mode(PfsMode::Unix)?;
        file.seek(12, Whence::Start)?;
        assert_eq!(unix.read(&mut got)?.bytes(), 8);
        assert_eq!(file.position()?, 20);
        file.close()
    });
    outcome.unwrap();
}
