"""Attention in double precision, step by step as docs/semantics.md has it: slow, obvious, and in need of no server."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

import numpy as np

from attend._message import Result
from attend._options import Options, check_names, documents_options, number_of_word, numbers, option_tensors
from attend._tensors import Array, as_tensor
from attend.errors import invalid

if TYPE_CHECKING:
    from typing_extensions import Unpack

_WORDS = ("layout", "causal", "scores", "compute_type", "output_type")


def _vector(options: Options, name: str, convert: Any = operator.index) -> Array | None:
    values: Any = options.get(name)
    return None if values is None else np.array(numbers(name, values, convert))


def _offsets(options: Options, batch: int, query_length: int, keys: Array) -> Array:
    """[batch]: where query 0 stands among the keys."""
    given = _vector(options, "query_offset")
    if given is not None:
        return given
    return keys - query_length if options.get("causal") == "bottom_right" else np.zeros(batch, np.int64)


def _positions_allow(options: Options, distance: Array) -> Array:
    """Which keys are left by position; `distance` is the key's position less the query's."""
    left, right = options.get("window_left"), options.get("window_right")
    visible = np.ones(distance.shape, bool)
    if options.get("causal") is not None:
        visible &= distance <= 0
    if left is not None and left >= 0:
        visible &= distance >= -left
    if right is not None and right >= 0:
        visible &= distance <= right
    return visible


def _softmax(scores: Array, visible: Array, sinks: Array | None) -> tuple[Array, Array]:
    """Weights [batch, heads, queries, keys] and logsumexp [batch, heads, queries]."""
    masked = np.where(visible, scores, -np.inf)
    largest = masked.max(axis=-1, keepdims=True, initial=-np.inf)
    seen = visible.any(axis=-1, keepdims=True)
    undefined = seen & np.isinf(largest)
    sink = np.full(largest.shape, -np.inf) if sinks is None else \
        np.broadcast_to(sinks.astype(np.float64)[None, :, None, None], largest.shape)
    base = np.maximum(largest, sink)
    base = np.where(np.isneginf(base), 0, base)
    exponentials = np.where(visible, np.exp(masked - base), 0)
    total = exponentials.sum(axis=-1, keepdims=True) + np.exp(sink - base)
    weights = np.where(seen, exponentials / np.where(seen, total, 1), 0)
    weights = np.where(undefined & visible, np.nan, weights)
    return weights, np.where(undefined, np.nan, base + np.log(total))[..., 0]


def _weighted_sum(weights: Array, value: Array, visible: Array) -> Array:
    """A key that is excluded is left out, not multiplied by 0: a NaN in its value harms nobody."""
    if np.isfinite(value).all():
        output: Array = weights @ value
    else:
        output = np.where(visible[..., None], weights[..., None] * value[:, :, None], 0).sum(axis=-2)
    return output


def _attend(query: Array, key: Array, value: Array, options: Options, tensors: dict[str, Array]) -> dict[str, Array]:
    """All results of one problem in layout BHND: output, weights, logsumexp, and scores at each stage."""
    batch, heads, query_length, head_dim = query.shape
    key_length = key.shape[2]
    if key.shape[1] == 0 or heads % key.shape[1]:
        raise invalid("query.shape[1]", f"query has {heads} heads, must be a multiple of key's {key.shape[1]}")
    key, value = (np.repeat(tensor, heads // tensor.shape[1], axis=1) for tensor in (key, value))
    scale, softcap = options.get("scale"), options.get("softcap")
    lengths = _vector(options, "key_lengths")
    keys = np.full(batch, key_length) if lengths is None else lengths
    query_positions = np.arange(query_length) + _offsets(options, batch, query_length, keys)[:, None]
    distance = np.arange(key_length) - query_positions[:, None, :, None]

    scaled = (query @ key.swapaxes(2, 3)) * (1 / np.sqrt(head_dim) if scale is None else scale)
    softcapped = softcap * np.tanh(scaled / softcap) if softcap else scaled
    biased = softcapped + tensors.get("bias", np.zeros(()))
    slopes, sinks = _vector(options, "alibi_slopes", float), _vector(options, "sinks", float)
    if slopes is not None:
        biased = biased - slopes[:, None, None] * np.abs(distance)
    visible = _positions_allow(options, distance) & (np.arange(key_length) < keys[:, None, None, None])
    visible = visible & tensors.get("mask", np.ones((), bool)) & ~np.isneginf(tensors.get("bias", np.zeros(())))
    visible = np.broadcast_to(visible, scaled.shape)
    weights, logsumexp = _softmax(biased, visible, sinks)
    return {"output": _weighted_sum(weights, value, visible), "weights": weights, "logsumexp": logsumexp,
            "scaled": scaled, "softcapped": softcapped, "masked": np.where(visible, biased, -np.inf)}


def _attend_ragged(query: Array, key: Array, value: Array, options: Options) -> dict[str, Array]:
    """Output and logsumexp of layout THD: each sequence by itself."""
    query_starts, key_starts = _vector(options, "query_starts"), _vector(options, "key_starts")
    if query_starts is None or key_starts is None:
        raise invalid("options.query_starts", "layout 'thd' needs query_starts and key_starts")
    offsets = _vector(options, "query_offset")
    output = np.zeros((query.shape[0], query.shape[1], value.shape[2]))
    logsumexp = np.zeros((query.shape[1], query.shape[0]))
    for i in range(len(query_starts) - 1):
        rows, columns = slice(query_starts[i], query_starts[i + 1]), slice(key_starts[i], key_starts[i + 1])
        own: Options = {**options, "query_offset": None if offsets is None else [int(offsets[i])]}
        parts = [part.swapaxes(0, 1)[None] for part in (query[rows], key[columns], value[columns])]
        results = _attend(parts[0], parts[1], parts[2], own, {})
        output[rows] = results["output"][0].swapaxes(0, 1)
        logsumexp[:, rows] = results["logsumexp"][0]
    return {"output": output, "logsumexp": logsumexp}


def _select(results: dict[str, Array], options: Options) -> Result[Array]:
    """What was asked for."""
    rows = _vector(options, "weight_query_rows")
    selection: Any = slice(None) if rows is None or rows.size == 0 else rows
    weights, scores = None, None
    if options.get("weights"):
        weights = results["weights"][:, :, selection]
        weights = weights.mean(axis=1) if options.get("average_weights_over_heads") else weights
    stage = options.get("scores")
    if stage is not None:
        scores = results[stage][:, :, selection]
    output: Any = None if options.get("omit_output") else results["output"]
    return Result(output=output, weights=weights, scores=scores,
                  logsumexp=results["logsumexp"] if options.get("logsumexp") else None)


@documents_options
def reference(query: Any, key: Any, value: Any, **options: Unpack[Options]) -> Result[Array]:
    """What attend.attention computes, in float64 and NumPy, to check answers by: no server, no speed.

    Args:
        query: [batch, query_heads, query_length, head_dim]; float32, bfloat16 or float16.
        key: [batch, kv_heads, key_length, head_dim].
        value: [batch, kv_heads, key_length, value_dim].

    Returns:
        A Result of float64 NumPy arrays. compute_type, output_type, reject_non_finite, request_id and priority change
        nothing.

    Raises:
        InvalidArgumentError: arrays and words that attend.attention refuses without a call. Of what the server would
            refuse this checks little.
    """
    check_names(options)
    for name in _WORDS:
        word: Any = options.get(name)
        if word is not None:
            number_of_word(name, word)
    tensors = [as_tensor(name, array) for name, array in (("query", query), ("key", key), ("value", value))]
    arrays = [tensor.numbers() for tensor in tensors]
    layout = options.get("layout")
    extra = {name: tensor.numbers() for name, tensor in option_tensors(options, tensors[0]).items()}
    with np.errstate(all="ignore"):
        if layout == "thd":
            return _select(_attend_ragged(arrays[0], arrays[1], arrays[2], options), options)
        if layout == "bnhd":
            arrays = [array.swapaxes(1, 2) for array in arrays]
        results = _attend(arrays[0], arrays[1], arrays[2], options, extra)
    if layout == "bnhd":
        results["output"] = results["output"].swapaxes(1, 2)
    return _select(results, options)
