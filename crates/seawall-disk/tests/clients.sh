#!/usr/bin/env bash
# Tests the NBD server with third-party clients: libnbd's tools and Python module, QEMU's tools, and
# fio. Exits with 77 if one is missing. Usage: bash clients.sh
#
# On Debian: apt-get install libnbd-bin python3-libnbd qemu-utils fio nbdkit
#
# Requests are tested twice: with flushes that wait for the device, and with flushes that return
# early. Then the server or the client is killed during a copy, without early flushes: no flushed
# data is lost, and each block of the copy is old or new. The last part uses the disk of another
# NBD server as the device: qemu-nbd's, and nbdkit's if installed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."

for tool in nbdinfo nbdcopy qemu-img qemu-io qemu-nbd fio; do
    command -v "$tool" > /dev/null || { echo "skipped: $tool is missing" >&2; exit 77; }
done
python=
for candidate in python3 /usr/bin/python3; do
    if "$candidate" -c 'import nbd' 2> /dev/null; then python=$candidate; break; fi
done
[ -n "$python" ] || { echo "skipped: Python's module nbd (libnbd) is missing" >&2; exit 77; }
fio --enghelp | grep '\bnbd\b' > /dev/null || { echo "skipped: no nbd engine in fio" >&2; exit 77; }

cargo build --quiet --release --locked -p seawall-disk --example serve
cargo build --quiet --release --locked -p seawall-cli
serve=${CARGO_TARGET_DIR:-target}/release/examples/serve
seawall=${CARGO_TARGET_DIR:-target}/release/seawall
folder=$(mktemp -d)
server=
other=
mkfifo "$folder/stdin"
checking=
exec 3>&1
finish() {
    local code=$?
    if [ "$code" -ne 0 ] && [ -n "$checking" ]; then
        cat "$folder/log" >&3
        echo "FAILED: $checking" >&3
    fi
    [ -z "$server" ] || kill "$server" 2> /dev/null || true
    [ -z "$other" ] || kill "$other" 2> /dev/null || true
    rm -rf "$folder"
}
trap finish EXIT
socket=$folder/socket
uri="nbd+unix:///log?socket=$socket"
size=$((64 << 20))

# start PATH_OR_PORT [armed]: serves a disk of 64 MiB, creating it if needed.
start() {
    "$serve" "$folder/disk" "$1" "$size" "${@:2}" < "$folder/stdin" > "$folder/said" 2>&1 &
    server=$!
    exec 9> "$folder/stdin"
    for _ in $(seq 300); do
        if grep -q '^ready' "$folder/said"; then return; fi
        kill -0 "$server" 2> /dev/null || break
        sleep 0.1
    done
    cat "$folder/said"
    return 1
}

# Closes the server's standard input, which stops the server.
stop() {
    exec 9>&-
    wait "$server"
    server=
}

# check NAME COMMAND...: prints `ok` if COMMAND succeeds; `finish` prints a failure. COMMAND is not
# part of a condition, or bash would ignore failures inside a function.
check() {
    checking=$1
    "${@:2}" > "$folder/log" 2>&1
    checking=
    echo "ok: $1"
}

tells() {
    nbdinfo "$uri" | grep 'export-size: 67108864'
    nbdinfo --json "$uri" | "$python" -c '
import json, sys
export, = json.load(sys.stdin)["exports"]
can = [name for name in export if name.startswith("can_") and export[name]]
assert sorted(can) == ["can_df", "can_flush", "can_fua", "can_multi_conn", "can_trim",
                       "can_zero"], can
assert not export["is_read_only"]
sizes = [export["block_size_" + which] for which in ("minimum", "preferred", "maximum")]
assert sizes == [1, 4096, 32 << 20], export'
    nbdinfo --list "$uri" | grep 'export="log"'
    nbdinfo --size "$uri" | grep -x 67108864
    if nbdinfo "nbd+unix:///another?socket=$socket"; then return 1; fi
}

# Copies over four connections: the server offers multi-conn.
round_trip() {
    head -c "$size" /dev/urandom > "$folder/random"
    nbdcopy --connections=4 --flush "$folder/random" "$uri"
    nbdcopy --connections=4 "$uri" "$folder/back"
    cmp "$folder/random" "$folder/back"
    nbdcopy --synchronous --flush "$folder/back" "$uri"
    nbdcopy "$uri" - | cmp "$folder/random" -
}

