"""Attention computed by an Attend server, for the encoder; it keeps how long each call took, and the weights."""

import dataclasses
import time

import numpy as np

import attend


@dataclasses.dataclass
class Call:
    """One layer's attention. `seconds` by this program's clock, `timings` by the server's; `weights` [batch, heads,
    query, key] where they were asked for."""

    seconds: float
    timings: attend.Timings
    weights: np.ndarray | None


class ServiceAttention:
    """An Attention of encoder.py. `dtype`: what query, key and value are rounded to, and so how they travel and are
    multiplied. Raises attend.AttendError."""

    def __init__(self, client: attend.Client, dtype=np.float32, weights: bool = False):
        self._client, self._dtype, self._weights = client, dtype, weights
        self.calls: list[Call] = []

    def __call__(self, query, key, value, key_mask):
        start = time.perf_counter()
        query, key, value = (tensor.astype(self._dtype, copy=False) for tensor in (query, key, value))
        result = self._client.attention(query, key, value, layout="bnhd", key_mask=key_mask, output_type="float32",
                                        weights=self._weights)
        self.calls.append(Call(time.perf_counter() - start, result.timings, result.weights))
        return result.output
