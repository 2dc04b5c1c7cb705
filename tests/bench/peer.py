#!/usr/bin/env python3
"""One peer, asked like attend_bench (attend_bench.cc): usage: peer.py torch|onnxruntime|openvino THREADS

Runs with the Python of the environment that has the peer. Each is called as its documentation says for best speed on a
CPU; what it does not compute it is not asked to emulate.
"""

import collections
import contextlib
import json
import os
import sys
import time

KEPT = 2  # problems


class Unsupported(Exception):
    """The peer has no such attention on a CPU."""


def shapes(problem):
    """Of query, and of key and value."""
    batch, queries, keys, dim = (int(problem[name]) for name in ("batch", "queries", "keys", "dim"))
    return ((batch, int(problem["query_heads"]), queries, dim), (batch, int(problem["kv_heads"]), keys, dim))


def is_grouped(problem):
    return problem["query_heads"] != problem["kv_heads"]


class Torch:
    def __init__(self, threads):
        import torch
        self._torch = torch
        torch.set_num_threads(threads)
        self.version = torch.__version__

    def prepare(self, problem):
        torch = self._torch
        kind = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}[problem["type"]]
        query_shape, key_shape = shapes(problem)
        query, key, value = (torch.randn(*shape).to(kind) for shape in (query_shape, key_shape, key_shape))
        causal, grouped = problem["causal"] == "1", is_grouped(problem)

        def run():
            with torch.inference_mode():
                torch.nn.functional.scaled_dot_product_attention(query, key, value, is_causal=causal, enable_gqa=grouped)
        return run


def normal(shape):
    import numpy
    return numpy.random.default_rng(1).standard_normal(shape, dtype=numpy.float32)


class OnnxRuntime:
    """The operator Attention of opset 24, on tensors bound once."""

    def __init__(self, threads):
        import onnxruntime
        self._onnxruntime = onnxruntime
        self._threads = threads
        self.version = onnxruntime.__version__

    def prepare(self, problem):
        import numpy
        import onnx
        from onnx import helper
        if problem["type"] == "bf16":
            raise Unsupported("no bfloat16 on CPU")
        half = problem["type"] == "f16"
        kind = onnx.TensorProto.FLOAT16 if half else onnx.TensorProto.FLOAT
        query_shape, key_shape = shapes(problem)
        tensors = {name: normal(shape).astype(numpy.float16 if half else numpy.float32)
                   for name, shape in (("Q", query_shape), ("K", key_shape), ("V", key_shape))}
        node = helper.make_node("Attention", ["Q", "K", "V"], ["Y"], is_causal=int(problem["causal"]))
        graph = helper.make_graph([node], "attention",
                                  [helper.make_tensor_value_info(name, kind, tensor.shape)
                                   for name, tensor in tensors.items()],
                                  [helper.make_tensor_value_info("Y", kind, query_shape)])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 24)], ir_version=10)
        options = self._onnxruntime.SessionOptions()
        options.intra_op_num_threads = self._threads
        options.log_severity_level = 4
        session = self._onnxruntime.InferenceSession(model.SerializeToString(), options,
                                                     providers=["CPUExecutionProvider"])
        binding = session.io_binding()
        for name, tensor in tensors.items():
            binding.bind_cpu_input(name, tensor)
        output = self._onnxruntime.OrtValue.ortvalue_from_shape_and_type(query_shape, tensors["Q"].dtype, "cpu")
        binding.bind_ortvalue_output("Y", output)
        return lambda: session.run_with_iobinding(binding)


class OpenVino:
    """scaled_dot_product_attention of opset 13, on tensors that are set once."""

    def __init__(self, threads):
        import openvino
        self._openvino = openvino
        self._threads = threads
        self._capabilities = openvino.Core().get_property("CPU", "OPTIMIZATION_CAPABILITIES")
        self.version = openvino.__version__.split("-")[0]

    def prepare(self, problem):
        openvino = self._openvino
        from openvino import opset13
        kind = {"f32": openvino.Type.f32, "bf16": openvino.Type.bf16, "f16": openvino.Type.f16}[problem["type"]]
        if {"f32": "FP32", "bf16": "BF16", "f16": "FP16"}[problem["type"]] not in self._capabilities:
            raise Unsupported(f"no {problem['type']} on this processor")
        query_shape, key_shape = shapes(problem)
        parameters = [opset13.parameter(shape, kind) for shape in (query_shape, key_shape, key_shape)]
        result = opset13.scaled_dot_product_attention(*parameters, causal=problem["causal"] == "1")
        model = openvino.Model([result], parameters)
        settings = {"INFERENCE_NUM_THREADS": self._threads, "INFERENCE_PRECISION_HINT": kind,
                    "PERFORMANCE_HINT": "LATENCY"}
        request = openvino.Core().compile_model(model, "CPU", settings).create_infer_request()
        for index, shape in enumerate((query_shape, key_shape, key_shape)):
            tensor = openvino.Tensor(kind, openvino.Shape(shape))
            self._fill(tensor, shape, problem["type"])
            request.set_input_tensor(index, tensor)
        return request.infer

    @staticmethod
    def _fill(tensor, shape, element_type):
        import numpy
        numbers = normal(shape)
        if element_type == "f32":
            tensor.data[:] = numbers
        elif element_type == "f16":
            tensor.data[:] = numbers.astype(numpy.float16)
        else:  # the upper half of a float32, wherever numpy has no such type
            upper = (numbers.view(numpy.uint32) >> 16).astype(numpy.uint16)
            tensor.data.view(numpy.uint16)[:] = upper


PEERS = {"torch": Torch, "onnxruntime": OnnxRuntime, "openvino": OpenVino}


class Program:
    def __init__(self, name, threads):
        self._peer = PEERS[name](threads)
        self._prepared = collections.OrderedDict()

    def answer(self, line):
        word, *pairs = line.split()
        if word == "about":
            return {"version": self._peer.version}
        values = dict(pair.split("=", 1) for pair in pairs)
        warm, runs = int(values.pop("warm", 1)), int(values.pop("runs", 1))
        run = self._run_of(values)
        for _ in range(warm):
            run()
        wall, processor = [], []
        for _ in range(runs):
            wall_start, processor_start = time.perf_counter(), time.process_time()
            run()
            wall.append(time.perf_counter() - wall_start)
            processor.append(time.process_time() - processor_start)
        return {"wall": wall, "processor": processor}

    def _run_of(self, values):
        key = tuple(sorted(values.items()))
        if key not in self._prepared:
            while len(self._prepared) >= KEPT:
                self._prepared.popitem(last=False)
            self._prepared[key] = self._peer.prepare(values)
        return self._prepared[key]


def main(name, threads):
    # Answers go where standard output was; what the peer prints goes to standard error.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    program = Program(name, int(threads))
    for line in sys.stdin:
        answer = {}
        try:
            answer = program.answer(line)
        except Exception as error:  # of whatever kind a peer has
            answer = {"error": f"{type(error).__name__}: {error}".splitlines()[0]}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        main(*sys.argv[1:])