# Sends each kind of request at random offsets, and compares the disk with an array of bytes.
requests() {
    "$python" - "$uri" "$1" << 'END'
import nbd, random, sys
uri, structured = sys.argv[1], sys.argv[2] == "structured"
random.seed(7)
clients = []
for _ in range(3):
    client = nbd.NBD()
    client.set_request_structured_replies(structured)
    client.connect_uri(uri)
    assert client.get_structured_replies_negotiated() == structured
    clients.append(client)
size = clients[0].get_size()
area = 3 << 20
model = bytearray(clients[0].pread(area, 0))
for turn in range(3000):
    client = random.choice(clients)
    offset = random.randrange(area)
    count = min(random.choice([1, 511, 4096, 70001, 1 << 20]), area - offset)
    kind = random.randrange(6)
    fua = nbd.CMD_FLAG_FUA if turn % 50 == 0 else 0
    if kind <= 1:
        data = random.randbytes(count)
        client.pwrite(data, offset, fua)
        model[offset:offset + count] = data
    elif kind == 2:
        client.zero(count, offset, random.choice([fua, nbd.CMD_FLAG_NO_HOLE]))
        model[offset:offset + count] = bytes(count)
    elif kind == 3:
        if turn % 20 == 0:
            client.flush()
    else:
        assert client.pread(count, offset) == model[offset:offset + count], turn
client.trim(1 << 20, size - (1 << 20), nbd.CMD_FLAG_FUA)
for wrong in [lambda: client.pread(1, size), lambda: client.pwrite(b"a", size),
              lambda: client.zero(2, size - 1), lambda: client.trim(2, size - 1)]:
    client.set_strict_mode(0)
    try:
        wrong()
        raise SystemExit("a request beyond the end succeeded")
    except nbd.Error as error:
        assert error.errnum in (22, 28), error
assert client.pread(area, 0) == model
for client in clients:
    client.shutdown()
END
}

images() {
    qemu-img info "$uri" | grep '64 MiB (67108864 bytes)'
    qemu-img convert -n -f raw -O raw "$folder/random" "$uri"
    qemu-img compare -f raw -F raw "$folder/random" "$uri"
    qemu-img convert -f raw -O qcow2 "$uri" "$folder/back.qcow2"
    qemu-img compare -f qcow2 -F raw "$folder/back.qcow2" "$uri"
}

# Writes patterns and reads them back. Fails if one differs.
patterns() {
    qemu-io -f raw -c 'write -P 7 511 70001' -c 'write -P 8 -f 4095 2' -c 'flush' \
        -c 'write -z 10000 5000' -c 'discard 1M 64k' -c 'read -P 7 511 3584' \
        -c 'read -P 8 4095 2' -c 'read -P 7 4097 5903' -c 'read -P 0 10000 5000' \
        -c 'read -P 7 15000 55512' -c 'aio_write -P 9 2097153 1M' -c 'aio_flush' \
        -c 'read -P 9 2097153 1M' "$uri" | tee "$folder/patterns"
    # qemu-io returns 0 even if a pattern differs.
    if grep -qi 'fail\|error' "$folder/patterns"; then return 1; fi
}

# Runs two jobs, each with its own connection and half of the disk.
verified() {
    fio --name=verify --ioengine=nbd --uri="$uri" --rw=randwrite --bsrange=512-64k \
        --blockalign=512 --size=32M --offset_increment=32M --numjobs=2 --iodepth=16 \
        --fsync=32 --verify=crc32c --verify_fatal=1 --verify_state_save=0 --output-format=terse
}

# Fills the disk, writes a block durably (FUA), and starts a copy over the whole disk. Returns once
# the copy has changed the disk's file.
begin_a_copy() {
    head -c "$size" /dev/zero | tr '\0' 'o' > "$folder/old"
    head -c "$size" /dev/zero | tr '\0' 'n' > "$folder/new"
    nbdcopy --flush "$folder/old" "$uri"
    "$python" -c '
import nbd, sys
client = nbd.NBD()
client.connect_uri(sys.argv[1])
client.pwrite(b"kept" * 1024, 60 << 20, nbd.CMD_FLAG_FUA)' "$uri"
    local before
    before=$(stat -c %Y.%y "$folder/disk/home")
    nbdcopy --queue-size=1M "$folder/new" "$uri" &
    copy=$!
    while [ "$before" = "$(stat -c %Y.%y "$folder/disk/home")" ]; do sleep 0.001; done
}

