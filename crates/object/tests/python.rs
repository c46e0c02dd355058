//! The Python reader of the documentation reads object files. Skipped with a message if there is no numpy; `AQUEDUCT_REQUIRE_NUMPY=1` makes that a failure.

use std::process::Command;

use aqueduct_comm::Launch;
use aqueduct_file::Mode;
use aqueduct_object::schema::ByteOrder;
use aqueduct_object::{Object, ObjectOpenOptions};

#[derive(Object, Clone)]
struct Inner {
    pair: (u16, i64),
    on: bool,
}

#[derive(Object, Clone)]
struct Record {
    id: u32,
    position: [[f32; 2]; 3],
    inner: [Inner; 2],
    letter: char,
}

const CHECK: &str = r#"
import sys
data = objects(sys.argv[1])
assert data.shape == (6,), data.shape
assert data["id"].tolist() == [0, 1, 2, 3, 4, 5], data["id"]
assert data["position"].shape == (6, 3, 2) and data["position"][4][2][1] == 4.5, data["position"]
assert data["inner"]["pair"]["f1"][3].tolist() == [-3, -3], data["inner"]
assert data["inner"]["on"][5].tolist() == [True, True] and chr(data["letter"][2]) == "c"
print("read")
"#;

/// The first python3 on the path may lack the packages that the system's python3 has.
fn python_with_numpy() -> Option<&'static str> {
    ["python3", "/usr/bin/python3"].into_iter().find(|python| {
        let found = Command::new(python).args(["-c", "import numpy"]).output();
        found.is_ok_and(|found| found.status.success())
    })
}

#[test]
fn numpy_reads_objects_of_constant_size() {
    let Some(python) = python_with_numpy() else {
        assert!(
            std::env::var_os("AQUEDUCT_REQUIRE_NUMPY").is_none(),
            "python3 with numpy is missing: apt-get install python3-numpy"
        );
        eprintln!("skipped: there is no python3 with numpy");
        return;
    };
    let text = include_str!("../../../docs/objects.md");
    let reader = text.split("```python").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let reader = reader.split("if __name__").next().unwrap();
    let folder = tempfile::tempdir().unwrap();
    for order in [ByteOrder::Little, ByteOrder::Big] {
        let path = folder.path().join(order.to_string());
        let job = |world: &aqueduct_comm::Comm| {
            let record = |id: u32| {
                let inner = Inner { pair: (1, -i64::from(id)), on: id == 5 };
                let letter = char::from(b'a' + id as u8);
                Record { id, position: [[0.0, id as f32 + 0.5]; 3], inner: [inner.clone(), inner], letter }
            };
            let open = ObjectOpenOptions::new(Mode::read_write().create()).byte_order(order);
            let file = open.open(world, &path)?;
            let first = 3 * world.rank() as u32;
            file.at(first.into()).all().write(&(first..first + 3).map(record).collect::<Vec<_>>())?;
            file.close()
        };
        Launch::threads(2).run(job).unwrap();
        let program = format!("{reader}{CHECK}");
        let outcome = Command::new(python).args(["-c", &program]).arg(&path).output().unwrap();
        assert_eq!(
            String::from_utf8_lossy(&outcome.stdout),
            "read\n",
            "{}",
            String::from_utf8_lossy(&outcome.stderr)
        );
    }
}
