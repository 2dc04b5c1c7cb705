"""What is measured, section by section. Each takes a Bench and yields records (figures.py)."""

import dataclasses

import figures
from children import ChildError
from comparison import Contestant
from shapes import Shape, grid

MATMUL_OPERATIONS = 2 * 2048**3
READ_BYTES = 256 << 20

TYPES = ("f32", "bf16", "f16")


def attention(bench, shape, name="attend", work=None, workers=None):
    return Contestant(name, bench.core, f"attention workers={workers or bench.workers} {shape.words()}",
                      shape.operations() if work is None else work)


def matmul(bench, element_type="f32", workers=None, name="matmul"):
    return Contestant(name, bench.core, f"matmul workers={workers or bench.workers} type={element_type}",
                      MATMUL_OPERATIONS)


def read(bench):
    return Contestant("read", bench.core, f"read workers={bench.workers}", READ_BYTES)


def peers(bench, shape, work=None):
    return [Contestant(name, child, f"attention threads={bench.workers} {shape.words()}",
                       shape.operations() if work is None else work) for name, child in bench.peers.items()]


def product_types(bench):
    """f32, and bf16 where oneDNN has products of it: not below AVX-512."""
    try:
        bench.core.ask(f"{matmul(bench, 'bf16').words} warm=0 runs=1")
    except ChildError:
        return ("f32",)
    return ("f32", "bf16")


def limits(bench):
    """What the machine can do: the large products, the tile on every worker, the plain read."""
    for element_type in product_types(bench):
        yield bench.compare("limits", {"type": element_type}, [matmul(bench, element_type)],
                            f"{element_type} product of 2048 x 2048")
        yield tiles(bench, element_type)
    yield bench.compare("limits", {"type": "read"}, [read(bench)], "plain read of 256 MiB")


def tiles(bench, element_type):
    record = {"section": "limits", "shape": {"type": element_type}}
    words = f"tiles workers={bench.workers} type={element_type}"
    rates = record["tile_rates"] = bench.repeat(record, 5, lambda: bench.core.ask(words)["rate"])
    return bench.note(record,
                      f"{element_type} tiles of 256 x 256 x 128, each worker its own: "
                      f"{figures.median(rates) / 1e9:.0f} GF/s +-{100 * figures.spread(rates):.0f} %")


def grid_shapes(bench):
    """Every shape of the grid, or of the part of it that was asked for."""
    selected = bench.selection
    if bench.quick and not selected.narrowed():
        return [*grid((128, 1024), (64, 128), (8,), ("f32",), (False,)), Shape(1024, 64, 8, causal=True),
                *grid((1024,), (64,), (8,), ("bf16", "f16"), (False,))]
    return grid(selected.lengths, selected.dims, selected.heads, selected.types, (False, True))


def grid_section(bench):
    for shape in grid_shapes(bench):
        # With AMX bfloat16 has a limit of its own.
        limit = matmul(bench, "bf16" if shape.type == "bf16" and bench.instruction_set == "amx" else "f32")
        yield bench.compare("grid", shape.record(), [attention(bench, shape), limit, *peers(bench, shape)],
                            shape.text())


def decode_shape(bench, element_type, query_heads):
    """256 MiB of keys and values in every type: more than caches hold. A quarter of that if quick."""
    keys = (4096 if element_type == "f32" else 8192) // (4 if bench.quick else 1)
    return Shape(1, 128, query_heads, element_type, keys=keys, kv_heads=8, batch=8)


def decode(bench):
    for element_type in ("f32",) if bench.quick else TYPES:
        one, eight = decode_shape(bench, element_type, 8), decode_shape(bench, element_type, 64)
        size = 2 * 8 * 8 * one.keys * one.dim * (4 if element_type == "f32" else 2)
        yield bench.compare("decode", one.record(),
                            [attention(bench, one, work=size), read(bench), *peers(bench, one, work=size)], one.text())
        yield bench.compare("decode on 1", eight.record(),
                            [attention(bench, eight, work=size), attention(bench, one, "attend 1 on 1", work=size),
                             *peers(bench, eight, work=size)], eight.text())


def causal(bench):
    for length, dim, heads in ((2048, 64, 8), (2048, 128, 8), (8192, 64, 2), (8192, 128, 2)):
        if bench.quick and (dim == 128 or length == 8192):
            continue
        full = Shape(length, dim, heads)
        masked = dataclasses.replace(full, causal=True)
        yield bench.compare("causal", full.record(), [attention(bench, masked), attention(bench, full, "full")],
                            masked.text() + " against full")


def window(bench):
    every = Shape(16384, 64, 1 if bench.quick else 2, causal=True)
    some = dataclasses.replace(every, window=512)
    yield bench.compare("window", some.record(), [attention(bench, some, work=0), attention(bench, every, "all keys")],
                        some.text() + " against causal")


