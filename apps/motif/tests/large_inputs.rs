//! Inputs as they occur: RNA, long runs of N, bgzip with its index; memory that does not depend on the size of the file; counts that agree with
//! probabilities.

mod processes;

use std::fs;
use std::io::Write;
use std::process::Stdio;
use std::thread;
use std::time::Duration;

use aqueduct_motif::matcher::estimate::HitEstimate;
use aqueduct_motif::query::{Query, ResidueKind};
use processes::{failure, motif, output};

fn count(arguments: &[&str]) -> u64 {
    output(&[&["search"], arguments, &["-q", "--count"]].concat()).trim().parse().unwrap()
}

#[test]
fn rna_is_recognised_and_shown_with_u() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rna.fa").display().to_string();
    fs::write(&path, ">one\nGGGAAAUUUCCC\nacguacgu\n>two\nAUGN\n").unwrap();
    let hits = |query: &str, more: &[&str]| {
        let table = output(&[&["search", query, &path, "-q", "-n", "3"], more].concat());
        let columns = |line: &str| {
            let columns: Vec<&str> = line.split('\t').collect();
            (columns[2].to_owned(), columns[3].parse::<u64>().unwrap(), columns[6].to_owned())
        };
        table.lines().map(columns).collect::<Vec<_>>()
    };
    let expected = vec![("one".to_owned(), 5, "AAUUU".to_owned())];
    assert_eq!(hits("AAUUU", &[]), expected);
    assert_eq!(hits("AATTT", &[]), expected, "T and U are the same");
    assert_eq!(hits("AUG", &[]), [("two".to_owned(), 1, "AUG".to_owned())]);
    let both = hits("GGGAAAU", &["--strands", "both"]);
    assert_eq!(
        both,
        [("one".to_owned(), 1, "GGGAAAU".to_owned()), ("one".to_owned(), 6, "GGGAAAU".to_owned())]
    );
}

#[test]
fn long_runs_of_n_cost_neither_hits_nor_memory() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("n.fa").display().to_string();
    let (word, run) = ("CCATATATGG", 3_000_000);
    fs::write(&path, format!(">a\n{word}{}{word}\n>b\n{}{word}\n", "N".repeat(run), "n".repeat(run)))
        .unwrap();
    for ranks in ["1", "2", "5"] {
        assert_eq!(count(&["CC(A|T){6}GG", &path, "-n", ranks]), 3, "{ranks} ranks");
        assert_eq!(count(&["GGN{4000}", &path, "-n", ranks]), 1);
        // N in a sequence may be any residue, so that only N of the query matches it.
        assert_eq!(count(&["G@[ACGT]", &path, "-n", ranks]), 3);
        assert_eq!(count(&["[^N]", &path, "-n", ranks, "--plain"]), 30);
    }
}

/// Blocks of bgzip with so many bytes, and the index of their offsets.
fn bgzip(text: &[u8], size: usize) -> (Vec<u8>, Vec<u8>) {
    let (mut file, mut index, mut blocks) = (Vec::new(), Vec::new(), 0u64);
    for (number, part) in text.chunks(size).chain([&[][..]]).enumerate() {
        if number > 0 {
            index.extend((file.len() as u64).to_le_bytes());
            index.extend(((number * size).min(text.len()) as u64).to_le_bytes());
            blocks += 1;
        }
        let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(part).unwrap();
        let body = encoder.finish().unwrap();
        let mut crc = flate2::Crc::new();
        crc.update(part);
        file.extend([0x1f, 0x8b, 8, 4, 0, 0, 0, 0, 0, 0xff, 6, 0, b'B', b'C', 2, 0]);
        file.extend((body.len() as u16 + 25).to_le_bytes());
        file.extend(body);
        file.extend(crc.sum().to_le_bytes());
        file.extend((part.len() as u32).to_le_bytes());
    }
    (file, [&blocks.to_le_bytes()[..], &index].concat())
}

