//! What simulation found of opening a log again.

use super::replay;

/// An open carried the record that nothing confirms, and not the acknowledged ones in the same
/// block (`failover.rs`). The image: the sync of the newest segment failed at that open and
/// garbled the block, and the page cache was lost later.
#[test]
fn found_by_seed_1319189() {
    replay(
        "seed 1319189 binary 11264 | synced ; a10 a14 a950 s0+56 u236 r a9 a0 ; @36 \
         spoiled-sync:11b2 @232 spoiled-sync:a840 @86 spoiled-sync:1a66 ; kill@77 | synced \
         ahead ; a3 a490 a428 r r v v a23 y ; @34 spoiled-sync:e74d @14 spoiled-sync:137b ; \
         detach@107 page:78c8 harm zeros/512:646d",
    );
}
