#!/usr/bin/env python3
"""Power cuts, panics and kills of a whole machine, under a real kernel and a real file system.

    python3 run.py cuts  [--fs ext4|xfs|btrfs] [--images 300] [--records 160] [--seed 1]
    python3 run.py panic [--fs ext4|xfs|btrfs] [--cycles 40] [--seed 1]
    python3 run.py kill  [--fs ext4|xfs|btrfs] [--cycles 40] [--seed 1]

The machine is a User-mode Linux guest; `apt install user-mode-linux e2fsprogs xfsprogs btrfs-progs
dmsetup kmod` brings what it takes. Ends with 0 if every promise held, 1 if one was broken, 77 if
something is missing here. `SEAWALL_BIN` says where `seawall` and `committers` are; without it they
are built. `SEAWALL_DIR` says where the disks are made; it takes a few GiB.
"""

import argparse
import json
import os
import random
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
SECTOR = 512
# The smallest disks that each of them is made on, in MiB.
DISKS = {"ext4": 96, "xfs": 320, "btrfs": 256}
# How many images one start of the guest looks at.
TOGETHER = 25
PATIENCE = 900


class Missing(Exception):
    """Something is not installed here."""


def need(program, package):
    if not shutil.which(program):
        raise Missing(f"`{program}` is missing: apt install {package}")


def programs():
    """The folder with `seawall` and `committers`."""
    given = os.environ.get("SEAWALL_BIN")
    if given:
        return Path(given).resolve()
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    build = ["cargo", "build", "--quiet", "--release", "--locked"]
    subprocess.run(build + ["-p", "seawall-cli"], cwd=ROOT, check=True)
    subprocess.run(build + ["-p", "seawall", "--example", "committers"], cwd=ROOT, check=True)
    folder = target / "release"
    shutil.copy(folder / "examples" / "committers", folder / "committers")
    return folder.resolve()


class Machine:
    """A guest, its disks and the folder that it shares with this program."""

    def __init__(self, fs, folder):
        need("linux.uml", "user-mode-linux")
        need("insmod", "kmod")
        need(f"mkfs.{fs}", {"ext4": "e2fsprogs", "xfs": "xfsprogs", "btrfs": "btrfs-progs"}[fs])
        modules = sorted(Path("/usr/lib/uml/modules").glob("*/kernel"))
        if not modules:
            raise Missing("the guest's modules are missing: apt install user-mode-linux")
        self.fs, self.folder, self.modules, self.bin = fs, folder, modules[-1], programs()
        self.shared = folder / "shared"
        self.shared.mkdir()

    def disk(self, name):
        """A fresh file system."""
        path = self.folder / name
        with open(path, "wb") as file:
            file.truncate(DISKS[self.fs] << 20)
        quiet = {"ext4": ["-q", "-F"], "xfs": ["-q", "-f"], "btrfs": ["-q", "-f"]}[self.fs]
        subprocess.run([f"mkfs.{self.fs}", *quiet, str(path)], check=True)
        return path

    def start(self, do, disks, **more):
        """Starts the guest; its console is the answer's standard output."""
        given = {"do": do, "fs": self.fs, "shared": self.shared, "bin": self.bin,
                 "modules": self.modules, **more}
        command = ["linux.uml", "mem=512M", "rootfstype=hostfs", "ro", "quiet", "panic=0",
                   f"init={HERE / 'guest.sh'}", "con=null", "con0=null,fd:1",
                   f"umid=seawall-{os.getpid()}", f"uml_dir={self.folder}/"]
        command += [f"ubd{letter}={path}" for letter, path in zip("abc", disks)]
        command += [f"seawall.{name}={value}" for name, value in given.items()]
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.DEVNULL, start_new_session=True)

    def run(self, do, disks, sign, **more):
        """Runs the guest until it is done, which the file `sign` says."""
        (self.shared / sign).unlink(missing_ok=True)
        guest = self.start(do, disks, **more)
        try:
            said, _ = guest.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            said = b"it took too long"
        kill(guest)
        if not (self.shared / sign).exists():
            tail = said.decode(errors="replace")[-2000:]
            more = self.shared / "said"
            tail += more.read_text()[-2000:] if more.exists() else ""
            raise SystemExit(f"the guest did not come to its end ({do}):\n{tail}")


