#!/usr/bin/env python3
"""Shows that the suite's arithmetic, verdicts and tables are right, and that it survives programs that fail."""

import sys
import tempfile
import pathlib
import unittest
from unittest import mock

import bench
import charts
import children
import comparison
import figures
import goals
import report
import shapes
from figures import Figure, Goal, row_of


def record(section="grid", shape=None, work=None, others=(0.0, 0.0, 0.0), **seconds):
    return {"section": section, "shape": shape or {}, "seconds": seconds, "processor_seconds": seconds,
            "work": work or dict.fromkeys(seconds, 8e9), "others": list(others), "repeated": 0, "absent": {}}


def grid_record(queries=1024, dim=64, element_type="f32", causal=False, **seconds):
    return record(shape=shapes.Shape(queries, dim, 8, element_type, causal).record(), **seconds)


class FiguresTest(unittest.TestCase):
    def test_spread_is_half_the_distance_of_quartiles_by_the_median(self):
        self.assertEqual(figures.spread([1, 2, 3, 4, 5]), 1 / 3)
        self.assertEqual(figures.spread([7]), 0)
        self.assertEqual(figures.spread([4, 4, 4]), 0)

    def test_ratios_are_medians_over_rounds_not_ratios_of_medians(self):
        # Each round doubles the time of both: the ratio stays, whichever rounds are the medians.
        both = record(attend=[1, 2, 4], matmul=[2, 4, 8])
        self.assertEqual(figures.time_ratio(both, "attend", "matmul"), 0.5)
        mixed = record(attend=[1, 2, 9], matmul=[1, 4, 3])
        self.assertEqual(figures.time_ratio(mixed, "attend", "matmul"), 1)

    def test_rate_ratios_count_what_each_did(self):
        both = record(attend=[1, 1, 1], matmul=[2, 2, 2], work={"attend": 6, "matmul": 8})
        self.assertEqual(figures.rate_ratio(both, "attend", "matmul"), 1.5)
        self.assertEqual(figures.rate(both, "matmul"), 4)

    def test_the_best_peer_is_the_fastest_that_took_part(self):
        self.assertEqual(figures.best_peer(record(attend=[1], torch=[3], openvino=[2])), "openvino")
        self.assertIsNone(figures.best_peer(record(attend=[1], torch=[])))

    def test_goals_at_least_and_at_most(self):
        self.assertEqual(Goal(1.2).verdict(1.2), "reached")
        self.assertEqual(Goal(1.0).verdict(0.75), "missed by 25 %")
        self.assertEqual(Goal(1.0).verdict(0.96875), "missed by 3.1 %")
        self.assertEqual(Goal(1.0).verdict(0.9999), "missed by 0.1 %")
        self.assertEqual(Goal(0.5, at_least=False).verdict(0.5), "reached")
        self.assertEqual(Goal(0.5, at_least=False).verdict(0.75), "missed by 50 %")

    def test_a_row_shows_the_figure_furthest_from_its_goal(self):
        row = row_of("work", "x", Goal(1), [Figure(Goal(1), 1.1, where="a"), Figure(Goal(2), 1.5, where="b"),
                                            Figure(Goal(1), 0.95, where="c")])
        self.assertEqual((row.figure, row.where, row.goal.bound), (1.5, "b", 2))
        self.assertEqual(row.verdict(), "missed by 25 % (1 of 3)")

    def test_a_row_without_figures_says_why(self):
        row = row_of("work", "x", Goal(1), [], "no peers")
        self.assertEqual(row.verdict(), "no peers")
        self.assertFalse(row.far_off())

    def test_only_ratios_under_half_their_goal_are_far_off(self):
        def row(figure, goal, **more):
            return row_of("work", "x", goal, [Figure(goal, figure)], **more)
        self.assertFalse(row(0.5, Goal(1)).far_off())
        self.assertTrue(row(0.49, Goal(1)).far_off())
        self.assertFalse(row(2.0, Goal(1, at_least=False)).far_off())
        self.assertTrue(row(2.1, Goal(1, at_least=False)).far_off())
        self.assertFalse(row(0.1, Goal(1), is_ratio=False).far_off())

    def test_what_neighbours_spoiled_is_not_far_off(self):
        def row(processor_figure):
            return row_of("work", "x", Goal(1), [Figure(Goal(1), 0.4, processor_figure)])
        self.assertFalse(row(0.6).far_off())
        self.assertTrue(row(0.4).far_off())


