"""The synchronous client, and the functions that need none."""

from __future__ import annotations

import atexit
import dataclasses
import os
import threading
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

import grpc
from google.protobuf.message import DecodeError, Message

from attend import _call
from attend._message import Result, decode_response, encode_request
from attend._options import Options, documents_options
from attend._security import Security
from attend.client.v1 import health_pb2
from attend.errors import AttendError, CancelledError, Details
from attend.v1 import attention_pb2 as pb

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

A = TypeVar("A")
M = TypeVar("M", bound=Message)


@dataclasses.dataclass(frozen=True)
class ServerInfo:
    """What a server is and can do; docs/protocol.md explains each."""

    version: str
    onednn_version: str
    instruction_set: str
    native_types: tuple[str, ...]
    compute_threads: int
    memory_budget_bytes: int
    max_message_bytes: int
    max_head_dim: int
    supported_options: tuple[str, ...]
    front_ends: tuple[str, ...]
    multiply_adds_per_second: float


def parse(kind: type[M], message: bytes) -> M:
    """A small message of the server."""
    try:
        return kind.FromString(message)
    except DecodeError as error:
        raise answer_error(f"the server's answer is no {kind.DESCRIPTOR.name}") from error


def answer_error(message: str) -> AttendError:
    return AttendError(message, Details(attempts=1), grpc.StatusCode.INTERNAL)


def decode_result(message: bytes, like: Any, attempts: int) -> Result[Any]:
    try:
        return dataclasses.replace(decode_response(message, like), attempts=attempts)
    except ValueError as error:
        raise answer_error(str(error)) from error


def decode_server_info(message: bytes) -> ServerInfo:
    info = parse(pb.GetServerInfoResponse, message)
    fields = {field.name: getattr(info, field.name) for field in dataclasses.fields(ServerInfo)}
    fields.update(native_types=tuple(pb.DataType.Name(number).removeprefix("DATA_TYPE_").lower()
                                     for number in info.native_types),
                  supported_options=tuple(info.supported_options), front_ends=tuple(info.front_ends))
    return ServerInfo(**fields)


def decode_health(message: bytes) -> bool:
    answer = parse(health_pb2.HealthCheckResponse, message)
    return answer.status == health_pb2.HealthCheckResponse.SERVING_STATUS_SERVING


class Client:
    """A connection to a server, made by attend.connect. Thread-safe; a context manager.

    Calls are tried again while the server is away or says when to come back, until their timeout. But until the first
    answer a call that finds no server fails at once: an address that is wrong should not take a minute to notice.
    """

    def __init__(self, endpoint: _call.Endpoint, timeout: float, retry: bool) -> None:
        self._endpoint = endpoint
        self._timeout = timeout
        self._retry = retry
        self._closed = threading.Event()
        self._channel = endpoint.channel(grpc)
        self._methods = {name: self._channel.unary_unary(name)
                         for name in (_call.ATTEND, _call.SERVER_INFO, _call.HEALTH)}

    @property
    def address(self) -> str:
        return self._endpoint.address

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Ends the connection; calls in progress raise CancelledError."""
        self._closed.set()
        self._channel.close()

    @documents_options
    def attention(self, query: A, key: Any, value: Any, *, timeout: float | None = None,
                  **options: Unpack[Options]) -> Result[A]:
        """Computes softmax(scale * query . key^T, with softcap, bias and masks) . value on the server.

        Args:
            query: [batch, query_heads, query_length, head_dim], head_dim 1 to 1024; float32, bfloat16 or float16.
            key: [batch, kv_heads, key_length, head_dim] of the type of query; query_heads is a multiple of kv_heads.
            value: [batch, kv_heads, key_length, value_dim] of the type of query, value_dim 1 to 1024.
            timeout: seconds for the call, retries included. Default: the client's.

        Arrays are of NumPy (bfloat16 by ml_dtypes), PyTorch tensors on the CPU, or anything with __dlpack__ or
        __array__. Little-endian ones in C order are sent as they lie; strided, Fortran-ordered and big-endian ones are
        copied first. A view whose heads and length are exchanged need not be: say layout="bnhd" of what is behind it.

        Returns:
            A Result whose arrays are of the kind that query is.

        Raises:
            InvalidArgumentError: the request is wrong: `field`, `value` and `limit` say where.
            AttendError: other failures of the call, each of its own class: see attend.errors.
            TypeError: an option that there is not.
        """
        answer, attempts = self._call(_call.ATTEND, encode_request(query, key, value, options),
                                      self._timeout if timeout is None else timeout)
        return decode_result(answer, query, attempts)

    def server_info(self, *, timeout: float = _call.SMALL_TIMEOUT) -> ServerInfo:
        """What the server is and can do. Raises AttendError."""
        return decode_server_info(self._call(_call.SERVER_INFO, b"", timeout)[0])

    def is_serving(self, *, timeout: float = _call.SMALL_TIMEOUT) -> bool:
        """Whether the server takes calls, by gRPC's health protocol. Raises AttendError if it does not say."""
        return decode_health(self._call(_call.HEALTH, b"", timeout)[0])

    def wait_until_serving(self, *, timeout: float = _call.DEFAULT_TIMEOUT) -> None:
        """Returns as soon as the server takes calls, for programs that are started beside it. `timeout` in seconds.

        Raises UnavailableError if it did not in time.
        """
        waiting = _call.Waiting(self.address, timeout)
        while True:
            left = waiting.time_left()
            try:
                if self.is_serving(timeout=left):
                    return
                waiting.go_on()
            except AttendError as error:
                waiting.go_on(error)
            self._closed.wait(_call.POLL_SECONDS)

    def _call(self, method: str, message: bytes, timeout: float) -> tuple[bytes, int]:
        """The answer, and how many attempts it took."""
        attempts = _call.Attempts(self._endpoint, timeout, self._retry)
        metadata = self._endpoint.metadata_for(message)
        while True:
            if self._closed.is_set():
                raise CancelledError("the client is closed")
            try:
                answer = self._methods[method](message, timeout=attempts.start(), metadata=metadata)
            except grpc.RpcError as error:
                delay = attempts.delay_after(error, cancelled=self._closed.is_set())
            else:
                attempts.succeed()
                return answer, attempts.count
            self._closed.wait(delay)