def dims(bench):
    """Head dims that are no multiple of 32, against the next that is."""
    for dim in (33,) if bench.quick else (33, 80, 112):
        odd = Shape(2048, dim, 2 if bench.quick else 8)
        rounded = dataclasses.replace(odd, dim=-(-dim // 32) * 32)
        yield bench.compare("dims", odd.record(), [attention(bench, odd), attention(bench, rounded, "rounded")],
                            f"{odd.text()} against D={rounded.dim}")


def memory(bench):
    """Of one head, each in a process of its own: what stays resident of earlier work is not counted."""
    for keys in (1024, 4096) if bench.quick else (1024, 4096, 16384, 65536, 131072):
        shape = Shape(keys, 64, 1)
        child = bench.fresh_core()
        answer = child.ask(f"memory workers={bench.workers} {shape.words()}")
        bench.close(child)
        packed = keys * shape.dim * 4  # of keys; float32 values stay where they are
        yield bench.note({"section": "memory", "shape": shape.record(), "packed": packed, **answer},
                         f"{shape.text()}: {answer['beyond_tensors'] / 2**20:.1f} MiB beyond tensors, "
                         f"{packed / 2**20:.1f} MiB of them packed keys, {answer['seconds']:.2f} s")


def threads(bench):
    """The same problem with one worker, two, and so on; beside it the limit of as many threads."""
    shape = Shape(1024 if bench.quick else 2048, 128, 8)
    counts = sorted({1, 2, bench.workers // 2, bench.workers} - {0})
    contestants = []
    for workers in [count for count in counts if count <= bench.workers]:
        contestants += [attention(bench, shape, f"attend {workers}", workers=workers),
                        matmul(bench, workers=workers, name=f"matmul {workers}")]
    yield bench.compare("threads", shape.record(), contestants, shape.text() + " by threads")


def doubling(bench):
    for dim in (64,) if bench.quick else (64, 128):
        for length in (2048,) if bench.quick else (2048, 4096):
            short = Shape(length, dim, 2)
            twice = dataclasses.replace(short, queries=2 * length)
            yield bench.compare("doubling", short.record(), [attention(bench, twice, "twice"), attention(bench, short)],
                                f"{twice.text()} against N={length}")


def handover(bench):
    """A tiny problem, from submitting it to its result: the time that is not computing."""
    shape = Shape(16, 64, 1)
    record = {"section": "handover", "shape": shape.record()}
    words = f"{attention(bench, shape).words} submit=1 warm=100 runs={500 if bench.quick else 3000}"
    rounds = [sorted(times) for times in
              bench.repeat(record, 3 if bench.quick else 9, lambda: bench.core.ask(words)["wall"])]
    record["p50"] = [times[len(times) // 2] for times in rounds]
    record["p99"] = [times[len(times) * 99 // 100] for times in rounds]
    yield bench.note(record, f"{shape.text()}: submit to result p50 {1e6 * figures.median(record['p50']):.1f} us, "
                             f"p99 {1e6 * figures.median(record['p99']):.1f} us")


ECHOES = ("sync", "callback", "raw")


def service(bench):
    """What a call of the service takes beyond computing, beside the least that gRPC takes for as many bytes."""
    running = bench.start_service()
    yield from (service_call(bench, running, shape, "beyond", "service")
                for shape in [Shape(n, 64, 8) for n in ((512,) if bench.quick else (512, 2048, 8192))])
    if not bench.quick:  # still too near to half of its goal
        yield service_call(bench, running, Shape(16, 64, 1), "attend", "small call")
    yield crowd(bench, running, Shape(1024, 64, 8))


def echo_words(shape):
    one = 4 * shape.query_heads * shape.queries * shape.dim  # bytes of a tensor of float32
    return f"request_bytes={3 * one} answer_bytes={one}"


def service_call(bench, running, shape, word, section):
    """`word` says what counts of a call: all of it, or what is beyond the kernel's own time."""
    contestants = [Contestant("attend", running.client, f"{word} target={running.targets['attend']} {shape.words()}")]
    contestants += [Contestant(f"echo {kind}", running.client, f"echo target={running.targets[kind]} {echo_words(shape)}")
                    for kind in ECHOES]
    return bench.compare(section, shape.record(), contestants, shape.text())


def crowd(bench, running, shape, clients=16):
    """So many clients at once, against one process that calls the core without a service."""
    record = {"section": "crowd", "shape": shape.record()}
    calls = f"clients={clients} calls={2 if bench.quick else 6}"

    def measure():
        times = bench.core.ask(f"{attention(bench, shape).words} warm=1 runs={clients}")["wall"]
        attend = f"attend_crowd target={running.targets['attend']} {shape.words()} {calls}"
        rates = {"core": len(times) / sum(times), "attend": running.client.ask(attend)["rate"]}
        for kind in ECHOES:
            echo = f"echo_crowd target={running.targets[kind]} {echo_words(shape)} {calls}"
            rates[f"echo {kind}"] = running.client.ask(echo)["rate"]
        return rates
    rounds = bench.repeat(record, 2 if bench.quick else 5, measure)
    record["rates"] = {name: [rates[name] for rates in rounds] for name in rounds[0]}
    texts = [f"{name} {figures.median(rates):.1f} calls/s +-{100 * figures.spread(rates):.0f} %"
             for name, rates in record["rates"].items()]
    return bench.note(record, f"{clients} clients, {shape.text()}: " + "; ".join(texts))


def parts(bench):
    """Packing, scanning, softmax, products and the codec, each by itself: Google Benchmark."""
    for part in bench.run_parts("0.02" if bench.quick else "0.3"):
        rate = part.get("bytes_per_second", part.get("items_per_second"))
        unit = "GB/s" if "bytes_per_second" in part else "G/s"
        record = {"section": "parts", "shape": {"name": part["name"]}, "nanoseconds": part["cpu_time"], "rate": rate,
                  "error": part.get("error_message")}
        yield bench.note(record, f"{part['name']}: {record['error'] or f'{rate / 1e9:.1f} {unit}'}")


SECTIONS = {
    "limits": limits,
    "grid": grid_section,
    "decode": decode,
    "causal": causal,
    "window": window,
    "dims": dims,
    "memory": memory,
    "threads": threads,
    "doubling": doubling,
    "handover": handover,
    "service": service,
    "parts": parts,
}
