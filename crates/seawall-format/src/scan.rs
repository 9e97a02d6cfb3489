//! Walking the batches of one segment, or the sets of lines of a text: bytes in; what was found
//! out. format.md sections 3.3, 7, 9.3.

mod scanner;

pub use crate::binary::scan::headers;
pub use crate::binary::step::{Batch, Body, Cause, Limit, Part, Start, Step, Window};
pub use crate::scan::scanner::Scanner;
