//! A file has one writer: the second one is an error on all ranks that names the file and the remedy. Readers are accepted.

use std::path::Path;

use aqueduct_comm::{Comm, Launch};
use aqueduct_file::Kind;
use aqueduct_formats::{Error, Result};

/// The operations of a format that the test needs.
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
    let error = outcome.err().expect("the file has a writer");
    assert_eq!(error.kind(), Kind::InUse, "{error}");
    let message = error.to_string();
    assert!(
        message.contains(&*path.to_string_lossy()) && message.contains("close it there first"),
        "{message}"
    );
}

fn check_second_writer(format: &dyn Format) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("locked");
    let job = |world: &Comm| {
        let mut first = format.create(world, &path, false)?;
        first.commit()?;
        refused(format.open(world, &path, true), &path);
        refused(format.create(world, &path, true), &path);
        format.open(world, &path, false)?.close()?;
        first.close()?;
        let again = format.open(world, &path, true)?;
        refused(format.open(world, &path, true), &path);
        // Dropping without closing releases the file, too.
        drop(again);
        world.barrier()?;
        format.create(world, &path, true)?.close()
    };
    Launch::threads(3).run(job).unwrap();
}

/// After a collective close each rank can open the file for writing at once.
fn check_release_on_close(format: &dyn Format) {
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
fn netcdf_files_have_one_writer() {
    check_second_writer(&Netcdf);
    check_release_on_close(&Netcdf);
}

#[cfg(feature = "hdf5")]
#[test]
fn hdf5_files_have_one_writer() {
    check_second_writer(&Hdf5);
    check_release_on_close(&Hdf5);
}
