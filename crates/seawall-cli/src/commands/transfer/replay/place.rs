//! The place that a program stores: the log, the applied LSN, and the identity of that record.

use seawall::Lsn;
use seawall::format::{LogId, RecordId};
use seawall_replay::Watermark;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Advice for a program that uses the protocol of an earlier version.
pub(super) const CHANGE: &str = "let it store the whole `place` received with each batch, as \
                                 it is: begin with {\"place\":null} or {\"place\":...}, and answer \
                                 {\"place\":...}: seawall replay --help";

/// The stored form.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Place {
    /// The id of the log in hexadecimal digits, because a JSON number cannot hold it in some
    /// languages. `log`, `time` and `crc` are missing in a place that was put together from the
    /// numbers of an earlier version.
    log: Option<String>,
    applied: u64,
    time: Option<u64>,
    crc: Option<u32>,
    restart: u64,
}

/// Converts a watermark to the place that a program stores.
pub(super) fn of(mark: &Watermark) -> Value {
    let (Some(log), Some(applied)) = (mark.log, mark.applied) else { return Value::Null };
    let RecordId { lsn, time_us, crc } = applied;
    let place = Place {
        log: Some(log.to_string()),
        applied: lsn.get(),
        time: Some(time_us),
        crc: Some(crc),
        restart: mark.restart.get(),
    };
    serde_json::to_value(place).expect("text and numbers")
}

/// Whether a program's first line comes from an earlier version, which stored two numbers.
pub(super) fn is_old(first: &str) -> bool {
    let value: Option<Value> = serde_json::from_str(first).ok();
    value.is_some_and(|value| value.get("place").is_none() && value.get("applied").is_some())
}

/// Parses a program's first line; `None` if the program is new.
pub(super) fn read(first: &str) -> Result<Option<Watermark>, String> {
    let line: Value = serde_json::from_str(first).map_err(|_| "it is not JSON".to_owned())?;
    let place = line.get("place").ok_or("`place` is missing")?;
    if place.is_null() {
        return Ok(None);
    }
    let place = Place::deserialize(place).map_err(|error| format!("`place`: {error}"))?;
    let number = |name: &str, number| Lsn::new(number).ok_or(format!("`{name}` is 0"));
    let (lsn, restart) = (number("applied", place.applied)?, number("restart", place.restart)?);
    if restart > lsn.next() {
        return Err("`restart` is after `applied`".to_owned());
    }
    let (log, time_us, crc) = match (place.log, place.time, place.crc) {
        (Some(log), Some(time_us), Some(crc)) => (Some(log_id(&log)?), time_us, crc),
        (None, None, None) => (None, 0, 0),
        _ => return Err("`log`, `time` and `crc` belong together".to_owned()),
    };
    let applied = Some(RecordId { lsn, time_us, crc });
    Ok(Some(Watermark { log, applied, restart, partitions: 1 }))
}

fn log_id(text: &str) -> Result<LogId, String> {
    let id = u64::from_str_radix(text, 16).ok().filter(|id| *id != 0).map(LogId);
    id.filter(|id| id.to_string() == text).ok_or(format!("`{text}` is not the id of a log"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn lsn(number: u64) -> Lsn {
        Lsn::new(number).unwrap()
    }

    #[test]
    fn place_is_read_back_unchanged() {
        let applied = RecordId { lsn: lsn(9), time_us: 1_763_700_000_000_001, crc: u32::MAX };
        let mark = Watermark::new(LogId(0x0123_4567_89ab_cdef), Some(applied), lsn(4));
        let sent = of(&mark);
        assert_eq!(
            sent.to_string(),
            concat!(
                r#"{"log":"0123456789abcdef","applied":9,"time":1763700000000001,"#,
                r#""crc":4294967295,"restart":4}"#
            )
        );
        assert_eq!(read(&json!({ "place": sent }).to_string()), Ok(Some(mark)));
        assert_eq!(read(r#"{"place":null}"#), Ok(None));
    }

    #[test]
    fn place_of_an_earlier_version_has_no_log_id() {
        let mark = read(r#"{"place":{"applied":9,"restart":10}}"#).unwrap().unwrap();
        assert_eq!((mark.log, mark.applied_lsn(), mark.restart), (None, Some(lsn(9)), lsn(10)));
        assert!(is_old(r#"{"applied":9,"restart":10}"#) && is_old(r#"{"applied":null}"#));
        assert!(!is_old(r#"{"place":null}"#) && !is_old("9") && !is_old("x"));
    }

    #[test]
    fn invalid_place_is_refused() {
        for wrong in [
            "",
            "{}",
            "9",
            r#"{"applied":9,"restart":4}"#,
            r#"{"place":9}"#,
            r#"{"place":{"applied":9}}"#,
            r#"{"place":{"applied":9,"restart":null}}"#,
            r#"{"place":{"applied":null,"restart":1}}"#,
            r#"{"place":{"applied":0,"restart":1}}"#,
            r#"{"place":{"applied":9,"restart":11}}"#,
            r#"{"place":{"applied":"9","restart":1}}"#,
            r#"{"place":{"applied":9.5,"restart":1}}"#,
            r#"{"place":{"applied":9,"restart":1,"newer":1}}"#,
            r#"{"place":{"applied":9,"restart":1,"log":"0123456789abcdef"}}"#,
            r#"{"place":{"applied":9,"restart":1,"log":"12","time":1,"crc":1}}"#,
            r#"{"place":{"applied":9,"restart":1,"log":"0000000000000000","time":1,"crc":1}}"#,
        ] {
            read(wrong).expect_err(wrong);
        }
    }
}
