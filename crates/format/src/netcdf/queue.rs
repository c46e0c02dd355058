//! Queues: many accesses, done as one.

use std::ops::Range;

use super::cut::Cut;
use super::dataset::Dataset;
use super::header::VariableId;
use super::value::{Raw, RawMut, Value};
use crate::combine::{Combined, Share};
use crate::error::Result;
use crate::slab::Slab;
use aqueduct_file::{Source, View};

/// Accesses that wait to be done as one: however many variables they are to, the file layer sees one write and one read.
///
/// Values are borrowed until then. Writes are done before reads; where they overlap, the last one queued counts.
///
/// ```
/// # use aqueduct_comm::Launch;
/// # use aqueduct_format::netcdf::{Create, Slab, Type};
/// # Launch::threads(2).run(|world| {
/// # let mut dataset = Create::new().replace().create(world, "memfs:queued.nc")?;
/// # let variables = dataset.define(|file| {
/// #     let x = file.dimension("x", 8)?;
/// #     (0..3).map(|number| file.variable(&format!("v{number}"), Type::Double, &[x])).collect::<Result<Vec<_>, _>>()
/// # })?;
/// let mine = 4 * world.rank() as u64;
/// let values = [[0.5f64; 4], [1.5; 4], [2.5; 4]];
/// let mut queue = dataset.queue();
/// for (variable, values) in variables.iter().zip(&values) {
///     queue.put(*variable, mine..mine + 4, values);
/// }
/// queue.run_all()?;
/// # assert_eq!(dataset.at(variables[2], Slab::whole()).all().read_vec::<f64>()?, [2.5; 8]);
/// # dataset.close()
/// # })?;
/// # Ok::<(), aqueduct_comm::Error>(())
/// ```
#[doc(alias = "ncmpi_wait_all")]
#[must_use = "nothing is accessed before `run` or `run_all`"]
pub struct Queue<'q> {
    dataset: &'q Dataset,
    puts: Vec<(Cut, Raw<'q>)>,
    gets: Vec<(Cut, RawMut<'q>)>,
    /// The first access that cannot be: kept for the run, where all ranks learn of it.
    failed: Result<()>,
}

impl Dataset {
    /// A queue of accesses.
    pub fn queue(&self) -> Queue<'_> {
        Queue { dataset: self, puts: Vec::new(), gets: Vec::new(), failed: Ok(()) }
    }
}

impl<'q> Queue<'q> {
    /// Queues writing values to a part of a variable. One that cannot be fails the run.
    #[doc(alias = "ncmpi_iput_vara")]
    pub fn put<T: Value>(
        &mut self,
        variable: VariableId,
        slab: impl Into<Slab>,
        values: &'q [T],
    ) -> &mut Self {
        match self.dataset.cut::<T>("write", variable, &slab.into(), true, values.len()) {
            Ok(cut) => self.puts.push((cut, values.into())),
            Err(error) => self.failed = self.failed.clone().and(Err(error)),
        }
        self
    }

    /// Queues filling values from a part of a variable. One that cannot be fails the run.
    #[doc(alias = "ncmpi_iget_vara")]
    pub fn get<T: Value>(
        &mut self,
        variable: VariableId,
        slab: impl Into<Slab>,
        values: &'q mut [T],
    ) -> &mut Self {
        match self.dataset.cut::<T>("read", variable, &slab.into(), false, values.len()) {
            Ok(cut) => self.gets.push((cut, values.into())),
            Err(error) => self.failed = self.failed.clone().and(Err(error)),
        }
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
            self.source(combined, |source| self.dataset.core.file.through(view).write(source))?;
            self.dataset.note(plan.records);
        }
        let Some((view, combined)) = &plan.gets else { return Ok(()) };
        let mut bytes = vec![0; combined.bytes as usize];
        let count = self.dataset.core.file.through(view).read(&mut bytes)?.bytes();
        self.dataset.complete(&mut bytes, count)?;
        self.scatter(combined, &bytes);
        Ok(())
    }

    /// Does the accesses of all ranks as one collective write and one collective read. Collective; a rank may have nothing to do.
    pub fn run_all(mut self) -> Result<()> {
        let plan = self.plan();
        let records = plan.as_ref().map_or(0, |plan| plan.records);
        let numbers = [records, (!self.puts.is_empty()).into(), (!self.gets.is_empty()).into()];
        let (plan, [records, puts, gets]) = self.dataset.meet("queue", plan, numbers)?;
        let nothing = View::default();
        if puts > 0 {
            let file = &self.dataset.core.file;
            match &plan.puts {
                Some((view, combined)) => {
                    self.source(combined, |source| file.through(view).all().write(source))?
                }
                None => file.through(&nothing).all().write(&[0u8; 0])?,
            };
            self.dataset.note(records);
        }
        if gets > 0 {
            let mut bytes = vec![0; plan.gets.as_ref().map_or(0, |(_, combined)| combined.bytes) as usize];
            let view = plan.gets.as_ref().map_or(&nothing, |(view, _)| view);
            let count = self.dataset.core.file.through(view).all().read(&mut bytes)?.bytes();
            self.dataset.core.agree("queue", self.dataset.complete(&mut bytes, count))?;
            if let Some((_, combined)) = &plan.gets {
                self.scatter(combined, &bytes);
            }
        }
        Ok(())
    }

    fn plan(&mut self) -> Result<Plan> {
        std::mem::replace(&mut self.failed, Ok(()))?;
        let (puts, gets) = (self.puts.iter().map(|(cut, _)| cut), self.gets.iter().map(|(cut, _)| cut));
        Ok(Plan {
            records: puts.clone().map(|cut| cut.records).max().unwrap_or(0),
            puts: self.dataset.combined("write", puts)?,
            gets: self.dataset.combined("read", gets)?,
        })
    }

    /// Hands over the values of all writes, in the order of the file: as they are wanted, unless some are to overwrite others.
    fn source<R>(&self, combined: &Combined, write: impl FnOnce(Source<'_>) -> R) -> R {
        if combined.is_ordered() {
            let make = |from: u64, out: &mut [u8]| {
                for (item, bytes, at) in combined.within(from..from + out.len() as u64) {
                    let length = (bytes.end - bytes.start) as usize;
                    let bytes = bytes.start as usize..bytes.end as usize;
                    self.puts[item].1.store(bytes, &mut out[at..at + length]);
                }
            };
            return write(Source::made(combined.bytes, &make));
        }
        let mut bytes = vec![0; combined.bytes as usize];
        for share in &combined.shares {
            self.puts[share.item].1.store(item_bytes(share), &mut bytes[place(share)]);
        }
        write(Source::from(&bytes))
    }

    /// Gives all reads their values.
    fn scatter(&mut self, combined: &Combined, bytes: &[u8]) {
        for share in &combined.shares {
            self.gets[share.item].1.load(item_bytes(share), &bytes[place(share)]);
        }
    }
}

/// What a queue means for the file.
struct Plan {
    records: u64,
    puts: Option<(View, Combined)>,
    gets: Option<(View, Combined)>,
}

fn item_bytes(share: &Share) -> Range<usize> {
    share.bytes.start as usize..share.bytes.end as usize
}

fn place(share: &Share) -> Range<usize> {
    share.at as usize..(share.at + share.bytes.end - share.bytes.start) as usize
}
