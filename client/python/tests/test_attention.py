"""Every option, by the real server, beside attend.reference; and that beside the oracle of the other tests."""

import re

import ml_dtypes
import numpy as np
import pytest
from conftest import REPOSITORY
from oracle import Bound, Problem, assert_within, bounds, compute

import attend
from attend._options import OPTION_NAMES
from attend.v1 import attention_pb2 as pb

BATCH, HEADS, QUERIES, KEYS, DIM = 2, 4, 5, 7, 8
RANDOM = np.random.default_rng(3)
MASK = RANDOM.random((1, HEADS, QUERIES, KEYS)) < 0.7
KEY_MASK = np.array([[True] * KEYS, [False, False] + [True] * (KEYS - 2)])
BIAS = RANDOM.standard_normal((HEADS, QUERIES, KEYS)).astype(np.float32)

# What is asked for, and what it is beside the bare problem: the visible keys and the bias that say the same.
CASES = {
    "nothing": {},
    "scale": {"scale": -0.3},
    "softcap": {"softcap": 1.5},
    "top_left": {"causal": "top_left"},
    "bottom_right": {"causal": "bottom_right"},
    "query_offset": {"causal": "top_left", "query_offset": [1, -2]},
    "windows": {"window_left": 2, "window_right": 1},
    "key_lengths": {"key_lengths": np.array([7, 4]), "causal": "bottom_right"},
    "mask": {"mask": MASK},
    "key_mask": {"key_mask": KEY_MASK},
    "key_mask beside mask": {"key_mask": KEY_MASK, "mask": MASK},
    "bias": {"bias": BIAS},
    "bias of bfloat16": {"bias": BIAS.astype(ml_dtypes.bfloat16)},
    "alibi_slopes": {"alibi_slopes": [0.5, 0.25, 0.125, 0.0]},
    "sinks": {"sinks": [1.0, -1.0, -np.inf, 0.5]},
    "weight_query_rows": {"weight_query_rows": [3, 0]},
    "average_weights_over_heads": {"average_weights_over_heads": True},
    "scaled": {"scores": "scaled", "softcap": 2.0, "mask": MASK},
    "softcapped": {"scores": "softcapped", "softcap": 2.0, "mask": MASK},
    "masked": {"scores": "masked", "softcap": 2.0, "mask": MASK},
    "a query without a key": {"mask": np.zeros((QUERIES, KEYS), bool)},
    "everything": {"causal": "bottom_right", "window_left": 3, "key_lengths": [6, 7], "mask": MASK, "bias": BIAS,
                   "alibi_slopes": [0.1] * HEADS, "softcap": 3.0, "scale": 0.7, "scores": "masked", "priority": 3,
                   "request_id": "everything", "reject_non_finite": True, "output_type": "float32"},
}


def random_tensors(dtype=np.float32):
    return tuple(np.random.default_rng(7).standard_normal(shape).astype(dtype)
                 for shape in ((BATCH, HEADS, QUERIES, DIM), (BATCH, 2, KEYS, DIM), (BATCH, 2, KEYS, 6)))


def problem_of(tensors, options):
    """The oracle's words for a problem; what its query sees is read off the reference's weights."""
    bias = options.get("bias")
    bias = np.zeros((1, 1, 1, 1)) if bias is None else np.asarray(bias, np.float64)
    if slopes := options.get("alibi_slopes"):
        causal, lengths = options.get("causal"), options.get("key_lengths", [KEYS] * BATCH)
        offsets = [(length - QUERIES) if causal == "bottom_right" else 0 for length in lengths]
        positions = np.arange(QUERIES)[:, None] + np.array(offsets)[:, None, None, None]
        bias = bias - np.array(slopes)[:, None, None] * np.abs(positions - np.arange(KEYS))
    plain = {name: value for name, value in options.items()
             if name not in ("weight_query_rows", "average_weights_over_heads", "scores")}
    visible = attend.reference(*tensors, **plain, weights=True).weights > 0
    return Problem(*tensors, options.get("scale"), options.get("softcap", 0.0), bias, visible)


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16, np.float16])
@pytest.mark.parametrize("name", CASES)
def test_server_agrees_with_reference(client, name, dtype):
    tensors, options = random_tensors(dtype), {**CASES[name], "weights": True, "logsumexp": True}
    got, want = client.attention(*tensors, **options), attend.reference(*tensors, **options)
    problem = problem_of(tensors, CASES[name])
    bound = bounds(problem, compute(problem))
    stages = {"scores": options.get("scores")}
    for result in ("output", "weights", "logsumexp", "scores"):
        ours, theirs = getattr(got, result), getattr(want, result)
        if ours is None or theirs is None:
            assert ours is theirs is None
            continue
        assert_within(ours, theirs, bound.of(stages.get(result, result)), f"{name}: {result}")
    assert got.output.dtype == (np.float32 if options.get("output_type") else dtype)
    assert got.request_id == options.get("request_id", got.request_id) != ""
    assert got.timings.compute > 0 and got.multiply_adds > 0 and got.attempts == 1


@pytest.mark.parametrize("name", [name for name in CASES if "sinks" not in name])
def test_reference_agrees_with_oracle(name):
    tensors, options = random_tensors(), CASES[name]
    got = attend.reference(*tensors, **{**options, "weight_query_rows": None, "average_weights_over_heads": False},
                           weights=True, logsumexp=True)
    want = compute(problem_of(tensors, options))
    exact = Bound(1e-12, 1e-12)  # both are in double precision
    for result in ("output", "weights", "logsumexp"):
        assert_within(getattr(got, result), getattr(want, result), exact, f"{name}: {result}")


