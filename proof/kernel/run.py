#!/usr/bin/env python3
"""Power cuts, panics and kills of a whole machine with a real kernel and a real file system.

    python3 run.py cuts  [--fs ext4|xfs|btrfs] [--images 300] [--records 160] [--seed 1]
    python3 run.py panic [--fs ext4|xfs|btrfs] [--cycles 40] [--seed 1]
    python3 run.py kill  [--fs ext4|xfs|btrfs] [--cycles 40] [--seed 1]

The machine is a User-mode Linux guest; `apt install user-mode-linux e2fsprogs xfsprogs btrfs-progs
dmsetup kmod` installs what it needs. Exits with 0 if every promise held, 1 if one was broken, 77 if
something is not installed. `SEAWALL_BIN` is the folder of `seawall` and `committers`; without it
they are built. `SEAWALL_DIR` is the folder for the disks, which take a few GiB.
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
# Size of the disk by file system, in MiB.
DISKS = {"ext4": 96, "xfs": 320, "btrfs": 256}
# Number of images that the guest checks per start.
TOGETHER = 25
PATIENCE = 900


class Missing(Exception):
    """Something that this program needs is not installed."""


def need(program, package):
    if not shutil.which(program):
        raise Missing(f"`{program}` is missing: apt install {package}")


def programs():
    """Returns the folder of `seawall` and `committers`, which it builds if necessary."""
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
        """Creates a disk with an empty file system."""
        path = self.folder / name
        with open(path, "wb") as file:
            file.truncate(DISKS[self.fs] << 20)
        quiet = {"ext4": ["-q", "-F"], "xfs": ["-q", "-f"], "btrfs": ["-q", "-f"]}[self.fs]
        subprocess.run([f"mkfs.{self.fs}", *quiet, str(path)], check=True)
        return path

    def start(self, do, disks, **more):
        """Starts the guest; its console is the standard output of the returned process."""
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
        """Runs the guest until it ends. It must have created the file `sign`."""
        (self.shared / sign).unlink(missing_ok=True)
        guest = self.start(do, disks, **more)
        try:
            said, _ = guest.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            said = b"the guest timed out"
        kill(guest)
        if not (self.shared / sign).exists():
            tail = said.decode(errors="replace")[-2000:]
            more = self.shared / "said"
            tail += more.read_text()[-2000:] if more.exists() else ""
            raise SystemExit(f"the guest did not finish ({do}):\n{tail}")


def kill(guest):
    """Kills the guest and all its processes."""
    try:
        os.killpg(guest.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    guest.wait()
    if guest.stdout:
        guest.stdout.close()


# The writes of a device, as the kernel's dm-log-writes records them.

FLUSH, FUA, DISCARD, MARK = 1, 2, 4, 8


class Write:
    """One entry: a write, a flush, a discard or a mark."""

    def __init__(self, sector, data, flags):
        self.sector, self.data, self.flags = sector, data, flags

    @property
    def text(self):
        return self.data.decode().strip("\0\n ").replace("_", " ")


def entries(path):
    """Yields the entries in order: writes come before the flush that made them durable."""
    with open(path, "rb") as file:
        magic, version, count, size = struct.unpack("<QQQI", file.read(28))
        assert magic == 0x6A736677736872 and version == 1, "not a log of dm-log-writes"
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
                assert len(data) == sectors * SECTOR, "the log is truncated"
                at += sectors * SECTOR
            elif flags & DISCARD:
                data = sectors
            yield Write(sector, data, flags)


def apply(file, write):
    if write.flags & MARK or not write.data:
        return
    if write.flags & DISCARD:
        # Discarded blocks may read as anything; here they keep their content.
        return
    file.seek(write.sector * SECTOR)
    file.write(write.data)


def epochs(path):
    """Returns lists of entries; each but the last ends with a flush that made it durable."""
    found, epoch = [], []
    for entry in entries(path):
        epoch.append(entry)
        if entry.flags & (FLUSH | FUA):
            found.append(epoch)
            epoch = []
    return found + [epoch]


def choose(dice, epoch):
    """Returns sets of writes that a power cut may keep: none, all but one, one, a random half.

    If the epoch has up to three writes: every set except all of them.
    """
    writes = [number for number, entry in enumerate(epoch) if entry.data and not entry.flags & MARK]
    if len(writes) <= 3:
        return [{w for bit, w in enumerate(writes) if choice >> bit & 1}
                for choice in range(2 ** len(writes) - 1)]
    one = dice.choice(writes)
    return [set(), set(writes) - {one}, {one}, {w for w in writes if dice.random() < 0.5}]


def crash_images(base, path, wanted, dice):
    """Yields power cuts: epoch, numbers of the writes kept in it, these writes, all marks so far.

    Before each one, `base` receives the earlier epochs.
    """
    found = epochs(path)
    cuts = []
    for number, epoch in enumerate(found):
        for kept in choose(dice, epoch):
            cuts.append((number, kept))
    begin = next(i for i, e in enumerate(found) if any(x.flags & MARK and x.text == "begin" for x in e))
    cuts = [cut for cut in cuts if cut[0] > begin]
    if len(cuts) > wanted:
        cuts = [cuts[i] for i in sorted(dice.sample(range(len(cuts)), wanted))]
    print(f"{len(found)} flushes recorded; {len(cuts)} power cuts to check", flush=True)
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
        # A mark is recorded at once, a write only with the next flush. So the marks of this epoch
        # precede the power cut, whichever writes the device kept.
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
        print(f"{looked} checked, {len(broken)} broken", flush=True)
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
    print(f"{options.fs}: {looked} power cuts, {acknowledged} acknowledged records checked, "
          f"{len(broken)} promises broken (seed {options.seed})")
    return 1 if broken else 0


def keep(image, options):
    if options.keep:
        Path(options.keep).mkdir(parents=True, exist_ok=True)
        shutil.copy(image, options.keep)


def broken_promises(found, marks):
    """Yields what is wrong with the logs of one image, given the marks before the power cut."""
    mounted = (found / "mount").read_text().strip() if (found / "mount").exists() else "not checked"
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
            yield f"{name}: verify fails after another append: {said}"
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
            yield f"{name}: there are gaps between the records"


def is_right(name, lsn, more, data):
    if name == "threads":
        thread, number = more
        padding = 50 + number * 37 % 24_000
        return data == f"thread {thread} record {number} {0:0{padding}d}"
    if name == "text":
        return data == f"line {lsn}"
    number = lsn if lsn <= 30 else (lsn - 31) % 60 + 1
    width = 4000 if lsn <= 30 else 20000 if number % 3 else 100000
    return data == f"{number} {0:{width}d}"


# The machine crashes while a log is written and starts again, over and over.

# A log with more records than this is replaced by a new one.
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
            # A new log, so that the disk does not fill up.
            acked, disk = {}, machine.disk("disk")
    for promise in broken:
        print(f"PROMISE BROKEN: {promise}", file=sys.stderr)
    print(f"{options.fs}: {options.cycles} times {options.what}, {total} acknowledged, "
          f"{len(broken)} promises broken (seed {options.seed})")
    return 1 if broken else 0


def life(machine, disk, die, dice, acked, broken):
    """Checks the records acknowledged before, then appends until the machine dies."""
    for name in ("cat", "looked"):
        (machine.shared / name).unlink(missing_ok=True)
    after = round(dice.uniform(0.3, 2.0), 2)
    new, words = watch(machine.start("live", [disk], die=die, after=after), die, after)
    broken += [word for word in words if word.startswith("guest: ")]
    if acked:
        if not (machine.shared / "looked").exists():
            raise SystemExit("the log was not checked:\n" + "\n".join(words[-20:]))
        broken += missing(machine.shared / "cat", acked)
    broken += [f"LSN {lsn} was assigned twice" for lsn in new if lsn in acked]
    if die != "never" and not new:
        raise SystemExit("nothing was acknowledged in this life:\n" + "\n".join(words[-20:]))
    return new


def watch(guest, die, after):
    """Returns the acknowledgements and the other lines on the console, once the machine is dead."""
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
    """Yields the acknowledged records that are missing or changed."""
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
    parser.add_argument("--keep", help="copy images with a broken promise to this folder")
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
