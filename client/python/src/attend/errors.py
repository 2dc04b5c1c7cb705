"""What goes wrong, as exceptions: one class for each gRPC status that callers tell apart, all of them AttendError."""

from __future__ import annotations

import dataclasses

import grpc


@dataclasses.dataclass(frozen=True)
class Details:
    """What is known of an error besides its status and message; empty or None where the server did not say."""

    reason: str = ""
    field: str = ""
    value: str = ""
    limit: str = ""
    request_id: str = ""
    retry_delay: float | None = None
    attempts: int = 0


class AttendError(Exception):
    """A call that failed, or that was refused before it was sent.

    Attributes:
        status: the gRPC status code.
        message: what is wrong, with the value and the limit.
        reason: an UPPER_SNAKE word of the list in docs/protocol.md; "" if there is none.
        field: the path of the field in the request, such as "query.shape[3]" or "options.key_lengths[2]".
        value: what was sent.
        limit: what would be right.
        request_id: under which the server's log has the call.
        retry_delay: seconds after which the server would like to be asked again; None if it did not say.
        attempts: how many times the request was sent; 0 if it was refused before.
    """

    status: grpc.StatusCode = grpc.StatusCode.UNKNOWN

    def __init__(self, message: str, details: Details = Details(), status: grpc.StatusCode | None = None) -> None:
        super().__init__(message)
        self.message = message
        if status is not None:
            self.status = status
        self.reason = details.reason
        self.field = details.field
        self.value = details.value
        self.limit = details.limit
        self.request_id = details.request_id
        self.retry_delay = details.retry_delay
        self.attempts = details.attempts

    def __str__(self) -> str:
        return self.message


class InvalidArgumentError(AttendError, ValueError):
    """The request is wrong, or could never be computed by this server: `field`, `value` and `limit` say what to change.

    Raised without a call (`attempts` 0) for what this package sees itself: types, devices, misspelt words.
    """

    status = grpc.StatusCode.INVALID_ARGUMENT


class UnimplementedError(AttendError, NotImplementedError):
    """The server does not know an option that was set, or the method: it is older than this package, or no Attend."""

    status = grpc.StatusCode.UNIMPLEMENTED


class ResourceExhaustedError(AttendError):
    """The message is too long (no `retry_delay`), or the server was still too busy at the deadline."""

    status = grpc.StatusCode.RESOURCE_EXHAUSTED


class DeadlineExceededError(AttendError, TimeoutError):
    """No answer within `timeout`, or the server sees that there will be none."""

    status = grpc.StatusCode.DEADLINE_EXCEEDED


class UnavailableError(AttendError, ConnectionError):
    """No server, or one that is shutting down."""

    status = grpc.StatusCode.UNAVAILABLE


class UnauthenticatedError(AttendError, PermissionError):
    """No token or certificate, or a wrong one."""

    status = grpc.StatusCode.UNAUTHENTICATED


class CancelledError(AttendError):
    """The client was closed while the call was in progress."""

    status = grpc.StatusCode.CANCELLED


_CLASSES: dict[grpc.StatusCode, type[AttendError]] = {
    kind.status: kind
    for kind in (InvalidArgumentError, UnimplementedError, ResourceExhaustedError, DeadlineExceededError,
                 UnavailableError, UnauthenticatedError, CancelledError)
}


def error_of(status: grpc.StatusCode, message: str, details: Details) -> AttendError:
    """The exception for a status: a plain AttendError where it has no class of its own."""
    return _CLASSES.get(status, AttendError)(message, details, status)


def invalid(field: str, message: str, value: object = "", limit: str = "") -> InvalidArgumentError:
    """For what is refused before it is sent."""
    return InvalidArgumentError(message, Details(field=field, value=str(value), limit=limit))
