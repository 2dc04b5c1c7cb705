"""The options of a call: their names and types, what they mean, and how they become messages."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Literal, TypedDict, TypeVar

import numpy as np
from google.protobuf.message import Message

from attend._tensors import Tensor, as_tensor
from attend.errors import InvalidArgumentError, invalid
from attend.v1 import attention_pb2 as pb

if TYPE_CHECKING:
    from typing_extensions import Unpack as Unpack

OPTIONS_DOC = """\
Options (all by keyword; docs/semantics.md of the repository has the mathematics):
    layout: the order of the axes of query, key, value and output. "bhnd" (default): [batch, heads, length, dim];
        "bnhd": [batch, length, heads, dim]; "thd": packed ragged batches, [total length, heads, dim], with
        query_starts and key_starts. Weights, scores and logsumexp do not follow it.
    scale: the factor on query . key, finite. Default: 1 / sqrt(head_dim).
    softcap: c > 0: scores become c * tanh(scores / c). Default: none.
    causal: None (default): every query sees every key. "top_left": query i sees keys 0 to i. "bottom_right": query i
        sees keys 0 to i + (keys of its batch element - query_length). They differ where the lengths do.
    query_offset: [batch] integers: the position of query 0 among the keys, for causal, windows and ALiBi; alone it
        masks nothing. Default: by causal, 0 or, for "bottom_right", keys - query_length.
    window_left, window_right: how many keys before, and after, its own position a query sees; -1 or None: all.
    key_lengths: [batch] integers: how many keys each batch element has; those beyond are padding.
    query_starts, key_starts: [batch + 1] integers, layout "thd" and only there: where each sequence starts; from 0,
        never decreasing, ending at the total (cu_seqlens of FlashAttention).
    key_mask: bool [batch, key_length], true = may attend: the padding mask of tokenizers, as (attention_mask != 0).
    mask: bool, true = may attend; broadcast from the right to [batch, query_heads, query_length, key_length], so of
        rank 2 it is (query, key). All masks that are given apply together.
    bias: float32, bfloat16 or float16, added to the scores; broadcast as mask is; -inf excludes a key.
    alibi_slopes: [query_heads] numbers: adds -slope * |query position - key position| to the scores.
    sinks: [query_heads] numbers: one more logit per head in the softmax's denominator.
    compute_type: "bf16": matrix products in bfloat16. Default: as the inputs.
    output_type: "float32". Default: the type of the inputs.
    reject_non_finite: refuse NaN and infinity in query, key and value.
    weights: return the softmax's weights, float32 [batch, query_heads, query_length, key_length].
    weight_query_rows: the query rows for which weights and scores are returned, in this order. Default: all.
    average_weights_over_heads: weights as their mean over heads, without the axis query_heads.
    scores: return the scores, shaped as weights: "scaled", "softcapped" (both for every key), or "masked" (after bias
        and masks; -inf for an excluded key).
    logsumexp: return the natural logarithm of each row's softmax denominator, float32
        [batch, query_heads, query_length], in layout "thd" [query_heads, total query length].
    omit_output: leave the output out; needs another result.
    request_id: at most 128 printable ASCII characters, for the server's log. Default: made by the server.
    priority: the share of the processor, 1 (most) to 9 (least). Default: 5."""


class Options(TypedDict, total=False):
    """The options of attention; see attend.attention for what they mean."""

    layout: Literal["bhnd", "bnhd", "thd"]
    scale: float | None
    softcap: float | None
    causal: Literal["top_left", "bottom_right"] | None
    query_offset: Iterable[int] | None
    window_left: int | None
    window_right: int | None
    key_lengths: Iterable[int] | None
    query_starts: Iterable[int] | None
    key_starts: Iterable[int] | None
    key_mask: Any
    mask: Any
    bias: Any
    alibi_slopes: Iterable[float] | None
    sinks: Iterable[float] | None
    compute_type: Literal["bf16"] | None
    output_type: Literal["float32", "bfloat16", "float16"] | None
    reject_non_finite: bool
    weights: bool
    weight_query_rows: Iterable[int] | None
    average_weights_over_heads: bool
    scores: Literal["scaled", "softcapped", "masked"] | None
    logsumexp: bool
    omit_output: bool
    request_id: str
    priority: int


OPTION_NAMES = tuple(Options.__annotations__)
_WORDS: dict[str, dict[str, int]] = {
    "layout": {"bhnd": pb.LAYOUT_BHND, "bnhd": pb.LAYOUT_BNHD, "thd": pb.LAYOUT_THD},
    "causal": {"top_left": pb.CAUSAL_ALIGNMENT_TOP_LEFT, "bottom_right": pb.CAUSAL_ALIGNMENT_BOTTOM_RIGHT},
    "compute_type": {"bf16": pb.COMPUTE_TYPE_BF16},
    "output_type": {"float32": pb.DATA_TYPE_FLOAT32, "bfloat16": pb.DATA_TYPE_BFLOAT16,
                    "float16": pb.DATA_TYPE_FLOAT16},
    "scores": {"scaled": pb.SCORE_STAGE_SCALED, "softcapped": pb.SCORE_STAGE_SOFTCAPPED,
               "masked": pb.SCORE_STAGE_MASKED},
}
_FLOAT_LISTS = ("alibi_slopes", "sinks")
_INTEGER_LISTS = ("query_offset", "key_lengths", "query_starts", "key_starts", "weight_query_rows")
_TENSORS = ("mask", "bias")  # of AttentionOptions, beside the key_mask that is made a mask here

Documented = TypeVar("Documented", bound=Callable[..., object])


def documents_options(function: Documented) -> Documented:
    """Ends the docstring of a function that takes Options with what they mean."""
    function.__doc__ = f"{(function.__doc__ or '').rstrip()}\n\n{OPTIONS_DOC}\n"
    return function


def number_of_word(name: str, value: object) -> int:
    """The enum's number for an option's word. InvalidArgumentError names every word that there is."""
    words = _WORDS[name]
    if isinstance(value, str) and value in words:
        return words[value]
    limit = " or ".join(repr(word) for word in words)
    if name == "causal" and value is True:
        raise invalid("options.causal", f"causal is True, which names no corner: must be {limit}: query i sees keys 0 "
                      "to i, or 0 to i + key_length - query_length", True, limit)
    raise invalid(_path(name), f"{name} is {value!r}, must be None, {limit}", repr(value), limit)


def _is_result(name: str) -> bool:
    return name in pb.ResultSelection.DESCRIPTOR.fields_by_name


def _path(name: str) -> str:
    return f"{'results' if _is_result(name) else 'options'}.{name}"


def numbers(name: str, values: Any, convert: Callable[[Any], Any]) -> list[Any]:
    """A list of integers (convert: operator.index) or floats, from any sequence or array of one axis."""
    values = values.tolist() if hasattr(values, "tolist") else values
    what = "integers" if convert is operator.index else "numbers"
    try:
        return [convert(value) for value in values]
    except (TypeError, ValueError) as error:
        raise invalid(_path(name), f"{name} is {values!r:.100}, must be a list of {what}", f"{values!r:.100}",
                      f"a list of {what}") from error


def check_names(options: Options) -> None:
    """TypeError for an option that there is not."""
    for name in options:
        if name not in OPTION_NAMES:
            raise TypeError(f"there is no option {name!r}; there are {', '.join(OPTION_NAMES)}")


def _set_field(message: Message, name: str, value: Any) -> None:
    try:
        if name in _WORDS:
            setattr(message, name, number_of_word(name, value))
        elif name in _FLOAT_LISTS or name in _INTEGER_LISTS:
            getattr(message, name).extend(numbers(name, value, float if name in _FLOAT_LISTS else operator.index))
        else:
            setattr(message, name, value)
    except InvalidArgumentError:
        raise
    except (TypeError, ValueError, OverflowError) as error:
        raise invalid(_path(name), f"{name} is {value!r:.100}: {error}", f"{value!r:.100}") from error


def option_messages(options: Options) -> tuple[pb.AttentionOptions, pb.ResultSelection]:
    """What is set of the options, but for the tensors, request_id and priority."""
    attention, results = pb.AttentionOptions(), pb.ResultSelection()
    for name, value in options.items():
        if value is None or name in (*_TENSORS, "key_mask", "request_id", "priority"):
            continue
        _set_field(results if _is_result(name) else attention, name, value)
    return attention, results


def _sizes(query: Tensor, layout: object) -> tuple[int, int]:
    """Batch and query_length, where they can be told."""
    if len(query.shape) != 4:
        return -1, -1
    return query.shape[0], query.shape[1 if layout == "bnhd" else 2]


def _refuse_two_readings(mask: Tensor, query: Tensor, layout: object) -> None:
    batch, query_length = _sizes(query, layout)
    if len(mask.shape) == 2 and mask.shape[0] == batch > 1:
        shape = list(mask.shape)
        if batch == query_length:
            problem = f"could be [query_length, key_length] or a padding mask [batch, key_length], as both are {batch}"
        else:
            problem = "looks like a padding mask [batch, key_length], but of rank 2 is [query_length, key_length]"
        raise invalid("options.mask", f"mask {shape} {problem}: pass it as key_mask if it is [batch, key_length], else "
                      "as mask[None, None]", str(shape), "key_mask, or a mask of rank 4")


def _joined_masks(key_mask: Tensor, mask: Tensor | None, query: Tensor, layout: object) -> Tensor:
    shape = list(key_mask.shape)
    batch = _sizes(query, layout)[0]
    if layout == "thd" or len(shape) != 2 or shape[0] != batch:
        limit = "[batch, key_length]" + (f" with a batch of {batch}" if batch >= 0 else "")
        where = ", in layout 'thd' there is none" if layout == "thd" else ""
        raise invalid("options.mask", f"key_mask is {shape}, must be {limit}{where}", str(shape), limit)
    by_key = key_mask.array[:, None, None, :]
    if mask is None:
        return Tensor(key_mask.data_type, by_key)
    try:
        return Tensor(key_mask.data_type, np.logical_and(by_key, mask.array))
    except ValueError as error:
        shapes = f"{list(mask.shape)} and {shape}"
        raise invalid("options.mask", f"mask and key_mask, {shapes}, do not fit together: {error}", shapes) from error


def option_tensors(options: Options, query: Tensor) -> dict[str, Tensor]:
    """The tensors among the options, by the name of their field: key_mask has become a mask."""
    layout = options.get("layout")
    bool_only = (int(pb.DATA_TYPE_BOOL),)
    tensors: dict[str, Tensor] = {}
    if options.get("mask") is not None:
        tensors["mask"] = as_tensor("mask", options["mask"], bool_only)
        _refuse_two_readings(tensors["mask"], query, layout)
    if options.get("key_mask") is not None:
        key_mask = as_tensor("key_mask", options["key_mask"], bool_only)
        tensors["mask"] = _joined_masks(key_mask, tensors.get("mask"), query, layout)
    if options.get("bias") is not None:
        tensors["bias"] = as_tensor("bias", options["bias"])
    return tensors
