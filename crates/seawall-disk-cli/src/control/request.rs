//! The requests that a running disk server accepts.

use serde_json::Value;

/// A request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Request {
    Status,
    Flush,
    Drain,
    Disarm,
    Arm,
    EmergencyFlush,
    Stop,
}

const REQUESTS: [(Request, &str); 7] = [
    (Request::Status, "status"),
    (Request::Flush, "flush"),
    (Request::Drain, "drain"),
    (Request::Disarm, "disarm"),
    (Request::Arm, "arm"),
    (Request::EmergencyFlush, "emergency-flush"),
    (Request::Stop, "stop"),
];

impl Request {
    pub(in super::super) fn name(self) -> &'static str {
        let row = REQUESTS.iter().find(|row| row.0 == self);
        row.map(|row| row.1).expect("every request has a row")
    }

    pub(in super::super) fn read(line: &[u8]) -> Result<Self, String> {
        let value: Value = serde_json::from_slice(line).map_err(|error| error.to_string())?;
        let asked = value.get("do").and_then(Value::as_str).unwrap_or_default();
        let row = REQUESTS.iter().find(|row| row.1 == asked);
        row.map(|row| row.0).ok_or_else(|| {
            let names: Vec<&str> = REQUESTS.iter().map(|row| row.1).collect();
            format!("`do` must be one of {}", names.join(", "))
        })
    }
}
