//! Findings with a full disk.

use super::replay;

/// A preallocated segment was discarded for a larger one, for which the disk was too full. Records
/// in the open batch had their space in it: the log was poisoned (`full_disk.rs`).
#[test]
fn found_by_seed_131a0bc() {
    replay(
        "seed 131a0bc text 5120 | synced ahead ring:8192 ; u3 s3+57+16+3 / u137 a923 u2 a10 z93 \
         / u263 a398 s54+1+94 a12 o / p7 u21 u922 p3 o a122 s189+185 / a154 s190+78+1+184 / f \
         x0 u3 a17 a9 a260 z52 a45 a397 u403 / p7 s44 / o u6 u333 a135 ; @54 full:e553 @134 \
         full:85b0 ; drop probe 8:2b17",
    );
}
