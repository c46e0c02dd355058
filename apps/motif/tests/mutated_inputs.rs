//! Mutated sequence files, queries and requests: no panic, no hang, and the service still works. `AQUEDUCT_MUTATIONS` sets their number.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use aqueduct::comm::Launch;
use aqueduct_motif::input::database::DatabaseFile;
use aqueduct_motif::input::packed::{
    HEADER_SIZE, LetterRun, PackedHeader, PackedIndex, PackedSequence, index_checksum, write_entry,
};
use aqueduct_motif::protocol::http_server::{HttpRequest, HttpService};
use aqueduct_motif::protocol::users::UserTable;
use aqueduct_motif::protocol::xml_rpc::{self, MethodResponse};
use aqueduct_motif::query::{Query, ResidueKind};
use aqueduct_motif::search::{SearchSettings, search};
use aqueduct_motif::service::api::{DatabaseList, SearchService};
use aqueduct_motif::service::search_store::{SearchStore, StoreLimits};
use aqueduct_testkit::mutator::Mutator;
use serde_json::{Value, json};

fn seed() -> u64 {
    let seed = std::env::var("AQUEDUCT_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(23);
    println!("AQUEDUCT_SEED={seed}");
    seed
}

fn mutations(default: usize) -> usize {
    std::env::var("AQUEDUCT_MUTATIONS").ok().and_then(|count| count.parse().ok()).unwrap_or(default)
}

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

/// One block of the BGZF format, and the empty block that ends a file.
fn bgzip(text: &[u8]) -> Vec<u8> {
    let block = |part: &[u8]| {
        let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(part).unwrap();
        let body = encoder.finish().unwrap();
        let mut crc = flate2::Crc::new();
        crc.update(part);
        let mut bytes = vec![0x1f, 0x8b, 8, 4, 0, 0, 0, 0, 0, 0xff, 6, 0, b'B', b'C', 2, 0];
        bytes.extend((body.len() as u16 + 25).to_le_bytes());
        bytes.extend(body);
        bytes.extend(crc.sum().to_le_bytes());
        bytes.extend((part.len() as u32).to_le_bytes());
        bytes
    };
    text.chunks(50).chain([&[][..]]).flat_map(block).collect()
}

fn search_file(path: &Path, ranks: usize) -> Result<Vec<(u64, u64)>, String> {
    let names = [path.display().to_string()];
    let all = Launch::threads(ranks).run(|world| -> Result<Vec<(u64, u64)>, String> {
        let files = DatabaseFile::inspect(world, &names).map_err(|error| format!("{error:#}"))?;
        let mut settings = SearchSettings::new(Query::parse("(ACG)/edit(1)", ResidueKind::Dna).unwrap());
        settings.buffer = 64;
        settings.both_strands = true;
        let outcome = search(world, &files, &settings, None).map_err(|error| format!("{error:#}"))?;
        Ok(outcome.hits.iter().map(|hit| (hit.start, hit.end)).collect())
    });
    all.map(|mut all| all.swap_remove(0)).map_err(|error| error.to_string())
}

#[test]
fn mutated_sequence_files_are_searched_or_refused_by_name() {
    let text =
        b">first one\nACGTACGTTAGC\nACGNNNACGT\n;comment\n>second\r\nACGT\r\n\r\n>empty\n>last\nACG".to_vec();
    let seeds = [text.clone(), gzip(&text), bgzip(&text)];
    let mut mutator = Mutator::new(seed(), &[">", "\n>", "\r\n", ";", "ACGT", "\u{1f}\u{8b}\u{8}"]);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mutated.fa");
    let (mut searched, mut refused) = (0, 0);
    for _ in 0..mutations(400) {
        let bytes = mutator.mutate(&seeds);
        fs::write(&path, &bytes).unwrap();
        // The number of ranks changes neither the hits nor whether the file is refused.
        let (one, three) = (search_file(&path, 1), search_file(&path, 3));
        match (&one, &three) {
            (Ok(one), Ok(three)) => {
                assert_eq!(one, three, "{bytes:?}");
                searched += 1;
            }
            (Err(error), Err(other)) => {
                assert!(error.contains("mutated.fa") && other.contains("mutated.fa"), "{error} / {other}");
                refused += 1;
            }
            _ => panic!("one rank: {one:?}, three ranks: {three:?}, {bytes:?}"),
        }
    }
    assert!(searched > 0 && refused > 0, "{searched} searched, {refused} refused");
}

/// The checksum is made right, so that the parser of the index gets the mutations.
#[test]
fn mutated_indexes_of_packed_files_are_refused_or_consistent() {
    let sequence = |name: Option<&str>, residues: u64, runs: &[(u64, u64)]| PackedSequence {
        residues,
        name: name.map(|name| name.as_bytes().to_vec()),
        runs: runs.iter().map(|(from, to)| LetterRun { residues: *from..*to, letter: b'N' }).collect(),
    };
    let all = [
        sequence(None, 9, &[(2, 4)]),
        sequence(Some("a"), 0, &[]),
        sequence(Some("b"), 33, &[(0, 1), (20, 33)]),
    ];
    let mut index = Vec::new();
    all.iter().for_each(|sequence| write_entry(sequence, &mut index));
    let mut mutator = Mutator::new(seed(), &["\u{1}", "N", "\0\0\0\0"]);
    let (mut parsed, mut refused) = (0, 0);
    let seeds = [index];
    for _ in 0..mutations(20_000) {
        let index = mutator.mutate(&seeds);
        let header = PackedHeader {
            bits: 2,
            kind: ResidueKind::Dna,
            sequences: 3,
            residues: 42,
            index_offset: HEADER_SIZE as u64 + 12,
            index_length: index.len() as u64,
            index_crc: index_checksum(&index),
        };
        assert_eq!(
            PackedHeader::parse(&header.to_bytes(), header.index_offset + header.index_length).unwrap(),
            header
        );
        let Ok(packed) = PackedIndex::parse(&header, &index) else {
            refused += 1;
            continue;
        };
        parsed += 1;
        let length = packed.length() as usize;
        assert!(length < 1 << 20, "the text is bounded by the file");
        for (offset, count) in
            [(0, length), (length / 2, length - length / 2), (length / 3, 1.min(length - length / 3))]
        {
            let (_, stored) = packed.stored_range(offset as u64, count);
            let mut text = Vec::new();
            packed.unpack(&vec![0; stored], offset as u64, count, &mut text).unwrap();
            assert_eq!(text.len(), count);
        }
    }
    assert!(parsed > 0 && refused > 0, "{parsed} parsed, {refused} refused");
}

#[test]
fn mutated_queries_are_parsed_or_refused_with_a_column() {
    let seeds = [
        "CC(A|T){6}GG",
        "TATA @ (N{5,20})/gc(40,100) @ (ACGTACGT)/edit(1)",
        "(GAATTC)/hamming(1),palindrome(2)",
        "[^A-G]{2,}.*?(AC|)+",
    ]
    .map(|query| query.as_bytes().to_vec());
    let words = ["@", "(", ")/", "gc(", "edit(9)", "{4096}", "99999999999999999999", "\u{e9}", "|", "["];
    let mut mutator = Mutator::new(seed(), &words);
    let mut parsed = 0;
    for _ in 0..mutations(20_000) {
        let bytes = mutator.mutate(&seeds);
        let text = String::from_utf8_lossy(&bytes);
        match Query::parse(&text, ResidueKind::Dna) {
            Ok(_) => parsed += 1,
            Err(error) => {
                assert!(error.column <= text.chars().count() && error.to_string().contains('^'), "{text}");
            }
        }
    }
    assert!(parsed > 0);
}

#[derive(Debug)]
struct NoDatabases;

impl DatabaseList for NoDatabases {
    fn list(&self) -> anyhow::Result<Value> {
        Ok(json!([]))
    }

    fn lengths(&self, _: &str, _: &[u64]) -> anyhow::Result<Value> {
        Ok(json!([]))
    }
}

#[test]
fn mutated_requests_leave_the_service_working() {
    let store = Arc::new(SearchStore::new(StoreLimits::default()));
    let service = SearchService {
        store: Arc::clone(&store),
        users: UserTable::default(),
        databases: Box::new(NoDatabases),
        page: None,
    };
    let send = |path: &str, query: &str, body: &[u8]| {
        service.answer(&HttpRequest {
            method: "POST".to_owned(),
            path: path.to_owned(),
            query: query.to_owned(),
            host: "localhost".to_owned(),
            content_type: if path == "/RPC2" { "text/xml" } else { "application/json" }.to_owned(),
            body: body.to_vec(),
            ..HttpRequest::default()
        })
    };
    let request = json!({"query": "CC(A|T){6}GG", "kind": "dna", "strands": "both", "most": 5, "within": 1});
    let calls: [(&str, Vec<Value>); 4] = [
        ("motif.search", vec![request]),
        ("motif.hits", vec![json!(1), json!(0), json!(10)]),
        ("motif.status", vec![json!(1)]),
        ("motif.check", vec![json!("(AC)/edit(1)"), json!("dna")]),
    ];
    let xml: Vec<Vec<u8>> = calls
        .iter()
        .map(|(method, parameters)| xml_rpc::write_call(method, parameters).into_bytes())
        .collect();
    let json: Vec<Vec<u8>> = calls
        .iter()
        .map(|(_, parameters)| Value::from(parameters.clone()).to_string().into_bytes())
        .collect();
    let words =
        ["<value>", "</struct>", "<array><data>", "&#0;", "<!DOCTYPE a [", "null", "[[", "-1", "1e999"];
    let mut mutator = Mutator::new(seed(), &words);
    for _ in 0..mutations(10_000) {
        let answer = send("/RPC2", "", &mutator.mutate(&xml));
        assert_eq!(answer.status, 200, "an error is a fault inside of a response");
        // The answer is always a response; what was refused is a fault.
        xml_rpc::parse_response(&String::from_utf8(answer.body).unwrap()).unwrap();
        for method in ["search", "hits", "status", "check"] {
            let answer = send(&format!("/api/{method}"), "id=1&format=tsv", &mutator.mutate(&json));
            assert!([200, 400].contains(&answer.status), "{}", answer.status);
        }
        // What was accepted is bounded, and is taken from the queue again.
        while let Some(job) = store.next_job(Duration::ZERO) {
            store.finish(job.id, Ok((Vec::new(), true)));
        }
    }
    let answer = send("/RPC2", "", &xml[3]);
    let response = xml_rpc::parse_response(&String::from_utf8(answer.body).unwrap()).unwrap();
    assert!(matches!(&response, MethodResponse::Value(value) if value["valid"] == true), "{response:?}");
}
