"""Arrays of any library as tensors of the protocol, and back.

A tensor's bytes are those of the caller's array wherever they are little-endian and in C order already; only others are
copied. bfloat16 is carried as 16-bit integers, so that neither NumPy nor ml_dtypes needs to know it.
"""

from __future__ import annotations

import dataclasses
import math
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from attend.errors import invalid
from attend.v1 import attention_pb2 as pb

Array = npt.NDArray[Any]

FLOATS = (pb.DATA_TYPE_FLOAT32, pb.DATA_TYPE_BFLOAT16, pb.DATA_TYPE_FLOAT16)
_CPU_DEVICES = (1, 3)  # of DLPack: kDLCPU, kDLCUDAHost
_DATA_TYPES = {"float32": pb.DATA_TYPE_FLOAT32, "bfloat16": pb.DATA_TYPE_BFLOAT16, "float16": pb.DATA_TYPE_FLOAT16,
               "bool": pb.DATA_TYPE_BOOL}
_STORAGE: dict[int, npt.DTypeLike] = {pb.DATA_TYPE_FLOAT32: np.float32, pb.DATA_TYPE_BFLOAT16: np.uint16,
                                      pb.DATA_TYPE_FLOAT16: np.float16}
_DEVICE_HINT = "must be in the memory of the processor"


@dataclasses.dataclass(frozen=True)
class Tensor:
    """`array` is little-endian and in C order; of BFLOAT16 the elements' bits."""

    data_type: int
    array: Array

    @property
    def shape(self) -> tuple[int, ...]:
        return self.array.shape

    def data(self) -> memoryview:
        """The bytes, where they lie."""
        return self.array.reshape(-1).view(np.uint8).data

    def numbers(self) -> Array:
        """As float64 (BOOL: bool)."""
        if self.data_type == pb.DATA_TYPE_BFLOAT16:
            return (self.array.view(np.uint16).astype(np.uint32) << 16).view(np.float32).astype(np.float64)
        return self.array.astype(bool if self.data_type == pb.DATA_TYPE_BOOL else np.float64)


def _torch() -> Any:
    """PyTorch, if the program has loaded it: there are no tensors of it otherwise."""
    return sys.modules.get("torch")


def _is_torch(value: object) -> bool:
    torch = _torch()
    return torch is not None and isinstance(value, torch.Tensor)


def _from_torch(name: str, value: Any) -> tuple[Array, bool]:
    torch = _torch()
    if value.device.type != "cpu":
        raise invalid(name, f"{name} is on the device {value.device}, {_DEVICE_HINT}: {name}.cpu()", value.device,
                      "cpu")
    if value.layout != torch.strided:
        raise invalid(name, f"{name} is {value.layout}, must be dense: {name}.to_dense()", value.layout,
                      "torch.strided")
    value = value.detach()
    is_bfloat16 = value.dtype == torch.bfloat16
    try:
        return (value.view(torch.int16) if is_bfloat16 else value).numpy(), is_bfloat16
    except (RuntimeError, TypeError) as error:  # float8, or no memory of its own: within torch.func.vmap, for one
        raise invalid(name, f"{name} of {value.dtype} cannot be read: {error}", value.dtype) from error


def _from_any(name: str, value: Any) -> Array:
    if isinstance(value, np.ma.MaskedArray):
        raise invalid(name, f"{name} is a masked array, whose mask would be lost: {name}.filled(), and key_mask for "
                      "keys that are not there", "masked array", "an array")
    if isinstance(value, np.ndarray):
        return value
    if hasattr(value, "__dlpack_device__"):
        device = int(value.__dlpack_device__()[0])
        if device not in _CPU_DEVICES:
            raise invalid(name, f"{name} is on a device of DLPack's type {device}, {_DEVICE_HINT}", device, "1")
    if hasattr(value, "__dlpack__"):
        try:
            return np.from_dlpack(value)
        except (BufferError, RuntimeError, TypeError, ValueError):  # a type that NumPy's DLPack has not, or read-only
            if not hasattr(value, "__array__"):
                raise
    if hasattr(value, "__array__"):
        return np.asarray(value)
    kind = type(value).__name__
    raise invalid(name, f"{name} is of {kind}, must be an array: of NumPy or PyTorch, or with __dlpack__ or __array__",
                  kind, "an array")


def as_tensor(name: str, value: object, allowed: tuple[int, ...] = FLOATS) -> Tensor:
    """A tensor of the elements of `value`, which it shares the memory of if that is possible.

    Raises InvalidArgumentError for no array, a type that is not allowed, and memory of another device.
    """
    array, is_bfloat16 = _from_torch(name, value) if _is_torch(value) else (_from_any(name, value), False)
    type_name = "bfloat16" if is_bfloat16 else array.dtype.name
    data_type = _DATA_TYPES.get(type_name)
    if data_type is None or data_type not in allowed:
        words = [word for word, number in _DATA_TYPES.items() if number in allowed]
        limit = ", ".join(words[:-1]) + " or " + words[-1] if len(words) > 1 else words[0]
        hint = f"({name} != 0)" if words == ["bool"] else "convert it, to the type of query"
        if name == "query":
            hint = "query.astype(numpy.float32), or .float() of PyTorch, and key and value likewise"
        raise invalid(name, f"{name} is {type_name}, must be {limit}: {hint}", type_name, limit)
    if type_name == "bfloat16":
        array = array.view(np.uint16)
    if array.dtype.byteorder == ">" or (array.dtype.byteorder == "=" and sys.byteorder == "big"):
        array = array.astype(array.dtype.newbyteorder("<"))
    return Tensor(data_type, np.ascontiguousarray(array).reshape(array.shape))


def _owned(data: memoryview, data_type: int, shape: tuple[int, ...]) -> Array:
    """A new array, which can be written to and is aligned, as `data` need not be."""
    array = np.empty(shape, _STORAGE[data_type])
    array.reshape(-1).view(np.uint8).data[:] = data
    return array


def _numpy_of(array: Array, data_type: int) -> Array:
    if data_type != pb.DATA_TYPE_BFLOAT16:
        return array
    import ml_dtypes  # only those who sent such elements get here, so they have it

    return array.view(ml_dtypes.bfloat16)


def _torch_of(array: Array, data_type: int) -> Any:
    torch = _torch()
    if data_type != pb.DATA_TYPE_BFLOAT16:
        return torch.from_numpy(array)
    return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)


def restorer(like: Any) -> Callable[[memoryview, int, tuple[int, ...]], Any]:
    """A function (data, data_type, shape) that makes arrays of the kind of `like`: PyTorch's, or of a library that
    follows the array API, else NumPy's. It raises ValueError if the bytes do not fit the type and shape."""
    make: Callable[[Array, int], Any] = _numpy_of
    if _is_torch(like):
        make = _torch_of
    elif not isinstance(like, np.ndarray) and hasattr(like, "__array_namespace__"):
        asarray = like.__array_namespace__().asarray

        def make_like(array: Array, data_type: int) -> Any:
            return asarray(_numpy_of(array, data_type))

        make = make_like

    def restore(data: memoryview, data_type: int, shape: tuple[int, ...]) -> Any:
        if data_type not in _STORAGE or min(shape, default=0) < 0 or \
                math.prod(shape) * np.dtype(_STORAGE[data_type]).itemsize != len(data):
            raise ValueError(f"{len(data)} bytes do not fit {list(shape)} of type {data_type}")
        return make(_owned(data, data_type, shape), data_type)

    return restore
