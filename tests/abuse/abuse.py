#!/usr/bin/env python3
"""What strangers do to a server, and how others fare meanwhile.

usage: abuse.py SERVER CLIENT [NAME...]

Starts attend-server (SERVER) on free ports of 127.0.0.1 and does to it, in turn, what docs/security.md lists, or the
things named. During each, health is asked over another connection; after it, resident memory must come back to within
128 MiB of what it was in 10 s, and `attend infer` (CLIENT) must give the bits that it gave before. Prints a line for
each with the latency of health, which depends on the machine and is not judged. Exit code 1 if anything else failed.
"""

import gzip
import json
import multiprocessing
import pathlib
import random
import resource
import socket
import struct
import subprocess
import sys
import tempfile
import time

import http2

START_SECONDS = 60
ABUSE_SECONDS = 3  # of those that could go on for ever
SETTLE_SECONDS = 10
ALLOWED_GROWTH = 128 << 20
STREAMS = 40000
HALF_OPEN = 500
PROBE_PAUSE = 0.002


def send_until_closed(connection, pieces):
    """Sends the pieces until the peer has closed the connection; how many were sent."""
    sent = 0
    try:
        for piece in pieces:
            connection.sendall(piece)
            sent += 1
    except OSError:
        pass
    return sent


def drain(connection, seconds):
    """Reads what comes until the peer closes; False if it has not in this time."""
    connection.settimeout(seconds)
    try:
        while connection.recv(65536):
            pass
    except socket.timeout:
        return False
    except OSError:
        pass
    return True


def greeting():
    return http2.PREFACE + http2.frame(http2.SETTINGS, 0, 0)


def rapid_resets(address):
    """40,000 streams opened and reset on one connection, as fast as they can be sent (CVE-2023-44487)."""
    block = http2.header_block(http2.ATTEND)
    cancel = struct.pack(">I", 8)
    streams = [http2.frame(http2.HEADERS, http2.END_HEADERS, 2 * i + 1, block) +
               http2.frame(http2.RESET, 0, 2 * i + 1, cancel) for i in range(STREAMS)]
    batches = [b"".join(streams[i:i + 100]) for i in range(0, STREAMS, 100)]
    connection = http2.connect(address)
    connection.sendall(greeting())
    sent = 100 * send_until_closed(connection, batches)
    closed = drain(connection, 1)
    connection.close()
    return f"{sent} streams sent, connection {'closed' if closed else 'open'}"


def garbage(address):
    """Frames of random kinds, sizes and contents, and bytes that are no frames at all."""
    source = random.Random(7)
    end = time.monotonic() + ABUSE_SECONDS
    connections = 0
    while time.monotonic() < end:
        connections += 1
        connection = http2.connect(address)
        if connections % 2:
            pieces = [source.randbytes(4096) for _ in range(16)]
        else:
            pieces = [greeting()] + [
                http2.frame(source.randrange(12), source.randrange(256), source.randrange(64),
                            source.randbytes(source.randrange(200))) for _ in range(200)]
        send_until_closed(connection, pieces)
        connection.close()
    return f"{connections} connections"


def large_headers(address):
    """Calls with 64 KiB of metadata, in one frame and its continuations; some never end (CVE-2023-33953)."""
    block = http2.header_block(http2.ATTEND, x_large="x" * 65536)
    parts = [block[i:i + 16384] for i in range(0, len(block), 16384)]
    end = time.monotonic() + ABUSE_SECONDS
    connections = 0
    while time.monotonic() < end:
        connections += 1
        connection = http2.connect(address)
        pieces = [greeting()]
        for stream in range(1, 20, 2):
            pieces.append(http2.frame(http2.HEADERS, 0, stream, parts[0]))
            pieces += [http2.frame(http2.CONTINUATION, 0, stream, part) for part in parts[1:-1]]
            # Every other connection goes on with its header for ever.
            endless = connections % 2 == 0
            pieces += [http2.frame(http2.CONTINUATION, 0, stream, b"\0" * 16384)] * (100 if endless else 0)
            pieces.append(http2.frame(http2.CONTINUATION, http2.END_HEADERS, stream, parts[-1]))
        send_until_closed(connection, pieces)
        connection.close()
    return f"{connections} connections"


