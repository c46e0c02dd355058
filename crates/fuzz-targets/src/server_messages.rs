//! Messages between clients and I/O servers: what is decoded must encode to a message that decodes to the same.

use crate::FuzzTarget;

pub(crate) const TARGET: FuzzTarget = FuzzTarget {
    name: "server_messages",
    run,
    seeds: aqueduct_stream::sample_messages,
    words: &["\u{1}\0", "\u{1}\u{1}", "\u{1}\u{2}", "whole", "\"shape\":[", "f64", "\0\0\0\0\0\0\0\0"],
};

fn run(input: &[u8]) -> bool {
    let forms = aqueduct_stream::decoded_forms(input);
    for form in &forms {
        assert!(
            aqueduct_stream::decoded_forms(form).contains(form),
            "a decoded message is encoded differently"
        );
    }
    !forms.is_empty()
}
