//! Cell files: written collectively, and open for reading.

use std::marker::PhantomData;
use std::ops::Range;

use aqueduct_comm::Comm;
use aqueduct_file::{Counters, File, Mode, Source};

use super::cell_offsets::{assign_offsets, block_view, blocks, order_particles};
use super::cell_table::{self, CellEntry, CellFileFlaw, CellHeader, ENTRY, HEADER};
use super::row_checksums::{CellChecksums, ParticleRows};
use crate::error::{Error, Kind, Result, agree, on_root};
use crate::existing_file::ExistingFile;
use crate::grid::CellGrid;
use crate::molecule::Particle;
use crate::region::SpatialRegion;

/// Buffer size for the verification of checksums, in bytes.
const PIECE: usize = 4 << 20;

/// Writes the particles of all ranks into a new file and syncs it. An existing file of this name is an error. Collective.
///
/// No two ranks may hold particles of the same cell. All particles must lie inside of the grid.
///
/// The header is written after the particles, so readers reject the file of a program that was killed. After a power cut any part
/// may be missing, which the checksums reveal. Particles are gathered in pieces while they are written: a rank needs 12 bytes of
/// memory per particle for their order, and no second copy of them.
pub fn write<P: Particle>(comm: &Comm, name: &str, grid: &CellGrid, particles: &[P]) -> Result<()> {
    write_particles(comm, name, grid, particles, ExistingFile::Refuse)
}

/// Like [`write()`], but replaces an existing file of this name. Collective.
pub fn replace<P: Particle>(comm: &Comm, name: &str, grid: &CellGrid, particles: &[P]) -> Result<()> {
    write_particles(comm, name, grid, particles, ExistingFile::Replace)
}

fn write_particles<P: Particle>(
    comm: &Comm,
    name: &str,
    grid: &CellGrid,
    particles: &[P],
    existing: ExistingFile,
) -> Result<()> {
    let order = order_particles(comm, name, grid, particles)?;
    let rows =
        ParticleRows { bytes: bytemuck::cast_slice(particles), row: size_of::<P>() as u64, order: &order };
    write_rows(comm, name, grid, rows, existing)
}

/// Writes rows of bytes of any particle type.
pub(crate) fn write_rows(
    comm: &Comm,
    name: &str,
    grid: &CellGrid,
    rows: ParticleRows<'_>,
    existing: ExistingFile,
) -> Result<()> {
    let runs = &rows.order.runs;
    let placed = assign_offsets(comm, name, grid, runs)?;
    let data = cell_table::data(grid);
    let file = existing.create_options(Mode::write_only()).open(comm, name)?;
    file.set_size(0)?;
    file.set_size(data + rows.row * placed.total)?;
    let places = placed.first.iter().zip(runs).map(|(first, run)| (*first, run.count));
    let view = block_view(name, data, &blocks(places, rows.row))?;
    let sums = CellChecksums::new(rows);
    let make = |from: u64, out: &mut [u8]| sums.fill(from, out);
    file.with_view(&view).all().write(Source::generated(rows.bytes.len() as u64, &make))?;
    let all =
        comm.gather_varied(0, &sums.finish()).map_err(|error| Error::from_comm("write", name, &error))?;
    // After the gather all ranks have written their rows.
    let first = all.map_or(Ok(()), |sums| {
        let held = placed.cells.iter().zip(&placed.owners);
        let held =
            held.map(|(cell, (rank, run))| (cell.cell, cell.count, sums[*rank as usize][*run as usize]));
        let table = cell_table::encode(grid, held);
        let header =
            CellHeader { grid: *grid, particles: placed.total, row: rows.row, table: crc32c::crc32c(&table) };
        file.at(0).write(&[&header.encode()[..], &table].concat()).map(|_| ())
    });
    agree(comm, "write", name, first)?;
    file.sync()?;
    file.close()
}

/// An open cell file: its table is in memory, its particles can be read.
#[derive(Debug)]
pub struct CellFile<P> {
    raw: RawCellFile,
    particle: PhantomData<P>,
}

impl<P: Particle> CellFile<P> {
    /// Opens a cell file. Rank 0 reads header and table and broadcasts them. Collective.
    pub fn open(comm: &Comm, name: &str) -> Result<Self> {
        let stored = RawCellFile::open(comm, name)?;
        if stored.header.row != size_of::<P>() as u64 {
            let detail = format!(
                "a particle has {} bytes in the file, but {} in this program; open it as the type that was written",
                stored.header.row,
                size_of::<P>()
            );
            return Err(Error::new(Kind::WrongType, "open", name, detail));
        }
        Ok(Self { raw: stored, particle: PhantomData })
    }

