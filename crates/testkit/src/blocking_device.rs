//! A device whose writes block until they are released, to test the state before a write is complete without timing.

use std::ffi::OsStr;
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use aqueduct_device::{
    Capabilities, Device, DeviceOpenOptions, Handle, MemFs, Result, Segment, SegmentMut, SyncScope,
    register_device,
};

/// The polls of a blocked write before it proceeds anyway: a test that fails before the release still ends. A count, so that time
/// in which nothing runs does not matter.
const LOOKS: usize = 600;
const LOOK: Duration = Duration::from_millis(100);

/// Files in memory whose writes are blocked at first. They report to be persistent.
#[derive(Debug)]
pub struct BlockingDevice {
    files: MemFs,
    latch: Arc<WriteLatch>,
    writeback_ranges: Arc<Mutex<Vec<Range<u64>>>>,
}

#[derive(Debug, Default)]
struct WriteLatch {
    is_open: Mutex<bool>,
    change: Condvar,
}

impl BlockingDevice {
    /// Registers a device under a prefix: its files are `prefix:name`.
    ///
    /// # Panics
    /// If the prefix is registered.
    pub fn register(prefix: &str) -> Arc<Self> {
        let gate =
            Arc::new(Self { files: MemFs::new(), latch: Arc::default(), writeback_ranges: Arc::default() });
        register_device(prefix, Arc::clone(&gate) as Arc<dyn Device>).expect("the prefix is unused");
        gate
    }

    /// Releases all writes, now and later.
    pub fn open(&self) {
        self.latch.set(true);
    }

    /// The ranges passed to [`start_writeback`](Handle::start_writeback) since the last call.
    pub fn take_writeback_ranges(&self) -> Vec<Range<u64>> {
        std::mem::take(&mut self.writeback_ranges.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Blocks writes again.
    pub fn shut(&self) {
        self.latch.set(false);
    }
}

impl WriteLatch {
    fn set(&self, open: bool) {
        *self.is_open.lock().unwrap_or_else(PoisonError::into_inner) = open;
        self.change.notify_all();
    }

    fn pass(&self) {
        let mut open = self.is_open.lock().unwrap_or_else(PoisonError::into_inner);
        for _ in 0..LOOKS {
            if *open {
                return;
            }
            open = self.change.wait_timeout(open, LOOK).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Device for BlockingDevice {
    fn open(&self, name: &OsStr, options: &DeviceOpenOptions) -> Result<Arc<dyn Handle>> {
        let inner = self.files.open(name, options)?;
        let (latch, hastened) = (Arc::clone(&self.latch), Arc::clone(&self.writeback_ranges));
        Ok(Arc::new(BlockingHandle { inner, latch, writeback_ranges: hastened }))
    }

    fn delete(&self, name: &OsStr) -> Result<()> {
        self.files.delete(name)
    }
}

struct BlockingHandle {
    inner: Arc<dyn Handle>,
    latch: Arc<WriteLatch>,
    writeback_ranges: Arc<Mutex<Vec<Range<u64>>>>,
}

impl Handle for BlockingHandle {
    fn read(&self, pieces: &mut [SegmentMut<'_>]) -> Result<u64> {
        self.inner.read(pieces)
    }

    fn write(&self, pieces: &[Segment<'_>]) -> Result<u64> {
        self.latch.pass();
        self.inner.write(pieces)
    }

    fn len(&self) -> Result<u64> {
        self.inner.len()
    }

    fn set_len(&self, len: u64) -> Result<()> {
        self.inner.set_len(len)
    }

    fn sync(&self, scope: SyncScope) -> Result<()> {
        self.inner.sync(scope)
    }

    fn start_writeback(&self, range: Range<u64>) {
        self.writeback_ranges.lock().unwrap_or_else(PoisonError::into_inner).push(range);
    }

    fn capabilities(&self) -> Capabilities {
        // Stores to mapped pages could not be blocked. It stands for a persistent medium.
        Capabilities { maps: false, persistent: true, ..self.inner.capabilities() }
    }
}
