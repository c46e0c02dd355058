//! Commands on several ranks: threads of this process, or the processes of an MPI job.

use std::ffi::OsStr;
use std::path::Path;

use anyhow::{Result, anyhow};
use aqueduct::comm::{Comm, Launch, Op};

use crate::FAILURE_STATUS;
use crate::finding::FormatMismatch;

/// Without `--ranks`, a rank for as many bytes of the files as this, at most one per core.
const BYTES_PER_RANK: u64 = 16 << 20;
/// The variable with the number of ranks.
const RANKS_VARIABLE: &str = "AQUEDUCT_RANKS";
/// The first byte of an error message of another rank.
const DAMAGE: u8 = 1;

#[derive(clap::Args, Clone, Debug, Default)]
pub(crate) struct RankCount {
    /// Number of ranks, if they are threads [default: `AQUEDUCT_RANKS`, else the number of cores, fewer for small files]
    #[arg(long, short = 'n')]
    ranks: Option<usize>,
}

impl RankCount {
    /// One rank: for commands that read only metadata.
    pub(crate) fn one() -> Self {
        Self { ranks: Some(1) }
    }

    /// Runs the work of a command on all ranks. It returns the same on all of them; under `mpirun` rank 0 reports an error.
    pub(crate) fn run<R: Send>(
        &self,
        files: &[&OsStr],
        work: impl Fn(&Comm) -> Result<R> + Sync,
    ) -> Result<R> {
        keep_freed_memory();
        let launch = Launch::from_env()?;
        let launch = match (self.ranks, std::env::var_os(RANKS_VARIABLE)) {
            (Some(ranks), _) => launch.ranks(ranks),
            (None, Some(_)) => launch,
            (None, None) => launch.ranks(ranks_for(files)),
        };
        // Errors are values, so that they are returned unchanged.
        let mut results = launch.run(|world| Ok::<_, aqueduct::comm::Error>((world.rank(), work(world))))?;
        let (rank, result) = results.drain(..).next().ok_or_else(|| anyhow!("no rank of this process"))?;
        if rank != 0 && result.is_err() {
            std::process::exit(i32::from(FAILURE_STATUS));
        }
        result
    }
}

/// The number of threads for files of this size; files on other devices than the file system get all cores.
fn ranks_for(files: &[&OsStr]) -> usize {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let bytes = files.iter().try_fold(0u64, |all, name| Some(all + bytes_of(Path::new(name), 0)?));
    bytes.map_or(cores, |bytes| usize::try_from(1 + bytes / BYTES_PER_RANK).unwrap_or(cores).min(cores))
}

/// The size of a file, or of the files of a folder and of its folders.
fn bytes_of(path: &Path, depth: usize) -> Option<u64> {
    let data = std::fs::metadata(path).ok()?;
    if !data.is_dir() || depth > 1 {
        return Some(if data.is_dir() { 0 } else { data.len() });
    }
    let entries = std::fs::read_dir(path).ok()?.flatten();
    Some(entries.filter_map(|entry| bytes_of(&entry.path(), depth + 1)).fold(0, u64::saturating_add))
}

/// Makes the allocator of glibc keep memory of the size of array parts. It returns the free end of the heap to the kernel if that is
/// larger than twice the largest block that was unmapped so far (`M_TRIM_THRESHOLD` in mallopt(3)). Otherwise the two buffers of `compare`
/// would be returned and faulted in again for every part, which takes as long as the comparison.
fn keep_freed_memory() {
    const BLOCK: usize = 24 << 20;
    // Never written: it takes only address space.
    drop(std::hint::black_box(Vec::<u8>::with_capacity(BLOCK)));
}

