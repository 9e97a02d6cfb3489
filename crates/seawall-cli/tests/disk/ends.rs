//! How a server starts and ends: a second server, its command, systemd.

use super::*;

#[test]
fn second_server_of_a_disk_exits_6() {
    let folder = made("disk-two");
    let server = Server::start(&folder, UNKNOWN);
    folder.run("disk serve vd --export nbd:unix:other --run true", b"").refused(6);
    folder.write("other", &vec![0; 65536]);
    folder
        .run("disk serve other --state vd.seawall --export nbd:unix:t --run true", b"")
        .refused(6);
    assert_eq!(server.state(), "write-through");
    folder.run("disk serve other --export nbd:unix:s --run true", b"").refused(1);
}

#[test]
fn server_exits_with_the_code_of_its_command() {
    let folder = made("disk-run");
    let line = "seawall disk serve vd --export nbd:tcp:0 --name wal \
                --run 'echo \"$SEAWALL_DISK_URI\"; seawall() { :; }; exit 7'";
    let ran = folder.shell(line, b"");
    assert_eq!(ran.code, 7, "{ran:?}");
    let said: Vec<&str> = ran.text().lines().collect();
    let [ready, uri] = said[..] else { panic!("{ran:?}") };
    let port = ready.strip_prefix("ready nbd tcp:").unwrap();
    assert_eq!(uri, format!("nbd://127.0.0.1:{port}/wal"));
    assert!(uri.starts_with("nbd://127.0.0.1:") && uri.ends_with("/wal"), "{uri}");
    folder.shell("seawall disk serve vd --export nbd:tcp:0 --run true -q", b"").fine();
    let ran = folder.shell("seawall disk serve vd --export nbd:tcp:0 --run 'kill -KILL $$'", b"");
    assert_eq!(ran.code, 128 + 9, "{ran:?}");
}

#[test]
fn server_stopped_before_its_command_reports_it() {
    let folder = made("disk-early");
    // The command runs until its server ends, and closes the pipes that the test reads.
    let command = "exec >&- 2>&-; kill -TERM $PPID; while kill -0 $PPID; do :; done";
    let ran =
        folder.shell(&format!("seawall disk serve vd --export nbd:tcp:0 --run '{command}'"), b"");
    assert!(ran.refused(1).contains("stopped before its command"), "{ran:?}");
}

/// Runs a server to its end and returns its notifications to systemd.
fn told(folder: &Folder, socket: &std::os::unix::net::UnixDatagram, name: &str) -> Vec<String> {
    let mut command = folder.command("disk serve vd --export nbd:unix:s");
    let micros = PATIENCE.as_micros().to_string();
    command.env("NOTIFY_SOCKET", name).env("WATCHDOG_USEC", micros);
    let server = Server::of(folder, command);
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut bytes = [0; 4096];
    let mut told = vec![];
    let mut hear = |told: &mut Vec<String>| {
        let size = socket.recv(&mut bytes).unwrap();
        told.push(String::from_utf8(bytes[..size].to_vec()).unwrap());
    };
    // Two threads send notifications. The watchdog sends its first at once, and its next much
    // later.
    hear(&mut told);
    hear(&mut told);
    server.signal("-TERM");
    hear(&mut told);
    assert_eq!(server.ended().0.code(), Some(0));
    told.sort();
    told
}

#[test]
fn systemd_is_notified_of_start_and_stop() {
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::{SocketAddr, UnixDatagram};
    let folder = made("disk-notify");
    let path = folder.path("notify");
    let name = format!("seawall-test-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(&name).unwrap();
    let sockets = [
        (UnixDatagram::bind(&path).unwrap(), path.to_str().unwrap().to_owned()),
        (UnixDatagram::bind_addr(&address).unwrap(), format!("@{name}")),
    ];
    for (socket, name) in sockets {
        let ready = "READY=1\nSTATUS=write-through: every flush waits for the device: the power \
                     source is not known to be well (start with --power to arm)";
        let expected = [ready, "STOPPING=1\nSTATUS=draining", "WATCHDOG=1"];
        assert_eq!(told(&folder, &socket, &name), expected);
    }
}

#[test]
fn watchdog_is_notified_in_time_but_not_by_the_command() {
    let folder = made("disk-watchdog");
    let path = folder.path("notify");
    let socket = std::os::unix::net::UnixDatagram::bind(&path).unwrap();
    let mut command = folder.command("disk serve vd --export nbd:unix:s -q --run");
    command.arg("echo \"[$NOTIFY_SOCKET$WATCHDOG_USEC]\"; cat");
    command.env("NOTIFY_SOCKET", &path).env("WATCHDOG_USEC", "30000");
    let server = Server::of(&folder, command);
    assert_eq!(server.rest.recv_timeout(PATIENCE).unwrap(), "[]");
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut bytes = [0; 100];
    let mut signs = 0;
    while signs < 5 {
        let size = socket.recv(&mut bytes).unwrap();
        signs += usize::from(&bytes[..size] == b"WATCHDOG=1");
    }
}

#[test]
fn keeper_notifies_systemd_when_it_listens() {
    let folder = made("disk-keeper-notify");
    let path = folder.path("notify");
    let socket = std::os::unix::net::UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut command = folder.command("disk keep vd.seawall");
    let mut keeper = command.env("NOTIFY_SOCKET", &path).spawn().unwrap();
    let mut bytes = [0; 100];
    let size = socket.recv(&mut bytes).unwrap();
    assert_eq!(bytes[..size], *b"READY=1\nSTATUS=it can be given memory");
    UnixStream::connect(folder.path("vd.seawall/keeper")).unwrap();
    keeper.kill().unwrap();
    keeper.wait().unwrap();
}

/// `proof/life/units.sh` runs these units.
#[test]
fn units_for_systemd_are_valid_and_tight() {
    let folder = made("disk-units");
    if folder.shell("systemd-analyze --version", b"").code != 0 {
        tool::skipped("units_for_systemd_are_valid_and_tight: no systemd-analyze");
        return;
    }
    let units = concat!(env!("CARGO_MANIFEST_DIR"), "/systemd");
    let program = env!("CARGO_BIN_EXE_seawall");
    for unit in ["seawall-keeper.service", "seawall-disk.service"] {
        let line = format!("sed 's,/usr/local/bin/seawall,{program},' '{units}/{unit}' > {unit}");
        folder.shell(&line, b"").fine();
    }
    let verify = "SYSTEMD_UNIT_PATH=$PWD: systemd-analyze verify --man=no $PWD/*.service";
    let ran = folder.shell(verify, b"");
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{ran:?}");
    // The threshold is systemd's exposure level times 10: 0 is the safest, 100 the least safe.
    let security = "systemd-analyze security --offline=yes --threshold=20 $PWD/*.service";
    let ran = folder.shell(security, b"");
    assert_eq!(ran.code, 0, "{}", ran.text());
}
