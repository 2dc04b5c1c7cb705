"""Attention in double precision as docs/semantics.md has it, and how much a result may differ from it: the rule of
"How correct", with the plain calculation in the request's own type as its yardstick. tests/testing holds the same in
C++; this one is for tests whose other side is in Python.

Query, key and value are [batch, heads, length, dim]; bias and visible broadcast to
[batch, query_heads, query_length, key_length].
"""

import dataclasses

import ml_dtypes
import numpy as np

ROUNDOFF = {np.dtype(np.float32): 2.0**-24, np.dtype(ml_dtypes.bfloat16): 2.0**-8, np.dtype(np.float16): 2.0**-11}


@dataclasses.dataclass
class Problem:
    """What is computed, whoever's words it was asked in."""
    query: np.ndarray
    key: np.ndarray
    value: np.ndarray
    scale: float = None
    softcap: float = 0.0
    bias: np.ndarray = None
    visible: np.ndarray = None

    def shape(self):
        return (*self.query.shape[:3], self.key.shape[2])

    def factor(self):
        return 1 / np.sqrt(self.query.shape[3]) if self.scale is None else self.scale

    def visible_keys(self):
        """Which query sees which key: what `visible` allows and no bias of -inf excludes."""
        seen = np.ones(self.shape(), bool) if self.visible is None else np.broadcast_to(self.visible, self.shape())
        return seen if self.bias is None else seen & ~np.isneginf(self.bias.astype(np.float64))


@dataclasses.dataclass
class Results:
    """scaled and softcapped are for every key, masked has -inf where a key is excluded."""
    output: np.ndarray
    weights: np.ndarray
    scaled: np.ndarray
    softcapped: np.ndarray
    masked: np.ndarray
    logsumexp: np.ndarray


@dataclasses.dataclass
class Bound:
    """|got - want| <= absolute + relative * |want|."""
    absolute: float
    relative: float

    def twice(self):
        """For two results that may each be as far from the oracle."""
        return Bound(2 * self.absolute, 2 * self.relative)


