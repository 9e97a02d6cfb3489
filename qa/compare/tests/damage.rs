//! Tests that the damage table in the repository is what the command prints.

use std::process::Command;

/// The rows that `docs/damage.md` shows beside those of Seawall.
const TABLE: &str = include_str!("../damage.txt");

#[test]
fn each_log_does_with_damage_what_the_table_says() {
    let folder = std::env::temp_dir();
    let ran = Command::new(env!("CARGO_BIN_EXE_seawall-compare"))
        .args(["damage", "--dir"])
        .arg(&folder)
        .output()
        .unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let printed = String::from_utf8(ran.stdout).unwrap();
    let news: Vec<_> = printed.lines().filter(|line| !TABLE.contains(line)).collect();
    assert_eq!(printed, TABLE, "other rows: {news:#?}");
}
