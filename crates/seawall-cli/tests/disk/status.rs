//! The status that a server reports.

use super::*;
use seawall_io::{Clock, SystemClock};

#[test]
fn watched_status_ends_with_the_server() {
    let folder = made("disk-watch");
    let server = Server::start(&folder, UNKNOWN);
    let mut watch = folder.start("disk status vd --watch --json");
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    for _ in 0..2 {
        let line: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
        assert_eq!(line["schema"], "seawall.disk.status/1");
    }
    server.signal("-TERM");
    assert_eq!(server.ended().0.code(), Some(0));
    assert!(lines.all(|line| line.is_ok()));
    assert_eq!(watch.wait().unwrap().code(), Some(1));
}

/// A file of a process in /proc.
fn proc_file(folder: &Folder, pid: u32, name: &str) -> String {
    String::from_utf8(folder.read(&format!("/proc/{pid}/{name}"))).unwrap()
}

#[test]
fn status_reports_the_memory_lock_of_the_system() {
    let folder = made("disk-memory");
    let server = Server::start(&folder, "vd --export nbd:unix:s --run cat");
    let pid = server.child.id();
    let status = server.ask(&json!({ "do": "status" }));
    let process = proc_file(&folder, pid, "status");
    let locked = process.lines().find_map(|line| line.strip_prefix("VmLck:")).unwrap();
    let kib: u64 = locked.trim().trim_end_matches(" kB").parse().unwrap();
    // The ring and the memory for its dump take 3 MiB each.
    assert_eq!(status["memory_locked"], kib > 6 * 1024, "{status} {locked}");
    assert_eq!(status["memory_why"].is_string(), kib == 0, "{status}");
    let score: i64 = proc_file(&folder, pid, "oom_score_adj").trim().parse().unwrap();
    assert_eq!(status["oom_score_adj"], score);
    let said = folder.run("disk status vd", b"").text().to_owned();
    let shown = if kib > 0 { "locked, " } else { "NOT locked: " };
    assert!(said.contains(&format!("  memory      {shown}")), "{said}");
    // The command does not inherit the server's protection from the OOM killer.
    let mine: i64 = proc_file(&folder, std::process::id(), "oom_score_adj").trim().parse().unwrap();
    let children = proc_file(&folder, pid, &format!("task/{pid}/children"));
    let child = children.split_whitespace().last().unwrap().parse().unwrap();
    assert_eq!(proc_file(&folder, child, "oom_score_adj").trim(), mine.max(score).to_string());
}

#[test]
fn server_without_a_memory_lock_reports_it_and_serves() {
    // Give up the capabilities that exempt root from the limit, if the system allows that.
    let give_up = "setpriv --bounding-set=-sys_resource,-ipc_lock";
    let may_give_up = Command::new("sh").args(["-c", &format!("{give_up} true")]).output();
    let give_up = if may_give_up.unwrap().status.success() { give_up } else { "" };
    let folder = made("disk-unlocked");
    let program = env!("CARGO_BIN_EXE_seawall");
    let ran = folder.shell(
        &format!(
            "ulimit -l 64; exec {give_up} '{program}' disk serve vd --export nbd:unix:s --run \
             '{program} disk status vd --json'"
        ),
        b"",
    );
    assert_eq!(ran.code, 0, "{ran:?}");
    let status: Value = serde_json::from_str(ran.text().lines().nth(1).unwrap()).unwrap();
    let is_locked = status["memory_locked"].as_bool().unwrap();
    assert_eq!(ran.err.contains("memory is NOT locked"), !is_locked, "{ran:?}");
    // Only root may exceed the limit, and only if the capabilities could not be given up.
    assert!(!is_locked || give_up.is_empty(), "{ran:?}");
}

/// Parses a page in the text format of Prometheus, as strictly as the format allows.
fn metrics(page: &str) -> std::collections::BTreeMap<String, String> {
    let is_name = |name: &str| {
        let is_part = |byte: u8| byte.is_ascii_lowercase() || byte == b'_';
        !name.is_empty() && name.bytes().all(is_part)
    };
    assert!(page.ends_with('\n'));
    let mut values = std::collections::BTreeMap::new();
    let mut lines = page.lines();
    while let Some(help) = lines.next() {
        let (name, about) = help.strip_prefix("# HELP ").unwrap().split_once(' ').unwrap();
        assert!(is_name(name) && !about.contains('\\'), "{help}");
        let kind = lines.next().unwrap().strip_prefix(&format!("# TYPE {name} ")).unwrap();
        assert_eq!(kind, if name.ends_with("_total") { "counter" } else { "gauge" });
        let value = lines.next().unwrap().strip_prefix(name).unwrap();
        let value = value.strip_prefix("{image=\"vd\"} ").unwrap();
        assert!(value.parse::<f64>().is_ok_and(f64::is_finite), "{value}");
        let before = values.insert(name.to_owned(), value.to_owned());
        assert_eq!(before, None, "{name} is there twice");
    }
    values
}

