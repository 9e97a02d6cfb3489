//! Which images, block devices and configurations are served, and which are refused.

use super::*;

#[test]
fn image_is_created_once_and_accessible_only_to_its_owner() {
    let folder = Folder::new("disk-make");
    let ran = serve_once(&folder, "vd --size 64KiB --buffers 2 --buffer-size 8KiB --json");
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.err.contains("created an image of 64.0 KiB"), "{ran:?}");
    let answer = &ran.json()[0];
    assert_eq!(answer["schema"], "seawall.disk.serve/1");
    assert_eq!((&answer["bytes"], &answer["dir"]), (&65536.into(), &"vd.seawall".into()));
    assert_eq!(folder.read("vd"), vec![0; 65536]);
    // The label and two buffers with their headers.
    assert_eq!(
        folder.read("vd.seawall/area").len(),
        (4096_usize + 2 * (8192 + 512)).next_multiple_of(4096)
    );
    assert_eq!(folder.names("."), ["s.lock", "vd", "vd.seawall"]);
    assert_eq!(folder.names("vd.seawall"), ["area", "disk.json", "keeper.lock", "lock"]);
    assert_eq!((folder.mode("vd.seawall"), folder.mode("vd")), (0o700, 0o600));
    // It can be served again with or without its size, and with other buffers.
    folder.write("vd", &vec![7; 65536]);
    for more in ["", "--size 64KiB", "--buffers 3", "--buffer-size 4KiB -q"] {
        let ran = serve_once(&folder, &format!("vd {more}"));
        assert_eq!((ran.code, folder.read("vd")), (0, vec![7; 65536]), "{ran:?}");
        assert!(!ran.err.contains("made"), "{ran:?}");
    }
    for (size, other) in [(65536, "128KiB"), (65536, "32KiB"), (0, "64KiB"), (100, "64KiB")] {
        folder.write("vd", &vec![7; size]);
        let ran = serve_once(&folder, &format!("vd --size {other}"));
        assert!(ran.refused(9).contains("already"), "{ran:?}");
        assert_eq!(folder.read("vd"), vec![7; size]);
    }
}

#[test]
fn existing_image_is_served_unchanged() {
    let folder = Folder::new("disk-brought");
    // An image of any size and content, reached through a link.
    let content: Vec<u8> = (0..70_001u32).map(|n| u8::try_from(n % 251).unwrap()).collect();
    folder.write("there", &content);
    folder.make_link("there", "vd");
    let server = Server::start(&folder, UNKNOWN);
    assert_eq!(server.ready, "ready nbd unix:s");
    let mut client = Client::connect(&folder.path("s"));
    assert_eq!(client.read(69_000, 1001), content[69_000..]);
    client.write(70_000, b"!");
    client.flush();
    let mut changed = content.clone();
    changed[70_000] = b'!';
    assert_eq!(folder.read("there"), changed);
    // Another name or another state directory does not allow a second server of the same image.
    folder.run("disk serve there --export nbd:unix:t --run true", b"").refused(6);
    folder.run("disk serve vd --state mine --export nbd:unix:t --run true", b"").refused(6);
    assert_eq!(folder.names("."), ["s", "s.lock", "there", "vd", "vd.seawall"]);
}

#[test]
fn state_option_sets_the_state_directory() {
    let folder = made("disk-state");
    let server = Server::start(&folder, "vd --state my --export nbd:unix:s");
    assert_eq!(folder.names("."), ["my", "s", "s.lock", "vd"]);
    for name in ["vd --state my", "--state my"] {
        for verb in ["status", "flush", "drain"] {
            folder.run(&format!("disk {verb} {name}"), b"").fine();
        }
    }
    folder.run("disk status vd", b"").refused(1);
    assert_eq!(folder.run("disk status", b"").code, 2);
    folder.run("disk emergency-flush --state my", b"").fine();
    server.signal("-TERM");
    assert_eq!(server.ended().0.code(), Some(0));
    // No state is created in a directory that has other files, or in a file.
    folder.make_folder("theirs");
    folder.write("theirs/letter", b"dear");
    for state in ["theirs", "vd"] {
        let ran = serve_once(&folder, &format!("vd --state {state}"));
        ran.refused(if state == "vd" { 8 } else { 9 });
    }
    assert_eq!(folder.names("theirs"), ["letter"]);
}

