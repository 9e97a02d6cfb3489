//! Findings with readers, which must agree with each other, with `verify` and with the next open.

use super::replay;

/// `get` reported a record as lost that a reader delivered: the batch before it is damaged, and the
/// `live` of the killed writer leads around the damage.
#[test]
fn found_by_seed_7a2e6() {
    replay(
        "seed 7a2e6 binary 8192 | synced ahead ; c a13 s28 / f / a1 e y y a5 y a31 g8 / a215 \
         a201 a20 f g5 a387 s1+11 / e s181 y / g0 c y y a0 c ; @92 full-copying:b6bf ; kill@236 \
         probe 8:5bb3 | buffered ahead ; y a370 a1 s3+88 y c g5 e ; @31 full-copying:2e10 ; \
         detach@9 page:6a11 probe 8:fa46 | buffered ; g11 y f c r / ; @60 full-copying:72d7 @26 \
         full-copying:5cd5 ; close probe 8:157e | confirmed ; r a269 c s184+64+180+21 f f r f \
         a105 s9 f / e r s18+13 a18 g3 r a21 a18 / e a904 r f r g5 g7 r g0 f f y / / / g11 f f \
         g0 g0 c e e s38 a257 g4 c a927 ; @240 full-copying:31ad @185 full-copying:defe ; \
         kill@889 probe 8:1326 | synced idle ; y r e a304 f a188 g0 a914 a350 y c s80+15+48+188 \
         / c a919 f e ; @102 full-copying:b543 ; detach@873 page:6948 probe 8:1dde | buffered ; \
         y y / a15 c c a10 a156 / a76 g2 g0 a203 a8 g6 r y r y r y / r r g6 r c y c a3 / a347 \
         g0 / c a1 c e c f g6 a18 / / r e f c c y g2 f r r ; @92 full-copying:f3e5 ; kill@1565 \
         probe 8:29bb",
    );
}

/// A follower in the writer's process gave up while the writer, in one turn, created several
/// segments and removed the one that it had named last.
#[test]
fn found_by_seed_1011fa() {
    replay(
        "seed 1011fa binary 5120 | confirmed ahead idle ring:3072 parity:4+1 ; r s66+20+1 \
         s30+189+4 / o h2 r a939 s28+1 r o / z163 a463 r a15 r s0 a933 s185+70+95 a955 ; \
         @782 lasting-error:2370 @707 failed-sync:4ae1 @915 failed-sync:69b7 ; power@2089 \
         byte:5d03 protect 4+2 power@100000 sector:85a mend 2:9288",
    );
}

/// `get` found no record where a reader delivered one: a truncation had written a shorter end to
/// `live` and then failed, and a damaged line before that end was taken for a torn one.
#[test]
fn found_by_seed_104e63() {
    replay(
        "seed 104e63 text 5120 | synced ; ; @18 full:ae86 ; close | synced ; a10 \
         s2+30+38+0 x1 ; @62 full:3293 @39 full:ddf2 ; kill@207 probe 8:4160",
    );
}

/// An open truncated a promised record: the device refused the block in which the log ends, and
/// parity knew only the beginning of that block.
#[test]
fn found_by_seed_2f46b2() {
    replay(
        "seed 2f46b2 text 5120 | synced ; a10 a276 ; @55 full:eb8 ; power@88 sector:7625 protect \
         2+1 close probe 8:c42f mend 3:df90 | synced ; a493 r s4+191+42+188 ; @12 full:6557 @34 \
         full:d1bc @16 lasting-error:63cb ; close probe 8:9362 mend 1:dc76",
    );
}

/// A follower in the writer's process used the segment that the writer had named last, and failed
/// when a prune removed it before the follower read the directory (`follow.rs`). Image: a follower
/// that starts over after a truncation, and a checkpoint that prunes.
#[test]
fn found_by_seed_1316be8() {
    replay(
        "seed 1316be8 binary 5120 | synced ; a491 / x0 v / a954 a308 a938 a922 a926 a190 c o / \
         r x7 c k0 x11 / a133 k9 a421 k11 v / x11 k7 x9 o c / s1+1 c a489 c v k0 / a392 / a939 \
         / k0 k6 a934 s190+3+64+84 a486 / / k7 s22+83+0 o a33 a108 a78 / v r k7 r / ; ; \
         detach@90 sector:3278 | synced idle ; a3 g1 g0 c / a20 r k2 s3 x7 / g0 r / o s35+2 \
         a938 a912 c v c k9 r / a950 k10 s190+185+0 r a294 r s184 k0 a937 / o c a18 v / / ; ; \
         kill@6 | synced idle ring:3072 ; x0 x3 x2 a365 x10 k7 / a190 r v s86 v c a14 v / v g0 \
         a950 v c x0 o r g7 / x0 o / v r a10 k1 g7 ; ; close",
    );
}

