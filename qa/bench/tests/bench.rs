//! Tests that the benches measure, report and clean up. Their speed is not tested.

#[path = "../../../crates/seawall-cli/tests/tool/mod.rs"]
mod tool;

use serde_json::json;
use std::path::Path;
use tool::{Folder, beside_others, skipped};

/// The program under test.
const PROGRAM: &str = env!("CARGO_BIN_EXE_seawall-bench");

/// Reads a page and checks that it is complete: no scripts, and no placeholder left.
#[track_caller]
fn page(folder: &Folder, name: &str) -> String {
    let page = String::from_utf8(folder.read(name)).expect("text");
    assert!(page.starts_with("<!doctype html>") && page.trim_end().ends_with("</html>"), "{page}");
    assert!(!page.contains("<script") && !page.contains('@'), "{page}");
    page
}

#[test]
fn commits_are_measured_and_compared_with_an_earlier_build() {
    let folder = Folder::new("bench-append");
    let bench = "append --writers 1,2 --time 0.1 --report page.html --json";
    let ran = beside_others(|| folder.run(bench, b""));
    let found = &ran.fine().json()[0];
    assert_eq!(found["schema"], "seawall.bench-append/1");
    let share = found["others_share"].as_f64();
    assert!(share.is_none_or(|share| share >= 0.05), "{found}");
    assert_eq!(found["ranked"], false, "{found}");
    for (row, writers) in found["results"].as_array().unwrap().iter().zip([1, 2]) {
        assert_eq!(row["writers"], writers);
        for field in ["commits_per_s", "p50_us", "p99_us", "raw_ratio"] {
            assert!(row[field].as_f64().unwrap() > 0.0, "{row}");
        }
    }
    let page = page(&folder, "page.html");
    assert_eq!(page.matches("<svg").count(), 2, "ratios and delays");
    assert_eq!(page.matches("not ranked").count(), 1, "{page}");
    assert!(page.contains("<code>chrt -f 1</code>") && !page.contains('`'), "{page}");
    // Without a view box, a narrow window crops a chart instead of scaling it.
    assert_eq!(page.matches("viewBox=").count(), 2, "{page}");
    assert!(page.contains("seawall-bench append"), "{page}");
    assert_eq!(folder.names("."), ["page.html"]);
    folder.run("append --dir nowhere", b"").refused(1);
    folder.run("append --report page.html", b"").refused(9);

    folder.write("old.json", &ran.out);
    let ran = folder.run("append --writers 2 --time 0.1 --baseline old.json", b"");
    let text = ran.fine().text();
    assert!(text.contains("beside the baseline") && text.contains("  2 writers "), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    for (options, differs) in [
        ("--writers 4", "no result with 4 writers"),
        ("--size 256", "`record_bytes` 116, and this run 256"),
        ("--level buffered", "`level` \"synced\", and this run \"buffered\""),
    ] {
        let ran = folder.run(&format!("append --baseline old.json {options}"), b"");
        assert!(ran.refused(2).contains(differs), "{ran:?}");
    }
    folder.run("append --baseline nothing.json", b"").refused(1);
    folder.write("none.json", b"# not JSON");
    assert!(folder.run("append --baseline none.json", b"").refused(2).contains("not JSON"));
    let ran = folder.run("cwal --baseline old.json", b"");
    assert!(ran.refused(2).contains("`schema` \"seawall.bench-append/1\""), "{ran:?}");
}

#[test]
fn reading_is_measured_warm_and_cold_and_by_the_size_of_the_log() {
    let folder = Folder::new("bench-read");
    let bench = "read --records 3000,1000 --time 0.1 --report page.html --json";
    let ran = folder.run(bench, b"");
    let found = &ran.fine().json()[0];
    assert_eq!(found["schema"], "seawall.bench-read/1");
    assert_eq!(found["records"], json!([1000, 3000]));
    let contests = found["contests"].as_array().unwrap();
    let names = contests.iter().map(|contest| contest["name"].as_str().unwrap());
    let expected = ["scan", "threads", "replay", "cost-scan", "cost-replay", "cold"];
    assert_eq!(names.collect::<Vec<_>>(), expected);
    for (contest, ways) in contests.iter().zip([4, 2, 4, 2, 2, 3]) {
        let rows = contest["rows"].as_array().unwrap();
        assert_eq!(rows.len(), ways, "{contest}");
        assert!(rows.iter().all(|row| row["per_s"].as_f64() > Some(0.0)), "{contest}");
    }
    for (size, records) in found["sizes"].as_array().unwrap().iter().zip([1000, 3000]) {
        assert_eq!(size["records"], records);
        // The paper's record with its frame header of 8 bytes and padding.
        let bytes = size["log_bytes"].as_f64().unwrap() / f64::from(records);
        assert!((112.0..=136.0).contains(&bytes), "{size}");
        for field in ["open_us", "scan_ns", "decode_ns"] {
            assert!(size[field].as_f64() > Some(0.0), "{field}: {size}");
        }
        let peak = &size["peak_rss_bytes"];
        assert!(peak.is_null() || peak.as_u64() > Some(1 << 20), "{size}");
    }
    // A file system in memory has no cold files. The report must state which case it is.
    let cold = &found["cold"];
    let verdict = &contests[5]["rows"][1]["verdict"];
    assert!(cold["is_cold"] == true || verdict == "not ranked", "{found}");
    assert!(cold["says"].as_str().unwrap().contains("told to forget"), "{cold}");
    let page = page(&folder, "page.html");
    assert!(page.contains("<svg") && page.contains("the paper's reader"), "{page}");
    assert_eq!(folder.names("."), ["page.html"]);

    folder.write("old.json", &ran.out);
    let ran = folder.run("read --records 1000 --baseline old.json", b"");
    assert!(ran.refused(2).contains("`records` [1000,3000], and this run [1000]"), "{ran:?}");
    let bench = "read --records 1000,3000 --time 0.1 --baseline old.json";
    let ran = folder.run(bench, b"");
    let text = ran.fine().text();
    for part in ["by the size of the log", "beside the baseline", "told to forget", "       3,000"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    folder.run("read --dir nowhere", b"").refused(1);
}

#[test]
fn the_papers_tables_are_measured_with_its_method_and_with_seawall() {
    let folder = Folder::new("bench-paper");
    let ran = folder.run("paper --records 2000 --runs 2 --time 0.1 --report page.html --json", b"");
    let found = &ran.fine().json()[0];
    assert_eq!((&found["schema"], &found["runs"]), (&"seawall.bench-paper/1".into(), &2.into()));
    let tables = found["tables"].as_array().unwrap();
    let formats: Vec<_> = tables.iter().map(|table| table["format"].as_str().unwrap()).collect();
    assert_eq!(formats, ["msgpack", "json"]);
    for table in tables {
        assert_eq!(table["written"]["ratios"]["to_unsynced"].as_array().unwrap().len(), 3);
        for (which, way) in [("written", "ours"), ("written", "synced"), ("read", "theirs")] {
            for statistic in ["means", "medians"] {
                for metric in ["seconds", "mb_per_s", "records_per_s"] {
                    let figures = table[which][statistic][way][metric].as_array().unwrap();
                    assert!(figures.iter().all(|figure| figure.as_f64() > Some(0.0)), "{table}");
                }
            }
        }
        for (place, size) in [1, 2, 4].into_iter().enumerate() {
            let cell = &table["runs"][place];
            assert_eq!(cell["set"], size);
            for what in ["unsynced", "ours", "read", "ours_read"] {
                let runs = cell[what].as_array().unwrap();
                assert_eq!(runs.len(), 2, "{what}");
                for run in runs {
                    assert_eq!(run["records"], 2000, "{what}: {run}");
                    assert!(run["seconds"].as_f64() > Some(0.0), "{what}: {run}");
                }
            }
            // The paper's bytes per record, in A, B and C.
            let published = match table["format"].as_str() {
                Some("json") => [296.91, 276.41, 266.39],
                _ => [116.16, 111.39, 108.05],
            };
            let bytes = cell["unsynced"][0]["bytes"].as_f64().unwrap() / 2000.0;
            assert!((bytes / published[place] - 1.0).abs() < 0.01, "{cell}");
        }
    }
    let page = page(&folder, "page.html");
    assert!(page.contains("<svg") && page.contains("method, synced"));
    assert_eq!(folder.names("."), ["page.html"], "nothing else is left");
    let again = folder.run("paper --records 2000 --runs 1 --report page.html", b"");
    assert!(again.refused(9).contains("page.html"), "{again:?}");
    let ran = folder.run("paper --records 2000 --runs 2 --time 0.1", b"");
    let text = ran.fine().text();
    assert!(text.contains("means ") && text.contains("medians "), "{text}");
    // The published rows appear with the means and with the medians.
    let row = "published             8.46  4.98  3.15    70.2   111   169     236   401   634";
    assert_eq!(text.matches(row).count(), 2, "{text}");
    let mut lines = text.lines().filter(|line| !line.contains("; in "));
    assert!(lines.all(|line| line.chars().count() <= 80), "{text}");
}

#[test]
fn a_fixed_window_is_measured_beside_seawall() {
    let folder = Folder::new("bench-helios");
    let bench = "helios --writers 1,4 --time 0.5 --report page.html --json";
    let ran = folder.run(bench, b"");
    let found = &ran.fine().json()[0];
    assert_eq!(found["schema"], "seawall.bench-helios/1");
    for result in found["results"].as_array().unwrap() {
        let rows = result["contest"]["rows"].as_array().unwrap();
        let names: Vec<_> = rows.iter().map(|row| row["name"].as_str().unwrap()).collect();
        assert_eq!(
            names,
            ["10 ms window", "sync", "async, NOT durable", "seawall, synced", "seawall, buffered"]
        );
        assert!(rows.iter().all(|row| row["mean_us"].as_f64() > Some(0.0)), "{result}");
        // With a fixed window, each thread commits at most once per window.
        let window = rows[0]["per_s"].as_f64().unwrap();
        assert!(window <= 120.0 * result["writers"].as_f64().unwrap(), "{result}");
    }
    let page = page(&folder, "page.html");
    assert!(page.contains("<svg") && page.contains("by 4 threads"), "{page}");
    assert_eq!(folder.names("."), ["page.html"]);
    folder.write("old.json", &ran.out);
    let text = folder.run("helios --writers 1 --time 0.5", b"").fine().text().to_owned();
    let published = "  10 ms window        10,000-50,000   20-100   10,000 ";
    assert!(text.contains(published) && text.contains("  sync   "), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    let ran = folder.run("helios --writers 8 --baseline old.json", b"");
    assert!(ran.refused(2).contains("by 8 threads"), "{ran:?}");
}

#[test]
fn the_benchmarks_of_cwal_run_with_its_method_and_with_seawall() {
    let folder = Folder::new("bench-cwal");
    let ran = folder.run("cwal --time 0.1 --report page.html", b"");
    for part in
        ["107.60", "2.93", "seawall, sets of 31", "None of its rows", "us an append  ms a run"]
    {
        assert!(ran.fine().text().contains(part), "{part}: {ran:?}");
    }
    let html = page(&folder, "page.html");
    for part in ["seawall, sets of 31", "None of its rows", "published, run ms"] {
        assert!(html.contains(part), "{part}: {html}");
    }
    let bench = "cwal --logs 100 --size 50 --flush --sync-period 5 --batch 7 --time 0.1";
    let mut found = folder.run(&format!("{bench} --json"), b"").fine().json().remove(0);
    assert_eq!(found["schema"], "seawall.bench-cwal/1");
    assert_eq!(found["published_us"], json!({}), "of another size");
    let runs = found["run_ms"].as_object().unwrap();
    let names: Vec<_> = runs.keys().map(String::as_str).collect();
    let [flushed, batches] = ["cwal, flushed and synced each 5", "cwal, batches of 7"];
    let theirs = [flushed, batches, "cwal, flushed", "cwal, in its buffer"];
    let ours = ["seawall, synced each 5", "seawall, sets of 7", "seawall, buffered"];
    assert_eq!(names, [&theirs[..], &ours[..]].concat());
    assert!(runs.values().all(|time| time.as_f64() > Some(0.0)), "{found}");
    let rows = found["contest"]["rows"].as_array_mut().unwrap();
    assert!(rows.iter().all(|row| row["per_s"].as_f64() > Some(0.0)), "{rows:?}");
    // Pretend that sets of 7 had an unreachable ratio in an earlier build.
    let sets = rows.iter_mut().find(|row| row["name"] == "seawall, sets of 7").unwrap();
    (sets["ratio"], sets["ratio_quartiles"]) = (json!(1e9), json!([0.9e9, 1.1e9]));
    folder.write("old.json", found.to_string().as_bytes());
    let ran = beside_others(|| folder.run(&format!("{bench} --baseline old.json"), b""));
    for part in ["not ranked", "beside the baseline", "1,000,000,000x"] {
        assert!(ran.fine().text().contains(part), "{part}: {ran:?}");
    }
    for verdict in ["faster", "slower", "same"] {
        assert!(!ran.text().contains(&format!("x  {verdict}")), "{ran:?}");
    }
    if Path::new("/proc/stat").exists() {
        assert!(ran.text().contains("  other programs used "), "{ran:?}");
    }
    assert_eq!(folder.names("."), ["old.json", "page.html"]);
    let ran = folder.run("cwal --logs 300 --baseline old.json", b"");
    assert!(ran.refused(2).contains("`logs` 100, and this run 300"), "{ran:?}");
    assert_eq!(folder.run("cwal --batch 0", b"").code, 2);
}

#[test]
fn a_stream_is_measured_beside_plain_writes() {
    let folder = Folder::new("bench-stream");
    let bench = "stream --windows 64K,1M --time 0.1 --report page.html --json";
    let ran = folder.run(bench, b"");
    let found = &ran.fine().json()[0];
    assert_eq!(found["schema"], "seawall.bench-stream/1");
    let rows = found["contests"][0]["rows"].as_array().unwrap();
    for row in rows {
        assert!(row["per_s"].as_f64() > Some(0.0) && row["p50_us"].as_f64() > Some(0.0), "{row}");
    }
    let names: Vec<_> = rows.iter().map(|row| row["name"].as_str().unwrap()).collect();
    let direct = ["direct writes of 1 MiB", "direct, from huge pages"];
    let others = ["synced writes of 1 MiB", "seawall, 64.0 KiB", "seawall, 1.0 MiB"];
    // Some file systems do not support direct writes.
    assert!(names == [&direct[..], &others].concat() || names == others, "{names:?}");
    let streams = found["device"].as_array().unwrap();
    assert_eq!(streams.len(), 2, "{found}");
    for stream in streams {
        let [logged, device] = ["logged_bytes", "device_bytes"].map(|name| stream[name].as_u64());
        assert!(logged > Some(0), "{stream}");
        // A file system in memory has no block device.
        assert!(device.is_none() || device >= logged, "{stream}");
    }
    // `null` where the process may use one processor only.
    let line = &found["cache_line_ns"];
    assert!(line.is_null() || line["lowest"].as_f64() > Some(0.0), "{line}");
    assert!(page(&folder, "page.html").contains("one thread"), "a page");
    assert_eq!(folder.names("."), ["page.html"]);
    folder.write("old.json", &ran.out);
    let ran = folder.run("stream --size 200 --baseline old.json", b"");
    assert!(ran.refused(2).contains("`record_bytes` 116, and this run 200"), "{ran:?}");
    folder.run("stream --dir nowhere", b"").refused(1);
    let ran = folder.run("stream --windows 1M --time 0.1 --fresh", b"");
    let text = ran.fine().text();
    assert!(text.contains("MB/s in new files, ") && text.contains("1.0 MiB: the "), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
}

#[test]
fn real_records_are_made_and_read_in_every_form() {
    let folder = Folder::new("bench-compress");
    let bench = "compress --records 1,64 --time 0.1 --report page.html --json";
    let ran = folder.run(bench, b"");
    let [answer] = &ran.fine().json()[..] else { panic!("{ran:?}") };
    assert_eq!(answer["schema"], "seawall.bench-compress/1");
    let contests = answer["contests"].as_array().unwrap();
    assert_eq!(contests.len(), 2, "{answer}");
    for contest in contests {
        let rows = contest["rows"].as_array().unwrap();
        let names: Vec<_> = rows.iter().map(|row| row["name"].as_str().unwrap()).collect();
        let made = [
            "made plain",
            "made with lz4",
            "made with zstd",
            "made encrypted",
            "made lz4, encrypted",
        ];
        let decoded =
            ["lz4 decoded", "zstd decoded", "encrypted decoded", "lz4, encrypted decoded"];
        let all = made.into_iter().chain(decoded);
        let built_in = all.filter(|name| cfg!(feature = "zstd") || !name.contains("zstd"));
        assert_eq!(names, built_in.collect::<Vec<_>>());
        assert!(rows.iter().all(|row| row["per_s"].as_f64() > Some(0.0)), "{contest}");
    }
    let asks = contests[1]["asks"].as_str().unwrap();
    let numbers = asks.split(' ').filter_map(|word| word.parse::<u32>().ok());
    let mut numbers = numbers.collect::<Vec<_>>();
    if cfg!(feature = "zstd") {
        let (lz4, zstd) = (numbers[3], numbers.remove(4));
        assert!(zstd < lz4, "{asks}");
    }
    let [64, payload, plain, lz4, encrypted, both] = numbers[..] else { panic!("{asks}") };
    assert!(lz4 < both && both < payload && payload < plain && plain < encrypted, "{asks}");
    assert!(page(&folder, "page.html").contains("made lz4, encrypted"), "a page");
    assert_eq!(folder.names("."), ["page.html"]);
}

#[test]
fn an_encrypted_log_is_measured_beside_a_plain_one() {
    let folder = Folder::new("bench-encrypt");
    let bench = "encrypt --writers 1,2 --time 0.1 --report page.html --json";
    let ran = folder.run(bench, b"");
    let [answer] = &ran.fine().json()[..] else { panic!("{ran:?}") };
    assert_eq!(answer["schema"], "seawall.bench-encrypt/1");
    let contests = answer["contests"].as_array().unwrap();
    let names: Vec<_> = contests.iter().map(|contest| contest["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["1 writer", "2 writers", "stream"]);
    let costs = answer["processor_us"].as_array().unwrap();
    assert_eq!(costs.len(), 3, "{answer}");
    for (contest, cost) in contests.iter().zip(costs) {
        for (place, name) in ["plain", "encrypted"].into_iter().enumerate() {
            let row = &contest["rows"][place];
            assert_eq!(row["name"], name, "{contest}");
            assert!(
                row["per_s"].as_f64() > Some(0.0) && row["ratio"].as_f64() > Some(0.0),
                "{row}"
            );
            assert!(cost[name].is_null() || cost[name].as_f64() >= Some(0.0), "{cost}");
        }
    }
    assert!(page(&folder, "page.html").contains("of processor time plain"), "a page");
    assert_eq!(folder.names("."), ["page.html"]);
    folder.write("old.json", &ran.out);
    let ran = folder.run("encrypt --size 200 --baseline old.json", b"");
    assert!(ran.refused(2).contains("`record_bytes` 116, and this run 200"), "{ran:?}");
    let ran = folder.run("encrypt --writers 1 --time 0.1 --baseline old.json", b"");
    let text = ran.fine().text();
    assert!(text.contains("a stream with 1.0 MiB on its way, records of 116 bytes"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    folder.run("encrypt --dir nowhere", b"").refused(1);
}

#[test]
fn a_replay_is_measured_beside_their_method_and_the_stores_own_ceiling() {
    let folder = Folder::new("bench-replay");
    let options = "--count 1000 --rounds 2 --apply-cost 10";
    let ran = folder.run(&format!("replay {options} --report page.html --json"), b"");
    let found = &ran.fine().json()[0];
    assert_eq!(
        (&found["schema"], &found["store"], &found["published_ms"]["batches of 100"]),
        (&"seawall.bench-replay/1".into(), &"memory".into(), &100.0.into())
    );
    let contests = found["contests"].as_array().unwrap();
    let names = contests.iter().map(|contest| contest["name"].as_str().unwrap());
    let expected = ["helios", "inserts", "updates", "partitions-many-keys", "partitions-one-key"];
    assert_eq!(names.collect::<Vec<_>>(), expected);
    for (contest, ways) in contests.iter().zip([4, 8, 8, 4, 4]) {
        let rows = contest["rows"].as_array().unwrap();
        assert_eq!((rows.len(), &contest["rounds"]), (ways, &2.into()), "{contest}");
        assert!(rows.iter().all(|row| row["per_s"].as_f64() > Some(0.0)), "{contest}");
    }
    let html = page(&folder, "page.html");
    assert_eq!(html.matches("<svg").count(), 3, "ways twice, and threads");
    for part in ["ceiling, sorted", "All changes of a key go to one thread", "published"] {
        assert!(html.contains(part), "{part}: {html}");
    }
    assert_eq!(folder.names("."), ["page.html"]);

    folder.write("old.json", &ran.out);
    let ran = folder.run("replay --count 2000 --baseline old.json", b"");
    assert!(ran.refused(2).contains("`count` 1000, and this run 2000"), "{ran:?}");
    let ran = folder.run(&format!("replay {options} --baseline old.json"), b"");
    let text = ran.fine().text();
    for part in ["beside the baseline", "each, logged again          1000  1.00x", "8 threads"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    let ran = folder.run("replay --count 1000 --store stack:here", b"");
    assert!(ran.refused(2).contains("no store `stack`"), "{ran:?}");
    folder.run("replay --count 1000 --dir nowhere", b"").refused(1);
    for wrong in ["--store stack", "--rounds 0", "--count 1", "--apply-cost 0"] {
        assert_eq!(folder.run(&format!("replay {wrong}"), b"").code, 2, "{wrong}");
    }
    assert_eq!(folder.names("."), ["old.json", "page.html"]);
}

#[test]
fn opening_is_timed_after_each_kill_out_of_files_that_were_forgotten() {
    let folder = Folder::new("bench-open");
    let ran = folder.run("open --segment-size 1MiB --rounds 2 --json", b"");
    let [answer] = &ran.fine().json()[..] else { panic!("{ran:?}") };
    assert_eq!(answer["schema"], "seawall.bench-open/1");
    let [new, used] = &answer["opens"].as_array().unwrap()[..] else { panic!("{answer}") };
    for opens in [new, used] {
        assert_eq!(opens["all_ms"].as_array().unwrap().len(), 2);
        assert!(opens["median_ms"].as_f64() > Some(0.0), "{answer}");
        assert_eq!(opens["segment_bytes"], 2 << 20, "the newest segment and the next");
    }
    assert_eq!(folder.names("."), [""; 0], "what it made is gone");
    folder.run("open --segment-size 1", b"").refused(2);
}

#[test]
fn the_virtual_disk_is_timed_while_it_is_armed_and_when_the_power_fails() {
    let folder = Folder::new("bench-disk");
    let ran = folder.run("disk --writes 1000 --emergencies 3 --delay 2 --json", b"");
    let [answer] = &ran.fine().json()[..] else { panic!("{ran:?}") };
    assert_eq!(answer["schema"], "seawall.bench-disk/1");
    let write = &answer["write"];
    assert_eq!((&write["count"], &write["bytes"]), (&1000.into(), &8192.into()));
    let micros =
        ["p50_us", "p99_us", "p999_us", "max_us"].map(|name| write[name].as_f64().unwrap());
    assert!(micros[0] > 0.0 && micros.is_sorted(), "{answer}");
    let [disk, device] = &answer["emergency"].as_array().unwrap()[..] else { panic!("{answer}") };
    for dumps in [disk, device] {
        assert_eq!(dumps["all_ms"].as_array().unwrap().len(), 3);
        assert!(dumps["median_ms"].as_f64() <= dumps["worst_ms"].as_f64(), "{answer}");
    }
    // The flush of the dump takes at least as long as the device's delay.
    assert!(device["all_ms"][0].as_f64().unwrap() >= 2.0, "{answer}");
    assert_eq!(folder.names("."), [""; 0], "what it made is gone");
}

#[test]
fn an_interrupted_bench_leaves_no_files() {
    use seawall_host::{Notice, send_signal};
    use seawall_io::{Clock, SystemClock};
    let folder = Folder::new("bench-interrupted");
    let mut started = folder.start("append --time 30 --report page.html");
    let is_busy = || folder.names(".").iter().any(|found| found.starts_with("seawall-bench-"));
    while !is_busy() {
        assert!(started.try_wait().unwrap().is_none(), "it ended early");
        SystemClock::new().sleep(std::time::Duration::from_millis(20));
    }
    SystemClock::new().sleep(std::time::Duration::from_millis(300));
    assert!(folder.names(".").contains(&"page.html.partial".to_owned()));
    send_signal(&started, Notice::End).unwrap();
    assert_eq!(started.wait().unwrap().code(), None);
    assert_eq!(folder.names("."), [""; 0]);
}

#[test]
fn figures_from_memory_are_marked_on_the_page() {
    let memory = "/dev/shm";
    let folder = Folder::new("bench-memory");
    let line = format!("append --dir {memory} --writers 1 --time 0.1 --report page.html");
    let ran = folder.run(&line, b"");
    let note = "this is memory, not a disk: the speed means nothing";
    if !ran.fine().err.contains(note) {
        skipped(&format!("this needs {memory} in memory"));
        return;
    }
    assert!(String::from_utf8(folder.read("page.html")).expect("text").contains(note));
}

#[test]
fn an_earlier_build_is_refused_where_there_is_nothing_to_compare() {
    let folder = Folder::new("bench-baseline");
    folder.write("old.json", br#"{"schema":"seawall.bench-disk/1"}"#);
    let ran = folder.run("disk --writes 1000 --baseline old.json", b"");
    assert!(ran.refused(2).contains("has no ratios to compare"), "{ran:?}");
    let ran = folder.run("disk --time 3", b"");
    assert!(ran.refused(2).contains("no option --time"), "{ran:?}");
    assert_eq!(folder.names("."), ["old.json"]);
}