class GoalsTest(unittest.TestCase):
    def find(self, records, start, instruction_set="avx512"):
        rows = [row for row in goals.rows_of(records, instruction_set) if row.work.startswith(start)]
        self.assertEqual(len(rows), 1, [row.work for row in rows])
        return rows[0]

    def test_every_goal_has_a_row_even_if_nothing_was_measured(self):
        rows = goals.rows_of([], "avx512")
        self.assertGreater(len(rows), 25)
        self.assertTrue(all(row.figure is None and row.verdict() for row in rows))
        self.assertEqual(len({row.work for row in rows}), len(rows))

    def test_peers_that_were_absent_leave_no_figure(self):
        row = self.find([grid_record(attend=[1], matmul=[1])], "f32, every shape")
        self.assertIsNone(row.figure)
        self.assertEqual(row.verdict(), "no peers: --peers")

    def test_the_best_peer_of_each_shape_counts(self):
        records = [grid_record(128, attend=[1], torch=[1.5], openvino=[1.25]), grid_record(256, attend=[1], torch=[2])]
        row = self.find(records, "f32, every shape")
        self.assertEqual((row.figure, row.of, row.reached), (1.25, 2, 2))
        self.assertIn("openvino", row.peer)

    def test_long_sequences_have_goals_by_dim(self):
        records = [grid_record(1024, 64, attend=[1], torch=[1.15]), grid_record(1024, 128, attend=[1], torch=[1.15]),
                   grid_record(512, 64, attend=[1], torch=[0.5])]
        self.assertEqual(self.find(records, "the same, N >= 1024, D=64").verdict(), "missed by 4.2 %")
        self.assertEqual(self.find(records, "the same, N >= 1024, D=128").verdict(), "reached")

    def test_shares_of_the_large_product_are_of_full_attention_without_amx(self):
        full = grid_record(2048, 128, attend=[1], matmul=[0.95])
        causal = grid_record(2048, 128, causal=True, attend=[1], matmul=[0.5])
        name = "f32, share of large sgemm, N >= 1024, D=128"
        self.assertEqual(self.find([full, causal], name).verdict(), "reached")
        self.assertEqual(self.find([full, causal], name, "amx").verdict(), "for machines without AMX")

    def test_two_points_less_for_types_of_16_bits(self):
        row = self.find([grid_record(2048, 128, "bf16", attend=[1], matmul=[0.92])], "bf16 and f16, share of large sgemm, "
                        "N >= 1024, D=128")
        self.assertEqual(row.goal.bound, 0.94 - 0.02)
        self.assertEqual(row.verdict(), "reached")

    def test_goals_with_amx(self):
        fast = grid_record(2048, 128, "bf16", attend=[1], matmul=[0.41], torch=[1.6])
        self.assertEqual(self.find([fast], "bf16 with AMX, N >= 1024", "amx").verdict(), "reached")
        self.assertEqual(self.find([fast], "bf16 with AMX, share of large bf16 matmul, D=128", "amx").verdict(), "reached")
        self.assertEqual(self.find([fast], "bf16 with AMX, N >= 1024").verdict(), "for machines with AMX")

    def test_memory_may_not_grow_with_length(self):
        def at(keys, beyond):
            return {"section": "memory", "shape": shapes.Shape(keys, 64, 1).record(), "packed": keys * 256,
                    "beyond_tensors": keys * 256 + beyond, "tensors": 0}
        steady = [at(1024, 2 << 20), at(131072, 2 << 20)]
        self.assertEqual(self.find(steady, "memory").verdict(), "reached (2 of 2)")
        growing = [at(1024, 2 << 20), at(4096, 6 << 20), at(131072, 4 << 20)]
        self.assertEqual(self.find(growing, "memory").verdict(), "missed by 50 % (2 of 3)")

    def test_doubling_has_a_goal_on_either_side(self):
        records = [record("doubling", shapes.Shape(2048, 64, 2).record(), twice=[4.5], attend=[1])]
        self.assertEqual(self.find(records, "doubling N, time, at least").verdict(), "reached")
        self.assertEqual(self.find(records, "doubling N, time, at most").verdict(), "missed by 4.7 %")

    def test_decoding_is_measured_against_plain_reading(self):
        shape = shapes.Shape(1, 128, 8, keys=4096, kv_heads=8, batch=8).record()
        row = self.find([record("decode", shape, attend=[2], read=[1])], "decode 1 on 1, f32")
        self.assertEqual(row.verdict(), "missed by 46 %")
        self.assertEqual(row.limit, "read 8.0 GB/s")

    def test_a_call_is_measured_against_the_fastest_echo(self):
        call = record("small call", shapes.Shape(16, 64, 1).record(), **{"attend": [3], "echo sync": [2], "echo raw": [2.5]})
        row = self.find([call], "small call")
        self.assertEqual((row.figure, row.limit), (1.5, "echo sync 2e+03 ms"))
        self.assertEqual(row.verdict(), "missed by 15 %")

    def test_of_many_clients_the_share_of_the_echo_is_not_asked_back(self):
        # Of 1 / 30 s for computing and 1 / 90 s for echoing the echo's share is a quarter: 60 % are left to reach.
        crowd = {"section": "crowd", "shape": shapes.Shape(1024, 64, 8).record(),
                 "rates": {"core": [30.0], "attend": [21.0], "echo sync": [80.0], "echo raw": [90.0]}}
        row = self.find([crowd], "16 clients")
        self.assertAlmostEqual(row.goal.bound, 0.6)
        self.assertAlmostEqual(row.figure, 0.7)
        self.assertEqual(row.limit, "core 30 calls/s, echo raw 90")


