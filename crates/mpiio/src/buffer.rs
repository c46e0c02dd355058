//! The data of an access: memory of the program, or data converted by a representation of the program.

pub(crate) mod borrowed_buffer;
pub(crate) mod datarep;
pub(crate) mod external32;

use std::ffi::c_void;
use std::sync::Arc;

use aqueduct_file::layout::Layout;
use aqueduct_file::{Incoming, Outgoing, Sink, Source};

use crate::datatype::{self, DatatypeRef, ValueSizes};
use crate::host::Mpi;
use crate::host::{MpiError, Outcome, to_engine_error};
use borrowed_buffer::BorrowedBuffer;
use datarep::{Datarep, DatarepConversion};
use external32::External32Buffer;

/// Read or write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BufferDirection {
    Read,
    Write,
}

/// Memory as a program describes it in a call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BufferArgs {
    pub(crate) address: *mut c_void,
    pub(crate) count: i64,
    pub(crate) datatype: usize,
}

/// The data representation of the file of an access.
pub(crate) enum FileRepresentation {
    /// Native, or converted by the engine.
    Native,
    /// Values in external32; the engine converts them by the etype of the view.
    External32 { etype: Layout },
    /// Converted by functions of the program.
    User(Arc<Datarep>),
}

/// The data of an access.
pub(crate) enum AccessBuffer {
    Borrowed(BorrowedBuffer),
    Converted(Box<ConvertedBuffer>),
    External32(Box<External32Buffer>),
}

/// Data in a representation of the program, as stored in the file.
pub(crate) struct ConvertedBuffer {
    stored: Vec<u8>,
    datarep: Arc<Datarep>,
    /// Its memory.
    memory: usize,
    datatype: DatatypeRef,
    /// Bytes of one item in the file and in memory.
    item: (u64, u64),
    direction: BufferDirection,
}

impl BufferArgs {
    /// The buffer of an access to a file with this representation.
    pub(crate) fn buffer(
        self,
        mpi: &Mpi,
        representation: FileRepresentation,
        direction: BufferDirection,
    ) -> Outcome<AccessBuffer> {
        let known = mpi.constants.integers;
        let Ok(count) = u64::try_from(self.count) else {
            return Err(MpiError::new(known.count, format!("a count of {} elements", self.count)));
        };
        if let (FileRepresentation::Native, Some(size), false) =
            (&representation, datatype::element_size(mpi, self.datatype), self.address.is_null())
            && let Some(bytes) = size.checked_mul(count).filter(|bytes| i64::try_from(*bytes).is_ok())
        {
            let buffer = BorrowedBuffer::contiguous(self.address.cast(), bytes as usize);
            return Ok(AccessBuffer::Borrowed(buffer));
        }
        let layout = datatype::layout(mpi, self.datatype)?;
        if self.address.is_null() && count > 0 && layout.size() > 0 && layout.true_lower_bound() == 0 {
            return Err(MpiError::new(known.buffer, "the buffer is a null pointer, and the count is not 0"));
        }
        if let FileRepresentation::User(datarep) = representation {
            return self.converted(mpi, datarep, &layout, count, direction);
        }
        let lent = BorrowedBuffer::new(self.address.cast(), &layout, count);
        let lent = lent.map_err(|error| MpiError::new(known.count, error.to_string()))?;
        if let FileRepresentation::External32 { etype } = representation
            && external32::is_wanted(&etype, &layout)
        {
            let portable = External32Buffer::new(mpi, lent, &layout, count, direction)?;
            return Ok(AccessBuffer::External32(Box::new(portable)));
        }
        Ok(AccessBuffer::Borrowed(lent))
    }

    fn converted(
        self,
        mpi: &Mpi,
        datarep: Arc<Datarep>,
        layout: &Layout,
        count: u64,
        direction: BufferDirection,
    ) -> Outcome<AccessBuffer> {
        let width = |handle, _: &Layout| datarep.extent(mpi, handle);
        let item = datatype::stored_layout(mpi, self.datatype, ValueSizes::File(&width))?.size();
        let mut stored = zeroed(mpi, item.checked_mul(count))?;
        if direction == BufferDirection::Write {
            match datarep.write {
                DatarepConversion::None => gather(mpi, self.address, layout, count, &mut stored)?,
                convert => datarep.convert(mpi, convert, self.address, self.datatype, count, &mut stored)?,
            }
        }
        Ok(AccessBuffer::Converted(Box::new(ConvertedBuffer {
            stored,
            datarep,
            memory: self.address as usize,
            datatype: DatatypeRef::new(mpi, self.datatype)?,
            item: (item, layout.size()),
            direction,
        })))
    }
}

