//! Available memory follows the limit of a real control group. Skipped with a notice where none can be made.

use aqueduct_device::available_memory;
use aqueduct_testkit::control_group::LimitedGroup;

const LIMIT: u64 = 64 << 20;
const CHILD: &str = "AQUEDUCT_TEST_AVAILABLE_MEMORY_CHILD";

#[test]
fn the_limit_of_a_control_group_holds() {
    if std::env::var_os(CHILD).is_some() {
        let available = available_memory();
        assert!(available <= LIMIT && available > 0, "{available} bytes of {LIMIT}");
        return;
    }
    let Some(group) = LimitedGroup::new(LIMIT) else { return };
    assert!(available_memory() > LIMIT, "outside of the group");
    let child = group.run_test("the_limit_of_a_control_group_holds", CHILD);
    assert!(child.status.success(), "{}", String::from_utf8_lossy(&child.stdout));
}
