//! A disk whose device is another NBD server.

use super::*;

use seawall_disk::device::{Cost, Device};
use seawall_disk::nbd::{Limits, Listen, Server, Target};
use seawall_io::{File, Storage, SystemClock};
use seawall_testkit::MemStorage;
use std::sync::Arc;

/// A simulated device with the exports `home` and `area`, listening at `d`.
fn device(folder: &Folder) -> Server {
    let storage = MemStorage::new();
    let region = |(name, size)| -> Arc<dyn File> {
        let file = storage.create(name).unwrap();
        file.set_len(size).unwrap();
        file
    };
    let regions = [("home", 1 << 20), ("area", 16 << 20)].map(region);
    let cost = Cost { delay: Duration::ZERO, bandwidth: 0 };
    let device = Device::new(regions.into(), cost, Arc::new(SystemClock::new())).unwrap();
    let device = Arc::new(device);
    let exports: [(&str, Arc<dyn Target>); 2] =
        [("home", Arc::new(device.region(0))), ("area", Arc::new(device.region(1)))];
    Server::start_all(&exports, &Listen::Unix(folder.path("d")), Limits::default()).unwrap()
}

#[test]
fn disk_over_nbd_is_served_or_refused_with_a_reason() {
    let folder = Folder::new("device-serve");
    let device = device(&folder);
    let uri = "nbd+unix:///home?socket=d";
    let serve =
        |what: &str| folder.run(&format!("disk serve {what} --export nbd:unix:s --run true"), b"");
    let served = serve(&format!("{uri} --state state"));
    assert_eq!(served.code, 0, "{served:?}");
    for wrong in [
        uri.to_owned(),
        format!("{uri} --state state --size 1MiB"),
        "nbd+unix:///home --state state".to_owned(),
    ] {
        assert_eq!(serve(&wrong).code, 2, "{wrong}");
    }
    let unknown = serve("nbd+unix:///log?socket=d --state other");
    assert!(unknown.code == 1 && unknown.err.contains("no disk of this name"), "{unknown:?}");
    device.stop().unwrap();
    assert_eq!(serve(&format!("{uri} --state state")).code, 1);
}
