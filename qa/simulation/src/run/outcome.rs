//! What a run did and found.

/// The result of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Number of calls of the device.
    pub steps: u64,
    /// Checksum of all calls: equal for equal runs.
    pub trace: u64,
    /// Number of records that were appended and then acknowledged or shown, in all lives.
    pub records: u64,
    /// Number of single faults tried on copies.
    pub probes: u64,
    /// Number of damaged blocks, which parity can restore, tried on copies.
    pub mends: u64,
    /// Number of faults that happened in the lives.
    pub faults: u64,
    /// Number of segments in files that were used before.
    pub reused: u64,
    /// Number of rotations to a segment that had its name already.
    pub named_ahead: u64,
    /// Number of segments created because a write or sync failed.
    pub failovers: u64,
    /// Number of batches whose write began while another one was in flight.
    pub overlapped: u64,
    /// Number of batches that were compressed.
    pub compressed: u64,
    /// 1 if the log is encrypted; for several runs, the number of encrypted logs.
    pub encrypted: u64,
    /// Number of items that the last crash could have lost.
    pub pending_at_end: usize,
    /// The finding, if there is one.
    pub finding: Option<String>,
}

impl Outcome {
    /// Adds the numbers of another run. Trace, pending items and finding remain those of this one.
    pub fn add(&mut self, other: &Self) {
        self.steps += other.steps;
        self.records += other.records;
        self.probes += other.probes;
        self.mends += other.mends;
        self.faults += other.faults;
        self.reused += other.reused;
        self.named_ahead += other.named_ahead;
        self.failovers += other.failovers;
        self.overlapped += other.overlapped;
        self.compressed += other.compressed;
        self.encrypted += other.encrypted;
    }
}
