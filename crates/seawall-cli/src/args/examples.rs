//! What `--help` ends with: the exit codes, and examples for each verb.

pub(super) const EXIT_CODES: &str = "\
Exit codes:
   0  fine; an ordinary torn tail is fine
   1  I/O or environment; no such path
   2  usage
   3  the tail cannot be told from damage (with --strict: any torn tail)
   4  damage, and all records can still be read
   5  damage, and the records that are named are lost
   6  another process writes the log
   8  not a Seawall log, or written by a newer version
   9  what was to be made is there already, with other content
 101  a bug in seawall
What to do then: seawall explain CODE

Start with: seawall demo";

pub(super) const APPEND_EXAMPLES: &str = "\
Examples:
  echo 'transfer 10 from A to B' | seawall append orders.wal --ack
  seawall append events.wal --format json < events.jsonl
  seawall append notes.wal --format json --codec json < notes.jsonl
  seawall append audit.wal --format json --log-format json < audit.jsonl
      jq .data audit.wal/*.jsonl        read it without seawall
  seawall cat old.wal -o len32 | seawall append new.wal --format len32";

pub(super) const CAT_EXAMPLES: &str = "\
Examples:
  seawall cat orders.wal --from 100 -n 10
  seawall cat events.wal --json | jq .data.id
  seawall cat damaged.wal --skip-damaged -o len32 > rescued";

pub(super) const TAIL_EXAMPLES: &str = "\
Examples:
  seawall tail orders.wal -n 3
  seawall tail orders.wal -f -o raw | while read -r order; do ship \"$order\"; done
  seawall tail orders.wal -f --cursor-file shipped.lsn --json

The cursor file holds the number of the record that comes next. It is replaced after records were
handed over, so that after a crash some may come twice, and none is left out.";

pub(super) const COPY_EXAMPLES: &str = "\
Examples:
  seawall copy orders.wal backup.wal
  seawall copy orders.wal /mnt/backup/orders-$(date +%F).wal
  seawall copy orders.wal backup.wal --json | jq .last_lsn

The copy is the log as it was at one moment, judged on the way; a damaged log is not copied.";

pub(super) const CONVERT_EXAMPLES: &str = "\
Examples:
  seawall convert cwal.log orders.wal --from cwal --to seawall
  seawall convert events.wal events.json --from seawall --to json
  seawall convert records.json records.cwal --to cwal --codec json

A damaged source gives what is intact before the damage, and exit code 5. What cannot be converted
exactly is refused, and nothing is made. Records of a new log are numbered from 1. Text becomes
text in JSON, other bytes {\"base64\": ...}; entries of a cwal log are bytes, unless --codec says
otherwise: say it again on the way back.";

pub(super) const TRUNCATE_EXAMPLES: &str = "\
Examples:
  seawall truncate orders.wal --before 5000
  seawall truncate orders.wal --before 5000 --yes
  seawall truncate orders.wal --after 7200 --yes

--before removes whole segments, so some records before LSN may stay. The records behind --after
are gone for good, and the next record gets the number behind LSN.";

pub(super) const EXPLAIN_EXAMPLES: &str = "\
Examples:
  seawall explain 5
  seawall explain segment-missing
  seawall explain unsure --json";

pub(super) const VERIFY_EXAMPLES: &str = "\
Examples:
  seawall verify orders.wal
  seawall verify --strict /var/lib/app/*.wal || page-somebody
  seawall verify orders.wal --json | jq .damage";

pub(super) const REPAIR_EXAMPLES: &str = "\
Examples:
  seawall repair orders.wal                              what is wrong, and what can be done
  seawall repair orders.wal --salvage-to rescued.wal     orders.wal stays as it is
  seawall repair orders.wal --cut-tail --yes             in place

A repair ends with 5 if records had to be given up, and names them; with 9 if NEW is
there already.";

pub(super) const STAT_EXAMPLES: &str = "\
Examples:
  seawall stat orders.wal
  seawall stat orders.wal --json
  seawall stat orders.wal --json | jq .bytes";

pub(super) const BENCH_EXAMPLES: &str = "\
Examples:
  seawall bench append
  chrt -f 1 seawall bench append --dir /var/lib/app --time 5
  seawall bench append --writers 1,16 --size 1024 --json

A run that is interrupted leaves its folder, seawall-bench-<pid>, in --dir.";

pub(super) const DEMO_EXAMPLES: &str = "\
Examples:
  seawall demo
  seawall demo --fast --seed 7
  seawall demo --dir . --keep";
