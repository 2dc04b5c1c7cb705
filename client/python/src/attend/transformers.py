"""The service as an attention implementation of Hugging Face Transformers.

    import attend.transformers
    attend.transformers.register()  # the server at ATTEND_ADDRESS; or register(attend.connect("host:port"))
    model = AutoModelForCausalLM.from_pretrained(path, attn_implementation="attend").eval()

Every model that takes its attention from Transformers' AttentionInterface then has it computed by the server, with the
masks of "eager" and its meaning: what a mask hides is hidden, and nothing else. Whatever else a model asks of its
attention is computed by the service or refused by name at the first call.
"""

from __future__ import annotations

import inspect
from typing import Any

import torch
from torch.autograd import forward_ad
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.masking_utils import eager_mask

from attend import _client
from attend._options import Options
from attend.errors import Details, UnimplementedError

__all__ = ["register"]

# What models pass to their attention that changes nothing here: "eager" knows none of it either, for the mask says it
# already (windows, positions), or it concerns the model around the attention, or how another implementation computes.
_WITHOUT_EFFECT = frozenset({
    "sliding_window", "position_ids", "cache_position", "use_cache", "output_hidden_states", "output_router_logits",
    "num_items_in_batch", "return_dict", "seq_idx", "deterministic",
})


def register(client: _client.Client | None = None, name: str = "attend") -> None:
    """Makes `attn_implementation=name` compute attention by a client's server.

    Models call it without gradients (torch.no_grad() or torch.inference_mode()) and in evaluation (model.eval()). Their
    tensors are float32, bfloat16 or float16, on any device: they are copied to the processor's memory and back.
    With output_attentions=True, where the model passes that on, the weights are returned, too.

    Args:
        client: made by attend.connect (TypeError if not); thread-safe, kept open as long as models use it. Default:
            that of attend.attention, of the server at ATTEND_ADDRESS.
        name: what attn_implementation is to be. Several names may stand for several servers.

    The model's forward raises:
        UnimplementedError: the model's attention needs what the service lacks; `field` names it, `attempts` is 0.
        AttendError: a call that failed: see attend.errors. The model can be used again; a cache that was being written
            in the failed forward cannot.
    """
    attention = _client.attention if client is None else getattr(client, "attention", None)
    if attention is None or inspect.iscoroutinefunction(attention):
        raise TypeError(f"client is a {type(client).__module__}.{type(client).__name__}, must be made by attend.connect")

    def forward(module: Any, query: Any, key: Any, value: Any, attention_mask: Any = None,
                **settings: Any) -> tuple[Any, Any]:
        return _forward(attention, module, (query, key, value), attention_mask, settings)

    reason = "attention is computed by a server"
    AttentionInterface.register(name, torch.compiler.disable(forward, reason=reason))
    # Without masks of its own a registered implementation gets none at all: causal models would see the future.
    AttentionMaskInterface.register(name, eager_mask)


def _forward(attention: Any, module: Any, tensors: tuple[Any, Any, Any], attention_mask: Any,
             settings: dict[str, Any]) -> tuple[Any, Any]:
    """What an attention function of Transformers returns: output [batch, query_length, query_heads, value_dim] and
    weights or None. The tensors are [batch, heads, length, dim]."""
    _refuse_what_is_lacking(module, tensors, attention_mask, settings)
    device = tensors[0].device.type
    if torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device):  # as it does for a product
        tensors = tuple(tensor.to(torch.get_autocast_dtype(device)) for tensor in tensors)
    query, key = tensors[:2]
    wants_weights = bool(settings.get("output_attentions"))
    options: Options = {"scale": settings.get("scaling"), "softcap": settings.get("softcap"),
                        "sinks": settings.get("s_aux"), "weights": wants_weights,
                        **_masks(attention_mask, settings.get("position_bias"))}
    # Keys come out of a cache head by head, out of a projection position by position: either is sent as it lies.
    by_position = key.transpose(1, 2).is_contiguous()
    if by_position:
        options["layout"] = "bnhd"
        tensors = tuple(tensor.transpose(1, 2) for tensor in tensors)
    result = attention(*(tensor.cpu() for tensor in tensors), **options)
    output = result.output if by_position else result.output.transpose(1, 2).contiguous()
    weights = result.weights.to(query) if wants_weights else None
    return output.to(query.device), weights


