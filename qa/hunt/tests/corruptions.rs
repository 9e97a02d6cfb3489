//! Runs thousands of corruptions of all kinds; `cargo run --release -p seawall-hunt -- corrupt`
//! runs a million.

use seawall_hunt::corrupt::{Bench, Report};

#[test]
fn no_corruption_goes_unnoticed() {
    let mut report = Report::default();
    Bench::new(1, false).run(0..8000, &mut report);
    assert!(report.broken.is_empty(), "{:#?}", report.broken);
    let sum = report.sum();
    assert!(sum.verdicts.iter().all(|count| *count > 50), "{sum:?}");
    assert!(sum.missing > 1000 && sum.in_window > 10 && sum.opens[0] > 500, "{sum:?}");
}
