//! Findings when a log is opened again.

use super::replay;

/// An open rewrote a record that nothing confirms, but not the acknowledged records in the same
/// block (`failover.rs`). Image: the sync of the newest segment failed in that open and garbled the
/// block, and the page cache was lost later.
#[test]
fn found_by_seed_1319189() {
    replay(
        "seed 1319189 binary 11264 | synced ; a10 a14 a950 s0+56 u236 r a9 a0 ; @36 \
         spoiled-sync:11b2 @232 spoiled-sync:a840 @86 spoiled-sync:1a66 ; kill@77 | synced \
         ahead ; a3 a490 a428 r r v v a23 y ; @34 spoiled-sync:e74d @14 spoiled-sync:137b ; \
         detach@107 page:78c8 harm zeros/512:646d",
    );
}

/// A truncating repair removed the segment that it had just created, because that had the name of a
/// file after the truncation (`repair/cutting.rs`).
#[test]
fn repair_keeps_the_segment_that_it_makes() {
    replay(
        "seed 6fc23c85a binary 7168 | buffered name-ahead ; a10 ; @21 full:7a07 @95 full:7745 \
         @41 full:d553 ; kill@51 harm stale-file/512:c88b | buffered in-flight:2 compress \
         idle ; / s218+21 a683 a172 a188 a532 a433 / a718 a537 a669 / a669 s252+56+127 \
         s59+99+150 a791 a414 s54 ; @1 full:4eb0 @6 full:ccad @39 full:733e ; power@69 \
         sector:f433 harm bit/512:588d | synced ahead name-ahead in-flight:3 compress ; a945 \
         s350+405 a673 a826 a1 s176+137+109 ; @55 full:b9c5 ; drop harm stale-file/512:a0e2 | \
         confirmed name-ahead in-flight:3 compress:off ; a943 a360 c l a672 a950 / a499 / \
         a518 a840 ; @52 full:30fc ; detach@0 page:ac88 harm stale-file/512:5566 | buffered \
         ahead name-ahead in-flight:3 compress ring:5120 ; s174+252 s721 s131+136+63+18 / \
         a670 a801 a671 a155 a411 / a758 s91+69+24 s140 a666 / a592 a253 a668 s164+70+197+35 \
         a913 ; @35 full:944e @72 full:c86c ; kill@18 harm duplicated-file/512:81d9",
    );
}

/// A wrong read of the file `keys` occurred when the log was unlocked; the later read that checks
/// for a lost file was correct (`load.rs`). So the open reported that no key was given.
#[test]
fn keys_that_are_misread_once_are_read_again() {
    replay(
        "seed 363e8062 binary 7168 | synced encrypt ring:6144 ; a10 ; @98 \
         misdirected-read:f8e7 ; power@186 byte:12d0 harm copied/512:46b1 | synced ahead reuse \
         name-ahead ring:6144 ; a790 a790 s89+56+179+54 a19 z271 g1 a726 / a790 a789 a201 / \
         a790 a790 a467 ; @32 misdirected-read:5fc2 @12 misdirected-read:bd58 ; power@426 \
         sector:69cd harm stale-file/512:ef12",
    );
    replay(
        "seed 363ed86d binary 5120 | synced name-ahead compress:off encrypt ; a10 ; @21 \
         misdirected-read:a75e ; kill@64 harm stale-file/512:1553 | synced compress ; a593 \
         s78+96 a712 a662 s232+174+194 a766 ; @25 misdirected-read:331f ; drop harm \
         cut-short/512:3ee1 | synced name-ahead compress idle ; ; @12 misdirected-read:c4cc ; \
         power@75 sector:8c0b harm stale/512:8355",
    );
}
