//! Asks a monitor for the state of the power source: Network UPS Tools, apcupsd, a command, a pipe.

use super::super::service::spawn;
use super::script::Script;
use crate::args::Monitor;
use seawall_io::{Clock, SystemClock};
use std::io::{self, PipeReader, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The largest answer that is read, in bytes.
const ANSWER_MAX: usize = 16 << 10;
/// How often to look whether a pipe has a line.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// What a pipe says before its first line.
const NO_LINE: &str = "no line yet";

/// The state of the power source, as a monitor reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reading {
    Online,
    OnBattery,
    /// On mains, but the battery may not take over, as this word of the status tells.
    Unprotected(&'static str),
}

/// The words of a status that mean that the battery does not take over when the mains fail, or not
/// for the time that is relied on: it has to be replaced, or the load is too high.
const UNPROTECTED: [&str; 7] = ["NOBATT", "BYPASS", "OFF", "RB", "REPLACEBATT", "OVER", "OVERLOAD"];
/// The words of NUT that mean that the battery is used, on purpose or not, or is empty. Some UPSs
/// report `OL DISCHRG` when the mains have failed.
const NUT_ON_BATTERY: [&str; 5] = ["OB", "LB", "FSD", "CAL", "DISCHRG"];
/// The words of apcupsd that mean the same.
const APCUPSD_ON_BATTERY: [&str; 4] = ["ONBATT", "LOWBATT", "SHUTTING", "CAL"];

/// A monitor, and how to reach it.
#[derive(Debug)]
pub(super) enum Source {
    Nut { ups: String, at: Vec<SocketAddr> },
    Apcupsd { at: Vec<SocketAddr> },
    Command(Script),
    Pipe(Arc<Pipe>, Option<PipeReader>),
}

/// The newest line of a pipe, and when the pipe was last empty before it. A line can have waited in
/// the pipe, so it arrived then or later.
#[derive(Debug)]
pub(super) struct Pipe {
    newest: Mutex<(Result<Reading, String>, Duration)>,
    clock: SystemClock,
}

impl Default for Pipe {
    fn default() -> Self {
        let first = (Err(NO_LINE.to_owned()), Duration::ZERO);
        Self { newest: Mutex::new(first), clock: SystemClock::new() }
    }
}

impl Pipe {
    fn newest(&self) -> MutexGuard<'_, (Result<Reading, String>, Duration)> {
        self.newest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, said: Result<Reading, String>, empty_at: Duration) {
        *self.newest() = (said, empty_at);
    }

    /// Waits up to `limit` for the first line.
    fn wait_for_a_line(&self, limit: Duration) {
        let end = self.clock.now() + limit;
        let has_line = || self.newest().0.as_ref().err().is_none_or(|why| why != NO_LINE);
        while !has_line() && self.clock.now() < end {
            self.clock.sleep(LOOK_EVERY);
        }
    }

    fn age(&self) -> Duration {
        self.clock.now().saturating_sub(self.newest().1)
    }

    fn read(&self, limit: Duration) -> Result<Reading, String> {
        let line = self.newest();
        let age = self.clock.now().saturating_sub(line.1);
        if age > limit && line.0.is_ok() {
            return Err(format!("no line for {} ms", age.as_millis()));
        }
        line.0.clone()
    }
}

impl Source {
    /// Resolves the addresses now: later, a name server that does not answer would take too long.
    pub(super) fn open(monitor: &Monitor) -> io::Result<Self> {
        Ok(match monitor {
            Monitor::Nut { ups, address } => {
                Self::Nut { ups: ups.clone(), at: address.to_socket_addrs()?.collect() }
            }
            Monitor::Apcupsd { address } => {
                Self::Apcupsd { at: address.to_socket_addrs()?.collect() }
            }
            Monitor::Command(command) => Self::Command(Script::new(command)),
            Monitor::Descriptor(number) => Self::Pipe(
                Arc::default(),
                Some(OwnedFd::from(seawall_host::read_descriptor(*number)?).into()),
            ),
        })
    }

