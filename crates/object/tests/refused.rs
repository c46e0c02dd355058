//! Compile errors: types that cannot be objects, wrong attributes, and the split form of an independent access.

#[test]
fn compile_errors_give_the_reason_and_the_remedy() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}
