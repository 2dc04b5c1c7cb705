#!/usr/bin/env python3
"""Drives the real server with programs of others: grpcurl, which knows the API by reflection alone, and promtool.

usage: external_tools_test.py SERVER-PROGRAM TOOLS-FOLDER

Fails where a program is missing: scripts/setup --tools installs them.
"""

import base64
import json
import pathlib
import struct
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.request

SERVER, TOOLS = sys.argv[1], pathlib.Path(sys.argv[2])
START_SECONDS = 60

QUERY = [1, 0, 0.5, 1]
KEY = [[1, 0, 0.8, 1], [0, 1, 0.2, 0], [0.2, 0.2, 0.4, 0.1]]
VALUE = [[0.9, 0.1, 0.7, 0.8], [0.1, 0.9, 0.2, 0.1], [0.3, 0.3, 0.5, 0.2]]
OUTPUT = [0.6151, 0.2941, 0.5616, 0.5337]
WEIGHTS = [0.5871, 0.1859, 0.2270]


def tensor(rows):
    elements = [x for row in rows for x in row]
    return {
        "dataType": "DATA_TYPE_FLOAT32",
        "shape": [1, 1, len(rows), len(rows[0])],
        "data": base64.b64encode(struct.pack(f"<{len(elements)}f", *elements)).decode(),
    }


def floats(answer):
    data = base64.b64decode(answer["data"])
    return list(struct.unpack(f"<{len(data) // 4}f", data))


class ExternalToolsTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        ready_file = pathlib.Path(cls.folder.name, "ready.json")
        cls.server = subprocess.Popen([SERVER, "--grpc_address=127.0.0.1:0", "--http_address=127.0.0.1:0",
                                       f"--ready_file={ready_file}"])
        deadline = time.monotonic() + START_SECONDS
        while not ready_file.exists():
            if cls.server.poll() is not None or time.monotonic() > deadline:
                cls.server.kill()
                raise AssertionError("the server did not become ready")
            time.sleep(0.05)
        cls.addresses = json.loads(ready_file.read_text())

    @classmethod
    def tearDownClass(cls):
        cls.server.terminate()
        if cls.server.wait(timeout=30) != 0:
            raise AssertionError(f"the server ended with {cls.server.returncode}")
        cls.folder.cleanup()

    def grpcurl(self, *arguments, request=None):
        data = [] if request is None else ["-d", json.dumps(request)]
        return subprocess.run([TOOLS / "grpcurl", "-plaintext", *data, self.addresses["grpc"], *arguments],
                              capture_output=True, text=True, timeout=60)

    def answer(self, *arguments, request=None):
        run = self.grpcurl(*arguments, request=request)
        self.assertEqual(run.returncode, 0, run.stderr)
        return run.stdout

    def test_lists_every_service(self):
        services = self.answer("list").split()
        self.assertIn("attend.v1.AttentionService", services)
        self.assertIn("grpc.health.v1.Health", services)
        self.assertEqual(self.answer("list", "attend.v1.AttentionService").split(),
                         ["attend.v1.AttentionService.Attend", "attend.v1.AttentionService.GetServerInfo"])

    def test_describes_services_and_messages(self):
        described = self.answer("describe", "attend.v1.AttentionService")
        self.assertIn("rpc Attend ( .attend.v1.AttendRequest ) returns ( .attend.v1.AttendResponse )", described)
        self.assertIn("optional float scale", self.answer("describe", "attend.v1.AttentionOptions"))
        self.assertIn("rpc Watch", self.answer("describe", "grpc.health.v1.Health"))

    def test_calls_health(self):
        for service in ("", "attend.v1.AttentionService"):
            answer = self.answer("grpc.health.v1.Health/Check", request={"service": service})
            self.assertEqual(json.loads(answer), {"status": "SERVING"})

    def test_calls_get_server_info(self):
        answer = json.loads(self.answer("attend.v1.AttentionService/GetServerInfo"))
        self.assertRegex(answer["version"], r"^\d+\.\d+\.\d+$")
        # As in the proto file: reflection of protobuf 3.21 hands out no JSON names.
        self.assertGreater(int(answer["max_message_bytes"]), 0)

    def test_computes_the_worked_example(self):
        request = {"query": tensor([QUERY]), "key": tensor(KEY), "value": tensor(VALUE), "results": {"weights": True}}
        answer = json.loads(self.answer("attend.v1.AttentionService/Attend", request=request))
        self.assertEqual(answer["output"]["shape"], ["1", "1", "1", "4"])
        for name, expected in (("output", OUTPUT), ("weights", WEIGHTS)):
            self.assertEqual([round(x, 4) for x in floats(answer[name])], expected)

    def test_shows_what_is_wrong_with_a_request(self):
        request = {"query": tensor([QUERY]), "key": tensor(KEY), "value": tensor(VALUE)}
        request["key"]["shape"] = [1, 1, 4, 4]
        run = self.grpcurl("attend.v1.AttentionService/Attend", request=request)
        self.assertNotEqual(run.returncode, 0)
        self.assertIn("Code: InvalidArgument", run.stderr)
        # The details, by descriptors that reflection gives.
        self.assertIn("google.rpc.BadRequest", run.stderr)
        self.assertIn('"domain": "attend.v1"', run.stderr)

    def test_metrics_follow_prometheus_rules(self):
        self.answer("attend.v1.AttentionService/GetServerInfo")
        with urllib.request.urlopen(f"http://{self.addresses['http']}/metrics", timeout=10) as answer:
            metrics = answer.read()
        self.assertIn(b"attend_requests_total", metrics)
        run = subprocess.run([TOOLS / "promtool", "check", "metrics"], input=metrics, capture_output=True, timeout=60)
        self.assertEqual((run.returncode, run.stdout, run.stderr), (0, b"", b""))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
