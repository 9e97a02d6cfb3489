//! Progress reports of long operations only move forward, and reach the total.

use crate::common;

use common::Scratch;
use seawall::{Log, Maintenance, Options, Progress, Raw};

#[track_caller]
fn forwards_to_the_end(heard: &[Progress]) {
    assert!(heard.len() > 2, "{heard:?}");
    assert!(heard.is_sorted_by_key(|at| at.done), "{heard:?}");
    let last = heard.last().expect("something was heard");
    assert!(last.total > 0 && last.done == last.total, "{last:?}");
    assert!(heard.iter().all(|at| at.total == last.total), "{heard:?}");
}

#[test]
fn progress_increases_and_reaches_the_end() {
    let scratch = Scratch::new("progress");
    scratch.storage();
    let [log, copy, saved] = ["log", "copy", "saved"].map(|name| scratch.path.join(name));
    let writer: Log<[u8], Raw> = Options::new().segment_size(1 << 20).open(&log).unwrap();
    let payload = vec![7; 100_000];
    for _ in 0..40 {
        writer.append(&payload).unwrap();
    }
    writer.close().unwrap();
    let mut heard = vec![];
    Maintenance::at(&log).progress(|at| heard.push(at)).verify().unwrap();
    forwards_to_the_end(&heard);
    let bytes = heard[0].total;
    heard.clear();
    Maintenance::at(&log).progress(|at| heard.push(at)).back_up(&copy).unwrap();
    forwards_to_the_end(&heard);
    assert_eq!(heard[0].total, 2 * bytes);
    heard.clear();
    Maintenance::at(&log).progress(|at| heard.push(at)).salvage(&saved).unwrap();
    forwards_to_the_end(&heard);
}
