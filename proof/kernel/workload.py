"""Writes three logs on one file system, and adds a mark for each acknowledgement to the recorded
writes of the device. Usage, in the guest: workload.py DISK BIN RECORDS
"""

import fcntl
import struct
import subprocess
import sys

# linux/dm-ioctl.h: struct dm_ioctl of 312 bytes, then the message: a sector and a text.
SIZE = 312
DM_TARGET_MSG = 3 << 30 | SIZE << 16 | 0xFD << 8 | 14
HEADER = struct.Struct("<3I2I I i 3I Q 128s 129s 7x")

disk, programs, records = sys.argv[1:]
control = open("/dev/mapper/control", "rb+", buffering=0)


def mark(text):
    """Adds a mark to the recorded writes. The kernel takes one word, without spaces."""
    message = b"mark " + text.strip().replace(" ", "_").encode() + b"\0"
    data = struct.pack("<Q", 0) + message
    header = HEADER.pack(4, 0, 0, SIZE + len(data), SIZE, 0, 0, 0, 0, 0, 0, b"log", b"")
    fcntl.ioctl(control, DM_TARGET_MSG, bytearray(header + data))


def start(*command):
    return subprocess.Popen(command, cwd=disk, text=True, bufsize=1,
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def end(process):
    process.stdin.close()
    for line in process.stdout:
        raise SystemExit(f"unexpected output: {line}")
    if process.wait() != 0:
        raise SystemExit(f"{process.args} ended with {process.returncode}")


def append(name, lines, *options):
    """Appends line by line: sends the next one once the previous one is acknowledged and marked."""
    log = start(f"{programs}/seawall", "append", f"{name}.wal", "--ack", "--quiet", *options)
    for line in lines:
        log.stdin.write(line + "\n")
        mark(f"{name} {log.stdout.readline()}")
    end(log)


mark("begin")
# Four threads, records up to 24 KB, segments up to 4 MiB. The threads do not wait for the marks.
threads = start(f"{programs}/committers", "threads.wal", "4", records)
for line in threads.stdout:
    mark(f"threads {line}")
end(threads)
append("text", [f"line {n}" for n in range(1, 41)], "--log-format", "json", "--format", "lines")
# Each record is confirmed: evidence of it is durable in another place. Then, twice, append more
# than a segment holds and truncate the records before 91.
append("confirmed", [f"{n} {0:4000d}" for n in range(1, 31)],
       "--level", "confirmed", "--segment-size", "1MiB")
for _ in range(2):
    # Every third record is large enough to bypass the page cache.
    append("confirmed", [f"{n} {0:{20000 if n % 3 else 100000}d}" for n in range(1, 61)])
    mark("pruning 91")
    truncate = [f"{programs}/seawall", "truncate", "confirmed.wal", "--before", "91", "--yes"]
    subprocess.run(truncate, cwd=disk, check=True, stdout=subprocess.DEVNULL)
mark("end")
