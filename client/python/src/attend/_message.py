"""AttendRequest as bytes, and AttendResponse as a Result."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import DecodeError

from attend import _wire
from attend._options import Options, check_names, option_messages, option_tensors
from attend._tensors import Tensor, as_tensor, restorer
from attend.errors import invalid
from attend.v1 import attention_pb2 as pb

A = TypeVar("A")
LARGEST_MESSAGE = 2**31 - 1  # protobuf's limit, and so gRPC's
_RESULTS = ("output", "weights", "scores", "logsumexp")


@dataclasses.dataclass(frozen=True)
class Timings:
    """Where a call's time went, in seconds, by the server's clock: receive from the call's headers to its last byte,
    queue to the first work on it, pack and compute together to the last, encode to handing over the response."""

    receive: float
    queue: float
    pack: float
    compute: float
    encode: float


@dataclasses.dataclass(frozen=True, eq=False)
class Result(Generic[A]):
    """What a call of attention returns. The arrays are of the kind that query was, in memory of the processor, and may
    be written to.

    Attributes:
        output: [batch, query_heads, query_length, value_dim] in layout "bhnd"; of the type of query unless output_type
            says another; None with omit_output.
        weights: float32 [batch, query_heads, query_length, key_length]; exactly 0 for an excluded key. None unless
            asked for, like scores and logsumexp.
        scores: float32, shaped as weights.
        logsumexp: float32 [batch, query_heads, query_length]; -inf for a query that sees no key.
        timings: of the server; None from attend.reference.
        multiply_adds: multiplications followed by an addition in both matrix products; 0 from attend.reference.
        request_id: under which the server's log has the call.
        attempts: how many times the request was sent.
    """

    output: A
    weights: A | None = None
    scores: A | None = None
    logsumexp: A | None = None
    timings: Timings | None = None
    multiply_adds: int = 0
    request_id: str = ""
    attempts: int = 0


def _tensor_pieces(tensor: Tensor) -> list[_wire.Piece]:
    described = pb.Tensor(data_type=tensor.data_type, shape=tensor.shape)  # type: ignore[arg-type]
    number = pb.Tensor.DATA_FIELD_NUMBER
    return [described.SerializeToString(), *_wire.field(number, [tensor.data()])]


def _tensor_fields(message: type[Any], tensors: dict[str, Tensor]) -> list[_wire.Piece]:
    numbers = message.DESCRIPTOR.fields_by_name
    return [piece for name, tensor in tensors.items()
            for piece in _wire.field(numbers[name].number, _tensor_pieces(tensor))]


def encode_request(query: object, key: object, value: object, options: Options) -> bytes:
    """The serialized AttendRequest. Raises InvalidArgumentError for what cannot be said in one."""
    check_names(options)
    tensors = {name: as_tensor(name, array) for name, array in (("query", query), ("key", key), ("value", value))}
    attention, results = option_messages(options)
    small = pb.AttendRequest(results=results)
    for name, of_request in (("request_id", str), ("priority", int)):
        given: Any = options.get(name)
        if given is not None:
            if not isinstance(given, of_request):
                raise invalid(name, f"{name} is {given!r}, must be of {of_request.__name__}", repr(given))
            try:
                setattr(small, name, given)
            except ValueError as error:
                raise invalid(name, f"{name} is {given!r:.200}: {error}", f"{given!r:.200}") from error
    attention_pieces: list[_wire.Piece] = [
        attention.SerializeToString(), *_tensor_fields(pb.AttentionOptions, option_tensors(options, tensors["query"]))]
    pieces: list[_wire.Piece] = [
        small.SerializeToString(), *_wire.field(pb.AttendRequest.OPTIONS_FIELD_NUMBER, attention_pieces),
        *_tensor_fields(pb.AttendRequest, tensors)]
    if _wire.size(pieces) > LARGEST_MESSAGE:
        size = _wire.size(pieces)
        raise invalid("", f"the request has {size} bytes, must have at most {LARGEST_MESSAGE}, gRPC's limit", size,
                      str(LARGEST_MESSAGE))
    return _wire.join(pieces)


def _seconds(duration: Duration) -> float:
    return duration.seconds + duration.nanos * 1e-9


def _decode_tensor(content: memoryview, restore: Callable[[memoryview, int, tuple[int, ...]], Any]) -> Any:
    rest, large = _wire.split(content, (pb.Tensor.DATA_FIELD_NUMBER,))
    described = pb.Tensor.FromString(rest)
    data = large.get(pb.Tensor.DATA_FIELD_NUMBER, memoryview(b""))
    return restore(data, described.data_type, tuple(described.shape))


def decode_response(message: bytes, like: object) -> Result[Any]:
    """The Result of a serialized AttendResponse, its arrays of the kind of `like`. ValueError if it is none."""
    names = {pb.AttendResponse.DESCRIPTOR.fields_by_name[name].number: name for name in _RESULTS}
    restore = restorer(like)
    try:
        rest, large = _wire.split(memoryview(message), names)
        response = pb.AttendResponse.FromString(rest)
        arrays = {names[number]: _decode_tensor(content, restore) for number, content in large.items()}
    except (DecodeError, IndexError, ValueError) as error:
        raise ValueError(f"the server's answer is no AttendResponse: {error}") from error
    timings = Timings(*(_seconds(getattr(response.timings, field.name)) for field in dataclasses.fields(Timings)))
    return Result(output=arrays.pop("output", None), timings=timings, multiply_adds=response.multiply_adds,
                  request_id=response.request_id, **arrays)
