"""attend-server as a process that is watched from outside: what scripts/soak and scripts/chaos share."""

import argparse
import json
import math
import os
import pathlib
import re
import resource
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAMS = ROOT / "build" / "release" / "bin"
START_SECONDS = 60
# Of a server that nothing is asked of any more, exactly 0.
LEFT_OVER = ("attend_in_flight_requests", "attend_queued_requests", "attend_memory_reserved_bytes",
             "attend_receiving_bytes")


def minutes(text):
    """An option's value: 0 to a week."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 <= number <= 10080:
        raise argparse.ArgumentTypeError(f"is '{text}', must be a number from 0 to 10080")
    return number


class ServiceProcess:
    """A server on free ports of 127.0.0.1, or on those of `like`. Its standard error is a file, or a pipe that nobody
    reads."""

    def __init__(self, *settings, like=None, stalled_log=False):
        self._folder = tempfile.TemporaryDirectory()
        self.log = pathlib.Path(self._folder.name, "log")
        ready = pathlib.Path(self._folder.name, "ready.json")
        grpc, http = (like.grpc, like.http) if like else ("127.0.0.1:0", "127.0.0.1:0")
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                [PROGRAMS / "attend-server", f"--grpc_address={grpc}", f"--http_address={http}",
                 f"--ready_file={ready}", *settings], stderr=subprocess.PIPE if stalled_log else log)
        deadline = time.monotonic() + START_SECONDS
        while not ready.exists():
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.process.kill()
                raise RuntimeError(f"the server did not become ready: {self.log.read_text()}")
            time.sleep(0.05)
        addresses = json.loads(ready.read_text())
        self.grpc, self.http = addresses["grpc"], addresses["http"]

    def get(self, path, timeout=5):
        """Status code and text of an HTTP answer; 0 and the reason without one."""
        try:
            with urllib.request.urlopen(f"http://{self.http}{path}", timeout=timeout) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except OSError as error:
            return 0, str(error)

    def metric(self, name):
        """The sum of a metric's samples; None if it has none."""
        values = re.findall(rf"^{name}(?:{{[^}}]*}})? (\S+)$", self.get("/metrics")[1], re.MULTILINE)
        return sum(map(float, values)) if values else None

    def left_over(self, seconds):
        """What of LEFT_OVER is not 0 that long from now at the latest."""
        deadline = time.monotonic() + seconds
        while True:
            values = {name: self.metric(name) for name in LEFT_OVER}
            left = {name: value for name, value in values.items() if value != 0}
            if not left or time.monotonic() > deadline:
                return left
            time.sleep(0.2)

    def sample(self):
        """Resident bytes, descriptors and threads."""
        folder = pathlib.Path("/proc", str(self.process.pid))
        status = folder.joinpath("status").read_text()
        return {"resident_bytes": 1024 * int(re.search(r"VmRSS:\s+(\d+)", status)[1]),
                "descriptors": len(os.listdir(folder / "fd")),
                "threads": int(re.search(r"Threads:\s+(\d+)", status)[1])}

    def limit_descriptors(self, soft):
        """Lets it have so many, or as many as it may where `soft` is None."""
        hard = resource.prlimit(self.process.pid, resource.RLIMIT_NOFILE)[1]
        resource.prlimit(self.process.pid, resource.RLIMIT_NOFILE, (hard if soft is None else min(soft, hard), hard))

    def stop(self, seconds=30):
        """The exit code after SIGTERM; None if it had to be killed."""
        self.process.terminate()
        try:
            return self.process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            return None

    def kill(self):
        self.process.kill()
        self.process.wait()


def attend(server, *words, timeout=120):
    """Runs the attend command against the server, to its end."""
    return subprocess.run([PROGRAMS / "attend", *words, "--address", server.grpc], capture_output=True, text=True,
                          timeout=timeout)


def start_attend(server, *words):
    return subprocess.Popen([PROGRAMS / "attend", *words, "--address", server.grpc], stdout=subprocess.DEVNULL,
                            stderr=subprocess.DEVNULL)


class Checks:
    """Findings, printed as they come; `summary` is the closing line."""

    def __init__(self):
        self.passed = self.failed = 0

    def check(self, passed, text):
        print(f"{'ok    ' if passed else 'FAILED'}  {text}", flush=True)
        if passed:
            self.passed += 1
        else:
            self.failed += 1

    def summary(self):
        return f"{self.passed} passed, {self.failed} failed"
