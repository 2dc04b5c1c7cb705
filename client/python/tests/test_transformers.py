"""Models of Hugging Face Transformers with attn_implementation="attend", beside "eager" with the same weights.

The models are small and their weights random: drawn wide enough for attention to be sharp and for every option to
matter, which test_options_matter shows.
"""

import re

import pytest
import torch
import transformers
from conftest import REPOSITORY, running_server

import attend
import attend.aio
import attend.transformers

torch.set_num_threads(1)
SMALL = {"vocab_size": 97, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 3, "num_attention_heads": 4,
         "max_position_embeddings": 64, "initializer_range": 0.3, "pad_token_id": 0, "bos_token_id": 1}
GROUPED = {**SMALL, "num_key_value_heads": 2, "head_dim": 16, "eos_token_id": None}
WINDOWS = {"sliding_window": 4, "layer_types": ["sliding_attention", "full_attention", "sliding_attention"]}
CONFIGS = {
    "llama": transformers.LlamaConfig(**GROUPED),
    "gemma2": transformers.Gemma2Config(**GROUPED, **WINDOWS, attn_logit_softcapping=2.0, query_pre_attn_scalar=40),
    "gpt_oss": transformers.GptOssConfig(**GROUPED, **WINDOWS, num_local_experts=4, num_experts_per_tok=2),
    "bert": transformers.BertConfig(**SMALL),
    "t5": transformers.T5Config(vocab_size=97, d_model=64, d_kv=16, d_ff=96, num_layers=2, num_heads=4,
                                relative_attention_num_buckets=8, decoder_start_token_id=0, eos_token_id=None),
}
CAUSAL = ("llama", "gemma2", "gpt_oss")
KINDS = {**dict.fromkeys(CAUSAL, transformers.AutoModelForCausalLM), "bert": transformers.AutoModel,
         "t5": transformers.AutoModelForSeq2SeqLM}
LENGTH = 9
TOKENS = torch.randint(2, 97, (3, LENGTH), generator=torch.Generator().manual_seed(5))
PADDINGS = {
    "none": torch.ones(3, LENGTH, dtype=torch.long),
    "left": torch.tensor([[0] * 4 + [1] * 5, [1] * 9, [0] + [1] * 8]),
    "right": torch.tensor([[1] * 5 + [0] * 4, [1] * 9, [1] * 8 + [0]]),
}


class Spy:
    """A client that keeps the options of each call, and can leave some out."""

    def __init__(self, client, without=()):
        self._client, self._without = client, without
        self.calls = []

    def attention(self, *tensors, **options):
        self.calls.append(options)
        return self._client.attention(*tensors, **{name: value for name, value in options.items()
                                                   if name not in self._without})


@pytest.fixture
def spy(client):
    spy = Spy(client)
    attend.transformers.register(spy)
    return spy


def model_of(name, implementation, dtype=torch.float32, **settings):
    """With the same weights for every implementation and type."""
    torch.manual_seed(11)
    config = CONFIGS[name].__class__.from_dict({**CONFIGS[name].to_dict(), **settings})
    model = KINDS[name].from_config(config, attn_implementation=implementation)
    for parameter_name, parameter in model.named_parameters():
        if parameter_name.endswith(("sinks", "relative_attention_bias.weight")):
            torch.nn.init.normal_(parameter, std=2)
    return model.to(dtype).eval()


def inputs_of(name, padding):
    inputs = {"input_ids": TOKENS, "attention_mask": PADDINGS[padding]}
    return {**inputs, "decoder_input_ids": TOKENS[:, :5]} if name == "t5" else inputs


def scores_of(model, **inputs):
    with torch.no_grad():
        output = model(**inputs)
    return output.logits if hasattr(output, "logits") else output.last_hidden_state


def generate(model, padding="none", **settings):
    with torch.no_grad():
        return model.generate(TOKENS, attention_mask=PADDINGS[padding], max_new_tokens=20, min_new_tokens=20,
                              do_sample=False, pad_token_id=0, **settings)


@pytest.mark.parametrize("padding", PADDINGS)
@pytest.mark.parametrize("name", CONFIGS)
def test_logits(spy, name, padding):
    want = scores_of(model_of(name, "eager"), **inputs_of(name, padding))
    got = scores_of(model_of(name, "attend"), **inputs_of(name, padding))
    torch.testing.assert_close(got, want, rtol=0, atol=1e-4)
    assert want.abs().max() > 1 and len(spy.calls) == (6 if name == "t5" else 3)


