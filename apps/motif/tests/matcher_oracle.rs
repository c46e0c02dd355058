//! Random queries in random texts: the matcher finds what the naive search finds.

mod random;

use aqueduct_motif::matcher::Matcher;
use aqueduct_motif::naive;
use aqueduct_motif::query::{Query, ResidueKind};
use random::RandomSource;

/// The hits of the matcher, with the starts divided at random places.
fn found(query: &Query, text: &[u8], longest: usize, every: bool, cuts: &[usize]) -> Vec<naive::NaiveHit> {
    let mut matcher = Matcher::new(query, longest, every);
    let mut hits = Vec::new();
    let bounds: Vec<usize> = [&[0], cuts, &[text.len()]].concat();
    for pair in bounds.windows(2) {
        matcher.search(text, pair[0]..pair[1], |start, ends| {
            hits.push(naive::NaiveHit { start, ends: ends.to_vec() });
            true
        });
    }
    assert!(hits.is_sorted_by_key(|hit| hit.start), "starts ascend");
    hits.sort();
    hits
}

#[test]
fn random_queries_have_the_hits_of_the_naive_search() {
    let mut random = RandomSource::from_environment();
    let (mut hits, mut methods) = (0, std::collections::BTreeSet::new());
    for round in 0..3000 {
        let kind = if round % 4 == 3 { ResidueKind::Protein } else { ResidueKind::Dna };
        let text = random.text(kind, 150);
        let words = random.query(kind);
        let query = Query::parse(&words, kind).unwrap_or_else(|error| panic!("{error}"));
        let longest = query.most_length().unwrap_or(9).min(14);
        let every = random.below(3) == 0;
        let mut expected = naive::search(&query, &text, longest, every);
        expected.sort();
        let mut cuts: Vec<usize> = (0..random.below(3)).map(|_| random.below(text.len() + 1)).collect();
        cuts.sort_unstable();
        methods.insert(Matcher::new(&query, longest, every).method());
        let found = found(&query, &text, longest, every, &cuts);
        assert_eq!(found, expected, "{words} in {} (every {every})", String::from_utf8_lossy(&text));
        hits += found.len();
    }
    assert!(hits > 3000, "only {hits} hits");
    assert!(methods.len() >= 4, "only {methods:?}");
}

#[test]
fn long_words_use_all_blocks() {
    let mut random = RandomSource::from_environment();
    for length in [1, 2, 31, 63, 64, 65, 130] {
        let text = random.text(ResidueKind::Dna, 1000);
        for errors in ["", "/hamming(1)", "/hamming(5)", "/edit(1)", "/edit(3)"] {
            let at = random.below(text.len() - length);
            let word = String::from_utf8(text[at..at + length].to_vec()).unwrap();
            let query = Query::parse(&format!("({word}){errors}"), ResidueKind::Dna).unwrap();
            if length < 8 && errors.contains(['3', '5']) {
                continue;
            }
            let longest = query.most_length().unwrap();
            let expected = naive::search(&query, &text, longest, false);
            assert!(expected.iter().any(|hit| hit.start == at));
            assert_eq!(found(&query, &text, longest, false, &[]), expected, "{word}{errors}");
        }
    }
}

#[test]
fn a_set_of_words_is_searched_at_once() {
    let mut random = RandomSource::from_environment();
    let text = random.text(ResidueKind::Protein, 5000);
    let words: Vec<String> = (0..50)
        .map(|_| {
            let at = random.below(text.len() - 8);
            String::from_utf8(text[at..at + 4 + random.below(3)].to_vec()).unwrap()
        })
        .filter(|word| word.bytes().all(|letter| b"ACDEFGHIKLMNPQRSTVWY".contains(&letter)))
        .collect();
    let query = Query::parse(&words.join("|"), ResidueKind::Protein).unwrap();
    assert_eq!(Matcher::new(&query, 6, false).method(), "Aho-Corasick");
    assert_eq!(found(&query, &text, 6, false, &[100]), naive::search(&query, &text, 6, false));
}
