//! Space that the flusher makes for calls that must not block.

use crate::base::error::Error;

/// Space that the flusher makes on behalf of calls that must not block.
#[derive(Debug, Default)]
pub(crate) struct RoomRequest {
    /// The size of the largest batch that found no space, in bytes.
    pub(crate) size: Option<u64>,
    /// Why the flusher could not make the space; returned by the next call.
    pub(crate) failure: Option<Error>,
}