@pytest.mark.parametrize("cache", ["dynamic", "static"])
@pytest.mark.parametrize("padding", ["none", "left"])
@pytest.mark.parametrize("name", CAUSAL)
def test_greedy_generation(spy, name, padding, cache):
    want = generate(model_of(name, "eager"), padding)
    got = generate(model_of(name, "attend"), padding, cache_implementation=cache)
    assert got.tolist() == want.tolist() and got.shape == (3, LENGTH + 20) and len(spy.calls) == 3 * 20


def test_generation_with_cross_attention(spy):
    want, got = (generate(model_of("t5", implementation), "right") for implementation in ("eager", "attend"))
    assert got.tolist() == want.tolist() and len(spy.calls) > 40


def test_prompt_in_pieces(spy):
    """Several queries on a cache that holds keys already."""
    model = model_of("llama", "attend")
    with torch.inference_mode():
        cache = model(TOKENS[:, :4], use_cache=True).past_key_values
        got = model(TOKENS[:, 4:], past_key_values=cache).logits
    torch.testing.assert_close(got, scores_of(model_of("llama", "eager"), input_ids=TOKENS)[:, 4:], rtol=0, atol=1e-4)


@pytest.mark.parametrize(("name", "option"), [("llama", "mask"), ("gemma2", "softcap"), ("gemma2", "scale"),
                                              ("gemma2", "mask"), ("gpt_oss", "sinks"), ("t5", "bias")])
def test_options_matter(client, name, option):
    attend.transformers.register(Spy(client, without=(option,)))
    got, want = (scores_of(model_of(name, implementation), **inputs_of(name, "none"))
                 for implementation in ("attend", "eager"))
    assert (got - want).abs().max() > 1e-2


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", ["llama", "bert", "gemma2"])
def test_half_precision(spy, name, dtype):
    """As near to the exact result as "eager" is, which rounds scores and weights to the type."""
    exact = scores_of(model_of(name, "eager", dtype).float(), **inputs_of(name, "left"))
    eager, got = (scores_of(model_of(name, implementation, dtype), **inputs_of(name, "left"))
                  for implementation in ("eager", "attend"))
    seen = PADDINGS["left"].bool()
    assert got.dtype == dtype
    assert (got - exact)[seen].norm() <= 1.5 * (eager - exact)[seen].norm()


@pytest.mark.parametrize("name", ["llama", "gpt_oss", "bert"])
def test_output_attentions(spy, name):
    with torch.no_grad():
        want, got = (model_of(name, implementation)(**inputs_of(name, "left"), output_attentions=True).attentions
                     for implementation in ("eager", "attend"))
    assert len(got) == 3
    for theirs, ours in zip(want, got):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-4)


def test_tensors_are_sent_as_they_lie(spy):
    scores_of(model_of("bert", "attend"), input_ids=TOKENS)
    assert [call.get("layout") for call in spy.calls] == ["bnhd"] * 3
    spy.calls.clear()
    generate(model_of("llama", "attend"))
    assert [call.get("layout") for call in spy.calls[3:]] == [None] * 3 * 19


def test_masks_of_other_numbers(spy):
    """Float masks of rank 4 that a caller makes are added; booleans and -inf hide."""
    numbers = torch.randn(3, 1, LENGTH, LENGTH, generator=torch.Generator().manual_seed(2))
    hidden = torch.ones(LENGTH, LENGTH, dtype=torch.bool).triu(1)
    infinite = torch.zeros(3, 1, LENGTH, LENGTH).masked_fill(hidden, -torch.inf)
    eager, model = model_of("llama", "eager"), model_of("llama", "attend")
    whole = torch.randint(-3, 3, (3, 1, LENGTH, LENGTH), generator=torch.Generator().manual_seed(3))
    for mask in (numbers, infinite, numbers.double(), whole):
        torch.testing.assert_close(scores_of(model, input_ids=TOKENS, attention_mask=mask),
                                   scores_of(eager, input_ids=TOKENS, attention_mask=mask), rtol=0, atol=1e-4)
    assert [("bias" in call, "mask" in call) for call in spy.calls] == (
        [(True, False)] * 3 + [(False, True)] * 3 + [(True, False)] * 6)
    torch.testing.assert_close(scores_of(model, input_ids=TOKENS, attention_mask=~hidden.expand(3, 1, -1, -1)),
                               scores_of(eager, input_ids=TOKENS), rtol=0, atol=1e-4)


