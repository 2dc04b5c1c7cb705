"""usage: scripts/chaos [--minutes M] [--seed N]

Does to a server, in a random order, what goes wrong around one: clients killed and stopped in the middle, a log that
nobody reads, descriptors that run out, the server itself stopped, or killed and started again on its ports. After each
it must answer as ever.
"""

import argparse
import random
import signal
import socket
import sys
import time

from service_process import Checks, ServiceProcess, attend, minutes, start_attend

QUIET_SECONDS = 20
# Little of everything, so that limits are reached.
SETTINGS = ("--memory_budget=256MiB", "--receive_budget=64MiB", "--max_message_bytes=64MiB", "--receive_timeout=3s",
            "--max_queued_requests=16", "--max_connections=200", "--log_requests_per_second=100000")
# Of a process that does nothing, beside the two budgets: its code, gRPC's buffers and threads' stacks.
CONSTANT_BYTES = 256 << 20
BUDGET_BYTES = (256 + 64) << 20


class Chaos:
    def __init__(self, seed):
        self._draw = random.Random(seed)
        self.checks = Checks()
        self.server = ServiceProcess(*SETTINGS)
        self.most_bytes = 0

    def _clients(self, count):
        """Calls of many kinds, under way."""
        clients = []
        for _ in range(count):
            words = ["--lengths", str(self._draw.choice([1, 200, 1500])), "--heads", str(self._draw.choice([1, 8])),
                     "--concurrency", str(self._draw.randint(1, 8)), "--connections", str(self._draw.randint(1, 4)),
                     "--warmup", "0", "--duration", "60s", "--causal", "top_left"]
            clients.append(start_attend(self.server, "load", *words))
        time.sleep(self._draw.uniform(0.3, 1.5))
        self._note_memory()
        return clients

    def _note_memory(self):
        if self.server.process.poll() is None:
            self.most_bytes = max(self.most_bytes, self.server.sample()["resident_bytes"])

    def killed_clients(self):
        for client in self._clients(self._draw.randint(1, 5)):
            time.sleep(self._draw.uniform(0, 0.5))
            client.kill()
            client.wait()

    def stopped_clients(self):
        """Stopped in the middle of sending and receiving, for longer than receive_timeout, then gone or going on."""
        clients = self._clients(self._draw.randint(2, 5))
        for client in clients:
            client.send_signal(signal.SIGSTOP)
        time.sleep(4)
        self._note_memory()
        code, text = self.server.get("/livez")
        self.checks.check(code == 200, f"/livez beside {len(clients)} stopped clients: {code} {text.strip()}")
        for client in clients:
            if self._draw.random() < 0.5:
                client.send_signal(signal.SIGCONT)
                time.sleep(self._draw.uniform(0, 0.5))
            client.kill()
            client.wait()

    def stalled_log(self):
        """Nobody reads what the server logs: it must lose lines, and nothing else."""
        self._restart(stalled_log=True)
        run = attend(self.server, "load", "--lengths", "1", "--heads", "1", "--concurrency", "8", "--count", "20000",
                     "--warmup", "0")
        dropped = self.server.metric("attend_log_lines_dropped_total")
        self.checks.check(run.returncode == 0 and dropped > 0,
                          f"20000 calls beside a log that nobody reads: exit code {run.returncode}, "
                          f"{dropped:.0f} lines dropped")
        self._restart()

    def no_descriptors(self):
        self.server.limit_descriptors(self.server.sample()["descriptors"] + 4)
        strangers = []
        host, port = self.server.grpc.rsplit(":", 1)
        for _ in range(50):
            try:
                strangers.append(socket.create_connection((host, int(port)), timeout=1))
            except OSError:
                pass  # the backlog is full
        time.sleep(self._draw.uniform(0.5, 2))
        for stranger in strangers:
            stranger.close()
        self.server.limit_descriptors(None)

    def stopped_server(self):
        clients = self._clients(2)
        self.server.process.send_signal(signal.SIGSTOP)
        time.sleep(self._draw.uniform(0.5, 3))
        self.server.process.send_signal(signal.SIGCONT)
        for client in clients:
            client.kill()
            client.wait()

    def killed_server(self):
        """kill -9 in the middle, and another on the same ports at once."""
        clients = self._clients(3)
        self._restart(kill=True)
        for client in clients:
            client.kill()
            client.wait()

    def _restart(self, kill=False, stalled_log=False):
        old = self.server
        if kill:
            old.kill()
        else:
            code = old.stop()
            self.checks.check(code == 0, f"SIGTERM ends it with {code}")
        self.server = ServiceProcess(*SETTINGS, like=old, stalled_log=stalled_log)

    def look(self, what):
        """Whether the server is as it was."""
        alive = self.server.process.poll() is None
        self.checks.check(alive, f"the server lives after {what}")
        if not alive:
            raise SystemExit(self.checks.summary())
        code, text = self.server.get("/readyz", timeout=10)
        self.checks.check(code == 200, f"/readyz after {what}: {code} {text.strip()}")
        left = self.server.left_over(QUIET_SECONDS)
        self.checks.check(not left, f"nothing left over after {what}: {left or 'all 0'}")
        run = attend(self.server, "load", "--lengths", "70", "--count", "2", "--verify", "--verify_rows", "0")
        self.checks.check(run.returncode == 0, f"the next call is right after {what}: "
                                               f"{run.stderr.strip() or 'verified'}")

    def run(self, seconds):
        kinds = [self.killed_clients, self.stopped_clients, self.stalled_log, self.no_descriptors,
                 self.stopped_server, self.killed_server]
        end = time.monotonic() + seconds
        done = 0
        while done < len(kinds) or time.monotonic() < end:
            if done % len(kinds) == 0:
                self._draw.shuffle(kinds)
            kind = kinds[done % len(kinds)]
            kind()
            self.look(kind.__name__)
            done += 1
        self.checks.check(self.most_bytes <= BUDGET_BYTES + CONSTANT_BYTES,
                          f"resident memory at most {self.most_bytes >> 20} MiB, budgets and "
                          f"{CONSTANT_BYTES >> 20} MiB are {(BUDGET_BYTES + CONSTANT_BYTES) >> 20} MiB")
        code = self.server.stop()
        self.checks.check(code == 0, f"SIGTERM ends it with {code}")


def main():
    parser = argparse.ArgumentParser(usage=__doc__, add_help=False)
    parser.add_argument("--minutes", type=minutes, default=5)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    print(f"chaos: {arguments.minutes:g} minutes or each kind once, seed {arguments.seed}", flush=True)
    chaos = Chaos(arguments.seed)
    try:
        chaos.run(60 * arguments.minutes)
    finally:
        if chaos.server.process.poll() is None:
            chaos.server.kill()
    print(chaos.checks.summary())
    return 1 if chaos.checks.failed else 0


if __name__ == "__main__":
    sys.exit(main())
