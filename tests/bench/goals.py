"""The table "Rates to reach": its goals, and from records the row of each."""

import figures
from figures import Figure, Goal, row_of

TYPES = ("f32", "bf16", "f16")


def gflops(record, contestant):
    return f"{figures.rate(record, contestant) / 1e9:.0f} GF/s"


def gigabytes(record, contestant):
    return f"{figures.rate(record, contestant) / 1e9:.1f} GB/s"


def peer_text(record, rate_text):
    best = figures.best_peer(record)
    return f"{best} {rate_text(record, best)}" if best else ""


def limit_text(record, contestant, rate_text):
    return f"{contestant} {rate_text(record, contestant)}" if figures.took_part(record, contestant) else ""


def shape_text(record):
    shape = record["shape"]
    words = [shape.get("type", ""), f"N={shape['queries']}" if "keys" not in shape else f"{shape['keys']} keys",
             f"D={shape['dim']}", f"{shape['query_heads']}h"]
    return " ".join(words + (["causal"] if shape.get("causal") else []))


def of_section(records, section):
    return [record for record in records if record["section"] == section]


def measured(records, section, *contestants):
    """Records of a section in which all of these took part."""
    return [record for record in of_section(records, section) if figures.took_part(record, *contestants)]


def against_peer(record, peer, goal, rate_text=gflops):
    return Figure(goal, figures.rate_ratio(record, "attend", peer),
                  figures.rate_ratio(record, "attend", peer, "processor_seconds"),
                  peer=f"{peer} {rate_text(record, peer)}", limit=limit_text(record, "matmul", rate_text),
                  where=shape_text(record))


def against_limit(record, goal, limit="matmul", rate_text=gflops):
    return Figure(goal, figures.rate_ratio(record, "attend", limit),
                  figures.rate_ratio(record, "attend", limit, "processor_seconds"),
                  peer=peer_text(record, rate_text), limit=limit_text(record, limit, rate_text),
                  where=shape_text(record))


def against_own(record, other, goal, what=""):
    return Figure(goal, figures.time_ratio(record, "attend", other),
                  figures.time_ratio(record, "attend", other, "processor_seconds"), where=what or shape_text(record))


def peer_rows(records):
    rows = []
    shapes = measured(records, "grid", "attend")
    beside_peers = [record for record in shapes if figures.best_peer(record)]
    why_not = "no peers: --peers" if shapes and not beside_peers else "not measured"
    for element_type in TYPES:
        found = [against_peer(record, figures.best_peer(record), Goal(1.0)) for record in beside_peers
                 if record["shape"]["type"] == element_type]
        rows.append(row_of(f"{element_type}, every shape, against the best peer", "x", Goal(1.0), found, why_not))
    for work, dims, bound in (("D=64 and 80", (64, 80), 1.2), ("D=128", (128,), 1.1)):
        found = [against_peer(record, figures.best_peer(record), Goal(bound)) for record in beside_peers
                 if record["shape"]["queries"] >= 1024 and record["shape"]["dim"] in dims]
        rows.append(row_of(f"the same, N >= 1024, {work}", "x", Goal(bound), found, why_not))
    return rows


# Without AMX: the least length, the greatest, the dims, the share of the large product for f32; 16-bit types 2 points
# less.
SHARES = ((1024, None, (128,), 0.94), (1024, None, (64,), 0.90), (512, 512, (64, 128), 0.85))


def share_rows(records, instruction_set):
    rows = []
    shapes = [record for record in measured(records, "grid", "attend", "matmul") if not record["shape"]["causal"]]
    why_not = "not measured"
    if instruction_set == "amx":
        shapes, why_not = [], "for machines without AMX"
    for types, less in ((("f32",), 0.0), (("bf16", "f16"), 0.02)):
        for least, most, dims, share in SHARES:
            goal = Goal(share - less)
            found = [against_limit(record, goal) for record in shapes
                     if record["shape"]["type"] in types and record["shape"]["dim"] in dims
                     and least <= record["shape"]["queries"] <= (most or record["shape"]["queries"])]
            lengths = f"N = {least}" if most else f"N >= {least}"
            rows.append(row_of(f"{' and '.join(types)}, share of large sgemm, {lengths}, "
                               f"D={' and '.join(map(str, dims))}", "%", goal, found, why_not))
    return rows


def amx_rows(records, instruction_set):
    shapes = [record for record in measured(records, "grid", "attend") if record["shape"]["type"] == "bf16"]
    why_not = "not measured"
    if instruction_set != "amx":
        shapes, why_not = [], "for machines with AMX"
    found = [against_peer(record, "torch", Goal(1.5)) for record in shapes if figures.took_part(record, "torch")
             and record["shape"]["queries"] >= 1024 and record["shape"]["dim"] in (64, 128)]
    rows = [row_of("bf16 with AMX, N >= 1024, against PyTorch", "x", Goal(1.5), found, why_not)]
    for dim, share in ((128, 0.40), (64, 0.33)):
        found = [against_limit(record, Goal(share)) for record in shapes if figures.took_part(record, "matmul")
                 and record["shape"]["dim"] == dim and record["shape"]["queries"] >= 1024
                 and not record["shape"]["causal"]]
        rows.append(row_of(f"bf16 with AMX, share of large bf16 matmul, D={dim}", "%", Goal(share), found, why_not))
    return rows


