//! Reads the segments of a log in order and classifies damage and the end.

pub(crate) mod catalog;
pub(crate) mod chain;
pub(crate) mod durable_end;
pub(crate) mod intact;
pub(crate) mod load;
pub(crate) mod named_ahead;
pub(crate) mod orphans;
pub(crate) mod quarantine;
pub(crate) mod scanner;
