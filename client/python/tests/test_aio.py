"""The client for asyncio."""

import asyncio
import sys
import threading

import grpc
import numpy as np
import pytest
from fake_server import OK, FakeServer, Refusal
from test_calls import BUSY, DRAINING, unused_port

import attend


def test_many_calls_at_once(server, client, tensors):
    async def run():
        async with attend.aio.connect(server["grpc"]) as asynchronous:
            await asynchronous.wait_until_serving()
            assert await asynchronous.is_serving()
            assert (await asynchronous.server_info()).version == client.server_info().version
            return await asyncio.gather(*(asynchronous.attention(*tensors, scale=scale, weights=True)
                                          for scale in (0.1, 0.2, 0.3)))

    for scale, result in zip((0.1, 0.2, 0.3), asyncio.run(run())):
        want = client.attention(*tensors, scale=scale, weights=True)
        np.testing.assert_array_equal(result.output, want.output)
        np.testing.assert_array_equal(result.weights, want.weights)


def test_errors(server, tensors):
    async def run():
        async with attend.aio.connect(server["grpc"]) as client:
            with pytest.raises(attend.InvalidArgumentError) as caught:
                await client.attention(*tensors, key_lengths=[1, 100])
            assert caught.value.field == "options.key_lengths[1]"
        with pytest.raises(attend.CancelledError):
            await client.attention(*tensors)
        async with attend.aio.connect(f"127.0.0.1:{unused_port()}") as nobody:
            with pytest.raises(attend.UnavailableError, match="no server at .*Connection refused"):
                await nobody.attention(*tensors)
            with pytest.raises(attend.UnavailableError, match="not serving within 0.1 s: no server at"):
                await nobody.wait_until_serving(timeout=0.1)

    asyncio.run(run())
    with pytest.raises(attend.InvalidArgumentError):
        attend.aio.connect(timeout=0)


def test_retries(tensors):
    async def run(port):
        async with attend.aio.connect(f"127.0.0.1:{port}") as client:
            return await client.attention(*tensors)

    fake = FakeServer([DRAINING, BUSY, Refusal(grpc.StatusCode.CANCELLED), OK])
    with fake.running() as port:
        assert asyncio.run(run(port)).attempts == 4
    assert len(set(fake.requests)) == 1


@pytest.mark.parametrize("how", ["cancel", "close"])
def test_calls_that_are_ended(tensors, how):
    begun, release = threading.Event(), threading.Event()

    def answer():
        begun.set()
        release.wait()
        return b""

    async def run(port):
        client = attend.aio.connect(f"127.0.0.1:{port}")
        call = asyncio.create_task(client.attention(*tensors))
        await asyncio.to_thread(begun.wait)
        if how == "cancel":
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            await client.close()
        else:
            await client.close()
            # Python 3.10 cannot tell this from a task that somebody has cancelled.
            with pytest.raises(attend.CancelledError if sys.version_info >= (3, 11) else asyncio.CancelledError):
                await call

    with FakeServer([answer]).running() as port:
        try:
            asyncio.run(run(port))
        finally:
            release.set()
