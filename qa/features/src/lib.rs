//! Gives every command of `.ci/run` the same features; has no code.
//!
//! Cargo chooses the features of dependencies for all packages of a command together. Where they
//! differ from those of an earlier command, it compiles the dependency again, and all that depends
//! on it: `seawall` too, for one feature of `indexmap`. A command that names this package has the
//! features that the others have.

#![forbid(unsafe_code)]
