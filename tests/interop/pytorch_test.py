#!/usr/bin/env python3
"""Compares the real server with PyTorch's scaled_dot_product_attention on the CPU, on the shapes that PyTorch tests it
with, and shows every disagreement that docs/conformance.md lists.

usage: pytorch_test.py SERVER-PROGRAM PROTOC REPOSITORY

Needs scripts/setup --pytorch.
"""

import dataclasses
import itertools
import pathlib
import re
import sys
import unittest
import warnings
import zlib

import grpc
import ml_dtypes
import numpy as np
import torch
from attend_service import AttendService, Request
from oracle import Bounds, Problem, assert_within, bounds, compute
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention.bias import causal_lower_right
from torch.nn.functional import scaled_dot_product_attention

SERVER, PROTOC, REPOSITORY = sys.argv[1:4]
FUSED, PLAIN = SDPBackend.FLASH_ATTENTION, SDPBackend.MATH
TYPES = (torch.float32, torch.bfloat16, torch.float16)
# Tells one meaning from another; how near results are is measured by AgreementTest.
SAME = {"rtol": 1e-5, "atol": 1e-5}
NAN, INFINITY = float("nan"), float("inf")


def to_numpy(tensor):
    tensor = tensor.contiguous()
    if tensor.dtype == torch.bfloat16:
        return tensor.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    return tensor.numpy()


@dataclasses.dataclass
class Call:
    """A call of scaled_dot_product_attention: tensors [batch, heads, length, dim]."""
    query: torch.Tensor
    key: torch.Tensor
    value: torch.Tensor
    attn_mask: torch.Tensor = None
    is_causal: bool = False
    scale: float = None

    def run(self, backend):
        grouped = self.query.shape[1] != self.key.shape[1]
        with sdpa_kernel([backend]), torch.inference_mode():
            return scaled_dot_product_attention(self.query, self.key, self.value, attn_mask=self.attn_mask,
                                                is_causal=self.is_causal, scale=self.scale, enable_gqa=grouped)

    def request(self, **results):
        """The settings that docs/semantics.md names for those who come from PyTorch."""
        options = {"causal": "TOP_LEFT"} if self.is_causal else {}
        if self.scale is not None:
            options["scale"] = self.scale
        if self.attn_mask is not None:
            options["mask" if self.attn_mask.dtype == torch.bool else "bias"] = to_numpy(self.attn_mask)
        return Request(*(to_numpy(t) for t in (self.query, self.key, self.value)), options, results)

    def problems(self):
        """What PyTorch's documentation says is computed, a Problem for each batch element."""
        query, key, value = (to_numpy(t) for t in (self.query, self.key, self.value))
        shape = (*query.shape[:3], key.shape[2])
        bias = visible = None
        if self.is_causal:
            visible = np.broadcast_to(np.tri(*shape[2:], dtype=bool), shape)
        elif self.attn_mask is not None:
            mask = np.broadcast_to(to_numpy(self.attn_mask), shape)
            bias, visible = (None, mask) if mask.dtype == np.bool_ else (mask, None)
        for b in range(shape[0]):
            part = slice(b, b + 1)
            yield Problem(query[part], key[part], value[part], self.scale, 0.0, None if bias is None else bias[part],
                          None if visible is None else visible[part])


def cpu_kernel(call):
    """Output and logsumexp of the fused CPU kernel, which scaled_dot_product_attention keeps the latter of."""
    return torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
        call.query, call.key, call.value, is_causal=call.is_causal, attn_mask=call.attn_mask, scale=call.scale)


def random_call(name, dtype, query_shape, kv_shape, **settings):
    """With normal elements whose seed is the name's CRC."""
    generator = torch.Generator().manual_seed(zlib.crc32(name.encode()))
    query, key, value = (torch.randn(shape, generator=generator).to(dtype)
                         for shape in (query_shape, kv_shape, kv_shape))
    call = Call(query, key, value, **settings)
    if isinstance(call.attn_mask, tuple):
        shape, mask_type = call.attn_mask
        call.attn_mask = torch.randn(shape, generator=generator)
        call.attn_mask = call.attn_mask > 0 if mask_type == torch.bool else call.attn_mask.to(mask_type)
    return call


class ServerTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        torch.set_num_threads(1)
        cls.service = cls.enterClassContext(AttendService(SERVER, PROTOC, pathlib.Path(REPOSITORY, "proto")))

    def attend(self, call, **results):
        return self.service.attend(call.request(**results))

    def assert_refused(self, request, field):
        with self.assertRaises(grpc.RpcError) as refusal:
            self.service.attend(request)
        self.assertEqual(refusal.exception.code(), grpc.StatusCode.INVALID_ARGUMENT)
        self.assertIn(field, refusal.exception.details())

    def compare(self, name, call, backends=(FUSED, PLAIN)):
        """Ours is within the rule of the oracle, and within it once for each side of theirs."""
        with self.subTest(name):
            limits = Bounds(to_numpy(call.query).dtype)
            oracles = []
            for problem in call.problems():
                results = compute(problem)
                limits.add(problem, results)
                oracles.append(results.output)
            limit = limits.of("output")
            ours = self.attend(call)["output"]
            assert_within(ours, np.concatenate(oracles), limit, f"{name}: Attend and the oracle")
            for backend in backends:
                theirs = to_numpy(call.run(backend)).astype(np.float64)
                assert_within(ours, theirs, limit.twice(), f"{name}: Attend and PyTorch's {backend.name}")

    def compare_types(self, name, *shapes, **settings):
        for dtype in TYPES:
            full_name = f"{name}, {dtype}, {settings}"
            self.compare(full_name, random_call(full_name, dtype, *shapes, **settings))


class AgreementTest(ServerTest):
    """PyTorch's own shapes: those of its tests of the CPU kernels, of its operator database and of its causal bias."""

    def test_square_shapes(self):
        lengths, heads_and_dims = ((12, 267), (2, 1030)), ((1, 16), (3, 8))
        for (batch, length), (heads, dim), causal in itertools.product(lengths, heads_and_dims, (True, False)):
            shape = (batch, heads, length, dim)
            self.compare_types(str(shape), shape, shape, is_causal=causal)

    def test_masks_of_every_shape(self):
        axes = ((2, 1), (3, 1), (267, 1), (514, 1))
        for shape in (*itertools.product(*axes[2:]), *itertools.product(*axes)):
            for dtype in TYPES if len(shape) == 2 else TYPES[:1]:
                for mask_type in (torch.bool, dtype):
                    name = f"mask {shape} {mask_type}, {dtype}"
                    self.compare(name, random_call(name, dtype, (2, 3, 267, 8), (2, 3, 514, 8),
                                                   attn_mask=(shape, mask_type)))

    def test_band_of_infinite_bias(self):
        band = torch.full((600, 600), -INFINITY)
        band = band.triu(1) + band.tril(-10)
        self.compare("band", random_call("band", torch.float32, (1, 2, 600, 8), (1, 2, 600, 8), attn_mask=band))

    def test_operator_database(self):
        for query_heads in (4, 8):
            shapes = (4, query_heads, 3, 8), (4, 4, 6, 8)
            for settings in ({}, {"is_causal": True}, {"attn_mask": ((3, 6), torch.bool)}):
                self.compare_types(f"heads {query_heads}", *shapes, **settings)

    def test_negative_scale(self):
        shape = (1, 3, 64, 64)
        self.compare("negative", random_call("negative", torch.float32, shape, shape, scale=-1 / 0.0001))

    def test_products_beyond_float16(self):
        full = torch.full((1, 32, 23, 80), 256.0, dtype=torch.float16)
        self.compare("products beyond float16", Call(full, full, full))

    def test_rows_without_keys_are_zero(self):
        rows = torch.arange(64)
        visible = (rows[:, None] % 5 == rows % 5) & (rows[:, None] % 4 != 0)
        bias = torch.zeros(64, 64).masked_fill(~visible, -INFINITY)
        for mask in (visible, bias):
            call = random_call("rows without keys", torch.float32, (1, 1, 64, 16), (1, 1, 64, 16), attn_mask=mask)
            self.compare("rows without keys", call)
            self.assertFalse(self.attend(call)["output"][:, :, ::4].any())

    def test_rows_of_the_lowest_bias_get_equal_weights(self):
        for dtype in TYPES:
            bias = torch.zeros(3, 5, dtype=dtype)
            bias[1] = torch.finfo(dtype).min
            name = f"lowest bias, {dtype}"
            self.compare(name, random_call(name, dtype, (1, 2, 3, 8), (1, 2, 5, 8), attn_mask=bias))

    def test_logsumexp(self):
        for causal in (False, True):
            call = random_call("logsumexp", torch.float32, (2, 3, 267, 8), (2, 3, 267, 8), is_causal=causal)
            theirs = cpu_kernel(call)[1].numpy().astype(np.float64)
            problem = Problem(*(np.concatenate([getattr(p, name) for p in call.problems()])
                                for name in ("query", "key", "value")),
                              visible=np.tri(267, dtype=bool) if causal else None)
            limit = bounds(problem, compute(problem)).of("logsumexp")
            assert_within(self.attend(call, logsumexp=True)["logsumexp"], theirs, limit.twice(), "logsumexp")


