//! `OldStyle`: one ASCII file, a line per molecule.

use aqueduct_checkpoint::{ExistingFile, Molecule, SpatialRegion};
use aqueduct_comm::agreement::agree;
use aqueduct_comm::{Comm, Op};
use aqueduct_file::{Error, File, Mode, Result};

use crate::molecule_values::{VALUES, default_values, molecule, values};
use crate::phase_space::{MoleculeFormat, PhaseSpace};
use crate::redistribution::distribute_rows;
use crate::word_scanner::{LineError, WordScanner, count_lines, printable};
use crate::{digit_parser, number_text, text_header};

/// Text is formatted and parsed in pieces of this size, in bytes, which fit the processor's cache.
const PIECE: usize = 256 << 10;

/// The longest line of a molecule: fifteen numbers with a separator each.
const LONGEST_ROW: usize = 15 * (number_text::WIDEST + 1);

/// The longest line that is read, in bytes.
const LONGEST_LINE: usize = 64 << 10;

/// The ranks format text in rounds and exchange the lengths, which give each rank its offset. The header is written last: without it the
/// file is not valid.
pub(super) fn write(
    comm: &Comm,
    name: &str,
    space: &PhaseSpace,
    molecules: &[Molecule],
    existing: ExistingFile,
) -> Result<()> {
    let total = comm
        .allreduce_one(Op::Sum, molecules.len() as u64)
        .map_err(|error| Error::from_comm("write", name, &error))?;
    let head = text_header::encode(space, total, space.molecule_format);
    let file = existing.create_options(Mode::write_only()).open(comm, name)?;
    file.set_size(0)?;
    let mut place = head.len() as u64;
    let mut rest = molecules;
    let mut failed = None;
    let mut piece = vec![0; PIECE + LONGEST_ROW];
    loop {
        let length;
        (length, rest) = fill(&mut piece, rest, space.molecule_format);
        let lengths =
            comm.allgather(&[length as u64]).map_err(|error| Error::from_comm("write", name, &error))?;
        let round: u64 = lengths.iter().sum();
        if round == 0 {
            break;
        }
        let before: u64 = lengths[..comm.rank()].iter().sum();
        if failed.is_none() {
            failed = file.at(place + before).write(&piece[..length]).err();
        }
        place += round;
    }
    agree(comm, "write", name, failed.map_or(Ok(()), Err))?;
    file.sync()?;
    let first = if comm.rank() == 0 { file.at(0).write(head.as_bytes()).map(|_| ()) } else { Ok(()) };
    agree(comm, "write", name, first)?;
    file.sync()?;
    file.close()
}

/// Formats lines until the piece is full; returns their length and the remaining molecules.
fn fill<'m>(piece: &mut [u8], molecules: &'m [Molecule], rows: MoleculeFormat) -> (usize, &'m [Molecule]) {
    let (mut at, mut rest) = (0, molecules);
    while let Some((molecule, others)) = rest.split_first().filter(|_| at < PIECE) {
        at += put_row(&mut piece[at..], molecule, rows);
        rest = others;
    }
    (at, rest)
}

/// Writes the line of a molecule to the front of `out`; returns its length.
#[inline]
fn put_row(out: &mut [u8], molecule: &Molecule, rows: MoleculeFormat) -> usize {
    let mut at = number_text::put_whole(out, molecule.id);
    if rows != MoleculeFormat::Irv {
        out[at] = b' ';
        at += 1 + number_text::put_whole(&mut out[at + 1..], molecule.component + 1);
    }
    at += number_text::put_floats(&mut out[at..], &values(molecule)[..rows.numbers()]);
    out[at] = b'\n';
    at + 1
}

