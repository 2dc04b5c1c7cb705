#!/usr/bin/env python3
"""Runs every node test that ONNX has for its operator Attention through the real server, and cases of our own beside
them where they leave something untried. docs/conformance.md has a table of what each became, made here.

usage: onnx_test.py SERVER-PROGRAM PROTOC REPOSITORY [--write-table]

Needs scripts/setup --interop. --write-table puts the table into the page; without it the test fails where they differ.
"""

import pathlib
import re
import sys
import unittest
import warnings
import zlib

import numpy as np
import onnx
import onnx.reference
from attend_service import AttendService
from onnx.backend.test.case.node import collect_testcases
from onnx_attention import INPUTS, OUTPUTS, Node, NodeMapping, outputs_by_schema
from oracle import ROUNDOFF, assert_within
from page_table import PageTable

SERVER, PROTOC, REPOSITORY = sys.argv[1:4]
PAGE = pathlib.Path(REPOSITORY, "docs", "conformance.md")
CASES = 93
INSTRUCTION_SETS = ("avx2", "avx512", "avx512_bf16", "amx")
# Inputs and attributes that a case may have without its expected outputs depending on them.
TRIED = ("attn_mask", "nonpad_kv_seqlen", "is_causal", "left_window_size", "right_window_size", "softcap", "scale")


class OnnxCase:
    """One node test of ONNX."""

    def __init__(self, case):
        node, = case.model.graph.node
        (inputs, outputs), = case.data_sets
        self.name = case.name.removeprefix("test_")
        self.opset = case.model.opset_import[0].version
        self.relative, self.absolute = case.rtol, case.atol
        names = [formal for formal, actual in zip(INPUTS, node.input) if actual]
        attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
        wanted = tuple(name for name in node.output if name)
        self.node = Node(dict(zip(names, inputs, strict=True)), attributes, wanted)
        self.expected = dict(zip(wanted, outputs, strict=True))

    def tolerance(self, array):
        """The suite's own: two units in the last place of bfloat16 where the type is that."""
        return max(self.relative, 2.0**-6) if array.dtype.name == "bfloat16" else self.relative

    def assert_expected(self, outputs):
        for name, expected in self.expected.items():
            got = outputs[name]
            if got.dtype != expected.dtype or got.shape != expected.shape:
                raise AssertionError(f"{name}: {got.dtype} {got.shape}, expected {expected.dtype} {expected.shape}")
            np.testing.assert_allclose(got.astype(np.float64), expected.astype(np.float64), self.tolerance(expected),
                                       self.absolute, err_msg=name)

    def idle_parts(self):
        """Those of TRIED without which the case's expected outputs are as right."""
        return [name for name in TRIED
                if (name in self.node.inputs or name in self.node.attributes) and self._is_idle(name)]

    def _is_idle(self, name):
        outputs, _ = outputs_by_schema(self.node.without(name))
        return all(np.allclose(outputs[n], expected.astype(np.float64), self.tolerance(expected), self.absolute,
                               equal_nan=True) for n, expected in self.expected.items())


def collect():
    """The node tests of Attention itself: their twins "expanded" are other operators' graphs with the same numbers."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = collect_testcases("Attention")
    return [OnnxCase(case) for case in found if [n.op_type for n in case.model.graph.node] == ["Attention"]]


def random_inputs(inputs, name):
    """Inputs of these shapes and types: normal elements, and a mask that excludes about half of the keys. The seed is
    the name's CRC."""
    generator = np.random.default_rng(zlib.crc32(name.encode()))

    def random(array):
        normal = generator.standard_normal(array.shape)
        return normal > 0 if array.dtype == np.bool_ else normal.astype(array.dtype)

    made = {name: random(array) for name, array in inputs.items() if array.dtype != np.int64}
    if "attn_mask" in made and made["attn_mask"].dtype != np.bool_:
        made["attn_mask"][generator.random(made["attn_mask"].shape) < 0.5] = -np.inf
    return made


def evaluate_by_onnx(node):
    """The node's outputs by ONNX's own reference evaluator, opset 25."""
    inputs = [name if name in node.inputs else "" for name in INPUTS]
    outputs = [name if name in node.outputs else "" for name in OUTPUTS]
    proto = onnx.helper.make_node("Attention", inputs, outputs, **node.attributes)
    types = {name: onnx.helper.np_dtype_to_tensor_dtype(array.dtype) for name, array in node.inputs.items()}
    graph = onnx.helper.make_graph(
        [proto], "attention", [onnx.helper.make_tensor_value_info(name, t, None) for name, t in types.items()],
        [onnx.helper.make_tensor_value_info(name, types["Q"], None) for name in node.outputs])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 25)])
    return dict(zip(node.outputs, onnx.reference.ReferenceEvaluator(model).run(list(node.outputs), node.inputs)))


def own_cases(cases):
    """Name and node of what the suite leaves untried."""
    by_name = {case.name: case.node for case in cases}

    def changed(name, inputs=None, attributes=None, outputs=None):
        node = by_name[name]
        return Node({**node.inputs, **(inputs or {})}, {**node.attributes, **(attributes or {})},
                    outputs or node.outputs)

    def with_random_inputs(name, shapes_of=None):
        inputs = {**by_name[name].inputs, **(shapes_of or {})}
        return changed(name, random_inputs(inputs, name))

    for case in cases:
        if "attn_mask" in case.idle_parts():
            yield f"{case.name}, a mask that excludes", with_random_inputs(case.name)
    name = "attention_local_window_gqa_rank4_mask"
    yield f"{name}, a mask that differs by head", with_random_inputs(name)
    name = "attention_4d_diff_heads_mask4d_padded_kv"
    yield f"{name}, a boolean mask", with_random_inputs(name, {"attn_mask": np.ones((2, 1, 4, 5), bool)})
    for name in ("attention_4d_with_qk_matmul_softcap", "attention_3d_with_past_and_present_qk_matmul_softcap"):
        yield f"{name}, mode 0", changed(name, attributes={"qk_matmul_output_mode": 0})
    name = "attention_4d_causal_nonpad_attn_mask_composition"
    for mode in range(4):
        yield f"{name}, mode {mode}", changed(name, attributes={"qk_matmul_output_mode": mode, "softcap": 0.5},
                                              outputs=("Y", "qk_matmul_output"))
    for name in ("attention_local_window_ext_cache_rank3_head_mask", "attention_local_window_with_past"):
        yield f"{name}, not causal", changed(name, attributes={"is_causal": 0, "right_window_size": 1})