class ReportTest(unittest.TestCase):
    def test_columns_are_as_wide_as_their_widest_cell(self):
        text = report.aligned(["work", "n", "verdict"], [["a", "12345", "yes"], ["longer", "1", ""]])
        self.assertEqual(text, "work        n  verdict\n------  -----  -------\na       12345  yes\nlonger      1")

    def test_numbers_in_the_unit_of_their_row(self):
        self.assertEqual(report.number(0.945, "%"), "94.5 %")
        self.assertEqual(report.number(0.1234, "x"), "0.123x")
        self.assertEqual(report.number(1.234, "x"), "1.23x")
        self.assertEqual(report.number(12.34, "us"), "12.3 us")
        self.assertEqual(report.number(None, "x"), "")
        self.assertEqual(report.bound(Goal(0.94), "%"), ">= 94 %")
        self.assertEqual(report.bound(Goal(0.1, at_least=False), "x"), "<= 0.1x")

    def test_a_line_of_the_table_holds_figure_goal_peer_limit_and_verdict(self):
        rows = goals.rows_of([grid_record(attend=[1], matmul=[0.8], torch=[0.9])], "avx512")
        line = next(line for line in report.table(rows).splitlines() if line.startswith("f32, every shape"))
        for word in ("0.900x", ">= 1x", "torch 9 GF/s", "matmul 10 GF/s", "missed by 10 %", "f32 N=1024 D=64 8h"):
            self.assertIn(word, line)

    def test_disturbed_rounds_are_counted(self):
        text = report.disturbance([record(attend=[1, 1, 1], others=(0.01, 0.02, 0.5))], {"seconds": 7})
        self.assertIn("others took 2.0 % of the processors (median of 3 rounds, at most 50 %)", text)
        self.assertIn("1 were kept", text)
        self.assertEqual(report.disturbance([], {"seconds": 7}), "no rounds")

    def test_the_page_shows_table_charts_and_grid(self):
        records = [grid_record(attend=[1], matmul=[0.8])]
        machine = {"processor": "A", "processors": 2, "features": ["avx2"], "memory_mib": 7, "system": "L",
                   "instruction_set": "avx2", "workers": 2, "onednn": "2.6.3", "seconds": 5}
        text = report.page_text(machine, records, goals.rows_of(records, "avx2"), ["images/bench_memory.svg"])
        for part in ("A, 2 processors (avx2)", "f32, share of large sgemm", "![memory](images/bench_memory.svg)", "<details>",
                     "against best"):
            self.assertIn(part, text)

    def test_absent_peers_leave_empty_cells(self):
        line = report.grid_table([grid_record(attend=[1], matmul=[1])]).splitlines()[-1]
        self.assertTrue(line.endswith("100.0 %"), line)


