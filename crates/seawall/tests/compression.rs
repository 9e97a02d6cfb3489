//! Logs written compressed: readers without compression refuse them before they reach a compressed
//! batch, and the setting is kept. `encoded.rs` runs the tests of all other logs on them, too.

use crate::{common, in_flight};

use common::images::headers;
use common::lives::Act;
use common::workloads::each_power_cut;
use common::{
    Bytes, GEOMETRY, METHOD, compressed, judge, laid_out, lsn, of_any_size, open, payload, read,
    read_own, tiny,
};
use seawall::verify::Verdict;
use seawall::{Compression, Error, Layout, Level, Maintenance, Options};
use seawall_format::{Manifest, Refused};
use seawall_io::Storage;
use seawall_testkit::MemStorage;
use std::sync::Arc;

use Act::Append;

/// A program without compression reads the manifest first, and refuses the log because of it.
#[test]
fn manifest_says_it_before_a_segment_does() {
    let mut states = 0;
    // The log is not compressed at first.
    let before = common::lives::live(
        &MemStorage::new(),
        &[Append(100), Append(200)],
        Level::Synced,
        &common::lives::Life::unborn(Layout::Binary),
    );
    let acts = &[Append(800), Append(800), Append(960)];
    let run = |stop| {
        let device = before.device.kill();
        device.stop_after(stop);
        compressed(|| common::lives::live(&device, acts, Level::Synced, &before))
    };
    let whole = run(u64::MAX);
    assert!(whole.error.is_none() && headers(&whole.device).len() > 1, "{:?}", whole.error);
    for stop in 0..=whole.device.steps() {
        let life = run(stop);
        for (mask, device) in common::lives::cuts(&life.device, stop, 256) {
            let slots = Manifest::decode_file(&device.bytes("manifest").unwrap());
            if headers(&device).iter().any(|header| header.compression_max == METHOD) {
                let all = slots.iter().flatten().all(|slot| slot.compression_max == METHOD);
                assert!(all, "step {stop}, kept {mask:b}: {slots:?}");
                states += 1;
            }
            let what = format!("step {stop}, kept {mask:b}");
            common::lives::check(&life, &device, common::lives::Faults::None, &what);
        }
    }
    assert!(states > 20, "{states}");
    // The same for a log that is compressed from the start.
    compressed(|| {
        each_power_cut(&[&[Append(960)]], 256, |_, device, what| {
            let slots = Manifest::decode_file(&device.bytes("manifest").unwrap_or_default());
            let all = slots.iter().flatten().all(|slot| slot.compression_max == METHOD);
            assert!(all, "{what}: {slots:?}");
        });
    });
}

/// The options of another process, with or without a compression setting.
fn with(wish: Option<Compression>) -> Options {
    // One segment has space for everything.
    let options = of_any_size(7).geometry(GEOMETRY, 20 * 512).encode_sizes(0, 300);
    match wish {
        Some(compression) => options.compression(compression),
        None => options,
    }
}

#[test]
fn setting_is_kept_and_changes_at_an_open() {
    let device = MemStorage::new();
    let mut last = 0;
    let wishes = [
        (None, false, 1),
        (Some(Compression::None), false, 1),
        (Some(METHOD), true, 2),
        (None, true, 2),
        (Some(Compression::None), false, 2),
        (None, false, 2),
        (Some(METHOD), true, 2),
    ];
    for (wish, compresses, segments) in wishes {
        let log = open(&with(wish), &device).unwrap();
        last += 1;
        log.append(&compressed(|| payload(last, 1, 180))).unwrap();
        let stats = log.stats();
        assert_eq!(stats.compressed, u64::from(compresses), "{wish:?}");
        assert!(stats.bytes <= stats.plain_bytes, "{stats:?}");
        assert_eq!(read_own(&log).count(), last);
        log.close().unwrap();
        let found = headers(&device);
        assert_eq!(found.len(), segments, "{wish:?}");
        let of_log = Manifest::decode_file(&device.bytes("manifest").unwrap());
        let has_bit = found.iter().any(|header| header.compression_max == METHOD);
        assert!(
            of_log.iter().flatten().all(|slot| (slot.compression_max == METHOD) == has_bit),
            "{of_log:?}"
        );
        assert_eq!(judge(&device).unwrap().verdict, Verdict::Clean);
        for (number, payload) in read(&device, false).unwrap().records {
            assert_eq!(payload, compressed(|| common::payload(number, 1, 180)));
        }
    }
}

/// The stream threshold applies to the bytes handed over, not to their size on the device.
#[test]
fn compressed_stream_has_several_writes_in_flight() {
    compressed(|| {
        let device = MemStorage::new();
        let options = in_flight::options().stream_batch(600, usize::MAX);
        let log = open(&options, &device).unwrap();
        let mut count = 0;
        while log.stats().rolls < 4 {
            count += 1;
            log.append(&payload(count, 1, 700)).unwrap();
        }
        assert!(log.stats().bytes < count * 600, "{:?}", log.stats());
        let found: Vec<_> = headers(&device).iter().map(|header| header.in_flight_max).collect();
        assert_eq!(found, [1, 3, 3, 3, 3]);
    });
}

