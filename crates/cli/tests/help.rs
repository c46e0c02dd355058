//! The help of the commands on files. After an intended change: `INSTA_UPDATE=always cargo test -p aqueduct-cli --test help`.

mod test_folder;

use test_folder::TestFolder;

#[test]
fn the_help_of_the_commands_on_files() {
    let folder = TestFolder::new();
    for command in ["inspect", "dump", "verify", "compare", "convert", "copy", "watch", "refs"] {
        let help = folder.succeed(&[command, "--help"]);
        // Readers find an example and the exit status in the help itself.
        assert!(help.contains("Examples:\n") && help.contains("Exit status:"), "{command}");
        insta::assert_snapshot!(command, help);
    }
}
