//! Random genomes with planted motifs.

use std::io::{self, Write};

/// What is generated.
#[derive(Clone, Debug)]
pub struct GenomeSettings {
    /// The number of sequences.
    pub sequences: u64,
    /// The number of residues of all sequences.
    pub residues: u64,
    /// The seed: the same one gives the same genome.
    pub seed: u64,
    /// The width of lines; 0 writes each sequence as one line.
    pub width: usize,
    /// A word that is planted, and how often in each sequence.
    pub plant: Option<(Vec<u8>, u64)>,
}

/// Random numbers: `SplitMix64`.
struct SplitMix(u64);

impl SplitMix {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }
}

/// Writes a genome of uniform random DNA as FASTA; returns the name of the sequence and the first residue (from 1) of each planted word.
pub fn write_genome(out: &mut impl Write, settings: &GenomeSettings) -> io::Result<Vec<(String, u64)>> {
    const PIECE: u64 = 1 << 20;
    let (mut random, mut planted) = (SplitMix(settings.seed), Vec::new());
    let sequences = settings.sequences.max(1);
    for number in 0..sequences {
        let length = settings.residues * (number + 1) / sequences - settings.residues * number / sequences;
        let name = format!("chr{}", number + 1);
        writeln!(out, ">{name} random DNA, seed {}", settings.seed)?;
        let places = places(&mut random, length, settings.plant.as_ref());
        planted.extend(places.iter().map(|place| (name.clone(), place + 1)));
        let word = settings.plant.as_ref().map_or(&[][..], |(word, _)| word);
        let (mut piece, mut column, mut next, mut open) = (Vec::with_capacity(PIECE as usize), 0, 0, 0);
        let mut at = 0;
        while at < length {
            let count = PIECE.min(length - at);
            piece.clear();
            while (piece.len() as u64) < count {
                let mut bits = random.next();
                for _ in 0..32.min(count as usize - piece.len()) {
                    piece.push(b"ACGT"[(bits & 3) as usize]);
                    bits >>= 2;
                }
            }
            for (offset, letter) in piece.iter_mut().enumerate() {
                if places.get(next) == Some(&(at + offset as u64)) {
                    (next, open) = (next + 1, word.len());
                }
                if open > 0 {
                    *letter = word[word.len() - open];
                    open -= 1;
                }
            }
            write_lines(out, &piece, settings.width, &mut column)?;
            at += count;
        }
        if column > 0 || settings.width == 0 {
            writeln!(out)?;
        }
    }
    Ok(planted)
}

/// Places that do not overlap: one in each of as many equal parts.
fn places(random: &mut SplitMix, length: u64, plant: Option<&(Vec<u8>, u64)>) -> Vec<u64> {
    let Some((word, count)) = plant.filter(|(_, count)| *count > 0) else { return Vec::new() };
    let part = length / count;
    let Some(room) = part.checked_sub(word.len() as u64) else { return Vec::new() };
    (0..*count).map(|at| at * part + random.next() % (room + 1)).collect()
}

fn write_lines(out: &mut impl Write, piece: &[u8], width: usize, column: &mut usize) -> io::Result<()> {
    if width == 0 {
        return out.write_all(piece);
    }
    let mut rest = piece;
    while !rest.is_empty() {
        let count = rest.len().min(width - *column);
        out.write_all(&rest[..count])?;
        rest = &rest[count..];
        *column += count;
        if *column == width {
            out.write_all(b"\n")?;
            *column = 0;
        }
    }
    Ok(())
}
