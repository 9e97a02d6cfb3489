//! Checks that the example of tasks that await their records runs and prints the expected result.

use std::process::Command;

#[test]
fn tasks_of_a_runtime_share_syncs() {
    let here = std::env::current_exe().unwrap();
    let target = here.parent().and_then(std::path::Path::parent).unwrap();
    let folder = std::env::temp_dir().join(format!("seawall-tasks-{}", std::process::id()));
    let program = target.join("examples/tokio_tasks");
    let ran = Command::new(program).arg(&folder).arg("300").output().unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    let said = String::from_utf8(ran.stdout).unwrap();
    let start = "300 tasks, the last record is 300; ";
    let syncs = said.strip_prefix(start).and_then(|rest| rest.split(' ').next());
    let syncs: u32 = syncs.unwrap_or_else(|| panic!("{said}")).parse().unwrap();
    assert!(ran.status.success() && (1..=300).contains(&syncs), "{said}");
}