/// The outcome of this rank, if no rank has failed; otherwise the error of the lowest rank that has. Collective.
pub(crate) fn agree<T>(world: &Comm, outcome: Result<T>) -> Result<T> {
    if world.size() == 1 {
        return outcome;
    }
    let mine = if outcome.is_err() { world.rank() as u64 } else { u64::MAX };
    let first = world.allreduce_one(Op::Min, mine)?;
    if first == u64::MAX {
        return outcome;
    }
    let message = match &outcome {
        Err(error) => {
            let mut message = vec![if crate::finding::is_damage(error) { DAMAGE } else { 0 }];
            message.extend(format!("{error:#}").bytes());
            message
        }
        Ok(_) => Vec::new(),
    };
    let message = world.broadcast_vec(first as usize, message)?;
    match outcome {
        Err(error) if first == world.rank() as u64 => Err(error),
        _ => {
            let text = String::from_utf8_lossy(message.get(1..).unwrap_or_default()).into_owned();
            Err(if message.first() == Some(&DAMAGE) { FormatMismatch(text).into() } else { anyhow!(text) })
        }
    }
}

/// Distributes items round-robin over the first `ranks` ranks. Rank 0 passes the results to `take`, in the order of the items. A rank holds
/// one result at a time. An error of one rank is an error of all. Collective.
pub(crate) fn in_order<T>(
    world: &Comm,
    ranks: usize,
    mut items: impl Iterator<Item = T>,
    mut work: impl FnMut(&T) -> Result<Vec<u8>>,
    mut take: impl FnMut(&T, Vec<u8>) -> Result<()>,
) -> Result<()> {
    if world.size() == 1 {
        return items.try_for_each(|item| take(&item, work(&item)?));
    }
    let mut taken = Ok(());
    loop {
        let round: Vec<T> = items.by_ref().take(ranks.clamp(1, world.size())).collect();
        let mine = round.get(world.rank()).map_or(Ok(Vec::new()), &mut work);
        let mine = agree(world, taken.and(mine))?;
        if round.is_empty() {
            return Ok(());
        }
        let results = world.gather_varied(0, &mine)?.unwrap_or_default();
        taken = round.iter().zip(results).try_for_each(|(item, result)| take(item, result));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_in_the_order_of_the_items() {
        for (ranks, workers) in [(1, 1), (3, 3), (4, 2), (2, 9)] {
            let taken = Launch::threads(ranks).run(|world| {
                let mut taken = Vec::new();
                let work = |item: &u8| Ok(vec![*item; usize::from(*item)]);
                let take = |item: &u8, result: Vec<u8>| {
                    assert_eq!(result, vec![*item; usize::from(*item)]);
                    taken.push(*item);
                    Ok(())
                };
                in_order(world, workers, 0..17, work, take).map_err(|error| error.to_string())?;
                Ok::<_, String>(taken)
            });
            assert_eq!(taken.unwrap()[0], (0..17).collect::<Vec<_>>(), "{ranks}");
        }
    }

    #[test]
    fn the_error_of_one_rank_is_the_error_of_all() {
        let messages = Launch::threads(3).run(|world| {
            let work = |item: &u8| if *item == 4 { Err(anyhow!("item 4")) } else { Ok(Vec::new()) };
            let failed = in_order(world, 3, 0..17u8, work, |_, _| Ok(())).unwrap_err();
            let refused = in_order(world, 3, 0..17u8, |_| Ok(Vec::new()), |_, _| Err(anyhow!("full")));
            let damaged = agree(
                world,
                if world.rank() == 2 { Err(FormatMismatch("bad".into()).into()) } else { Ok(()) },
            );
            let damaged = crate::finding::is_damage(&damaged.unwrap_err());
            Ok::<_, String>((failed.to_string(), refused.unwrap_err().to_string(), damaged))
        });
        for (failed, refused, damaged) in messages.unwrap() {
            assert!(failed == "item 4" && refused == "full" && damaged);
        }
    }

    #[test]
    fn small_files_are_read_by_one_rank() {
        assert_eq!(ranks_for(&[OsStr::new("/proc/self/status")]), 1);
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        assert_eq!(ranks_for(&[OsStr::new("tunnel:host/a")]), cores);
    }
}
