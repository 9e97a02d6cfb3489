//! The files of a disk: its image, its state directory, and the settings there.

pub(crate) mod image;
pub(crate) mod named;
pub(crate) mod place;
pub(crate) mod settings;
