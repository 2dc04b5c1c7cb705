"""What a program with types may write: checked by mypy --strict, not run."""

import numpy as np
import numpy.typing as npt

import attend


def output_of(query: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    with attend.connect("127.0.0.1:8001", token="t", timeout=5) as client:
        result = client.attention(query, query, query, causal="bottom_right", key_lengths=[3], weights=True)
        if result.weights is not None:
            print(result.weights.sum())
        options: attend.Options = {"scale": 0.5, "mask": np.ones((1, 1), bool)}
        return client.attention(query, query, query, timeout=1, **options).output


async def output_in_a_loop(query: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    async with attend.aio.connect() as client:
        return (await client.attention(query, query, query, layout="bnhd")).output


def reason_of(query: npt.NDArray[np.float32]) -> str:
    try:
        attend.attention(query, query, query)
    except attend.InvalidArgumentError as error:
        return f"{error.field} is {error.value}, must be {error.limit}"
    return ""
