//! Queues: many accesses, done as one.

use std::ops::Range;

use super::file::NetcdfFile;
use super::header::VariableId;
use super::slab_bytes::SlabBytes;
use super::value::{NetcdfValue, RawValues, RawValuesMut};
use crate::error::Result;
use crate::merge::{MergedPart, MergedRegions};
use crate::selection::Selection;
use aqueduct_file::{Source, View};

/// Accesses that wait to be done as one: however many variables they are to, the file layer sees one write and one read.
///
/// Values are borrowed until then. Writes are done before reads; where they overlap, the last one queued counts.
///
/// ```
/// # use aqueduct_comm::Launch;
/// # use aqueduct_formats::netcdf::{NetcdfCreateOptions, Selection, NcType};
/// # Launch::threads(2).run(|world| {
/// # let mut dataset = NetcdfCreateOptions::new().replace().create(world, "memfs:queued.nc")?;
/// # let variables = dataset.define(|file| {
/// #     let x = file.dimension("x", 8)?;
/// #     (0..3).map(|number| file.variable(&format!("v{number}"), NcType::Double, &[x])).collect::<Result<Vec<_>, _>>()
/// # })?;
/// let mine = 4 * world.rank() as u64;
/// let values = [[0.5f64; 4], [1.5; 4], [2.5; 4]];
/// let mut queue = dataset.queue();
/// for (variable, values) in variables.iter().zip(&values) {
///     queue.put(*variable, mine..mine + 4, values);
/// }
/// queue.run_all()?;
/// # assert_eq!(dataset.at(variables[2], Selection::whole()).all().read_vec::<f64>()?, [2.5; 8]);
/// # dataset.close()
/// # })?;
/// # Ok::<(), aqueduct_comm::Error>(())
/// ```
#[doc(alias = "ncmpi_wait_all")]
#[must_use = "nothing is accessed before `run` or `run_all`"]
pub struct NetcdfQueue<'q> {
    file: &'q NetcdfFile,
    puts: Vec<(SlabBytes, RawValues<'q>)>,
    gets: Vec<(SlabBytes, RawValuesMut<'q>)>,
    /// The first access that cannot be: kept for the run, where all ranks learn of it.
    failed: Result<()>,
}

impl NetcdfFile {
    /// A queue of accesses.
    pub fn queue(&self) -> NetcdfQueue<'_> {
        NetcdfQueue { file: self, puts: Vec::new(), gets: Vec::new(), failed: Ok(()) }
    }
}

impl<'q> NetcdfQueue<'q> {
    /// Queues writing values to a part of a variable. One that cannot be fails the run.
    #[doc(alias = "ncmpi_iput_vara")]
    pub fn put<T: NetcdfValue>(
        &mut self,
        variable: VariableId,
        slab: impl Into<Selection>,
        values: &'q [T],
    ) -> &mut Self {
        match self.file.resolve_access::<T>("write", variable, &slab.into(), true, values.len().into()) {
            Ok(cut) => self.puts.push((cut, values.into())),
            Err(error) => self.failed = self.failed.clone().and(Err(error)),
        }
        self
    }

    /// Queues filling values from a part of a variable. One that cannot be fails the run.
    #[doc(alias = "ncmpi_iget_vara")]
    pub fn get<T: NetcdfValue>(
        &mut self,
        variable: VariableId,
        slab: impl Into<Selection>,
        values: &'q mut [T],
    ) -> &mut Self {
        match self.file.resolve_access::<T>("read", variable, &slab.into(), false, values.len().into()) {
            Ok(cut) => self.gets.push((cut, values.into())),
            Err(error) => self.failed = self.failed.clone().and(Err(error)),
        }
        self
    }

    /// As [`put`](NetcdfQueue::put), of values as bytes: of the [type](super::Variable::kind) of the variable, in the byte order of
    /// the machine. They need not be aligned.
    ///
    /// ```
    /// # use aqueduct_comm::Launch;
    /// # use aqueduct_formats::netcdf::{NcType, NetcdfCreateOptions, Selection};
    /// # Launch::threads(2).run(|world| {
    /// # let mut file = NetcdfCreateOptions::new().replace().create(world, "memfs:bytes.nc")?;
    /// # let height = file.define(|file| {
    /// #     let x = file.dimension("x", 4)?;
    /// #     file.variable("height", NcType::Short, &[x])
    /// # })?;
    /// let first = 2 * world.rank() as u64;
    /// let values = [7i16, -7].map(i16::to_ne_bytes).concat();
    /// let mut queue = file.queue();
    /// queue.put_bytes(height, first..first + 2, &values);
    /// queue.run_all()?;
    /// let mut all = [0; 8];
    /// let mut queue = file.queue();
    /// queue.get_bytes(height, Selection::whole(), &mut all);
    /// queue.run_all()?;
    /// assert_eq!(all, [7i16, -7, 7, -7].map(i16::to_ne_bytes).concat()[..]);
    /// # file.close()
    /// # })?;
    /// # Ok::<(), aqueduct_comm::Error>(())
    /// ```
    pub fn put_bytes(
        &mut self,
        variable: VariableId,
        slab: impl Into<Selection>,
        bytes: &'q [u8],
    ) -> &mut Self {
        match self.file.resolve_bytes("write", variable, &slab.into(), true, bytes.len()) {
            Ok((cut, width)) => self.puts.push((cut, RawValues::of_width(bytes, width))),
            Err(error) => self.failed = self.failed.clone().and(Err(error)),
        }
        self
    }

