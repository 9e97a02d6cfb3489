//! Which transactions were committed, and each with its operations put together.

pub(crate) mod bits;
pub(crate) mod plan;
pub(crate) mod spill;
pub(crate) mod transaction_assembler;
