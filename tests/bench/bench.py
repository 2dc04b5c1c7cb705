#!/usr/bin/env python3
"""Measures this core beside the machine's limits and beside peers, and prints the table "Rates to reach".

scripts/bench builds what this asks. Every comparison is printed as it is made; the records, the table and the charts go
to the folder given by --out.
"""

import argparse
import dataclasses
import json
import os
import pathlib
import shutil
import subprocess
import sys
import time

import charts
import figures
import goals
import report
import sections
from children import Child, ChildError, Patience
from comparison import Comparison, Effort

HERE = pathlib.Path(__file__).resolve().parent


@dataclasses.dataclass(frozen=True)
class Selection:
    """The part of the grid that is wanted."""

    lengths: tuple = (128, 256, 512, 1024, 2048, 4096, 8192)
    dims: tuple = (64, 80, 128)
    heads: tuple = (1, 8, 32)
    types: tuple = ("f32", "bf16", "f16")

    def narrowed(self):
        return self != Selection()


@dataclasses.dataclass(frozen=True)
class Service:
    client: Child
    targets: dict  # of "attend" and each kind of echo, its address


class Bench:
    """The programs that are asked, and the records so far."""

    def __init__(self, options, selection):
        self.quick = options.quick
        self.selection = selection
        self._with_peers = options.peers
        self._programs, self._out, self._most = options.programs, options.out, options.max_instruction_set
        self._command = [str(options.programs / "attend_bench"), *([self._most] if self._most else [])]
        self._children = []
        patience = Patience(0 if options.quick else options.patience)
        effort = Effort(rounds=3, fewest=3, seconds=1.5) if options.quick else Effort(rounds=options.rounds)
        self._comparison = Comparison(self._children, patience, effort)

    def start(self):
        """Raises ChildError."""
        self.core = self.fresh_core()
        about = self.core.ask("about")
        self.workers = about["workers"]
        self.instruction_set = about["instruction_set"]
        self.onednn = about["onednn"]
        self.peers = {name: self._start_peer(name) for name in figures.PEERS} if self._with_peers else {}
        self.versions = {name: child.ask("about")["version"] for name, child in self.peers.items()}

    def fresh_core(self):
        return self._start(self._command, "attend_bench")

    def _start_peer(self, name):
        python = pathlib.Path("build/interop") / ("pytorch" if name == "torch" else "peers") / "bin/python"
        if not python.exists():
            raise ChildError(f"{python} is missing: scripts/setup --peers makes it")
        return self._start([str(python), "-B", str(HERE / "peer.py"), name, str(self.workers)], name)

    def start_service(self):
        """attend-server, the three echo servers, and the program that calls them."""
        ready = self._out / "server.json"
        ready.unlink(missing_ok=True)
        # --http_address too on a free port: whoever runs this may have a server running.
        command = [str(self._programs / "attend-server"), "--grpc_address=127.0.0.1:0", "--http_address=127.0.0.1:0",
                   f"--ready_file={ready}", "--log_level=warning"]
        if self._most:
            command.append(f"--max_instruction_set={self._most}")
        server = self._start(command, "attend-server")
        targets = {"attend": server.wait_for_file(ready)["grpc"]}
        for kind in sections.ECHOES:
            echo = self._start([str(self._programs / "attend_bench_echo"), kind], f"echo {kind}")
            targets[kind] = f"127.0.0.1:{echo.read()['port']}"
        client = self._start([str(self._programs / "attend_bench_service")], "attend_bench_service")
        return Service(client, targets)

    def run_parts(self, seconds):
        """What Google Benchmark says of each part, in nanoseconds of processor time."""
        output = subprocess.run([str(self._programs / "attend_bench_parts"), "--benchmark_format=json",
                                 f"--benchmark_min_time={seconds}"], check=True, capture_output=True, text=True).stdout
        return json.loads(output)["benchmarks"]

    def _start(self, command, name):
        child = Child(command, name)
        self._children.append(child)
        return child

    def close(self, child):
        self._children.remove(child)
        child.close()

    def close_all(self):
        for child in list(self._children):
            self.close(child)

    def compare(self, section, shape, contestants, text=None):
        record = self._comparison.run(section, shape, contestants)
        return self.note(record, report.progress(record, text or " ".join(map(str, shape.values()))))

    def repeat(self, record, rounds, measure):
        return self._comparison.repeat(record, rounds, measure)

    @staticmethod
    def note(record, text):
        print(f"{record['section']}: {text}", flush=True)
        return record


