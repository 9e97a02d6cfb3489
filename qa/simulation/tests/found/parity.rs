//! Findings with damage that parity must restore.

use super::replay;

/// Of two writes in flight only the later one was stored. Damage before both made its batch look
/// like an intact record after a lost one, and parity restores nothing that hides an intact record.
#[test]
fn parity_restores_what_a_torn_end_follows() {
    replay(
        "seed 7736131e binary 7168 | synced in-flight:2 parity:2+1 ; a368 / / z41 / a539 a516 \
         a717 / a510 / a661 a613 a524 a444 a451 ; ; power@101 sector:333 probe 8:cb1d | synced \
         in-flight:2 ring:7168 ; v a931 / z249 / / / f g0 / / a156 a562 a482 a655 a605 a429 / \
         a540 a465 a784 a679 a822 ; ; kill@72 probe 8:ddca mend 3:98f1",
    );
    replay(
        "seed 77380abe binary 10240 | buffered ahead in-flight:2 parity:4+2 ; a894 a752 \
         s1+190+4 a674 / a898 a403 a805 ; ; close harm-parity lost-file/512:8adb | buffered ; \
         ; ; power@75 page:8a5a | buffered ahead name-ahead in-flight:4 idle ; a10 / a441 a445 \
         a419 a676 a304 ; @81 failed-sync:1e67 @46 failed-sync:2981 @90 failed-sync:4216 ; \
         power@149 page:46b3 mend 3:a27",
    );
}

/// Three headers in a row were lost. Without the first one, the others did not form a log, so none
/// was restored.
#[test]
fn parity_restores_the_headers_of_neighbours_together() {
    replay(
        "seed ee6bc919 binary 5120 | buffered idle parity:4+1 ; a906 a814 a885 a901 ; @81p \
         read-error:e53e ; close | buffered ahead idle ; p1 a180 a942 ; @30 stall:d59f @81 \
         lasting-error:b6fd @132 lasting-error:2cae ; drop probe 8:b70f mend 2:18fc | buffered \
         ahead reuse ; ; @12 stall:15c0 ; drop probe 8:110f mend 3:82ae",
    );
}

/// A first batch that was restored without the header of the next segment hid the segments before
/// it (`parity/several.rs`): the seal between the two was never written.
#[test]
fn parity_restores_a_first_batch_with_the_header_after_it() {
    replay(
        "seed 1a13bfd6c binary 11264 | confirmed name-ahead compress parity:2+1 ; s539 z232 \
         a745 e a856 a608 a589 s212+61+160 ; @124 full-copying:2017 @160 full-copying:c0d1 ; \
         close | confirmed ahead name-ahead idle keep:4096 ; a684 a145 z12 a709 s46+9+186+118 \
         a865 s181 a878 a537 s182+4 a824 ; @161 write-error:b85b ; detach@184 byte:7728 mend \
         1:bf88 | confirmed name-ahead compress:off ring:9216 ; a783 a119 s47+88+21+61 c a912 \
         a691 a909 c ; @154 full-copying:4137 @22 write-error:dd98 ; detach@95 byte:3934 | \
         confirmed name-ahead ; a926 v a696 s104 a529 a652 c a505 a429 a663 a728 a605 a526 \
         a236 ; @8 full-copying:ee2 @240 write-error:5eca @94 full-copying:f000 ; kill@764 \
         mend 2:d4db | confirmed name-ahead compress ; a956 a926 a800 ; @94 write-error:2b87 \
         @107 write-error:62a3 ; power@12 page:f529 mend 2:353",
    );
}

/// A repaired seal names the next segment, whose header is lost, too. Repaired alone, the seal hid
/// the segment that the next one replaced, so neither was repaired.
#[test]
fn parity_restores_a_seal_with_the_header_that_it_names() {
    replay(
        "seed 2245d18f3 binary 5120 | buffered reuse name-ahead ring:0 parity:4+1 ; / / a945 a10 \
         / a855 a15 g3 a4 a765 a867 ; @1163 full-copying:d7b5 @299 full-copying:6eed @1079 \
         full-copying:6bc ; kill@105 probe 8:45fd | confirmed ahead name-ahead idle ring:6144 ; \
         p7 a731 a547 p1 x2 a956 a763 x0 a724 a781 p5 a894 a825 s187+91+85 / a543 a745 p6 a850 \
         p3 / a892 a880 a787 l a945 a823 a932 a772 a626 l a545 a901 s82+1 / s53+1+2 p0 l ; @718 \
         full-copying:6d70 @121 full-copying:ce37 ; power@115 sector:3520 protect 2+1 \
         power@100000 sector:7959 probe 8:e44 mend 2:f4f2",
    );
}