#[test]
fn invalid_sizes_and_options_exit_2_and_create_nothing() {
    let folder = Folder::new("disk-usage");
    for wrong in [
        "serve vd",
        "serve --export nbd:unix:s",
        "serve vd --size 0 --export nbd:unix:s",
        "serve vd --size 1000 --export nbd:unix:s",
        "serve vd --size many --export nbd:unix:s",
        "serve vd --size 2048GiB --export nbd:unix:s",
        "serve vd --size 64KiB --buffers 0 --export nbd:unix:s",
        "serve vd --size 64KiB --buffer-size 100 --export nbd:unix:s",
        "serve vd --size 64KiB --buffers 1025 --export nbd:unix:s",
        "serve vd --size 64KiB --buffers 65 --buffer-size 64MiB --export nbd:unix:s --run true",
        "serve vd --size 64KiB --export s",
        "serve vd --size 64KiB --export nbd:unix:",
        "serve vd --size 64KiB --export fuse-dir:",
        "serve vd --size 64KiB --export vhost-user:",
        "serve vd --size 64KiB --export nbd:tcp:65536",
        "serve vd --size 64KiB --export nbd:tcp:0.0.0.0:1",
        "serve vd --size 64KiB --export nbd:unix:s --export nbd:tcp:1",
        "serve nbd+unix:///log --state my --export nbd:unix:s",
        "serve vd --size 64KiB --export nbd:unix:s --power sure",
        "serve vd --size 64KiB --export nbd:unix:s --hold-up 0",
        "emergency-flush vd --deadline soon",
    ] {
        assert_eq!(folder.run(&format!("disk {wrong}"), b"").code, 2, "{wrong}");
    }
    if !cfg!(all(feature = "fuse", target_os = "linux")) {
        for export in ["fuse:file", "fuse-dir:folder"] {
            let ran = folder.run(&format!("disk serve vd --size 64KiB --export {export}"), b"");
            assert_eq!(ran.code, 2, "{ran:?}");
        }
    }
    if !cfg!(all(feature = "vhost-user", target_os = "linux")) {
        let ran = folder.run("disk serve vd --size 64KiB --export vhost-user:s", b"");
        assert!(ran.refused(2).contains("--features vhost-user"));
    }
    assert_eq!(folder.names("."), [""; 0]);
}

#[test]
fn path_without_a_disk_exits_8_and_an_unserved_disk_1() {
    let folder = made("disk-none");
    folder.make_folder("empty");
    for verb in ["serve --export nbd:unix:s", "status", "flush", "drain", "emergency-flush"] {
        folder.run(&format!("disk {verb} empty"), b"").refused(8);
        folder.run(&format!("disk {verb} nowhere"), b"").refused(1);
    }
    for verb in ["status", "flush", "drain", "emergency-flush"] {
        assert!(
            folder
                .run(&format!("disk {verb} vd"), b"")
                .refused(1)
                .contains("no server for this disk")
        );
    }
    assert_eq!(folder.names("."), ["empty", "vd"]);
    folder.write("no-bytes", b"");
    serve_once(&folder, "no-bytes").refused(8);
    assert_eq!(serve_once(&folder, "vd").code, 0);
    let area = folder.read("vd.seawall/area");
    folder.write("vd.seawall/area", &vec![7; area.len()]);
    serve_once(&folder, "vd").refused(8);
    folder.write("vd.seawall/area", &vec![0; area.len()]);
    assert!(serve_once(&folder, "vd").refused(8).contains("is missing"));
    folder.remove("vd.seawall/area");
    assert!(serve_once(&folder, "vd").refused(8).contains("is missing"));
    folder.write("vd.seawall/area", &area);
    folder.write("vd.seawall/disk.json", b"{}");
    assert!(serve_once(&folder, "vd").refused(8).contains("disk.json"));
}

#[test]
fn empty_dump_area_accepts_any_image() {
    let folder = made("disk-adopt");
    assert_eq!(serve_once(&folder, "vd").code, 0);
    let before = folder.read("vd.seawall/disk.json");
    folder.remove("vd");
    let ran = serve_once(&folder, "vd --size 128KiB");
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_ne!(folder.read("vd.seawall/disk.json"), before);
    let ran = folder.run("disk serve vd --export nbd:unix:s --run false", b"");
    assert_eq!(ran.code, 1, "{ran:?}");
}

#[test]
fn creation_interrupted_by_a_kill_can_be_repeated() {
    let folder = Folder::new("disk-making");
    let mut maker = folder.start("disk serve vd --size 4GiB --export nbd:unix:s");
    while folder.names(".") != ["vd.seawall-new"] {
        assert!(maker.try_wait().unwrap().is_none());
    }
    folder.run("disk serve vd --size 4GiB --export nbd:unix:t --run true", b"").refused(6);
    maker.kill().unwrap();
    maker.wait().unwrap();
    assert_eq!(folder.names("."), ["vd.seawall-new"]);
    assert_eq!(serve_once(&folder, "vd --size 64KiB").code, 0);
    assert_eq!(folder.names("."), ["s.lock", "vd", "vd.seawall"]);
}