    /// For a pipe, starts a thread that reads its lines.
    pub(super) fn begin(&mut self) -> io::Result<()> {
        let Self::Pipe(pipe, file) = self else { return Ok(()) };
        let Some(file) = file.take() else { return Ok(()) };
        let its = pipe.clone();
        spawn("pipe", move || {
            let why = read_lines(file, &its);
            its.note(Err(why), its.clock.now());
        })
    }

    /// The TCP ports of the monitor.
    pub(super) fn ports(&self) -> Vec<u16> {
        match self {
            Self::Nut { at, .. } | Self::Apcupsd { at } => {
                at.iter().map(SocketAddr::port).collect()
            }
            Self::Command(_) | Self::Pipe(..) => vec![],
        }
    }

    /// How old an answer is that can be read now, without a request.
    pub(super) fn age(&self) -> Duration {
        match self {
            Self::Pipe(pipe, _) => pipe.age(),
            Self::Nut { .. } | Self::Apcupsd { .. } | Self::Command(_) => Duration::ZERO,
        }
    }

    /// Queries the monitor once. Returns within about `limit`.
    ///
    /// # Errors
    ///
    /// Why the state of the power source is not known.
    pub(super) fn read(&mut self, limit: Duration) -> Result<Reading, String> {
        let said = |error: io::Error| match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
                format!("no answer within {} ms", limit.as_millis())
            }
            _ => error.to_string(),
        };
        match self {
            Self::Nut { ups, at } => {
                let request = format!("GET VAR {ups} ups.status\n");
                let answer = exchange(at, request.as_bytes(), is_line, limit).map_err(said)?;
                nut_status(&String::from_utf8_lossy(&answer))
            }
            Self::Apcupsd { at } => {
                let request = b"\0\x06status";
                let answer = exchange(at, request, ends_with_empty_record, limit);
                apcupsd_status(&answer.map_err(said)?)
            }
            Self::Command(script) => match script.run(limit)? {
                0 => Ok(Reading::Online),
                1 => Ok(Reading::OnBattery),
                code => Err(format!("the command exits with {code}")),
            },
            Self::Pipe(pipe, unread) => {
                if unread.is_none() {
                    pipe.wait_for_a_line(limit);
                }
                pipe.read(limit)
            }
        }
    }
}

/// Sends a request and reads until the answer is whole.
fn exchange(
    at: &[SocketAddr],
    request: &[u8],
    is_whole: fn(&[u8]) -> bool,
    limit: Duration,
) -> io::Result<Vec<u8>> {
    let clock = SystemClock::new();
    let end = clock.now() + limit;
    let left = || {
        let left = end.saturating_sub(clock.now());
        if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
    };
    let mut found = Err(io::Error::other("the name has no address"));
    for address in at {
        found = left().and_then(|left| TcpStream::connect_timeout(address, left));
        if found.is_ok() {
            break;
        }
    }
    let mut stream = found?;
    stream.set_write_timeout(Some(left()?))?;
    stream.write_all(request)?;
    let (mut answer, mut piece) = (vec![], [0; 512]);
    while !is_whole(&answer) {
        stream.set_read_timeout(Some(left()?))?;
        let size = stream.read(&mut piece)?;
        if size == 0 || answer.len() + size > ANSWER_MAX {
            return Err(io::Error::other("the answer is not whole, or too long"));
        }
        answer.extend_from_slice(piece.get(..size).unwrap_or_default());
    }
    Ok(answer)
}

fn is_line(answer: &[u8]) -> bool {
    answer.ends_with(b"\n")
}

/// The state in an answer such as `VAR myups ups.status "OL CHRG"`.
fn nut_status(answer: &str) -> Result<Reading, String> {
    let unclear = || format!("upsd answers: {}", answer.trim_end().escape_debug());
    let status = answer.strip_prefix("VAR ").and_then(|rest| rest.split('"').nth(1));
    reading(status.ok_or_else(unclear)?, "OL", &NUT_ON_BATTERY).ok_or_else(unclear)
}

