//! Heat conduction on a square grid: a time-stepping program with streams, checkpoints and restart.
//!
//! ```sh
//! cargo run --release --example simulation -- results 1000    # 1000 steps; killed at any moment …
//! AQUEDUCT_RANKS=3 cargo run --release --example simulation -- results 1000    # … continued on 3 ranks
//! ```

use std::ops::Range;

use aqueduct::Error;
use aqueduct::comm::SendRequest;
use aqueduct::prelude::*;
use aqueduct::stream::Options;

/// Rows and columns of the grid.
const N: u64 = 48;

/// Steps between two checkpoints.
const CHECKPOINT_INTERVAL: u64 = 20;

/// The rows of this rank, with one row of each neighbour before and after them.
struct Grid {
    rows: Range<u64>,
    values: Vec<f64>,
}

impl Grid {
    /// Cold, with a hot first row of the whole grid.
    fn new(rows: Range<u64>) -> Self {
        let mut values = vec![0.0; ((rows.end - rows.start + 2) * N) as usize];
        if rows.start == 0 {
            values[N as usize..2 * N as usize].fill(100.0);
        }
        Self { rows, values }
    }

    /// The rows of this rank, without those of the neighbours.
    fn own_rows(&mut self) -> &mut [f64] {
        let end = self.values.len() - N as usize;
        &mut self.values[N as usize..end]
    }

    /// Receives the adjacent rows of the neighbours.
    fn exchange(&mut self, world: &Comm) -> Result<(), Error> {
        let (rank, last, n) = (world.rank(), world.size() - 1, N as usize);
        let end = self.values.len();
        let up = if rank > 0 {
            Some(world.start_send(rank - 1, 0, self.values[n..2 * n].to_vec())?)
        } else {
            None
        };
        let bottom = self.values[end - 2 * n..end - n].to_vec();
        let down = if rank < last { Some(world.start_send(rank + 1, 1, bottom)?) } else { None };
        if rank < last {
            world.receive_into(rank + 1, 0, &mut self.values[end - n..])?;
        }
        if rank > 0 {
            world.receive_into(rank - 1, 1, &mut self.values[..n])?;
        }
        up.into_iter().chain(down).try_for_each(SendRequest::wait)?;
        Ok(())
    }

    /// One explicit time step. The border of the grid keeps its temperature.
    fn advance(&mut self) {
        let (n, old) = (N as usize, self.values.clone());
        for row in self.rows.clone().filter(|row| (1..N - 1).contains(row)) {
            let start = (row - self.rows.start + 1) as usize * n;
            for at in start + 1..start + n - 1 {
                let neighbours = old[at - n] + old[at + n] + old[at - 1] + old[at + 1];
                self.values[at] = old[at] + 0.2 * (neighbours - 4.0 * old[at]);
            }
        }
    }
}

/// Runs until `steps` are done, from the newest checkpoint in `folder` on. The grid is distributed by rows over any number of ranks.
pub(crate) fn simulate(world: &Comm, folder: &str, steps: u64) -> Result<(), Error> {
    let (rank, size) = (world.rank() as u64, world.size() as u64);
    let mut grid = Grid::new(N * rank / size..N * (rank + 1) / size);
    let (start, count) = ([grid.rows.start, 0], [grid.rows.end - grid.rows.start, N]);
    let block = ArrayBlock::new([N, N], start, count);

    // Restart from the newest checkpoint that is whole, on any number of ranks.
    let mut store =
        Store::open_or_create(world, format!("{folder}/checkpoints"))?.retention(Retention::Last(2));
    let mut step = 0;
    if let Some(latest) = store.latest()? {
        step = latest.step();
        grid.own_rows().copy_from_slice(&latest.array::<f64>("temperature", &block)?);
    }

    // Each run has its own stream file, named by its first step: a restart keeps the steps before it.
    let mut streams = Streams::new();
    let temperature = streams.add::<f64>(Stream::array("temperature", [N, N]).block(start, count));
    let mut output =
        Options::new().replace().create(world, &format!("{folder}/from-{step}.stream"), &streams)?;
    while step < steps {
        grid.exchange(world)?;
        grid.advance();
        step += 1;
        // Written in the background. When commit returns, the grid belongs to the program again.
        output.step()?.put(temperature, grid.own_rows()).commit()?;
        if step % CHECKPOINT_INTERVAL == 0 {
            // The output is durable before the checkpoint that continues it.
            output.flush()?;
            let mut checkpoint = Checkpoint::new(step);
            checkpoint.array("temperature", &block, grid.own_rows());
            store.start(checkpoint)?;
            if world.rank() == 0 {
                println!("step {step}");
            }
        }
    }
    store.wait()?;
    output.finish()?;

    // The result as plain binary numbers: one shared file, each rank with its rows.
    let file = File::create(world, format!("{folder}/temperature.bin"))?;
    file.at(8 * N * grid.rows.start).all().write(&*grid.own_rows())?;
    file.sync()?;
    file.close()
}

fn main() -> Result<(), Error> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().unwrap_or_else(|| "results".to_owned());
    let steps = arguments.next().and_then(|steps| steps.parse().ok()).unwrap_or(1000);
    std::fs::create_dir_all(&folder).expect("the folder of the results can be created");
    aqueduct::run(|world| simulate(world, &folder, steps))?;
    Ok(())
}
