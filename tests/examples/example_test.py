#!/usr/bin/env python3
"""Builds an example of client/examples as docs/clients.md says, runs it beside the real server, and compares what it
prints with the oracle.

usage: example_test.py LANGUAGE SERVER-PROGRAM PROTOC REPOSITORY
"""

import filecmp
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import ml_dtypes
import numpy as np

LANGUAGE, SERVER, PROTOC, REPOSITORY = sys.argv[1], *map(pathlib.Path, sys.argv[2:5])
sys.path.append(str(REPOSITORY / "tests" / "interop"))
from attend_service import AttendService
from oracle import Problem, bounds, compute

EXAMPLES = REPOSITORY / "client" / "examples"
CPP_BUILD = REPOSITORY / "build" / "examples" / "cpp"
# Of each language: what builds it, and what runs it.
COMMANDS = {
    "cpp": ([["cmake", "-S", ".", "-B", CPP_BUILD], ["cmake", "--build", CPP_BUILD, "--parallel"]],
            [CPP_BUILD / "attend_example"]),
    "go": ([["go", "vet", "."]], ["go", "run", "."]),
    "grpcurl": ([], ["./attend.sh"]),
    "java": ([["mvn", "--quiet", "--batch-mode", "compile"]], ["mvn", "--quiet", "--batch-mode", "exec:java"]),
    "rust": ([["cargo", "build", "--quiet", "--locked"]], ["cargo", "run", "--quiet", "--locked", "--"]),
    "typescript": ([["npm", "ci", "--no-audit", "--no-fund", "--silent"], ["npm", "run", "--silent", "build"]],
                   ["npm", "start", "--silent", "--"]),
}
# How an address is written as the last argument.
ADDRESS = {"java": "-Dexec.args={}"}.get(LANGUAGE, "{}")
RUN_SECONDS = 120
NOBODY = "127.0.0.1:1"


def run(*arguments, **variables):
    """The example's exit code and all that it printed. A proxy of the environment must not come between the test's own
    server and client."""
    environment = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
    environment["PATH"] = f"{REPOSITORY / 'build' / 'tools' / 'bin'}:{environment['PATH']}"
    finished = subprocess.run([*COMMANDS[LANGUAGE][1], *arguments], cwd=EXAMPLES / LANGUAGE, timeout=RUN_SECONDS,
                              env={**environment, **variables}, text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT)
    return finished.returncode, re.sub(r"\x1b\[\d*m", "", finished.stdout)  # Maven resets colours everywhere


def ramp(period, *shape):
    """The tensors of the large call: quarters that rise and fall back, exact in bfloat16."""
    return ((np.arange(np.prod(shape)) % period - period // 2) / 4).reshape(shape).astype(ml_dtypes.bfloat16)


def worked_example():
    rows = ([[1, 0, 0.5, 1]], [[1, 0, 0.8, 1], [0, 1, 0.2, 0], [0.2, 0.2, 0.4, 0.1]],
            [[0.9, 0.1, 0.7, 0.8], [0.1, 0.9, 0.2, 0.1], [0.3, 0.3, 0.5, 0.2]])
    return Problem(*(np.array(tensor)[None, None] for tensor in rows))


def large_example():
    return Problem(ramp(31, 32, 8, 160, 64), ramp(29, 32, 2, 160, 64), ramp(37, 32, 2, 160, 64),
                   visible=np.tri(160, dtype=bool))


class ExampleTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        for command in COMMANDS[LANGUAGE][0]:
            subprocess.run(command, cwd=EXAMPLES / LANGUAGE, check=True)
        with AttendService(SERVER, PROTOC, REPOSITORY / "proto") as service:
            code, cls.printed = run(ATTEND_ADDRESS=service.address)
        if code != 0:
            raise AssertionError(f"the example ended with {code}:\n{cls.printed}")

    def line(self, name):
        """What follows a name at the beginning of a line."""
        found = re.findall(rf"^{name} +(.*)$", self.printed, re.MULTILINE)
        self.assertEqual(len(found), 1, f"lines that begin with {name} in:\n{self.printed}")
        return found[0].strip()

    def numbers(self, name):
        return np.array([float(number) for number in re.findall(r"[-+.\w]+", self.line(name))])

    def assert_near(self, name, want, tolerance):
        got = self.numbers(name)
        self.assertEqual(got.shape, want.shape, self.line(name))
        self.assertTrue((abs(got - want) <= tolerance).all(), f"{name} {got}, expected {want} within {tolerance}")

    def test_health(self):
        self.assertEqual(self.line("health"), "SERVING")

    def test_worked_example(self):
        expected = compute(worked_example())
        for name in ("weights", "output"):
            self.assert_near(name, getattr(expected, name).ravel(), 0.6e-4)  # four digits

    def test_large_call(self):
        problem = large_example()
        expected = compute(problem)
        bound = bounds(problem, expected).of("output")
        output = expected.output
        self.assert_near("large shape", np.array(output.shape), 0)
        for name, want, digits in (("mean", abs(output).mean(keepdims=True).ravel(), 1e-6),
                                   ("last", output.ravel()[-4:], 1e-4)):
            self.assert_near(f"large {name}", want, bound.absolute + bound.relative * abs(want) + digits)

    def test_error(self):
        self.assertRegex(re.sub("_", "", self.line("error")), "(?i)invalidargument|code 3")
        self.assertIn("options.key_lengths[0] is 4, must be in [0, 3]", self.line("error"))
        self.assertEqual([self.line(name) for name in ("field", "value", "limit")],
                         ["options.key_lengths[0]", "4", "in [0, 3]"])

    def test_deadline(self):
        # The second is what Rust's tonic says, with the status CANCELLED.
        self.assertRegex(re.sub("[_ ]", "", self.line("deadline")), "(?i)deadlineexceeded|timeoutexpired")

    def test_address_that_is_given_goes_before_that_of_the_environment(self):
        with AttendService(SERVER, PROTOC, REPOSITORY / "proto") as service:
            code, printed = run(ADDRESS.format(NOBODY), ATTEND_ADDRESS=service.address)
        self.assertNotEqual(code, 0, printed)
        self.assertNotIn("SERVING", printed)
        self.assertRegex(printed, "(?i)refused")


@unittest.skipUnless(LANGUAGE == "go", "other languages generate their stubs when they are built")
class GoStubsTest(unittest.TestCase):

    def test_stubs_are_what_go_generate_makes_of_proto(self):
        version = subprocess.run(["protoc", "--version"], check=True, capture_output=True, text=True).stdout
        if not version.startswith("libprotoc 3.21."):
            self.skipTest(f"the stubs are made with protoc 3.21, this is {version}")
        with tempfile.TemporaryDirectory() as folder:
            copy = pathlib.Path(shutil.copytree(EXAMPLES / "go", pathlib.Path(folder, "go")))
            subprocess.run(["go", "generate", "."], cwd=copy, check=True)
            stubs = EXAMPLES / "go" / "attendv1"
            for stub in sorted({path.name for made in (stubs, copy / "attendv1") for path in made.iterdir()}):
                self.assertTrue(filecmp.cmp(stubs / stub, copy / "attendv1" / stub, shallow=False),
                                f"{stub} is not what proto/ says: run go generate in client/examples/go")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
