//! Output of the `seawall` command line: answers on standard output, everything else on standard
//! error.
//!
//! A verb returns its exit code, or a [`Failure`](report::Failure) that is printed in three lines:
//!
//! ```
//! use seawall_output::report::{Exit, Failure};
//!
//! let failure = Failure::new(Exit::Usage, "`soon` is not a number of milliseconds");
//! let failure = failure.at("--deadline soon").next("seawall disk flush --help");
//! assert_eq!((failure.exit.code(), failure.what().len()), (2, 38));
//! ```

#![forbid(unsafe_code)]

pub mod color;
mod look;
pub mod prometheus;
pub mod report;
pub mod stdout;
pub mod text;
pub mod width;

pub use look::Look;

/// Declares an answer for `--json`: a struct whose members each have a type and an expression for
/// the value. `of` creates the answer.
///
/// ```
/// use serde::Serialize;
///
/// seawall_output::answer! {
///     /// A place.
///     #[serde(tag = "schema", rename = "example/1")]
///     struct Place(path: &str, size: u64) {
///         path: String = path.to_owned(),
///         bytes: u64 = size,
///     }
/// }
/// let shown = serde_json::to_string(&Place::of("a", 3)).unwrap();
/// assert_eq!(shown, r#"{"schema":"example/1","path":"a","bytes":3}"#);
/// ```
#[macro_export]
macro_rules! answer {
    (
        $(#[$of_answer:meta])*
        $visible:vis struct $answer:ident($($from:ident: $source:ty),+) {
            $($(#[$of_member:meta])* $member:ident: $kind:ty = $value:expr,)+
        }
    ) => {
        #[derive(Serialize)]
        $(#[$of_answer])*
        $visible struct $answer {
            $($(#[$of_member])* $member: $kind,)+
        }

        impl $answer {
            $visible fn of($($from: $source),+) -> Self {
                Self { $($member: $value,)+ }
            }
        }
    };
}

/// Returns the text of `src/args/help/NAME.txt` in the calling crate, without the line break at its
/// end.
#[macro_export]
macro_rules! help {
    ($name:literal) => {
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/args/help/", $name, ".txt"))
            .trim_ascii_end()
    };
}