def _masks(attention_mask: Any, position_bias: Any) -> Options:
    """The options that say what "eager" adds to the scores: a mask of 0 where a key is seen and of the type's lowest
    number where not, of other numbers, or of booleans; and the bias of a model with relative positions.

    Where a mask hides keys and leaves each query one, it is sent as booleans: a quarter of the bytes, and keys that
    nobody sees are not multiplied. A query without any key gets the mean of all values from "eager", as padding does,
    which only adding the numbers does, too: that of float32, for the service adds in float32, where float16's lowest
    number is one as any other.
    """
    if attention_mask is None:
        return {} if position_bias is None else {"bias": position_bias.cpu()}
    mask = attention_mask.cpu()
    if mask.dtype != torch.bool:
        if mask.dtype not in (torch.float32, torch.bfloat16, torch.float16):
            mask = mask.float()  # a caller's own, of float64 or whole numbers, which are added likewise
        hidden = mask <= torch.finfo(mask.dtype).min
        if not (hidden | (mask == 0)).all() or hidden.all(dim=-1).any():
            lowest = mask == torch.finfo(mask.dtype).min
            mask = mask.float().masked_fill(lowest, torch.finfo(torch.float32).min)
            return {"bias": mask if position_bias is None else mask + position_bias.cpu()}
        mask = ~hidden
    return {"mask": mask} if position_bias is None else {"mask": mask, "bias": position_bias.cpu()}


def _refuse_what_is_lacking(module: Any, tensors: tuple[Any, Any, Any], attention_mask: Any,
                            settings: dict[str, Any]) -> None:
    """Raises UnimplementedError for what the service does not compute."""
    if settings.get("dropout"):
        raise _lacking(module, "dropout", f"dropout of {settings['dropout']} in training: call model.eval()")
    asked = (*tensors, attention_mask, settings.get("position_bias"), settings.get("s_aux"))
    if any(tensor is not None and _asks_for_gradients(tensor) for tensor in asked):
        raise _lacking(module, "gradients", "gradients: call the model under torch.no_grad() or torch.inference_mode()")
    if torch.jit.is_tracing():
        raise _lacking(module, "tracing", "a trace, which would keep the results of one call for all others")
    is_causal = settings.get("is_causal")
    if is_causal is None:
        is_causal = getattr(module, "is_causal", False)
    if attention_mask is None and is_causal and tensors[0].shape[2] > 1:
        raise _lacking(module, "is_causal", "is_causal without an attention_mask: make one by "
                       "transformers.masking_utils.create_causal_mask")
    if getattr(module, "sinks", None) is not None and settings.get("s_aux") is None:
        raise _lacking(module, "sinks", "sinks that are not passed as s_aux")
    for name, value in settings.items():
        if name not in _KNOWN and value is not None and value is not False:
            raise _lacking(module, name, f"{name}, which this service does not know")


def _asks_for_gradients(tensor: Any) -> bool:
    """Backward, or forward in a dual tensor."""
    return (torch.is_grad_enabled() and tensor.requires_grad) or forward_ad.unpack_dual(tensor).tangent is not None


_KNOWN = _WITHOUT_EFFECT | {"dropout", "scaling", "softcap", "s_aux", "position_bias", "is_causal", "output_attentions"}


def _lacking(module: Any, field: str, what: str) -> UnimplementedError:
    return UnimplementedError(f"{type(module).__name__} asks its attention for {what}", Details(field=field))
