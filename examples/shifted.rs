//! The program of the README: all ranks share one file, and each reads what its neighbour wrote.

use aqueduct::device;
use aqueduct::prelude::*;

type Anything = Box<dyn std::error::Error + Send + Sync>;

const PART: usize = 1 << 20;
const NAME: &str = "ufs:shifted.bin";

fn main() -> Result<(), aqueduct::comm::Error> {
    aqueduct::run(|world| -> Result<(), Anything> {
        let options = OpenOptions::read_write().create(true).rank(world.rank());
        let file = device::open(NAME, &options)?;
        file.write_at((world.rank() * PART) as u64, &vec![world.rank() as u8; PART])?;
        world.barrier()?;

        let next = (world.rank() + 1) % world.size();
        let mut theirs = vec![0; PART];
        file.read_at((next * PART) as u64, &mut theirs)?;
        assert!(theirs.iter().all(|byte| *byte == next as u8));

        let bytes = world.allreduce_one(Op::Sum, theirs.len() as u64)?;
        if world.rank() == 0 {
            println!("{} ranks verified {bytes} bytes by {}", world.size(), world.transport());
            device::delete(NAME)?;
        }
        Ok(())
    })?;
    Ok(())
}
