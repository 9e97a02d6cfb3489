//! What simulation found of a device that loses writes and calls the sync a success. None of it was
//! the log's: the disk was as if nothing had been written, and the oracle expected more.

use super::replay;

/// Both slots of the manifest and the removals of a prune were lost, so the disk was what a crash
/// before the prune leaves, and the log began with record 1 again. With only the removals lost, the
/// manifest says that it does not (`cuts/crashes.rs`).
#[test]
fn pruned_records_return_only_if_the_manifest_does_not_say_so() {
    let all_lost = "@75 lost-write:2393 @68 lost-write:dac0 @60 lost-write:9540".to_owned();
    let removals_lost = (95..120).map(|step| format!("@{step} lost-write:2393"));
    for lost in removals_lost.chain([all_lost]) {
        replay(&format!(
            "seed 1a13d11f5 binary 10240 | confirmed reuse name-ahead parity:4+1 ; a700 a886 / \
             a541 a538 a539 a10 a567 / a77 a750 ; @107 lost-write:3971 @66 lost-write:7d53 @13p \
             lost-write:b829 ; kill@122 mend 1:b0c5 | buffered ahead reuse in-flight:2 ; / a532 \
             a490 a413 / a450 a600 a235 a346 ; @18 lost-write:26a1 @46p stall:18c2 @22p \
             misdirected-read:4f2d @46p spoiled-sync:1449 ; kill@104 | synced ahead reuse \
             name-ahead ring:3072 parity:2+1 ; e a300 / a842 / a360 a549 ; {lost} ; power@141 \
             sector:5e05 harm-parity duplicated-file/512:da91 | synced reuse name-ahead \
             in-flight:2 ; / a77 a475 a674 a420 ; @2 lost-write:4c24 @24 lost-write:65f9 @19 \
             lost-write:97f3 @54p lasting-error:3587 ; drop mend 1:87db",
        ));
    }
}

/// A wrong read hid the last record, and the segment that the open made was lost.
#[test]
fn hidden_record_returns_if_the_later_segment_is_lost() {
    replay(
        "seed abb9 text 5120 | synced ; a100 a200 a100 ; ; kill@100000 | synced ; ; @15 \
         flipped-read:c980 @48 lost-write:403 @49 lost-write:2a76 @50 lost-write:8d62 @51 \
         lost-write:4412 @52 lost-write:23b4 @53 lost-write:c38a @54 lost-write:d99a @55 \
         lost-write:80b6 ; power@100000 sector:5012",
    );
}

/// A truncation was lost, and the next open was killed after it made a segment.
#[test]
fn truncated_record_returns_if_an_open_built_on_it() {
    replay(
        "seed 9e86 binary 5120 | synced ; a100 a200 a100 x2 a300 ; @51 lost-write:4713 @52 \
         lost-write:2283 @53 lost-write:8a7d @54 lost-write:ee0 ; power@100000 sector:9514 | \
         synced ; ; ; kill@75",
    );
}

/// The last record was lost, and a wrong read hid the slot of the manifest that spoke of it.
#[test]
fn lost_record_is_named_only_if_its_last_evidence_is_read() {
    replay(
        "seed 139d text 5120 | synced ; a100 a200 a100 ; @47 lost-write:88ce @45 lost-write:e7f8 ; \
         close | synced ; ; @7 flipped-read:a10d ; close",
    );
}

/// A salvage that had the key said that it was missing. The image: a log that was being made, whose
/// header and file `keys` are lost (`encryption.rs`).
#[test]
fn salvage_with_the_key_does_not_ask_for_it() {
    replay(
        "seed 6fc24c916 binary 10240 | synced name-ahead in-flight:4 encrypt parity:4+1 ; \
         a737 a10 ; @15 lost-write:63ab @35 lost-write:1f92 ; power@161 page:5fef | synced \
         name-ahead in-flight:2 parity:4+2 ; p0 / a426 a280 / a744 a790 a384 a318 a543 a615 / \
         a315 a515 a188 a401 ; @34 lost-write:399d @28p failed-sync:c47b ; detach@103 \
         page:1aec mend 3:873c | synced reuse name-ahead idle ; s70+36+182 / a647 a681 a467 ; \
         @10 lost-write:197b @17 lost-write:b21b @27 lost-write:cae3 ; kill@30 harm \
         lost-file/512:63a4",
    );
}
