//! Boxes of a global array, written from and read into arrays and views of the crate `ndarray`.
#![cfg(feature = "ndarray")]

use aqueduct_comm::{Comm, Launch};
use aqueduct_file::hyperslab::Hyperslab;
use aqueduct_file::{Error, File, Kind};
use ndarray::{Array2, Array3, ArrayRef, Ix2, s};

/// The global array: each value is its own position.
const SHAPE: [u64; 2] = [12, 10];

fn value(row: u64, column: u64) -> f64 {
    (100 * row + column) as f64
}

/// The rows of a rank; the last one has the rest.
fn slab(world: &Comm) -> Hyperslab {
    let (rank, size) = (world.rank() as u64, world.size() as u64);
    let each = SHAPE[0] / size;
    let count = if rank + 1 == size { SHAPE[0] - rank * each } else { each };
    Hyperslab::new([rank * each, 0], [count, SHAPE[1]])
}

fn local(slab: &Hyperslab) -> Array2<f64> {
    let (first, rows) = (slab.start[0], slab.count[0] as usize);
    Array2::from_shape_fn((rows, SHAPE[1] as usize), |(y, x)| value(first + y as u64, x as u64))
}

/// Calls `check` with the local part in four memory layouts: standard, transposed, sliced with gaps, and reversed.
fn in_each_layout(
    part: &Array2<f64>,
    mut check: impl FnMut(&mut ArrayRef<f64, Ix2>, &str) -> Result<(), Error>,
) -> Result<(), Error> {
    let (rows, columns) = part.dim();
    check(&mut part.clone(), "standard")?;
    let mut transposed = Array2::zeros((columns, rows));
    transposed.view_mut().reversed_axes().assign(part);
    check(&mut transposed.view_mut().reversed_axes(), "transposed")?;
    let mut large = Array3::from_elem((rows + 2, 2 * columns, 2), -1.0);
    let mut sliced = large.slice_mut(s![1..=rows, ..;2, 0]);
    sliced.assign(part);
    check(&mut sliced, "sliced")?;
    let gaps = large.iter().filter(|value| **value < 0.0).count();
    assert_eq!(gaps, large.len() - part.len(), "an element outside of the view has changed");
    let mut reversed = part.clone();
    let mut reversed = reversed.slice_mut(s![..;-1, ..;-1]);
    reversed.assign(part);
    check(&mut reversed, "reversed")
}

fn written_and_read(world: &Comm, name: &str, displacement: u64) -> Result<(), Error> {
    let slab = slab(world);
    let part = local(&slab);
    in_each_layout(&part, |array, layout| {
        let file = File::create(world, name)?;
        let written = file.array::<f64>(displacement, &SHAPE, &slab).all().write(array)?;
        assert_eq!(written.bytes(), 8 * part.len() as u64, "{layout}");
        file.sync()?;
        let mut whole = vec![0.0; 120];
        file.at(displacement).read(&mut whole)?;
        let expected: Vec<f64> =
            (0..12).flat_map(|row| (0..10).map(move |column| value(row, column))).collect();
        assert_eq!(whole, expected, "{layout}");
        for collective in [true, false] {
            array.fill(0.0);
            let access = file.array::<f64>(displacement, &SHAPE, &slab);
            if collective {
                access.all().read(array)?
            } else {
                access.read(array)?
            };
            assert_eq!(*array, part, "{layout}, collective: {collective}");
        }
        file.array::<f64>(displacement, &SHAPE, &slab).write(array)?;
        world.barrier()?;
        file.at(displacement).read(&mut whole)?;
        assert_eq!(whole, expected, "{layout}, independent");
        world.barrier()?;
        file.close()
    })
}

#[test]
fn arrays_of_every_memory_layout_on_several_ranks() {
    for ranks in [1, 3, 4] {
        for per_node in [1, ranks] {
            let run = Launch::threads(ranks).node_ranks(per_node);
            run.run(|world| written_and_read(world, "memfs:arrays", 16)).unwrap();
        }
    }
}

#[test]
fn arrays_in_a_file_on_disk() {
    let folder = tempfile::tempdir().unwrap();
    let name = format!("ufs:{}", folder.path().join("array").display());
    Launch::threads(3).run(|world| written_and_read(world, &name, 0)).unwrap();
}

#[test]
fn a_wrong_shape_on_one_rank_is_an_error_on_all_ranks_with_both_shapes() {
    Launch::threads(3)
        .run(|world| {
            let file = File::create(world, "memfs:wrong-shape")?;
            let (slab, wrong) = (slab(world), world.rank() == 1);
            let mut array = Array2::<f64>::zeros(if wrong { (10, 4) } else { (4, 10) });
            for direction in ["write", "read"] {
                let access = file.array::<f64>(0, &SHAPE, &slab).all();
                let outcome =
                    if direction == "write" { access.write(&array) } else { access.read(&mut array) };
                let error = outcome.unwrap_err();
                assert_eq!(error.kind(), Kind::BadArgument, "{error}");
                let text = error.to_string();
                assert!(text.contains("[10, 4]") && text.contains("[4, 10]"), "{text}");
                assert_eq!(error.rank(), if wrong { None } else { Some(1) }, "{text}");
            }
            let outside = Hyperslab::new([10, 0], [4, 10]);
            let error = file.array::<f64>(0, &SHAPE, &outside).write(&Array2::zeros((4, 10))).unwrap_err();
            assert_eq!(error.kind(), Kind::BadLayout, "{error}");
            file.close()
        })
        .unwrap();
}
