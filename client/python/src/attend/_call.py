"""What synchronous and asynchronous calls share: how to reach the server, and when to try again."""

from __future__ import annotations

import numbers
import os
import random
import re
import time
import warnings
from collections.abc import Callable
from typing import Any

import grpc
from google.protobuf.message import DecodeError

from attend._security import Security
from attend.client.v1 import error_details_pb2
from attend.errors import AttendError, Details, UnavailableError, error_of, invalid

DEFAULT_ADDRESS = "127.0.0.1:8001"
DEFAULT_TIMEOUT = 60.0
POLL_SECONDS = 0.1  # between questions to a server that is being waited for
SMALL_TIMEOUT = 5.0  # of calls that a server answers at once
ATTEND = "/attend.v1.AttentionService/Attend"
SERVER_INFO = "/attend.v1.AttentionService/GetServerInfo"
HEALTH = "/grpc.health.v1.Health/Check"

_FIRST_DELAY, _LONGEST_DELAY = 0.05, 2.0  # seconds
_LONGEST_TIMEOUT = 1e8  # seconds: gRPC's clock takes what overflows it for the past
_DEADLINE_SLACK = 0.005  # gRPC counts deadlines in whole milliseconds: its own may come this much before ours
_OUR_TRAILERS = ("attend-request-id", "grpc-status-details-bin", "grpc-retry-pushback-ms")
_LOCAL = re.compile(r"(127\.|localhost:|\[::1\]|unix:|ipv4:127\.|ipv6:\[::1\])")
_CLOSED = re.compile("Socket closed|Connection reset|Broken pipe", re.IGNORECASE)
_HOST_PORT = re.compile(r"(\[[^\]]+\]|[^:/\s]+):(?P<port>\d{1,5})", re.ASCII)
_SCHEMES = ("dns:", "unix:", "unix-abstract:", "ipv4:", "ipv6:", "vsock:")
_CHANNEL_OPTIONS = [
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.lb_policy_name", "round_robin"),
    ("grpc.primary_user_agent", "attend-client-python"),
    # Retries are ours: gRPC's stop after five attempts and never repeat a call of more than 256 KiB.
    ("grpc.enable_retries", 0),
    # Two clients are two connections.
    ("grpc.use_local_subchannel_pool", 1),
    # A proxy of the environment, meant for the web, would take calls even to 127.0.0.1.
    ("grpc.enable_http_proxy", 0),
    # A server that was restarted is found again soon; by default gRPC waits up to two minutes.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 2000),
    # A connection whose other end vanished without a word is noticed while calls wait on it.
    ("grpc.keepalive_time_ms", 10000),
    ("grpc.keepalive_timeout_ms", 10000),
]


def default_address() -> str:
    """ATTEND_ADDRESS of the environment, else the server's own default."""
    return os.environ.get("ATTEND_ADDRESS") or DEFAULT_ADDRESS


def check_address(address: str) -> str:
    """The address; InvalidArgumentError if it is none, before gRPC makes port 443 or a name to look up of it."""
    limit = "host:port, unix:/path or another target of gRPC"
    if not isinstance(address, str):
        raise invalid("", f"the address is {address!r}, must be {limit}", address, limit)
    if found := re.match(r"(https?|grpcs?|tcp)://([^/]*)", address):
        tls = " and tls=True" if found[1] in ("https", "grpcs") else ""
        raise invalid("", f"the address '{address}' is an URL, must be {limit}: '{found[2]}'{tls}", address, limit)
    if not _is_address(address):
        raise invalid("", f"'{address}' is no address, must be {limit}", address, limit)
    return address


def _is_address(address: str) -> bool:
    scheme = next((scheme for scheme in _SCHEMES if address.startswith(scheme)), "")
    if scheme not in ("", "ipv4:", "ipv6:"):
        return address != scheme
    found = [_HOST_PORT.fullmatch(one) for one in (address.removeprefix(scheme).split(",") if scheme else [address])]
    return all(one is not None and int(one["port"]) <= 65535 for one in found)


def _names_no_host(address: str) -> bool:
    """Whether gRPC would look for a path, or for a list of addresses, in the server's certificate."""
    return address.startswith(("unix:", "unix-abstract:", "vsock:")) or "," in address


def check_timeout(timeout: float) -> None:
    """InvalidArgumentError unless it is a number of seconds, more than 0."""
    if isinstance(timeout, bool) or not isinstance(timeout, numbers.Real) or not timeout > 0:
        raise invalid("", f"timeout is {timeout!r} s, must be more than 0", timeout, "more than 0")


