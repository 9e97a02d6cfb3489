//! Why a call failed.

use crate::status::{ErrorCode, Status};
use std::any::Any;

/// Why a call failed.
#[derive(Debug)]
pub(crate) enum Fault {
    /// The log's own error.
    Log(seawall::Error),
    /// An invalid argument.
    Argument(String),
    /// The handle was closed.
    Closed,
    /// A panic.
    Panic(String),
}

impl Fault {
    pub(crate) fn argument(why: impl Into<String>) -> Self {
        Self::Argument(why.into())
    }

    pub(crate) fn of_panic(panic: &(dyn Any + Send)) -> Self {
        let text = panic.downcast_ref::<&str>().map(ToString::to_string);
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
        Self::Panic(text.unwrap_or_else(|| "a panic without a text".to_owned()))
    }

    pub(crate) fn status(&self) -> Status {
        match self {
            Self::Log(error) => Status::of(error),
            Self::Argument(_) => Status::Usage,
            Self::Closed => Status::Reopen,
            Self::Panic(_) => Status::Bug,
        }
    }

    pub(crate) fn code(&self) -> ErrorCode {
        match self {
            Self::Log(error) => ErrorCode::of(error),
            Self::Argument(_) => ErrorCode::Argument,
            Self::Closed => ErrorCode::Closed,
            Self::Panic(_) => ErrorCode::Panic,
        }
    }
}

impl From<seawall::Error> for Fault {
    fn from(error: seawall::Error) -> Self {
        Self::Log(error)
    }
}
