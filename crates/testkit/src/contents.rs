//! The contents of a file, read through a separate handle without a buffer.

use aqueduct_comm::{Comm, Launch};
use aqueduct_file::{Error, File};

/// All bytes of a file.
///
/// # Panics
/// If it cannot be read.
pub fn contents(name: &str) -> Vec<u8> {
    let read = |world: &Comm| {
        let file = File::open(world, name)?;
        let mut bytes = vec![0; file.size()? as usize];
        file.at(0).read(&mut bytes)?;
        file.close()?;
        Ok::<_, Error>(bytes)
    };
    Launch::threads(1).run(read).expect("a file that is there").remove(0)
}
