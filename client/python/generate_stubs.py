#!/usr/bin/env python3
"""Writes what protoc makes of proto/ for this package: the files *_pb2.py and *_pb2.pyi under src/attend, which are
committed, so that installing needs no protoc. A test proves them equal to proto/.

usage: generate_stubs.py [PROTOC [FOLDER]]

Debian 12's protoc is the one to use: its code imports with every protobuf since 4.21, newer ones insist on their own.
"""

import pathlib
import subprocess
import sys

PACKAGE = pathlib.Path(__file__).resolve().parent
PROTO = PACKAGE.parent.parent / "proto"
FILES = ("attend/v1/attention.proto", "attend/client/v1/error_details.proto", "attend/client/v1/health.proto")


def generate(protoc, folder):
    """Runs protoc; the stubs lie under folder/attend."""
    subprocess.run([protoc, f"--proto_path={PROTO}", f"--python_out={folder}", f"--pyi_out={folder}", *FILES], check=True)


if __name__ == "__main__":
    generate(*(sys.argv[1:] + ["protoc", str(PACKAGE / "src")][len(sys.argv) - 1:]))