/// The same with a concurrent `truncate_before`.
#[test]
fn found_by_seed_131746f() {
    replay(
        "seed 131746f text 8192 | synced idle ; e a426 l a10 e x11 a906 e a935 ; ; detach@453 \
         sector:8dd0 protect 4+2 power@100000 page:5b96 | synced ahead ; s41+98+187+65 p5 f f e \
         a266 p0 o s185 a141 / a92 p0 e f s2+4 / g0 o f s13+13+96+189 e g0 x0 l / a936 x3 l \
         a900 s24 p7 e s182+14+89+67 s186 / e l s3+83+185+68 x0 a934 o l g4 s0 p2 / a55 s85 a39 \
         a14 p0 / s96+190+187+74 a379 a935 l p3 a25 / e p3 a904 s92+5 a204 x1 x7 o p0 / / f g0 \
         l a902 a191 s95 p9 o / x0 / l a257 x8 ; ; detach@3102 byte:dd1",
    );
}

/// A bug of the oracle: a reader showed records that a prune had begun to remove. One slot of the
/// manifest contained the prune, and an open was killed while it wrote that slot again. A power cut
/// then completed the prune (`cuts/crashes.rs`).
#[test]
fn found_by_seed_1a13b88fd() {
    replay(
        "seed 1a13b88fd binary 5120 | buffered ring:3072 ; ; ; close harm lost-file/512:f34d | \
         buffered ; ; ; close | buffered reuse name-ahead idle ring:3072 ; a811 p3 ; @28 \
         write-error:2117 @86 write-error:d473 @20 write-error:a7fc ; close | buffered name-ahead \
         ring:9216 ; u472 p0 u482 ; @79 write-error:e828 ; power@217 sector:bf7a | buffered reuse \
         name-ahead ring:0 ; a861 a504 a711 ; @91 write-error:44fc @77 write-error:ca1 ; close | \
         buffered reuse name-ahead idle ; ; @17 write-error:7cef @10 write-error:984e @35 \
         write-error:ec63 ; kill@56",
    );
}

/// A copy of an encrypted log, made during a truncation, kept a manifest that names a clean close
/// in a segment that the copy does not have (`copy.rs`).
#[test]
fn copy_of_an_encrypted_log_claims_no_truncated_segment() {
    replay(
        "seed 6fc244d34 binary 8192 | synced ahead encrypt parity:4+2 ; a152 a10 a7 a331 ; ; \
         close probe 8:f758 mend 2:ce70 | synced ; x10 x0 e a315 k0 z32 x1 / x4 a20 l x0 a16 \
         y z137 y / y a344 a0 e k0 z268 z100 a790 s40+38+179+60 a20 a790 / y a790 a790 e k0 y \
         z131 ; ; kill@1710 probe 8:95db mend 2:20d1",
    );
}

/// A copy of an encrypted log contained a segment that was named ahead, without its first batch,
/// and the segment before it truncated to the length that it has once the next one has begun.
#[test]
fn copy_of_an_encrypted_log_holds_no_segment_that_has_not_begun_there() {
    replay(
        "seed 11ed8f1c19 binary 13312 | synced name-ahead encrypt parity:4+2 ; a10 a113 / \
         a790 a790 / y y a141 l a350 a130 a790 l a281 / a790 s191+3+87 a790 y x10 h0 l a660 \
         a81 h3 l a739 / a512 a790 a683 a517 a420 a272 / a501 a431 / a210 a790 a64 a349 \
         a329 a200 ; @687 stall:9ca1 @243 stall:3c6b ; power@87 sector:6a8a mend 1:e466 | \
         synced name-ahead in-flight:4 fill-blocks parity:off ; s24+183+34 s185+7+2 l a5 h7 \
         a790 a748 x1 x10 y / h0 y a790 a437 l a5 x0 y a211 x2 a790 x10 a790 a291 / l a9 \
         a790 h0 a193 x4 y a790 l / a7 l h7 a790 a178 a790 a790 a790 x2 a774 a530 s9+3+4+4 \
         a790 / a21 a790 a790 a290 x4 a524 a790 a176 a322 x8 x0 / a763 x0 y a607 / y \
         s0+86+180 y a790 h1 y h0 h0 / l a790 s2+0+4+179 a8 a772 y a790 x8 a411 a58 h5 l \
         a790 / l a633 h10 a790 s51+181+181 x8 y y a790 a790 y a742 a4 / a3 a622 l s20 l \
         a579 l a20 s66 s4+88 h0 h10 s181 / s183+4 a14 l y s188+2+4 y / a790 h0 a790 / a68 \
         a172 a354 a420 ; @2930 stall:b69c @787 stall:df8 @1744 stall:a816 ; drop",
    );
}
