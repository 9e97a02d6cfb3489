//! The command line of `seawall disk`, as clap reads it.

mod config;
mod holdup;
mod power;
mod verbs;

pub(crate) use config::template;
pub use config::with_config;
pub(crate) use holdup::DiskHoldUp;
pub(crate) use power::{Monitor, Power};
pub use verbs::{ABOUT, Disk};
pub(crate) use verbs::{
    DiskAsk, DiskConfined, DiskKeep, DiskName, DiskServe, DiskStatus, DiskVerb, Export, Metrics,
    ROOM_MAX, Sandbox, WaitingDump,
};