/// Memory for data as stored in the file.
pub(crate) fn zeroed(mpi: &Mpi, bytes: Option<u64>) -> Outcome<Vec<u8>> {
    let mut memory: Vec<u8> = Vec::new();
    let bytes = bytes.and_then(|bytes| usize::try_from(bytes).ok());
    match bytes.map(|bytes| memory.try_reserve_exact(bytes).map(|()| bytes)) {
        Some(Ok(bytes)) => {
            // Allocated zeroed: filling reserved memory would access every page.
            drop(memory);
            Ok(vec![0; bytes])
        }
        size => {
            let amount = size
                .and(bytes)
                .map_or("more bytes than memory can have".to_owned(), |bytes| format!("{bytes} bytes"));
            let text = format!("the conversion of so many elements takes {amount}; access fewer at a time");
            Err(MpiError::new(mpi.constants.integers.count, text))
        }
    }
}

/// Copies what needs no conversion.
fn gather(mpi: &Mpi, address: *mut c_void, layout: &Layout, count: u64, stored: &mut [u8]) -> Outcome<()> {
    let refuse = |text: String| MpiError::new(mpi.constants.integers.conversion, text);
    let lent =
        BorrowedBuffer::new(address.cast(), layout, count).map_err(|error| refuse(error.to_string()))?;
    lent.copy_out(stored).map_err(|error| refuse(error.to_string()))
}

impl AccessBuffer {
    /// No buffer: the access fails with this error on all ranks.
    pub(crate) fn failing(mpi: &Mpi, call: &'static str, file: &str, fault: &MpiError) -> Self {
        Self::Borrowed(BorrowedBuffer::failing(to_engine_error(mpi, call, file, fault)))
    }

    /// Completes an access that transferred `bytes` of the file: stores read data in memory; the number of bytes in memory.
    pub(crate) fn finish(&mut self, mpi: &Mpi, bytes: u64) -> Outcome<u64> {
        let converted = match self {
            Self::Borrowed(_) => return Ok(bytes),
            Self::External32(portable) => return portable.finish(mpi, bytes),
            Self::Converted(converted) => converted,
        };
        let (stored, memory) = converted.item;
        let items = bytes.checked_div(stored).unwrap_or(0);
        if converted.direction == BufferDirection::Read {
            converted.put_back(mpi, items)?;
        }
        Ok(items.saturating_mul(memory))
    }
}

impl ConvertedBuffer {
    fn put_back(&mut self, mpi: &Mpi, items: u64) -> Outcome<()> {
        let (memory, datatype) = (self.memory as *mut c_void, self.datatype.handle);
        if !matches!(self.datarep.read, DatarepConversion::None) {
            let datarep = Arc::clone(&self.datarep);
            return datarep.convert(mpi, datarep.read, memory, datatype, items, &mut self.stored);
        }
        let refuse = |text: String| MpiError::new(mpi.constants.integers.conversion, text);
        let layout = datatype::layout(mpi, datatype)?;
        let lent =
            BorrowedBuffer::new(memory.cast(), &layout, items).map_err(|error| refuse(error.to_string()))?;
        let len = items.saturating_mul(self.item.1).min(self.stored.len() as u64) as usize;
        lent.copy_in(&self.stored[..len]).map_err(|error| refuse(error.to_string()))
    }
}

impl Outgoing for AccessBuffer {
    fn source(&self) -> Source<'_> {
        match self {
            Self::Borrowed(lent) => lent.source(),
            Self::Converted(converted) => converted.stored.as_slice().into(),
            Self::External32(portable) => portable.source(),
        }
    }
}

impl Incoming for AccessBuffer {
    fn sink(&mut self) -> Sink<'_> {
        match self {
            Self::Borrowed(lent) => lent.sink(),
            Self::Converted(converted) => converted.stored.as_mut_slice().into(),
            Self::External32(portable) => portable.sink(),
        }
    }
}