def connect(address: str | None = None, *, tls: bool | None = None, ca_file: str | os.PathLike[str] | None = None,
            certificate_file: str | os.PathLike[str] | None = None, key_file: str | os.PathLike[str] | None = None,
            server_name: str | None = None, token: str | None = None, timeout: float = _call.DEFAULT_TIMEOUT,
            retry: bool = True) -> Client:
    """A client of the server at an address. It connects with its first call.

    Args:
        address: "host:port", "unix:/path" or another target of gRPC. Default: the environment's ATTEND_ADDRESS, else
            127.0.0.1:8001.
        tls: encrypt, and verify the server's certificate by gRPC's root certificates. Default: if one of the next four
            is given.
        ca_file: PEM file of the certificates to verify the server's by instead.
        certificate_file, key_file: PEM files of this client's certificate (chain) and key, for mutual TLS.
        server_name: the name in the server's certificate, where it is not the address's host; needed with several
            addresses, and with unix:.
        token: sent as `authorization: Bearer TOKEN`.
        timeout: seconds for each call of attention, retries included.
        retry: try again where that makes sense; False: one attempt a call.

    Raises:
        InvalidArgumentError: an address or a timeout that is none; a file, a name or a token that cannot be used.
        OSError: a file that cannot be read.
    """
    _call.check_timeout(timeout)
    security = Security(tls=tls, ca_file=ca_file, certificate_file=certificate_file, key_file=key_file,
                        server_name=server_name, token=token)
    return Client(_call.Endpoint(address, security), timeout, retry)


_default_clients: dict[str, Client] = {}
_default_lock = threading.Lock()


@atexit.register
def _close_default_clients() -> None:
    for client in _default_clients.values():
        client.close()


@documents_options
def attention(query: A, key: Any, value: Any, *, timeout: float | None = None,
              **options: Unpack[Options]) -> Result[A]:
    """Computes attention on the server at ATTEND_ADDRESS (default: 127.0.0.1:8001), keeping the connection.

    Args:
        query: [batch, query_heads, query_length, head_dim]; float32, bfloat16 or float16.
        key: [batch, kv_heads, key_length, head_dim] of the type of query.
        value: [batch, kv_heads, key_length, value_dim] of the type of query.
        timeout: seconds for the call, retries included. Default: 60.

    Returns and raises as Client.attention does, which has more on arrays.
    """
    address = _call.default_address()
    with _default_lock:
        if address not in _default_clients:
            _default_clients[address] = connect(address)
        client = _default_clients[address]
    return client.attention(query, key, value, timeout=timeout, **options)