class DisagreementTest(ServerTest):
    """Each test is a row of docs/conformance.md."""

    def test_causal_corner(self):
        for batch, heads, query_length, key_length, dim in ((16, 16, 128, 128, 16), (16, 16, 128, 256, 32),
                                                            (16, 16, 256, 128, 32), (1, 1, 23, 56, 15)):
            call = random_call("corner", torch.float32, (batch, heads, query_length, dim),
                               (batch, heads, key_length, dim), is_causal=True)
            upper_left = self.attend(call)["output"]
            np.testing.assert_allclose(call.run(PLAIN), upper_left, **SAME)
            request = call.request()
            request.options["causal"] = "BOTTOM_RIGHT"
            lower_right = self.service.attend(request)["output"]
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of rows without keys
                call.attn_mask, call.is_causal = causal_lower_right(query_length, key_length), False
            np.testing.assert_allclose(call.run(PLAIN), lower_right, **SAME)
            self.assertEqual(np.allclose(upper_left, lower_right, 1e-2), query_length == key_length)

    def test_mask_beside_causal(self):
        call = random_call("mask and causal", torch.float32, (1, 2, 4, 8), (1, 2, 4, 8), is_causal=True,
                           attn_mask=((4, 4), torch.bool))
        with self.assertRaisesRegex(RuntimeError, "is_causal"):
            call.run(PLAIN)
        ours = self.attend(call)["output"]
        call.attn_mask, call.is_causal = call.attn_mask.tril(), False
        np.testing.assert_allclose(call.run(PLAIN), ours, **SAME)

    def test_mask_of_rank_1(self):
        call = random_call("rank 1", torch.float32, (1, 1, 3, 8), (1, 1, 5, 8), attn_mask=((5,), torch.bool))
        theirs = call.run(PLAIN)
        with self.assertRaises(IndexError):
            call.run(FUSED)
        self.assert_refused(call.request(), "mask")
        call.attn_mask = call.attn_mask[None]
        np.testing.assert_allclose(theirs, self.attend(call)["output"], **SAME)

    def test_logsumexp_of_a_row_without_keys(self):
        call = random_call("empty row", torch.float32, (1, 1, 3, 8), (1, 1, 5, 8))
        call.attn_mask = torch.zeros(3, 5)
        call.attn_mask[1] = -INFINITY
        theirs = cpu_kernel(call)[1].numpy()
        ours = self.attend(call, logsumexp=True)["logsumexp"]
        self.assertEqual((theirs[0, 0, 1], ours[0, 0, 1]), (0, -INFINITY))
        np.testing.assert_allclose(theirs[..., ::2], ours[..., ::2], **SAME)

    def test_nan_of_masked_keys_and_values(self):
        visible = torch.ones(3, 5, dtype=torch.bool)
        visible[:, 4] = False
        # No query sees key 4. The kernel with a causal mask selects scores out, so a key's NaN stays where it is.
        for name, settings, leaks in (("value", {"attn_mask": visible}, (FUSED, PLAIN)),
                                      ("key", {"attn_mask": visible}, (FUSED, PLAIN)),
                                      ("value", {"is_causal": True}, (FUSED, PLAIN)),
                                      ("key", {"is_causal": True}, (PLAIN,))):
            call = random_call("masked NaN", torch.float32, (1, 1, 3, 8), (1, 1, 5, 8), **settings)
            clean = self.attend(call)["output"]
            getattr(call, name)[:, :, 4] = NAN
            np.testing.assert_array_equal(self.attend(call)["output"], clean)
            for backend in (FUSED, PLAIN):
                with self.subTest(f"{name}, {list(settings)}, {backend.name}"):
                    self.assertEqual(bool(call.run(backend).isnan().all()), backend in leaks)

    def test_scores_of_nothing_but_minus_infinity(self):
        call = random_call("minus infinity", torch.float32, (1, 1, 3, 8), (1, 1, 5, 8))
        call.query = call.query.abs()
        call.key = torch.full_like(call.key, -INFINITY)
        self.assertTrue(np.isnan(self.attend(call)["output"]).all())
        for backend in (FUSED, PLAIN):
            self.assertFalse(call.run(backend).any())

    def test_value_dim_of_its_own(self):
        call = random_call("value_dim", torch.float32, (1, 2, 3, 8), (1, 2, 5, 8))
        call.value = call.value[..., :3]
        self.compare("value_dim", call, (PLAIN,))
        with self.assertRaises(RuntimeError), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the reason
            call.run(FUSED)

    def test_page_has_a_row_for_each(self):
        page = pathlib.Path(REPOSITORY, "docs", "conformance.md").read_text()
        mine = {name for name in dir(self) if name.startswith("test_") and name != self._testMethodName}
        self.assertEqual(set(re.findall(r"`pytorch: (test_\w+)`", page)), mine)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[4:])