fn http(mut stream: impl Read + Write, request: &str) -> String {
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn prometheus_metrics_show_the_status() {
    let folder = made("disk-metrics");
    let server = Server::start(&folder, &format!("{ARMED} --metrics unix:m"));
    let mut client = Client::connect(&folder.path("s"));
    client.write(0, &[1; 10_000]);
    client.flush();
    let ran = folder.run("disk status vd --prometheus", b"");
    let values = metrics(ran.fine().text());
    assert_eq!(values["seawall_disk_size_bytes"], "65536");
    assert_eq!(values["seawall_disk_armed"], "1");
    assert_eq!(values["seawall_disk_writes_total"], "1");
    assert_eq!(values["seawall_disk_written_bytes_total"], "10000");
    assert_eq!(values["seawall_disk_hold_up_seconds"], "60");
    let number = |name: &str| values[name].parse::<f64>().unwrap();
    assert!(number("seawall_disk_dirty_bytes") <= 10_000.0);
    assert_eq!(values["seawall_disk_dirty_bytes_max"], "10000");
    let worst = number("seawall_disk_flush_worst_seconds");
    let margin = number("seawall_disk_margin_seconds");
    assert!(worst > 0.0 && (60.0 - 0.001 - 2.0 * worst - margin).abs() < 1e-9, "{values:?}");
    // The same over HTTP, while one client sends nothing and another never ends its request.
    let connect = || UnixStream::connect(folder.path("m")).unwrap();
    let _silent = connect();
    let mut endless = connect();
    let _ = endless.write_all(&vec![b'a'; 20_000]);
    let page = http(connect(), "GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n");
    let (head, page) = page.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.0 200 OK\r\n"), "{head}");
    assert!(head.contains(&format!("Content-Length: {}\r\n", page.len())), "{head}");
    assert_eq!(metrics(page).keys().collect::<Vec<_>>(), values.keys().collect::<Vec<_>>());
    assert!(http(connect(), "GET /x HTTP/1.0\r\n\r\n").starts_with("HTTP/1.0 404 "));
    // The socket of a killed server is replaced; that of a living server is not.
    folder.write("other", &vec![0; 4096]);
    for place in ["m", "other", "other.seawall"] {
        let line =
            format!("disk serve other --export nbd:unix:t --run true --metrics unix:{place}");
        assert!(folder.run(&line, b"").refused(1).contains("cannot listen"), "{place}");
    }
    assert_eq!(folder.read("other"), vec![0; 4096]);
    server.signal("-KILL");
    server.ended();
    let server = Server::start(&folder, &format!("{UNKNOWN} --metrics unix:m"));
    let ran = folder.run("disk status vd --prometheus", b"");
    assert_eq!(metrics(ran.text())["seawall_disk_armed"], "0");
    assert!(http(connect(), "GET / HTTP/1.0\r\n\r\n").starts_with("HTTP/1.0 200 "));
    assert_eq!(server.state(), "write-through");
}

/// As a monitor needs it: a server that hangs must not make its check hang, too.
#[test]
fn status_of_a_server_that_does_not_answer_is_an_error() {
    let folder = made("status-hangs");
    let server = Server::start(&folder, UNKNOWN);
    server.signal("-STOP");
    does_not_answer(&folder);
    let clients = fill_queue(&folder);
    does_not_answer(&folder);
    drop(clients);
}

/// Connects to the control socket until the system lets no more clients wait for the server.
fn fill_queue(folder: &Folder) -> Vec<UnixStream> {
    let (path, (sender, connected)) = (folder.path("vd.seawall/control"), mpsc::channel());
    let connects = move || {
        while let Ok(stream) = UnixStream::connect(&path) {
            if sender.send(stream).is_err() {
                return;
            }
        }
    };
    std::thread::spawn(connects);
    let mut clients = vec![];
    loop {
        match connected.recv_timeout(Duration::from_secs(2)) {
            Ok(client) => clients.push(client),
            Err(mpsc::RecvTimeoutError::Timeout) => return clients,
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                tool::skipped("a full queue: this process may not open as many connections");
                return clients;
            }
        }
    }
}

fn does_not_answer(folder: &Folder) {
    let mut child = folder.command("disk status vd").spawn().unwrap();
    let clock = SystemClock::new();
    let ended = loop {
        match child.try_wait().unwrap() {
            None if clock.now() < PATIENCE => clock.sleep(Duration::from_millis(5)),
            ended => break ended,
        }
    };
    let said = error_of(&mut child);
    assert_eq!(ended.and_then(|status| status.code()), Some(1), "{said}");
    assert!(said.contains("the server does not answer"), "{said}");
}
