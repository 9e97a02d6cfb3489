//! What simulation found, as it printed it: each plan failed once. The smallest tests of the same
//! are in `crates/seawall/tests`, named in the comments.

use seawall_sim::{Plan, run};

fn replay(plan: &str) {
    let plan: Plan = plan.parse().expect("a plan");
    let outcome = run(&plan);
    assert_eq!(outcome.finding, None, "{plan}");
    assert!(outcome.steps > 50, "{outcome:?}");
}

/// A cut of nothing called everything confirmed (`cuts.rs`). The image: a record whose only
/// evidence is its batch, and that is garbled.
#[test]
fn found_by_seed_104169() {
    replay(
        "seed 196e9 binary 11264 | buffered ahead ; a10 x0 c ; ; power@323 byte:39d4 probe 8:4941",
    );
}

/// A poisoned log wrote its manifest again when it was closed (`cuts.rs`). The image: both slots
/// garbled by two failed writes of one process.
#[test]
fn found_by_seed_106493() {
    replay(
        "seed 19ffd binary 8192 | synced ; ; ; close | buffered ; ; ; close | buffered ; v p3 ; \
         @60 write-error:b836 @201 write-error:3bb3 @89 write-error:c879 ; close",
    );
}

/// A name that only the page cache showed was built on (`crash_points.rs`). The image: segment 2
/// was named, the next open failed at its sync of the directory, and the one behind it went on.
#[test]
fn found_by_seed_2457() {
    replay(
        "seed 999 binary 8192 | confirmed ; l a136 ; @197 failed-sync:129d @97 failed-sync:60b4 \
         @30 failed-sync:d7ed ; kill@69 | confirmed ; u959 f g11 ; @83 failed-sync:ae23 \
         @1 failed-sync:9cda ; close | confirmed ; a364 r l a489 a332 s20+66+4 a900 s3+0 ; \
         @234 failed-sync:46b2 @191 failed-sync:3b94 @134 failed-sync:cb90 ; power@81 sector:6eb8",
    );
}

/// A stale `live` named a segment that was cut off, and readers called it lost (`readers.rs`).
#[test]
fn found_by_seed_106425() {
    replay(
        "seed 19fbe text 11264 | synced ahead ; / a10 ; @151 lasting-error:c27d ; \
         power@544 page:eb59 | confirmed ; a950 a4 x0 x3 k0 x0 / e x8 x0 / e ; \
         @254 lasting-error:228 @155 lasting-error:a3dc @229 lasting-error:c174 ; close",
    );
}
