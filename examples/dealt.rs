//! The program of the README: numbers dealt out to all ranks in turn, written together into one file.

use aqueduct::prelude::*;

fn main() -> Result<(), aqueduct::Error> {
    aqueduct::run(|world| {
        // All ranks share one file, its numbers dealt out to them in turn: a b c a b c …
        let file = Open::new(Mode::read_write().create().delete_on_close()).open(world, "ufs:dealt.bin")?;
        file.set_view(&View::round_robin(world, &Layout::from(Basic::U64))?)?;

        // All write together: one call, few large accesses underneath.
        file.at_pointer().all().write(&vec![world.rank() as u64; 100_000])?;
        file.sync()?;

        // Seen as a whole, the file holds the ranks' numbers interleaved.
        file.set_view(&View::of(0, &Layout::from(Basic::U64))?)?;
        let mut head = vec![0; world.size()];
        file.at(0).all().read(&mut head)?;
        assert!(head.iter().enumerate().all(|(rank, number)| *number == rank as u64));
        if world.rank() == 0 {
            let (ranks, bytes) = (world.size(), file.size()?);
            println!("{ranks} ranks wrote {bytes} bytes together, by {}", world.transport());
        }
        file.close()
    })?;
    Ok(())
}
