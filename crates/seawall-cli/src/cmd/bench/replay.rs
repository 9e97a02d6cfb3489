//! `seawall bench replay`: stub.

use crate::args::BenchReplay;
use crate::report::{Exit, Failure};
use crate::stores::Stores;

pub(crate) fn run(_args: &BenchReplay, _stores: Stores) -> Result<Exit, Failure> {
    Ok(Exit::Fine)
}