    /// The domain and its cells.
    pub fn grid(&self) -> &CellGrid {
        &self.raw.header.grid
    }

    /// The number of particles.
    pub fn particles(&self) -> u64 {
        self.raw.header.particles
    }

    /// The counters of accesses to the file so far.
    pub fn counters(&self) -> Counters {
        self.raw.file.counters()
    }

    /// The particles in this rank's region. Any regions are possible. Only the cells that the region overlaps are read, and their
    /// checksums are verified. Collective.
    pub fn read(&self, region: &SpatialRegion) -> Result<Vec<P>> {
        let inside = |particle: &P| region.contains(particle.position(), self.grid().length());
        // Filtered cell by cell, while the cell is in the processor's cache.
        let mut whole = true;
        let mut particles = self.read_cells(&self.grid().overlapped_runs(region), |cell| {
            whole = whole && cell.iter().all(inside);
        })?;
        if !whole {
            particles.retain(inside);
        }
        Ok(particles)
    }

    /// An even share of the particles, in whole cells. Collective.
    pub fn read_share(&self) -> Result<Vec<P>> {
        let share = self.raw.share();
        self.read_cells(&[(share.start, share.end - share.start)], |_| ())
    }

    /// Reads runs of cells and calls `look` for each cell.
    fn read_cells(&self, runs: &[(u64, u64)], mut look: impl FnMut(&[P])) -> Result<Vec<P>> {
        let mut particles: Vec<P> = bytemuck::zeroed_vec(self.raw.count(runs) as usize);
        let look = |cell: &[u8]| look(bytemuck::cast_slice(cell));
        self.raw.read(runs, bytemuck::cast_slice_mut(&mut particles), look)?;
        Ok(particles)
    }
}

/// An open cell file of any particle type.
#[derive(Debug)]
struct RawCellFile {
    file: File,
    header: CellHeader,
    table: Vec<u8>,
}

impl RawCellFile {
    fn open(comm: &Comm, name: &str) -> Result<Self> {
        let bytes = on_root(comm, "open", name, || load(comm, name))?;
        let (head, table) = bytes.split_at(HEADER.min(bytes.len()));
        // Rank 0 has checked the length of the file.
        let header = CellHeader::decode(head, claimed_length(head))
            .map_err(|flaw| damaged_error("open", name, &flaw))?;
        let file = File::open(comm, name)?;
        Ok(Self { file, header, table: table.to_vec() })
    }

    /// This rank's range of cells, chosen so that all ranks have about as many particles.
    fn share(&self) -> Range<u64> {
        let comm = self.file.comm();
        let cells = self.header.grid.count();
        let border = |rank: usize| {
            let before = (u128::from(self.header.particles) * rank as u128 / comm.size() as u128) as u64;
            match rank {
                0 => 0,
                _ if rank == comm.size() => cells,
                _ => partition(cells, |cell| self.cell(cell).first < before),
            }
        };
        border(comm.rank())..border(comm.rank() + 1)
    }

    fn cell(&self, cell: u64) -> CellEntry {
        let start = cell as usize * ENTRY;
        let none = CellEntry { first: 0, count: 0, sum: 0 };
        cell_table::cells(&self.table[start..start + ENTRY]).next().unwrap_or(none)
    }

    fn cells(&self, runs: &[(u64, u64)]) -> impl Iterator<Item = (u64, CellEntry)> {
        runs.iter().flat_map(|(first, count)| *first..first + count).map(|cell| (cell, self.cell(cell)))
    }

    fn count(&self, runs: &[(u64, u64)]) -> u64 {
        self.cells(runs).map(|(_, cell)| cell.count).sum()
    }

    /// Reads runs of cells in one collective access and calls `look` for each cell.
    fn read(&self, runs: &[(u64, u64)], bytes: &mut [u8], mut look: impl FnMut(&[u8])) -> Result<()> {
        let name = self.file.name();
        let places = self.cells(runs).map(|(_, cell)| (cell.first, cell.count));
        let view = block_view(name, self.header.data(), &blocks(places, self.header.row))?;
        let read = self.file.with_view(&view).all().read(&mut *bytes)?.bytes();
        let short = (read < bytes.len() as u64).then(|| "the file ends before its last cell".to_owned());
        let mut rest = &*bytes;
        let mut differing = self.cells(runs).filter_map(|(number, cell)| {
            let (mine, others) = rest.split_at((cell.count * self.header.row) as usize);
            rest = others;
            let sum = crc32c::crc32c(mine);
            look(mine);
            self.compare(number, cell, sum)
        });
        let wrong = short.or_else(|| differing.next());
        let outcome = wrong.map_or(Ok(()), |detail| Err(Error::new(Kind::Damaged, "read", name, detail)));
        agree(self.file.comm(), "read", name, outcome)
    }