# Checks that no flushed data is lost, and that each block of the interrupted copy is old or new.
look() {
    nbdcopy "$uri" "$folder/back"
    "$python" - "$folder/back" << 'END'
import collections, sys
counts = collections.Counter()
with open(sys.argv[1], "rb") as file:
    for at in range(0, 64 << 20, 4096):
        block = file.read(4096)
        kinds = {b"o" * 4096: "old", b"n" * 4096: "new", b"kept" * 1024: "kept"}
        counts[kinds.get(block, "torn")] += 1
        if at == 60 << 20 and kinds.get(block) not in ("kept", "new"):
            raise SystemExit("flushed data is lost")
print(dict(counts))
if counts["torn"] or not counts["old"] or not counts["new"]:
    raise SystemExit("torn blocks, or the copy was not interrupted midway")
END
}

server_killed() {
    begin_a_copy
    kill -9 "$server"
    wait "$server" || true
    exec 9>&-
    if wait "$copy"; then echo "the copy ended before the server was killed"; return 1; fi
    start "$socket"
    look
    stop
}

client_killed() {
    start "$socket"
    begin_a_copy
    kill -9 "$copy"
    wait "$copy" || true
    look
    stop
}

for armed in '' armed; do
    # shellcheck disable=SC2086
    start "$socket" $armed
    grep '^armed' "$folder/said"
    check 'nbdinfo, also --json, --list and --size' tells
    check 'nbdcopy of 64 MiB both ways, over four connections and over one' round_trip
    check 'libnbd: 3000 requests over three connections, structured' requests structured
    check 'libnbd: 3000 requests over three connections, simple' requests simple
    check 'qemu-img info, convert, compare' images
    check 'qemu-io: patterns at unaligned offsets' patterns
    check 'fio: random writes of two jobs, verified' verified
    stop
    tail -1 "$folder/said"
done
start 0
uri=$(sed -n 's/^ready: //p' "$folder/said")
check "nbdinfo over TCP" nbdinfo "$uri"
stop
uri="nbd+unix:///log?socket=$socket"
for _ in 1 2 3 4 5; do
    start "$socket"
    check 'kill -9 of the server during nbdcopy' server_killed
    grep -h '^{' "$folder/log"
    check 'kill -9 of nbdcopy' client_killed
    grep -h '^{' "$folder/log"
done

# await PATH: waits until the socket exists.
await() {
    for _ in $(seq 300); do
        if [ -S "$1" ]; then return; fi
        sleep 0.1
    done
    return 1
}

# over_another COMMAND...: COMMAND runs another NBD server at the socket `other`; its disk is our
# server's device. Data copied through both is in the other's image once our server has stopped. If
# the other server is killed, our clients get an error. Once it is back, the next start of ours
# writes the accepted data to it.
over_another() {
    rm -f "$folder/image" "$folder/other"
    truncate -s "$size" "$folder/image"
    "$@" & other=$!
    await "$folder/other"
    "$seawall" disk serve "nbd+unix:///disk?socket=$folder/other" --state "$folder/state" \
        --export "nbd:unix:$folder/front" --power ok --hold-up 1000 & server=$!
    await "$folder/front"
    local front="nbd+unix:///log?socket=$folder/front"
    nbdcopy --flush "$folder/random" "$front"
    nbdcopy "$front" - | cmp "$folder/random" -
    kill "$server"
    wait "$server"
    cmp "$folder/random" "$folder/image"

    "$seawall" disk serve "nbd+unix:///disk?socket=$folder/other" --state "$folder/state" \
        --export "nbd:unix:$folder/front" & server=$!
    await "$folder/front"
    kill -9 "$other"
    wait "$other" || true
    rm -f "$folder/other"
    if nbdcopy --flush "$folder/random" "$front"; then echo "the copy succeeded"; return 1; fi
    # The accepted data now waits in the dump area of the state directory.
    kill "$server"
    wait "$server"
    "$@" & other=$!
    await "$folder/other"
    "$seawall" disk serve "nbd+unix:///disk?socket=$folder/other" --state "$folder/state" \
        --export "nbd:unix:$folder/front" 2> "$folder/home" & server=$!
    await "$folder/front"
    grep 'all of it was restored' "$folder/home"
    nbdcopy "$front" - | cmp "$folder/random" -
    kill "$server"
    wait "$server"
    server=
    kill "$other"
    wait "$other" || true
    other=
}

check 'our disk on a disk of qemu-nbd' over_another \
    qemu-nbd --format raw --export-name disk --persistent --shared 8 --socket "$folder/other" \
    "$folder/image"
if command -v nbdkit > /dev/null; then
    check 'our disk on a disk of nbdkit' over_another \
        nbdkit --foreground --unix "$folder/other" file "$folder/image"
fi