def kill(guest):
    """Ends the guest with all its processes, at once."""
    try:
        os.killpg(guest.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    guest.wait()
    if guest.stdout:
        guest.stdout.close()


# The record of a device's writes, as the kernel's dm-log-writes makes it.

FLUSH, FUA, DISCARD, MARK = 1, 2, 4, 8


class Write:
    """One entry: a write, a flush, a mark."""

    def __init__(self, sector, data, flags):
        self.sector, self.data, self.flags = sector, data, flags

    @property
    def text(self):
        return self.data.decode().strip("\0\n ").replace("_", " ")


def entries(path):
    """All entries in order: writes come before the flush that made them durable."""
    with open(path, "rb") as file:
        magic, version, count, size = struct.unpack("<QQQI", file.read(28))
        assert magic == 0x6A736677736872 and version == 1, "this is no record of writes"
        at = size
        for _ in range(count):
            file.seek(at)
            sector, sectors, flags, length = struct.unpack("<QQQQ", file.read(32))
            data = b""
            if flags & MARK:
                data = file.read(length)
            at += size
            if not flags & (MARK | DISCARD) and sectors:
                file.seek(at)
                data = file.read(sectors * SECTOR)
                assert len(data) == sectors * SECTOR, "the record is cut short"
                at += sectors * SECTOR
            elif flags & DISCARD:
                data = sectors
            yield Write(sector, data, flags)


def apply(file, write):
    if write.flags & MARK or not write.data:
        return
    if write.flags & DISCARD:
        # What was discarded may read as anything; here it reads as it did.
        return
    file.seek(write.sector * SECTOR)
    file.write(write.data)


def epochs(path):
    """Lists of entries; each list but the last ends with what made it durable."""
    found, epoch = [], []
    for entry in entries(path):
        epoch.append(entry)
        if entry.flags & (FLUSH | FUA):
            found.append(epoch)
            epoch = []
    return found + [epoch]


def choose(dice, epoch):
    """Which writes of an epoch a power cut may have kept: none, all but one, one, some."""
    writes = [number for number, entry in enumerate(epoch) if entry.data and not entry.flags & MARK]
    if len(writes) <= 3:
        return [{w for bit, w in enumerate(writes) if choice >> bit & 1}
                for choice in range(2 ** len(writes) - 1)]
    one = dice.choice(writes)
    return [set(), set(writes) - {one}, {one}, {w for w in writes if dice.random() < 0.5}]


def crash_images(base, path, wanted, dice):
    """Power cuts from all over the record: flush and writes that it kept behind that, marks."""
    found = epochs(path)
    cuts = []
    for number, epoch in enumerate(found):
        for kept in choose(dice, epoch):
            cuts.append((number, kept))
    begin = next(i for i, e in enumerate(found) if any(x.flags & MARK and x.text == "begin" for x in e))
    cuts = [cut for cut in cuts if cut[0] > begin]
    if len(cuts) > wanted:
        cuts = [cuts[i] for i in sorted(dice.sample(range(len(cuts)), wanted))]
    print(f"{len(found)} flushes recorded; {len(cuts)} power cuts to look at", flush=True)
    marks, done = [], 0
    state = open(base, "r+b")
    for number, kept in cuts:
        while done < number:
            for entry in found[done]:
                apply(state, entry)
                if entry.flags & MARK:
                    marks.append(entry.text)
            done += 1
        state.flush()
        # A mark is recorded at once, and a write with the flush behind it: what was marked in this
        # epoch was so before the power went, whatever the device kept.
        epoch = found[number]
        new = [entry.text for entry in epoch if entry.flags & MARK]
        yield number, kept, [entry for w, entry in enumerate(epoch) if w in kept], marks + new
    state.close()


def powercuts(folder, options):
    machine = Machine(options.fs, folder)
    need("dmsetup", "dmsetup")
    dice = random.Random(options.seed)
    disk = machine.disk("disk")
    before = folder / "before"
    subprocess.run(["cp", "--sparse=always", disk, before], check=True)
    log = folder / "log"
    with open(log, "wb") as file:
        file.truncate(4 << 30)
    machine.run("record", [disk, log], "recorded", records=options.records)
    images = machine.shared / "images"
    broken, looked, acknowledged = [], 0, 0
    batch = {}

    def judge():
        nonlocal looked, acknowledged
        if not batch:
            return
        machine.run("check", [disk], "checked")
        for name, marks in batch.items():
            acknowledged += sum(mark[0] in "tc" for mark in marks)
            for promise in broken_promises(machine.shared / "found" / name, marks):
                broken.append(f"{name}: {promise}")
                keep(images / name, options)
        looked += len(batch)
        print(f"{looked} looked at, {len(broken)} broken", flush=True)
        shutil.rmtree(machine.shared / "found")
        shutil.rmtree(images)
        batch.clear()

    for number, kept, writes, marks in crash_images(before, log, options.images, dice):
        images.mkdir(exist_ok=True)
        name = f"flush-{number}-kept-{'-'.join(map(str, sorted(kept))) or 'none'}"[:120]
        image = images / name
        subprocess.run(["cp", "--sparse=always", before, image], check=True)
        with open(image, "r+b") as file:
            for write in writes:
                apply(file, write)
        batch[name] = marks
        if len(batch) == TOGETHER:
            judge()
    judge()
    for promise in broken:
        print(f"PROMISE BROKEN: {promise}", file=sys.stderr)
    print(f"{options.fs}: {looked} power cuts, {acknowledged} acknowledged records looked for, "
          f"{len(broken)} promises broken (seed {options.seed})")
    return 1 if broken else 0


def keep(image, options):
    if options.keep:
        Path(options.keep).mkdir(parents=True, exist_ok=True)
        shutil.copy(image, options.keep)


def broken_promises(found, marks):
    """What is wrong with the logs of one image, given what was marked before the cut."""
    mounted = (found / "mount").read_text().strip() if (found / "mount").exists() else "not looked at"
    if mounted != "fine":
        yield f"the file system does not mount: {mounted}"
        return
    acked = {"threads": {}, "text": {}, "confirmed": {}}
    oldest = 1
    for mark in marks:
        name, _, rest = mark.partition(" ")
        if name == "pruning":
            oldest = int(rest)
        elif name in acked:
            numbers = [int(number) for number in rest.split()]
            acked[name][numbers[0]] = numbers[1:]
    for name, records in acked.items():
        after = (found / f"{name}.after").read_text().strip()
        if after != "0":
            said = (found / f"{name}.error").read_text().strip()
            yield f"{name}: it does not go on: {said}"
        if (found / f"{name}.ack").read_text().strip() == "":
            yield f"{name}: another record is not acknowledged"
        if not records:
            continue
        code = (found / f"{name}.code").read_text().strip() if (found / f"{name}.code").exists() else "gone"
        if code != "0":
            said = (found / f"{name}.error").read_text().strip() if code != "gone" else ""
            yield f"{name}: verify ends with {code}: {said}"
            continue
        there = {}
        for line in (found / f"{name}.cat").read_text().splitlines():
            record = json.loads(line)
            there[record["lsn"]] = record["data"]
        for lsn, more in records.items():
            if lsn not in there:
                if name != "confirmed" or lsn >= oldest:
                    yield f"{name}: record {lsn} was acknowledged and is gone"
            elif not is_right(name, lsn, more, there[lsn]):
                yield f"{name}: record {lsn} is {there[lsn][:60]!r}"
        numbers = sorted(there)
        if numbers != list(range(numbers[0], numbers[0] + len(numbers))):
            yield f"{name}: there are holes between the records"


def is_right(name, lsn, more, data):
    if name == "threads":
        thread, number = more
        padding = 50 + number * 37 % 24_000
        return data == f"thread {thread} record {number} {0:0{padding}d}"
    if name == "text":
        return data == f"line {lsn}"
    number, width = (lsn, 4000) if lsn <= 30 else ((lsn - 31) % 60 + 1, 20000)
    return data == f"{number} {0:{width}d}"


# A machine that dies under a log, and starts again, over and over.

# How many records a log may have before it is given up for a fresh one.
FULL = 2500
ACK = re.compile(rb"^(\d+) (\d+) (\d+)\r?$")


def lives(folder, options):
    machine = Machine(options.fs, folder)
    dice = random.Random(options.seed)
    acked, broken, total = {}, [], 0
    disk = machine.disk("disk")
    for cycle in range(1, options.cycles + 1):
        new = life(machine, disk, options.what, dice, acked, broken)
        total += len(new)
        acked.update(new)
        print(f"{options.what} {cycle}: {total} acknowledged, {len(broken)} broken", flush=True)
        if len(acked) > FULL or cycle == options.cycles:
            life(machine, disk, "never", dice, acked, broken)
            # A fresh log, so that the disk does not fill.
            acked, disk = {}, machine.disk("disk")
    for promise in broken:
        print(f"PROMISE BROKEN: {promise}", file=sys.stderr)
    print(f"{options.fs}: {options.cycles} times {options.what}, {total} acknowledged, "
          f"{len(broken)} promises broken (seed {options.seed})")
    return 1 if broken else 0


def life(machine, disk, die, dice, acked, broken):
    """One life: looks for what was acknowledged before, then goes on until the machine dies."""
    for name in ("cat", "looked"):
        (machine.shared / name).unlink(missing_ok=True)
    after = round(dice.uniform(0.3, 2.0), 2)
    new, words = watch(machine.start("live", [disk], die=die, after=after), die, after)
    broken += [word for word in words if word.startswith("guest: ")]
    if acked:
        if not (machine.shared / "looked").exists():
            raise SystemExit("the log was not looked at:\n" + "\n".join(words[-20:]))
        broken += missing(machine.shared / "cat", acked)
    broken += [f"number {lsn} was given twice" for lsn in new if lsn in acked]
    if die != "never" and not new:
        raise SystemExit("nothing was acknowledged in this life:\n" + "\n".join(words[-20:]))
    return new


def watch(guest, die, after):
    """The acknowledgements on the console, and what else was said, until the machine is dead."""
    os.set_blocking(guest.stdout.fileno(), False)
    text, ends, first = b"", time.monotonic() + 120, None
    while time.monotonic() < ends:
        more = guest.stdout.read()
        if more:
            text += more
            if first is None and re.search(rb"(?m)^\d+ \d+ \d+\r?$", text):
                first = time.monotonic()
        if guest.poll() is not None or b"Kernel panic" in text:
            break
        if die == "kill" and first and time.monotonic() > first + after:
            break
        time.sleep(0.005)
    kill(guest)
    lines = text.split(b"\n")[:-1]
    acks = (ACK.match(line) for line in lines)
    new = {int(ack[1]): (int(ack[2]), int(ack[3])) for ack in acks if ack}
    words = [line.decode(errors="replace").strip() for line in lines if not ACK.match(line)]
    return new, words


def missing(path, acked):
    """Which acknowledged records are not there as they were."""
    lines = path.read_bytes().split(b"\n")[:-1]
    for lsn, (thread, number) in acked.items():
        padding = 50 + number * 37 % 24_000
        wanted = f"thread {thread} record {number} {0:0{padding}d}".encode()
        if lsn > len(lines):
            yield f"record {lsn} was acknowledged and is gone"
        elif lines[lsn - 1] != wanted:
            yield f"record {lsn} is {lines[lsn - 1][:60]!r}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("what", choices=["cuts", "panic", "kill"])
    parser.add_argument("--fs", choices=sorted(DISKS), default="ext4")
    parser.add_argument("--images", type=int, default=300)
    parser.add_argument("--records", type=int, default=160)
    parser.add_argument("--cycles", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", help="keep the images that broke a promise in this folder")
    options = parser.parse_args()
    work = powercuts if options.what == "cuts" else lives
    try:
        with tempfile.TemporaryDirectory(
            prefix="seawall-kernel-", dir=os.environ.get("SEAWALL_DIR"), ignore_cleanup_errors=True
        ) as folder:
            return work(Path(folder), options)
    except Missing as missing:
        print(f"skipped: {missing}", file=sys.stderr)
        return 77


if __name__ == "__main__":
    sys.exit(main())
