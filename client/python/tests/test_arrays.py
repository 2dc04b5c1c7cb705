"""What arrays may be, and what becomes of those that are not."""

import builtins

import ml_dtypes
import numpy as np
import pytest

import attend
from attend._message import encode_request
from attend.v1 import attention_pb2 as pb


class ArrayOnly:
    """What has __array__ and nothing else."""

    def __init__(self, array):
        self._array = array

    def __array__(self, dtype=None, copy=None):
        return self._array


class DLPackOnly:
    """What has DLPack and nothing else; on any device."""

    def __init__(self, array, device=1):
        self._array, self._device = array, device

    def __dlpack__(self, **options):
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self):
        return (self._device, 0)


class Library:
    """An array of a library that follows the array API."""

    def __init__(self, array):
        self.array = array

    def __array__(self, dtype=None, copy=None):
        return self.array

    def __array_namespace__(self):
        return Library

    @staticmethod
    def asarray(array):
        return Library(array)


def request(*tensors, **options):
    return pb.AttendRequest.FromString(encode_request(*tensors, options))


@pytest.mark.parametrize("dtype, data_type", [(np.float32, pb.DATA_TYPE_FLOAT32), (np.float16, pb.DATA_TYPE_FLOAT16),
                                              (ml_dtypes.bfloat16, pb.DATA_TYPE_BFLOAT16)])
def test_request_is_what_protobuf_would_write(tensors, dtype, data_type):
    tensors = [tensor.astype(dtype) for tensor in tensors]
    message = request(*tensors, bias=tensors[0][..., :7], request_id="it", priority=2, mask=np.ones((1, 7), bool))
    for name, tensor in zip(("query", "key", "value"), tensors):
        assert getattr(message, name) == pb.Tensor(data_type=data_type, shape=tensor.shape, data=tensor.tobytes())
    assert message.options.mask == pb.Tensor(data_type=pb.DATA_TYPE_BOOL, shape=[1, 7], data=b"\1" * 7)
    assert message.options.bias.data == tensors[0][..., :7].tobytes()
    assert (message.request_id, message.priority) == ("it", 2)


def test_key_mask_is_a_mask_by_batch_and_key(tensors):
    key_mask = np.random.default_rng(5).random((2, 7)) < 0.5
    by_query = np.random.default_rng(6).random((5, 7)) < 0.5
    alone, both = request(*tensors, key_mask=key_mask), request(*tensors, key_mask=key_mask, mask=by_query)
    assert alone == request(*tensors, mask=key_mask[:, None, None, :])
    assert both == request(*tensors, mask=key_mask[:, None, None, :] & by_query)


def test_other_orders_are_copied_into_ours(tensors):
    want = request(*tensors)
    fortran = [np.asfortranarray(tensor) for tensor in tensors]
    strided = [np.repeat(tensor, 2, axis=2)[:, :, ::2] for tensor in tensors]
    backward = [tensor[..., ::-1].copy()[..., ::-1] for tensor in tensors]
    big_endian = [tensor.astype(">f4") for tensor in tensors]
    for other in (fortran, strided, backward, big_endian):
        assert request(*other) == want


def test_arrays_of_others(client, tensors):
    want = client.attention(*tensors).output
    for wrapped in (ArrayOnly, DLPackOnly, Library):
        result = client.attention(*(wrapped(tensor) for tensor in tensors), mask=wrapped(np.ones((1, 7), bool))).output
        assert type(result) is (Library if wrapped is Library else np.ndarray)
        np.testing.assert_array_equal(result.array if wrapped is Library else result, want)


def test_results_can_be_written_to_and_are_aligned(client, tensors):
    result = client.attention(*tensors, weights=True)
    for array in (result.output, result.weights):
        assert array.flags.writeable and array.flags.aligned and array.flags.c_contiguous


