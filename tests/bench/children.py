"""Programs that are asked line by line and answer in JSON, and the watch over what others use of the processors."""

import contextlib
import json
import os
import subprocess
import time

TICKS = os.sysconf("SC_CLK_TCK")


class ChildError(Exception):
    """A child could not do what it was asked, or has ended."""


class Child:
    def __init__(self, command, name):
        self.name = name
        self._environment = dict(os.environ, OMP_WAIT_POLICY="passive")
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                         env=self._environment)

    def ask(self, line):
        try:
            self._process.stdin.write(line + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # reading says so
        return self.read(line)

    def read(self, question="its start"):
        """Its next answer."""
        answer = self._process.stdout.readline()
        if not answer:
            raise ChildError(f"{self.name} ended with {self._process.wait()} at: {question}")
        answer = json.loads(answer)
        if "error" in answer:
            raise ChildError(answer["error"])
        return answer

    def wait_for_file(self, path, seconds=60):
        """The JSON that a program writes to a file, whole or not at all, once it is ready."""
        end = time.monotonic() + seconds
        while not path.exists():
            if self._process.poll() is not None or time.monotonic() > end:
                raise ChildError(f"{self.name} is not ready after {seconds} s, or ended: {self._process.poll()}")
            time.sleep(0.02)
        return json.loads(path.read_text(encoding="utf-8"))

    def processor_seconds(self):
        return process_seconds(self._process.pid)

    def close(self):
        """Ends it: by the end of its input, or by SIGTERM if it reads none."""
        with contextlib.suppress(BrokenPipeError):  # of what it did not read before it ended
            self._process.stdin.close()
        self._process.terminate()
        try:
            self._process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()


def process_seconds(pid):
    """Processor time of a process so far; 0 once it has gone."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as stat:
            fields = stat.read().rsplit(")", 1)[1].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / TICKS


def machine_seconds():
    """Time that all processors worked, or that the host took from them: user, nice, system and steal."""
    with open("/proc/stat", encoding="ascii") as stat:
        fields = stat.readline().split()
    return sum(int(fields[i]) for i in (1, 2, 3, 8)) / TICKS


class Watch:
    """How much of the processors others take, from now on."""

    def __init__(self, children):
        self._children = children
        self._start = time.monotonic()
        self._foreign = self._foreign_seconds()

    def _foreign_seconds(self):
        mine = process_seconds("self") + sum(child.processor_seconds() for child in self._children)
        return machine_seconds() - mine

    def share(self):
        """From 0 to 1. A tick more or less is not held against anyone: /proc counts no finer."""
        taken = self._foreign_seconds() - self._foreign - 1 / TICKS
        return max(0.0, taken) / (max(time.monotonic() - self._start, 1e-6) * os.cpu_count())


class Patience:
    """Seconds that a whole run may lose to rounds that others disturbed, and to waiting for them to end."""

    def __init__(self, total):
        self.left = total

    def spend(self, seconds):
        self.left -= seconds

    def wait_for_quiet(self, children, limit):
        """Until others take less than 3 % for a while, `limit` seconds at most."""
        longest = min(self.left, 10.0)
        start = time.monotonic()
        while time.monotonic() - start < longest:
            watch = Watch(children)
            time.sleep(0.3)
            if watch.share() <= limit:
                break
        self.spend(time.monotonic() - start)
