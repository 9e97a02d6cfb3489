//! Retention in a stream: after a rotation, the rule is applied while other batches are on their
//! way.

use super::{Fate, PATIENCE, Stream, newest, options, payload};
use crate::common::within;
use seawall::Retention;
use std::thread;

#[test]
fn segments_are_pruned_while_a_write_is_in_flight() {
    within(PATIENCE, || {
        let keep = Retention::new().max_bytes(0).without_checkpoints();
        let mut stream = Stream::with(2, &options().retention(keep));
        let mut number = stream.before + 2;
        while newest(&stream.device).size > stream.appends.last().unwrap().0 + 2048 {
            stream.returns(stream.appends.len() - 2, Fate::Lands);
            stream.returns(stream.appends.len() - 1, Fate::Lands);
            stream.launch(number + 1);
            stream.launch(number + 2);
            number += 2;
        }
        let (log, full) = (stream.log().clone(), newest(&stream.device).id);
        let pruned = log.stats().pruned;
        stream.land_all();
        log.append(&payload(number + 1, 2, 1900)).unwrap();
        assert!(newest(&stream.device).id > full, "the log rolled");
        assert_eq!(log.stats().pruned, pruned, "not before the next batches are on their way");
        for (_, append) in stream.appends.drain(..) {
            append.join().unwrap().unwrap();
        }
        stream.launch(number + 2);
        stream.launch(number + 3);
        stream.returns(0, Fate::Lands);
        while log.stats().pruned == pruned {
            thread::yield_now();
        }
        stream.wait_for(1);
        assert!(stream.device.bytes(&full.file_name()).is_none(), "without a thread, at once");
        stream.returns(1, Fate::Lands);
        for (_, append) in stream.appends.drain(..) {
            append.join().unwrap().unwrap();
        }
    });
}
