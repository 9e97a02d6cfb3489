//! What `--help` ends with: the exit codes, and examples for each verb.

pub(super) const EXIT_CODES: &str = "\
Exit codes:
   0  success; also with an ordinary torn tail
   1  I/O or environment error; no such path
   2  usage error
   3  ambiguous tail: torn write or damage (with --strict: any torn tail)
   4  damage, but all records can be read
   5  damage, and the records named are lost
   6  another process has the log open for writing
   8  not a Seawall log, or written by a newer version
   9  the target exists with different content
  10  synced data can be lost here (doctor, probe, disk); or records that no sync confirms
 101  a bug in seawall
 129, 130, 143  ended by SIGHUP, Ctrl-C or SIGTERM
 141  its output was not read to the end
What to do: seawall explain CODE

Start with: seawall demo";

pub(super) const APPEND_EXAMPLES: &str = "\
Examples:
  echo 'transfer 10 from A to B' | seawall append orders.wal --ack
  seawall append events.wal --format json < events.jsonl
  seawall append notes.wal --format json --codec json < notes.jsonl
  seawall append audit.wal --format json --log-format json < audit.jsonl
  jq .data audit.wal/*.jsonl           # read it without seawall
  seawall append orders.wal --parity 16+2 < orders.txt
  seawall cat old.wal -o len32 | seawall append new.wal --format len32

On SIGINT, SIGTERM and SIGHUP it appends what it has read of whole records,
closes the log, and says how many bytes of an unfinished record it left out; a
second signal ends it at once. With --ack it ends in the same way, with 141, as
soon as its output has no reader. The next append continues the log.";

pub(super) const CAT_EXAMPLES: &str = "\
Examples:
  seawall cat orders.wal --from 100 -n 10
  seawall cat events.wal --where 'total>=100' --fields order.id,total
  seawall cat damaged.wal --skip-damaged -o len32 > rescued

--where takes = != < <= > >= and a value in JSON, or else text: id=7 is the
number, id='\"7\"' the text. Names and numbers of items are joined by dots; a
name in quotes may hold anything; a dot alone is the whole record. Integers of
more than 64 bits are compared as floats. A record without the field does not
match, whatever is asked of it, nor does one that is no JSON value; the text
of a raw log is tried as JSON. -n counts the records that match. --fields
prints them as columns, empty where a record has no such field, or as an
object in JSON.";

pub(super) const TAIL_EXAMPLES: &str = "\
Examples:
  seawall tail orders.wal -n 3
  seawall tail orders.wal -f -o raw | while read -r it; do ship \"$it\"; done
  seawall tail orders.wal -f --cursor-file shipped.lsn --json

The cursor file holds the number of the record that comes next. It is replaced
after records were handed over, so that after a crash some may come twice, and
none is left out. --where and --fields are those of cat.";

pub(super) const COPY_EXAMPLES: &str = "\
Examples:
  seawall copy orders.wal backup.wal
  seawall copy orders.wal /mnt/backup/orders-$(date +%F).wal
  seawall copy orders.wal backup.wal --json | jq .last_lsn

The copy is the log as it was at one moment, verified on the way; a damaged log
is not copied.";

pub(super) const CONVERT_EXAMPLES: &str = "\
Examples:
  seawall convert cwal.log orders.wal --from cwal --to seawall
  seawall convert events.wal events.json --from seawall --to json
  seawall convert records.json records.cwal --to cwal --codec json

A damaged source gives what is intact before the damage, and exit code 5. What
cannot be converted exactly is refused, and nothing is made. Records of a new
log are numbered from 1. Text becomes text in JSON, other bytes {\"base64\":
...}; entries of a cwal log are bytes, unless --codec says otherwise: say it
again on the way back.";

pub(super) const TRUNCATE_EXAMPLES: &str = "\
Examples:
  seawall truncate orders.wal --before 5000
  seawall truncate orders.wal --before 5000 --yes
  seawall truncate orders.wal --after 7200 --yes

--before removes whole segments, so some records before LSN may stay. The
records after --after are gone for good, and the next record gets their first
LSN.";

pub(super) const EXPLAIN_EXAMPLES: &str = "\
Examples:
  seawall explain 5
  seawall explain segment-missing
  seawall explain unsure --json";

pub(super) const VERIFY_EXAMPLES: &str = "\
Examples:
  seawall verify orders.wal
  seawall verify --strict /var/lib/app/*.wal || send-alert
  seawall verify orders.wal --json | jq .damage

Of several logs the exit code is the worst: 5, 4, 3, 8, 10, 9, 6, 2, 1, 0. So a
missing log never hides that another one has lost records.";

pub(super) const REPAIR_EXAMPLES: &str = "\
Examples:
  seawall repair orders.wal                           # changes nothing
  seawall repair orders.wal --salvage-to rescued.wal  # orders.wal stays as is
  seawall repair orders.wal --from-replica /backup/orders.wal --yes
  seawall repair orders.wal --cut-tail --yes          # in place

A repair exits with 5 if records had to be given up, and names them; with 9 if
NEW exists.";

pub(super) const PROTECT_EXAMPLES: &str = "\
Examples:
  seawall protect orders.wal --dry-run
  seawall protect orders.wal
  seawall protect old.wal --parity 8+4 --json | jq .covered

It is for what was appended without parity, or last before a crash. The log is
verified first: parity of damaged records would keep the damage. The log itself
is only read. To keep parity of what is appended later as well:
  seawall append orders.wal --parity 16+2 < /dev/null";

pub(super) const REPLAY_EXAMPLES: &str = "\
Examples:
  seawall replay orders.wal --into json:- | jq -c .changes
  seawall replay orders.wal --into cmd:'python3 apply.py' --dry-run
  seawall replay orders.wal --into cmd:'python3 apply.py' --json | jq .applied
  seawall replay orders.wal --into json:noon --until 2025-11-21T12:00:00Z

LOG has operations, as seawall-replay writes them, or lines of JSON:
  {\"begin\":7}  {\"change\":[7,{\"put\":{\"table\":\"t\",\"key\":\"k\",\"value\":\"v\"}}]}
  {\"commit\":7}  {\"abort\":7}  {\"atomic\":[{\"delete\":{\"table\":\"t\",\"key\":\"k\"}}]}
Transactions come whole, in the order of their commits; what was aborted or
never ended does not come. Whoever is killed when: nothing is applied twice.

json: prints a line for each, {\"lsn\":9,\"changes\":[{\"lsn\":8,\"put\":{...}}]}, and
keeps no place; its summary goes to standard error. cmd:PROGRAM is run by sh,
and speaks lines of JSON:
  it begins      {\"place\":null}   (new; else {\"place\":...}, as it was sent last)
  it is sent     {\"batch\":1,\"place\":{...},\"transactions\":[...]}
  it answers     {\"place\":{...}}   (the same)
An answer means: it has the batch and its place durably, all or nothing. A place
names the log and its last record; one of another log, or of records that the
log gave up by truncate --after, ends the replay with 9.
Then its input ends, and it should, with 0. It keeps out a second one of its
kind while it runs: a replay that is killed may leave one that finishes a batch.
--dry-run asks it how far it is.

NAME:PLACE is a store that was built in; with --threads it may show parts of
transactions until its replay has ended. No store that comes with Seawall
gains by --threads: fjall takes one batch at a time. --from is for what was
loaded with the state before LSN; what knows how far it is goes on from there.
--until TIME ends before the first record that was written later.";

pub(super) const STAT_EXAMPLES: &str = "\
Examples:
  seawall stat orders.wal
  seawall stat orders.wal --json | jq .bytes
  seawall stat orders.wal --json | jq -c '.sizes[]'

Each bar is a range of record sizes, twice as large as the one before it; its
height is the number of records.";

pub(super) const DOCTOR_EXAMPLES: &str = "\
Examples:
  seawall doctor
  seawall doctor /var/lib/app || echo 'no place for logs'
  seawall doctor /var/lib/app --json | jq '.checks[] | select(.state != \"ok\")'

It ends with 10 where what is synced can be lost: in memory, or mounted so
that syncs end before the device; with 1 where no log can be written: without
permission, without room, or mounted read-only. It cannot see whether the
device tells the truth, and leaves no trace in DIR.";

pub(super) const PROBE_EXAMPLES: &str = "\
Examples:
  seawall probe
  chrt -f 1 seawall probe /var/lib/app --time 60
  seawall probe /var/lib/app --json | jq '.contests[].rows[]'

Ways are measured by turns, in slices of some 40 ms, and each is compared with
the first one of the same round. That one runs twice: what it differs from
itself is the noise, and a difference within the noise is none. Exits with 10
where synced data can be lost, as doctor does. Its files, some 300 MiB, are
removed at the end, also on SIGINT, SIGTERM and SIGHUP.";

pub(super) const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  seawall completions bash > ~/.local/share/bash-completion/completions/seawall
  seawall completions zsh > \"${fpath[1]}/_seawall\"
  seawall completions fish > ~/.config/fish/completions/seawall.fish";

pub(super) const MAN_EXAMPLES: &str = "\
Examples:
  seawall man > seawall.1
  seawall man | man -l -
  seawall man --dir /usr/local/share/man/man1";

pub(super) const BENCH_EXAMPLES: &str = "\
Examples:
  seawall bench append
  chrt -f 1 seawall bench append --dir /var/lib/app --time 5
  seawall bench append --tasks --writers 16,256
  seawall bench append --writers 1,16 --json

Where other programs use 5 % of the processors or more, nothing is ranked. Its
folder, seawall-bench-PID in --dir, is removed also on SIGINT, SIGTERM, SIGHUP.";

pub(super) const DEMO_EXAMPLES: &str = "\
Examples:
  seawall demo
  seawall demo --fast --seed 7
  seawall demo --dir . --keep
  seawall demo --report demo";

pub(super) const DISK_SERVE_EXAMPLES: &str = "\
Examples:
  seawall disk serve vd.img --size 1GiB --export nbd:unix:vd.sock
  seawall disk serve vd.img --export nbd:tcp:10809 --name wal --json
  seawall disk serve vd.img --export nbd:tcp:0 --run 'nbdinfo $SEAWALL_DISK_URI'
  seawall disk serve /dev/sdx --state /var/lib/vd --export nbd:unix:s
  seawall disk serve vd.img --export nbd:unix:s --power ok --hold-up 16

IMG is raw: it has the bytes of the disk and nothing else. --size makes it where
there is none; an image that is there is never cut, grown or made anew. Beside
it IMG.seawall, or DIR for --state, has the area where bytes are dumped when the
power fails. A block device needs --state.

A dump that waits is written into the image before it is served. If the image
may have changed since, serve ends with 9 and says why: --dump apply writes the
dump all the same, --dump discard keeps the image and a copy of the dump.

With --power unknown every flush waits for the device. With --power ok the disk
is armed: a flush returns when the bytes are in the memory of this process, as
long as they can reach the device within the hold-up. THEN THESE LOSE what was
flushed: this process crashes or is killed by SIGKILL, the system's kernel
panics, or the power fails without SIGPWR in time. docs/disk.md has the table.

SIGPWR dumps at once what is not on the device; the server then takes no more
writes, and answers `seawall disk status` until it is stopped. SIGTERM and
SIGINT bring everything to the device and end it. IMG.seawall/control is a
socket that takes one line of JSON, as {\"do\":\"status\"}, and answers with
one: status, flush, drain, disarm, arm, emergency-flush, stop.";

pub(super) const DISK_CONFIG_EXAMPLES: &str = "\
Examples:
  seawall disk config > vd.conf
  seawall disk config | grep -v '^#'
  seawall disk serve vd.img --export nbd:unix:s --config vd.conf

A line is `key = value`, and says what --key says on the command line; `image`
is IMG. What the file says need not be typed, and what is typed wins. A key that
there is not is an error.";

pub(super) const DISK_STATUS_EXAMPLES: &str = "\
Examples:
  seawall disk status vd.img
  seawall disk status vd.img --watch
  seawall disk status vd.img --json | jq .state

States: armed, flushes may return early; write-through, they wait for the
device, with the reason; emergency, dumped and closed to writes; read-only, the
device failed too often. The exit code is 0 as long as what was acknowledged is
kept, armed or not; 10 when the disk is read-only, acknowledged bytes are on
their way that the hold-up does not cover, an emergency could not be dumped, or
a dump was found torn; 1 when no server runs.";

pub(super) const DISK_FLUSH_EXAMPLES: &str = "\
Examples:
  seawall disk flush vd.img
  seawall disk flush vd.img --deadline 50
  seawall disk flush vd.img --json | jq .ms";

pub(super) const DISK_DRAIN_EXAMPLES: &str = "\
Examples:
  seawall disk drain vd.img
  seawall disk drain vd.img --deadline 1000
  seawall disk drain vd.img --json | jq .ms";

pub(super) const DISK_EMERGENCY_EXAMPLES: &str = "\
Examples:
  seawall disk emergency-flush vd.img
  seawall disk emergency-flush vd.img --deadline 10
  seawall disk emergency-flush vd.img --json | jq .bytes

There is no way back but a new start of the server, which brings home what was
dumped. For whoever watches the power: kill -PWR does the same, sooner. Asked
again, it tells what the first time took.";
