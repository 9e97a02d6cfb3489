//! All tests that run the command line as a process, in one program.

mod bench;
mod compression;
mod convert;
mod copy;
mod demo;
mod disk;
mod disk_file;
mod disk_guest;
mod encrypted;
mod exits;
mod keys;
mod kill;
mod outside;
mod parity;
mod readable;
mod records;
mod repair;
mod replay;
mod second_reader;
mod select;
mod sessions;
mod tail;
mod tool;
mod tools;
mod truncate;

/// The program under test.
const PROGRAM: &str = env!("CARGO_BIN_EXE_seawall");
