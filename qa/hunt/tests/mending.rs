//! Damages logs with parity some hundred times; `cargo run --release -p seawall-hunt -- mend` does
//! it a hundred thousand times.

use seawall_hunt::mend::{Bench, Report};

#[test]
fn what_parity_covers_comes_back_and_the_rest_is_named() {
    let mut report = Report::default();
    Bench::new(1).run(0..600, &mut report);
    assert!(report.broken.is_empty(), "{:#?}", report.broken);
    assert!(report.within > 300 && report.beyond > 80, "{report:?}");
    assert!(report.blocks > 600 && report.named > 100, "{report:?}");
}