def test_worked_example():
    query = np.array([[[[1, 0, 0.5, 1]]]], np.float32)
    key = np.array([[[[1, 0, 0.8, 1], [0, 1, 0.2, 0], [0.2, 0.2, 0.4, 0.1]]]], np.float32)
    value = np.array([[[[0.9, 0.1, 0.7, 0.8], [0.1, 0.9, 0.2, 0.1], [0.3, 0.3, 0.5, 0.2]]]], np.float32)
    result = attend.reference(query, key, value, weights=True)
    assert np.round(result.weights, 4).tolist() == [[[[0.5871, 0.1859, 0.2270]]]]
    assert np.round(result.output, 4).tolist() == [[[[0.6151, 0.2941, 0.5616, 0.5337]]]]


def test_sink_takes_weight():
    tensors = random_tensors()
    plain = attend.reference(*tensors, weights=True, logsumexp=True)
    sunk = attend.reference(*tensors, weights=True, logsumexp=True, sinks=[0.5] * HEADS)
    share = np.exp(plain.logsumexp) / (np.exp(plain.logsumexp) + np.exp(0.5))
    assert np.allclose(sunk.weights, plain.weights * share[..., None], rtol=1e-12)
    assert np.allclose(np.exp(sunk.logsumexp), np.exp(plain.logsumexp) + np.exp(0.5), rtol=1e-12)


def test_layout_bnhd_is_bhnd_with_axes_exchanged(client):
    tensors = random_tensors()
    exchanged = [np.ascontiguousarray(tensor.swapaxes(1, 2)) for tensor in tensors]
    for compute_it in (client.attention, attend.reference):
        plain = compute_it(*tensors, causal="top_left", logsumexp=True)
        other = compute_it(*exchanged, layout="bnhd", causal="top_left", logsumexp=True)
        np.testing.assert_array_equal(other.output, plain.output.swapaxes(1, 2))
        np.testing.assert_array_equal(other.logsumexp, plain.logsumexp)


def test_layout_thd_is_each_sequence_by_itself(client):
    query, key, value = (tensor[0].swapaxes(0, 1) for tensor in random_tensors())
    starts = {"query_starts": [0, 2, 2, 5], "key_starts": [0, 4, 4, 7]}
    for compute_it in (client.attention, attend.reference):
        packed = compute_it(query, key, value, layout="thd", causal="bottom_right", logsumexp=True, **starts)
        for rows, keys in ((slice(0, 2), slice(0, 4)), (slice(2, 5), slice(4, 7))):
            alone = compute_it(*(part.swapaxes(0, 1)[None] for part in (query[rows], key[keys], value[keys])),
                               causal="bottom_right", logsumexp=True)
            np.testing.assert_array_equal(packed.output[rows], alone.output[0].swapaxes(0, 1))
            np.testing.assert_array_equal(packed.logsumexp[:, rows], alone.logsumexp[0])


def test_compute_type_and_omit_output(client):
    tensors = random_tensors()
    result = client.attention(*tensors, compute_type="bf16", omit_output=True, logsumexp=True)
    assert result.output is None and result.logsumexp.shape == (BATCH, HEADS, QUERIES)


def test_nan_where_nobody_looks_reaches_no_output(client):
    query, key, value = random_tensors()
    options = {"key_mask": KEY_MASK}
    clean = client.attention(query, key, value, **options).output
    key[1, :, :2] = value[1, :, :2] = np.nan
    np.testing.assert_array_equal(client.attention(query, key, value, **options).output, clean)
    assert np.isfinite(attend.reference(query, key, value, **options).output).all()


def test_messages_beyond_4_mib(client):
    random = np.random.default_rng(1)
    query, key, value = (random.standard_normal((4, 4, 1024, 64), dtype=np.float32) for _ in range(3))
    result = client.attention(query, key, value)
    assert query.nbytes == result.output.nbytes == 4 * 2**20
    np.testing.assert_array_equal(client.attention(query[:1], key[:1], value[:1]).output, result.output[:1])


@pytest.mark.parametrize("page", ["docs/clients.md", "client/python/README.md"])
def test_examples_of_the_pages_run(server, page, capsys):
    (example,) = re.findall(r"```python\n(.*?)```", (REPOSITORY / page).read_text(), re.DOTALL)
    exec(example.replace("127.0.0.1:8001", server["grpc"]), {})
    printed = capsys.readouterr().out
    for line in re.findall(r"print\(error.*?# (.*)", example):
        assert line in printed


def test_every_field_of_the_contract_is_an_option():
    fields = {*pb.AttentionOptions.DESCRIPTOR.fields_by_name, *pb.ResultSelection.DESCRIPTOR.fields_by_name,
              *pb.AttendRequest.DESCRIPTOR.fields_by_name} - {"query", "key", "value", "options", "results"}
    assert set(OPTION_NAMES) == fields | {"key_mask"}
    assert all(f"{name}:" in attend.Client.attention.__doc__ or f"{name}, " in attend.Client.attention.__doc__
               for name in OPTION_NAMES)


def test_default_address(server, monkeypatch):
    monkeypatch.setenv("ATTEND_ADDRESS", server["grpc"])
    tensors = random_tensors()
    with attend.connect() as client:
        assert client.address == server["grpc"]
        np.testing.assert_array_equal(attend.attention(*tensors).output, client.attention(*tensors).output)


def test_server_info_and_health(client):
    info = client.server_info()
    assert info.max_message_bytes == 64 * 2**20 and "softcap" in info.supported_options
    assert info.native_types[0] == "float32" and info.compute_threads > 0
    assert client.is_serving()
    client.wait_until_serving()
