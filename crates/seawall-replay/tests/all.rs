//! The tests of the whole replay, in one program.

mod common;
mod engine;
mod exactly_once;
mod heliosdb;
mod history;
mod quakes;
mod snapshot;
