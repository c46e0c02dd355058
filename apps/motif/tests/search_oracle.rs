//! The parallel search finds the hits of the naive search: 1 to 7 ranks, every distribution, every way to read, every position of a cut, with both
//! strands, within earlier hits, and in files of any line width, of gzip and of bgzip.

mod random;

use std::fs;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use aqueduct::comm::Launch;
use aqueduct_motif::hit::{Hit, Regions};
use aqueduct_motif::input::database::DatabaseFile;
use aqueduct_motif::input::piece_reader::InputMode;
use aqueduct_motif::naive;
use aqueduct_motif::query::alphabet::reverse_complement;
use aqueduct_motif::query::{Query, ResidueKind};
use aqueduct_motif::search::{FileDistribution, SearchSettings, search};
use random::RandomSource;

const DISTRIBUTIONS: [FileDistribution; 3] =
    [FileDistribution::Bytes, FileDistribution::Sequences, FileDistribution::Files];

/// A sequence: its name and its residues.
type Sequence = (String, Vec<u8>);

/// The text of a FASTA file with these sequences; the first one may lack its header.
fn fasta(random: &mut RandomSource, sequences: &[Sequence], headless: bool) -> Vec<u8> {
    let (width, end) = (1 + random.below(12), random.one(&["\n", "\r\n"]));
    let mut text = Vec::new();
    for (number, (name, residues)) in sequences.iter().enumerate() {
        if !(headless && number == 0) {
            text.extend(format!(">{name} described{end}").bytes());
        }
        for line in residues.chunks(width) {
            let lower = random.below(3) == 0;
            text.extend(line.iter().map(|letter| if lower { letter.to_ascii_lowercase() } else { *letter }));
            text.extend(end.bytes());
            if random.below(20) == 0 {
                text.extend(random.one(&["\n", ";comment >A\n", " \n"]).bytes());
            }
        }
    }
    if random.below(2) == 0 && !text.is_empty() {
        text.truncate(text.trim_ascii_end().len());
    }
    text
}

/// The hits of the naive search in a sequence, 1-based.
fn naive_spans(query: &Query, text: &[u8], settings: &SearchSettings) -> Vec<(u64, u64, bool, Vec<u64>)> {
    let lengths = |start: usize, ends: &[usize]| {
        let mut from = start;
        let length = |end: &usize| (end - std::mem::replace(&mut from, *end)) as u64;
        ends.iter().map(length).collect::<Vec<u64>>()
    };
    let mut spans = Vec::new();
    for hit in naive::search(query, text, settings.longest_hit(), settings.every) {
        let end = *hit.ends.last().unwrap() as u64;
        spans.push((hit.start as u64 + 1, end, false, lengths(hit.start, &hit.ends)));
    }
    if settings.searches_second_strand() {
        let mut reversed = Vec::new();
        reverse_complement(text, &mut reversed);
        for hit in naive::search(query, &reversed, settings.longest_hit(), settings.every) {
            let (start, end) = (text.len() - hit.ends.last().unwrap(), text.len() - hit.start);
            spans.push((start as u64 + 1, end as u64, true, lengths(hit.start, &hit.ends)));
        }
    }
    spans
}

/// What the search must find in files.
fn expected(files: &[(String, Vec<Sequence>, bool)], settings: &SearchSettings) -> Vec<Hit> {
    let mut hits = Vec::new();
    for (number, (file, sequences, headless)) in files.iter().enumerate() {
        for (at, (name, residues)) in sequences.iter().enumerate() {
            let sequence = at as u64 + u64::from(!headless);
            let name = if *headless && at == 0 { String::new() } else { name.clone() };
            let whole = std::iter::once(0..residues.len() as u64).collect::<Vec<_>>();
            let regions =
                settings.within.as_ref().map_or(&whole[..], |within| within.of_sequence(file, sequence));
            for region in regions {
                let base = region.start.min(residues.len() as u64);
                let text = &residues[base as usize..(region.end as usize).min(residues.len())];
                for (start, end, reverse, term_lengths) in naive_spans(&settings.query, text, settings) {
                    let mut part = text[start as usize - 1..end as usize].to_vec();
                    if reverse {
                        reverse_complement(&text[start as usize - 1..end as usize], &mut part);
                    }
                    hits.push(Hit {
                        file_number: number as u64,
                        sequence,
                        start: base + start,
                        end: base + end,
                        reverse: u8::from(reverse),
                        term_lengths,
                        file: file.clone(),
                        name: name.clone(),
                        residues: String::from_utf8(part).unwrap(),
                    });
                }
            }
        }
    }
    hits.sort();
    hits
}

fn found(names: &[String], settings: &SearchSettings, ranks: usize) -> Vec<Hit> {
    let all = Launch::threads(ranks).run(|world| -> anyhow::Result<Vec<Hit>> {
        let files = DatabaseFile::inspect(world, names)?;
        let outcome = search(world, &files, settings, None)?;
        assert!(outcome.complete);
        Ok(outcome.hits)
    });
    all.unwrap_or_else(|error| panic!("{error}")).swap_remove(0)
}

/// Shows the first difference.
fn assert_same(found: &[Hit], expected: &[Hit], what: &str) {
    let first = found.iter().zip(expected).position(|(found, expected)| found != expected);
    let at = first.unwrap_or(found.len().min(expected.len()));
    assert!(found == expected, "hit {at} is {:?}, not {:?}: {what}", found.get(at), expected.get(at));
}

