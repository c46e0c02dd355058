//! Targets that store nothing: somebody watches what comes.

use aqueduct_stream::Error;
use aqueduct_stream::target::{ChunkSource, OutputTarget, StepBatch};

/// Takes all bytes of a parcel, and then calls this.
pub(crate) struct Watched<F>(pub(crate) F);

impl<F: FnMut(&StepBatch) + Send> OutputTarget for Watched<F> {
    fn write(&mut self, parcel: &StepBatch, supply: &mut dyn ChunkSource) -> Result<(), Error> {
        while !supply.next()?.is_empty() {}
        (self.0)(parcel);
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

/// A target that must be on this processor alone.
pub(crate) fn stays_on(cpu: usize) -> Box<dyn OutputTarget> {
    Box::new(Watched(move |_: &StepBatch| {
        let allowed = rustix::thread::sched_getaffinity(None).unwrap();
        assert!(allowed.is_set(cpu) && allowed.count() == 1);
    }))
}
