//! Samples of steps as an asynchronous output: one stream with the values of all ranks, which are stored in the datasets of k-Wave's output.

use std::sync::Arc;

use anyhow::Result;
use aqueduct::comm::{Comm, Op};
use aqueduct::formats::Selection;
use aqueduct::hdf5::{DatasetId, Hdf5File, Hdf5OpenOptions};
use aqueduct::stream::target::{ChunkSource, OutputTarget, StepBatch};
use aqueduct::stream::{self, Declaration, Options, Output, Stream, StreamKey, Streams};

use super::kwave_output::{SamplingPlan, dataset_shapes};
use super::mask_layout::MaskLayout;
use super::quantities::StoredForm;

/// Values of the stream that are a block of a dataset.
#[derive(Clone, Debug, PartialEq, Eq)]
struct SampleBlock {
    /// The number of the first of them in the stream.
    first: u64,
    /// The number of the dataset.
    dataset: usize,
    /// The block without the dimension of steps.
    start: Vec<u64>,
    count: Vec<u64>,
}

/// The raw quantities of a run as a stream.
pub struct SampleStream {
    output: Output,
    key: StreamKey<f32>,
}

/// The datasets of raw quantities: their paths, and whether steps are their second dimension.
#[derive(Clone, Debug)]
struct RawDatasets {
    paths: Vec<String>,
    leading: bool,
}

/// The blocks of all ranks, in the order of the stream, and how many values this rank has before and in it. Collective.
fn blocks(world: &Comm, plan: &SamplingPlan, layout: &MaskLayout) -> Result<(Vec<SampleBlock>, u64, u64)> {
    let raw = plan.quantities.iter().filter(|quantity| quantity.form == StoredForm::Raw).count();
    let regions = layout.regions.len();
    let dimensions = layout.regions.first().map_or(1, Vec::len);
    let mut mine = Vec::new();
    for quantity in 0..raw {
        for part in &layout.parts {
            mine.push((quantity * regions + part.region) as u64);
            mine.extend(part.start.iter().chain(&part.count));
        }
    }
    let values = (raw * layout.samples) as u64;
    let before = world.exclusive_scan_one(Op::Sum, values)?.unwrap_or(0);
    let (mut all, mut first) = (Vec::new(), 0);
    for list in world.allgather_varied(&mine)? {
        for entry in list.chunks_exact(1 + 2 * dimensions) {
            let (start, count) = entry[1..].split_at(dimensions);
            all.push(SampleBlock {
                first,
                dataset: entry[0] as usize,
                start: start.into(),
                count: count.into(),
            });
            first += count.iter().product::<u64>();
        }
    }
    Ok((all, before, values))
}

impl SampleStream {
    /// Begins the output of samples into the file of a plan from a row on; none if nothing is stored in every step. Collective.
    pub fn begin(
        world: &Comm,
        plan: &SamplingPlan,
        layout: &MaskLayout,
        shape: [u64; 3],
        options: &Options,
        row: u64,
    ) -> Result<Option<Self>> {
        let (blocks, before, values) = blocks(world, plan, layout)?;
        let total = blocks.last().map_or(0, |last| last.first + last.count.iter().product::<u64>());
        if total == 0 {
            return Ok(None);
        }
        let raw = plan.quantities.iter().filter(|quantity| quantity.form == StoredForm::Raw);
        let paths =
            raw.flat_map(|quantity| dataset_shapes(quantity, plan, layout, shape)).map(|(path, _)| path);
        let datasets = RawDatasets { paths: paths.collect(), leading: !layout.boxes };
        let mut streams = Streams::new();
        let key = streams.add::<f32>(Stream::array("samples", [total]).block([before], [values]));
        let name = plan.name.clone();
        let output = options.create_on(world, &plan.name, &streams, |comm, declared| {
            let file = Hdf5OpenOptions::new().writable().open(comm, &name)?;
            let ids = datasets.paths.iter().map(|path| file.dataset(path)).collect::<Result<Vec<_>, _>>()?;
            let (comm, declaration) = (comm.clone(), Arc::clone(declared));
            let (leading, compressed) = (datasets.leading, plan.compression > 0);
            Ok(Box::new(SampleTarget { comm, declaration, file, ids, blocks, row, leading, compressed }))
        })?;
        Ok(Some(Self { output, key }))
    }

    /// Passes the samples of a step, those of one quantity after another. Collective.
    pub fn put(&mut self, samples: &[f32]) -> Result<()> {
        self.output.step()?.put(self.key, samples).commit()?;
        Ok(())
    }

    /// Waits until all samples are durable. Collective.
    pub fn flush(&mut self) -> Result<()> {
        Ok(self.output.flush()?)
    }

    /// Waits until all samples are stored; the mode of the output, why it was chosen, and its bytes. Collective.
    pub fn finish(self) -> Result<String> {
        let report = self.output.finish()?;
        Ok(format!("{report}"))
    }
}

