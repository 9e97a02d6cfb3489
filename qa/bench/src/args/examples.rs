//! Help text of every verb: examples, and what the verb measures.

pub(super) const APPEND: &str = "\
Examples:
  seawall-bench append --writers 1,16 --json > before.json
  chrt -f 1 seawall-bench append --writers 1,16 --baseline before.json
  seawall-bench append --report append.html

The table is that of `seawall bench append`. --baseline compares the ratios of
two builds, each to the plain syncs of its own run; where the middle halves of
their slices overlap they are the same.";

pub(super) const READ: &str = "\
Examples:
  seawall-bench read
  chrt -f 1 seawall-bench read --report read.html
  seawall-bench read --records 10000,10000000 --time 10 --json > before.json
  seawall-bench read --records 10000,10000000 --time 10 --baseline before.json

Records are those of `paper`. A scan lends verified bytes. The minimum work is
to walk the same records in memory and compute their CRC32C, or to read them
from a file first, 256 KiB at a time. For the cold table the files are dropped
from the system's cache; a device or a host may keep them in its own.";

pub(super) const PAPER: &str = "\
Examples:
  seawall-bench paper
  chrt -f 1 seawall-bench paper --report paper.html
  seawall-bench paper --records 200000 --runs 3 --json

The method of Design and Reliability of a User Space Write-Ahead Log in Rust,
rebuilt from its description: a set and its checksum are serialised, and each is
written by its own call; reading serialises again to compare. It does not sync.
Beside it, the same with a sync for each set, and this log, synced for each set
and at the end. --time limits the rows that sync each set. A: sets of 1 record,
B: 2, C: 4; a set is one value, as large as the paper's in both formats. Seconds
are for 2,000,000 records, whatever --records is. MB/s counts the bytes in the
files.";

pub(super) const CWAL: &str = "\
Examples:
  seawall-bench cwal
  chrt -f 1 seawall-bench cwal --time 30 --report cwal.html
  seawall-bench cwal --logs 10000 --size 100 --json
  seawall-bench cwal --flush --sync-period 1,100 --batch 50

benchmark_write and batched_sync_benchmarks of CWal, a log in C++, with all of
their parameters: LOG_LENGTH is --logs, LOG_SIZE is --size, both 1,000 by
default; without SYNC once with and once without RFLUSH. Entries are random
letters and digits. Each row makes whole runs of --logs appends. Its own output
says ms for microseconds.";

pub(super) const HELIOS: &str = "\
Examples:
  seawall-bench helios
  chrt -f 1 seawall-bench helios --writers 1,64 --time 10 --report helios.html
  seawall-bench helios --json | jq '.results[].contest.rows[] | [.name, .ratio]'

Its document describes three modes: sync, where each commit waits for its own
sync; async, where none waits; and a group commit whose thread sleeps 10 ms,
takes all waiting commits, and syncs once. Here they write to a file that was
written before, which is the fastest case, or put each record into a store, as
the document has it: `--store rocksdb:DIR` in a program built with stores. Its
published throughput and times, of another machine, are shown beside.";

pub(super) const REPLAY: &str = "\
Examples:
  seawall-bench replay
  chrt -f 1 seawall-bench replay --count 200000 --rounds 9 --report replay.html
  seawall-bench replay --count 10000 --apply-cost 100
  seawall-bench replay --json | jq '.contests[].rows[] | [.name, .ratio]'

First the table of HeliosDB Nano's report, with its method: each of 10,000
entries applied alone and logged again; not logged again; in batches of 100.
Then many operations, with one key each or with few keys: one by one, in batches
of 100, and in unsorted batches as large as those of replay. The upper bounds
use batches that are sorted and in memory before the clock starts: by 1 thread,
and by 2 if the store takes them. A row is a whole replay into a new store,
including reading and verifying the log.
--apply-cost shows the gain by threads for a store that waits: with independent
keys, and with one key, which only one thread can change.";

