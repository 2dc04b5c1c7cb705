"""The real server, for all tests: pytest --server=PROGRAM [--protoc=PROGRAM]."""

import contextlib
import json
import os
import pathlib
import subprocess
import sys
import time

import numpy as np
import pytest

import attend

REPOSITORY = pathlib.Path(__file__).resolve().parents[3]
START_SECONDS = 60
sys.path.append(str(REPOSITORY / "tests" / "interop"))  # the oracle and its bounds
# Last, so that only what this environment lacks is found there: PyTorch is too large for two environments.
sys.path.append(str(REPOSITORY / "build" / "interop" / "pytorch" / "lib" / "python{}.{}".format(*sys.version_info) /
                    "site-packages"))
# A proxy of the environment must not come between the tests' own servers and clients.
os.environ["no_proxy"] = "*"


def pytest_addoption(parser):
    parser.addoption("--server", default=str(REPOSITORY / "build" / "release" / "bin" / "attend-server"))
    parser.addoption("--protoc", default="protoc")


@contextlib.contextmanager
def running_server(program, folder, *flags, grpc_address="127.0.0.1:0"):
    """Runs a server with its files in a folder; gives the process and its addresses {"grpc": "host:port", "http":
    ...}."""
    folder.mkdir(exist_ok=True)
    ready_file = folder / "ready.json"
    process = subprocess.Popen([program, f"--grpc_address={grpc_address}", "--http_address=127.0.0.1:0",
                                "--log_level=error", f"--ready_file={ready_file}", *flags])
    try:
        deadline = time.monotonic() + START_SECONDS
        while not ready_file.exists():
            assert process.poll() is None and time.monotonic() < deadline, "the server did not become ready"
            time.sleep(0.05)
        yield process, json.loads(ready_file.read_text())
        if process.poll() is None:
            process.terminate()
            assert process.wait(timeout=START_SECONDS) == 0
    finally:
        process.kill()


@pytest.fixture(scope="session")
def server(request, tmp_path_factory):
    """The addresses of a server that runs."""
    with running_server(request.config.getoption("--server"), tmp_path_factory.mktemp("server"),
                        "--max_message_bytes=64MiB") as running:
        yield running[1]
        assert running[0].poll() is None, "the server ended by itself"


@pytest.fixture
def client(server):
    with attend.connect(server["grpc"]) as client:
        yield client


@pytest.fixture
def tensors():
    """query [2, 4, 5, 8], key [2, 2, 7, 8] and value [2, 2, 7, 6] of float32."""
    random = np.random.default_rng(7)
    shapes = ((2, 4, 5, 8), (2, 2, 7, 8), (2, 2, 7, 6))
    return tuple(random.standard_normal(shape, dtype=np.float32) for shape in shapes)
