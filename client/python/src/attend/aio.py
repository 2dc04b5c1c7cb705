"""The client for asyncio: `async with attend.aio.connect("host:port") as client: await client.attention(q, k, v)`."""

from __future__ import annotations

import asyncio
import os
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

import grpc
import grpc.aio

from attend import _call
from attend._client import ServerInfo, decode_health, decode_result, decode_server_info
from attend._message import Result, encode_request
from attend._options import Options, documents_options
from attend._security import Security
from attend.errors import AttendError, CancelledError

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

__all__ = ["Client", "connect"]

A = TypeVar("A")


class Client:
    """As attend.Client, for one event loop. Cancelling a task that awaits a call cancels the call on the server.

    Making a message and reading an answer take about 0.1 ms for each MB, in the event loop.
    """

    def __init__(self, endpoint: _call.Endpoint, timeout: float, retry: bool) -> None:
        self._endpoint = endpoint
        self._timeout = timeout
        self._retry = retry
        self._closed = False
        self._channel: Any = None  # made within the loop that uses it

    @property
    def address(self) -> str:
        return self._endpoint.address

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None,
                        trace: TracebackType | None) -> None:
        await self.close()

    async def close(self) -> None:
        """Ends the connection; calls in progress raise CancelledError."""
        self._closed = True
        if self._channel is not None:
            await self._channel.close()

    @documents_options
    async def attention(self, query: A, key: Any, value: Any, *, timeout: float | None = None,
                        **options: Unpack[Options]) -> Result[A]:
        """Computes attention on the server: as attend.Client.attention, which has more on arrays and errors.

        Args:
            query: [batch, query_heads, query_length, head_dim]; float32, bfloat16 or float16.
            key: [batch, kv_heads, key_length, head_dim] of the type of query.
            value: [batch, kv_heads, key_length, value_dim] of the type of query.
            timeout: seconds for the call, retries included. Default: the client's.
        """
        answer, attempts = await self._call(_call.ATTEND, encode_request(query, key, value, options),
                                            self._timeout if timeout is None else timeout)
        return decode_result(answer, query, attempts)

    async def server_info(self, *, timeout: float = _call.SMALL_TIMEOUT) -> ServerInfo:
        """What the server is and can do. Raises AttendError."""
        return decode_server_info((await self._call(_call.SERVER_INFO, b"", timeout))[0])

    async def is_serving(self, *, timeout: float = _call.SMALL_TIMEOUT) -> bool:
        """Whether the server takes calls, by gRPC's health protocol. Raises AttendError if it does not say."""
        return decode_health((await self._call(_call.HEALTH, b"", timeout))[0])

    async def wait_until_serving(self, *, timeout: float = _call.DEFAULT_TIMEOUT) -> None:
        """Returns as soon as the server takes calls; UnavailableError if it did not within `timeout` seconds."""
        waiting = _call.Waiting(self.address, timeout)
        while True:
            left = waiting.time_left()
            try:
                if await self.is_serving(timeout=left):
                    return
                waiting.go_on()
            except AttendError as error:
                waiting.go_on(error)
            await asyncio.sleep(_call.POLL_SECONDS)

    async def _call(self, method: str, message: bytes, timeout: float) -> tuple[bytes, int]:
        attempts = _call.Attempts(self._endpoint, timeout, self._retry)
        metadata = self._endpoint.metadata_for(message)
        while True:
            if self._closed:
                raise CancelledError("the client is closed")
            if self._channel is None:
                self._channel = self._endpoint.channel(grpc.aio)
            try:
                answer = await self._channel.unary_unary(method)(message, timeout=attempts.start(),
                                                                 metadata=metadata)
            except grpc.RpcError as error:
                delay = attempts.delay_after(error, cancelled=self._closed)
            except asyncio.CancelledError:
                if self._closed and not _is_cancelled():  # grpc.aio's word for a channel that was closed
                    raise CancelledError("the client is closed") from None
                raise
            else:
                attempts.succeed()
                return answer, attempts.count
            await asyncio.sleep(delay)


def _is_cancelled() -> bool:
    """Whether somebody has asked the current task to end (Python 3.10 cannot tell, and is taken to)."""
    cancelling = getattr(asyncio.current_task(), "cancelling", lambda: 1)
    return bool(cancelling())


def connect(address: str | None = None, *, tls: bool | None = None, ca_file: str | os.PathLike[str] | None = None,
            certificate_file: str | os.PathLike[str] | None = None, key_file: str | os.PathLike[str] | None = None,
            server_name: str | None = None, token: str | None = None, timeout: float = _call.DEFAULT_TIMEOUT,
            retry: bool = True) -> Client:
    """An asynchronous client; arguments and errors are those of attend.connect. It connects with its first call."""
    _call.check_timeout(timeout)
    security = Security(tls=tls, ca_file=ca_file, certificate_file=certificate_file, key_file=key_file,
                        server_name=server_name, token=token)
    return Client(_call.Endpoint(address, security), timeout, retry)
