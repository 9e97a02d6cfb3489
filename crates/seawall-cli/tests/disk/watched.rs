//! A monitored power source: an armed disk writes through as soon as it is not healthy.

use super::*;
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::process::Stdio;
use std::sync::{Arc, Mutex};

/// The state of the power source that the monitor reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Says {
    Online,
    OnBattery,
    /// The state is unknown.
    Stale,
    /// The monitor accepts the request and does not answer.
    Nothing,
}

/// A fake monitor that reports what the test sets.
struct Ups {
    port: u16,
    says: Arc<Mutex<Says>>,
}

impl Ups {
    /// Starts a monitor that answers with `answer`.
    fn new(answer: fn(&mut TcpStream, Says)) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let says = Arc::new(Mutex::new(Says::Online));
        let its = says.clone();
        std::thread::spawn(move || {
            let mut unanswered = vec![];
            while let Ok((mut stream, _)) = listener.accept() {
                let says = *its.lock().unwrap();
                if says == Says::Nothing {
                    unanswered.push(stream);
                } else {
                    answer(&mut stream, says);
                }
            }
        });
        Self { port, says }
    }

    fn say(&self, says: Says) {
        *self.says.lock().unwrap() = says;
    }
}

fn nut(stream: &mut TcpStream, says: Says) {
    let mut line = String::new();
    BufReader::new(&*stream).read_line(&mut line).unwrap();
    assert_eq!(line, "GET VAR ups ups.status\n");
    let answer: &[u8] = match says {
        Says::Online => b"VAR ups ups.status \"OL CHRG\"\n",
        Says::OnBattery => b"VAR ups ups.status \"OB DISCHRG\"\n",
        _ => b"ERR DATA-STALE\n",
    };
    // The server may have timed out and disconnected.
    let _ = stream.write_all(answer);
}

fn apcupsd(stream: &mut TcpStream, says: Says) {
    let mut request = [0; 8];
    stream.read_exact(&mut request).unwrap();
    assert_eq!(request, *b"\0\x06status");
    let status = match says {
        Says::Online => "ONLINE",
        Says::OnBattery => "ONBATT",
        _ => "COMMLOST",
    };
    for record in
        ["APC      : 001,034,0836\n".to_owned(), format!("STATUS   : {status} \n"), String::new()]
    {
        let length = u8::try_from(record.len()).unwrap();
        let _ = stream.write_all(&[&[0, length], record.as_bytes()].concat());
    }
}

/// Waits until the disk is in `state` because of `why`, with nothing unwritten unless it is armed.
fn wait_for(server: &Server<'_>, state: &str, why: &str) {
    let is_there = |status: &Value| {
        let says = status["says"].as_str().unwrap();
        status["state"] == state && says.contains(why) && (state == "armed" || status["dirty"] == 0)
    };
    let mut last = Value::Null;
    for _ in 0..6000 {
        last = server.ask(&json!({ "do": "status" }));
        if is_there(&last) {
            return;
        }
        std::thread::park_timeout(Duration::from_millis(10));
    }
    panic!("never {state}: {last}");
}

/// Lets the power source fail in each of these ways and recover after each.
fn fails(server: &Server<'_>, says: impl Fn(Says), ways: &[(Says, &str)]) {
    let mut client = Client::connect(&server.folder.path("s"));
    for (round, (way, why)) in (0..).zip(ways) {
        wait_for(server, "armed", "return early");
        client.write(4096 * round, b"acknowledged");
        client.flush();
        says(*way);
        wait_for(server, "write-through", why);
        let at = usize::try_from(4096 * round).unwrap();
        assert_eq!(server.folder.read("vd")[at..at + 12], *b"acknowledged", "{way:?}");
        client.write(4096 * round, b"on the device");
        client.flush();
        assert_eq!(server.folder.read("vd")[at..at + 13], *b"on the device", "{way:?}");
        says(Says::Online);
    }
    wait_for(server, "armed", "return early");
}

#[test]
fn disk_writes_through_while_the_ups_is_on_battery_or_does_not_answer() {
    for (name, answer, detection_ms) in
        [("nut:ups@", nut as fn(&mut TcpStream, Says), 3200.0), ("apcupsd:", apcupsd, 61200.0)]
    {
        let folder = made(&format!("disk-{}", &name[..3]));
        let ups = Ups::new(answer);
        let monitor = format!("{name}127.0.0.1:{}", ups.port);
        let arguments = format!("{UNKNOWN} --hold-up 120000 --power {monitor}");
        let server = Server::start(&folder, &arguments);
        assert_eq!(server.state(), "armed", "it was asked before");
        let supply = server.ask(&json!({ "do": "status" }))["supply"].clone();
        assert_eq!(supply["monitor"], format!("{monitor}: online"));
        let expected = (&true.into(), &detection_ms.into());
        assert_eq!((&supply["healthy"], &supply["detection_ms"]), expected);
        let ways = [
            (Says::OnBattery, "on battery"),
            (Says::Stale, "no contact"),
            (Says::Nothing, "no answer within 500 ms"),
        ];
        // The monitors differ only in the format of their answers.
        let ways = if name == "apcupsd:" { &ways[..1] } else { &ways[..] };
        fails(&server, |says| ups.say(says), ways);
        let ran = folder.run("disk status vd", b"");
        assert!(ran.fine().text().contains(&format!("{monitor}: online")), "{ran:?}");
        server.signal("-TERM");
        let (_, said) = server.ended();
        assert!(said.contains("on battery: flushes wait; "), "{said}");
    }
}

