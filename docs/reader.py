#!/usr/bin/env python3
"""A second reader of Seawall logs, written from format.md alone to show that the text suffices.

    python3 docs/reader.py LOG [KEY_FILE]

prints each record as `seawall cat LOG -o hex` does. The log must not have a running writer. The
reader ignores `live`, which never proves that a record is absent (section 5). Unlike `cat`, it does
not sync the last records if nothing confirms them (section 6.2), and ignores parity: damage that
parity could restore is reported as damage.
It needs only Python 3.8 or later; for an encrypted log, whose key of 32 bytes is in KEY_FILE, also
the package `cryptography`; for a log compressed with zstd, Python 3.14 or the package `zstandard`.
Exit codes: 0 clean or torn end; 1 a file cannot be read; 3 ambiguous end: torn write or damage;
5 damage; 7 missing or wrong key, or forged bytes; 8 no log, or an unsupported one. Section numbers
are those of format.md.
"""
import bisect
import contextlib
import hashlib
import hmac
import os
import stat
import struct
import sys
from collections import namedtuple

VERSION, DRAFT = 1, 0
SECTOR = 512
VOID, COMPRESSED, FLAGS, GOES_ON = 1 << 27, 1 << 28 | 1 << 31, 0x1F << 27, 1 << 31
ENCRYPTED = 1 << 28 | 1 << 30
PARITY, REUSED, AHEAD, COMPRESSES, ENCRYPTS, ZSTD, IN_FLIGHT = 1, 2, 4, 8, 16, 32, 3 << 8
OF_SEGMENT = REUSED | AHEAD | COMPRESSES | ENCRYPTS | ZSTD | IN_FLIGHT
LOW32, LOW64 = (1 << 32) - 1, (1 << 64) - 1
FINE, UNREADABLE, UNSURE, DAMAGED, KEY, NO_LOG = 0, 1, 3, 5, 7, 8
SEGMENT_MAX, MANIFEST_MAX, READ_SIZE = 4 << 30, 1 << 17, 1 << 20


def table(text):
    """Returns a function that reads a structure; `text` has each field's struct code and name."""
    layout = struct.Struct("<" + "".join(text.split()[0::2]))
    fields = namedtuple("Fields", text.split()[1::2])

    def read(data, at=0):
        fits = at + layout.size <= len(data)
        return fields._make(layout.unpack_from(data, at)) if fits else None

    read.size = layout.size
    return read


PREAMBLE = table("8s magic H version H draft I crc")
HEADER = table("""16s preamble I crc I block I reach I batch_max Q log Q id Q epoch Q base Q carried
    Q size Q pred_id Q pred_epoch Q pred_chain I features H codec B layout B name_length I schema
    4s key 64s name Q time""")
MARK = table("I crc 4s magic Q epoch Q confirmed Q sequence Q time")
SEAL = table("I crc 4s magic Q epoch Q last Q next_id Q next_epoch Q time")
BATCH = table("I crc I length Q first I count I behind I body_crc I tag Q chain Q time")
FRAME = table("I word I crc")
PREFIX = table("I length I plain")
CHUNK = table("I crc I stored I plain I count Q first B method 7s zero")
ENCRYPTED_PREFIX = table("I length 4s zero 16s code")
ENCRYPTED_CHUNK = table("I crc I stored I plain I count Q first 12s nonce 4s zero")
CONTENT = table("I plain I used B method 3s zero")
AUTHENTICATOR = table("I crc 4s magic I key I padding Q first Q keys 16s code")
KEYS = table("""16s preamble I crc I count Q log Q sequence 16s key_id Q time I wrap 12s nonce
    16s tag""")
ENTRY = table("I number 4s zero 32s wrapped")
BEFORE = table("16s preamble I crc 4s zero Q log Q id Q epoch Q start Q size")
MANIFEST = table("""16s preamble I crc I block I reach I batch_max Q log Q sequence Q oldest_id
    Q oldest_epoch Q oldest_base Q checkpoint Q checkpoint_before Q closed Q closed_id
    Q closed_epoch Q segment_max I features H codec B layout B level I schema B name_length
    B data_blocks B parity_blocks B compression 64s name Q time""")


class Stop(Exception):
    """Ends reading. Arguments: exit code, reason."""


class Invalid(Exception):
    """An invalid file or slot. Arguments: reason, and what identifies a possible orphan."""


@contextlib.contextmanager
def regular(path):
    """Opens a regular file. Does not follow a link, or wait for what writes to a pipe."""
    if not stat.S_ISREG(os.lstat(path).st_mode):
        raise OSError(f"{path} is not a regular file")
    with open(path, "rb") as file:
        yield file


def contents(path, most):
    """The first bytes of a file, at most `most`."""
    with regular(path) as file:
        return file.read(min(most, os.fstat(file.fileno()).st_size))


def is_zero(path):
    """Whether a file has only zeros, and no more bytes than a segment may have."""
    with regular(path) as file:
        is_small = os.fstat(file.fileno()).st_size <= SEGMENT_MAX
        return is_small and not any(map(any, iter(lambda: file.read(READ_SIZE), b"")))


# Section 2: checksums, which depend on log, epoch and offset.
CRC_TABLE = []
for entry in range(256):
    for _ in range(8):
        entry = entry >> 1 ^ (0x82F63B78 if entry & 1 else 0)
    CRC_TABLE.append(entry)


def crc32c(data):
    crc = LOW32
    for byte in data:
        crc = crc >> 8 ^ CRC_TABLE[(crc ^ byte) & 0xFF]
    return crc ^ LOW32


def mix(x):
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 & LOW64
    x = (x ^ x >> 27) * 0x94D049BB133111EB & LOW64
    return x ^ x >> 31


def spread(start, number):
    return start + number * 0x9E3779B97F4A7C15 & LOW64


def key(log, epoch):
    return mix(log + mix(epoch) & LOW64)


def place(log, epoch, offset):
    return mix(spread(key(log, epoch), offset)) >> 32


def frame_place(log, epoch, lsn, word):
    return mix(spread(mix(key(log, epoch) ^ 0x6672616D65), lsn) ^ word) >> 32


def lz4(block, size):
    """Decompresses an LZ4 block; None unless that gives exactly `size` bytes; section 3.6."""
    out, at = bytearray(), 0

    def length(number):
        nonlocal at
        more = number == 15
        while more:
            number, more, at = number + block[at], block[at] == 255, at + 1
        return number

    with contextlib.suppress(IndexError):
        while len(out) <= size:
            token, at = block[at], at + 1
            literals = length(token >> 4)
            out += block[at:at + literals]
            at += literals
            if at >= len(block):
                return bytes(out) if at == len(block) and len(out) == size else None
            back, at = block[at] | block[at + 1] << 8, at + 2
            count = length(token & 15) + 4
            if not 0 < back <= len(out) or len(out) + count > size:
                return None
            for _ in range(count):
                out.append(out[-back])
    return None


