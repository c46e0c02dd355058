//! The target `rank_trace` of `crates/fuzz-targets` for cargo-fuzz.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    aqueduct_fuzz_targets::run_target("rank_trace", input);
});