/// Each rank reads the lines that begin in its share of the bytes.
pub(super) fn read(
    comm: &Comm,
    name: &str,
    space: &PhaseSpace,
    (start, line): (u64, u64),
    region: Option<&SpatialRegion>,
) -> Result<Vec<Molecule>> {
    let comm_error = |error| Error::from_comm("read", name, &error);
    let file = File::open(comm, name)?;
    let end = file.size()?.max(start);
    let part = |rank: usize| start + (u128::from(end - start) * rank as u128 / comm.size() as u128) as u64;
    // Bounded by the header and by the length of the file.
    let likely = (space.molecules / comm.size() as u64).min((end - start) / comm.size() as u64 / 16);
    let molecules = Vec::with_capacity(likely as usize);
    let mut lines = MoleculeLineParser { space, molecules, blanks: Vec::new(), ended: 0, flaw: None };
    let outcome = lines.take(&file, start, part(comm.rank())..part(comm.rank() + 1), end);
    // Errors name lines counted from the beginning of the file.
    let before = comm.exclusive_scan_one(Op::Sum, lines.ended).map_err(comm_error)?.unwrap_or(0);
    let outcome = outcome.and_then(|()| match lines.flaw {
        Some(flaw) => Err(LineError::new(line + before + flaw.line - 1, flaw.what).damaged("read", name)),
        None => Ok(()),
    });
    agree(comm, "read", name, outcome)?;
    file.close()?;
    distribute_rows(comm, name, space, lines.molecules, region)
}

/// Parses lines to molecules.
struct MoleculeLineParser<'a> {
    space: &'a PhaseSpace,
    molecules: Vec<Molecule>,
    /// The offsets of the blanks in the text.
    blanks: Vec<u32>,
    /// The number of lines that have ended.
    ended: u64,
    /// The first error. Lines are still counted after it, since later ranks need their number.
    flaw: Option<LineError>,
}

impl MoleculeLineParser<'_> {
    /// Parses the lines that begin in `share`. The first line begins at `start`.
    fn take(
        &mut self,
        file: &File,
        start: u64,
        share: std::ops::Range<u64>,
        end: u64,
    ) -> aqueduct_file::Result<()> {
        let mut at = share.start;
        // The byte before the share shows whether a line begins at the share.
        let mut inside = at > start && at < share.end;
        if inside {
            at -= 1;
        }
        let mut buffer = vec![0; (share.end - share.start).min(PIECE as u64) as usize + 2 * LONGEST_LINE];
        let mut filled = 0;
        let newline = |bytes: &[u8]| bytes.iter().position(|&byte| byte == b'\n');
        while at < end && (at < share.end || filled > 0) {
            let past_share = at >= share.end;
            // After the share, only the rest of a line is read.
            let wanted = if past_share { (end - at).min(LONGEST_LINE as u64) } else { share.end - at };
            let room = filled + (wanted as usize).min(buffer.len() - filled);
            let read = file.at(at).read(&mut buffer[filled..room])?.bytes();
            if read == 0 {
                break;
            }
            (at, filled) = (at + read, filled + read as usize);
            if inside {
                let Some(first) = newline(&buffer[..filled]) else {
                    filled = 0;
                    continue;
                };
                buffer.copy_within(first + 1..filled, 0);
                (filled, inside) = (filled - first - 1, false);
            }
            let bytes = &buffer[..filled];
            let whole =
                if past_share { newline(bytes) } else { bytes.iter().rposition(|&byte| byte == b'\n') };
            if let Some(last) = whole {
                self.parse(&buffer[..=last]);
                if past_share {
                    return Ok(());
                }
                buffer.copy_within(last + 1..filled, 0);
                filled -= last + 1;
            }
            if filled > LONGEST_LINE {
                break;
            }
        }
        if filled > LONGEST_LINE {
            let flaw =
                LineError::new(self.ended + 1, format!("the line is longer than {LONGEST_LINE} bytes"));
            self.flaw.get_or_insert(flaw);
        } else {
            self.parse(&buffer[..filled]);
        }
        Ok(())
    }

    /// Parses whole lines.
    fn parse(&mut self, bytes: &[u8]) {
        if self.flaw.is_some() {
            self.ended += count_lines(bytes);
            return;
        }
        let mut scan = WordScanner::new(bytes);
        let mut numbers = default_values();
        digit_parser::blanks(bytes, &mut self.blanks);
        let mut next = 0;
        loop {
            while self.blanks.get(next).is_some_and(|blank| (*blank as usize) < scan.at()) {
                next += 1;
            }
            let ends = self.blanks.get(next..next + self.space.molecule_format.words());
            if let Some(ends) = ends
                && let Some((id, component)) = usual_row(bytes, scan.at(), ends, &mut numbers)
            {
                let molecule = molecule(id, component, &numbers);
                if self.space.find_defect(&molecule).is_none() {
                    self.molecules.push(molecule);
                    next += ends.len();
                    scan.skip_line(ends.last().map_or(0, |end| *end as usize + 1));
                    continue;
                }
            }
            let Some(first) = scan.word() else { break };
            let checked = row(&mut scan, first, self.space);
            let checked =
                checked.and_then(|molecule| self.space.find_defect(&molecule).map_or(Ok(molecule), Err));
            match checked {
                Ok(molecule) => self.molecules.push(molecule),
                Err(what) => {
                    self.flaw = Some(LineError::new(self.ended + scan.line(), what));
                    self.ended += scan.line() - 1;
                    return self.parse(scan.rest());
                }
            }
        }
        self.ended += scan.line() - 1;
    }
}

