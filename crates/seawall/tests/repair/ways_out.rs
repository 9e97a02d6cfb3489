//! The three ways out of any damage: salvage, truncation, and a damaged log that continues.

use super::*;

/// Asserts that every record has the payload that was written under its LSN.
pub(crate) fn are_as_written(image: &Image, found: &Found, what: &dyn Fn() -> String) {
    for (lsn, payload) in &found.records {
        let written = usize::try_from(*lsn - 1).ok().and_then(|index| image.records.get(index));
        assert!(Some(payload) == written, "{}: record {lsn} is another", what());
    }
}

/// The highest LSN that a record has, or had before it was lost.
fn highest_taken(found: &Found, damage: &[Damage]) -> u64 {
    let lost = damage.iter().filter_map(|damage| damage.lost.and_then(|lost| lost.to));
    found.records.keys().copied().chain(lost.map(Lsn::get)).max().unwrap_or(0)
}

/// Tries all three ways out of damage, each on a copy.
pub(crate) fn try_all(image: &Image, damaged: &MemStorage, what: &dyn Fn() -> String) {
    let skipping = read(damaged, true).unwrap_or_else(|error| panic!("{}: {error}", what()));
    if judge(damaged).unwrap().damage.iter().any(|damage| damage.cause == Corruption::Keys) {
        // Without the keys, the only way out is a copy of them.
        let refused = rescue(damaged).map(|_| ());
        assert!(matches!(refused, Err(Error::Damaged { .. })), "{}: {refused:?}", what());
        return;
    }
    salvage_keeps_what_is_intact(image, damaged, &skipping, what);
    // A writer uses what is on disk, as after a reboot.
    let rebooted = damaged.power_cut(|_| false);
    cut_keeps_the_beginning(image, &rebooted, what);
    the_log_goes_on(image, &rebooted, what);
}

fn salvage_keeps_what_is_intact(
    image: &Image,
    damaged: &MemStorage,
    skipping: &Found,
    what: &dyn Fn() -> String,
) {
    let (target, rescued) = match rescue(damaged) {
        Ok(done) => done,
        Err(Error::NotALog { .. }) => {
            assert!(skipping.records.is_empty(), "{}: nothing to salvage", what());
            return;
        }
        Err(error) => panic!("{}: {error}", what()),
    };
    // The salvage reports at least the damage of a diagnosis, and more if `live` of a killed writer
    // is known.
    let says = |known: &Damage| {
        rescued.damage.iter().any(|damage| {
            let same = (damage.segment, damage.cause) == (known.segment, known.cause);
            same || known.lost.zip(damage.lost).is_some_and(|(known, said)| said.from <= known.from)
        })
    };
    let known = common::maintenance(&storage(damaged)).diagnose().unwrap().damage;
    assert!(known.iter().all(says), "{}: {known:#?}, {rescued:#?}", what());
    let target = target.power_cut(|_| false);
    let found = judge(&target).unwrap();
    assert_eq!(found.verdict, Verdict::Clean, "{}: {found:#?}", what());
    assert_eq!(
        (found.records, &found.given_up),
        (rescued.records, &rescued.given_up),
        "{}",
        what()
    );
    let kept = read(&target, false).unwrap();
    are_as_written(image, &kept, what);
    let here: BTreeSet<u64> = kept.records.keys().copied().collect();
    let given_up = |lsn| rescued.given_up.iter().any(|lost| names(lost, lsn));
    let missing = skipping.records.keys().filter(|lsn| !here.contains(lsn));
    let missing: Vec<_> = missing.copied().collect();
    assert_eq!(missing.len() as u64, rescued.broken_sets, "{}: {missing:?}", what());
    assert!(missing.iter().all(|lsn| given_up(*lsn)), "{}: {missing:?}", what());
    let last = here.iter().max().copied().unwrap_or(0);
    for lsn in 1..=last {
        assert!(here.contains(&lsn) != given_up(lsn), "{}: record {lsn}", what());
    }
    let log = open(&laid_out(of_any_size(3), image.layout), &target).unwrap();
    let next = log.append(b"\"after\"").unwrap().get();
    let highest = highest_taken(skipping, &rescued.damage);
    assert!(next > highest.max(last), "{}: number {next} was taken", what());
    assert_eq!(read_own(&log).count(), kept.count() + 1, "{}", what());
}