def parse(arguments):
    parser = argparse.ArgumentParser(prog="scripts/bench", description=__doc__.partition("\n")[0])
    def words(text):
        return tuple(text.split(","))

    def numbers(text):
        return tuple(int(word) for word in text.split(","))
    everything = ",".join(sections.SECTIONS)
    parser.add_argument("--only", type=words, default=(), metavar="SECTIONS", help=f"some of {everything}")
    parser.add_argument("--quick", action="store_true", help="a few shapes for a moment each; fails (exit 1) where a "
                        "ratio falls under half of its goal")
    parser.add_argument("--peers", action="store_true", help="PyTorch, ONNX Runtime and OpenVINO take turns with this "
                        "core, with as many threads")
    parser.add_argument("--lengths", type=numbers, default=Selection.lengths, help="of the grid")
    parser.add_argument("--dims", type=numbers, default=Selection.dims, help="of the grid")
    parser.add_argument("--heads", type=numbers, default=Selection.heads, help="of the grid")
    parser.add_argument("--types", type=words, default=Selection.types, help="of the grid: f32, bf16, f16")
    parser.add_argument("--rounds", type=int, default=5, help="of every comparison; long ones get 3")
    parser.add_argument("--patience", type=float, default=600, metavar="SECONDS",
                        help="that the run may lose by repeating rounds which others disturbed")
    parser.add_argument("--max_instruction_set", default="", help="caps this core and oneDNN: avx2, avx512, ...")
    parser.add_argument("--programs", type=pathlib.Path, default=pathlib.Path("build/release/bin"), help=argparse.SUPPRESS)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("build/bench"), metavar="FOLDER",
                        help="where the JSON and the charts go")
    parser.add_argument("--document", type=pathlib.Path, metavar="PAGE",
                        help="also puts the output into this page (docs/performance.md), and the charts beside it")
    options = parser.parse_args(arguments)
    unknown = set(options.only) - set(sections.SECTIONS)
    if unknown:
        parser.error(f"unknown section {' '.join(sorted(unknown))}; there are {everything}")
    return options


def write(options, machine, records, rows):
    """The JSON, and what gnuplot draws of it. The paths of all."""
    table = [{**dataclasses.asdict(row), "verdict": row.verdict()} for row in rows]
    text = json.dumps({"machine": machine, "table": table, "records": records}, indent=1)
    (options.out / "bench.json").write_text(text + "\n", encoding="utf-8")
    written = [options.out / "bench.json"]
    for name, script in charts.scripts(records).items():
        path = options.out / name
        if charts.draw(script, path):
            written.append(path)
    print("written:", *written)
    return written


def publish_charts(written, page):
    """Copies the charts beside the page's images. Their paths from the page."""
    charts_written = [path for path in written if path.suffix == ".svg"]
    for path in charts_written:
        shutil.copy(path, page.parent / "images" / f"bench_{path.name}")
    return [f"images/bench_{path.name}" for path in charts_written]


def document(page, text):
    """Puts a run's output between the two marks of the page."""
    before, _, rest = page.read_text(encoding="utf-8").partition(report.BEGIN)
    _, _, after = rest.partition(report.END)
    page.write_text(f"{before}{report.BEGIN}\n{text}\n{report.END}{after}", encoding="utf-8")


def measure(bench, options):
    records = []
    for name in (options.only or sections.SECTIONS):
        records += sections.SECTIONS[name](bench)
    return records


def measured_here(options, selection):
    """The machine and the records."""
    bench = Bench(options, selection)
    try:
        bench.start()
        machine = {**report.machine(), "processors": os.cpu_count(), "instruction_set": bench.instruction_set,
                   "workers": bench.workers, "onednn": bench.onednn, "peers": bench.versions}
        print(report.machine_text(machine), flush=True)
        return machine, measure(bench, options)
    finally:
        bench.close_all()


def main(arguments):
    options = parse(arguments)
    selection = Selection(options.lengths, options.dims, options.heads, options.types)
    options.out.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()
    try:
        machine, records = measured_here(options, selection)
    except ChildError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    machine["arguments"] = arguments
    machine["seconds"] = round(time.monotonic() - started, 1)
    rows = goals.rows_of(records, machine["instruction_set"])
    # Of a part of the run only what it measured; of a whole one what it did not measure, too.
    whole = not (options.quick or options.only or selection.narrowed())
    shown = [row for row in rows if row.figure is not None or whole]
    for block in (report.grid_table(records), report.table(shown), report.disturbance(records, machine)):
        print(f"\n{block}" if block else "", end="\n" if block else "")
    written = write(options, machine, records, rows)
    if options.document:
        charts_of_page = publish_charts(written, options.document)
        document(options.document, report.page_text(machine, records, shown, charts_of_page))
    far_off = [row for row in rows if row.far_off()]
    for row in far_off:
        print(f"bench: under half of its goal: {row.work}: {report.number(row.figure, row.unit)}", file=sys.stderr)
    return 1 if options.quick and far_off else 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
