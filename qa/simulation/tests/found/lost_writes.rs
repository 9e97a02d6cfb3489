//! Findings with a device that loses writes and reports success for the sync. All were bugs of the
//! oracle: the disk looked as if nothing had been written, and the oracle expected more.

use super::replay;

/// Both slots of the manifest and the removals of a prune were lost, so the disk was in the state
/// that a crash before the prune leaves, and the log began with record 1 again. If only the
/// removals are lost, the manifest still shows the prune (`cuts/crashes.rs`).
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

/// A wrong read hid the last record, and the segment that this open created was lost.
#[test]
fn hidden_record_returns_if_the_later_segment_is_lost() {
    replay(
        "seed abb9 text 5120 | synced ; a100 a200 a100 ; ; kill@100000 | synced ; ; @15 \
         flipped-read:c980 @48 lost-write:403 @49 lost-write:2a76 @50 lost-write:8d62 @51 \
         lost-write:4412 @52 lost-write:23b4 @53 lost-write:c38a @54 lost-write:d99a @55 \
         lost-write:80b6 ; power@100000 sector:5012",
    );
}

/// The writes of a truncation were lost, and the next open was killed after it created a segment.
#[test]
fn truncated_record_returns_if_an_open_built_on_it() {
    replay(
        "seed 9e86 binary 5120 | synced ; a100 a200 a100 x2 a300 ; @51 lost-write:4713 @52 \
         lost-write:2283 @53 lost-write:8a7d @54 lost-write:ee0 ; power@100000 sector:9514 | \
         synced ; ; ; kill@75",
    );
}

/// The last record was lost, and a wrong read hid the slot of the manifest that proved it.
#[test]
fn lost_record_is_named_only_if_its_last_evidence_is_read() {
    replay(
        "seed 139d text 5120 | synced ; a100 a200 a100 ; @47 lost-write:88ce @45 lost-write:e7f8 ; \
         close | synced ; ; @7 flipped-read:a10d ; close",
    );
}

/// A salvage that had the key reported it as missing. Image: a log whose creation was not complete,
/// and whose header and file `keys` are lost (`encryption.rs`).
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

/// A truncated record returned with its file, because a failed directory sync had lost the removal.
/// No slot of the manifest is left that says where the log begins.
#[test]
fn truncated_records_may_return_if_the_whole_manifest_is_lost() {
    replay(
        "seed df84769301 text 8192 | confirmed idle ; l k0 x0 v / a12 s185 z114 g2 g6 a497 / g6 \
         / a22 e a478 g10 e a0 a11 g1 g3 x0 l l / z75 a926 x3 a437 z115 s5 k10 x0 k0 z259 l x0 \
         k8 / a0 x0 s1+2+183 a93 s2+4 z42 a14 a915 s83+3+43 e / x7 / g0 k0 a16 a384 a10 e k0 \
         z162 a133 l s4+90+2 l / e l x10 / x0 k0 s96+76+2+43 l x0 / k8 v / z77 v s183+1+183 l \
         a17 a326 / v a945 v k0 ; @1466 failed-sync:7930 @348 read-error:1a2f @1934 \
         read-error:d7ae ; close probe 8:6629 | synced ring:10240 ; l k4 a67 v z31 g2 k8 e e \
         s24+1+53 / l a392 x0 e l a13 / l z34 k0 a388 g1 x10 g11 a903 / k0 / s70+180 a917 k8 e \
         a3 / g11 v s30+2 e a368 l x0 l x8 g0 v a11 / v z269 x6 k11 l l a952 a21 v / v g0 s95 \
         z155 e z80 z269 v a77 s20+16+183+60 / e v x0 k6 l a21 l z97 g9 l a12 / g8 a17 x0 s0+39 \
         l a297 a913 l a359 s188+94 k4 / a278 s189+86+41+1 a934 a1 s53+182 a908 a210 v e g0 \
         a242 / s181+60+190+2 v x0 k0 g0 k9 a108 s4 / a2 a929 s84+14 a1 ; @2410 \
         failed-sync:8cb8 @2181 failed-sync:576c @823 failed-sync:c168 ; power@5317 byte:214f \
         probe 8:275c",
    );
}
