//! `--power`: the state of the power source, or where it is watched.

use std::fmt;

/// The power source of the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Power {
    /// Its state is not known: every flush waits for the device.
    Unknown,
    /// It is healthy, as the operator says.
    Ok,
    /// A monitor is asked for its state.
    Watched(Monitor),
}

/// A monitor of the power source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Monitor {
    /// The server of Network UPS Tools at this address, `HOST:PORT`.
    Nut { ups: String, address: String },
    /// The network information server of apcupsd at this address.
    Apcupsd { address: String },
    /// A command for `sh -c` that exits with 0 on mains and with 1 on battery.
    Command(String),
    /// A pipe, by its descriptor, that gets a line `online` or `battery` several times a second.
    Descriptor(u32),
}

impl fmt::Display for Monitor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nut { ups, address } => write!(f, "nut:{ups}@{address}"),
            Self::Apcupsd { address } => write!(f, "apcupsd:{address}"),
            Self::Command(command) => write!(f, "command:{command}"),
            Self::Descriptor(number) => write!(f, "fd:{number}"),
        }
    }
}

const NUT_PORT: u16 = 3493;
const APCUPSD_PORT: u16 = 3551;

/// Parses the value of `--power`.
pub(super) fn parse(text: &str) -> Result<Power, String> {
    let monitor = match text.split_once(':') {
        None if text == "ok" => return Ok(Power::Ok),
        None if text == "unknown" => return Ok(Power::Unknown),
        Some(("nut", rest)) => nut(rest),
        Some(("apcupsd", rest)) => {
            with_port(rest, APCUPSD_PORT).map(|address| Monitor::Apcupsd { address })
        }
        Some(("command", rest)) if !rest.trim().is_empty() => {
            Some(Monitor::Command(rest.to_owned()))
        }
        Some(("fd", rest)) => rest.parse().ok().map(Monitor::Descriptor),
        _ => None,
    };
    monitor.map(Power::Watched).ok_or_else(|| {
        "give unknown, ok, nut:UPS@HOST[:PORT], apcupsd:HOST[:PORT], command:CMD, or fd:NUMBER"
            .to_owned()
    })
}

/// `UPS@HOST[:PORT]`. The name goes into a line of the protocol.
fn nut(text: &str) -> Option<Monitor> {
    let (ups, host) = text.rsplit_once('@')?;
    let is_name = |letter: char| letter.is_ascii_alphanumeric() || "._-".contains(letter);
    let is_sound = !ups.is_empty() && ups.chars().all(is_name);
    let address = with_port(host, NUT_PORT).filter(|_| is_sound)?;
    Some(Monitor::Nut { ups: ups.to_owned(), address })
}

/// `HOST`, `HOST:PORT`, `[ADDRESS]` or `[ADDRESS]:PORT`, with the port.
fn with_port(text: &str, default: u16) -> Option<String> {
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !text.ends_with(']') => (host, port.parse().ok()?),
        _ => (text, default),
    };
    let is_sound = !host.is_empty() && (host.starts_with('[') || !host.contains(':'));
    is_sound.then(|| format!("{host}:{port}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn monitors_are_parsed_and_shown() {
        for (text, shown) in [
            ("nut:ups@localhost", "nut:ups@localhost:3493"),
            ("nut:my-ups.1@10.0.0.1:99", "nut:my-ups.1@10.0.0.1:99"),
            ("apcupsd:localhost", "apcupsd:localhost:3551"),
            ("apcupsd:[::1]", "apcupsd:[::1]:3551"),
            ("apcupsd:[::1]:7", "apcupsd:[::1]:7"),
            ("command:test -e /run/mains", "command:test -e /run/mains"),
            ("fd:3", "fd:3"),
        ] {
            let Ok(Power::Watched(monitor)) = parse(text) else { panic!("{text}") };
            assert_eq!(monitor.to_string(), shown);
        }
        assert_eq!((parse("ok"), parse("unknown")), (Ok(Power::Ok), Ok(Power::Unknown)));
    }

    #[test]
    fn what_is_no_power_source_is_refused() {
        for text in [
            "",
            "sure",
            "nut",
            "nut:",
            "nut:ups",
            "nut:@host",
            "nut:u s@host",
            "nut:a\nb@host",
            "nut:ups@",
            "nut:ups@host:",
            "nut:ups@host:99999",
            "nut:ups@::1",
            "apcupsd:",
            "command: ",
            "fd:",
            "fd:-1",
            "fd:x",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