def _per_query_head(tensor, query_heads):
    return np.repeat(tensor, query_heads // tensor.shape[1], axis=1)


def _weighted_sum(weights, value, visible):
    if np.isfinite(value).all():
        return weights @ value
    products = np.where(visible[..., None], weights[..., None] * value[:, :, None], 0)
    return products.sum(axis=-2)


def _calculate(problem, dtype, rounded_scores, rounded):
    """The calculation in `dtype`, with scores and results rounded by the functions given."""
    heads = problem.query.shape[1]
    query, key, value = (tensor.astype(dtype) for tensor in (problem.query, problem.key, problem.value))
    visible = problem.visible_keys()
    with np.errstate(all="ignore"):
        products = query @ _per_query_head(key, heads).swapaxes(2, 3)
        scaled = rounded_scores(rounded_scores(products) * dtype(problem.factor()))
        softcap = dtype(problem.softcap)
        softcapped = rounded_scores(softcap * np.tanh(scaled / softcap)) if softcap else scaled
        biased = softcapped if problem.bias is None else rounded_scores(softcapped + problem.bias.astype(dtype))
        masked = np.where(visible, biased, dtype(-np.inf))
        largest = masked.max(axis=-1, keepdims=True, initial=-np.inf)
        seen = visible.any(axis=-1, keepdims=True)
        exponentials = np.where(visible, np.exp(masked - np.where(seen, largest, 0)), 0)
        total = exponentials.sum(axis=-1, keepdims=True)
        weights = rounded(np.where(seen, exponentials / np.where(seen, total, 1), 0))
        output = rounded(_weighted_sum(weights, _per_query_head(value, heads), visible))
        logsumexp = np.where(seen, largest + np.log(total), -np.inf)[..., 0]
    return Results(output, weights, scaled, softcapped, masked, logsumexp)


def compute(problem):
    """The oracle: double precision throughout."""
    return _calculate(problem, np.float64, lambda x: x, lambda x: x)


def _rounding_to(dtype):
    def rounded(array):
        return array.astype(dtype, copy=False).astype(np.float32, copy=False)
    return rounded


def _scores_rounding_to(dtype):
    """As _rounding_to, but a score that overflows the type is kept."""
    def rounded(array):
        if dtype == array.dtype:
            return array
        narrow = array.astype(dtype).astype(np.float32)
        return np.where(np.isinf(narrow), array, narrow)
    return rounded


def _largest(array):
    finite = np.abs(array[np.isfinite(array)])
    return float(finite.max()) if finite.size else 0.0


def _largest_error(naive, oracle):
    with np.errstate(invalid="ignore"):
        return _largest(naive.astype(np.float64) - oracle)


class Bounds:
    """How far a result may be from the oracle: made of the largest errors of the yardsticks over the whole tensor, so
    of all parts of a problem that were added."""

    STAGES = ("scaled", "softcapped", "masked")

    def __init__(self, dtype):
        self._dtype = np.dtype(dtype)
        self._scores = {np.dtype(np.float32), self._dtype}  # the yardsticks differ in the type of their scores
        self._errors = {}
        self._largest_value = self._largest_score = 0.0

    def add(self, problem, oracle):
        """Measures the yardsticks on a problem of which `oracle` has the results."""
        float32 = _calculate(problem, np.float32, _rounding_to(np.float32), _rounding_to(np.float32))
        for name in (*self.STAGES, "logsumexp"):
            self._add_error(name, getattr(float32, name), getattr(oracle, name))
        for scores in self._scores:
            naive = float32
            if self._dtype != np.float32:
                naive = _calculate(problem, np.float32, _scores_rounding_to(scores), _rounding_to(self._dtype))
            for name in ("output", "weights"):
                self._add_error((name, scores), getattr(naive, name), getattr(oracle, name))
        visible = problem.visible_keys()
        self._largest_score = max(self._largest_score, _largest(oracle.masked[visible]))
        seen = visible.reshape(visible.shape[0], problem.value.shape[1], -1, visible.shape[3]).any(axis=2)
        self._largest_value = max(self._largest_value, _largest(problem.value[seen].astype(np.float64)))

    def _add_error(self, key, naive, oracle):
        self._errors[key] = max(self._errors.get(key, 0.0), _largest_error(naive, oracle))

    def of(self, name):
        """The Bound of a result, by its name in Results."""
        if name in self.STAGES:
            return Bound(2 * self._errors[name] + 1e-5, 5e-6)
        if name == "logsumexp":
            return Bound(2 * self._errors[name] + (1e-5 if self._dtype == np.float32 else 1.25e-4), 5e-6)
        naive = min(self._errors[name, scores] for scores in self._scores)
        rounding = 2.0**-24 * min(self._largest_score, 1e5)  # one rounding of a score
        size = self._largest_value if name == "output" else 1
        return Bound(2 * naive + 1e-5 * min(1, size) + rounding * size, max(ROUNDOFF[self._dtype], 5e-6))


def bounds(problem, oracle):
    """The Bounds of one problem of which `oracle` has the results."""
    result = Bounds(problem.query.dtype)
    result.add(problem, oracle)
    return result


def assert_within(got, want, bound, what):
    """Raises AssertionError, which names the worst element, unless got is within the bound of want everywhere; where
    want is not finite, got must be the same."""
    if got.shape != want.shape:
        raise AssertionError(f"{what}: shape {got.shape}, expected {want.shape}")
    got = got.astype(np.float64)
    allowed = bound.absolute + bound.relative * np.abs(want)
    with np.errstate(invalid="ignore"):
        error = np.where((got == want) | (np.isnan(got) & np.isnan(want)), 0, np.abs(got - want))
        excess = np.where(np.isfinite(want), error - allowed, error)
    excess = np.where(np.isnan(excess), np.inf, excess)
    if excess.size and excess.max() > 0:
        at = np.unravel_index(excess.argmax(), excess.shape)
        raise AssertionError(f"{what}: element {tuple(map(int, at))} is {got[at]:.9g}, expected {want[at]:.9g}"
                             f" within {allowed[at]:.3g}; {int((excess > 0).sum())} of {excess.size} are outside")