def endless_headers(address):
    """Headers that never end: ever more of them, one value of 1 GiB, one number of nothing but zeros (CVE-2023-33953)."""
    block = http2.header_block(http2.ATTEND) + b"\0" + http2.text("x-endless")
    more = (b"\0" + http2.text("x-more") + http2.text("y" * 100)) * 140
    ways = ((http2.text(""), more), (b"\x7f\x80\x80\x80\x80\x04", b"x" * 16384), (b"\x7f", b"\x80" * 16384))
    end = time.monotonic() + ABUSE_SECONDS
    connections = 0
    sent = 0
    while time.monotonic() < end:
        first, part = ways[connections % len(ways)]
        connections += 1
        connection = http2.connect(address)
        connection.settimeout(ABUSE_SECONDS)
        pieces = [greeting(), http2.frame(http2.HEADERS, 0, 1, block + first)]
        sent += len(part) * send_until_closed(
            connection, pieces + [http2.frame(http2.CONTINUATION, 0, 1, part)] * 16384)
        connection.close()
    return f"{connections} connections, {sent >> 20} MiB"


def half_open(address):
    """500 connections that say nothing, or a part of their greeting, and stay."""
    connections = [http2.connect(address) for _ in range(HALF_OPEN)]
    for i, connection in enumerate(connections):
        send_until_closed(connection, [greeting()[:i % 24]])
    time.sleep(ABUSE_SECONDS)
    for connection in connections:
        connection.close()
    return f"{len(connections)} connections"


def descriptors(address):
    """1,000 connections to a server that may have 128 descriptors (CVE-2023-4785)."""
    connections = []
    for _ in range(1000):
        connection = socket.socket()
        connection.settimeout(5)
        try:
            host, port = address.rsplit(":", 1)
            connection.connect((host, int(port)))
            connection.sendall(greeting())
        except OSError:
            pass
        connections.append(connection)
    time.sleep(ABUSE_SECONDS)
    for connection in connections:
        connection.close()
    return f"{len(connections)} connections"


def message(address, flag, length, body):
    """A call whose message says that it has `length` bytes, sent as far as the server lets it be, then given up."""
    connection = http2.Connection(address)
    connection.socket.settimeout(0.2)
    stream = http2.frame(http2.HEADERS, http2.END_HEADERS, 1, http2.header_block(http2.ATTEND, grpc_encoding="gzip"))
    data = struct.pack(">BI", flag, length) + body
    pieces = [stream] + [http2.frame(http2.DATA, 0, 1, data[i:i + 16384]) for i in range(0, len(data), 16384)]
    send_until_closed(connection.socket, pieces)
    connection.close()


def oversized(address):
    """Messages that say they have 1 GiB, of which as much comes as flow control lets through."""
    end = time.monotonic() + ABUSE_SECONDS
    calls = 0
    while time.monotonic() < end:
        calls += 1
        message(address, 0, 1 << 30, bytes(1 << 20))
    return f"{calls} calls"


def compressed(address):
    """Messages of 64 KiB that would unfold to 64 MiB."""
    bomb = gzip.compress(bytes(64 << 20), 9)
    end = time.monotonic() + ABUSE_SECONDS
    calls = 0
    while time.monotonic() < end:
        calls += 1
        message(address, 1, len(bomb), bomb)
    return f"{calls} calls"


ABUSES = (rapid_resets, garbage, large_headers, endless_headers, half_open, oversized, compressed, descriptors)


def probe(address, stop, results):
    """Asks for health, again and again, over one connection; puts the seconds that each took, or what went wrong."""
    times = []
    try:
        connection = http2.Connection(address)
        connection.check_health()
        results.put("ready")
        while not stop.is_set():
            asked = time.monotonic()
            connection.check_health()
            times.append(time.monotonic() - asked)
            time.sleep(PROBE_PAUSE)
        results.put(times)
    except OSError as error:
        results.put(f"health: {error}")