/// Returns the state in `status`: on battery with any word of `on_battery`, otherwise on mains with
/// the word `online`.
fn reading(status: &str, online: &str, on_battery: &[&str]) -> Option<Reading> {
    let has = |word: &str| status.split_whitespace().any(|other| other == word);
    match () {
        () if on_battery.iter().any(|word| has(word)) => Some(Reading::OnBattery),
        () if has(online) => {
            let unprotected = UNPROTECTED.into_iter().find(|word| has(word));
            Some(unprotected.map_or(Reading::Online, Reading::Unprotected))
        }
        () => None,
    }
}

/// Splits an answer of apcupsd into its records. Two bytes before each hold its length.
fn records(mut answer: &[u8]) -> Option<Vec<&[u8]>> {
    let mut records = vec![];
    loop {
        let ([high, low], rest) = answer.split_first_chunk::<2>()?;
        let length = usize::from(*high) << 8 | usize::from(*low);
        let (record, rest) = rest.split_at_checked(length)?;
        if record.is_empty() {
            return Some(records);
        }
        records.push(record);
        answer = rest;
    }
}

fn ends_with_empty_record(answer: &[u8]) -> bool {
    records(answer).is_some()
}

/// The state in an answer of apcupsd, in a record such as `STATUS   : ONLINE`.
fn apcupsd_status(answer: &[u8]) -> Result<Reading, String> {
    let lines = records(answer).unwrap_or_default();
    let lines = lines.into_iter().map(|line| String::from_utf8_lossy(line).into_owned());
    let mut fields = lines.filter_map(|line| {
        let (name, value) = line.split_once(':')?;
        (name.trim() == "STATUS").then(|| value.trim().to_owned())
    });
    let status = fields.next().ok_or("apcupsd does not tell a status")?;
    let unclear = || format!("apcupsd answers: {}", status.escape_debug());
    if status.contains("COMMLOST") {
        return Err(unclear());
    }
    reading(&status, "ONLINE", &APCUPSD_ON_BATTERY).ok_or_else(unclear)
}

