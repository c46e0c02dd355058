//! Errors of the query language name the column, and no input makes the parser panic.

use aqueduct_motif::query::{Query, QueryGrammar, ResidueKind};
use aqueduct_testkit::rng::SeededRng;

fn error(text: &str) -> (usize, String) {
    let error = Query::parse(text, ResidueKind::Dna).unwrap_err();
    (error.column, error.to_string())
}

#[test]
fn errors_have_a_column_and_a_caret() {
    let table = [
        ("", 0, "empty term"),
        ("AC @ ", 5, "empty term"),
        ("AC)", 2, "closes nothing"),
        ("(AC", 0, "not closed"),
        ("A[CG", 1, "not closed"),
        ("*A", 0, "repeats what stands before"),
        ("A{4,2}", 1, "swap them"),
        ("A{x}", 2, "expected a number"),
        ("A{5000}", 2, "at most 4096"),
        ("(A{4000}){4000}", 9, "written out"),
        ("AQC", 1, "`Q` is not a letter of dna"),
        ("AAA(CC)/gc(0,1)", 7, "put it in parentheses"),
        ("A{4000}@C{4000}@G{4000}@T{4000}@A{4000}", 32, "when written out"),
        ("(CC)/gg(0,1)", 5, "there is no constraint `gg`"),
        ("(CC)/gc(0)", 5, "least and its greatest"),
        ("(CC)/gc(5,1)", 5, "least and its greatest"),
        ("(CC)/charge(0,1)", 5, "does not apply"),
        ("(CC)/edit(1.5)", 5, "one integer"),
        ("(CC)/edit(1),hamming(1)", 13, "one distance only"),
        ("(CC)/gc(0,x)", 10, "expected a number"),
        ("(CC)/gc(0,1", 11, "expected `)`"),
        ("A\u{e9}", 1, "is not a letter"),
        ("()", 0, "empty word only"),
        ("A?*+?*C", 5, "quantifiers in a row"),
    ];
    for (query, column, message) in table {
        let (found, text) = error(query);
        assert_eq!(found, column, "{query}: {text}");
        assert!(text.contains(message), "{query}: {text}");
        let caret = text.lines().last().unwrap();
        assert_eq!(caret.find('^'), Some(column + 2), "{query}: {text}");
    }
}

#[test]
fn valid_queries_are_accepted() {
    for query in
        ["CC(A|T){6}GG", "ccw{6}gg", "A.*?", "(A|C|GT)+ @ [^A]{2,} @ (N{5})/gc(40,60),edit(1)", "[A-G]"]
    {
        Query::parse(query, ResidueKind::Dna).unwrap_or_else(|error| panic!("{error}"));
    }
    for query in
        ["N[^P][ST][^P]", "[RK]{2}.[ST]", r"M\*", "(L.{6}L)/hydropathy(0,5),charge(-1,1),pi(3,9),mass(0,9e9)"]
    {
        Query::parse(query, ResidueKind::Protein).unwrap_or_else(|error| panic!("{error}"));
    }
    let plain = QueryGrammar::new(ResidueKind::Dna).plain(true).parse("N").unwrap();
    assert_ne!(plain, Query::parse("N", ResidueKind::Dna).unwrap());
}

#[test]
fn self_complementary_queries_are_recognised() {
    let is = |query: &str| Query::parse(query, ResidueKind::Dna).unwrap().is_self_complementary();
    assert!(is("CC(A|T){6}GG") && is("GAATTC") && is("(ACGT)/gc(0,100),edit(1)") && is("AC @ N{3} @ GT"));
    assert!(!is("CCC(A|T){6}GG") && !is("(ACGT)/skew(-1,0)") && !is("(ACGT)/edit(1) @ ACGT"));
}

#[test]
fn random_text_never_panics() {
    let mut random = SeededRng::new(7);
    let words = [
        "A", "(", ")", "[", "]", "^", "|", "*", "{", "}", ",", "9", "/", "gc", "edit", "@", "\\", "-", "N",
        " ",
    ];
    for _ in 0..20_000 {
        let text: String = (0..random.below(24)).map(|_| words[random.below(words.len())]).collect();
        if let Err(error) = Query::parse(&text, ResidueKind::Dna) {
            assert!(error.column <= text.chars().count() && error.to_string().contains('^'), "{text}");
        }
    }
    let quantifiers = format!("A{}", "*".repeat(60_000));
    assert!(Query::parse(&quantifiers, ResidueKind::Dna).unwrap_err().to_string().contains("in a row"));
    let deep = "(".repeat(60_000);
    assert!(Query::parse(&deep, ResidueKind::Dna).unwrap_err().to_string().contains("nested"));
    let towers = "((((((A{9}){9}){9}){9}){9}){9}){9}";
    assert!(Query::parse(towers, ResidueKind::Dna).is_err());
}