fn cut_keeps_the_beginning(image: &Image, damaged: &MemStorage, what: &dyn Fn() -> String) {
    let device = damaged.kill();
    let plain = read(damaged, false).unwrap();
    let planned = common::maintenance(&storage(&device)).plan_truncation().ok();
    let done = match common::maintenance(&storage(&device)).truncate_damaged_tail() {
        Ok(done) => done,
        Err(Error::Damaged { damage, .. }) => {
            let at_start = plain.records.is_empty() || damage.cause == Corruption::Manifest;
            assert!(at_start && planned.is_none(), "{}: {damage}", what());
            return;
        }
        Err(error) => panic!("{}: {error}", what()),
    };
    let device = device.power_cut(|_| false);
    let found = judge(&device).unwrap();
    assert_eq!(found.verdict, Verdict::Clean, "{}: {found:#?}", what());
    let log = open(&laid_out(again(3), image.layout), &device)
        .unwrap_or_else(|error| panic!("{}: {error}", what()));
    let kept = read_own(&log);
    assert!(kept.is_prefix(), "{}", what());
    are_as_written(image, &kept, what);
    // Only the beginning of a set whose end is lost may be missing.
    assert!(kept.count() + 2 >= plain.count(), "{}: {} of {}", what(), kept.count(), plain.count());
    assert_eq!(kept.records.keys().max().copied(), done.last.map(Lsn::get), "{}", what());
    let planned = planned.unwrap();
    assert_eq!((planned.last, planned.damage), (done.last, done.damage.clone()), "{}", what());
    if done.damage.is_empty() {
        assert!(plain.count() <= kept.count(), "{}: an open would have kept more", what());
    }
    let next = log.append(b"\"after\"").unwrap().get();
    assert_eq!(next, kept.count() + 1, "{}", what());
}

fn the_log_goes_on(image: &Image, damaged: &MemStorage, what: &dyn Fn() -> String) {
    let skipping = read(damaged, true).unwrap();
    let device = damaged.kill();
    let log: Bytes = match open(&laid_out(again(3), image.layout).mode(OpenMode::Salvage), &device)
    {
        Ok(log) => log,
        Err(Error::Damaged { .. }) => return,
        Err(error) => panic!("{}: {error}", what()),
    };
    let was_damaged = !log.recovery().damage.is_empty();
    let next = log.append(b"\"after\"").unwrap().get();
    let highest = highest_taken(&skipping, &judge(damaged).unwrap().damage);
    assert!(next > highest, "{}: number {next} was taken", what());
    log.close().unwrap();
    let device = device.power_cut(|_| false);
    let found = judge(&device).unwrap();
    let is_damaged = !found.damage.is_empty();
    assert!(was_damaged || !is_damaged, "{}: {found:#?}", what());
    let mut after = read(&device, true).unwrap();
    assert_eq!(after.records.remove(&next).as_deref(), Some(b"\"after\"".as_slice()), "{}", what());
    are_as_written(image, &after, what);
    let lost = |lsn: u64| {
        found.damage.iter().any(|damage| damage.lost.is_some_and(|lost| names(&lost, lsn)))
    };
    for lsn in skipping.records.keys() {
        assert!(after.records.contains_key(lsn), "{}: record {lsn} went", what());
    }
    for lsn in 1..next {
        assert!(after.records.contains_key(&lsn) || lost(lsn), "{}: record {lsn}", what());
    }
    // The log opens again in salvage mode, and not without it.
    assert!(!is_damaged || open(&laid_out(again(4), image.layout), &device).is_err(), "{}", what());
    let log = open(&laid_out(again(4), image.layout).mode(OpenMode::Salvage), &device).unwrap();
    assert_eq!(log.append(b"\"again\"").unwrap().get(), next + 1, "{}", what());
}

/// The device cannot read one block of a segment. That is an error, not damage, for callers that do
/// not skip damage; for those that do, the damage is reported.
#[test]
fn unreadable_block_is_not_damage_and_hides_no_end() {
    for image in images().filter(|image| matches!(image.end, End::Closed | End::PowerCut)) {
        let end = (image.end, image.layout);
        let others = ["manifest".to_owned()];
        let is_head = |file: &String| file.contains(".seg") || file.contains(".head");
        let heads = files(&image.device).into_iter().filter(is_head);
        for file in heads.chain(others) {
            let length = image.device.bytes(&file).unwrap().len();
            for start in (0..length).step_by(512) {
                let device = image.device.kill();
                device.fail_read(&file, start..start + 512);
                let what = || format!("{end:?}, {file}, block at {start}");
                let error = open(&again(3), &device).map(drop);
                assert!(!matches!(error, Err(Error::Damaged { .. })), "{}: {error:?}", what());
                let verdict = judge(&device);
                assert!(!matches!(&verdict, Ok(found) if !found.damage.is_empty()), "{}", what());
                if start < 4 * 512 {
                    read_without_head(&image, &device, &what);
                    continue;
                }
                read_around(&image, &device, &what);
                // After the last record too: it is not known to be the last.
                let is_data = start >= 4 * 512 + 512;
                let damage = common::maintenance(&storage(&device)).diagnose().unwrap().damage;
                let is_named = !damage.is_empty();
                assert!(is_named || file != NEWEST || !is_data, "{}", what());
            }
            let device = image.device.kill();
            device.fail_read(&file, 0..4 * 512);
            read_without_head(&image, &device, &|| format!("{end:?}, {file}, all of the head"));
        }
    }
}