/// The fast case of [`row`]: id and component of a molecule, and its numbers, from a line that begins at `line` and whose words end at
/// `ends`. `None` if the line is not in the usual form.
#[inline]
fn usual_row(text: &[u8], line: usize, ends: &[u32], numbers: &mut [f64; VALUES]) -> Option<(u64, u64)> {
    let whole = |start: usize, end: usize| {
        let found = number_text::whole_prefix(text.get(start..)?);
        found.filter(|(_, length)| start + length == end).map(|(value, _)| value)
    };
    // Errors are checked once, at the end.
    let is_blank = |byte: u8| byte == b' ' || byte == b'\t';
    let (first, mut ends) = ends.split_first()?;
    let id = whole(line, *first as usize)?;
    let (mut at, mut component, mut wrong) = (*first as usize, 1, false);
    if ends.len() > MoleculeFormat::Irv.numbers() {
        let (end, others) = ends.split_first()?;
        wrong = !is_blank(text[at]);
        component = whole(at + 1, *end as usize)?;
        (at, ends) = (*end as usize, others);
    }
    wrong |= component == 0;
    for (number, end) in numbers.iter_mut().zip(ends) {
        wrong |= !is_blank(text[at]);
        (*number, at) = (number_text::float_between(text, at + 1, *end as usize)?, *end as usize);
    }
    (!wrong && text[at] == b'\n').then(|| (id, component - 1))
}

/// Parses a molecule from the words of a line.
fn row(
    scan: &mut WordScanner<'_>,
    first: &[u8],
    space: &PhaseSpace,
) -> std::result::Result<Molecule, String> {
    let rows = space.molecule_format;
    let id = number_text::whole(first)
        .ok_or_else(|| format!("{} is not the id of a molecule", printable(first)))?;
    let mut component = 1;
    if rows != MoleculeFormat::Irv {
        let word = scan.word_on_line().ok_or_else(|| format!("molecule {id} has no component"))?;
        let known = number_text::whole(word).filter(|component| *component > 0);
        component = known.ok_or_else(|| {
            format!("{} is not a component of molecule {id}; components are counted from 1", printable(word))
        })?;
    }
    let mut numbers = default_values();
    for (count, number) in numbers[..rows.numbers()].iter_mut().enumerate() {
        let word = scan.word_on_line().ok_or_else(|| {
            format!(
                "molecule {id} has {count} numbers instead of {}, as rows of the format {} have",
                rows.numbers(),
                rows.name()
            )
        })?;
        *number = number_text::float(word)
            .ok_or_else(|| format!("{} of molecule {id} is not a number", printable(word)))?;
    }
    if let Some(word) = scan.word_on_line() {
        return Err(format!(
            "{} after molecule {id}: rows of the format {} have no more words",
            printable(word),
            rows.name()
        ));
    }
    Ok(molecule(id, component - 1, &numbers))
}