def zstd_decoder():
    """Returns a constructor of Zstandard decoders, and their exception."""
    with contextlib.suppress(ImportError):
        from compression.zstd import ZstdDecompressor, ZstdError
        return ZstdDecompressor, ZstdError
    with contextlib.suppress(ImportError):
        from zstandard import ZstdDecompressor, ZstdError
        return lambda: ZstdDecompressor().decompressobj(), ZstdError
    raise Stop(NO_LOG, "the log uses zstd compression: use Python 3.14, or install the package zstandard")


def zstd(frame, size):
    """As `lz4`, for a Zstandard frame of the form that section 3.6 allows."""
    if len(frame) < 6 or frame[:4] != b"\x28\xb5\x2f\xfd" or frame[4] & 0x3F != 0x20:
        return None
    kind = frame[4] >> 6
    content = int.from_bytes(frame[5:5 + (1 << kind)], "little") + (256 if kind == 1 else 0)
    if content != size:
        return None
    decoder, error = zstd_decoder()
    try:
        decoding = decoder()
        plain = decoding.decompress(frame)
        return plain if decoding.eof and not decoding.unused_data and len(plain) == size else None
    except error:
        return None


def expanded(method, payload, size, features):
    """Decompresses a payload to frames by a method of section 3.6; None if that fails."""
    if method == 2:
        return zstd(payload, size) if features & ZSTD else None
    return lz4(payload, size) if features & COMPRESSES else None


# Section 3.7: keys and encryption.
FORGED = "not written with the key of this log, or moved"
LOG_KEYS = {}
WITHOUT_KEYS = [KEY, "the log is encrypted: give the file with its key"]


def numbers(*values):
    return struct.pack(f"<{len(values)}Q", *values)


def derived(key, place, info):
    """HKDF-SHA-256 of a log key or the user's key; `place` is log, segment and epoch."""
    secret = hmac.new(numbers(*place), key, hashlib.sha256).digest()
    return hmac.new(secret, b"seawall 1 " + info + b"\1", hashlib.sha256).digest()


def mac(key, data):
    return hmac.new(key, data, hashlib.sha256).digest()[:16]


def opened(key, nonce, bound, data):
    """Decrypts `data`, and checks its tag, which also covers `bound`."""
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCMSIV
    try:
        return AESGCMSIV(key).decrypt(nonce, data, bound)
    except InvalidTag:
        raise Stop(KEY, FORGED) from None


def log_key(number):
    if number not in LOG_KEYS:
        raise Stop(KEY, f"log key {number} is missing")
    return LOG_KEYS[number]


def authenticator(data, at, size, place_of, key_of):
    """The authenticator of a structure of `size` bytes; None if it has none. `key_of` derives its
    key from a log key. If the keys are lost, its code is not checked."""
    found = AUTHENTICATOR(data, at + 256)
    rest = data[at + 260:at + 256 + AUTHENTICATOR.size]
    if (not found or found.magic != b"AUTH" or not found.key
            or found.crc != crc32c(data[at:at + size] + rest) ^ place(*place_of, at + 256)):
        return None
    if not LOG_KEYS and WITHOUT_KEYS[0] == KEY:
        raise Stop(*WITHOUT_KEYS)
    if not LOG_KEYS:
        return found
    code = mac(key_of(log_key(found.key)), data[at:at + size] + numbers(at) + rest[4:28])
    if not hmac.compare_digest(code, found.code):
        raise Stop(KEY, FORGED)
    return found


def written_logs(folder, ids):
    """The logs that segment headers name; their authenticators are not checked."""
    for number in ids:
        path = os.path.join(folder, f"{number:012}.seg")
        with contextlib.suppress(OSError, Invalid, Stop):
            data = contents(path, HEADER.size)
            check_preamble(data, b"SEAWALLS")
            head = HEADER(data)
            if head and head.crc == crc32c(data[20:]) ^ place(head.log, head.epoch, 0):
                yield head.log


def read_keys(folder, key_file, ids):
    """Unwraps the log keys in the newest slot that the key opens. Returns its sequence."""
    try:
        with open(key_file, "rb") as file:
            user = file.read()
    except OSError as error:
        raise Stop(KEY, f"no key: {error}") from None
    data = b""
    with contextlib.suppress(FileNotFoundError):
        data = contents(os.path.join(folder, "keys"), 2 * 65_536)
    slots = []
    for at in (0, 65_536):
        with contextlib.suppress(Invalid):
            check_preamble(data[at:], b"SEAWALLK")
            found = KEYS(data, at)
            entries, end = [], at + KEYS.size
            if not found or not 1 <= found.count <= 256:
                continue
            end += found.count * ENTRY.size
            if (found.crc != crc32c(data[at + 20:end]) ^ place(found.log, 0, at) or len(data) < end
                    or not found.sequence or at != 65_536 * (found.sequence % 2)):
                continue
            if found.wrap != 1:
                raise Stop(NO_LOG, f"wrapping of keys {found.wrap} is not known")
            entries = [ENTRY(data, at + KEYS.size + number * ENTRY.size)
                       for number in range(found.count)]
            for entry in entries:
                check_kept(entry, "zero")
            slots.append((found.sequence, found, entries, data[at:at + KEYS.size]))
    if not slots:
        WITHOUT_KEYS[:] = DAMAGED, "no slot of keys can be read"
        return 0
    try:
        import cryptography.hazmat.primitives.ciphers.aead as aead
        assert aead.AESGCMSIV
    except (ImportError, AttributeError):
        raise Stop(KEY, "the log is encrypted: install the package cryptography") from None
    ours = set(written_logs(folder, ids))
    slots = [slot for slot in slots if slot[1].log in ours] or slots
    refused = Stop(KEY, FORGED)
    for slot in sorted(slots, key=lambda slot: slot[0], reverse=True):
        try:
            return unwrap(user, *slot)
        except OtherKey as error:
            refused = error
        except Stop:
            pass
    raise refused


class OtherKey(Stop):
    """The keys in a slot are wrapped with another key."""


def unwrap(user, sequence, found, entries, head):
    """Unwraps the log keys in a slot of `keys`. Returns its sequence."""
    if derived(user, (found.log, 0, 0), b"key id")[:16] != found.key_id:
        raise OtherKey(KEY, "the log is encrypted with another key")
    bound = head[:16] + head[20:68] + b"".join(struct.pack("<I", entry.number) for entry in entries)
    wrapped = b"".join(entry.wrapped for entry in entries) + found.tag
    plain = opened(derived(user, (found.log, 0, 0), b"wrap"), found.nonce, bound, wrapped)
    for number, entry in enumerate(entries):
        LOG_KEYS[entry.number] = plain[32 * number:32 * number + 32]
    return sequence