pub(super) const STREAM: &str = "\
Examples:
  seawall-bench stream
  chrt -f 1 seawall-bench stream --windows 1M --size 4096
  seawall-bench stream --windows 1M --fresh
  seawall-bench stream --pipeline
  seawall-bench stream --json | jq '.contests[].rows[] | [.name, .p50_us]'

One thread appends, and waits only when more than a window is not yet durable.
Rates count the bytes that reach the file; times are from an append until it is
durable. The reference is direct writes of 1 MiB, each durable before the next.
At the end, each window runs alone for a second, and the bytes that the device
writes meanwhile are counted, those of other programs included. Needs 2 GiB, and
with --fresh as much as the device writes in half of the time.";

pub(super) const ROLL: &str = "\
Examples:
  seawall-bench roll
  chrt -f 1 seawall-bench roll --segment-size 1MiB --time 30
  seawall-bench roll --json | jq '.crossing_p50_us - .other_p50_us'

One thread waits for each of its records. The next segment is prepared at the
same time, and the oldest one removed, so the longest write is shown, too. Logs
with large and with small segments take turns with plain writes of as many
bytes, each with its sync. Needs about 700 MiB.";

pub(super) const PARITY: &str = "\
Examples:
  seawall-bench parity
  chrt -f 1 seawall-bench parity --writers 1,64 --size 4096 --time 20
  seawall-bench parity --parity 4+1 --json | jq '.commit_us'
  seawall-bench parity --fill-blocks

Two logs that differ only in that take turns with plain writes of as many
bytes, each with its sync. The processor time of a commit is shown, too. Needs
about 800 MiB.";

pub(super) const ENCRYPT: &str = "\
Examples:
  seawall-bench encrypt
  chrt -f 1 seawall-bench encrypt --writers 1,64 --size 4096 --time 20
  seawall-bench encrypt --json | jq '.contests[].rows[1] | [.per_s, .ratio]'

Two logs that differ only in their key take turns: threads that wait for each of
their records, then a stream of one thread, which waits only when more than
1 MiB is not yet durable. Rates count records. The processor time of a record,
by all threads, is shown, too. Needs about 600 MiB.";

pub(super) const FRAME: &str = "\
Examples:
  seawall-bench frame
  chrt -f 1 seawall-bench frame --sizes 64,1024 --time 10
  seawall-bench frame --json | jq '.contests[].rows[] | [.name, .ratio]'

The reference is the minimum for a record: a copy and its CRC32C. A frame is
the record as a batch stores it; a batch binds its frames to their place. A
submitted record has its number and its place in the open batch; the device's
time is not included.";

pub(super) const OPEN: &str = "\
Examples:
  seawall-bench open
  chrt -f 1 seawall-bench open --segment-size 16MiB --rounds 40
  seawall-bench open --json | jq '.opens[] | [.next_segment, .median_ms]'

A process fills a segment and is killed. Its files are dropped from the system's
cache; a device or a host may keep them in its own. Then another process opens
the log, fills a segment, and so on. The plain read, 256 KiB at a time, is of
the same segments: the newest one, and the next one, which has its name already.
Needs about 600 MiB.";

pub(super) const COMPRESS: &str = "\
Examples:
  seawall-bench compress
  chrt -f 1 seawall-bench compress --records 1,16,64,256,853 --time 10
  seawall-bench compress --json | jq '.contests[] | .asks'

The reference is the making of a plain batch: a copy of its frames, which are
then bound to their place. With lz4, a batch of less than 1 KiB, or one that
would gain less than an eighth, stays plain. Before it is encrypted, a smaller
one is compressed, too. zstd is measured if this program was built with
--features zstd.";

pub(super) const DISK: &str = "\
Examples:
  seawall-bench disk
  chrt -f 1 seawall-bench disk --dir /mnt/log --emergencies 40
  seawall-bench disk --json | jq '.write.p99_us, .emergency[].worst_ms'

Times, inside the process, a write of 8 KiB and its flush, --rate a second,
while flushes return early. Then the dump of an emergency: writers fill the ring
of 3 MiB and continue; the time is from the warning to the end of the dump's
flush, on the file system of --dir and on a simulated device over NBD. Needs
about 100 MiB.";
