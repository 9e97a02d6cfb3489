//! The outcome of each transaction, and the assembly of the committed ones.

pub(crate) mod bits;
pub(crate) mod missing_begin;
pub(crate) mod plan;
pub(crate) mod spill;
pub(crate) mod transaction_assembler;