    /// Verifies this rank's share with a small buffer: its cells are adjacent in the file.
    fn verify(&self) -> Result<()> {
        let share = self.share();
        let mut at = self.header.data()
            + share.clone().next().map_or(0, |cell| self.cell(cell).first) * self.header.row;
        let mut buffer = vec![0; PIECE];
        let mut ready: Range<usize> = 0..0;
        let mut walk = || -> Result<()> {
            for number in share.clone() {
                let cell = self.cell(number);
                let (mut left, mut sum) = ((cell.count * self.header.row) as usize, 0);
                while left > 0 {
                    if ready.is_empty() {
                        let read = self.file.at(at).read(&mut buffer)?.bytes();
                        (at, ready) = (at + read, 0..read as usize);
                    }
                    let some = left.min(ready.len());
                    if some == 0 {
                        return Err(self.damaged(format!("byte {at}: the file ends inside cell {number}")));
                    }
                    sum = crc32c::crc32c_append(sum, &buffer[ready.start..ready.start + some]);
                    (left, ready.start) = (left - some, ready.start + some);
                }
                if let Some(wrong) = self.compare(number, cell, sum) {
                    return Err(self.damaged(wrong));
                }
            }
            Ok(())
        };
        agree(self.file.comm(), "verify", self.file.name(), walk())
    }

    fn damaged(&self, detail: String) -> Error {
        Error::new(Kind::Damaged, "verify", self.file.name(), detail)
    }

    /// A message if the checksum of a cell is wrong.
    fn compare(&self, number: u64, cell: CellEntry, sum: u32) -> Option<String> {
        let place = self.header.data() + cell.first * self.header.row;
        (cell.count > 0 && sum != cell.sum)
            .then(|| format!("byte {place}: the checksum of cell {number} is wrong"))
    }
}

/// Reads all cells of a file of any particle type, a share on each rank, and verifies the checksums. Collective.
pub fn verify(comm: &Comm, name: &str) -> Result<()> {
    RawCellFile::open(comm, name)?.verify()
}

/// The metadata of a cell file of any particle type.
#[derive(Clone, Debug, PartialEq)]
pub struct CellSummary {
    /// The domain and its cells.
    pub grid: CellGrid,
    /// The number of particles.
    pub particles: u64,
    /// Bytes of a particle.
    pub row: u64,
    /// The offset of the particles in the file.
    pub data: u64,
}

/// The metadata of a cell file. Header and table are read and verified, the particles are not read. Collective.
pub fn summary(comm: &Comm, name: &str) -> Result<CellSummary> {
    let CellHeader { grid, particles, row, .. } = RawCellFile::open(comm, name)?.header;
    Ok(CellSummary { grid, particles, row, data: cell_table::data(&grid) })
}

/// The first number for which `before` is false, or `end`.
fn partition(end: u64, before: impl Fn(u64) -> bool) -> u64 {
    let (mut low, mut high) = (0, end);
    while low < high {
        let middle = low + (high - low) / 2;
        if before(middle) { low = middle + 1 } else { high = middle }
    }
    low
}

/// The length of the file according to its header.
fn claimed_length(head: &[u8]) -> u64 {
    let word = |at: usize| {
        u64::from_le_bytes(head.get(at..).and_then(<[u8]>::first_chunk).copied().unwrap_or_default())
    };
    word(72).wrapping_mul(word(16)).wrapping_add(word(88))
}

/// Reads header and table; the length of the file bounds what is allocated.
fn load(comm: &Comm, name: &str) -> Result<Vec<u8>> {
    let file = File::open(&comm.comm_self(), name)?;
    let length = file.size()?;
    let mut bytes = vec![0; HEADER];
    let read = file.at(0).read(&mut bytes)?.bytes() as usize;
    let header =
        CellHeader::decode(&bytes[..read], length).map_err(|flaw| damaged_error("open", name, &flaw))?;
    let mut table = vec![0; header.grid.count() as usize * ENTRY];
    file.at(HEADER as u64).read(&mut table)?;
    cell_table::check(&header, &table).map_err(|flaw| damaged_error("open", name, &flaw))?;
    bytes.extend_from_slice(&table);
    Ok(bytes)
}

fn damaged_error(operation: &'static str, name: &str, flaw: &CellFileFlaw) -> Error {
    let CellFileFlaw { kind, place, what } = flaw;
    Error::new(*kind, operation, name, format!("byte {place}: {what}"))
}
