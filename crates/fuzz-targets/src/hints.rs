//! Hint files and hint values: the hints in force must parse to themselves.

use aqueduct_file::{Hints, Info};

use crate::FuzzTarget;

pub(crate) const TARGET: FuzzTarget = FuzzTarget {
    name: "hints",
    run,
    seeds,
    words: &[
        "cb_buffer_size ",
        "aqueduct_buffer ",
        "aqueduct_spill_size ",
        "aqueduct_strategy ",
        "file_perm ",
        "striping_unit ",
        "25%",
        "101%",
        "16MiB",
        "99999999999GiB",
        "18446744073709551615",
        "-1",
        "0o777",
        "\n",
        "#",
    ],
};

fn run(input: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(input) else { return false };
    let hints = Hints::parse(&Info::parse(text));
    assert_eq!(Hints::parse(&hints.info()), hints, "the hints in force do not parse to themselves");
    // Unknown hints and values are ignored: an input is accepted if it changes something.
    hints != Hints::default()
}

fn seeds() -> Vec<Vec<u8>> {
    let first = "# site\ncb_nodes 2\nstriping_unit   4096 # a stripe\ncb_buffer_size 65536\nfile_perm 640\nromio_cb_write enable\n";
    let second = "aqueduct_buffer 256MiB\naqueduct_spill scratch\naqueduct_spill_size 1GiB\naqueduct_strategy two-phase\naqueduct_map false\n";
    let third = "collective_buffering true\naqueduct_buffer 25%\nind_rd_buffer_size 1\nromio_ds_read disable\naqueduct_direct 1\n";
    [first, second, third].map(|text| text.as_bytes().to_vec()).into()
}