def table(cases):
    rows = [("case", "opset", "the request sets", "the client does", "without effect")]
    for case in cases:
        mapping = NodeMapping(case.node)
        rows.append((f"`{case.name}`", str(case.opset), "; ".join(mapping.request.describe()),
                     "; ".join(mapping.built), ", ".join(case.idle_parts())))
    return PageTable(PAGE, "onnx", rows)


def own_table(named_nodes):
    rows = [("case", "the request sets", "the client does")]
    for name, node in named_nodes:
        mapping = NodeMapping(node)
        rows.append((name, "; ".join(mapping.request.describe()), "; ".join(mapping.built)))
    return PageTable(PAGE, "onnx-own", rows)


class PageTest(unittest.TestCase):
    """What docs/conformance.md says."""

    maxDiff = None

    def test_number_of_cases(self):
        self.assertEqual(len(CASES_OF_ONNX), CASES)
        self.assertEqual({case.opset for case in CASES_OF_ONNX}, {23, 24, 25})

    def test_tables(self):
        for made in TABLES:
            self.assertEqual(made.text(), made.text_in_page(), "make it anew with --write-table")

    def test_names_of_tests(self):
        for name in re.findall(r"`onnx: (\w+)`", PAGE.read_text()):
            self.assertTrue(hasattr(OnnxCases, name), name)

    def test_own_masks_exclude_something(self):
        for name, node in OWN_CASES:
            if "attn_mask" in node.inputs:
                with self.subTest(name):
                    with_mask, _ = outputs_by_schema(node)
                    without, _ = outputs_by_schema(node.without("attn_mask"))
                    self.assertFalse(np.allclose(with_mask["Y"], without["Y"], 0.01))


class OnnxCases:
    """One test for each case, added by add_tests()."""

    instruction_set = None

    @classmethod
    def setUpClass(cls):
        cls.service = cls.enterClassContext(AttendService(SERVER, PROTOC, pathlib.Path(REPOSITORY, "proto"),
                                                          f"--max_instruction_set={cls.instruction_set}"))

    def outputs_of(self, node):
        mapping = NodeMapping(node)
        return mapping.outputs(self.service.attend(mapping.request))

    def assert_within_bounds(self, node, outputs):
        """By the rule of docs/semantics.md; copies are exact."""
        expected, limits = outputs_by_schema(node)
        for name, want in expected.items():
            if name not in limits:
                np.testing.assert_array_equal(outputs[name], want, name)
                continue
            limit, dtype = limits[name], outputs[name].dtype
            if name == "qk_matmul_output" and dtype != np.float32:
                limit.relative += ROUNDOFF[dtype]  # the client has rounded it
            assert_within(outputs[name], want, limit, name)

    def test_scores_of_mode_0_are_raw_though_the_evaluator_caps_them(self):
        for name, node in OWN_CASES:
            if node.attribute("softcap") and node.mode() == "SCALED":
                with self.subTest(name):
                    raw, limits = outputs_by_schema(node.without("softcap"))
                    capped, _ = outputs_by_schema(node.with_attribute("qk_matmul_output_mode", 1))
                    ours, theirs = (outputs["qk_matmul_output"] for outputs in
                                    (self.outputs_of(node), evaluate_by_onnx(node)))
                    assert_within(ours, raw["qk_matmul_output"], limits["qk_matmul_output"], "ours")
                    np.testing.assert_allclose(theirs, capped["qk_matmul_output"], 1e-5, 1e-6)
                    self.assertFalse(np.allclose(ours, theirs, 1e-2))


def add_tests():
    """A class for each instruction set; one beyond the processor's is emulated or left unused by the server."""
    def run_suite_case(case):
        def run(self):
            outputs = self.outputs_of(case.node)
            case.assert_expected(outputs)
            self.assert_within_bounds(case.node, outputs)
        return run

    def run_own_case(node):
        return lambda self: self.assert_within_bounds(node, self.outputs_of(node))

    for case in CASES_OF_ONNX:
        setattr(OnnxCases, f"test_{case.name}", run_suite_case(case))
    for name, node in OWN_CASES:
        setattr(OnnxCases, f"test_own_{name}".replace(" ", "_").replace(",", ""), run_own_case(node))
    for name in INSTRUCTION_SETS:
        globals()[f"Onnx_{name}_Test"] = type(f"Onnx_{name}_Test", (OnnxCases, unittest.TestCase),
                                              {"instruction_set": name})


CASES_OF_ONNX = collect()
OWN_CASES = list(own_cases(CASES_OF_ONNX))
TABLES = [table(CASES_OF_ONNX), own_table(OWN_CASES)]

if __name__ == "__main__":
    if sys.argv[4:] == ["--write-table"]:
        for made in TABLES:
            made.write()
    else:
        add_tests()
        unittest.main(argv=sys.argv[:1] + sys.argv[4:])
