//! The advice of ranges to be written: given once, for new files only, and exactly the written ranges.

use std::ffi::OsStr;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use aqueduct_comm::Launch;
use aqueduct_device::{
    Capabilities, Device, DeviceOpenOptions, Handle, MemFs, Result, Segment, SegmentMut, SyncScope,
    register_device,
};
use aqueduct_file::{Mode, OpenOptions};

/// The least size that is announced.
const MUCH: u64 = 4 << 20;

/// Files in memory, and the announced ranges.
#[derive(Default)]
struct Listener {
    files: MemFs,
    heard: Arc<Mutex<Vec<Range<u64>>>>,
}

impl Device for Listener {
    fn open(&self, name: &OsStr, options: &DeviceOpenOptions) -> Result<Arc<dyn Handle>> {
        Ok(Arc::new(Listening { inner: self.files.open(name, options)?, heard: Arc::clone(&self.heard) }))
    }

    fn delete(&self, name: &OsStr) -> Result<()> {
        self.files.delete(name)
    }
}

struct Listening {
    inner: Arc<dyn Handle>,
    heard: Arc<Mutex<Vec<Range<u64>>>>,
}

impl Handle for Listening {
    fn read(&self, pieces: &mut [SegmentMut<'_>]) -> Result<u64> {
        self.inner.read(pieces)
    }

    fn write(&self, pieces: &[Segment<'_>]) -> Result<u64> {
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

    fn capabilities(&self) -> Capabilities {
        Capabilities { maps: false, ..self.inner.capabilities() }
    }

    fn advise_will_write(&self, range: Range<u64>) {
        self.heard.lock().unwrap().push(range);
    }
}

#[test]
fn ranges_of_new_files_are_announced_before_they_are_written() {
    let listener = Arc::new(Listener::default());
    register_device("listener", Arc::clone(&listener) as Arc<dyn Device>).unwrap();
    let write = |name: &str, mode: Mode, writes: &[(u64, u64)]| {
        listener.heard.lock().unwrap().clear();
        let job = |world: &aqueduct_comm::Comm| {
            let file = OpenOptions::from(mode).open(world, name)?;
            for (offset, bytes) in writes {
                file.at(*offset).write(&vec![1u8; *bytes as usize])?;
            }
            file.close()
        };
        Launch::threads(1).run(job).unwrap();
        listener.heard.lock().unwrap().clone()
    };
    let new = Mode::read_write().create().exclusive();
    // Little is not worth it; what was written before has its space already.
    let writes =
        [(0, 100), (4096, 2 * MUCH), (4096, 2 * MUCH), (MUCH, 2 * MUCH), (8 * MUCH, MUCH), (9 * MUCH, 5)];
    let heard = write("listener:new", new, &writes);
    assert_eq!(heard, [4096..4096 + 2 * MUCH, 4096 + 2 * MUCH..3 * MUCH, 8 * MUCH..9 * MUCH]);
    // A file that may have been there before.
    assert_eq!(write("listener:new", Mode::read_write(), &[(0, 2 * MUCH)]), []);
    assert_eq!(write("listener:other", Mode::read_write().create(), &[(0, 2 * MUCH)]), []);
}

/// Ranks that write interleaved: aggregators announce all of it, and no rank more.
#[test]
fn aggregators_announce_the_ranges_of_interleaved_ranks() {
    let listener = Arc::new(Listener::default());
    register_device("listeners", Arc::clone(&listener) as Arc<dyn Device>).unwrap();
    let job = |world: &aqueduct_comm::Comm| {
        use aqueduct_file::View;
        use aqueduct_file::layout::{Basic, Layout, Vector};
        let new = Mode::read_write().create().exclusive();
        let file = OpenOptions::from(new).hint("cb_nodes", "1").hint("romio_cb_write", "enable");
        let file = file.open(world, "listeners:interleaved")?;
        let piece = Layout::bytes(4096).unwrap();
        let interleaved = piece.hvector(Vector { count: 512, block: 1, stride: 2 * 4096 }).unwrap();
        let view = View::new(4096 * world.rank() as u64, &Layout::from(Basic::Byte), &interleaved)?;
        file.with_view(&view).all().write(&vec![world.rank() as u8; 512 * 4096])?;
        file.close()
    };
    Launch::threads(2).run(job).unwrap();
    let heard = listener.heard.lock().unwrap().clone();
    assert_eq!(heard, vec![Range { start: 0, end: MUCH }]);
}
