//! The machine that fails: it sends a count each millisecond until it is off.

use super::super::monitor::{Reading, Source};
use super::super::{PATIENCE, PAUSE, SIGPWR};
use super::count::{ANSWER_SIZE, Count};
use crate::args::{DiskHoldUp, Monitor, Power};
use crate::service::spawn;
use seawall_io::{Clock, Entropy, SystemClock, SystemEntropy};
use seawall_output::report::{Exit, Failure, say};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The pause between two counts.
const STEP: Duration = Duration::from_millis(1);
/// How long the witness may take to answer the first counts.
const ANSWERED: Duration = Duration::from_secs(5);
/// The last count is sent this many times.
const LAST_TIMES: u32 = 5;

/// Sends counts until the machine is off, or until this program is stopped by hand.
pub(super) fn run(args: &DiskHoldUp, address: &str) -> Result<Exit, Failure> {
    let cannot = |error: io::Error| {
        let what = format!("cannot send counts: {error}");
        Failure::new(Exit::Failed, what).at(address).next("give HOST:PORT of the witness")
    };
    let socket = connect(address).map_err(cannot)?;
    let (is_failing, is_stopped) = (Arc::new(AtomicBool::new(false)), Arc::default());
    listen(&is_failing, &is_stopped).map_err(cannot)?;
    if let Power::Watched(monitor) = &args.power {
        watch(monitor, &is_failing)?;
    }
    let run = SystemEntropy.random().map_err(cannot)?;
    let mut counter = Counter { socket, run, number: 0, announced_us: None };
    let clock = SystemClock::new();
    let mut was_answered = false;
    while !is_stopped.load(Ordering::Relaxed) {
        let now = clock.now();
        if is_failing.load(Ordering::Relaxed) && counter.announce(now) && !args.look.quiet {
            say("seawall: the power failure was announced");
        }
        counter.send(now, false);
        if !was_answered && counter.is_answered() {
            was_answered = true;
            if !args.look.quiet {
                say(&format!("seawall: {address} hears the counts; let the power fail now"));
            }
        }
        if !was_answered && now > ANSWERED {
            let what = "the witness does not answer";
            let next = "start seawall disk measure-holdup --witness PORT there, and open its port";
            return Err(Failure::new(Exit::Failed, what).at(address).next(next));
        }
        clock.sleep(STEP.saturating_sub(clock.now().saturating_sub(now)));
    }
    for _ in 0..LAST_TIMES {
        counter.send(clock.now(), true);
    }
    Ok(Exit::Fine)
}

/// Connects a UDP socket to the first address of the name.
fn connect(address: &str) -> io::Result<UdpSocket> {
    let found: Option<SocketAddr> = address.to_socket_addrs()?.next();
    let found = found.ok_or_else(|| io::Error::other("the name has no address"))?;
    let any = if found.is_ipv4() { "0.0.0.0" } else { "::" };
    let socket = UdpSocket::bind((any, 0))?;
    socket.connect(found)?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// Sets `is_failing` on SIGPWR, and `is_stopped` on SIGINT and SIGTERM.
fn listen(is_failing: &Arc<AtomicBool>, is_stopped: &Arc<AtomicBool>) -> io::Result<()> {
    for signal in [SIGINT, SIGTERM] {
        flag::register(signal, is_stopped.clone())?;
    }
    if let Some(signal) = SIGPWR {
        flag::register(signal, is_failing.clone())?;
    }
    Ok(())
}

/// Queries the monitor on a separate thread. Sets `is_failing` once the machine is on battery.
fn watch(monitor: &Monitor, is_failing: &Arc<AtomicBool>) -> Result<(), Failure> {
    let cannot = |why: String| {
        let failure = Failure::new(Exit::Failed, format!("cannot watch {monitor}: {why}"));
        failure.at("--power").next("check the value of --power")
    };
    let source = Source::open(monitor).and_then(|mut source| source.begin().map(|()| source));
    let mut source = source.map_err(|error| cannot(error.to_string()))?;
    match source.read(PATIENCE) {
        Ok(Reading::Online) => {}
        Ok(Reading::Unprotected(word)) => {
            return Err(cannot(format!("the UPS may not take over: {word}")));
        }
        Ok(Reading::OnBattery) => return Err(cannot("it is on battery already".to_owned())),
        Err(why) => return Err(cannot(why)),
    }
    let is_failing = is_failing.clone();
    let asks = move || {
        let clock = SystemClock::new();
        while source.read(PATIENCE) != Ok(Reading::OnBattery) {
            clock.sleep(PAUSE);
        }
        is_failing.store(true, Ordering::Relaxed);
    };
    spawn("power", asks).map_err(|error| cannot(error.to_string()))
}

struct Counter {
    socket: UdpSocket,
    run: u64,
    number: u64,
    announced_us: Option<u64>,
}

impl Counter {
    /// Records that the power failure was announced. Returns whether this is the first time.
    fn announce(&mut self, now: Duration) -> bool {
        let is_new = self.announced_us.is_none();
        self.announced_us.get_or_insert(micros(now));
        is_new
    }

    fn send(&mut self, now: Duration, is_last: bool) {
        self.number += 1;
        let Self { run, number, announced_us, .. } = *self;
        let count = Count { run, number, time_us: micros(now), announced_us, is_last };
        // The witness counts lost datagrams as missing, and the network may recover.
        let _ = self.socket.send(&count.encode());
    }

    fn is_answered(&self) -> bool {
        let mut bytes = [0; ANSWER_SIZE];
        self.socket.recv(&mut bytes).is_ok() && bytes == Count::answer(self.run)
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
