"""Messages with large `bytes` fields, put together and taken apart without protobuf copying them.

protobuf's Python API copies a tensor's bytes three times on the way out and twice on the way in. But a message is the
concatenation of its fields, so that protobuf can write all of it but the large fields, which are set between its
pieces: join() then makes the one copy that gRPC's `bytes` parameter asks for. The other way, the large fields are
views of what gRPC received. See "Encoding" in protobuf's documentation.
"""

from __future__ import annotations

import functools
from collections.abc import Collection

import numpy as np

_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5
_LARGE = 2**20  # bytes of a message from which on its memory matters
_LARGEST_KEPT = 32 * 2**20 - 2**13  # the largest block that glibc will keep, and room for its header and a page
Piece = bytes | memoryview


def varint(number: int) -> bytes:
    """A number that is not negative, 7 bits a byte."""
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


def size(pieces: list[Piece]) -> int:
    return sum(len(piece) for piece in pieces)


def field(number: int, pieces: list[Piece]) -> list[Piece]:
    """A field of the type bytes, string or message whose content is the pieces."""
    return [varint(number << 3 | _LENGTH) + varint(size(pieces)), *pieces]


@functools.cache
def _keep_freed_memory() -> None:
    """Makes glibc keep freed memory for the next message, where it would give it back to the kernel at the end of every
    call: mapping it anew took twice as long as all else that a call of 12 MB takes in this process. glibc keeps blocks
    up to the size of the largest that was ever freed, and twice as much in all: so it is shown one, which is never
    touched and thus costs nothing. Other allocators do not mind."""
    np.empty(_LARGEST_KEPT, np.uint8)


def join(pieces: list[Piece]) -> bytes:
    """The message."""
    if size(pieces) >= _LARGE:
        _keep_freed_memory()
    return b"".join(pieces)


def _read_varint(message: memoryview, position: int) -> tuple[int, int]:
    """The number at a position, and the position after it."""
    number = 0
    for shift in range(0, 70, 7):
        byte = message[position]
        position += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, position
    raise ValueError("a varint of more than 10 bytes")


def _end_of_value(message: memoryview, position: int, wire_type: int) -> tuple[int, int]:
    """Where the content of a field begins and ends whose tag ends at a position."""
    if wire_type == _VARINT:
        return position, _read_varint(message, position)[1]
    if wire_type == _LENGTH:
        length, position = _read_varint(message, position)
        return position, position + length
    if wire_type in (_FIXED64, _FIXED32):
        return position, position + (8 if wire_type == _FIXED64 else 4)
    raise ValueError(f"wire type {wire_type}")


def split(message: memoryview, large: Collection[int]) -> tuple[bytes, dict[int, memoryview]]:
    """The message without its length-delimited fields of the numbers `large`, and the content of those by number.

    Raises ValueError or IndexError if it is no message.
    """
    rest: list[memoryview] = []
    contents: dict[int, memoryview] = {}
    position = 0
    while position < len(message):
        start = position
        tag, position = _read_varint(message, position)
        begin, position = _end_of_value(message, position, tag & 7)
        if position > len(message):
            raise ValueError("a field that ends after its message")
        if tag & 7 == _LENGTH and tag >> 3 in large:
            contents[tag >> 3] = message[begin:position]
        else:
            rest.append(message[start:position])
    return b"".join(rest), contents