def test_queries_without_keys_in_half_precision(spy):
    """The lowest number of float16 is no more than a number to the service, which adds in float32."""
    inputs = {"input_ids": TOKENS, "attention_mask": torch.tensor([[0] * 9, [1] * 9, [1] * 8 + [0]])}
    for dtype in (torch.float16, torch.bfloat16):
        want, got = (scores_of(model_of("bert", implementation, dtype), **inputs).float()
                     for implementation in ("eager", "attend"))
        torch.testing.assert_close(got, want, rtol=0, atol=0.1)
    assert all("bias" in call for call in spy.calls)


def test_masks_with_rows_of_minus_infinity(spy):
    """The service has 0 for a query that sees nothing, where "eager" has NaN, and "sdpa" 0."""
    hidden = torch.ones(LENGTH, LENGTH, dtype=torch.bool).triu(1)
    hidden[0] = True
    mask = torch.zeros(3, 1, LENGTH, LENGTH).masked_fill(hidden, -torch.inf)
    want, got = (scores_of(model_of("llama", implementation), input_ids=TOKENS, attention_mask=mask)
                 for implementation in ("sdpa", "attend"))
    torch.testing.assert_close(got, want, rtol=0, atol=1e-4)


def test_autocast(spy):
    """Tensors of two types, for positions are in float32, are cast as for any product."""
    def scores(implementation):
        with torch.autocast("cpu", torch.bfloat16):
            return scores_of(model_of("llama", implementation), input_ids=TOKENS, use_cache=False).float()

    exact = scores_of(model_of("llama", "eager"), input_ids=TOKENS)
    assert (scores("attend") - exact).norm() <= 1.5 * (scores("eager") - exact).norm()


def test_several_names_and_the_default_server(server, client, monkeypatch):
    monkeypatch.setenv("ATTEND_ADDRESS", server["grpc"])
    spy = Spy(client)
    attend.transformers.register()
    attend.transformers.register(spy, name="attend-other")
    model = model_of("llama", "attend")
    first = scores_of(model, input_ids=TOKENS)
    assert not spy.calls
    model.set_attn_implementation("attend-other")
    torch.testing.assert_close(scores_of(model, input_ids=TOKENS), first, rtol=0, atol=0)
    assert len(spy.calls) == 3


@pytest.mark.parametrize("wrong", ["127.0.0.1:8001", attend.aio.connect("127.0.0.1:8001")])
def test_clients_that_are_none(wrong):
    with pytest.raises(TypeError, match="must be made by attend.connect"):
        attend.transformers.register(wrong)


def test_example_of_the_page_runs(server, monkeypatch, capsys):
    monkeypatch.setenv("ATTEND_ADDRESS", server["grpc"])
    (example,) = re.findall(r"```python\n(.*?)```", (REPOSITORY / "docs" / "transformers.md").read_text(), re.DOTALL)
    exec(example, {})
    assert capsys.readouterr().out == "torch.Size([1, 8])\n"


def test_compiled_model(spy):
    """Compilers leave the call out of their graphs; where they must not, they say why they cannot."""
    model = model_of("llama", "attend")
    compiled = scores_of(torch.compile(model, backend="eager"), input_ids=TOKENS)
    torch.testing.assert_close(compiled, scores_of(model, input_ids=TOKENS), rtol=0, atol=1e-5)
    torch.compiler.reset()
    with pytest.raises(torch._dynamo.exc.Unsupported, match="computed by a server"):
        scores_of(torch.compile(model, backend="eager", fullgraph=True), input_ids=TOKENS)


# What is refused, by name, before anything is sent.

def refusal(words, field):
    class Refusal:
        def __enter__(self):
            self._raises = pytest.raises(attend.UnimplementedError, match=words)
            self._info = self._raises.__enter__()

        def __exit__(self, *error):
            self._raises.__exit__(*error)
            assert self._info.value.field == field and self._info.value.attempts == 0
            return True
    return Refusal()


def test_dropout_in_training(spy):
    model = model_of("llama", "attend", attention_dropout=0.1).train()
    with refusal(r"LlamaAttention asks its attention for dropout of 0\.1 in training: call model\.eval", "dropout"), \
            torch.no_grad():
        model(TOKENS)
    scores_of(model_of("llama", "attend").train(), input_ids=TOKENS)  # which has none


