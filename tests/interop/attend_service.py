"""The real server as a process, and its API in numpy: what the interoperability tests share.

The messages are made at run time from what protoc reads out of proto/, so that no generated code is kept.
"""

import json
import pathlib
import subprocess
import tempfile
import time

import grpc
import ml_dtypes
import numpy as np
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

START_SECONDS = 60
CALL_SECONDS = 60
PROTO_FILE = "attend/v1/attention.proto"
METHOD = "/attend.v1.AttentionService/Attend"
DATA_TYPES = {
    np.dtype(np.float32): "DATA_TYPE_FLOAT32",
    np.dtype(ml_dtypes.bfloat16): "DATA_TYPE_BFLOAT16",
    np.dtype(np.float16): "DATA_TYPE_FLOAT16",
    np.dtype(np.bool_): "DATA_TYPE_BOOL",
    np.dtype(np.int64): "DATA_TYPE_INT64",
}
RESULTS = ("output", "weights", "scores", "logsumexp")


class Request:
    """One AttendRequest. Options and results are named as in the proto file; tensors are arrays of numpy, enum values
    are written without their enum's prefix (causal="TOP_LEFT")."""

    PREFIXES = {"layout": "LAYOUT_", "causal": "CAUSAL_ALIGNMENT_", "compute_type": "COMPUTE_TYPE_",
                "output_type": "DATA_TYPE_", "scores": "SCORE_STAGE_"}

    def __init__(self, query, key, value, options=None, results=None):
        self.query, self.key, self.value = query, key, value
        self.options = dict(options or {})
        self.results = dict(results or {})

    def describe(self):
        """What is set besides query, key and value, in the words of the proto file."""
        return [self._describe_field(*field) for field in (*self.options.items(), *self.results.items())]

    @staticmethod
    def _describe_field(name, value):
        if isinstance(value, np.ndarray):
            return f"{name} {value.dtype.name} {list(value.shape)}"
        if value is True:
            return name
        return f"{name} = {value:.7g}" if isinstance(value, float) else f"{name} = {value}"


class AttendService:
    """Starts the server, calls it, and ends it; a context manager. `address` is where others may call it. Calls raise
    grpc.RpcError."""

    def __init__(self, server_program, protoc, proto_folder, *settings):
        self._folder = tempfile.TemporaryDirectory()
        self._messages = self._read_messages(protoc, proto_folder)
        self._process = self._start(server_program, settings)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._channel.close()
        self._process.terminate()
        try:
            code = self._process.wait(timeout=START_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            raise
        finally:
            self._folder.cleanup()
        if code != 0:
            raise AssertionError(f"the server ended with {code}")

    def _read_messages(self, protoc, proto_folder):
        descriptors = pathlib.Path(self._folder.name, "descriptors")
        subprocess.run([protoc, f"--proto_path={proto_folder}", "--include_imports",
                        f"--descriptor_set_out={descriptors}", PROTO_FILE], check=True)
        files = descriptor_pb2.FileDescriptorSet.FromString(descriptors.read_bytes())
        return message_factory.GetMessages(files.file, descriptor_pool.DescriptorPool())

    def _start(self, server_program, settings):
        ready_file = pathlib.Path(self._folder.name, "ready.json")
        process = subprocess.Popen([server_program, "--grpc_address=127.0.0.1:0", "--http_address=127.0.0.1:0",
                                    "--log_level=warning", f"--ready_file={ready_file}", *settings])
        deadline = time.monotonic() + START_SECONDS
        while not ready_file.exists():
            if process.poll() is not None or time.monotonic() > deadline:
                process.kill()
                raise AssertionError("the server did not become ready")
            time.sleep(0.05)
        self.address = json.loads(ready_file.read_text())["grpc"]
        self._channel = grpc.insecure_channel(
            self.address,
            options=[("grpc.enable_http_proxy", 0), ("grpc.max_receive_message_length", -1)])
        self._attend = self._channel.unary_unary(
            METHOD, request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=self._messages["attend.v1.AttendResponse"].FromString)
        return process

    def attend(self, request):
        """The results of a Request that are in the response, by name, each an array."""
        response = self._attend(self._encode(request), timeout=CALL_SECONDS)
        return {name: self._array(getattr(response, name)) for name in RESULTS if response.HasField(name)}

    def _encode(self, request):
        message = self._messages["attend.v1.AttendRequest"]()
        for name in ("query", "key", "value"):
            self._set_tensor(getattr(message, name), getattr(request, name))
        for target, fields in ((message.options, request.options), (message.results, request.results)):
            for name, value in fields.items():
                self._set_field(target, name, value)
        return message

    def _set_field(self, target, name, value):
        if isinstance(value, np.ndarray):
            self._set_tensor(getattr(target, name), value)
        elif isinstance(value, (list, tuple)):
            getattr(target, name).extend(value)
        elif name in Request.PREFIXES:
            numbers = target.DESCRIPTOR.fields_by_name[name].enum_type.values_by_name
            setattr(target, name, numbers[Request.PREFIXES[name] + value].number)
        else:
            setattr(target, name, value)

    def _set_tensor(self, tensor, array):
        tensor.data_type = self._messages["attend.v1.Tensor"].DESCRIPTOR.fields_by_name["data_type"] \
            .enum_type.values_by_name[DATA_TYPES[array.dtype]].number
        tensor.shape.extend(array.shape)
        tensor.data = np.ascontiguousarray(array).tobytes()

    @staticmethod
    def _array(tensor):
        field = tensor.DESCRIPTOR.fields_by_name["data_type"]
        name = field.enum_type.values_by_number[tensor.data_type].name
        dtype = next(dtype for dtype, data_type in DATA_TYPES.items() if data_type == name)
        return np.frombuffer(tensor.data, dtype).reshape(tensor.shape)