/// A diagnosis names what the device cannot read, and every record that a salvage does not copy.
fn read_without_head(image: &Image, device: &MemStorage, what: &dyn Fn() -> String) {
    let mut maintenance = common::maintenance(&storage(device));
    let found = maintenance.diagnose().unwrap_or_else(|error| panic!("{}: {error}", what()));
    let unreadable = |damage: &Damage| damage.cause == Corruption::Unreadable;
    // A diagnosis reads the marks of the newest segment only.
    let is_named = found.damage.is_empty() || found.damage.iter().any(unreadable);
    assert!(is_named, "{}: {:?}", what(), found.damage);
    let (target, rescued) = rescue(device).unwrap_or_else(|error| panic!("{}: {error}", what()));
    assert!(rescued.damage.iter().any(unreadable), "{}: {:?}", what(), rescued.damage);
    assert_eq!(rescued.records, found.records, "{}", what());
    let kept = read(&target, true).unwrap();
    are_as_written(image, &kept, what);
    for lsn in 1..=image.records.len() as u64 {
        let lost = |damage: &Damage| damage.lost.is_some_and(|lost| names(&lost, lsn));
        let is_lost = found.damage.iter().any(lost);
        assert!(kept.records.contains_key(&lsn) != is_lost, "{}: record {lsn}", what());
        assert_eq!(is_lost, rescued.damage.iter().any(lost), "{}: record {lsn}", what());
    }
}

fn read_around(image: &Image, device: &MemStorage, what: &dyn Fn() -> String) {
    let found = common::maintenance(&storage(device))
        .diagnose()
        .unwrap_or_else(|error| panic!("{}: {error}", what()));
    let skipping = read(device, true).unwrap_or_else(|error| panic!("{}: {error}", what()));
    are_as_written(image, &skipping, what);
    let all = image.records.len() as u64;
    for lsn in 1..=all {
        let lost = found.damage.iter().any(|damage| {
            damage.cause == Corruption::Unreadable
                && damage.lost.is_some_and(|lost| names(&lost, lsn))
        });
        assert!(skipping.records.contains_key(&lsn) != lost, "{}: record {lsn}", what());
    }
    let (target, rescued) = rescue(device).unwrap();
    assert_eq!(rescued.records + rescued.broken_sets, skipping.count(), "{}", what());
    are_as_written(image, &read(&target, false).unwrap(), what);
}

const ENDS: [End; 4] = [End::Closed, End::Confirmed, End::PowerCut, End::Killed];

/// Every way for a log to end, in both layouts.
fn images() -> impl Iterator<Item = Image> {
    layouts().flat_map(|layout| ENDS.map(|end| write_in(end, layout)))
}

#[test]
pub(crate) fn every_flipped_bit_can_be_repaired_in_three_ways() {
    let (mut tried, mut sample) = (0, Sample::one_in(20));
    for image in images() {
        let end = (image.end, image.layout);
        for file in files(&image.device) {
            let length = image.device.bytes(&file).unwrap().len();
            // One bit of every fifth byte, at changing bit positions.
            for at in (0..length).step_by(5).filter(|_| sample.takes_next()) {
                let damaged = image.device.kill();
                damaged.edit(&file, |bytes| bytes[at] ^= 1 << (at % 8));
                try_all(&image, &damaged, &|| format!("{end:?}, {file}, byte {at}"));
                tried += 1;
            }
        }
    }
    assert!(tried > sample.least(6_000), "{tried}");
}

#[test]
pub(crate) fn every_damaged_run_can_be_repaired_in_three_ways() {
    let reach = usize::try_from(GEOMETRY.reach).unwrap();
    let mut sample = Sample::one_in(20);
    for image in images() {
        let end = (image.end, image.layout);
        for file in files(&image.device) {
            let length = image.device.bytes(&file).unwrap().len();
            for (start, size) in (0..length)
                .step_by(128)
                .flat_map(|at| [(at, 64), (at, 200), (at, reach), (at, 2000)])
            {
                let run = start..(start + size).min(length);
                for fill in
                    [Fill::Zeros, Fill::Garbage(1)].into_iter().filter(|_| sample.takes_next())
                {
                    let damaged = image.device.kill();
                    damaged.edit(&file, |bytes| spoil(&mut bytes[run.clone()], fill));
                    try_all(&image, &damaged, &|| format!("{end:?}, {file}, {run:?}, {fill:?}"));
                }
            }
        }
    }
}