#[test]
fn config_file_supplies_missing_options() {
    let folder = made("disk-config");
    let template = folder.run("disk config", b"").fine().text().to_owned();
    let line = |key: &str| format!("\n#{key} = ");
    for key in ["image", "export", "size", "state", "power", "hold-up", "metrics"] {
        assert!(template.contains(&line(key)), "{key}: {template}");
    }
    let set = |text: &str, key: &str, value: &str| {
        let (head, tail) = text.split_once(&line(key)).unwrap();
        let (_, tail) = tail.split_once('\n').unwrap();
        format!("{head}\n{key} = {value}\n{tail}")
    };
    let text = set(&set(&template, "image", "vd"), "export", "nbd:unix:s");
    folder.write("vd.conf", set(&text, "hold-up", "77").as_bytes());
    let server = Server::start(&folder, "--config vd.conf");
    assert_eq!(server.ready, "ready nbd unix:s");
    assert_eq!(server.ask(&json!({ "do": "status" }))["supply"]["hold_up_ms"], 77.0);
    drop(server);
    let server = Server::start(&folder, "--config=vd.conf --hold-up 78 --export nbd:unix:t");
    assert_eq!(server.ready, "ready nbd unix:t");
    assert_eq!(server.ask(&json!({ "do": "status" }))["supply"]["hold_up_ms"], 78.0);
    drop(server);
    let between = folder.command("disk --color never serve --config vd.conf");
    for command in [folder.command("disk serve --config vd.conf --color never"), between] {
        let server = Server::of(&folder, command);
        assert_eq!(server.ask(&json!({ "do": "status" }))["supply"]["hold_up_ms"], 77.0);
    }
    folder.write("vd.conf", b"# mine\nimage = vd\nhold = 3\n");
    let ran = folder.run("disk serve --config vd.conf --export nbd:unix:s --run true", b"");
    assert!(ran.refused(2).contains("where: vd.conf, line 3"), "{ran:?}");
    folder.run("disk serve vd --export nbd:unix:s --config none --run true", b"").refused(1);
    folder.write("vd.conf", &vec![b'#'; 70_000]);
    folder.run("disk serve vd --export nbd:unix:s --config vd.conf --run true", b"").refused(1);
    // An option that is missing in both the file and the arguments is an error.
    folder.write("vd.conf", b"export = nbd:unix:s\n");
    assert_eq!(folder.run("disk serve --config vd.conf --run true", b"").code, 2);
}

#[test]
fn path_need_not_be_utf_8() {
    use std::os::unix::ffi::OsStringExt;
    let folder = Folder::new("disk-bytes");
    let of = |text: &[u8]| std::ffi::OsString::from_vec(text.to_vec());
    let mut command = folder.command("disk serve --size 64KiB --run true");
    command.arg(of(b"v\xff")).args(["--export", "nbd:unix:s"]);
    let ran = command.output().unwrap();
    assert!(ran.status.success(), "{ran:?}");
    assert!(folder.path("").join(of(b"v\xff.seawall")).is_dir(), "{:?}", folder.names("."));
}

/// A loop device over a file, if the system has one and allows it.
struct Loop(String);

impl Loop {
    fn over(path: &Path) -> Option<Self> {
        let made = Command::new("losetup").args(["--find", "--show"]).arg(path).output().ok()?;
        let name = String::from_utf8(made.stdout).unwrap().trim().to_owned();
        (made.status.success() && Path::new(&name).exists()).then_some(Self(name))
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").args(["--detach", &self.0]).status();
    }
}

#[test]
fn block_device_is_served_unchanged_by_one_server() {
    let folder = Folder::new("disk-device");
    folder.write("back", &vec![5; 1 << 20]);
    let Some(device) = Loop::over(&folder.path("back")) else {
        eprintln!("skipped: there is no loop device here");
        return;
    };
    let name = &device.0;
    serve_once(&folder, name).refused(2);
    serve_once(&folder, &format!("{name} --state vd.seawall --size 1MiB")).refused(2);
    assert_eq!(folder.names("."), ["back"]);
    let server = Server::start(
        &folder,
        &format!("{name} --state vd.seawall --export nbd:unix:s --power ok --hold-up 60000"),
    );
    let status = server.ask(&json!({ "do": "status" }));
    assert_eq!((&status["bytes"], &status["state"]), (&1_048_576.into(), &"armed".into()));
    serve_once(&folder, &format!("{name} --state other")).refused(6);
    let mut client = Client::connect(&folder.path("s"));
    // A write long enough to bypass the page cache.
    client.write(4096, &vec![6; 200_000]);
    assert_eq!(client.read((1 << 20) - 10, 10), [5; 10]);
    server.signal("-TERM");
    assert_eq!(server.ended().0.code(), Some(0));
    let settings = String::from_utf8(folder.read("vd.seawall/disk.json")).unwrap();
    assert!(settings.contains("\"image\":\"device "), "{settings}");
    drop(device);
    let mut expected = vec![5; 1 << 20];
    expected[4096..204_096].fill(6);
    assert!(folder.read("back") == expected);
}
