//! The records of the demo: all earthquakes of one week, from a public catalogue.

use seawall_output::report::{Exit, Failure};
use serde::{Deserialize, Serialize};
use std::collections::HashSet;

/// One JSON object per line; see `data/README.md` for their origin.
const LINES: &str = include_str!("../../../../data/earthquakes.jsonl");

/// An event of the catalogue. Times are milliseconds since 1970.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Earthquake {
    pub(super) id: String,
    time: u64,
    updated: u64,
    pub(super) mag: f64,
    mag_type: String,
    pub(super) place: String,
    lon: f64,
    lat: f64,
    depth_km: f64,
    sig: u32,
    tsunami: u32,
    felt: Option<u32>,
    nst: Option<u32>,
    gap: Option<f64>,
    rms: Option<f64>,
    status: String,
    net: String,
}

/// All events, and the payload of each.
#[derive(Debug)]
pub(super) struct Catalogue {
    events: Vec<Earthquake>,
    payloads: Vec<Vec<u8>>,
    known: HashSet<Vec<u8>>,
}

impl Catalogue {
    pub(super) fn read() -> Result<Self, Failure> {
        let wrong = |why: String| Failure::new(Exit::Failed, why).at("the events of the demo");
        let events: Result<Vec<Earthquake>, _> =
            LINES.lines().map(serde_json::from_str::<Earthquake>).collect();
        let events = events.map_err(|error| wrong(error.to_string()))?;
        let payloads: Result<Vec<_>, _> = events.iter().map(rmp_serde::to_vec_named).collect();
        let payloads = payloads.map_err(|error| wrong(error.to_string()))?;
        let known = payloads.iter().cloned().collect();
        Ok(Self { events, payloads, known })
    }

    /// The number of events.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.events.len()
    }

    /// The event with this number; numbers wrap around.
    pub(super) fn event(&self, number: usize) -> &Earthquake {
        let place = number % self.events.len();
        self.events.get(place).expect("a remainder is smaller")
    }

    /// The payload of an event.
    pub(super) fn payload(&self, number: usize) -> &[u8] {
        let place = number % self.payloads.len();
        self.payloads.get(place).expect("a remainder is smaller")
    }

    /// Whether this is the payload of an event.
    pub(super) fn knows(&self, payload: &[u8]) -> bool {
        self.known.contains(payload)
    }

    /// The same events as plain JSON lines.
    pub(super) fn lines() -> &'static str {
        LINES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_event_is_read_back_unchanged() {
        let catalogue = Catalogue::read().unwrap();
        assert_eq!(catalogue.events.len(), 1707);
        assert_eq!(catalogue.known.len(), 1707);
        for (event, payload) in catalogue.events.iter().zip(&catalogue.payloads) {
            assert_eq!(&rmp_serde::from_slice::<Earthquake>(payload).unwrap(), event);
        }
    }
}