#[test]
pub(crate) fn every_lost_or_misplaced_file_can_be_repaired_in_three_ways() {
    let mut sample = Sample::one_in(1);
    for image in images() {
        let end = (image.end, image.layout);
        let files = files(&image.device);
        for file in &files {
            let length = image.device.bytes(file).unwrap().len();
            for length in (0..length).step_by(96).filter(|_| sample.takes_next()) {
                let damaged = image.device.kill();
                damaged.edit(file, |bytes| bytes.truncate(length));
                try_all(&image, &damaged, &|| format!("{end:?}, {file} cut to {length}"));
            }
            let damaged = image.device.kill();
            damaged.remove_raw(file);
            try_all(&image, &damaged, &|| format!("{end:?}, {file} lost"));
            for other in files.iter().filter(|other| other != &file) {
                let damaged = image.device.kill();
                damaged.copy_raw(other, file);
                try_all(&image, &damaged, &|| format!("{end:?}, {other} copied over {file}"));
            }
        }
    }
}

/// The image: the header of a segment, or its first batch if that says where the segment begins,
/// names too high a first record, even one beyond the next segment. The checksum is valid.
#[test]
fn base_that_is_too_high_takes_no_record_of_another_segment_with_it() {
    for image in images() {
        for pair in headers(&image.device).windows(2) {
            let (first, next) = (pair[0].base, pair[1].base);
            let forged = [next.previous().unwrap(), next.next(), lsn(4_412_901_075_595_854_108)];
            // Within the segment, a batch with another number is another record.
            let counts = |base: &Lsn| *base > first && (*base > next || !pair[0].named_ahead);
            for base in forged.into_iter().filter(counts) {
                let what = || format!("{:?}, {:?}, {first} as {base}", image.end, image.layout);
                let device = image.device.kill();
                forge_base(&device, &pair[0], base);
                let (damage, shown) =
                    (judge(&device).unwrap().damage, read(&device, true).unwrap());
                let is_lost =
                    |lsn| damage.iter().any(|d| d.lost.is_some_and(|lost| names(&lost, lsn)));
                for number in 1..=images::count(&image.records) {
                    let is_here = (first..next).contains(&lsn(number));
                    assert!(is_here || !is_lost(number), "{}: {number}: {damage:#?}", what());
                    let is_shown = shown.records.contains_key(&number);
                    assert!(is_shown != is_lost(number), "{}: {number}: {damage:#?}", what());
                }
                try_all(&image, &device, &what);
                finds_what_is_not_lost(&image, &device, &is_lost, &what);
            }
        }
    }
}

/// Gives a segment another first record, with valid checksums.
fn forge_base(device: &MemStorage, header: &SegmentHeader, base: Lsn) {
    device.edit(&header.head_name(), |bytes| {
        if header.named_ahead {
            let at = usize::try_from(header.data_start()).unwrap();
            bytes[at + 8..at + 16].copy_from_slice(&base.get().to_le_bytes());
            let crc = header.salt().checksum(Offset(header.data_start()), &bytes[at + 4..at + 48]);
            bytes[at..at + 4].copy_from_slice(&crc.to_le_bytes());
        } else {
            let forged = SegmentHeader { base, carried: base.previous(), ..header.clone() };
            bytes[..HEADER_SIZE].copy_from_slice(&forged.encode());
        }
    });
}

/// Checks that the log continues, and finds the new record and each old one that is not lost.
fn finds_what_is_not_lost(
    image: &Image,
    device: &MemStorage,
    is_lost: &dyn Fn(u64) -> bool,
    what: &dyn Fn() -> String,
) {
    let options = laid_out(again(5), image.layout).mode(OpenMode::Salvage);
    let log = open(&options, &device.power_cut(|_| false)).unwrap();
    let new = log.append(b"\"after\"").unwrap();
    assert_eq!(new.get(), images::count(&image.records) + 1, "{}", what());
    for number in 1..=new.get() {
        match log.get(lsn(number)) {
            Ok(found) => assert!(found.is_some() && !is_lost(number), "{}: {number}", what()),
            Err(Error::Damaged { .. }) => assert!(is_lost(number), "{}: {number}", what()),
            Err(error) => panic!("{}: record {number}: {error}", what()),
        }
    }
}