/// The file of k-Wave as a target.
struct SampleTarget {
    comm: Comm,
    declaration: Arc<Declaration>,
    file: Hdf5File,
    ids: Vec<DatasetId>,
    blocks: Vec<SampleBlock>,
    row: u64,
    leading: bool,
    compressed: bool,
}

/// The number of a dataset, start and shape of a block of it, and its bytes.
type PlacedSamples<'c> = (usize, Vec<u64>, Vec<u64>, &'c [u8]);

/// The parts of a block with these numbers: all of it, or pieces of rows.
fn pieces(block: &SampleBlock, from: u64, to: u64) -> Vec<(Vec<u64>, Vec<u64>)> {
    let volume: u64 = block.count.iter().product();
    if from == 0 && to == volume {
        return vec![(block.start.clone(), block.count.clone())];
    }
    let width = *block.count.last().unwrap_or(&1);
    let mut list = Vec::new();
    let mut at = from;
    while at < to {
        let end = to.min((at / width + 1) * width);
        let (mut start, mut row) = (block.start.clone(), at / width);
        let last = start.len() - 1;
        start[last] += at % width;
        for dimension in (0..last).rev() {
            start[dimension] += row % block.count[dimension];
            row /= block.count[dimension];
        }
        let mut count = vec![1; start.len()];
        count[last] = end - at;
        list.push((start, count));
        at = end;
    }
    list
}

impl SampleTarget {
    /// The blocks of the values `done..` of this rank, each with its bytes.
    fn placed<'c>(&self, done: u64, chunk: &'c [u8]) -> Vec<PlacedSamples<'c>> {
        let (mut list, mut rest, mut skipped) = (Vec::new(), chunk, done);
        for (_, part) in self.declaration.parts(0) {
            let length = part.count[0];
            let (mut at, end) = (part.start[0] + skipped.min(length), part.start[0] + length);
            skipped -= skipped.min(length);
            while at < end && !rest.is_empty() {
                let number = self.blocks.partition_point(|block| block.first <= at) - 1;
                let block = &self.blocks[number];
                let volume: u64 = block.count.iter().product();
                let to = end.min(block.first + volume).min(at + rest.len() as u64 / 4);
                for (start, count) in pieces(block, at - block.first, to - block.first) {
                    let (bytes, later) = rest.split_at(4 * count.iter().product::<u64>() as usize);
                    rest = later;
                    list.push((block.dataset, start, count, bytes));
                }
                at = to;
            }
        }
        list
    }
}

impl OutputTarget for SampleTarget {
    fn write(&mut self, batch: &StepBatch, source: &mut dyn ChunkSource) -> stream::Result<()> {
        let name = self.file.name().to_owned();
        let lost = |error: aqueduct::comm::Error| stream::Error::from_comm("write", &*name, &error);
        let rounds = self.comm.allreduce_one(Op::Max, source.chunks()).map_err(lost)?;
        let (row, mut done) = (self.row + batch.step, 0);
        for _ in 0..rounds {
            let chunk = source.next();
            let failed = self.comm.allreduce_one(Op::Max, u8::from(chunk.is_err())).map_err(lost)?;
            let chunk = chunk?;
            if failed > 0 {
                let detail = "another rank has no data of this step";
                return Err(stream::Error::new(stream::Kind::Communication, "write", &*name, detail));
            }
            let mut queue = self.file.queue();
            for (dataset, start, count, bytes) in self.placed(done, chunk) {
                let outer: &[u64] = if self.leading { &[0, row] } else { &[row] };
                let (start, count) = ([outer, &start].concat(), [&vec![1; outer.len()][..], &count].concat());
                queue.put_bytes(self.ids[dataset], Selection::block(start, count), bytes);
            }
            done += chunk.len() as u64 / 4;
            queue.run_all()?;
        }
        Ok(())
    }

    fn is_persistent(&self) -> bool {
        self.file.is_persistent()
    }

    fn sync(&mut self) -> stream::Result<()> {
        // The marks of datasets are set when the file is complete; only new chunks have to be committed before.
        if self.compressed { self.file.commit() } else { self.file.sync() }
    }

    fn finish(mut self: Box<Self>, _steps: u64) -> stream::Result<()> {
        self.sync()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_of_a_block_is_pieces_of_its_rows() {
        let block = SampleBlock { first: 0, dataset: 0, start: vec![5, 2, 1], count: vec![2, 2, 3] };
        assert_eq!(pieces(&block, 0, 12), [(vec![5, 2, 1], vec![2, 2, 3])]);
        let expected =
            [(vec![5, 3, 2], vec![1, 1, 2]), (vec![6, 2, 1], vec![1, 1, 3]), (vec![6, 3, 1], vec![1, 1, 1])];
        assert_eq!(pieces(&block, 4, 10), expected);
    }
}
