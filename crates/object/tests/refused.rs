//! What cannot be an object is refused by the compiler, with the reason and the way out.

#[test]
fn what_cannot_be_an_object_says_why() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}