def test_empty_tensors(client, tensors):
    query, key, value = tensors
    assert client.attention(query[:, :, :0], key, value).output.shape == (2, 4, 0, 6)
    assert client.attention(query[:0], key[:0], value[:0]).output.shape == (0, 4, 5, 6)
    without_keys = client.attention(query, key[:, :, :0], value[:, :, :0], logsumexp=True)
    assert not without_keys.output.any() and np.isneginf(without_keys.logsumexp).all()


@pytest.mark.parametrize("wrong, value, words", [
    (lambda array: array.astype(np.float64), "float64", r"query\.astype\(numpy\.float32\)"),
    (lambda array: array.astype(np.int32), "int32", "must be float32, bfloat16 or float16"),
    (lambda array: array.astype(np.complex64), "complex64", "must be float32"),
    (lambda array: array.tolist(), "list", "must be an array"),
    (lambda array: None, "NoneType", "must be an array"),
    (lambda array: DLPackOnly(array, device=2), "2", "memory of the processor"),
])
def test_what_is_no_tensor_of_ours(tensors, wrong, value, words):
    with pytest.raises(attend.InvalidArgumentError, match=words) as caught:
        request(wrong(tensors[0]), *tensors[1:])
    assert (caught.value.field, caught.value.value, caught.value.attempts) == ("query", value, 0)
    assert isinstance(caught.value, ValueError)


def test_masks_of_other_types(tensors):
    for name in ("mask", "key_mask"):
        with pytest.raises(attend.InvalidArgumentError, match=rf"{name} is int64, must be bool: \({name} != 0\)"):
            request(*tensors, **{name: np.ones((2, 7), np.int64)})


def test_mask_of_rank_2_with_two_readings():
    square = np.zeros((5, 4, 5, 8), np.float32)
    with pytest.raises(attend.InvalidArgumentError, match="could be .* both are 5.*key_mask.*mask.None, None."):
        request(square, square, square, mask=np.ones((5, 5), bool))
    bnhd = square.swapaxes(1, 2)
    with pytest.raises(attend.InvalidArgumentError, match="could be .* both are 5"):
        request(bnhd, bnhd, bnhd, layout="bnhd", mask=np.ones((5, 5), bool))
    assert list(request(square, square, square, mask=np.ones((1, 1, 5, 5), bool)).options.mask.shape) == [1, 1, 5, 5]
    assert list(request(square, square, square, key_mask=np.ones((5, 5), bool)).options.mask.shape) == [5, 1, 1, 5]
    alone = square[:1]  # one batch element: both readings are none
    assert list(request(alone, alone, alone, mask=np.ones((5, 5), bool)).options.mask.shape) == [5, 5]


def test_mask_of_rank_2_that_is_a_padding_mask(tensors):
    with pytest.raises(attend.InvalidArgumentError, match="looks like a padding mask.*key_mask"):
        request(*tensors, mask=np.ones((2, 7), bool))


@pytest.mark.parametrize("options", [{"key_mask": np.ones((3, 7), bool)}, {"key_mask": np.ones(7, bool)},
                                     {"key_mask": np.ones((2, 7), bool), "layout": "thd"},
                                     {"key_mask": np.ones((2, 7), bool), "mask": np.ones((5, 6), bool)}])
def test_key_mask_that_does_not_fit(tensors, options):
    with pytest.raises(attend.InvalidArgumentError, match="key_mask") as caught:
        request(*tensors, **options)
    assert caught.value.field == "options.mask"


def test_numpy_without_ml_dtypes(client, tensors, monkeypatch):
    real_import = builtins.__import__

    def without_ml_dtypes(name, *arguments, **more):
        if name == "ml_dtypes":
            raise ModuleNotFoundError(name)
        return real_import(name, *arguments, **more)

    monkeypatch.setattr(builtins, "__import__", without_ml_dtypes)
    assert client.attention(*tensors, bias=np.zeros((1, 7), np.float16)).output.dtype == np.float32


def test_masked_arrays(client, tensors):
    with pytest.raises(attend.InvalidArgumentError, match=r"query is a masked array, .*query\.filled\(\)"):
        client.attention(np.ma.masked_greater(tensors[0], 0), *tensors[1:])
