"""Scaled dot-product attention, computed by an Attend server.

    import attend, numpy as np

    query = key = value = np.random.rand(1, 8, 512, 64).astype(np.float32)  # [batch, heads, length, dim]
    with attend.connect("127.0.0.1:8001") as client:
        result = client.attention(query, key, value, causal="top_left", weights=True)
    result.output, result.weights

`attend.attention` does the same with the server at ATTEND_ADDRESS; `attend.aio` is for asyncio; `attend.reference`
computes in NumPy, in float64, to check answers by. What goes wrong is an AttendError of attend.errors.
"""

from attend import aio as aio
from attend._client import Client, ServerInfo, attention, connect
from attend._message import Result, Timings
from attend._options import Options
from attend._reference import reference
from attend.errors import (
    AttendError,
    CancelledError,
    DeadlineExceededError,
    InvalidArgumentError,
    ResourceExhaustedError,
    UnauthenticatedError,
    UnavailableError,
    UnimplementedError,
)

__all__ = [
    "AttendError", "CancelledError", "Client", "DeadlineExceededError", "InvalidArgumentError", "Options",
    "ResourceExhaustedError", "Result", "ServerInfo", "Timings", "UnauthenticatedError", "UnavailableError",
    "UnimplementedError", "aio", "attention", "connect", "reference",
]
__version__ = "0.1.0"