#[test]
fn command_that_fails_or_hangs_disarms() {
    let folder = made("disk-command");
    let script = b"[ -e hangs ] && exec sleep 100\n[ -e fails ] && exit 3\n! [ -e battery ]\n";
    folder.write("monitor", script);
    let mut command = folder.command(&format!("disk serve {UNKNOWN} --hold-up 60000"));
    command.args(["--power", "command:. ./monitor"]);
    let server = Server::of(&folder, command);
    let says = |says| {
        let now = match says {
            Says::Online => "",
            Says::OnBattery => "battery",
            Says::Stale => "fails",
            Says::Nothing => "hangs",
        };
        for name in ["battery", "fails", "hangs"] {
            if name == now {
                folder.write(name, b"");
            } else if folder.names(".").contains(&name.to_owned()) {
                folder.remove(name);
            }
        }
    };
    let ways =
        [(Says::Stale, "the command exits with 3"), (Says::Nothing, "runs longer than 500 ms")];
    fails(&server, says, &ways);
}

/// The power source fails after the first answer, while the server starts.
#[test]
fn power_source_that_fails_during_the_start_never_arms() {
    let folder = made("disk-late-answer");
    folder.write("monitor", b"[ -e asked ] && exit 1\n: > asked\n");
    let mut command = folder.command(&format!("disk serve {UNKNOWN} --hold-up 60000"));
    command.args(["--power", "command:. ./monitor"]);
    let server = Server::of(&folder, command);
    wait_for(&server, "write-through", "on battery");
    server.signal("-TERM");
    let (status, said) = server.ended();
    assert!(status.success() && !said.contains("seawall: armed"), "{said}");
}

#[test]
fn pipe_that_falls_silent_or_is_closed_disarms() {
    let folder = made("disk-pipe");
    let mut command = folder.command(&format!("disk serve {UNKNOWN} --hold-up 60000 --power fd:0"));
    command.stdin(Stdio::piped());
    let mut server = Server::of(&folder, command);
    let says = Arc::new(Mutex::new(Says::Online));
    let (its, ended) = (says.clone(), Arc::new(Mutex::new(false)));
    let is_ended = ended.clone();
    let mut writer = server.child.stdin.take().unwrap();
    let thread = std::thread::spawn(move || {
        while !*is_ended.lock().unwrap() {
            let line: &[u8] = match *its.lock().unwrap() {
                Says::Online => b"online\n",
                Says::OnBattery => b"battery\n",
                Says::Stale => b"who knows\n",
                Says::Nothing => b"",
            };
            writer.write_all(line).unwrap();
            std::thread::park_timeout(Duration::from_millis(50));
        }
    });
    let ways = [(Says::OnBattery, "on battery"), (Says::Nothing, "no line for")];
    fails(&server, |now| *says.lock().unwrap() = now, &ways);
    *ended.lock().unwrap() = true;
    thread.join().unwrap();
    wait_for(&server, "write-through", "the pipe was closed");
}

/// Standard error is full, and the thread that asks the monitor stops at its report.
#[test]
fn watch_that_hangs_disarms() {
    let folder = made("disk-hung-watch");
    let ups = Ups::new(nut);
    let (mut error, reader) = UnixStream::pair().unwrap();
    let power = format!("--hold-up 60000 --power nut:ups@127.0.0.1:{}", ups.port);
    let mut command = folder.command(&format!("disk serve {UNKNOWN} {power}"));
    command.stderr(OwnedFd::from(error.try_clone().unwrap()));
    let server = Server::of(&folder, command);
    wait_for(&server, "armed", "return early");
    ups.say(Says::OnBattery);
    let mut lines = BufReader::new(&reader).lines().map(Result::unwrap);
    assert!(lines.any(|line| line.contains("on battery: flushes wait")));
    error.set_nonblocking(true).unwrap();
    while error.write(b".").is_ok() {}
    error.set_nonblocking(false).unwrap();
    ups.say(Says::Online);
    wait_for(&server, "write-through", "online, and no answer since");
}

#[test]
fn power_source_that_cannot_be_watched_is_refused() {
    let folder = made("disk-unwatched");
    let ran = serve_once(&folder, "vd --power nut:ups@127.0.0.1:1");
    assert!(ran.refused(2).contains("is too short for nut:ups@127.0.0.1:1"), "{ran:?}");
    for (monitor, takes) in [("nut:ups@127.0.0.1:1", 3200), ("apcupsd:127.0.0.1:1", 61200)] {
        let ran = serve_once(&folder, &format!("vd --power {monitor} --hold-up {takes}"));
        let why = format!("which can take {takes} ms to tell");
        assert!(ran.refused(2).contains(&why), "{ran:?}");
    }
    // What the monitor itself takes comes on top.
    let monitor = "--power nut:ups@127.0.0.1:1 --detection 2000";
    let ran = serve_once(&folder, &format!("vd {monitor} --hold-up 3200"));
    assert!(ran.refused(2).contains("which can take 3200 ms to tell"), "{ran:?}");
    let ran = serve_once(&folder, "vd --hold-up 60000 --power fd:99");
    assert!(ran.refused(1).contains("cannot watch fd:99"), "{ran:?}");
    // No monitor listens there: the server starts, and every flush waits.
    let server =
        Server::start(&folder, &format!("{UNKNOWN} --hold-up 60000 --power nut:ups@127.0.0.1:1"));
    wait_for(&server, "write-through", "no contact");
}
