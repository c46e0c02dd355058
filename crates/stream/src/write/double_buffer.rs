//! Double buffering: windows of a batch are assembled by one thread while another one writes those before.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use aqueduct_file::write_behind::{BackgroundQueue, catch_panic};

use crate::error::{Error, Kind, Result};
use crate::target::{ChunkSource, OutputTarget, StepBatch};

/// Memory for two windows, and the thread that writes one of them.
pub(crate) struct DoubleBuffer {
    buffers: [Vec<u8>; 2],
    writer: BackgroundQueue,
}

impl DoubleBuffer {
    pub(crate) fn new() -> Self {
        Self { buffers: Default::default(), writer: BackgroundQueue::new("aqueduct window") }
    }

    /// Writes the windows that `fill` assembles; with `threads`, on a thread of its own if there are several. A target
    /// that panics is dropped.
    pub(crate) fn run(
        &mut self,
        target: &mut Option<Box<dyn OutputTarget>>,
        batch: &StepBatch,
        (windows, threads): (u64, bool),
        mut fill: impl FnMut(&mut Vec<u8>) -> Result<()>,
    ) -> Result<()> {
        let failed = |detail: &str| Error::new(Kind::Unsupported, "write", "the output", detail);
        let Some(mut owned) = target.take() else { return Err(failed("the output has ended")) };
        if windows < 2 || !threads {
            let mut direct = InlineWindowSource { fill, windows, given: 0, buffer: &mut self.buffers[0] };
            return target.insert(owned).write(batch, &mut direct);
        }
        let ((pass, passed), (free, freed)) = (channel(), channel());
        self.buffers.iter_mut().for_each(|buffer| _ = free.send(std::mem::take(buffer)));
        let (sender, outcome) = channel();
        let batch = Arc::new(batch.clone());
        self.writer
            .submit(move |_| {
                let mut source = ThreadedWindowSource { passed, free, windows, given: 0, current: None };
                let outcome = catch_panic(|| {
                    let outcome = owned.write(&batch, &mut source);
                    (owned, outcome)
                });
                source.release();
                drop(source);
                let _ = sender.send(outcome);
            })
            .map_err(|error| failed(&format!("no thread could be started: {error}")))?;
        for _ in 0..windows {
            // The writer may have failed.
            let Ok(mut buffer) = freed.recv() else { break };
            let filled = fill(&mut buffer).map(|()| buffer);
            let failed = filled.is_err();
            if pass.send(filled).is_err() || failed {
                break;
            }
        }
        drop(pass);
        let outcome = outcome.recv().unwrap_or(Err("the thread that writes has ended"));
        self.buffers.iter_mut().zip(freed.try_iter()).for_each(|(kept, buffer)| *kept = buffer);
        let (owned, outcome) = outcome.map_err(failed)?;
        *target = Some(owned);
        outcome
    }
}

/// Windows that are assembled when they are requested.
struct InlineWindowSource<'a, F> {
    fill: F,
    windows: u64,
    given: u64,
    buffer: &'a mut Vec<u8>,
}

impl<F: FnMut(&mut Vec<u8>) -> Result<()>> ChunkSource for InlineWindowSource<'_, F> {
    fn chunks(&self) -> u64 {
        self.windows
    }

    fn next(&mut self) -> Result<&[u8]> {
        if self.given == self.windows {
            return Ok(&[]);
        }
        self.given += 1;
        (self.fill)(self.buffer)?;
        Ok(self.buffer)
    }

    fn current(&self) -> &[u8] {
        if self.given == 0 { &[] } else { self.buffer }
    }
}

/// Windows that the other thread has assembled.
struct ThreadedWindowSource {
    passed: Receiver<Result<Vec<u8>>>,
    free: Sender<Vec<u8>>,
    windows: u64,
    given: u64,
    /// The window that is being written.
    current: Option<Vec<u8>>,
}

impl ThreadedWindowSource {
    fn release(&mut self) {
        if let Some(buffer) = self.current.take() {
            let _ = self.free.send(buffer);
        }
    }
}

impl ChunkSource for ThreadedWindowSource {
    fn chunks(&self) -> u64 {
        self.windows
    }

    fn next(&mut self) -> Result<&[u8]> {
        self.release();
        if self.given == self.windows {
            return Ok(&[]);
        }
        self.given += 1;
        let missing =
            || Error::new(Kind::Incomplete, "write", "the output", "a window of the step is missing");
        let window = self.passed.recv().unwrap_or_else(|_| Err(missing()))?;
        Ok(self.current.insert(window))
    }

    fn current(&self) -> &[u8] {
        self.current.as_deref().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// Stores a limited number of windows.
    struct LimitedTarget(Arc<Mutex<Vec<u8>>>, u64);

    impl OutputTarget for LimitedTarget {
        fn write(&mut self, _batch: &StepBatch, source: &mut dyn ChunkSource) -> Result<()> {
            for number in 0..source.chunks() {
                if number == self.1 {
                    return Err(Error::new(Kind::NoSpace, "write", "the target", "full"));
                }
                let window = source.next()?.to_vec();
                self.0.lock().unwrap().extend(window);
            }
            assert!(source.next()?.is_empty());
            Ok(())
        }

        fn sync(&mut self) -> Result<()> {
            Ok(())
        }

        fn finish(self: Box<Self>, _steps: u64) -> Result<()> {
            Ok(())
        }
    }

    /// Writes windows 0, 1, 2 …; filling the one of the number `bad` fails. The stored bytes, the number of filled windows, and
    /// the outcome.
    fn write_windows(windows: u64, threads: bool, most: u64, bad: u64) -> (Vec<u8>, u64, Result<()>) {
        let batch = StepBatch { step: 0, closing: false, entries: Vec::new() };
        let (stored, mut filled) = (Arc::default(), 0);
        let mut target = Some(Box::new(LimitedTarget(Arc::clone(&stored), most)) as Box<dyn OutputTarget>);
        let outcome = DoubleBuffer::new().run(&mut target, &batch, (windows, threads), |buffer| {
            if filled == bad {
                return Err(Error::new(Kind::BadArgument, "fill", "a window", "bad"));
            }
            buffer.clear();
            buffer.extend([filled as u8; 3]);
            filled += 1;
            Ok(())
        });
        assert!(target.is_some());
        let stored = stored.lock().unwrap().clone();
        (stored, filled, outcome)
    }

    #[test]
    fn windows_are_written_in_order_and_failures_end_both_threads() {
        for threads in [false, true] {
            for windows in 0..6 {
                let (kept, filled, outcome) = write_windows(windows, threads, u64::MAX, u64::MAX);
                let expected: Vec<u8> = (0..windows as u8).flat_map(|number| [number; 3]).collect();
                assert!(outcome.is_ok() && kept == expected && filled == windows);
                for stop in 0..windows {
                    let (kept, _, outcome) = write_windows(windows, threads, stop, u64::MAX);
                    assert_eq!((kept.len() as u64, outcome.unwrap_err().detail()), (3 * stop, "full"));
                    let (kept, _, outcome) = write_windows(windows, threads, u64::MAX, stop);
                    assert_eq!((kept.len() as u64, outcome.unwrap_err().detail()), (3 * stop, "bad"));
                }
            }
        }
    }
}
