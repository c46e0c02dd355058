//! Windows of a parcel, put together by one thread while another writes those before.

use std::panic::resume_unwind;
use std::sync::mpsc::{Receiver, Sender, channel};

use crate::error::{Error, Kind, Result};
use crate::target::{ChunkSource, OutputTarget, StepBatch};

/// How a parcel is handed on in windows.
pub(crate) struct DoubleBuffer<'a> {
    pub(crate) batch: &'a StepBatch,
    /// How many windows there are.
    pub(crate) windows: u64,
    /// Whether another thread may write.
    pub(crate) threads: bool,
    /// Memory for two windows, kept from parcel to parcel.
    pub(crate) buffers: &'a mut [Vec<u8>; 2],
}

impl DoubleBuffer<'_> {
    /// Hands on what `fill` puts together, window by window, to the target. One window needs no second thread.
    pub(crate) fn run(
        self,
        target: &mut dyn OutputTarget,
        mut fill: impl FnMut(&mut Vec<u8>) -> Result<()>,
    ) -> Result<()> {
        let Self { batch: parcel, windows, threads, buffers } = self;
        if windows < 2 || !threads {
            let mut direct = InlineWindowSource { fill, windows, given: 0, buffer: &mut buffers[0] };
            return target.write(parcel, &mut direct);
        }
        let ((pass, passed), (free, freed)) = (channel(), channel());
        buffers.iter_mut().for_each(|buffer| _ = free.send(std::mem::take(buffer)));
        std::thread::scope(|scope| {
            let writer = scope.spawn(move || {
                aqueduct_comm::forbid_mpi_on_thread();
                let mut relayed = ThreadedWindowSource { passed, free, windows, given: 0, current: None };
                let outcome = target.write(parcel, &mut relayed);
                relayed.let_go();
                outcome
            });
            for _ in 0..windows {
                // Whoever writes may have given up.
                let Ok(mut buffer) = freed.recv() else { break };
                let filled = fill(&mut buffer).map(|()| buffer);
                let failed = filled.is_err();
                if pass.send(filled).is_err() || failed {
                    break;
                }
            }
            drop(pass);
            let outcome = writer.join().unwrap_or_else(|panic| resume_unwind(panic));
            buffers.iter_mut().zip(freed.try_iter()).for_each(|(kept, buffer)| *kept = buffer);
            outcome
        })
    }
}

/// Windows put together as they are asked for.
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

/// Windows as they come from the other thread.
struct ThreadedWindowSource {
    passed: Receiver<Result<Vec<u8>>>,
    free: Sender<Vec<u8>>,
    windows: u64,
    given: u64,
    /// The one that is being written.
    current: Option<Vec<u8>>,
}

impl ThreadedWindowSource {
    fn let_go(&mut self) {
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
        self.let_go();
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
    use super::*;

    /// Keeps what it gets, up to a number of windows.
    struct Keeps(Vec<u8>, u64);

    impl OutputTarget for Keeps {
        fn write(&mut self, _parcel: &StepBatch, supply: &mut dyn ChunkSource) -> Result<()> {
            for number in 0..supply.chunks() {
                if number == self.1 {
                    return Err(Error::new(Kind::NoSpace, "write", "kept", "full"));
                }
                self.0.extend_from_slice(supply.next()?);
            }
            assert!(supply.next()?.is_empty());
            Ok(())
        }

        fn sync(&mut self) -> Result<()> {
            Ok(())
        }

        fn finish(self: Box<Self>, _steps: u64) -> Result<()> {
            Ok(())
        }
    }

    /// Relays windows 0, 1, 2 …; filling the one of this number fails. What was kept, how many were filled, and the outcome.
    fn relay(windows: u64, threads: bool, most: u64, bad: u64) -> (Vec<u8>, u64, Result<()>) {
        let parcel = StepBatch { step: 0, closing: false, entries: Vec::new() };
        let (mut target, mut buffers, mut filled) = (Keeps(Vec::new(), most), [Vec::new(), Vec::new()], 0);
        let relay = DoubleBuffer { batch: &parcel, windows, threads, buffers: &mut buffers };
        let outcome = relay.run(&mut target, |buffer| {
            if filled == bad {
                return Err(Error::new(Kind::BadArgument, "fill", "a window", "bad"));
            }
            buffer.clear();
            buffer.extend([filled as u8; 3]);
            filled += 1;
            Ok(())
        });
        (target.0, filled, outcome)
    }

    #[test]
    fn windows_come_in_order_and_failures_end_both_sides() {
        for threads in [false, true] {
            for windows in 0..6 {
                let (kept, filled, outcome) = relay(windows, threads, u64::MAX, u64::MAX);
                let expected: Vec<u8> = (0..windows as u8).flat_map(|number| [number; 3]).collect();
                assert!(outcome.is_ok() && kept == expected && filled == windows);
                for stop in 0..windows {
                    let (kept, _, outcome) = relay(windows, threads, stop, u64::MAX);
                    assert_eq!((kept.len() as u64, outcome.unwrap_err().detail()), (3 * stop, "full"));
                    let (kept, _, outcome) = relay(windows, threads, u64::MAX, stop);
                    assert_eq!((kept.len() as u64, outcome.unwrap_err().detail()), (3 * stop, "bad"));
                }
            }
        }
    }
}
