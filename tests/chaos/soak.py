"""usage: scripts/soak [--minutes M] [--seed N] [--out FOLDER]

Keeps a server busy with everything that its users do at once, in ten rounds with a rest after each, and looks whether it
stays as it was: memory, descriptors and threads at rest flat, nothing left over, no answer wrong. Samples and a chart go
to FOLDER (build/soak).
"""

import argparse
import csv
import json
import pathlib
import random
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

from service_process import ROOT, Checks, ServiceProcess, attend, minutes, start_attend

SAMPLE_SECONDS = 0.5
QUIET_SECONDS = 10
ROUNDS = 10


class Traffic:
    """Threads that each do one kind of thing, again and again, from start to stop. `failures` says what went wrong."""

    def __init__(self, server, seed):
        self._server = server
        self._ending = threading.Event()
        self._lock = threading.Lock()
        self.failures = []
        self.counts = {}
        kinds = (self.prompts, self.decoding, self.mixes, self.interrupted, self.killed, self.probes, self.strangers)
        self._kinds = [(kind, random.Random(f"{seed} {kind.__name__}")) for kind in kinds]
        self._threads = []

    def start(self):
        self._ending.clear()
        self._threads = [threading.Thread(target=self._repeat, args=kind) for kind in self._kinds]
        for thread in self._threads:
            thread.start()

    def stop(self):
        self._ending.set()
        for thread in self._threads:
            thread.join()

    def _repeat(self, kind, draw):
        while not self._ending.is_set():
            try:
                problem = kind(draw)
            except Exception as error:  # any: the thread must go on, and the run say what it was
                problem = repr(error)
            with self._lock:
                self.counts[kind.__name__] = self.counts.get(kind.__name__, 0) + 1
                if problem:
                    self.failures.append(f"{kind.__name__}: {problem}")

    def _load(self, *words):
        """Runs attend load; every answer must be right or a refusal for want of room."""
        with tempfile.NamedTemporaryFile(suffix=".json") as report:
            run = attend(self._server, "load", "--json", report.name, "--warmup", "100ms", *words)
            if run.returncode != 0:
                return f"attend load {' '.join(words)}: exit code {run.returncode}: {run.stderr.strip()[-300:]}"
            for length in json.loads(pathlib.Path(report.name).read_text())["lengths"]:
                wrong = set(length["errors"]) - {"RESOURCE_EXHAUSTED"}
                if wrong:
                    return f"attend load {' '.join(words)}: {length['errors']}"
        return None

    def prompts(self, draw):
        heads, kv_heads = draw.choice([(8, 8), (8, 2), (6, 1)])
        words = ["--lengths", str(draw.choice([1, 17, 128, 300, 1024])), "--heads", str(heads), "--kv_heads",
                 str(kv_heads), "--head_dim", str(draw.choice([33, 64, 128])), "--element_type",
                 draw.choice(["f32", "bf16", "f16"]), "--connections", str(draw.randint(1, 3)), "--concurrency",
                 str(draw.randint(1, 6)), "--duration", f"{draw.uniform(0.5, 3):.1f}s", "--seed",
                 str(draw.randint(0, 999)), "--causal", draw.choice(["none", "top_left", "bottom_right"])]
        words += ["--verify"] if draw.random() < 0.3 else []
        words += ["--weights"] if draw.random() < 0.2 else []
        return self._load(*words)

    def decoding(self, draw):
        return self._load("--lengths", str(draw.choice([500, 4096])), "--query_length", str(draw.choice([1, 4])),
                          "--heads", "8", "--kv_heads", str(draw.choice([1, 2, 8])), "--batch",
                          str(draw.randint(1, 4)), "--duration", f"{draw.uniform(0.5, 2):.1f}s")

    def mixes(self, draw):
        return self._load("--mix", "64:0.9,2048:0.1", "--heads", "4", "--concurrency", "4", "--duration", "1s")

    def interrupted(self, draw):
        run = start_attend(self._server, "load", "--lengths", "256,1024", "--concurrency", "4", "--duration", "60s")
        time.sleep(draw.uniform(0.1, 2))
        run.send_signal(signal.SIGINT)
        try:
            code = run.wait(timeout=60)
        except subprocess.TimeoutExpired:
            run.kill()
            return "still there a minute after SIGINT"
        return None if code in (-signal.SIGINT, 128 + signal.SIGINT) else f"exit code {code} after SIGINT"

    def killed(self, draw):
        run = start_attend(self._server, "load", "--lengths", str(draw.choice([512, 2048])), "--concurrency", "3",
                           "--connections", "3", "--duration", "60s")
        time.sleep(draw.uniform(0.1, 2))
        run.kill()
        run.wait()

    def probes(self, draw):
        time.sleep(0.2)
        code, text = self._server.get("/livez")
        if code != 200:
            return f"/livez: {code} {text}"
        if self._server.metric("attend_build_info") != 1:
            return "/metrics has no attend_build_info"
        if draw.random() < 0.1:
            run = attend(self._server, draw.choice(["health", "info", "demo"]))
            return None if run.returncode == 0 else f"exit code {run.returncode}: {run.stderr.strip()}"

    def strangers(self, draw):
        """Connections that say nothing, nonsense, or half of something."""
        host, port = (self._server.grpc if draw.random() < 0.7 else self._server.http).rsplit(":", 1)
        try:
            with socket.create_connection((host, int(port)), timeout=5) as connection:
                connection.sendall(draw.choice([b"", b"GET /livez HT", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(9),
                                                draw.randbytes(draw.randint(1, 2000))]))
                time.sleep(draw.uniform(0, 0.5))
        except OSError:
            pass  # refused or reset: theirs to do


