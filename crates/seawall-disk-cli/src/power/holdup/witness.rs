//! The witness: it receives the counts, and knows the last one when no more arrive.

use super::count::{Count, SIZE};
use crate::args::DiskHoldUp;
use seawall_io::{Clock, SystemClock};
use seawall_output::answer;
use seawall_output::report::{Exit, Failure, say};
use seawall_output::stdout::Output;
use serde::Serialize;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

/// After this time without a count, the machine is taken to be off.
const SILENCE: Duration = Duration::from_secs(3);
/// How long to wait for a datagram before checking the time.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// One of this many counts is answered, beginning with the first.
const ANSWER_EVERY: u64 = 100;

/// How the counts ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Silence,
    ByHand,
}

/// The counts of one run: the first run from which a count arrived.
#[derive(Clone, Copy, Debug)]
struct Heard {
    last: Count,
    /// The number of the first count received: the sender may have started before this program.
    first: u64,
    received: u64,
    at: Duration,
}

impl Heard {
    fn new(count: Count, now: Duration) -> Self {
        Self { last: count, first: count.number, received: 1, at: now }
    }

    /// Takes a datagram. Returns whether it announces the failure for the first time.
    fn take(&mut self, count: Count, now: Duration) -> bool {
        if count.run != self.last.run {
            return false;
        }
        self.received += 1;
        self.at = now;
        let is_news = self.last.announced_us.is_none() && count.announced_us.is_some();
        // Datagrams may overtake each other.
        if count.number > self.last.number {
            self.last = count;
        }
        is_news
    }

    fn end(&self, now: Duration) -> Option<End> {
        match () {
            () if self.last.is_last => Some(End::ByHand),
            () if now.saturating_sub(self.at) >= SILENCE => Some(End::Silence),
            () => None,
        }
    }

    /// How long the machine is known to have run on after the announcement.
    fn held_up_us(&self) -> Option<u64> {
        Some(self.last.time_us.saturating_sub(self.last.announced_us?))
    }

    fn missing(&self) -> u64 {
        let sent = self.last.number.saturating_sub(self.first).saturating_add(1);
        sent.saturating_sub(self.received)
    }
}

answer! {
    /// `seawall disk measure-holdup --witness PORT --json`
    #[serde(tag = "schema", rename = "seawall.disk.measure-holdup/1")]
    struct Measured(from: SocketAddr, heard: &Heard, end: End) {
        from: String = from.to_string(),
        announced: bool = heard.last.announced_us.is_some(),
        held_up_ms: Option<f64> = heard.held_up_us().map(millis),
        stopped_by_hand: bool = end == End::ByHand,
        counts: u64 = heard.received,
        missing: u64 = heard.missing(),
    }
}

/// Receives the counts of one run to its end, and prints the result.
pub(super) fn run(args: &DiskHoldUp, port: u16) -> Result<Exit, Failure> {
    let cannot = |error: io::Error| {
        let what = format!("cannot be a witness at UDP port {port}: {error}");
        Failure::new(Exit::Failed, what).at("--witness").next("give another port")
    };
    let socket = listen(port).map_err(cannot)?;
    let port = socket.local_addr().map_err(cannot)?.port();
    if !args.look.quiet {
        say(&format!("seawall: waiting for counts at UDP port {port}"));
    }
    let (from, heard, end) = hear(args, &socket).map_err(cannot)?;
    let mut out = Output::lock();
    if args.look.json {
        out.json(&Measured::of(from, &heard, end));
    }
    let Some(held_up) = heard.held_up_us().map(millis) else {
        out.finish();
        let what = match end {
            End::Silence => "the counts fell silent without an announcement: no result",
            End::ByHand => "the sender was stopped before a power failure: no result",
        };
        let next = "check that SIGPWR or the monitor of --power reaches the sender, and try again";
        return Err(Failure::new(Exit::Failed, what).at(from).next(next));
    };
    if !args.look.json {
        let least = if end == End::ByHand { "at least " } else { "" };
        out.line(&format!(
            "{from}: ran on for {least}{held_up:.0} ms after the announcement; {} of {} counts \
             are missing",
            heard.missing(),
            heard.missing().saturating_add(heard.received)
        ));
    }
    Ok(out.finish())
}

