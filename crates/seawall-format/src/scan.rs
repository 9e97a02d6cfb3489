//! Walks the batches of one segment, or the sets of lines of a text. Takes bytes, returns what was
//! found. format.md sections 3.3, 7, 9.3.

mod end;
mod scanner;
mod search;

pub use crate::binary::scan::headers;
pub use crate::binary::step::{Batch, Body, Cause, Limit, Part, Start, Step, Window};
pub use crate::scan::end::EndScan;
pub use crate::scan::scanner::Scanner;
pub use crate::scan::search::HeaderSearch;
