//! What an access moves: memory of the program as it is, or converted by the program's own data representation.

use std::ffi::c_void;
use std::sync::Arc;

use aqueduct_file::layout::Layout;
use aqueduct_file::{Incoming, Outgoing, Sink, Source};

use crate::datarep::{Conversion, Datarep};
use crate::datatype::{self, Kept, Sizes};
use crate::errors::{Fault, Outcome, refusal};
use crate::memory::Lent;
use crate::mpi::Mpi;
use crate::open_file::OpenFile;
use crate::portable::{self, Portable};

/// Which way data goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Read,
    Write,
}

/// Memory as a program describes it in a call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Described {
    pub(crate) address: *mut c_void,
    pub(crate) count: i64,
    pub(crate) datatype: usize,
}

/// What an access moves.
pub(crate) enum Buffer {
    Lent(Lent),
    Converted(Box<Converted>),
    Portable(Box<Portable>),
}

/// Data of a representation of the program's, as it lies in the file.
pub(crate) struct Converted {
    stored: Vec<u8>,
    datarep: Arc<Datarep>,
    /// Where it goes, or came from.
    memory: usize,
    datatype: Kept,
    /// Bytes of one item in the file and in memory.
    item: (u64, u64),
    direction: Direction,
}

impl Described {
    /// The buffer of an access to a file.
    pub(crate) fn buffer(self, mpi: &Mpi, open: &OpenFile, direction: Direction) -> Outcome<Buffer> {
        let known = mpi.constants.integers;
        let Ok(count) = u64::try_from(self.count) else {
            return Err(Fault::new(known.count, format!("a count of {} elements", self.count)));
        };
        let layout = datatype::layout(mpi, self.datatype)?;
        if self.address.is_null() && count > 0 && layout.size() > 0 && layout.true_lower_bound() == 0 {
            return Err(Fault::new(
                known.buffer,
                "the buffer is the null pointer, and there is data to move",
            ));
        }
        let (datarep, is_external32) = {
            let view = open.view();
            (view.datarep.clone(), view.representation == "external32")
        };
        if let Some(datarep) = datarep {
            return self.converted(mpi, datarep, &layout, count, direction);
        }
        let lent = Lent::new(self.address.cast(), &layout, count);
        let lent = lent.map_err(|error| Fault::new(known.count, error.to_string()))?;
        if is_external32 && portable::is_wanted(open.file.view().etype(), &layout) {
            let portable = Portable::new(mpi, lent, &layout, count, direction)?;
            return Ok(Buffer::Portable(Box::new(portable)));
        }
        Ok(Buffer::Lent(lent))
    }

    fn converted(
        self,
        mpi: &Mpi,
        datarep: Arc<Datarep>,
        layout: &Layout,
        count: u64,
        direction: Direction,
    ) -> Outcome<Buffer> {
        let width = |handle, _: &Layout| datarep.extent(mpi, handle);
        let item = datatype::stored_layout(mpi, self.datatype, Sizes::File(&width))?.size();
        let mut stored = zeroed(mpi, item.checked_mul(count))?;
        if direction == Direction::Write {
            match datarep.write {
                Conversion::None => gather(mpi, self.address, layout, count, &mut stored)?,
                convert => datarep.convert(mpi, convert, self.address, self.datatype, count, &mut stored)?,
            }
        }
        Ok(Buffer::Converted(Box::new(Converted {
            stored,
            datarep,
            memory: self.address as usize,
            datatype: Kept::new(mpi, self.datatype)?,
            item: (item, layout.size()),
            direction,
        })))
    }
}

/// So many bytes of memory for data as it lies in the file.
pub(crate) fn zeroed(mpi: &Mpi, bytes: Option<u64>) -> Outcome<Vec<u8>> {
    let mut memory: Vec<u8> = Vec::new();
    let bytes = bytes.and_then(|bytes| usize::try_from(bytes).ok());
    match bytes.map(|bytes| memory.try_reserve_exact(bytes).map(|()| bytes)) {
        Some(Ok(bytes)) => {
            // The allocator gives zeros anew: to fill what was reserved would touch every page.
            drop(memory);
            Ok(vec![0; bytes])
        }
        told => {
            let amount = told
                .and(bytes)
                .map_or("more bytes than memory can have".to_owned(), |bytes| format!("{bytes} bytes"));
            let text = format!("the conversion of so many elements takes {amount}; access fewer at a time");
            Err(Fault::new(mpi.constants.integers.count, text))
        }
    }
}

/// Copies what needs no conversion.
fn gather(mpi: &Mpi, address: *mut c_void, layout: &Layout, count: u64, stored: &mut [u8]) -> Outcome<()> {
    let refuse = |text: String| Fault::new(mpi.constants.integers.conversion, text);
    let lent = Lent::new(address.cast(), layout, count).map_err(|error| refuse(error.to_string()))?;
    lent.copy_out(stored).map_err(|error| refuse(error.to_string()))
}

impl Buffer {
    /// None: the access fails with this error, after it has told the other ranks.
    pub(crate) fn refused(mpi: &Mpi, call: &'static str, open: &OpenFile, fault: &Fault) -> Self {
        Self::Lent(Lent::refused(refusal(mpi, call, open.file.name(), fault)))
    }

    /// The access is over and has moved so many bytes: puts them where they belong; how many they are in memory.
    pub(crate) fn finish(&mut self, mpi: &Mpi, bytes: u64) -> Outcome<u64> {
        let converted = match self {
            Self::Lent(_) => return Ok(bytes),
            Self::Portable(portable) => return portable.finish(mpi, bytes),
            Self::Converted(converted) => converted,
        };
        let (stored, memory) = converted.item;
        let items = bytes.checked_div(stored).unwrap_or(0);
        if converted.direction == Direction::Read {
            converted.put_back(mpi, items)?;
        }
        Ok(items.saturating_mul(memory))
    }
}

impl Converted {
    fn put_back(&mut self, mpi: &Mpi, items: u64) -> Outcome<()> {
        let (memory, datatype) = (self.memory as *mut c_void, self.datatype.handle);
        if !matches!(self.datarep.read, Conversion::None) {
            let datarep = Arc::clone(&self.datarep);
            return datarep.convert(mpi, datarep.read, memory, datatype, items, &mut self.stored);
        }
        let refuse = |text: String| Fault::new(mpi.constants.integers.conversion, text);
        let layout = datatype::layout(mpi, datatype)?;
        let lent = Lent::new(memory.cast(), &layout, items).map_err(|error| refuse(error.to_string()))?;
        let len = items.saturating_mul(self.item.1).min(self.stored.len() as u64) as usize;
        lent.copy_in(&self.stored[..len]).map_err(|error| refuse(error.to_string()))
    }
}

impl Outgoing for Buffer {
    fn source(&self) -> Source<'_> {
        match self {
            Self::Lent(lent) => lent.source(),
            Self::Converted(converted) => converted.stored.as_slice().into(),
            Self::Portable(portable) => portable.source(),
        }
    }
}

impl Incoming for Buffer {
    fn sink(&mut self) -> Sink<'_> {
        match self {
            Self::Lent(lent) => lent.sink(),
            Self::Converted(converted) => converted.stored.as_mut_slice().into(),
            Self::Portable(portable) => portable.sink(),
        }
    }
}
