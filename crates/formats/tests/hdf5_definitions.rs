//! Batches of definitions that fail: nothing of them is left, on any rank.
#![cfg(feature = "hdf5")]

use aqueduct_comm::{Comm, Launch};
use aqueduct_formats::hdf5::{Hdf5CreateOptions, Hdf5Definitions, Hdf5File, Hdf5OpenOptions};
use aqueduct_formats::{Error, Kind, Result, Selection};

const NAME: &str = "memfs:definitions.h5";

/// Adds, extends and replaces.
fn change(file: &mut Hdf5Definitions<'_>) -> Result<()> {
    let old = file.tree().keys().cloned().collect::<Vec<_>>();
    assert!(old.contains(&"/steps".to_owned()));
    file.group("/new/inner")?;
    let new = file.extendible::<f64>("/new/steps", &[2, 3], &[1, 3])?;
    file.extend(new, 5)?;
    file.attribute("/", "title", "another title")?;
    file.attribute("/", "added", 3i32)?;
    file.attribute("/new/steps", "unit", "m")
}

fn check(file: &Hdf5File) -> Result<()> {
    assert_eq!(file.tree().keys().collect::<Vec<_>>(), ["/", "/plain", "/steps"]);
    let root = file.object("/")?;
    assert_eq!(root.attribute("title").and_then(|title| title.text()), Some("a title"));
    assert!(root.attribute("added").is_none());
    assert!(file.dataset("/new/steps").is_err_and(|error| error.kind() == Kind::NoSuchName));
    let steps = file.dataset("/steps")?;
    assert_eq!((file.describe(steps)?.shape.as_slice(), file.datasets().count()), (&[2, 3][..], 2));
    assert_eq!(file.at(steps, Selection::whole()).read_vec::<f64>()?, [1.5; 6]);
    Ok(())
}

#[test]
fn a_batch_that_fails_leaves_nothing() {
    let run = |world: &Comm| {
        let mut file = Hdf5CreateOptions::new().replace().create(world, NAME)?;
        let (steps, _) = file.define(|file| {
            file.attribute("/", "title", "a title")?;
            Ok((file.extendible::<f64>("/steps", &[2, 3], &[1, 3])?, file.dataset::<u8>("/plain", &[4])?))
        })?;
        file.at(steps, Selection::whole()).all().write(&[1.5f64; 6])?;
        // An error of all ranks, of one rank, a list that differs, and a panic.
        let failed = |file: &Hdf5File| Error::new(Kind::BadArgument, "define", file.name(), "not wanted");
        let error = failed(&file);
        let refused = file.define(|file| {
            file.extend(steps, 7)?;
            change(file)?;
            Err::<(), _>(error.clone())
        });
        assert_eq!(refused.unwrap_err().kind(), Kind::BadArgument);
        check(&file)?;
        let refused = file.define(|file| {
            change(file)?;
            if world.rank() == 1 { Err(error) } else { file.extend(steps, 4) }
        });
        assert!(refused.is_err());
        check(&file)?;
        let refused = file.define(|file| file.extend(steps, 3 + world.rank() as u64));
        assert!(refused.is_err(), "the ranks define different things");
        check(&file)?;
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            file.define(|file| -> Result<()> {
                change(file)?;
                panic!("in the closure")
            })
        }));
        assert!(panicked.is_err());
        check(&file)?;
        // Afterwards everything can be defined that could have been.
        file.define(|file| {
            change(file)?;
            file.extend(steps, 3)
        })?;
        assert_eq!(file.describe(file.dataset("/new/steps")?)?.shape, [5, 3]);
        file.close()?;
        let file = Hdf5OpenOptions::new().open(world, NAME)?;
        assert_eq!(file.describe(file.dataset("/steps")?)?.shape, [3, 3]);
        assert_eq!(file.tree().len(), 6);
        file.close()
    };
    Launch::threads(3).run(run).unwrap();
}
