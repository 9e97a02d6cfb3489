//! Statistics of the writer.

/// Statistics of the writer.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) batches: u64,
    pub(crate) records: u64,
    pub(crate) bytes: u64,
    pub(crate) compressed: u64,
    pub(crate) plain_bytes: u64,
    pub(crate) rolls: u64,
    pub(crate) marks: u64,
    pub(crate) failovers: u64,
    pub(crate) live_failures: u64,
    pub(crate) pruned: u64,
    pub(crate) reused: u64,
    pub(crate) named_ahead: u64,
    pub(crate) overlapped: u64,
    pub(crate) parity_stripes: u64,
    pub(crate) parity_failures: u64,
}
