//! The tests that need no feature, in one program: one link takes less time than five. `killed` is
//! a separate program, because it starts itself.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test reports failure by panicking"
)]

mod client;
mod common;
mod cuts;
mod nbd;
mod nbd_codec;
mod reads;
mod volume;
