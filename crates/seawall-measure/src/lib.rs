//! Benchmarks that compare alternatives in alternating slices.
//!
//! The speed of a disk drifts by half within a second, so absolute numbers mean little: each
//! alternative is measured in slices that alternate with those of the baseline.
//!
//! ```
//! use seawall_measure::contest::{Contest, Entry, hold};
//! use seawall_measure::slice::{Slice, by_threads};
//! use std::convert::Infallible;
//! use std::time::Duration;
//!
//! let of_one = |time| by_threads((1, time), &|_| Ok::<_, Infallible>(()));
//! let of_two = |time| by_threads((2, time), &|_| Ok(()));
//! let mut entries = [Entry::new("one thread", of_one), Entry::new("two threads", of_two)];
//! let standings = hold(&mut entries, Duration::from_millis(200))?;
//! let contest = Contest { name: "nothing", asks: "doing nothing".to_owned(), standings };
//! assert_eq!(contest.standings.rows.len(), 2);
//! # assert!(contest.lines().len() > 4);
//! # Ok::<_, Infallible>(())
//! ```

#![forbid(unsafe_code)]

pub mod contest;
pub mod human;
pub mod load;
pub mod machine;
pub mod page;
pub mod pairs;
mod proc;
pub mod scratch;
pub mod slice;
pub mod streams;
pub mod tour;
