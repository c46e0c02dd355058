//! `aqueduct compact`.

mod test_folder;

use std::fs;

use aqueduct::comm::Launch;
use aqueduct::object::ObjectFile;
use test_folder::TestFolder;

#[test]
fn overwritten_objects_are_left_out() {
    let folder = TestFolder::new();
    let name = folder.path("grown");
    let write = |world: &aqueduct::comm::Comm| {
        let file = ObjectFile::create(world, &name)?;
        for round in 1..=4usize {
            let mine = (0..50).map(|at| "x".repeat(round * (at % 7 + 1))).collect::<Vec<_>>();
            file.at(50 * world.rank() as u64).all().write(&mine)?;
            file.commit()?;
        }
        file.close()
    };
    Launch::threads(2).run(write).unwrap();
    let length = |name: &str| fs::metadata(folder.path(name)).unwrap().len();
    let said = folder.succeed(&["compact", "-n", "3", "grown", "small"]);
    let expected =
        format!("grown -> small: 100 objects, {} bytes before, {} after", length("grown"), length("small"));
    assert_eq!(said.trim(), expected);
    assert!(2 * length("small") < length("grown"), "{said}");
    let dump = |name: &str| folder.succeed(&["dump", name]).replace(name, "NAME");
    assert_eq!(dump("grown"), dump("small"));
    folder.succeed(&["verify", "small"]);
    assert!(folder.exit_2(&["compact", "grown", "small"]).contains("small"), "an existing file is refused");
    fs::write(folder.path("plain"), "plain").unwrap();
    assert!(folder.exit_2(&["compact", "plain", "other"]).contains("plain"));
    assert!(!folder.path("other").exists());
}