class Endpoint:
    """Where a server is and how to reach it; and whether it has ever answered. Thread-safe."""

    def __init__(self, address: str | None, security: Security) -> None:
        self.address = check_address(default_address() if address is None else address)
        self.security = security
        self.answered = False
        if security.encrypted and security.server_name is None and _names_no_host(self.address):
            raise invalid("", f"'{self.address}' names no host: with TLS, server_name must be given, the name in the "
                          "server's certificate")
        if security.metadata and not _LOCAL.match(self.address):
            warnings.warn(f"the token goes to {self.address} in the clear: tls=True", stacklevel=3)

    def metadata_for(self, message: bytes) -> list[tuple[str, str]]:
        """What goes with a message: its size, by which the server plans, and the token."""
        return [*self.security.metadata, ("attend-message-bytes", str(len(message)))]

    def channel(self, module: Any) -> Any:
        """A new channel of grpc or grpc.aio."""
        options = [*_CHANNEL_OPTIONS, *self.security.options]
        if self.security.credentials is not None:
            return module.secure_channel(self.address, self.security.credentials, options=options)
        return module.insecure_channel(self.address, options=options)


def read_details(error: grpc.RpcError, attempts: int) -> Details:
    """What the trailers say. Those that cannot be parsed are passed over: they must never hide the status itself."""
    trailers = _trailers(error)
    fields: dict[str, Any] = {"request_id": trailers.get("attend-request-id", ""), "attempts": attempts}
    try:
        status = error_details_pb2.Status.FromString(trailers.get("grpc-status-details-bin", b""))
        for detail in status.details:
            _read_detail(detail.type_url, detail.value, fields)
    except DecodeError:
        pass
    return Details(**fields)


def _read_detail(type_url: str, content: bytes, fields: dict[str, Any]) -> None:
    if type_url.endswith("/google.rpc.BadRequest"):
        violations = error_details_pb2.BadRequest.FromString(content).field_violations
        if violations:
            fields["field"] = violations[0].field
    elif type_url.endswith("/google.rpc.ErrorInfo"):
        info = error_details_pb2.ErrorInfo.FromString(content)
        fields.update(reason=info.reason, value=info.metadata.get("value", ""), limit=info.metadata.get("limit", ""))
    elif type_url.endswith("/google.rpc.RetryInfo"):
        delay = error_details_pb2.RetryInfo.FromString(content).retry_delay
        fields["retry_delay"] = max(0.0, delay.seconds + delay.nanos * 1e-9)


def _trailers(error: Any) -> dict[str, Any]:
    return {name: value for name, value in error.trailing_metadata() or ()}


def _connection_reason(message: str) -> str:
    """gRPC says at length what could not be reached; the last cause is what helps."""
    for words in ("last error: ", "Failed to connect to remote host: "):
        message = message[message.rfind(words) + len(words):] if words in message else message
    message = message.removesuffix(": OK")
    return re.sub(r"^((UNKNOWN|UNAVAILABLE|INTERNAL): |(ipv4|ipv6|unix):[^ ]+: )+", "", message)


def _no_connection(endpoint: Endpoint, message: str) -> str:
    """What to tell of a call that reached no server of ours, and what to change."""
    address, security, reason = endpoint.address, endpoint.security, _connection_reason(message)
    if "http1" in message.lower() or "http/1" in message.lower():
        return f"what answers at {address} speaks HTTP/1, not gRPC: is that the server's HTTP port?"
    if "Failed parsing HTTP/2" in message:
        return f"what answers at {address} speaks no gRPC: is that the server's port? {reason}"
    if security.encrypted and "WRONG_VERSION_NUMBER" in message:
        return f"what answers at {address} speaks no TLS: connect without"
    if security.encrypted and any(words in message.lower() for words in ("handshake", "verification", "peer name")):
        return f"no TLS with {address}: {reason}{_tls_hint(message)}"
    if not _CLOSED.search(message):
        return f"no server at {address}: {reason}"
    if endpoint.answered or "Stream removed" in message:
        return f"the connection to {address} broke off: {reason} (a proxy between may limit messages or their time)"
    # TLS 1.3 has no other way to refuse a client's certificate, and a server of TLS none to tell who comes without.
    wants = ("tls=True or ca_file" if not security.encrypted else
             "a certificate_file signed by another authority" if security.certified else "a certificate_file")
    return f"no server at {address}: {reason} (the server may want {wants}, or have all the connections that it takes)"


def _tls_hint(message: str) -> str:
    if "CERTIFICATE_VERIFY_FAILED" in message:
        return ": does ca_file hold the authority that signed the server's certificate?"
    if "Hostname Verification" in message or "Peer name" in message:
        return ": is the address's host, or server_name, a name in the server's certificate?"
    return ""


