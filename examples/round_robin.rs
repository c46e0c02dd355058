//! The program of the README: numbers distributed round-robin over the ranks, in one file.

use aqueduct::prelude::*;

fn main() -> Result<(), aqueduct::Error> {
    aqueduct::run(|world| {
        // One shared file. The view distributes its elements round-robin over the ranks.
        let file = File::create(world, "ufs:numbers.bin")?;
        file.set_view(&View::round_robin::<u64>(world)?)?;

        // A collective write: one call on every rank, few large accesses to the file.
        file.at_pointer().all().write(&vec![world.rank() as u64; 100_000])?;
        file.sync()?;

        // Through a contiguous view the file holds the interleaved numbers of all ranks.
        file.set_view(&View::of(0, &Layout::of::<u64>())?)?;
        let mut head = vec![0; world.size()];
        file.at(0).all().read(&mut head)?;
        assert!(head.iter().enumerate().all(|(rank, number)| *number == rank as u64));
        if world.rank() == 0 {
            let (ranks, bytes) = (world.size(), file.size()?);
            println!("{ranks} ranks wrote {bytes} bytes collectively, transport: {}", world.transport());
        }
        file.close()
    })?;
    Ok(())
}
