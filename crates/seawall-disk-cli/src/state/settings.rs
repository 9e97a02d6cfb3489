//! The settings of a state directory, stored as JSON in `disk.json`, and the mark that is left on
//! the image.
//!
//! Both name the directory and count how often serving began. A dump belongs to an image only while
//! the two agree.

use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;
use std::path::{Path, PathBuf};

const SCHEMA: &str = "seawall.disk.settings/1";

/// The image for which the directory is used, and the record of serving it. An earlier version
/// stored only the image.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, tag = "schema", rename = "seawall.disk.settings/1")]
pub(crate) struct Settings {
    /// The image's identity.
    pub(crate) image: Option<String>,
    /// A random number that identifies the directory from its first image on.
    pub(crate) state: Option<u64>,
    /// How often an image was served with this directory.
    pub(crate) serve: u64,
    /// Whether the image has the mark with this count.
    #[serde(rename = "marked")]
    pub(crate) is_marked: bool,
    /// When the image had last changed before it was served, in microseconds since 1970.
    pub(crate) since_us: Option<u64>,
    /// The dump that is being written to the image.
    pub(crate) homing: Option<Homing>,
    /// A server may have acknowledged flushes early, and has not drained since.
    #[serde(rename = "armed")]
    pub(crate) is_armed: bool,
    /// Flushed data may be lost, and no server has reported it since.
    #[serde(rename = "lost")]
    pub(crate) has_lost: bool,
}

/// A dump that is being written to the image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Homing {
    pub(crate) generation: u64,
    /// The time of the last progress, in microseconds since 1970.
    pub(crate) time_us: u64,
}

impl Settings {
    pub(crate) fn decode(text: &[u8]) -> Option<Self> {
        let value: Value = serde_json::from_slice(text).ok()?;
        if value.get("schema")? != SCHEMA {
            return None;
        }
        Self::deserialize(value).ok()
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let text = serde_json::to_string(self).expect("text and numbers");
        format!("{text}\n").into_bytes()
    }

    /// When writing the dump of this generation to the image last made progress, if it was started.
    pub(crate) fn homing_us(&self, generation: u64) -> Option<u64> {
        let homing = self.homing.filter(|homing| homing.generation == generation);
        homing.map(|homing| homing.time_us)
    }
}

/// The mark on an image: the directory with which it was last served.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "schema", rename = "seawall.disk.mark/1")]
pub(crate) struct Mark {
    pub(crate) state: u64,
    pub(crate) serve: u64,
    /// The server did not end cleanly, as far as is known: a dump may be waiting in the directory.
    #[serde(rename = "open")]
    pub(crate) is_open: bool,
    /// The path of the directory.
    #[serde(serialize_with = "as_text")]
    pub(crate) dir: PathBuf,
}

/// A path need not be UTF-8.
fn as_text<S: Serializer>(path: &Path, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&path.to_string_lossy())
}

impl Mark {
    pub(crate) fn decode(text: &[u8]) -> Option<Self> {
        serde_json::from_slice(text).ok()
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("text and numbers")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_and_marks_are_read_back() {
        let settings = Settings {
            image: Some("file 7".to_owned()),
            state: Some(u64::MAX),
            serve: 3,
            is_marked: true,
            since_us: Some(5),
            homing: Some(Homing { generation: 4, time_us: 9 }),
            is_armed: true,
            has_lost: true,
        };
        assert_eq!(Settings::decode(&settings.encode()), Some(settings));
        let mark = Mark { state: 1 << 63, serve: 3, is_open: true, dir: "/a b".into() };
        assert_eq!(Mark::decode(&mark.encode()), Some(mark));
    }

    #[test]
    fn settings_of_an_older_version_name_only_the_image() {
        let old = br#"{"schema":"seawall.disk.settings/1","image":"file 7"}"#;
        let settings = Settings { image: Some("file 7".to_owned()), ..Settings::default() };
        assert_eq!(Settings::decode(old), Some(settings));
        for wrong in [&b"{}"[..], br#"{"schema":"seawall.disk.settings/1","image":7}"#, b"!"] {
            assert_eq!(Settings::decode(wrong), None);
            assert_eq!(Mark::decode(wrong), None);
        }
    }
}