#[test]
fn the_index_of_a_bgzip_file_is_used() {
    let folder = tempfile::tempdir().unwrap();
    let genome = processes::genome(folder.path(), "256KiB");
    let (bytes, index) = bgzip(&fs::read(&genome).unwrap(), 10_000);
    let (path, index_path) = (format!("{genome}.bgz"), format!("{genome}.bgz.gzi"));
    fs::write(&path, &bytes).unwrap();
    let expected = count(&["CC(A|T){6}GG", &genome]);
    assert!(expected > 30);
    assert_eq!(count(&["CC(A|T){6}GG", &path, "-n", "3"]), expected, "without an index");
    fs::write(&index_path, &index).unwrap();
    for ranks in ["1", "3", "7"] {
        assert_eq!(count(&["CC(A|T){6}GG", &path, "-n", ranks]), expected, "{ranks} ranks");
    }
    // An index of another file is noticed: this shows that it is used.
    let (_, other) = bgzip(&fs::read(&genome).unwrap(), 9_999);
    for wrong in [&other[..], &index[..index.len() - 8], &[]] {
        fs::write(&index_path, wrong).unwrap();
        let message = failure(&["search", "CC(A|T){6}GG", &path, "-q", "--count", "-n", "2"]);
        assert!(message.contains("genome.fa.bgz") && message.contains("block"), "{message}");
    }
}

/// The most memory of a command that must succeed, in bytes: looked at while it runs.
fn peak_memory(arguments: &[&str]) -> u64 {
    let mut child = motif(arguments).stdout(Stdio::null()).spawn().unwrap();
    let mut peak = 0;
    let status = loop {
        let text = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let value = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
        peak = peak.max(value.unwrap_or(0) << 10);
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        thread::sleep(Duration::from_millis(2));
    };
    assert!(status.success());
    peak
}

#[test]
fn memory_is_bounded_by_the_buffer() {
    let folder = tempfile::tempdir().unwrap();
    let (small, large) = (folder.path().join("small.fa"), folder.path().join("large.fa"));
    // One sequence in one line, so that neither lines nor sequences bound the memory.
    let make = |path: &std::path::Path, size: &str| {
        let path = path.display().to_string();
        output(&["generate", &path, "--size", size, "--sequences", "1", "--width", "0"]);
        path
    };
    let (small, large) = (make(&small, "4MiB"), make(&large, "32MiB"));
    for (query, strands) in [("CC(A|T){6}GG", "forward"), ("(CCATATATGGACGTACGTAC)/edit(2)", "both")] {
        let peak = |path: &str, buffer: &str| {
            peak_memory(&[
                "search",
                query,
                path,
                "-q",
                "--count",
                "-n",
                "2",
                "--buffer",
                buffer,
                "--strands",
                strands,
            ])
        };
        let (short, long) = (peak(&small, "256KiB"), peak(&large, "256KiB"));
        println!("{query}: {} MiB for 4 MiB, {} MiB for 32 MiB", short >> 20, long >> 20);
        assert!(long < 48 << 20, "{long} bytes");
        assert!(long < short + (12 << 20), "{short} bytes for 4 MiB, {long} for 32 MiB");
    }
}

#[test]
fn counts_agree_with_probabilities() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("random.fa").display().to_string();
    let residues = 8 << 20;
    output(&["generate", &path, "--size", "8MiB", "--sequences", "2", "--seed", "7"]);
    for query in [
        "CC(A|T){6}GG",
        "ACGTTGCA",
        "[^A]{3}TTACC",
        "(ACGTTGCATT)/hamming(2)",
        "(ACGTTGCATT)/edit(1)",
        "GGCC @ (TTAAGC)/hamming(1)",
        "ACG(T|TT|AC){2}CC",
    ] {
        let parsed = Query::parse(query, ResidueKind::Dna).unwrap();
        let estimate = HitEstimate::new(&parsed, parsed.most_length().unwrap());
        assert!(!estimate.is_lower_bound);
        let expected = estimate.per_start * f64::from(residues);
        let found = count(&[query, &path, "-n", "2"]) as f64;
        // Neighbouring starts are not independent, therefore six standard deviations.
        let tolerance = 6.0 * expected.sqrt();
        println!("{query}: {found} hits, {expected:.0} expected");
        assert!(
            expected > 100.0 && (found - expected).abs() < tolerance,
            "{query}: {found}, not {expected:.0}"
        );
    }
}

