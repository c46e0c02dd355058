//! Two writers of one file: the second is refused, by name and with the way out, on all ranks; readers are not.

use std::path::Path;

use aqueduct_comm::{Comm, Launch};
use aqueduct_file::Kind;
use aqueduct_formats::{Error, Result};

/// A format, as far as it matters here.
trait Format: Sync {
    fn create(&self, world: &Comm, path: &Path, replace: bool) -> Result<Box<dyn Opened>>;
    fn open(&self, world: &Comm, path: &Path, writable: bool) -> Result<Box<dyn Opened>>;
}

/// An open file.
trait Opened {
    fn commit(&mut self) -> Result<()>;
    fn close(self: Box<Self>) -> Result<()>;
}

macro_rules! of_format {
    ($name:ident, $format:ident, $create:ident, $options:ident, $open:ty) => {
        struct $name;

        impl Format for $name {
            fn create(&self, world: &Comm, path: &Path, replace: bool) -> Result<Box<dyn Opened>> {
                let create = aqueduct_formats::$format::$create::new();
                Ok(Box::new(if replace { create.replace() } else { create }.create(world, path)?))
            }

            fn open(&self, world: &Comm, path: &Path, writable: bool) -> Result<Box<dyn Opened>> {
                let open = aqueduct_formats::$format::$options::new();
                Ok(Box::new(if writable { open.writable() } else { open }.open(world, path)?))
            }
        }

        impl Opened for $open {
            fn commit(&mut self) -> Result<()> {
                <$open>::commit(self)
            }

            fn close(self: Box<Self>) -> Result<()> {
                <$open>::close(*self)
            }
        }
    };
}

of_format!(Netcdf, netcdf, NetcdfCreateOptions, NetcdfOpenOptions, aqueduct_formats::netcdf::NetcdfFile);
#[cfg(feature = "hdf5")]
of_format!(Hdf5, hdf5, Hdf5CreateOptions, Hdf5OpenOptions, aqueduct_formats::hdf5::Hdf5File);

fn refused(outcome: Result<Box<dyn Opened>>, path: &Path) {
    let error = outcome.err().expect("somebody writes the file");
    assert_eq!(error.kind(), Kind::InUse, "{error}");
    let told = error.to_string();
    assert!(told.contains(&*path.to_string_lossy()) && told.contains("close it there first"), "{told}");
}

fn one_writes(format: &dyn Format) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("claimed");
    let job = |world: &Comm| {
        let mut first = format.create(world, &path, false)?;
        first.commit()?;
        refused(format.open(world, &path, true), &path);
        refused(format.create(world, &path, true), &path);
        format.open(world, &path, false)?.close()?;
        first.close()?;
        let again = format.open(world, &path, true)?;
        refused(format.open(world, &path, true), &path);
        // One that was never closed has let the file go too.
        drop(again);
        world.barrier()?;
        format.create(world, &path, true)?.close()
    };
    Launch::threads(3).run(job).unwrap();
}

/// A file that was closed together is free for each of the ranks, at once.
fn closed_is_free(format: &dyn Format) {
    let folder = tempfile::tempdir().unwrap();
    let job = |world: &Comm| {
        for round in 0..20 {
            let path = folder.path().join(format!("round-{round}"));
            format.create(world, &path, false)?.close()?;
            if world.rank() == 1 {
                format.open(&world.comm_self(), &path, true)?.close()?;
            }
        }
        Ok::<_, Error>(())
    };
    Launch::threads(2).run(job).unwrap();
}

#[test]
fn one_program_writes_a_netcdf_file() {
    one_writes(&Netcdf);
    closed_is_free(&Netcdf);
}

#[cfg(feature = "hdf5")]
#[test]
fn one_program_writes_an_hdf5_file() {
    one_writes(&Hdf5);
    closed_is_free(&Hdf5);
}