class DocumentTest(unittest.TestCase):
    def test_what_stands_between_the_marks_is_replaced(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            (root / "images").mkdir()
            (root / "out").mkdir()
            (root / "out" / "memory.svg").write_text("<svg/>", encoding="utf-8")
            page = root / "page.md"
            page.write_text(f"before\n{report.BEGIN}\nold\n{report.END}\nafter\n", encoding="utf-8")
            self.assertEqual(bench.publish_charts([root / "out" / "memory.svg"], page), ["images/bench_memory.svg"])
            for text in ("first", "second"):
                bench.document(page, text)
            self.assertEqual(page.read_text(encoding="utf-8"),
                             f"before\n{report.BEGIN}\nsecond\n{report.END}\nafter\n")
            self.assertEqual((root / "images" / "bench_memory.svg").read_text(encoding="utf-8"), "<svg/>")


class ChartsTest(unittest.TestCase):
    def test_a_line_for_each_contestant_that_took_part(self):
        script = charts.throughput_script([grid_record(attend=[1], matmul=[1], torch=[1])])
        for label in ("this core", "PyTorch", "limit"):
            self.assertIn(f'title "{label}', script)
        self.assertNotIn("OpenVINO", script)

    def test_nothing_measured_draws_nothing(self):
        self.assertIsNone(charts.throughput_script([]))
        self.assertIsNone(charts.memory_script([]))
        self.assertFalse(charts.draw(None, "x.svg"))


class ShapesTest(unittest.TestCase):
    def test_operations(self):
        self.assertEqual(shapes.Shape(4, 2, 3).operations(), 4 * 3 * 16 * 2)
        self.assertEqual(shapes.Shape(4, 2, 3, causal=True).operations(), 4 * 3 * 10 * 2)
        self.assertEqual(shapes.Shape(1, 2, 3, keys=5, kv_heads=1, batch=2).operations(), 4 * 2 * 3 * 5 * 2)

    def test_the_grid_is_every_combination_once(self):
        every = shapes.grid((1, 2), (3, 4), (5,), ("f32", "f16"), (False, True))
        self.assertEqual(len(set(every)), 16)

    def test_words_and_text(self):
        shape = shapes.Shape(1, 128, 64, "bf16", keys=4096, kv_heads=8, batch=8)
        self.assertEqual(shape.words(), "type=bf16 batch=8 query_heads=64 kv_heads=8 queries=1 keys=4096 dim=128 causal=0 "
                                        "window=0")
        self.assertEqual(shape.text(), "bf16 1 on 4096 keys D=128 batch 8 64 heads on 8")
        self.assertEqual(shapes.Shape(128, 64, 1, causal=True).text(), "f32 N=128 D=64 1 head causal")


# Answers "slow" and "fast" with times, "broken" with an error, "end" by ending.
FAKE = """
import json, sys
for line in sys.stdin:
    word = line.split()[0]
    if word == "end": sys.exit(3)
    if word == "broken": print(json.dumps({"error": "no such kernel"}), flush=True); continue
    runs = int(line.split("runs=")[1])
    print(json.dumps({"wall": [1.0 if word == "slow" else 0.01] * runs, "processor": [0.02] * runs}), flush=True)
"""


class ComparisonTest(unittest.TestCase):
    def setUp(self):
        with tempfile.NamedTemporaryFile("w", suffix=".py", delete=False) as file:
            file.write(FAKE)
        self.addCleanup(pathlib.Path(file.name).unlink)
        self.child = children.Child([sys.executable, file.name], "fake")
        self.addCleanup(self.child.close)
        # Others on the machine are not this test's business: without patience every round counts.
        self.comparison = comparison.Comparison([self.child], children.Patience(0), comparison.Effort(5, 3, 4.0))

    def contestant(self, word, name):
        return comparison.Contestant(name, self.child, word, work=2.0)

    def test_all_take_part_in_every_round(self):
        made = self.comparison.run("s", {}, [self.contestant("fast", "a"), self.contestant("fast", "b")])
        self.assertEqual(made["seconds"], {"a": [0.01] * 5, "b": [0.01] * 5})
        self.assertEqual(made["processor_seconds"]["a"], [0.02] * 5)
        self.assertEqual(len(made["others"]), 5)
        self.assertEqual(figures.rate(made, "a"), 200)

    def test_long_runs_get_fewer_rounds(self):
        made = self.comparison.run("s", {}, [self.contestant("slow", "a")])
        self.assertEqual(made["seconds"], {"a": [1.0] * 3})

    def test_where_nobody_can_nothing_is_measured(self):
        made = self.comparison.run("s", {}, [self.contestant("broken", "torch")])
        self.assertEqual(made["absent"], {"torch": "no such kernel"})
        self.assertEqual((made["seconds"], made["others"]), ({}, []))

    def test_who_cannot_is_absent_and_the_others_go_on(self):
        made = self.comparison.run("s", {}, [self.contestant("fast", "a"), self.contestant("broken", "torch")])
        self.assertEqual(made["absent"], {"torch": "no such kernel"})
        self.assertFalse(figures.took_part(made, "torch"))
        self.assertTrue(figures.took_part(made, "a"))

    def test_a_round_is_repeated_while_there_is_patience(self):
        shares = iter([0.5, 0.2, 0.01])
        with mock.patch.object(children.Watch, "share", lambda _: next(shares)), \
                mock.patch.object(children.Patience, "wait_for_quiet", lambda *_: None):
            tried = []
            patient = comparison.Comparison([], children.Patience(100), comparison.Effort())
            self.assertEqual(patient.undisturbed(lambda: tried.append(1)), (None, 0.01, 2))
            self.assertEqual(len(tried), 3)
            shares, counted, made = iter([0.01, 0.5, 0.02]), iter(range(9)), {}
            self.assertEqual(patient.repeat(made, 2, lambda: next(counted)), [0, 2])
            self.assertEqual(made, {"others": [0.01, 0.02], "repeated": 1})
            shares = iter([0.5])
            hasty = comparison.Comparison([], children.Patience(0), comparison.Effort())
            self.assertEqual(hasty.undisturbed(lambda: 7), (7, 0.5, 0))

    def test_a_program_that_ends_is_named(self):
        with self.assertRaisesRegex(children.ChildError, "fake ended with 3 at: end"):
            self.child.ask("end")


class WatchTest(unittest.TestCase):
    def test_a_process_that_has_gone_counts_nothing(self):
        self.assertEqual(children.process_seconds(2**30), 0)

    def test_the_share_of_others_is_never_negative(self):
        self.assertGreaterEqual(children.Watch([]).share(), 0)

    def test_without_patience_nobody_waits(self):
        patience = children.Patience(0)
        patience.wait_for_quiet([], 0.03)
        self.assertEqual(round(patience.left, 2), 0)


if __name__ == "__main__":
    unittest.main()