def check_preamble(data, magic):
    found = PREAMBLE(data)
    if found is None or found.magic != magic or found.crc != crc32c(data[:12]):
        raise Invalid("header")
    if (found.version, found.draft) != (VERSION, DRAFT):
        raise Stop(NO_LOG, f"version {found.version}, draft {found.draft} is not known")


def check_kept(found, *fields):
    """Refuses reserved bytes that are not zero: section 11."""
    if any(any(getattr(found, field)) for field in fields):
        raise Stop(NO_LOG, "bytes that are kept for later are not zero")


def check_options(found, features=0):
    """Checks the fields that segment headers and manifest slots share; allows `features`."""
    allowed = features & PARITY if found.layout else features
    if found.features & ~allowed or found.layout > 1 or found.codec > 3:
        raise Stop(NO_LOG, "its features, layout or codec are not known")
    if found.features & ZSTD:
        if not found.features & COMPRESSES:
            raise Stop(NO_LOG, "feature bit 5 is not known without bit 3")
        zstd_decoder()
    name, rest = found.name[:found.name_length], found.name[found.name_length:]
    if not (512 <= found.block <= 65_536 and found.block & found.block - 1 == 0
            and found.block <= found.reach <= 1 << 20 and found.reach % found.block == 0
            and 256 <= found.batch_max <= 64 << 20 and found.batch_max % 8 == 0
            and found.log and found.name_length <= 64 and not any(rest)
            and (found.codec == 2 or not found.layout)
            and name.decode(errors="ignore").encode() == name):
        raise Invalid("header")


def refuse_readable(found):
    """Refuses the readable layout, which this reader does not show; section 9."""
    if found.layout:
        raise Stop(NO_LOG, "the log has the readable layout, which this reader does not know")