class Server:
    """The server, and a calculation whose bits are known."""

    def __init__(self, programs, folder, max_files=None):
        self.client = programs[1]
        self.folder = folder
        ready = folder / "ready.json"

        def limit():
            if max_files:
                resource.setrlimit(resource.RLIMIT_NOFILE, (max_files, max_files))

        self.log = open(folder / "server.log", "wb")
        self.process = subprocess.Popen(
            [programs[0], "--grpc_address=127.0.0.1:0", "--http_address=127.0.0.1:0", f"--ready_file={ready}"],
            stderr=self.log, preexec_fn=limit)
        deadline = time.monotonic() + START_SECONDS
        while not ready.exists():
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.process.kill()
                raise SystemExit("the server did not become ready")
            time.sleep(0.02)
        self.address = json.loads(ready.read_text())["grpc"]
        for seed, name in enumerate(("query", "key", "value")):
            subprocess.run([self.client, "generate", "--output", folder / f"{name}.npy", "--shape", "1,4,64,32",
                            "--seed", str(seed)], check=True, stdout=subprocess.DEVNULL)
        self.bits = self.compute()

    def compute(self):
        """The bytes of a result."""
        inputs = [part for name in ("query", "key", "value") for part in (f"--{name}", self.folder / f"{name}.npy")]
        output = self.folder / "output.npy"
        subprocess.run([self.client, "--address", self.address, "infer", *inputs, "--output", output], check=True,
                       stdout=subprocess.DEVNULL)
        return output.read_bytes()

    def resident(self):
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return 1024 * int(status.split("VmRSS:")[1].split()[0])

    def stop(self):
        self.process.terminate()
        code = self.process.wait(timeout=60)
        self.log.close()
        return code


def percentile(times, share):
    return 1e3 * sorted(times)[min(len(times) - 1, int(share * len(times)))]


def settle(server, before):
    """Waits until memory is back; how much more there is then than before."""
    deadline = time.monotonic() + SETTLE_SECONDS
    while server.resident() - before > ALLOWED_GROWTH and time.monotonic() < deadline:
        time.sleep(0.1)
    return server.resident() - before


def do(abuse, server):
    """Yields what is wrong, after it has printed how it went."""
    before = server.resident()
    stop, results = multiprocessing.Event(), multiprocessing.Queue()
    prober = multiprocessing.Process(target=probe, args=(server.address, stop, results))
    prober.start()
    ready = results.get()
    times = ready
    if ready == "ready":
        told = abuse(server.address)
        stop.set()
        times = results.get()
    prober.join()
    if isinstance(times, str):
        yield times
        return
    growth = settle(server, before)
    print(f"{abuse.__name__:14} {len(times):7} {percentile(times, 0.5):8.2f} {percentile(times, 0.99):8.2f} "
          f"{percentile(times, 1):8.2f} {growth / 2**20:+9.1f}  {told}", flush=True)
    if growth > ALLOWED_GROWTH:
        yield f"{growth / 2**20:.0f} MiB more than before"
    if server.process.poll() is not None:
        yield f"the server ended with {server.process.returncode}"
    elif server.compute() != server.bits:
        yield "the next call is not exact"


def main():
    if len(sys.argv) < 3:
        raise SystemExit(__doc__)
    chosen = [abuse for abuse in ABUSES if not sys.argv[3:] or abuse.__name__ in sys.argv[3:]]
    print(f"{'abuse':14} {'probes':>7} {'p50 ms':>8} {'p99 ms':>8} {'max ms':>8} {'MiB':>9}", flush=True)
    failed = 0
    for abuse in chosen:
        with tempfile.TemporaryDirectory() as folder:
            server = Server(sys.argv[1:3], pathlib.Path(folder), 128 if abuse is descriptors else None)
            wrong = list(do(abuse, server))
            code = server.stop()
            if code != 0:
                wrong.append(f"the server ended with {code}")
            for reason in wrong:
                print(f"{abuse.__name__}: {reason}")
            failed += bool(wrong)
    print(f"{len(chosen) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