def test_gradients(spy):
    model = model_of("llama", "attend")
    with refusal("LlamaAttention asks its attention for gradients: .*no_grad", "gradients"):
        model(TOKENS)
    assert not spy.calls
    model.requires_grad_(False)
    assert model(TOKENS).logits.shape == (3, LENGTH, 97)


def test_gradients_forward(spy):
    model = model_of("bert", "attend")
    embeddings = torch.randn(1, 5, 64)
    with torch.autograd.forward_ad.dual_level(), torch.no_grad(), refusal("for gradients", "gradients"):
        model(inputs_embeds=torch.autograd.forward_ad.make_dual(embeddings, torch.randn(1, 5, 64)))


def test_traces(spy):
    model = model_of("bert", "attend").requires_grad_(False)
    model.config.return_dict = False
    with refusal("for a trace, which would keep the results", "tracing"):
        torch.jit.trace(model, (TOKENS,), check_trace=False)
    assert not spy.calls


def test_model_that_chooses_keys_by_an_index(spy):
    config = transformers.DeepseekV32Config(
        **SMALL, num_key_value_heads=4, n_routed_experts=4, num_experts_per_tok=2, n_group=1, topk_group=1,
        moe_intermediate_size=16, first_k_dense_replace=3, q_lora_rank=32, kv_lora_rank=16, qk_rope_head_dim=8,
        qk_nope_head_dim=8, v_head_dim=16, index_topk=4, index_n_heads=2, index_head_dim=16)
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="attend").eval()
    with refusal("DeepseekV32Attention asks its attention for indices, which", "indices"), torch.no_grad():
        model(TOKENS, attention_mask=PADDINGS["none"])
    assert not spy.calls


@pytest.mark.parametrize("name", ["block_indices", "cu_seq_lens_q", "cache", "sinks", "whatever_comes_next"])
def test_unknown_settings(spy, name):
    forward = transformers.AttentionInterface()["attend"]
    query = torch.randn(1, 2, 3, 4)
    with refusal(f"Module asks its attention for {name}, which this service does not know", name):
        forward(torch.nn.Module(), query, query, query, None, **{name: torch.zeros(1)})
    output, weights = forward(torch.nn.Module(), query, query, query, None, **{name: None})
    assert output.shape == (1, 3, 2, 4) and output.is_contiguous() and weights is None


def test_causal_attention_without_a_mask(spy):
    """Elsewhere it means one thing to "eager" and another to "sdpa"."""
    forward = transformers.AttentionInterface()["attend"]
    query = torch.randn(1, 2, 3, 4)
    module = torch.nn.Module()
    module.is_causal = True
    with refusal("is_causal without an attention_mask", "is_causal"):
        forward(module, query, query, query, None)
    forward(module, query, query, query, None, is_causal=False)
    forward(module, query[:, :, :1], query, query, None)
    module.is_causal, module.sinks = False, torch.zeros(2)
    with refusal("sinks that are not passed as s_aux", "sinks"):
        forward(module, query, query, query, None)


def test_double_precision_and_large_heads(spy):
    """What the client and the server refuse."""
    with pytest.raises(attend.InvalidArgumentError, match="query is float64, must be float32"):
        scores_of(model_of("llama", "attend", torch.float64), input_ids=TOKENS)
    query = torch.zeros(1, 1, 1, 1025)
    with pytest.raises(attend.InvalidArgumentError, match="1025.*1024"):
        transformers.AttentionInterface()["attend"](torch.nn.Module(), query, query, query, None)


def test_server_that_dies_in_the_middle_of_generation(request, tmp_path):
    program = request.config.getoption("--server")
    want = generate(model_of("llama", "eager"))
    model = model_of("llama", "attend")
    with running_server(program, tmp_path / "first") as (process, addresses), \
            attend.connect(addresses["grpc"], retry=False) as client:
        attend.transformers.register(client)

        def kill_after_five_tokens(tokens, scores):
            if tokens.shape[1] == LENGTH + 5:
                process.kill()
                process.wait()
            return torch.zeros(len(tokens), dtype=torch.bool)

        with pytest.raises(attend.UnavailableError, match="server at 127.0.0.1|broke off"):
            generate(model, stopping_criteria=[kill_after_five_tokens])
        with running_server(program, tmp_path / "second", grpc_address=addresses["grpc"]):
            client.wait_until_serving()
            assert generate(model).tolist() == want.tolist()