    /// As [`get`](NetcdfQueue::get), of values as bytes, as [`put_bytes`](NetcdfQueue::put_bytes) has them.
    pub fn get_bytes(
        &mut self,
        variable: VariableId,
        slab: impl Into<Selection>,
        bytes: &'q mut [u8],
    ) -> &mut Self {
        match self.file.resolve_bytes("read", variable, &slab.into(), false, bytes.len()) {
            Ok((cut, width)) => self.gets.push((cut, RawValuesMut::of_width(bytes, width))),
            Err(error) => self.failed = self.failed.clone().and(Err(error)),
        }
        self
    }

    /// Queues an access that cannot be, for this reason: the run fails, on all ranks if it is collective.
    pub fn fail(&mut self, error: crate::Error) -> &mut Self {
        self.failed = self.failed.clone().and(Err(error));
        self
    }

    /// How many accesses wait.
    pub fn len(&self) -> usize {
        self.puts.len() + self.gets.len()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Does all accesses, for this rank alone.
    pub fn run(mut self) -> Result<()> {
        let plan = self.plan()?;
        if let Some((view, combined)) = &plan.puts {
            self.source(combined, |source| self.file.core.file.with_view(view).write(source))?;
            self.file.note_records(plan.records);
        }
        let Some((view, combined)) = &plan.gets else { return Ok(()) };
        let mut bytes = vec![0; combined.bytes as usize];
        let count = self.file.core.file.with_view(view).read(&mut bytes)?.bytes();
        self.file.zero_unread(&mut bytes, count)?;
        self.scatter(combined, &bytes);
        Ok(())
    }

    /// Does the accesses of all ranks as one collective write and one collective read. Collective; a rank may have nothing to do.
    pub fn run_all(mut self) -> Result<()> {
        let plan = self.plan();
        let records = plan.as_ref().map_or(0, |plan| plan.records);
        let numbers = [records, (!self.puts.is_empty()).into(), (!self.gets.is_empty()).into()];
        let (plan, [records, puts, gets]) = self.file.agree_with_max("queue", plan, numbers)?;
        let nothing = View::default();
        if puts > 0 {
            let file = &self.file.core.file;
            match &plan.puts {
                Some((view, combined)) => {
                    self.source(combined, |source| file.with_view(view).all().write(source))?
                }
                None => file.with_view(&nothing).all().write(&[0u8; 0])?,
            };
            self.file.note_records(records);
        }
        if gets > 0 {
            let mut bytes = vec![0; plan.gets.as_ref().map_or(0, |(_, combined)| combined.bytes) as usize];
            let view = plan.gets.as_ref().map_or(&nothing, |(view, _)| view);
            let count = self.file.core.file.with_view(view).all().read(&mut bytes)?.bytes();
            self.file.core.agree("queue", self.file.zero_unread(&mut bytes, count))?;
            if let Some((_, combined)) = &plan.gets {
                self.scatter(combined, &bytes);
            }
        }
        Ok(())
    }

    fn plan(&mut self) -> Result<QueuePlan> {
        std::mem::replace(&mut self.failed, Ok(()))?;
        let (puts, gets) = (self.puts.iter().map(|(cut, _)| cut), self.gets.iter().map(|(cut, _)| cut));
        Ok(QueuePlan {
            records: puts.clone().map(|cut| cut.records).max().unwrap_or(0),
            puts: self.file.merged_view("write", puts)?,
            gets: self.file.merged_view("read", gets)?,
        })
    }

    /// Hands over the values of all writes, in the order of the file: as they are wanted, unless some are to overwrite others.
    fn source<R>(&self, combined: &MergedRegions, write: impl FnOnce(Source<'_>) -> R) -> R {
        if combined.is_ordered() {
            let make = |from: u64, out: &mut [u8]| {
                for (item, bytes, at) in combined.parts_within(from..from + out.len() as u64) {
                    let length = (bytes.end - bytes.start) as usize;
                    let bytes = bytes.start as usize..bytes.end as usize;
                    self.puts[item].1.store(bytes, &mut out[at..at + length]);
                }
            };
            return write(Source::generated(combined.bytes, &make));
        }
        let mut bytes = vec![0; combined.bytes as usize];
        for share in &combined.shares {
            self.puts[share.item].1.store(item_bytes(share), &mut bytes[place(share)]);
        }
        write(Source::from(&bytes))
    }

    /// Gives all reads their values.
    fn scatter(&mut self, combined: &MergedRegions, bytes: &[u8]) {
        for share in &combined.shares {
            self.gets[share.item].1.load(item_bytes(share), &bytes[place(share)]);
        }
    }
}

/// What a queue means for the file.
struct QueuePlan {
    records: u64,
    puts: Option<(View, MergedRegions)>,
    gets: Option<(View, MergedRegions)>,
}

fn item_bytes(share: &MergedPart) -> Range<usize> {
    share.bytes.start as usize..share.bytes.end as usize
}

fn place(share: &MergedPart) -> Range<usize> {
    share.at as usize..(share.at + share.bytes.end - share.bytes.start) as usize
}