def own_rows(records):
    """Time against that of another problem."""
    rows = []
    for length, bound in ((2048, 0.57), (8192, 0.53)):
        goal = Goal(bound, at_least=False)
        found = [against_own(record, "full", goal) for record in measured(records, "causal", "attend", "full")
                 if record["shape"]["queries"] == length]
        rows.append(row_of(f"causal against full, time, N={length}", "x", goal, found))
    goal = Goal(0.10, at_least=False)
    found = [against_own(record, "all keys", goal) for record in measured(records, "window", "attend", "all keys")]
    rows.append(row_of("window of 512 at N=16384 against causal, time", "x", goal, found))
    for dim, bound in ((33, 0.80), (80, 0.88), (112, 0.92)):
        goal = Goal(bound, at_least=False)
        found = [against_own(record, "rounded", goal) for record in measured(records, "dims", "attend", "rounded")
                 if record["shape"]["dim"] == dim]
        rows.append(row_of(f"head dim {dim} against {-(-dim // 32) * 32}, time", "x", goal, found))
    return rows


def decode_rows(records):
    rows = []
    for types, bound in ((("f32",), 0.92), (("bf16", "f16"), 0.85)):
        found = [against_limit(record, Goal(bound), "read", gigabytes)
                 for record in measured(records, "decode", "attend", "read") if record["shape"]["type"] in types]
        rows.append(row_of(f"decode 1 on 1, {' and '.join(types)}, share of a plain read", "%", Goal(bound), found))
    beside = measured(records, "decode", "attend", "torch")
    why_not = "no peers: --peers" if of_section(records, "decode") and not beside else "not measured"
    for element_type, bound in (("bf16", 5.0), ("f16", 2.0)):
        found = [against_peer(record, "torch", Goal(bound), gigabytes) for record in beside
                 if record["shape"]["type"] == element_type]
        rows.append(row_of(f"decode 1 on 1, {element_type}, against PyTorch", "x", Goal(bound), found, why_not))
    for types, bound in ((("f32",), 1.4), (("bf16", "f16"), 1.6)):
        goal = Goal(bound, at_least=False)
        found = [against_own(record, "attend 1 on 1", goal)
                 for record in measured(records, "decode on 1", "attend", "attend 1 on 1")
                 if record["shape"]["type"] in types]
        rows.append(row_of(f"decode 8 on 1 against 1 on 1, {' and '.join(types)}, time", "x", goal, found))
    return rows


def doubling_rows(records):
    shapes = measured(records, "doubling", "attend", "twice")
    return [row_of(f"doubling N, time, {word}", "x", goal,
                   [Figure(goal, figures.time_ratio(record, "twice", "attend"),
                           figures.time_ratio(record, "twice", "attend", "processor_seconds"),
                           where=shape_text(record)) for record in shapes])
            for word, goal in (("at least", Goal(3.7)), ("at most", Goal(4.3, at_least=False)))]


def handover_rows(records):
    goal = Goal(20.0, at_least=False)
    found = [Figure(goal, 1e6 * figures.median(record["p50"]), where=shape_text(record))
             for record in of_section(records, "handover")]
    return [row_of("a tiny problem, submit to result, p50", "us", goal, found, is_ratio=False)]


def memory_rows(records):
    """Beyond tensors and packed keys no length may take what the shortest does not, but for the rest of a huge page."""
    shapes = sorted(of_section(records, "memory"), key=lambda record: record["shape"]["queries"])
    beyond = [(record["beyond_tensors"] - record["packed"]) / 2**20 for record in shapes]
    goal = Goal(beyond[0] + 2 if beyond else 2, at_least=False)
    found = [Figure(goal, mebibytes, where=shape_text(record))
             for record, mebibytes in zip(shapes, beyond, strict=True)]
    lengths = f", up to N={shapes[-1]['shape']['queries']}" if shapes else ""
    return [row_of(f"memory beyond tensors and packed keys{lengths}", "MiB", goal, found, is_ratio=False)]


def fastest_echo(record):
    return min((name for name in record["seconds"] if name.startswith("echo")),
               key=lambda name: figures.seconds(record, name))


def against_echo(record, goal):
    echo = fastest_echo(record)
    return Figure(goal, figures.time_ratio(record, "attend", echo),
                  limit=f"{echo} {1e3 * figures.seconds(record, echo):.3g} ms", where=shape_text(record))


def crowd_figure(record):
    """Calls a second as a share of the core's own, and what the goal leaves after the echo's share.

    A call that only echoed would take 1 / echo of the processors' time and one that only computed 1 / core; of both
    together the echo's share is core / (core + echo).
    """
    rates = {name: figures.median(values) for name, values in record["rates"].items()}
    echo = max((name for name in rates if name.startswith("echo")), key=rates.get)
    share = rates["core"] / (rates["core"] + rates[echo])
    return Figure(Goal(0.85 - share), rates["attend"] / rates["core"],
                  limit=f"core {rates['core']:.0f} calls/s, {echo} {rates[echo]:.0f}", where=shape_text(record))


def service_rows(records):
    rows = []
    for section, work, bound in (("service", "a call beyond the kernel's own time, against the fastest echo", 1.15),
                                 ("small call", "small call, p50, against the fastest echo", 1.3)):
        goal = Goal(bound, at_least=False)
        found = [against_echo(record, goal) for record in measured(records, section, "attend")]
        rows.append(row_of(work, "x", goal, found))
    found = [crowd_figure(record) for record in of_section(records, "crowd")]
    rows.append(row_of("16 clients, N=1024, calls a second against the core alone, 85 % less the echo's share", "%",
                       Goal(0.85), found))
    return rows


def rows_of(records, instruction_set):
    return [*peer_rows(records), *share_rows(records, instruction_set), *amx_rows(records, instruction_set),
            *own_rows(records), *decode_rows(records), *handover_rows(records), *memory_rows(records),
            *doubling_rows(records), *service_rows(records)]