#[test]
fn readable_log_cannot_be_compressed() {
    let wish = || laid_out(with(Some(METHOD)), Layout::Text);
    let refused = open(&wish(), &MemStorage::new()).unwrap_err();
    let why = |error: &Error| {
        assert!(matches!(error, Error::InvalidOption { .. }), "{error}");
        error.to_string()
    };
    assert!(why(&refused).contains("a readable log cannot be compressed"), "{refused}");
    let device = MemStorage::new();
    open(&laid_out(tiny(1), Layout::Text), &device).unwrap().close().unwrap();
    let before = device.bytes("manifest");
    why(&open(&wish(), &device).unwrap_err());
    assert_eq!(device.bytes("manifest"), before);
}

#[test]
fn salvaged_log_stays_compressed_also_without_its_manifest() {
    let device = MemStorage::new();
    let log = open(&with(Some(METHOD)), &device).unwrap();
    (1..=9).for_each(|number| {
        log.append(&compressed(|| payload(number, 1, 400))).unwrap();
    });
    log.close().unwrap();
    for loses_manifest in [false, true] {
        let damaged = device.kill();
        if loses_manifest {
            damaged.remove_raw("manifest");
        }
        let source: Arc<dyn Storage> = Arc::new(damaged);
        let target = MemStorage::new();
        Maintenance::on(&source).salvage_to(Arc::new(target.clone())).unwrap();
        assert_eq!(read(&target, false).unwrap().count(), 9);
        let log: Bytes = open(&with(None), &target).unwrap();
        assert_eq!(log.append(&compressed(|| payload(10, 1, 400))).unwrap(), lsn(10));
        assert_eq!(log.stats().compressed, 1, "manifest lost: {loses_manifest}");
    }
}

#[test]
fn program_without_the_method_names_it_and_changes_nothing() {
    let device = MemStorage::new();
    let log = open(&with(None), &device).unwrap();
    log.append(b"one").unwrap();
    log.close().unwrap();
    device.edit("manifest", |bytes| {
        for slot in Manifest::decode_file(bytes).into_iter().flatten() {
            let [compression_max, compression] = [Compression::Zstd; 2];
            let slot = Manifest { compression_max, compression, ..slot };
            let at = usize::try_from(slot.offset().0).unwrap();
            bytes[at..at + 208].copy_from_slice(&slot.encode());
        }
    });
    let before = device.bytes("manifest");
    let storage: Arc<dyn Storage> = Arc::new(device.clone());
    let found = [
        open(&with(None), &device).map(|_| ()),
        read(&device, false).map(|_| ()),
        judge(&device).map(|_| ()),
        Maintenance::on(&storage).plan_repair().map(|_| ()),
        Maintenance::on(&storage).salvage_to(Arc::new(MemStorage::new())).map(|_| ()),
    ];
    if Compression::Zstd.is_built_in() {
        assert!(found.iter().all(Result::is_ok), "{found:?}");
        return;
    }
    for found in found {
        let error = found.unwrap_err();
        let refused = Refused::NotBuiltIn { compression: "zstd" };
        assert!(matches!(&error, Error::Unsupported { refused: found, .. } if *found == refused));
        let why = format!("{error:#}");
        let needs = "build this program with the cargo feature `zstd`";
        assert!(why.contains("manifest") && why.contains(needs), "{why}");
    }
    assert_eq!(device.bytes("manifest"), before);
    let wish = with(Some(Compression::Zstd));
    let refused = open(&wish, &MemStorage::new()).unwrap_err().to_string();
    assert!(refused.contains("compression requires the cargo feature `zstd`"), "{refused}");
}

/// A segment that allows zstd may hold LZ4, but not the reverse.
#[cfg(feature = "zstd")]
#[test]
fn change_to_zstd_needs_a_new_segment_and_back_needs_none() {
    let device = MemStorage::new();
    let wishes = [
        (Compression::Lz4, 2, Compression::Lz4),
        (Compression::Zstd, 3, Compression::Zstd),
        (Compression::Lz4, 3, Compression::Zstd),
        (Compression::None, 3, Compression::Zstd),
        (Compression::Zstd, 3, Compression::Zstd),
    ];
    open(&with(None), &device).unwrap().close().unwrap();
    for (number, (wish, segments, max)) in (1..).zip(wishes) {
        let log = open(&with(Some(wish)), &device).unwrap();
        log.append(&compressed(|| payload(number, 1, 400))).unwrap();
        assert_eq!(log.stats().compressed, u64::from(wish != Compression::None), "{wish:?}");
        log.close().unwrap();
        let found = headers(&device);
        assert_eq!(found.len(), segments, "{wish:?}");
        assert_eq!(found.last().map(|header| header.compression_max), Some(max), "{wish:?}");
        let slots = Manifest::decode_file(&device.bytes("manifest").unwrap());
        assert!(slots.iter().flatten().all(|slot| slot.compression_max == max), "{slots:?}");
        assert_eq!(judge(&device).unwrap().verdict, Verdict::Clean);
    }
    assert_eq!(read(&device, false).unwrap().count(), 5);
}