/// Records the state in each line. Returns why no more lines can be read.
fn read_lines(mut file: impl Read, pipe: &Pipe) -> String {
    let (mut line, mut byte) = (vec![], [0]);
    // Lines that were in the pipe before the first look are of any age.
    let mut empty_at = None;
    loop {
        let looked_at = pipe.clock.now();
        match file.read(&mut byte) {
            Ok(0) => return "the pipe was closed".to_owned(),
            Ok(_) if byte == *b"\n" => {
                let said = match line.trim_ascii() {
                    b"online" => Ok(Reading::Online),
                    b"battery" => Ok(Reading::OnBattery),
                    other => Err(format!("the pipe says: {}", other.escape_ascii())),
                };
                if let Some(empty_at) = empty_at {
                    pipe.note(said, empty_at);
                }
                line.clear();
            }
            Ok(_) if line.len() < 100 => line.extend_from_slice(&byte),
            Ok(_) => return "the pipe has a line of more than 100 bytes".to_owned(),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                empty_at = Some(looked_at);
                pipe.clock.sleep(LOOK_EVERY);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return error.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Reading::{OnBattery, Online, Unprotected};

    #[test]
    fn answers_of_nut_are_understood() {
        let says = |status: &str| nut_status(&format!("VAR ups ups.status \"{status}\"\n"));
        assert_eq!([says("OL"), says("OL CHRG"), says("OL BOOST")], [const { Ok(Online) }; 3]);
        assert_eq!(
            ["OB", "OB DISCHRG LB", "OL FSD", "OL CAL", "OL DISCHRG"].map(says),
            [const { Ok(OnBattery) }; 5]
        );
        for unclear in [says(""), says("OFF"), says("BYPASS"), says("OLD")] {
            assert!(unclear.is_err(), "{unclear:?}");
        }
        for (status, word) in [
            ("OL BYPASS", "BYPASS"),
            ("OL OFF", "OFF"),
            ("OFF OL", "OFF"),
            ("OL CHRG RB", "RB"),
            ("OL OVER", "OVER"),
        ] {
            assert_eq!(says(status), Ok(Unprotected(word)), "{status}");
        }
        assert_eq!(says("OB BYPASS"), Ok(OnBattery));
        let stale = nut_status("ERR DATA-STALE\n");
        assert_eq!(stale, Err("upsd answers: ERR DATA-STALE".to_owned()));
        nut_status("VAR ups ups.status OL\n").unwrap_err();
    }

    fn apcupsd(lines: &[&str]) -> Vec<u8> {
        let record = |line: &&str| {
            let length = u8::try_from(line.len()).unwrap();
            [&[0, length], line.as_bytes()].concat()
        };
        let mut answer: Vec<u8> = lines.iter().flat_map(record).collect();
        answer.extend([0, 0]);
        answer
    }

    #[test]
    fn answers_of_apcupsd_are_understood_and_read_whole() {
        let says = |status: &str| {
            let status = format!("STATUS   : {status} \n");
            apcupsd_status(&apcupsd(&["APC      : 001,034,0836\n", &status, "LINEV : 230\n"]))
        };
        assert_eq!([says("ONLINE"), says("BOOST ONLINE")], [const { Ok(Online) }; 2]);
        let on_battery = ["ONBATT", "ONBATT LOWBATT", "CAL ONLINE"].map(says);
        assert_eq!(on_battery, [const { Ok(OnBattery) }; 3]);
        assert_eq!(says("ONLINE NOBATT"), Ok(Unprotected("NOBATT")));
        assert_eq!(says("ONLINE REPLACEBATT NOBATT"), Ok(Unprotected("NOBATT")));
        assert_eq!(says("ONLINE REPLACEBATT"), Ok(Unprotected("REPLACEBATT")));
        assert_eq!(says("ONLINE OVERLOAD"), Ok(Unprotected("OVERLOAD")));
        for unclear in [says("COMMLOST"), says("ONLINE COMMLOST"), says(""), says("SELFTEST")] {
            assert!(unclear.is_err(), "{unclear:?}");
        }
        apcupsd_status(&apcupsd(&["LINEV : 230\n"])).unwrap_err();
        let whole = apcupsd(&["STATUS : ONLINE\n"]);
        for size in 0..whole.len() {
            assert!(!ends_with_empty_record(&whole[..size]), "{size}");
        }
        assert!(ends_with_empty_record(&whole));
    }

    #[test]
    fn exit_code_of_a_command_tells_the_state() {
        let run = |command: &str, limit| Source::Command(Script::new(command)).read(limit);
        let limit = Duration::from_secs(20);
        assert_eq!((run("exit 0", limit), run("exit 1", limit)), (Ok(Online), Ok(OnBattery)));
        assert_eq!(run("exit 7", limit), Err("the command exits with 7".to_owned()));
        assert_eq!(run("kill -9 $$", limit), Err("a signal ended the command".to_owned()));
        let slow = run("exec sleep 100", Duration::from_millis(30));
        assert_eq!(slow, Err("the command runs longer than 30 ms".to_owned()));
    }

    /// A pipe in which these pieces arrive, each while its reader does not look.
    struct Pieces(Vec<&'static [u8]>);

    impl Read for Pieces {
        fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
            match self.0.first_mut() {
                None => Ok(0),
                Some([]) => {
                    self.0.remove(0);
                    Err(io::ErrorKind::WouldBlock.into())
                }
                Some(piece) => piece.read(to),
            }
        }
    }

    #[test]
    fn line_of_a_pipe_is_as_old_as_it_can_be() {
        let limit = Duration::from_secs(20);
        let pipe = Pipe::default();
        assert_eq!(read_lines(Pieces(vec![b"online\nonline\n"]), &pipe), "the pipe was closed");
        assert_eq!(pipe.read(limit), Err(NO_LINE.to_owned()), "they waited for the reader");
        let pipe = Pipe::default();
        read_lines(Pieces(vec![b"battery\n", b"online\n"]), &pipe);
        assert_eq!(pipe.read(limit), Ok(Online));
        let before = pipe.clock.now();
        read_lines(Pieces(vec![b"", b"online\nonline\n"]), &pipe);
        assert!(pipe.newest().1 >= before, "the pipe was empty then");
        assert!(pipe.newest().1 + LOOK_EVERY <= pipe.clock.now(), "the line arrived meanwhile");
    }
}