class Attempts:
    """The attempts at one call: how long the next may take, and how long to wait before it, if there is one.

    `clock` and `uniform` (numbers in [0, 1)) are the time and the jitter.
    """

    def __init__(self, endpoint: Endpoint, timeout: float, retry: bool = True,
                 clock: Callable[[], float] = time.monotonic, uniform: Callable[[], float] = random.random) -> None:
        check_timeout(timeout)
        self._endpoint = endpoint
        self._timeout = timeout
        self._retry = retry
        self._clock = clock
        self._uniform = uniform
        self._deadline = clock() + timeout
        self._earlier: str = ""
        self.count = 0

    def time_left(self) -> float:
        return self._deadline - self._clock()

    def start(self) -> float:
        """Counts an attempt and returns its timeout in seconds, which is more than 0."""
        self.count += 1
        return min(max(self.time_left(), 0.001), _LONGEST_TIMEOUT)

    def succeed(self) -> None:
        self._endpoint.answered = True

    def delay_after(self, error: Any, cancelled: bool = False) -> float:
        """Seconds to wait before the next attempt. Raises what the caller is told where there must be none.

        `error` is a grpc.RpcError that ended the attempt; `cancelled`, whether this client did that itself.
        """
        status, message = error.code(), error.details() or ""
        if status == grpc.StatusCode.CANCELLED and not cancelled:
            status, message = grpc.StatusCode.UNAVAILABLE, f"the server broke off: {message}"
        trailers = _trailers(error)
        ours = any(name in trailers for name in _OUR_TRAILERS)
        if ours or status not in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED):
            self._endpoint.answered = True
        details = read_details(error, self.count)
        delay = self._delay(status, details, trailers.get("grpc-retry-pushback-ms")) if self._retry else None
        # A wait that outlasts the deadline helps nobody: what the server said is worth more than DEADLINE_EXCEEDED.
        # A server that has never answered may not be there at all, which is worth knowing at once.
        if delay is None or not delay < self.time_left() or not self._endpoint.answered:
            raise self._final(status, message, details, ours)
        self._earlier = message
        return delay

    def _delay(self, status: grpc.StatusCode, details: Details, pushback: str | bytes | None) -> float | None:
        if status not in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.RESOURCE_EXHAUSTED):
            return None
        if pushback is not None:
            text = pushback.decode("ascii", "replace") if isinstance(pushback, bytes) else pushback
            return int(text) / 1000 if re.fullmatch(r"[0-9]{1,18}", text) else None  # gRFC A6: negative is never
        if details.retry_delay is not None:
            return details.retry_delay
        if status == grpc.StatusCode.RESOURCE_EXHAUSTED:
            return None
        longest = min(_FIRST_DELAY * 2.0 ** min(self.count - 1, 20), _LONGEST_DELAY)
        return longest * (0.5 + 0.5 * self._uniform())

    def _final(self, status: grpc.StatusCode, message: str, details: Details, ours: bool) -> AttendError:
        """The server's own words, or where it was that nothing better was heard from."""
        address = self._endpoint.address
        if status == grpc.StatusCode.DEADLINE_EXCEEDED and self.time_left() <= _DEADLINE_SLACK and not ours:
            verb = "no answer from" if self._endpoint.answered else "no answer from, or no connection to,"
            message = f"{verb} {address} within {self._timeout:g} s"
            if self._earlier:
                message += f" in {self.count} attempts; the one before the last: {self._earlier}"
        elif status == grpc.StatusCode.UNAVAILABLE and not ours:
            message = _no_connection(self._endpoint, message)
        elif status == grpc.StatusCode.RESOURCE_EXHAUSTED and not ours:
            message = f"{address}: {message} (not said by Attend: a proxy between may limit messages)"
        elif not ours:
            message = f"{address}: {message}"
        return error_of(status, message, details)


class Waiting:
    """Until when to ask a server whether it serves, and what it said last."""

    def __init__(self, address: str, timeout: float) -> None:
        check_timeout(timeout)
        self._address = address
        self._timeout = timeout
        self._deadline = time.monotonic() + timeout
        self._last = f"the server at {address} was not asked"

    def time_left(self) -> float:
        """Seconds, more than 0; UnavailableError once it is over."""
        left = self._deadline - time.monotonic()
        if not left > 0:
            raise UnavailableError(f"not serving within {self._timeout:g} s: {self._last}")
        return left

    def go_on(self, error: AttendError | None = None) -> None:
        """Returns if it may be otherwise soon; raises the error else."""
        if error is not None and error.status not in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED):
            raise error
        self._last = error.message if error is not None else f"the server at {self._address} does not serve"
