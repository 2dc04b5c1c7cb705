"""PyTorch tensors. Skipped where there is no PyTorch: scripts/setup --pytorch."""

import ml_dtypes  # noqa: F401: makes bfloat16 a name of NumPy
import numpy as np
import pytest

import attend
from attend._tensors import as_tensor

torch = pytest.importorskip("torch")


@pytest.fixture
def torch_tensors(tensors):
    return [torch.from_numpy(tensor) for tensor in tensors]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_results_are_tensors(client, torch_tensors, dtype):
    query, key, value = (tensor.to(dtype) for tensor in torch_tensors)
    result = client.attention(query, key, value, weights=True, mask=torch.ones(1, 7, dtype=torch.bool),
                              bias=torch.zeros(1, 7, dtype=dtype), sinks=torch.zeros(4),
                              key_lengths=torch.tensor([7, 4]))
    assert result.output.dtype == dtype and result.weights.dtype == torch.float32
    arrays = [tensor.float().numpy().astype(str(dtype).removeprefix("torch.")) for tensor in (query, key, value)]
    want = client.attention(*arrays, weights=True, sinks=[0] * 4, key_lengths=[7, 4])
    np.testing.assert_array_equal(result.output.double().numpy(), want.output.astype(np.float64))
    np.testing.assert_array_equal(result.weights.numpy(), want.weights)
    result.output.add_(1)  # there would be a warning if it were not writable


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_memory_is_shared(torch_tensors, dtype):
    query = torch_tensors[0].to(dtype)
    assert as_tensor("query", query).array.ctypes.data == query.data_ptr()
    assert not np.shares_memory(as_tensor("query", query.mT).array, as_tensor("query", query).array)


def test_tensors_with_gradients(client, torch_tensors):
    query = torch_tensors[0].requires_grad_()
    assert not client.attention(query, *torch_tensors[1:]).output.requires_grad


def test_agrees_with_pytorch(client, torch_tensors):
    query, key, value = torch_tensors
    want = torch.nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=True)
    got = client.attention(query, key, value, causal="top_left").output
    assert torch.allclose(got, want, rtol=1e-5, atol=1e-5)


def test_other_devices_and_layouts(torch_tensors):
    for wrong, words in ((torch_tensors[0].to("meta"), r"query is on the device meta.*query\.cpu\(\)"),
                         (torch_tensors[0].to_sparse(), r"must be dense: query\.to_dense\(\)"),
                         (torch_tensors[0].to(torch.float8_e4m3fn), r"query of torch.float8_e4m3fn cannot be read: "),
                         (torch_tensors[0].double(), r"query is float64.*\.float\(\)")):
        with pytest.raises(attend.InvalidArgumentError, match=words):
            as_tensor("query", wrong)


def test_tensors_without_memory(torch_tensors):
    with pytest.raises(attend.InvalidArgumentError, match="query of torch.float32 cannot be read: "):
        torch.func.vmap(lambda query: as_tensor("query", query) and query)(torch_tensors[0])