class Segment:
    """A segment with a valid header; section 3."""

    def __init__(self, path, number, log):
        self.data = contents(path, HEADER.size)
        if not any(self.data):
            raise Invalid("header", *["zero"] * is_zero(path))
        check_preamble(self.data, b"SEAWALLS")
        head = self.head = HEADER(self.data)
        if not head or head.crc != crc32c(self.data[20:192]) ^ place(head.log, head.epoch, 0):
            raise Invalid("header")
        # Bytes beyond the size in the header do not count.
        self.data = contents(path, min(head.size, SEGMENT_MAX))
        check_options(head, features=OF_SEGMENT)
        refuse_readable(head)
        self.is_encrypted, self.is_locked = bool(head.features & ENCRYPTS), False
        if self.is_encrypted:
            self.derive_keys()
        else:
            check_kept(head, "key")
        self.begin = 4 * head.block + head.reach
        if head.features & AHEAD:
            sound = head.pred_id and not (head.base or head.carried or head.pred_chain)
        else:
            sound = head.base and head.carried >= head.base - 1
        if not (sound and head.id and head.epoch
                and self.begin <= head.size <= 4 << 30 and head.size % head.block == 0
                and head.pred_id < head.id and (head.pred_id or not head.pred_epoch)):
            raise Invalid("header")
        if log not in (None, head.log):
            raise Invalid("misplaced", "foreign")
        if head.id != number:
            raise Invalid("misplaced", (head.id, head.epoch))
        self.name = head.id, head.epoch
        self.pred = head.pred_id, head.pred_epoch
        self.chain = head.crc | (head.epoch & LOW32) << 32
        self.marks = [mark.confirmed for odd in (0, 1)
                      if (mark := self.small(MARK, (1 + odd) * head.block, b"MARK"))
                      and 0 < mark.sequence < 1 << 63 and mark.sequence % 2 == odd]
        self.seal = self.small(SEAL, 3 * head.block, b"SEAL")
        self.next = self.seal and (self.seal.next_id, self.seal.next_epoch)
        self.before = self.read_table(path[:-4] + ".before") if head.features & REUSED else None
        self.tells_base, self.is_doubtful, self.has_orphans = True, False, False
        if head.features & AHEAD:
            first, _ = self.batch_header(self.begin) or (None, 0)
            self.tells_base = bool(first and not first.behind)
            if self.tells_base:
                self.start_at(first.first, first.chain)

    def derive_keys(self):
        """Derives the keys of an encrypted segment, and authenticates its header; section 3.7."""
        head = self.head
        self.place = head.log, head.id, head.epoch
        if not self.is_authentic(0, HEADER.size):
            raise Invalid("header")
        self.is_locked = not LOG_KEYS
        if not self.is_locked:
            self.chunk_key, self.batch_key = (
                derived(log_key(int.from_bytes(head.key, "little")), self.place, info)
                for info in (b"chunk", b"batch"))

    def is_authentic(self, at, size):
        """Whether a structure has an authenticator; a wrong one stops the reader."""
        where = self.head.log, self.head.epoch
        return authenticator(self.data, at, size, where, lambda key: derived(key, self.place, b"head"))

    def start_at(self, base, chain):
        """Sets the fields that the header of a segment named ahead leaves out; section 3.5."""
        self.head = self.head._replace(base=base, carried=base - 1, pred_chain=chain)
        self.chain = chain

    def read_table(self, path):
        """The checksum of each sector before this segment; none without a valid table."""
        head = self.head
        count = (head.size - self.begin) // SECTOR
        try:
            data = contents(path, BEFORE.size + 4 * count + 1)
            check_preamble(data, b"SEAWALLB")
        except (OSError, Invalid, Stop):
            return []
        table = BEFORE(data)
        if (not table or table.crc != crc32c(data[20:]) ^ place(head.log, head.epoch, 0)
                or any(table.zero) or len(data) != BEFORE.size + 4 * count
                or table[3:] != (head.log, head.id, head.epoch, self.begin, head.size)):
            return []
        return struct.unpack_from(f"<{count}I", data, BEFORE.size)

    def is_untouched(self, number, at):
        """Whether no write after `at` reached sector `number` of the file; section 7."""
        start, end = number * SECTOR, (number + 1) * SECTOR
        is_blank = not any(self.data[max(at, start):end])
        if self.before is None:
            return is_blank
        index, block = number - self.begin // SECTOR, self.head.block
        return bool(self.before and (
            0 <= index < len(self.before) and self.before[index] == crc32c(self.data[start:end])
            or is_blank and start < -(-at // block) * block))

    def touched_to(self, at):
        """The end of the bytes after `at` that a write reached."""
        if self.before is None:
            return at + len(self.data[at:].rstrip(b"\0"))
        sectors = range(at // SECTOR, -(-len(self.data) // SECTOR))
        touched = [number for number in sectors if not self.is_untouched(number, at)]
        return min((touched[-1] + 1) * SECTOR, len(self.data)) if touched else at

    def is_used(self):
        """Whether the segment excludes row *nothing-yet* of section 7."""
        follows = self.head.base > 1 or self.head.carried or self.head.pred_id
        return bool(follows or self.seal or self.marks or any(self.data[self.begin:]))

    def is_touched(self):
        """Whether anything was written after the header, or the file was shortened; section 3.5."""
        return bool(self.touched_to(self.begin) > self.begin or self.marks or self.seal
                    or len(self.data) < self.head.size)

    def has_evidence(self):
        """Whether anything here confirms a record, or the file was shortened; section 7."""
        return bool(self.marks or self.seal or any(self.confirmed())
                    or len(self.data) < self.head.size)

    def ending(self):
        """The end of the valid batches, and the last LSN in them."""
        at, last = self.begin, self.head.base - 1
        for header, end, *_ in self.batches():
            at, last = end, header.first + header.count - 1
        return at, last

    def promised(self, closed):
        """The last LSN known durable if this segment is the newest; section 6."""
        sealed = self.seal.last if self.seal else 0
        return max([closed, self.head.carried, sealed, *self.marks, *self.confirmed()])

    def is_clean(self, closed):
        """Whether the log would end cleanly in this segment; section 7."""
        at, last = self.ending()
        return (len(self.data) >= self.head.size and self.promised(closed) <= last
                and self.touched_to(at) == at)

    def ends_with(self, closed):
        """Whether the clean close came last in this segment; section 6.3."""
        block = self.head.block
        return (not any(self.data[3 * block:4 * block]) and self.is_clean(closed)
                and self.ending()[1] == closed)

    def crc(self, start, end, at):
        return crc32c(self.data[start:end]) ^ place(self.head.log, self.head.epoch, at)

    def small(self, read, at, magic):
        """A mark or a seal, if it is valid; section 3.2."""
        found = read(self.data, at)
        valid = (found and found.magic == magic and found.epoch == self.head.epoch
                 and found.crc == self.crc(at + 4, at + read.size, at)
                 and getattr(found, "next_id", True))
        if valid and self.is_encrypted and not self.is_authentic(at, read.size):
            return None
        return found if valid else None

    def batch_header(self, at):
        """The batch header at `at` and the end of its batch, if it is valid; section 3.3."""
        found = BATCH(self.data, at)
        if not found or found.tag != self.head.epoch & LOW32:
            return None
        end = at + BATCH.size + (found.length & ~FLAGS)
        valid = (self.knows(found) and found.count >= 1 and found.behind < found.first
                 and found.first + found.count <= LOW64
                 and (end - at) % 8 == 0 and end - at <= self.head.batch_max
                 and found.crc == self.crc(at + 4, at + BATCH.size, at))
        return (found, end) if valid else None

    def knows(self, header):
        """Whether a batch here may have these flags; sections 3.3, 3.6 and 3.7."""
        flags = header.length & FLAGS
        if self.is_encrypted:
            return flags in (ENCRYPTED, ENCRYPTED | VOID)
        return flags in (0, VOID) or flags == COMPRESSED and self.head.features & COMPRESSES

    def next_header(self, at, last, chain):
        """As `batch_header`, if it continues the log. Unknown flags are refused, not damage."""
        later = BATCH(self.data, at)
        if (later and not self.knows(later) and later.tag == self.head.epoch & LOW32
                and later.crc == self.crc(at + 4, at + BATCH.size, at)):
            if self.is_encrypted and later.length & ENCRYPTED != ENCRYPTED:
                raise Stop(KEY, "a batch is not encrypted, in an encrypted segment")
            raise Stop(NO_LOG, f"batch flags {later.length >> 28:#x} are not known")
        found = self.batch_header(at)
        return found if found and (found[0].first, found[0].chain) == (last + 1, chain) else None

    def frames(self, at, header, end):
        """Each frame of a body: LSN, end, payload (None if it is not valid), first four bytes."""
        for lsn, behind, payload, word, crc in self.frames_in(at, header, end):
            yield lsn, behind, payload if self.is_bound_to(lsn, payload, word, crc) else None, word

    def frames_in(self, at, header, end):
        """As `frames`, but with the payload also of a frame whose crc is wrong, and the crc; no
        payload if it does not fit."""
        if not header.length & VOID:
            yield from self.frames_of(at, range(header.first, header.first + header.count), end)

    def frames_of(self, at, lsns, end):
        """As `frames_in`, for the records `lsns`."""
        end = min(end, len(self.data))
        for lsn in lsns:
            if at + FRAME.size > end:
                return
            frame, start = FRAME(self.data, at), at + FRAME.size
            size = frame.word & ~GOES_ON
            at = start + size + -size % 8
            yield lsn, at, self.data[start:start + size] if at <= end else None, *frame

    def is_bound_to(self, lsn, payload, word, crc):
        """Whether a frame is valid for this LSN."""
        bound = frame_place(self.head.log, self.head.epoch, lsn, word)
        return payload is not None and crc32c(payload) ^ bound == crc

    def frames_in_damage(self, start, first, last, end):
        """The intact frames of a damaged range without a readable header. After bytes that are not
        a frame, such as the header of another batch, they continue where lengths lead exactly to
        the end."""
        end = min(end, len(self.data))
        counts, at, lsn = None, start, first
        frame = lambda at, lsn: next(self.frames_of(at, [lsn], end), (lsn, end + 1, None, 0, 0))
        valid = lambda at, lsn: self.is_bound_to(lsn, *frame(at, lsn)[2:])
        while lsn <= last:
            _, behind, payload, word, crc = frame(at, lsn)
            if behind <= end:
                if self.is_bound_to(lsn, payload, word, crc):
                    yield lsn, behind, payload, word
                if lsn == last or valid(behind, lsn + 1):
                    at, lsn = behind, lsn + 1
                    continue
            if counts is None:
                counts = self.frames_to(start, end)
            # Not from the start each time: every second frame may lead here.
            rest = range(bisect.bisect_right(counts, (at, LOW64)), len(counts))
            numbered = ((counts[index][0], last + 1 - counts[index][1]) for index in rest)
            found = ((place, number) for place, number in numbered
                     if number > lsn and valid(place, number))
            at, lsn = next(found, (0, last + 1))

    def frames_to(self, start, end):
        """Offsets from which the lengths of frames lead exactly to the end, and their number."""
        counts = {end: 0}
        for at in range(end - (end - start) % 8 - 8, start - 1, -8):
            size = FRAME(self.data, at).word & ~GOES_ON
            behind = at + FRAME.size + size + -size % 8
            if behind in counts:
                counts[at] = counts[behind] + 1
        return sorted((at, count) for at, count in counts.items() if count)

    def chunk(self, at, end):
        """The chunk at `at` and its end, if its fields are valid; section 3.6."""
        found = (ENCRYPTED_CHUNK if self.is_encrypted else CHUNK)(self.data, at)
        if not found:
            return None
        if self.is_encrypted:
            behind = at + ENCRYPTED_CHUNK.size + found.stored
            sound = (behind <= min(end, len(self.data)) and not any(found.zero) and not found.plain
                     and found.stored % 8 == 0 and found.stored >= 32 and found.count
                     and found.first and found.first + found.count <= LOW64)
            return (found, behind) if sound else None
        behind = at + CHUNK.size + found.stored + -found.stored % 8
        sound = (behind <= min(end, len(self.data)) and not any(found.zero)
                 and found.plain % 8 == 0 and found.plain >= 8 * found.count > 0
                 and found.first and found.first + found.count <= LOW64 and found.method <= 2
                 and (found.stored < found.plain if found.method else found.stored == found.plain))
        return (found, behind) if sound else None

    def decoded(self, at, chunk):
        """The records of a chunk, and whether the last ends its set; None if it does not decode."""
        if self.is_encrypted:
            plain = self.decrypted(at, chunk)
        else:
            plain = self.data[at + CHUNK.size:at + CHUNK.size + chunk.stored]
            if chunk.method:
                plain = expanded(chunk.method, plain, chunk.plain, self.head.features)
        records, at, word = [], 0, 0
        while plain and len(records) < chunk.count and at + FRAME.size <= len(plain):
            word, crc = FRAME(plain, at)
            size = word & ~GOES_ON
            payload = plain[at + FRAME.size:at + FRAME.size + size]
            if crc32c(payload) != crc:
                return None
            records.append((chunk.first + len(records), payload))
            at += FRAME.size + size + -size % 8
        whole = plain and len(records) == chunk.count and at == len(plain)
        return (records, not word & GOES_ON) if whole else None

    def decrypted(self, at, chunk):
        """The frames of an encrypted chunk, or None; section 3.7."""
        start = at + ENCRYPTED_CHUNK.size
        bound = numbers(*self.place, at) + self.data[at + 4:at + 24]
        data = opened(self.chunk_key, chunk.nonce, bound, self.data[start:start + chunk.stored])
        content, payload = CONTENT(data), data[CONTENT.size:]
        used = payload[:content.used]
        sound = (not any(content.zero) and not any(payload[content.used:])
                 and content.plain % 8 == 0 and content.plain >= 8 * chunk.count
                 and content.plain + BATCH.size <= self.head.batch_max
                 and content.used <= len(payload) and content.method <= 2)
        if not sound or content.method == 0:
            return used if sound and content.used == content.plain else None
        is_smaller = content.used < content.plain
        return expanded(content.method, used, content.plain, self.head.features) if is_smaller else None

    def is_bound(self, at, chunk):
        """Whether the crc of a chunk matches."""
        size = ENCRYPTED_CHUNK.size if self.is_encrypted else CHUNK.size
        return chunk.crc == self.crc(at + 4, at + size + chunk.stored, at)

    def chunks(self, at, header, end):
        """The offsets and chunks of a body; None if they do not have the batch's records."""
        if self.is_encrypted:
            return self.encrypted_chunks(at, header, end)
        prefix, found, next = PREFIX(self.data, at), [], header.first
        last, at = header.first + header.count, at + PREFIX.size
        while prefix and next < last and (read := self.chunk(at, end)) and read[0].first == next:
            found.append((at, read[0]))
            next, at = next + read[0].count, read[1]
        sound = (prefix and prefix.length == PREFIX.size and next == last
                 and prefix.plain == sum(chunk.plain for _, chunk in found)
                 and prefix.plain + BATCH.size <= self.head.batch_max
                 and end - at < self.head.block and not any(self.data[at:end]))
        return found if sound else None

    def encrypted_chunks(self, body, header, end):
        """As `chunks`, for an encrypted body; a wrong code stops the reader; section 3.7."""
        prefix, found, next = ENCRYPTED_PREFIX(self.data, body), [], header.first
        last = header.first + (0 if header.length & VOID else header.count)
        at, tags = body + ENCRYPTED_PREFIX.size, b""
        while prefix and next < last and (read := self.chunk(at, end)) and read[0].first == next:
            found.append((at, read[0]))
            next, at = next + read[0].count, read[1]
            tags += self.data[at - 16:at]
        if not (prefix and prefix.length == ENCRYPTED_PREFIX.size and not any(prefix.zero)
                and next == last and end - at < self.head.block and not any(self.data[at:end])):
            return None
        start = body - BATCH.size
        covered = self.data[start + 8:start + 24] + self.data[start + 32:start + 48]
        if not hmac.compare_digest(mac(self.batch_key, numbers(start) + covered + tags), prefix.code):
            raise Stop(KEY, FORGED)
        return found

    def intact(self, at, end, first, last):
        """The records in valid chunks of a damaged range."""
        found = {}
        while at < end and first <= last:
            chunk, behind = self.chunk(at, end) or (None, 0)
            known = (chunk and first <= chunk.first <= last and self.is_bound(at, chunk)
                     and self.decoded(at, chunk))
            if known:
                found.update(known[0])
                first, at = chunk.first + chunk.count, behind
            else:
                at += 8
        return found

    def compressed(self, body, header, end):
        """The records of a batch of chunks, up to the first chunk that does not decode, and whether
        these are all and end a set; None if the batch is not valid."""
        chunks = self.chunks(body, header, end)
        if chunks is None:
            return None
        records, ends = [], not chunks
        for at, chunk in chunks:
            known = self.decoded(at, chunk)
            if not known:
                return records, False
            records, ends = records + known[0], known[1]
        return records, ends

    def batches(self):
        """Each valid batch: header, end, records, and whether the records are complete."""
        at, last, chain = self.begin, self.head.base - 1, self.chain
        while not self.is_locked and (found := self.next_header(at, last, chain)):
            header, end = found
            body = at + BATCH.size
            if header.length & FLAGS == COMPRESSED or self.is_encrypted:
                known = (end <= min(len(self.data), self.head.size)
                         and header.body_crc == self.crc(body, end, body)
                         and self.compressed(body, header, end))
                if not known:
                    return
                at, last, chain = end, last + header.count, header.crc | header.body_crc << 32
                yield header, end, *known
                continue
            frames = list(self.frames_in(body, header, end))
            rest = self.data[frames[-1][1] if frames else body:end]
            if not (end <= min(len(self.data), self.head.size)
                    and header.body_crc == self.crc(body, end, body)
                    and len(frames) == (0 if header.length & VOID else header.count)
                    and all(payload is not None for _, _, payload, *_ in frames)
                    and not (frames and frames[-1][3] & GOES_ON)
                    and len(rest) < self.head.block and not any(rest)):
                return
            at, last, chain = end, last + header.count, header.crc | header.body_crc << 32
            yield header, end, [(lsn, payload) for lsn, _, payload, *_ in frames], True

    def headers(self):
        """Each valid batch header in the file and its offset, found by the epoch tag."""
        tag, tag_at = struct.pack("<I", self.head.epoch & LOW32), 28
        at = self.data.find(tag)
        while at >= 0:
            found = at >= tag_at and (at - tag_at) % 8 == 0 and self.batch_header(at - tag_at)
            if found:
                yield at - tag_at, found[0]
            at = self.data.find(tag, at + 1)

    def confirmed(self):
        """The LSN that each valid batch header confirms."""
        return (header.first - 1 - header.behind for _, header in self.headers())

    def is_torn(self, at, last, chain):
        """Whether the bytes after the valid batches are a torn write: section 7, the last rows."""
        def untouched(start, end):
            sectors = range(start // SECTOR, (end - 1) // SECTOR + 1)
            return any(self.is_untouched(number, at) for number in sectors)

        used = self.touched_to(at) - at
        writes = 1 + ((self.head.features & IN_FLIGHT) >> 8)
        if used > writes * self.head.batch_max + self.head.block or not BATCH(self.data, at):
            return False
        start = at + BATCH.size
        if not self.batch_header(at):
            return untouched(at, start)
        header, end = self.next_header(at, last, chain) or (None, 0)
        if not header or end > len(self.data) or not untouched(start, end):
            return False
        if header.length & FLAGS == COMPRESSED or self.is_encrypted:
            return self.is_torn_in_chunks(start, header, end, untouched)
        for _, behind, payload, _ in self.frames(start, header, end):
            if untouched(start, start + FRAME.size):
                break
            if behind > end or payload is None and not untouched(start, behind):
                return False
            start = behind
        return True


    def is_torn_in_chunks(self, at, header, end, untouched):
        """As `is_torn`, for a body of chunks; sections 3.6 and 3.7."""
        kind = ENCRYPTED_PREFIX if self.is_encrypted else PREFIX
        size = ENCRYPTED_CHUNK.size if self.is_encrypted else CHUNK.size
        if untouched(at, at + kind.size):
            return True
        prefix, next, last = kind(self.data, at), header.first, header.first + header.count
        left, at = 0 if self.is_encrypted else prefix.plain, at + kind.size
        if (prefix.length != kind.size or left + BATCH.size > self.head.batch_max
                or self.is_encrypted and any(prefix.zero)):
            return False
        last = header.first if header.length & VOID else last
        while next < last:
            if untouched(at, at + size):
                return True
            chunk, behind = self.chunk(at, end) or (None, 0)
            if not chunk or chunk.first != next or chunk.first + chunk.count > last:
                return False
            left -= chunk.plain
            if left < 0 or not untouched(at, behind) and not (
                    self.is_bound(at, chunk) and (self.is_encrypted or self.decoded(at, chunk))):
                return False
            next, at = next + chunk.count, behind
        return left == 0


def read_manifest(folder, ids):
    """The readable slot of this log with the higher sequence, or None; section 4."""
    try:
        data = contents(os.path.join(folder, "manifest"), MANIFEST_MAX)
    except FileNotFoundError:
        return None
    slots = []
    for at in [0] + [512 << shift for shift in range(8)]:
        slot = data[at:at + MANIFEST.size]
        try:
            check_preamble(slot, b"SEAWALLM")
            found = MANIFEST(slot)
            if not found or found.crc != crc32c(slot[20:]) ^ place(found.log, 0, at):
                continue
            check_options(found, features=PARITY | OF_SEGMENT)
            if found.compression > bool(found.features & COMPRESSES) + bool(found.features & ZSTD):
                raise Stop(NO_LOG, f"compression {found.compression} is not known")
            if found.level > 2:
                raise Stop(NO_LOG, f"level {found.level} is not known")
            if found.features & PARITY:
                sound = (2 <= found.data_blocks <= 64
                         and 1 <= found.parity_blocks <= min(16, found.data_blocks))
            else:
                sound = not (found.data_blocks or found.parity_blocks)
            if (sound and at == found.block * (found.sequence % 2) and found.sequence < 1 << 63
                    and found.oldest_id and found.oldest_base
                    and found.segment_max <= 4 << 30
                    and (found.closed_id or not (found.closed or found.closed_epoch))):
                if found.features & ENCRYPTS and not claims_of(found, data, at):
                    continue
                slots.append(found)
        except Invalid:
            pass
    if len({slot.log for slot in slots}) > 1:
        ours = logs_of(folder, ids)
        slots = [slot for slot in slots if slot.log in ours] or slots
    return max(slots, key=lambda slot: slot.sequence, default=None)


def is_closing(folder, manifest):
    """Whether a clean close wrote this slot; section 4."""
    at = manifest.block * (manifest.sequence % 2)
    slot = contents(os.path.join(folder, "manifest"), MANIFEST_MAX)[at:at + 312]
    mark = crc32c(slot[:MANIFEST.size] + b"CLSD") ^ place(manifest.log, 0, at + 304)
    return slot[304:] == mark.to_bytes(4, "little") + b"CLSD"


def claims_of(slot, data, at):
    """The authenticator of a manifest slot; section 3.7."""
    return authenticator(data, at, MANIFEST.size, (slot.log, 0),
                         lambda key: derived(key, (slot.log, 0, 0), b"manifest"))


def check_encryption(folder, manifest, sound, sequence):
    """Refuses a log with missing encryption or an older copy of `keys`; section 3.7."""
    if not manifest or sequence is None:
        return
    if not manifest.features & ENCRYPTS:
        raise Stop(KEY, "there is a key, and the manifest says that nothing is encrypted")
    if not LOG_KEYS:
        return
    data = contents(os.path.join(folder, "manifest"), MANIFEST_MAX)
    claims = claims_of(manifest, data, manifest.block * (manifest.sequence % 2))
    if sequence < claims.keys:
        raise Stop(KEY, "keys is an older copy")
    plain = [number for number, segment in sound.items() if not segment.is_encrypted]
    if max(plain, default=0) >= claims.first:
        raise Stop(KEY, f"segment {max(plain)} is not encrypted")


def begins_as_manifest(folder):
    """Whether the directory has a manifest, perhaps a damaged one; section 6.1."""
    with contextlib.suppress(FileNotFoundError):
        return contents(os.path.join(folder, "manifest"), 8) == b"SEAWALLM"
    return False


def logs_of(folder, ids):
    """The logs that readable segment headers name."""
    found = set()
    for number in ids:
        try:
            found.add(Segment(os.path.join(folder, f"{number:012}.seg"), number, None).head.log)
        except Invalid:
            pass
    return found


def read_segments(folder, manifest, ids):
    """The segments that may be live, by id: the readable ones, and why others are not."""
    sound, bad = {}, {}
    for number in ids:
        if not manifest or number >= manifest.oldest_id:
            try:
                path = os.path.join(folder, f"{number:012}.seg")
                sound[number] = Segment(path, number, manifest and manifest.log)
            except Invalid as why:
                bad[number] = why.args
                with contextlib.suppress(OSError):
                    if not is_zero(path[:-4] + ".parity"):
                        bad[number] = why.args[:1]
    return sound, bad


def closed_in(manifest, segment):
    """The last LSN of the clean close if it names this segment, otherwise 0."""
    here = manifest and (manifest.closed_id, manifest.closed_epoch) == segment.name
    return manifest.closed if here else 0


def pred_of(segment, sound):
    """The predecessor that the segment's link names, if it is readable."""
    below = sound.get(segment.head.pred_id)
    return below if below and below.name == segment.pred else None


def start_ahead(manifest, sound, bad):
    """Sets the base of segments named ahead that have no first batch; section 3.5. Removes from
    `sound`, and returns, those that have not begun."""
    names = {segment.pred for segment in sound.values()}
    oldest = manifest and (manifest.oldest_id, manifest.oldest_epoch)
    if manifest:
        names |= {oldest, (manifest.closed_id, manifest.closed_epoch)}
    waiting, highest = {}, max(sound, default=0)
    for number, segment in sorted(sound.items()):
        if segment.tells_base:
            continue
        below = pred_of(segment, sound)
        if not (segment.name in names or number == highest and segment.is_touched()):
            waiting[number] = sound.pop(number)
        elif segment.name == oldest:
            segment.start_at(manifest.oldest_base, 0)
        elif below and below.next == segment.name:
            segment.start_at(below.seal.last + 1, 0)
        elif below and (number < highest or segment.name in names or segment.has_evidence()
                        or below.head.id == max(set(sound) - {number})):
            segment.start_at(below.ending()[1] + 1, 0)
        else:
            bad[number] = ("header",)
            del sound[number]
    return waiting


def find_chain(manifest, sound, bad, waiting):
    """The live segments from the oldest up, each with the last LSN that counts in it (None: all)
    and the gap below it; and the gap above the newest; section 6."""
    def hole(number):
        return number, bad.get(number, ["segment missing"])[0]

    if not sound:
        return [], hole(max(bad, default=manifest.oldest_id if manifest else 1))
    newest, highest = max(sound), max([*sound, *waiting])

    def is_lost(number, epoch):
        there = sound.get(number) or waiting.get(number)
        return there.head.epoch != epoch if there else number > newest

    def is_orphan(number):
        """Whether the file never was a segment with this id; section 6.3."""
        for what in bad[number][1:]:
            if what in ("zero", "foreign"):
                return True
            id, epoch = what
            return id < manifest.oldest_id or id in sound and sound[id].head.epoch == epoch
        return False

    segment, limit, above = sound[newest], None, None
    downwards = sorted(sound.values(), key=lambda one: -one.head.id)
    if newest == highest and not segment.tells_base and not segment.has_evidence() and all(
            one.next != segment.name for one in downwards):
        below = pred_of(segment, sound)
        if below and not below.is_clean(closed_in(manifest, below)):
            del sound[newest]
            newest, segment, below.is_doubtful = below.head.id, below, True
    named, sealed = {}, []
    if manifest:
        named = {manifest.oldest_id: manifest.oldest_epoch, manifest.closed_id: manifest.closed_epoch}
    for one in reversed(downwards):
        if one.seal and named.get(one.head.id, one.head.epoch) == one.head.epoch:
            named.setdefault(*one.next)
            if is_lost(*one.next) and all(above.pred != one.next for above in downwards):
                sealed.append(one)
    if sealed:
        segment = max(sealed, key=lambda one: one.seal.next_id)
        limit, above = segment.seal.last, hole(segment.seal.next_id)
    else:
        if manifest and is_lost(manifest.closed_id, manifest.closed_epoch):
            above = hole(manifest.closed_id)
        elif highest in waiting and not pred_of(waiting[highest], sound):
            above = hole(waiting[highest].head.pred_id)
        elif max(bad, default=0) > newest:
            closes_it = manifest and (manifest.closed_id, manifest.closed_epoch) == segment.name
            orphans = closes_it and all(is_orphan(number) for number in bad if number > newest)
            if orphans and segment.ends_with(manifest.closed):
                segment.has_orphans = True
            else:
                above = hole(max(bad))

    def under(head):
        """The segment that the link in `head` leads to, its last LSN, and the gap after it."""
        below = sound.get(head.pred_id)
        if manifest and head.id == manifest.oldest_id:
            fits = head.epoch == manifest.oldest_epoch and head.base <= manifest.oldest_base
            return None, None, None if fits else hole(head.id)
        if below and below.head.epoch == head.pred_epoch or not (manifest or head.pred_id):
            return below, head.base - 1, None
        older = [one for one in downwards if one.head.id < head.id and one.seal
                 and one.seal.next_id < head.id and one.seal.last < head.base]
        below = next((one for one in older if one.next == (head.pred_id, head.pred_epoch)), None)
        if not below:
            below = max((one for one in older if one.seal.next_id not in sound),
                        key=lambda one: one.seal.next_id, default=None)
            if below and any(below.seal.next_id < id < head.id for id in sound):
                below = None
        gap = hole(head.pred_id) if manifest or below else None
        return below, below and below.seal.last, gap

    chain = []
    while segment:
        below, below_limit, gap = under(segment.head)
        chain.insert(0, (segment, limit, gap))
        while below:
            wrong = below.head
            base = next((one.head.base for one, _, _ in chain if one.head.base < wrong.base
                         and next(one.batches(), None)), None)
            if not base:
                break
            below, below_limit, other = under(wrong._replace(base=base))
            contradicted = wrong.id, "its base is beyond that of a later segment"
            gap = other or (contradicted if manifest or below else None)
        chain[0] = segment, limit, gap
        segment, limit = below, below_limit
    return chain, above


def damage(what, number, at, last):
    return Stop(DAMAGED, f"damage, {what}: segment {number}, offset {at:#x}, LSN {last + 1}")


def show(records, limit):
    for lsn, payload in records:
        if limit is None or lsn <= limit:
            print(lsn, payload.hex(), sep="\t")


def show_intact(segment, at, last, chain, limit, promised):
    """Shows the records of a damaged batch before the first lost one; section 6.1."""
    header, end = segment.next_header(at, last, chain) or (None, 0)
    frames = []
    if header:
        until = header.first + header.count - 1
        if header.length & FLAGS != COMPRESSED and not segment.is_encrypted:
            frames = segment.frames(at + BATCH.size, header, end)
    elif segment.batch_header(at):
        return
    else:
        used = at + len(segment.data[at:].rstrip(b"\0"))
        behind = ((place, found.first - 1) for place, found in segment.headers()
                  if place >= at + 8 and found.first > last)
        end, until = next(behind, (used + (at - used) % 8, promised))
        if end - at > 3 * segment.head.batch_max:
            return
        frames = segment.frames_in_damage(at + BATCH.size, last + 1, until, end)
    until = until if limit is None else min(until, limit)
    known = {lsn: payload for lsn, _, payload, _ in frames if payload is not None}
    if segment.is_encrypted:
        known = segment.intact(at, end, last + 1, until)
    elif segment.head.features & COMPRESSES and not (header and not header.length & COMPRESSED):
        known.update(segment.intact(at, end, last + 1, until))
    records = []
    while last + 1 + len(records) in known:
        records.append((last + 1 + len(records), known[last + 1 + len(records)]))
    if last + len(records) < until:
        show(records, until)


def refuse_later(chain):
    """Refuses the log for an unknown batch on the way after damage; section 11."""
    for segment, limit, _ in chain:
        at, last, value = segment.begin, segment.head.base - 1, segment.chain
        known = [] if segment.is_locked else list(segment.headers())
        while not segment.is_locked and (limit is None or last < limit):
            header, end = segment.next_header(at, last, value) or (None, 0)
            if not header:
                later = (found for found in known if found[0] > at and found[1].first > last)
                at, header = next(later, (at, None))
                if not header:
                    break
                end = at + BATCH.size + (header.length & ~FLAGS)
            at, last = end, header.first + header.count - 1
            value = header.crc | header.body_crc << 32


def lost_header(folder, names):
    """Whether a file that is not empty has no header; section 7."""
    headers = {name.split(".")[0] for name in names if name.endswith((".seg", ".head"))}
    others = [name for name in names if name.endswith((".jsonl", ".parity", ".before"))]
    return any(name.split(".")[0] not in headers and os.path.getsize(os.path.join(folder, name))
               for name in others)


def read(folder, key_file=None):
    """Shows the records that count, and stops at damage; sections 6.1 and 7."""
    chain = []
    try:
        show_log(folder, key_file, chain)
    except Stop as stop:
        if stop.args[0] == DAMAGED:
            refuse_later(chain)
        raise


def show_log(folder, key_file, chain):
    """As `read`, but a batch after damage is not looked at. Gives the chain of live segments."""
    names = []
    if os.path.isdir(folder):
        with os.scandir(folder) as entries:
            names = [entry.name for entry in entries if entry.is_file(follow_symlinks=False)]
    ids = [int(name[:-4]) for name in names if name[-4:] == ".seg" and name[:-4].isdecimal()]
    ids = [number for number in ids if number and f"{number:012}.seg" in names]
    sequence = read_keys(folder, key_file, ids) if key_file else None
    manifest = read_manifest(folder, ids)
    # The layout in a slot is that of the segments to come.
    if manifest and (not ids or any(name.endswith((".head", ".jsonl")) for name in names)):
        refuse_readable(manifest)
    if not (manifest or ids or begins_as_manifest(folder)):
        raise Stop(NO_LOG, "there is no log")
    sound, bad = read_segments(folder, manifest, ids)
    check_encryption(folder, manifest, sound, sequence)
    is_used = bad or any(segment.is_used() for segment in sound.values())
    if not (manifest or is_used or lost_header(folder, names)):
        return
    waiting = start_ahead(manifest, sound, bad)
    chain[:], above = find_chain(manifest, sound, bad, waiting)
    last, known = manifest.oldest_base - 1 if manifest else 0, 0
    for segment, limit, gap in chain:
        head, at, value = segment.head, segment.begin, segment.chain
        if gap:
            raise damage(gap[1], gap[0], 0, last)
        if segment.is_locked:
            raise damage(WITHOUT_KEYS[1], head.id, 0, last)
        if known and head.pred_chain not in (0, known):
            raise damage("other batches came before", head.id, 0, last)
        last = head.base - 1
        for header, end, records, is_all in segment.batches():
            if limit is not None and last >= limit:
                break
            show(records, limit)
            if not is_all:
                raise damage("a compressed batch cannot be decoded", head.id, at, last)
            at, last = end, header.first + header.count - 1
            value = known = header.crc | header.body_crc << 32
            if header.length & VOID:
                print(f"reader: LSN {header.first} to {last} were given up", file=sys.stderr)
        promised = limit
        if limit is None:
            promised = segment.promised(closed_in(manifest, segment))
        if last < promised:
            show_intact(segment, at, last, value, limit, promised)
            raise damage(f"no records up to {promised}", head.id, at, last)
        last = last if limit is None else min(last, max(limit, head.base - 1))
    if above:
        raise damage(above[1], above[0], 0, last)
    if WITHOUT_KEYS[0] == DAMAGED:
        raise damage(WITHOUT_KEYS[1], 0, 0, last)
    if len(segment.data) < head.size:
        raise damage("cut short", head.id, len(segment.data), last)
    if not manifest:
        raise damage("no slot of the manifest can be read", 0, 0, last)
    is_torn = not segment.is_doubtful and segment.is_torn(at, last, value)
    if segment.touched_to(at) > at and not is_torn:
        raise Stop(UNSURE, f"torn or damaged: segment {head.id}, offset {at:#x}, LSN {last + 1}")
    if segment.has_orphans and not is_closing(folder, manifest):
        raise Stop(UNSURE, f"other segments may have followed {head.id}: LSN {last + 1}")


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    try:
        read(*sys.argv[1:])
        code = FINE
    except Stop as stop:
        code, why = stop.args
        sys.stdout.flush()
        print(f"reader: {why}", file=sys.stderr)
    except OSError as error:
        code = UNREADABLE
        print(f"reader: {error}", file=sys.stderr)
    sys.exit(code)
