#!/usr/bin/env python3
"""The oracle against numbers worked by hand, and its bounds against results that are wrong.

usage: oracle_test.py
"""

import math
import unittest

import ml_dtypes
import numpy as np
from oracle import Bound, Problem, assert_within, bounds, compute

NAN, INFINITY = math.nan, math.inf


def one_head(rows, dtype=np.float32):
    return np.array([[rows]], dtype)


def problem_of_scores(scores, values, **settings):
    """One query whose scaled scores are these: its only element is 1, and so is the scale."""
    return Problem(one_head([[1]]), one_head([[s] for s in scores]), one_head([[v] for v in values]), scale=1.0,
                   **settings)


class OracleTest(unittest.TestCase):

    def assert_close(self, got, want, places=12):
        np.testing.assert_allclose(np.ravel(got), np.ravel(want), rtol=10.0**-places, atol=10.0**-places)

    def test_worked_example(self):
        query = one_head([[1, 0, 0.5, 1]], np.float64)
        key = one_head([[1, 0, 0.8, 1], [0, 1, 0.2, 0], [0.2, 0.2, 0.4, 0.1]], np.float64)
        value = one_head([[0.9, 0.1, 0.7, 0.8], [0.1, 0.9, 0.2, 0.1], [0.3, 0.3, 0.5, 0.2]], np.float64)
        results = compute(Problem(query, key, value))
        self.assert_close(results.scaled, [1.2, 0.05, 0.25])
        self.assert_close(results.weights, [0.5871, 0.1859, 0.2270], 4)
        self.assert_close(results.output, [0.6151, 0.2941, 0.5616, 0.5337], 4)

    def test_weights_of_logarithms_are_ratios(self):
        results = compute(problem_of_scores([0, 0, 0], [8, 4, 2], bias=np.log([[1, 2, 5]])))
        self.assert_close(results.weights, [1 / 8, 2 / 8, 5 / 8])
        self.assert_close(results.output, [8 / 8 + 8 / 8 + 10 / 8])
        self.assert_close(results.logsumexp, math.log(8))

    def test_softcap_comes_before_the_bias(self):
        results = compute(problem_of_scores([3, 0], [1, 0], softcap=2.0, bias=np.array([[10, -INFINITY]])))
        self.assert_close(results.scaled, [3, 0])
        self.assert_close(results.softcapped, [2 * math.tanh(1.5), 0])
        self.assert_close(results.masked, [10 + 2 * math.tanh(1.5), -INFINITY])
        self.assert_close(results.weights, [1, 0])

    def test_excluded_keys_are_not_there(self):
        for settings in ({"visible": np.array([[True, False]])}, {"bias": np.array([[0, -INFINITY]])}):
            results = compute(problem_of_scores([1, NAN], [5, NAN], **settings))
            self.assert_close(results.output, [5])
            self.assert_close(results.weights, [1, 0])
            self.assert_close(results.logsumexp, [1])

    def test_a_row_without_keys_is_zero(self):
        results = compute(problem_of_scores([1, NAN], [5, NAN], visible=np.array([[False, False]])))
        self.assert_close(results.output, [0])
        self.assert_close(results.weights, [0, 0])
        self.assert_close(results.logsumexp, [-INFINITY])

    def test_what_is_seen_makes_its_row_nan(self):
        for scores in ([NAN, 0], [INFINITY, 0], [-INFINITY, -INFINITY]):
            self.assertTrue(np.isnan(compute(problem_of_scores(scores, [1, 1])).output).all(), scores)

    def test_large_negative_bias_is_just_a_number(self):
        lowest = np.finfo(np.float32).min
        results = compute(problem_of_scores([1, 1], [2, 4], bias=np.array([[lowest, lowest]])))
        self.assert_close(results.output, [3])

    def test_grouped_heads_read_their_key_head(self):
        query = np.zeros((1, 4, 1, 1), np.float32)
        value = np.array([1, 2], np.float32).reshape(1, 2, 1, 1)
        self.assert_close(compute(Problem(query, np.zeros_like(value), value)).output, [1, 1, 2, 2])

    def test_bounds_grow_with_the_type_and_the_values(self):
        generator = np.random.default_rng(1)
        shape = (1, 2, 16, 8)
        tensors = [generator.standard_normal(shape) for _ in range(3)]
        sizes = []
        for dtype in (np.float32, np.float16, ml_dtypes.bfloat16):
            problem = Problem(*(tensor.astype(dtype) for tensor in tensors))
            limit = bounds(problem, compute(problem)).of("output")
            sizes.append(limit.absolute)
            self.assertEqual(limit.relative, {np.float32: 5e-6, np.float16: 2.0**-11}.get(dtype, 2.0**-8))
        self.assertGreaterEqual(sizes[0], 1e-5)
        self.assertLess(sizes[0], 3e-5)
        self.assertLess(sizes[0], sizes[1])
        self.assertLess(sizes[1], sizes[2])

    def test_what_nobody_sees_widens_no_bound(self):
        seen = problem_of_scores([1, 1], [1, 1], visible=np.array([[True, False]]))
        unseen = problem_of_scores([1, 1e6], [1, 1e6], visible=np.array([[True, False]]))
        limits = [bounds(problem, compute(problem)).of("output") for problem in (seen, unseen)]
        self.assertEqual(*limits)

    def test_wrong_results_are_outside(self):
        want = np.array([1.0, 0.0, NAN, -INFINITY])
        limit = Bound(1e-5, 5e-6)
        assert_within(want.copy(), want, limit, "right")
        for at, wrong in ((0, 1.0001), (1, 1e-4), (2, 1.0), (3, -1e30), (0, NAN), (3, INFINITY)):
            got = want.copy()
            got[at] = wrong
            with self.assertRaisesRegex(AssertionError, rf"element \({at},\)"):
                assert_within(got, want, limit, "wrong")
        with self.assertRaisesRegex(AssertionError, "shape"):
            assert_within(want[:2], want, limit, "wrong")


if __name__ == "__main__":
    unittest.main()
