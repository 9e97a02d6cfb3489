//! What `--help` ends with: the exit codes, and examples for each verb. The texts are in `help`.

/// A text, without the line break at its end.
macro_rules! help {
    ($name:literal) => {
        include_str!(concat!("help/", $name, ".txt")).trim_ascii_end()
    };
}

pub(super) const EXIT_CODES: &str = help!("exit-codes");
pub(super) const APPEND_EXAMPLES: &str = help!("append");
pub(super) const CAT_EXAMPLES: &str = help!("cat");
pub(super) const TAIL_EXAMPLES: &str = help!("tail");
pub(super) const COPY_EXAMPLES: &str = help!("copy");
pub(super) const CONVERT_EXAMPLES: &str = help!("convert");
pub(super) const TRUNCATE_EXAMPLES: &str = help!("truncate");
pub(super) const EXPLAIN_EXAMPLES: &str = help!("explain");
pub(super) const VERIFY_EXAMPLES: &str = help!("verify");
pub(super) const REPAIR_EXAMPLES: &str = help!("repair");
pub(super) const PROTECT_EXAMPLES: &str = help!("protect");
pub(super) const REPLAY_EXAMPLES: &str = help!("replay");
pub(super) const STAT_EXAMPLES: &str = help!("stat");
pub(super) const DOCTOR_EXAMPLES: &str = help!("doctor");
pub(super) const PROBE_EXAMPLES: &str = help!("probe");
pub(super) const COMPLETIONS_EXAMPLES: &str = help!("completions");
pub(super) const MAN_EXAMPLES: &str = help!("man");
pub(super) const BENCH_EXAMPLES: &str = help!("bench");
pub(super) const DEMO_EXAMPLES: &str = help!("demo");
pub(super) const DISK_SERVE_EXAMPLES: &str = help!("disk-serve");
pub(super) const DISK_CONFIG_EXAMPLES: &str = help!("disk-config");
pub(super) const DISK_STATUS_EXAMPLES: &str = help!("disk-status");
pub(super) const DISK_FLUSH_EXAMPLES: &str = help!("disk-flush");
pub(super) const DISK_DRAIN_EXAMPLES: &str = help!("disk-drain");
pub(super) const DISK_EMERGENCY_EXAMPLES: &str = help!("disk-emergency");
