//! What programs around a Seawall log need from their host: facts about a path and its device, raw
//! files and disk images, signals, memory locks, descriptors.
//!
//! The log itself uses none of this; its files and clock come from `seawall-io`.

#![forbid(unsafe_code)]

mod block_device;
mod fd;
mod group;
mod host_info;
mod image;
mod memory_lock;
mod pass;
#[cfg(test)]
#[allow(dead_code, reason = "only tests of the sandbox start programs")]
mod programs;
mod raw_device;
#[cfg(feature = "sandbox")]
pub mod sandbox;
mod signal;
mod stored;
mod wait;

pub use block_device::BlockDevice;
pub use fd::{file_number, identity, is_socket, open_descriptor, read_descriptor, read_text};
pub use group::{is_group_foreign, is_group_running, kill_group, reap_group};
pub use host_info::mounts::Mount;
pub use host_info::{HostInfo, Writable};
pub use image::{Image, ImageDraft, ImageKind};
pub use memory_lock::{lift_memory_limit, lock_memory, oom_score, set_oom_score};
pub use pass::{connect_within, peer, receive_descriptor, send_descriptor};
pub use raw_device::RawFile;
pub use signal::{Notice, send_signal};
pub use stored::{folder_and_name, open_if_any, read_start, replace_file};
pub use wait::{PIECE_MAX, Woken, has_lost_reader, wait_for_any, wait_for_input, wait_for_output};
