//! Chooses how a replay writes to the store. A pure decision, one row for each reason.

/// The inputs of the decision.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Facts {
    /// The store has a bulk ingestion.
    pub(crate) can_ingest: bool,
    /// The caller fixed the size of batches.
    pub(crate) is_size_fixed: bool,
    /// All partitions of the store have applied the same commit. Otherwise a change would have to
    /// be skipped for some keys and not for others.
    pub(crate) is_level: bool,
    /// The number of changes that the store lacks.
    pub(crate) missing: u64,
    /// The minimum number of missing changes for which ingestion is worth the sorting.
    pub(crate) bulk_from: u64,
}

/// How changes are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// In batches, as they are read.
    Batches,
    /// All at once, sorted.
    Bulk,
}

/// Chooses how changes are written.
pub(crate) fn choose(facts: Facts) -> Way {
    match facts {
        Facts { can_ingest: false, .. }
        | Facts { is_size_fixed: true, .. }
        | Facts { is_level: false, .. } => Way::Batches,
        Facts { missing, bulk_from, .. } if missing < bulk_from => Way::Batches,
        _ => Way::Bulk,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAR_BEHIND: Facts = Facts {
        can_ingest: true,
        is_size_fixed: false,
        is_level: true,
        missing: 100,
        bulk_from: 100,
    };

    #[test]
    fn store_that_is_far_behind_ingests() {
        assert_eq!(choose(FAR_BEHIND), Way::Bulk);
    }

    #[test]
    fn store_without_ingestion_gets_batches() {
        assert_eq!(choose(Facts { can_ingest: false, ..FAR_BEHIND }), Way::Batches);
    }

    #[test]
    fn fixed_size_of_batches_is_kept() {
        assert_eq!(choose(Facts { is_size_fixed: true, ..FAR_BEHIND }), Way::Batches);
    }

    #[test]
    fn partitions_at_different_commits_get_batches() {
        assert_eq!(choose(Facts { is_level: false, ..FAR_BEHIND }), Way::Batches);
    }

    #[test]
    fn store_that_lacks_little_gets_batches() {
        assert_eq!(choose(Facts { missing: 99, ..FAR_BEHIND }), Way::Batches);
    }
}
