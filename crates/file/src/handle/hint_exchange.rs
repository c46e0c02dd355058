//! The exchange of hints between ranks: if ranks give different hints, those of rank 0 are used on all ranks.

use aqueduct_comm::Comm;
use aqueduct_report::{Report, ReportSource, is_enabled};

use super::file::File;
use crate::error::{Error, Result};
use crate::hints::{Hints, Info};

/// With `AQUEDUCT_VERBOSE`, reports values of known hints that are ignored because they are invalid.
pub(crate) fn report_objections(file: &str, info: &Info) {
    if is_enabled() {
        for (key, value, form) in Hints::objections(info) {
            let message = format!("the hint {key} = {value:?} is ignored: it takes {form}");
            Report::new(ReportSource::File).file(file).emit(&message);
        }
    }
}

/// The hints of rank 0, on all ranks. Collective.
pub(crate) fn of_first_rank(comm: &Comm, file: &str, mine: &Info) -> aqueduct_comm::Result<Info> {
    let encoded = comm.broadcast_vec(0, encode(mine))?;
    let first = decode(&encoded);
    if is_enabled() && first != *mine {
        let rank = comm.rank();
        let message = format!("rank {rank} gave other hints than rank 0, whose hints are used on all ranks");
        Report::new(ReportSource::File).file(file).emit(&message);
    }
    Ok(first)
}

fn encode(info: &Info) -> Vec<u8> {
    let mut bytes = Vec::new();
    for text in info.iter().flat_map(|(key, value)| [key, value]) {
        bytes.extend_from_slice(&(text.len() as u32).to_le_bytes());
        bytes.extend_from_slice(text.as_bytes());
    }
    bytes
}

fn decode(mut bytes: &[u8]) -> Info {
    let mut text = || {
        let (len, rest) = bytes.split_first_chunk::<4>()?;
        let (text, rest) = rest.split_at_checked(u32::from_le_bytes(*len) as usize)?;
        bytes = rest;
        Some(String::from_utf8_lossy(text).into_owned())
    };
    let mut info = Info::new();
    while let (Some(key), Some(value)) = (text(), text()) {
        info.set(key, value);
    }
    info
}

impl File {
    /// Changes hints; those not named keep their values. Collective. Where ranks give different hints, or some give none, those of rank 0 hold on all;
    /// with `AQUEDUCT_VERBOSE` the others are reported.
    #[doc(alias = "MPI_File_set_info")]
    pub fn set_info(&self, info: &Info) -> Result<()> {
        self.change_info(Ok(info))
    }

    /// Takes part in [`set_info`](File::set_info) for a rank that has no hints to give because of an error: all ranks fail. Collective with it.
    pub fn refuse_info(&self, error: Error) -> Result<()> {
        self.change_info(Err(error))
    }

    fn change_info(&self, info: Result<&Info>) -> Result<()> {
        // Operations in progress are planned with the old hints on all ranks.
        self.wait_idle();
        let info = self.cx().agree("set_info", info.and_then(|info| self.engine.flush().map(|()| info)))?;
        self.adopt_info("set_info", info)
    }

    /// Adopts the hints of rank 0. Collective, without operations in progress.
    pub(crate) fn adopt_info(&self, operation: &'static str, info: &Info) -> Result<()> {
        let first =
            self.cx().comm_result(operation, of_first_rank(&self.cx().comm, &self.cx().name, info))?;
        if self.cx().comm.rank() == 0 {
            report_objections(&self.cx().name, &first);
        }
        let mut hints = Hints::parse(&first.over(&self.info()));
        // Whether a file is buffered is decided when it is opened.
        hints.buffered.clone_from(&self.cx().hints().buffered);
        *self.cx().hints() = hints;
        self.engine.set_plain_view(&self.view());
        self.engine.collective.clear_plans();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_are_encoded_and_decoded() {
        let info = Info::from([("cb_nodes", "3"), ("empty", ""), ("lines", "a\nb c")]);
        assert_eq!(decode(&encode(&info)), info);
        assert_eq!(decode(&[]), Info::new());
        assert_eq!(decode(&[9, 0, 0, 0, b'x']), Info::new());
    }
}
