#!/usr/bin/env python3
"""What this package takes of a call beyond what grpcio takes: encoding and decoding, for each 16 MB of messages.

usage: client_share.py ADDRESS [CALLS]

Per call of 12 MB of float32 in and 4 MB out, alternating: `attend`, client.attention on arrays; `grpcio`, the same
request sent from bytes that are ready, the answer left as the bytes that grpcio gives; `copied`, likewise, but the
bytes made by one copy, which no program with arrays can do without, as grpcio takes nothing but `bytes`; `protobuf`,
by generated messages as a program without this package would. Then the parts alone. The share is counted in processor
time of this process, too, which other programs disturb less than the clock; medians.
"""

import statistics
import sys
import time

import grpc
import numpy as np

import attend
from attend import _call
from attend._message import decode_response, encode_request
from attend.v1 import attention_pb2 as pb

SHAPE = (1, 16, 1024, 64)  # 4 MiB of float32


def timed(function):
    """Wall and processor milliseconds of one call."""
    wall, processor = time.perf_counter(), time.process_time()
    result = function()
    spent = (time.perf_counter() - wall) * 1e3, (time.process_time() - processor) * 1e3
    del result
    return spent


def by_protobuf(method, tensors):
    request = pb.AttendRequest(**{
        name: pb.Tensor(data_type=pb.DATA_TYPE_FLOAT32, shape=tensor.shape, data=tensor.tobytes())
        for name, tensor in zip(("query", "key", "value"), tensors)})
    response = pb.AttendResponse.FromString(method(request.SerializeToString(), timeout=60))
    return np.frombuffer(response.output.data, np.float32).reshape(response.output.shape)


def main(address, calls=200):
    random = np.random.default_rng(1)
    tensors = [random.standard_normal(SHAPE, dtype=np.float32) for _ in range(3)]
    request = encode_request(*tensors, {})
    with attend.connect(address) as client, grpc.insecure_channel(address, options=_call._CHANNEL_OPTIONS) as channel:
        method = channel.unary_unary(_call.ATTEND)
        metadata = [("attend-message-bytes", str(len(request)))]
        answer = method(request)
        contestants = {
            "attend": lambda: client.attention(*tensors),
            "copied": lambda: method(bytes(memoryview(request)), timeout=60, metadata=metadata),
            "grpcio": lambda: method(request, timeout=60, metadata=metadata),
            "protobuf": lambda: by_protobuf(method, tensors),
            "encode": lambda: encode_request(*tensors, {}),
            "decode": lambda: decode_response(answer, tensors[0]),
        }
        times = {name: [] for name in contestants}
        for _ in range(calls):
            for name, function in contestants.items():
                times[name].append(timed(function))
    megabytes = (len(request) + len(answer)) / 1e6
    print(f"{len(request) / 1e6:.1f} MB in, {len(answer) / 1e6:.1f} MB out, {calls} calls each; median ms")
    print(f"{'':10}{'wall':>8}{'processor':>11}")
    medians = {name: [statistics.median(column) for column in zip(*rows)] for name, rows in times.items()}
    for name, (wall, processor) in medians.items():
        print(f"{name:10}{wall:8.2f}{processor:11.2f}")
    for what, share in (("attend less grpcio", np.subtract(medians["attend"], medians["grpcio"])),
                        ("attend less copied", np.subtract(medians["attend"], medians["copied"])),
                        ("protobuf less grpcio", np.subtract(medians["protobuf"], medians["grpcio"])),
                        ("encode and decode", np.add(medians["encode"], medians["decode"]))):
        print(f"{what}: {share[0] * 16 / megabytes:.2f} ms by the clock, {share[1] * 16 / megabytes:.2f} ms of the "
              "processor for each 16 MB")


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
