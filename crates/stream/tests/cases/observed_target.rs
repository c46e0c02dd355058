//! Targets that store nothing and observe their calls.

use aqueduct_stream::Error;
use aqueduct_stream::target::{ChunkSource, OutputTarget, StepBatch};

/// Receives all bytes of a batch, and then calls this.
pub(crate) struct ObservedTarget<F>(pub(crate) F);

impl<F: FnMut(&StepBatch) + Send> OutputTarget for ObservedTarget<F> {
    fn write(&mut self, batch: &StepBatch, source: &mut dyn ChunkSource) -> Result<(), Error> {
        while !source.next()?.is_empty() {}
        (self.0)(batch);
        Ok(())
    }

    fn sync(&mut self) -> Result<(), Error> {
        Ok(())
    }

    fn finish(self: Box<Self>, _steps: u64) -> Result<(), Error> {
        Ok(())
    }
}

/// A processor that this process may use.
pub(crate) fn processor() -> usize {
    let allowed = rustix::thread::sched_getaffinity(None).unwrap();
    (0..rustix::thread::CpuSet::MAX_CPU).find(|cpu| allowed.is_set(*cpu)).unwrap()
}

/// A target that must run on this processor.
pub(crate) fn stays_on(cpu: usize) -> Box<dyn OutputTarget> {
    Box::new(ObservedTarget(move |_: &StepBatch| {
        let allowed = rustix::thread::sched_getaffinity(None).unwrap();
        assert!(allowed.is_set(cpu) && allowed.count() == 1);
    }))
}