fn store(folder: &Path, name: &str, text: &[u8], format: usize) -> String {
    let path = folder.join(name);
    let mut bytes = text.to_vec();
    if format > 0 {
        // Small blocks, as bgzip would make of a small file, or one member.
        let size = if format == 1 { text.len().max(1) } else { 37 };
        bytes = text
            .chunks(size)
            .flat_map(|part| if format == 1 { gzip(part) } else { bgzip_block(part) })
            .collect();
        if format > 1 {
            bytes.extend(bgzip_block(&[]));
        }
    }
    fs::write(&path, bytes).unwrap();
    path.display().to_string()
}

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

fn bgzip_block(text: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(text).unwrap();
    let body = encoder.finish().unwrap();
    let mut crc = flate2::Crc::new();
    crc.update(text);
    let size = (body.len() + 25) as u16;
    let head = [0x1f, 0x8b, 8, 4, 0, 0, 0, 0, 0, 255, 6, 0, b'B', b'C', 2, 0];
    [&head[..], &size.to_le_bytes(), &body, &crc.sum().to_le_bytes(), &(text.len() as u32).to_le_bytes()]
        .concat()
}

fn sequences(random: &mut RandomSource, kind: ResidueKind, count: usize, longest: usize) -> Vec<Sequence> {
    (0..count)
        .map(|at| {
            let length = [0, 1, longest][random.below(3)];
            (format!("s{at}"), if length == 0 { Vec::new() } else { random.text(kind, length.max(2)) })
        })
        .collect()
}

#[test]
fn random_searches_have_the_hits_of_the_naive_search() {
    let mut random = RandomSource::from_environment();
    let mut hits = 0;
    for round in 0..250 {
        let folder = tempfile::tempdir().unwrap();
        let kind = if round % 5 == 4 { ResidueKind::Protein } else { ResidueKind::Dna };
        let mut files = Vec::new();
        for number in 0..=random.below(3) {
            let count = 1 + random.below(4);
            let (sequences, headless) = (sequences(&mut random, kind, count, 60), random.below(4) == 0);
            let text = fasta(&mut random, &sequences, headless);
            let name = store(folder.path(), &format!("{number}.fa"), &text, random.below(4) % 3);
            files.push((name, sequences, headless));
        }
        let words = random.query(kind);
        let mut settings = SearchSettings::new(Query::parse(&words, kind).unwrap());
        settings.longest = Some(1 + random.below(12));
        settings.every = random.below(4) == 0;
        settings.both_strands = random.below(2) == 0;
        settings.buffer = random.one(&[1, 2, 7, 64, 4096]);
        if random.below(3) == 0 {
            let wider = SearchSettings::new(Query::parse("C", kind).unwrap());
            let earlier = expected(&files, &wider);
            let some: Vec<Hit> = earlier.into_iter().filter(|_| random.below(4) == 0).collect();
            settings.within = Some(Arc::new(Regions::of_hits(&some, random.below(9) as u64)));
        }
        let expected = expected(&files, &settings);
        let names: Vec<String> = files.iter().map(|(name, ..)| name.clone()).collect();
        for distribution in DISTRIBUTIONS {
            settings.distribution = distribution;
            settings.input = random.one(&[InputMode::Together, InputMode::Master]);
            let ranks = 1 + random.below(7);
            settings.shares = match distribution {
                FileDistribution::Bytes => {
                    (0..ranks).map(|rank| random.below(4) as u64 + u64::from(rank == ranks / 2)).collect()
                }
                _ => Vec::new(),
            };
            let found = found(&names, &settings, ranks);
            assert_same(&found, &expected, &format!("round {round}: {words} on {ranks} ranks, {settings:?}"));
        }
        hits += expected.len();
    }
    assert!(hits > 2000, "only {hits} hits");
}

#[test]
fn no_position_of_a_cut_loses_or_doubles_a_hit() {
    let mut random = RandomSource::from_environment();
    let folder = tempfile::tempdir().unwrap();
    let sequences = vec![
        ("first".to_owned(), b"ACGTTTACGAACGT".to_vec()),
        ("empty".to_owned(), Vec::new()),
        ("third".to_owned(), b"TTACGTA".to_vec()),
        ("last".to_owned(), b"ACGT".to_vec()),
    ];
    for words in ["ACGT", "(ACGT)/edit(1)", "A@C{0,1}@.{2}", "TTA"] {
        for format in [0, 2] {
            let text = fasta(&mut random, &sequences, false);
            let name = store(folder.path(), "cut.fa", &text, format);
            let mut settings = SearchSettings::new(Query::parse(words, ResidueKind::Dna).unwrap());
            settings.both_strands = true;
            let files = [(name.clone(), sequences.clone(), false)];
            let expected = expected(&files, &settings);
            assert!(!expected.is_empty());
            for cut in 0..=text.len() as u64 {
                // The second part has one byte, the third the rest: some parts lie within a header or a hit.
                let rest = text.len() as u64 - cut;
                settings.shares = vec![cut, rest.min(1), rest - rest.min(1)];
                assert_same(
                    &found(std::slice::from_ref(&name), &settings, 3),
                    &expected,
                    &format!("{words}, cut at {cut}"),
                );
            }
            settings.shares = Vec::new();
            for ranks in [1, 2, 5, 7, 40] {
                assert_same(
                    &found(std::slice::from_ref(&name), &settings, ranks),
                    &expected,
                    &format!("{words} on {ranks} ranks"),
                );
            }
        }
    }
}
