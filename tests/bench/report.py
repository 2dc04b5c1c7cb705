"""What is printed: lines, tables, and the description of the machine."""

import platform

import figures

# What stands between them in docs/performance.md is a run's own output.
BEGIN = "<!-- the output of scripts/bench begins -->"
END = "<!-- the output of scripts/bench ends -->"


def aligned(header, lines, left=1):
    """Columns as wide as their widest cell; the first `left` of them aligned to the left, and the last."""
    widths = [max(len(line[i]) for line in [header, *lines]) for i in range(len(header))]
    last = len(header) - 1

    def text(cells):
        return "  ".join(cell.ljust(width) if i < left or i == last else cell.rjust(width)
                         for i, (cell, width) in enumerate(zip(cells, widths, strict=True))).rstrip()
    return "\n".join([text(header), text(["-" * width for width in widths]), *map(text, lines)])


def number(value, unit):
    if value is None:
        return ""
    if unit == "%":
        return f"{100 * value:.1f} %"
    if unit == "x":
        return f"{value:.2f}x" if value >= 1 else f"{value:.3f}x"
    return f"{value:.1f} {unit}"


def bound(goal, unit):
    text = f"{100 * goal.bound:.0f} %" if unit == "%" else f"{goal.bound:g}x" if unit == "x" else (
        f"{goal.bound:.3g} {unit}")
    return (">= " if goal.at_least else "<= ") + text


def table(rows):
    """The table "Rates to reach"."""
    lines = [[row.work, number(row.figure, row.unit), bound(row.goal, row.unit),
              number(row.processor_figure, row.unit), row.peer, row.limit, row.verdict(), row.where] for row in rows]
    header = ["work", "this core", "goal", "by processor time", "peer", "limit", "verdict", "of all shapes the worst"]
    return aligned(header, lines) if lines else ""


def rate_text(record, contestant):
    """GFLOP/s of products, GB/s of what is read, nothing of calls."""
    if not record["work"][contestant]:
        return ""
    rate = figures.rate(record, contestant) / 1e9
    return f"{rate:.1f} GB/s" if record["section"].startswith("decode") or contestant == "read" else f"{rate:.0f} GF/s"


def progress(record, text):
    """One line on a comparison that has just been made."""
    parts = []
    for contestant in record["seconds"]:
        rate = rate_text(record, contestant)
        off = 100 * figures.spread(record["seconds"][contestant])
        milliseconds = 1e3 * figures.seconds(record, contestant)
        parts.append(" ".join(filter(None, [contestant, f"{milliseconds:.3g} ms", rate, f"+-{off:.0f} %"])))
    for contestant, why_not in record["absent"].items():
        parts.append(f"{contestant}: {why_not[:60]}")
    parts.append(f"others {100 * figures.median(record['others']):.1f} %"
                 + (f", {record['repeated']} repeated" if record["repeated"] else ""))
    return f"{text}: " + "; ".join(parts)


def machine():
    model, flags = platform.processor(), set()
    memory = 0
    with open("/proc/cpuinfo", encoding="ascii", errors="replace") as cpuinfo:
        for line in cpuinfo:
            name, _, value = line.partition(":")
            if name.strip() == "model name":
                model = value.strip()
            elif name.strip() == "flags":
                flags = set(value.split())
    with open("/proc/meminfo", encoding="ascii") as meminfo:
        memory = int(meminfo.readline().split()[1]) // 1024
    wanted = ("avx2", "avx512f", "avx512_bf16", "avx512_fp16", "amx_bf16")
    return {"processor": model, "features": [flag for flag in wanted if flag in flags], "memory_mib": memory,
            "system": f"{platform.system()} {platform.release()}"}


def machine_text(machine):
    text = (f"{machine['processor']}, {machine['processors']} processors ({', '.join(machine['features'])}), "
            f"{machine['memory_mib']} MiB, {machine['system']}; this core: {machine['instruction_set']}, "
            f"{machine['workers']} workers, oneDNN {machine['onednn']}")
    return text + "".join(f"; {peer} {version}" for peer, version in machine.get("peers", {}).items())


def disturbance(records, machine):
    """How far others disturbed the whole run."""
    shares = [share for record in records for share in record.get("others", [])]
    if not shares:
        return "no rounds"
    above = sum(share > figures.DISTURBED for share in shares)
    repeated = sum(record.get("repeated", 0) for record in records)
    return (f"others took {100 * figures.median(shares):.1f} % of the processors (median of {len(shares)} rounds, at most "
            f"{100 * max(shares):.0f} %); {repeated} rounds above {100 * figures.DISTURBED:.0f} % were repeated, {above} "
            f"were kept for want of better; {machine['seconds']:.0f} s in all")


def limits_text(records):
    lines = []
    for record in records:
        if record["section"] != "limits":
            continue
        name = record["shape"]["type"]
        if "tile_rates" in record:
            lines.append(f"tiles of 256 x 256 x 128 on every worker, {name}: "
                         f"{figures.median(record['tile_rates']) / 1e9:.0f} GF/s")
        else:
            contestant = next(iter(record["seconds"]))
            what = "plain read" if contestant == "read" else f"{contestant}, {name}"
            lines.append(f"{what}: {rate_text(record, contestant)}")
    return "\n".join(lines)


def page_text(machine, records, rows, chart_paths):
    """What docs/performance.md shows of a run."""
    command = " ".join(["scripts/bench", *machine.get("arguments", [])])
    blocks = [f"$ {command}", machine_text(machine), limits_text(records), table(rows), disturbance(records, machine)]
    text = ["", "```", "\n\n".join(block for block in blocks if block), "```", ""]
    for path in chart_paths:
        title = path.rpartition("bench_")[2].removesuffix(".svg").replace("_", ", ")
        text += [f"![{title}]({path})", ""]
    if grid := grid_table(records):
        text += ["<details><summary>Every shape of the grid</summary>", "", "```", grid, "```", "", "</details>", ""]
    return "\n".join(text)


GRID_HEADER = ["type", "mask", "D", "heads", "N", "GF/s", "+-", "of matmul", "torch", "ort", "ov", "against best"]


def grid_line(record):
    shape = record["shape"]
    best = figures.best_peer(record)
    cells = [shape["type"], "causal" if shape["causal"] else "full", str(shape["dim"]), str(shape["query_heads"]),
             str(shape["queries"]), f"{figures.rate(record, 'attend') / 1e9:.0f}",
             f"{100 * figures.spread(record['seconds']['attend']):.0f} %",
             f"{100 * figures.rate_ratio(record, 'attend', 'matmul'):.1f} %"]
    for peer in figures.PEERS:
        cells.append(f"{figures.rate(record, peer) / 1e9:.0f}" if figures.took_part(record, peer) else "")
    return [*cells, f"{figures.rate_ratio(record, 'attend', best):.2f}x" if best else ""]


def grid_table(records):
    lines = [grid_line(record) for record in records
             if record["section"] == "grid" and figures.took_part(record, "attend", "matmul")]
    return aligned(GRID_HEADER, lines, left=2) if lines else ""