/// The hits of a search without the name of the file.
fn places(query: &str, path: &str, more: &[&str]) -> Vec<Vec<String>> {
    let table = output(&[&["search", query, path, "-q"], more].concat());
    table.lines().map(|line| line.split('\t').skip(1).map(str::to_owned).collect()).collect()
}

#[test]
fn packed_files_have_the_same_hits() {
    let folder = tempfile::tempdir().unwrap();
    let genome = processes::genome(folder.path(), "256KiB");
    let packed = folder.path().join("packed.seq").display().to_string();
    for bits in ["2", "4"] {
        let message = output(&["convert", &genome, "--output", &packed, "--bits", bits]);
        assert!(message.contains("262144 residues in 3 sequences"), "{message}");
        let size = fs::metadata(&packed).unwrap().len();
        assert!(size < 262_144 * bits.parse::<u64>().unwrap() / 8 + 300, "{size} bytes with {bits} bits");
        for (query, more) in [
            ("CC(A|T){6}GG", &["-n", "1"][..]),
            ("CC(A|T){6}GG", &["-n", "3", "--strands", "both", "--buffer", "999"]),
            ("(CCATATATGG)/edit(1)", &["-n", "5", "--distribute", "sequences"]),
            ("ACGTACGTAC", &["-n", "2", "--input", "master"]),
        ] {
            let expected = places(query, &genome, more);
            assert!(!expected.is_empty());
            assert_eq!(places(query, &packed, more), expected, "{query} {more:?}, {bits} bits");
        }
    }
    let text = fs::read(&packed).unwrap();
    for (at, cut) in [(20, text.len()), (text.len() - 3, text.len()), (0, text.len() - 1), (0, 40)] {
        let mut damaged = text[..cut].to_vec();
        damaged[at] ^= u8::from(at > 0);
        fs::write(&packed, &damaged).unwrap();
        let message = failure(&["search", "ACGT", &packed, "--count"]);
        assert!(message.contains("packed.seq"), "{message}");
    }
    let protein = folder.path().join("protein.fa").display().to_string();
    fs::write(&protein, ">a\nMKVLATNG\n").unwrap();
    assert!(failure(&["convert", &protein, "--output", &packed]).contains("only DNA and RNA"));
    assert_eq!(fs::read(&packed).unwrap().len(), 40, "a conversion that fails leaves the old file");
}

#[test]
fn packed_files_keep_all_letters() {
    let folder = tempfile::tempdir().unwrap();
    let (path, packed) = (folder.path().join("a.fa"), folder.path().join("a.seq").display().to_string());
    let text = "ACGT\nNNNR\r\n>one first\nacgunnnnRYKMacgt-X*ACG\nA>C\n>\n>last\nTTTTN";
    let (path, zipped) = (path.display().to_string(), format!("{}.gz", path.display()));
    fs::write(&path, text).unwrap();
    processes::gzip(&path);
    for (source, bits) in [(&path, "2"), (&path, "4"), (&zipped, "2"), (&zipped, "4")] {
        output(&["convert", source, "--output", &packed, "--bits", bits, "--kind", "dna"]);
        for (query, more) in
            [(".", &["--kind", "dna"][..]), (".{3}", &["-n", "4", "--buffer", "1", "--kind", "dna"])]
        {
            let expected = places(query, &path, more);
            assert!(expected.len() > 20);
            assert_eq!(places(query, &packed, more), expected, "{query}, {bits} bits of {source}");
        }
    }
    // Packed again, the file is the same.
    let again = folder.path().join("again.seq").display().to_string();
    output(&["convert", &packed, "--output", &again, "--bits", "4"]);
    assert_eq!(fs::read(&packed).unwrap(), fs::read(&again).unwrap());
}