/// Listens on all addresses of this machine, including IPv6 if the machine has it.
fn listen(port: u16) -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind(("::", port)).or_else(|_| UdpSocket::bind(("0.0.0.0", port)))?;
    socket.set_read_timeout(Some(LOOK_EVERY))?;
    Ok(socket)
}

fn hear(args: &DiskHoldUp, socket: &UdpSocket) -> io::Result<(SocketAddr, Heard, End)> {
    let clock = SystemClock::new();
    let mut found: Option<(SocketAddr, Heard)> = None;
    let mut bytes = [0; SIZE + 1];
    loop {
        let came = match socket.recv_from(&mut bytes) {
            Ok(came) => Some(came),
            Err(error) if is_nothing(&error) => None,
            Err(error) => return Err(error),
        };
        let now = clock.now();
        let count = came.and_then(|(size, from)| Some((Count::decode(bytes.get(..size)?)?, from)));
        if let Some((count, from)) = count {
            if count.number % ANSWER_EVERY == 1 {
                // The sender may be gone already.
                let _ = socket.send_to(&Count::answer(count.run), from);
            }
            let is_announced = if let Some((_, heard)) = &mut found {
                heard.take(count, now)
            } else {
                tell(args, &format!("{from} counts"));
                found = Some((from, Heard::new(count, now)));
                count.announced_us.is_some()
            };
            if is_announced {
                tell(args, "the power failure was announced");
            }
        }
        if let Some((from, heard)) = &found
            && let Some(end) = heard.end(now)
        {
            return Ok((*from, *heard, end));
        }
    }
}

/// Whether this error only means that no datagram arrived: the socket is not connected.
fn is_nothing(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionRefused, Interrupted, TimedOut, WouldBlock};
    [ConnectionRefused, Interrupted, TimedOut, WouldBlock].contains(&error.kind())
}

fn tell(args: &DiskHoldUp, text: &str) {
    if !args.look.quiet {
        say(&format!("seawall: {text}"));
    }
}

fn millis(micros: u64) -> f64 {
    Duration::from_micros(micros).as_secs_f64() * 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(number: u64, announced_us: Option<u64>) -> Count {
        Count { run: 7, number, time_us: number * 1000, announced_us, is_last: false }
    }

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn last_count_after_the_announcement_is_the_result() {
        let mut heard = Heard::new(count(5, None), ms(0));
        assert!(!heard.take(count(6, None), ms(1)));
        assert_eq!(heard.held_up_us(), None);
        assert!(heard.take(count(8, Some(7_500)), ms(3)));
        assert!(!heard.take(count(10, Some(7_500)), ms(5)), "it is known");
        assert!(!heard.take(count(9, Some(7_500)), ms(6)), "it was overtaken");
        assert_eq!((heard.held_up_us(), heard.missing()), (Some(2_500), 1));
        assert_eq!(heard.end(ms(3005)), None);
        assert_eq!(heard.end(ms(3006)), Some(End::Silence));
    }

    /// Any program can send a datagram with any number.
    #[test]
    fn extreme_numbers_are_counted_without_an_overflow() {
        let far = Count { number: u64::MAX, time_us: 1, ..count(0, Some(u64::MAX - 1)) };
        let mut heard = Heard::new(count(0, None), ms(0));
        assert!(heard.take(far, ms(1)));
        assert_eq!((heard.missing(), heard.held_up_us()), (u64::MAX - 2, Some(0)));
        let heard = Heard::new(Count { time_us: u64::MAX, ..far }, ms(0));
        assert_eq!((heard.missing(), heard.held_up_us().map(millis).is_some()), (0, true));
    }

    #[test]
    fn counts_of_another_run_change_nothing() {
        let mut heard = Heard::new(count(1, None), ms(0));
        let other = Count { run: 8, ..count(9, Some(1)) };
        assert!(!heard.take(other, ms(2000)));
        assert_eq!((heard.received, heard.held_up_us()), (1, None));
        assert_eq!(heard.end(ms(3000)), Some(End::Silence));
    }

    #[test]
    fn sender_that_is_stopped_by_hand_ends_it_at_once() {
        let mut heard = Heard::new(count(1, Some(0)), ms(0));
        heard.take(Count { is_last: true, ..count(2, Some(0)) }, ms(1));
        assert_eq!((heard.end(ms(1)), heard.held_up_us()), (Some(End::ByHand), Some(2000)));
    }
}
