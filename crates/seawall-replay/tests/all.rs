//! All integration tests of the crate, in one program.

mod bulk;
mod common;
mod engine;
mod exactly_once;
mod heliosdb;
mod history;
mod quakes;
mod small;
mod snapshot;