def watch(server, start, seconds, samples):
    """Samples for that long, or until the server ends. Times count from `start`."""
    end = time.monotonic() + seconds
    while server.process.poll() is None and time.monotonic() < end:
        samples.append({"seconds": time.monotonic() - start, **server.sample()})
        time.sleep(SAMPLE_SECONDS)


def draw_chart(folder):
    """Memory, descriptors and threads over time."""
    if shutil.which("gnuplot") is None:
        print("soak: no chart, for gnuplot is not installed")
        return
    plot = """set terminal svg size 800,420; set output 'soak.svg'; set datafile separator ','; set key autotitle columnheader
set xlabel 'minutes'; set ylabel 'MiB'; set y2label 'descriptors, threads'; set ytics nomirror; set y2tics
set yrange [0:*]; set y2range [0:*]; set grid; set key outside top center horizontal; set xrange [0:*] noextend
plot 'samples.csv' using ($1/60):($2/1048576) with lines linewidth 0.6 title 'resident memory, MiB (at rest 10 times)', \\
  '' using ($1/60):3 axes x1y2 with lines title 'descriptors', '' using ($1/60):4 axes x1y2 with lines title 'threads'
"""
    subprocess.run(["gnuplot"], input=plot, text=True, cwd=folder, check=True)


def check_flat(checks, rests, name, slack, unit=1, text=""):
    """Between rounds nothing is under way: what is there then is there for good. What is kept for later is so after
    the first round."""
    early, late = rests[1][name], statistics.median(rest[name] for rest in rests[-3:])
    checks.check(late <= early * 1.1 + slack, f"{name} at rest flat: {early / unit:.0f}{text} after the second round, "
                                              f"{late / unit:.0f}{text} after the last three")


def main():
    parser = argparse.ArgumentParser(usage=__doc__, add_help=False)
    parser.add_argument("--minutes", type=minutes, default=30)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "build" / "soak")
    arguments = parser.parse_args()
    if arguments.minutes < 3:
        parser.error(f"--minutes is {arguments.minutes:g}, must be at least 3: each of {ROUNDS} rounds rests {QUIET_SECONDS} s")
    arguments.out.mkdir(parents=True, exist_ok=True)
    # Started in the background of a script it is ignored here, and so it would be by clients.
    signal.signal(signal.SIGINT, signal.default_int_handler)

    print(f"soak: {arguments.minutes:g} minutes of mixed work, seed {arguments.seed}", flush=True)
    checks, samples = Checks(), []
    server = ServiceProcess("--memory_budget=1GiB")
    traffic = Traffic(server, arguments.seed)
    rests, left = [], {}
    start = time.monotonic()
    for _ in range(ROUNDS):
        traffic.start()
        watch(server, start, 60 * arguments.minutes / ROUNDS - QUIET_SECONDS, samples)
        traffic.stop()
        if server.process.poll() is not None:
            break
        left.update(server.left_over(QUIET_SECONDS))
        watch(server, start, QUIET_SECONDS, samples)
        rests.append(samples[-1])
    with open(arguments.out / "samples.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, samples[0].keys())
        writer.writeheader()
        writer.writerows(samples)
    draw_chart(arguments.out)

    print("soak: " + ", ".join(f"{count} x {kind}" for kind, count in sorted(traffic.counts.items())))
    checks.check(server.process.poll() is None, "the server lives")
    if server.process.poll() is not None:
        raise SystemExit(checks.summary())
    checks.check(not traffic.failures, f"every client saw what it should: {len(traffic.failures)} failures")
    for failure in traffic.failures[:10]:
        print(f"        {failure}")
    checks.check(not left, f"nothing left over {QUIET_SECONDS} s after a round: {left or 'all 0'}")
    check_flat(checks, rests, "resident_bytes", 16 << 20, 1 << 20, " MiB")
    check_flat(checks, rests, "descriptors", 4)
    check_flat(checks, rests, "threads", 2)
    run = attend(server, "load", "--lengths", "300", "--count", "3", "--verify", "--verify_rows", "0")
    checks.check(run.returncode == 0, f"the next call is right: {run.stderr.strip() or 'verified'}")
    code = server.stop()
    checks.check(code == 0, f"SIGTERM ends it with {code}")
    errors = [line for line in server.log.read_text().splitlines() if " error " in line]
    checks.check(not errors, f"no errors in the log: {errors[:3] or 'none'}")
    print(checks.summary())
    return 1 if checks.failed else 0


if __name__ == "__main__":
    sys.exit(main())
