"""ONNX's operator Attention (opsets 23 to 25) as requests to Attend, and as the schema defines it.

A node is its inputs and attributes by the names of the schema, and the set of outputs that are wanted.
"""

import dataclasses

import numpy as np
from attend_service import Request
from oracle import Problem, bounds, compute

INPUTS = ("Q", "K", "V", "attn_mask", "past_key", "past_value", "nonpad_kv_seqlen")
OUTPUTS = ("Y", "present_key", "present_value", "qk_matmul_output")
# What qk_matmul_output is in each qk_matmul_output_mode: a stage of the scores, or the weights.
MODES = ("SCALED", "SOFTCAPPED", "MASKED", "weights")


@dataclasses.dataclass
class Node:
    inputs: dict
    attributes: dict
    outputs: tuple

    def without(self, name):
        """The node with this input or attribute left out."""
        return Node({k: v for k, v in self.inputs.items() if k != name},
                    {k: v for k, v in self.attributes.items() if k != name}, self.outputs)

    def with_attribute(self, name, value):
        return Node(self.inputs, {**self.attributes, name: value}, self.outputs)

    def attribute(self, name, default=0):
        return self.attributes.get(name, default)

    def mode(self):
        return MODES[self.attribute("qk_matmul_output_mode")]


def _split_heads(tensor, heads):
    """[batch, length, heads * dim] as [batch, length, heads, dim]."""
    return tensor.reshape(*tensor.shape[:2], heads, tensor.shape[2] // heads)


def _swap_axes(tensor):
    return tensor.swapaxes(1, 2)


class NodeMapping:
    """The request that computes a node, `built`: what the client does besides, and `outputs`, from the results."""

    def __init__(self, node):
        self._node = node
        self.built = []
        self._rank3 = node.inputs["Q"].ndim == 3
        query, key, value = self._split()
        key, value = self._join_past(key, value)
        options = {"layout": "BNHD"} if self._rank3 else {}
        for name in ("scale", "softcap"):
            if name in node.attributes:
                options[name] = node.attributes[name]
        options.update(self._positions(query.shape[0], query.shape[1 if self._rank3 else 2]))
        options.update(self._mask(key.shape[1 if self._rank3 else 2]))
        self.request = Request(query, key, value, options, self._results())

    def _split(self):
        tensors = [self._node.inputs[name] for name in ("Q", "K", "V")]
        if not self._rank3:
            return tensors
        self.built.append("heads split")
        query_heads, kv_heads = self._node.attribute("q_num_heads"), self._node.attribute("kv_num_heads")
        return [_split_heads(tensor, heads) for tensor, heads in zip(tensors, (query_heads, kv_heads, kv_heads))]

    def _join_past(self, key, value):
        """The cache is [batch, heads, length, dim] whatever the rank of K and V."""
        self._present = (_swap_axes(key), _swap_axes(value)) if self._rank3 else (key, value)
        if "past_key" in self._node.inputs:
            self.built.append("cache joined")
            self._present = tuple(np.concatenate((self._node.inputs[name], new), axis=2)
                                  for name, new in zip(("past_key", "past_value"), self._present))
        return tuple(_swap_axes(tensor) for tensor in self._present) if self._rank3 else self._present

    def _positions(self, batch, query_length):
        """Causal mask, windows, lengths, and where the queries stand among the keys."""
        node, options = self._node, {}
        windows = {f"window_{side}": node.attributes[f"{side}_window_size"]
                   for side in ("left", "right") if f"{side}_window_size" in node.attributes}
        placed = node.attribute("is_causal") or any(bound >= 0 for bound in windows.values())
        if "nonpad_kv_seqlen" in node.inputs:
            lengths = node.inputs["nonpad_kv_seqlen"].tolist()
            options["key_lengths"] = lengths
            if node.attribute("is_causal"):
                options["causal"] = "BOTTOM_RIGHT"
            elif placed:
                options["query_offset"] = [length - query_length for length in lengths]
        else:
            if node.attribute("is_causal"):
                options["causal"] = "TOP_LEFT"
            if placed and "past_key" in node.inputs:
                options["query_offset"] = [node.inputs["past_key"].shape[2]] * batch
        return {**options, **windows}

    def _mask(self, key_length):
        mask = self._node.inputs.get("attn_mask")
        if mask is None:
            return {}
        if mask.ndim == 1:
            self.built.append("mask made rank 2")
            mask = mask[None]
        missing = key_length - mask.shape[-1]
        if missing > 0:
            self.built.append("mask padded with " + ("false" if mask.dtype == np.bool_ else "-inf"))
            padding = np.full((*mask.shape[:-1], missing), False if mask.dtype == np.bool_ else -np.inf, mask.dtype)
            mask = np.concatenate((mask, padding), axis=-1)
        return {"mask" if mask.dtype == np.bool_ else "bias": mask}

    def _results(self):
        node = self._node
        if "softmax_precision" in node.attributes:
            self.built.append("softmax_precision left out")
        if "qk_matmul_output" not in node.outputs:
            return {}
        if node.inputs["Q"].dtype != np.float32:
            self.built.append("qk_matmul_output rounded from float32")
        return {"weights": True} if node.mode() == "weights" else {"scores": node.mode()}

    def outputs(self, results):
        """The node's outputs by name, from the results of the request."""
        output = results["output"]
        outputs = {"Y": output.reshape(*output.shape[:2], -1) if self._rank3 else output}
        outputs["present_key"], outputs["present_value"] = self._present
        if "qk_matmul_output" in self._node.outputs:
            name = "weights" if self._node.mode() == "weights" else "scores"
            outputs["qk_matmul_output"] = results[name].astype(self._node.inputs["Q"].dtype)
        return {name: outputs[name] for name in self._node.outputs}


def _heads_and_past(node):
    """Q and, with the past in front, K and V, all [batch, heads, length, dim]; and the past's length."""
    query, key, value = (node.inputs[name] for name in ("Q", "K", "V"))
    if query.ndim == 3:
        heads = [node.attribute(name) for name in ("q_num_heads", "kv_num_heads", "kv_num_heads")]
        query, key, value = (np.stack(np.split(tensor, count, axis=2), axis=1)
                             for tensor, count in zip((query, key, value), heads))
    if "past_key" not in node.inputs:
        return query, key, value, 0
    past_key, past_value = node.inputs["past_key"], node.inputs["past_value"]
    return (query, np.concatenate((past_key, key), axis=2), np.concatenate((past_value, value), axis=2),
            past_key.shape[2])


def _visible_by_position(node, query_length, key_length, past):
    """[batch or 1, 1, query_length, key_length]: what nonpad_kv_seqlen, is_causal and the windows leave."""
    lengths = node.inputs.get("nonpad_kv_seqlen")
    offset = np.array([past]) if lengths is None else lengths - query_length
    position = offset.reshape(-1, 1, 1, 1) + np.arange(query_length)[:, None]
    column = np.arange(key_length)
    visible = np.ones(position.shape[:3] + (key_length,), bool)
    if lengths is not None:
        visible &= column < lengths.reshape(-1, 1, 1, 1)
    if node.attribute("is_causal"):
        visible &= column <= position
    if node.attribute("left_window_size", -1) >= 0:
        visible &= column >= position - node.attribute("left_window_size")
    if node.attribute("right_window_size", -1) >= 0:
        visible &= column <= position + node.attribute("right_window_size")
    return visible


def problem_by_schema(node):
    """The node as a problem for the oracle, from the schema's text and not from NodeMapping."""
    query, key, value, past = _heads_and_past(node)
    visible = _visible_by_position(node, query.shape[2], key.shape[2], past)
    bias = None
    if "attn_mask" in node.inputs:
        mask = node.inputs["attn_mask"]
        padding = [(0, 0)] * (mask.ndim - 1) + [(0, key.shape[2] - mask.shape[-1])]
        if mask.dtype == np.bool_:
            visible = visible & np.pad(mask, padding)
        else:
            bias = np.pad(mask.astype(np.float64), padding, constant_values=-np.inf)
    return Problem(query, key, value, node.attributes.get("scale"), node.attribute("softcap"), bias, visible)


def outputs_by_schema(node):
    """The node's outputs in double precision, and the Bound of those that are computed."""
    problem = problem_by_schema(node)
    results = compute(problem)
    limits = bounds(problem, results)
    output = results.output
    if node.inputs["Q"].ndim == 3:
        output = np.concatenate([output[:, head] for head in range(output.shape[1])], axis=-1)
    stage = node.mode().lower()
    outputs = {"Y": output, "present_key": problem.key, "present_value": problem.value,
               "qk_matmul_output": getattr(results, stage)}
    return {name: outputs[name] for name in node.outputs}, {"Y": limits.of("output"),
                                                            "qk_matmul_output": limits.of(stage)}
