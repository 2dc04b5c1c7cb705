#!/usr/bin/env python3
"""`attend infer` reads the files that NumPy and the safetensors package write, and they read what it writes.

usage: files_test.py SERVER-PROGRAM ATTEND-PROGRAM PROTOC REPOSITORY

Needs scripts/setup --python.
"""

import pathlib
import subprocess
import sys
import tempfile
import unittest

import ml_dtypes
import numpy as np
import safetensors
from attend_service import AttendService
from oracle import Problem, assert_within, bounds, compute
from safetensors.numpy import load_file, save_file

SERVER, ATTEND, PROTOC, REPOSITORY = sys.argv[1:5]
BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
DTYPES = {"F32": np.float32, "F16": np.float16, "BF16": BFLOAT16}


def tensors(dtype=np.float32):
    """query [2, 4, 5, 8], key [2, 2, 7, 8], value [2, 2, 7, 6] and mask [2, 1, 1, 7], which leaves every query a key."""
    random = np.random.default_rng(7)
    shapes = {"query": (2, 4, 5, 8), "key": (2, 2, 7, 8), "value": (2, 2, 7, 6)}
    made = {name: random.standard_normal(shape, dtype=np.float32).astype(dtype) for name, shape in shapes.items()}
    mask = random.integers(0, 2, (2, 1, 1, 7)).astype(bool)
    mask[..., 0] = True
    return made | {"mask": mask}


def load_safetensors(path):
    """By the package's reader of bytes: its module for NumPy does not know bfloat16."""
    return {name: np.frombuffer(bytes(view["data"]), DTYPES[view["dtype"]]).reshape(view["shape"])
            for name, view in safetensors.deserialize(pathlib.Path(path).read_bytes())}


class FilesTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        service = AttendService(SERVER, PROTOC, pathlib.Path(REPOSITORY, "proto"))
        cls.address = cls.enterClassContext(service).address

    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))

    def run_attend(self, *arguments):
        return subprocess.run([ATTEND, *map(str, arguments)], capture_output=True, text=True, check=False)

    def infer(self, *arguments):
        done = self.run_attend("infer", "--address", self.address, *arguments)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def inputs(self, path):
        return [f"--{name}={path}" for name in ("query", "key", "value", "mask")]

    def assert_right(self, inputs, output, weights, logsumexp):
        problem = Problem(inputs["query"], inputs["key"], inputs["value"], visible=inputs["mask"])
        oracle = compute(problem)
        bound = bounds(problem, oracle)
        self.assertEqual(output.dtype, inputs["query"].dtype)
        self.assertEqual((weights.dtype, logsumexp.dtype), (np.float32, np.float32))
        for name, got in (("output", output), ("weights", weights), ("logsumexp", logsumexp)):
            assert_within(got, getattr(oracle, name), bound.of(name), name)

    def test_npz(self):
        for write in (np.savez, np.savez_compressed):
            inputs = tensors()
            write(self.folder / "in.npz", **inputs)
            results = self.folder / "out.npz"
            self.infer(*self.inputs(self.folder / "in.npz"), f"--output={results}", f"--weights={results}",
                       f"--logsumexp={results}:lse")
            with np.load(results, allow_pickle=False) as got:
                self.assertEqual(sorted(got.files), ["lse", "output", "weights"])
                self.assert_right(inputs, got["output"], got["weights"], got["lse"])

    def test_safetensors(self):
        for dtype in (np.float32, np.float16, BFLOAT16):
            inputs = tensors(dtype)
            save_file(inputs, self.folder / "in.safetensors", metadata={"made by": "a test"})
            results = self.folder / "out.safetensors"
            self.infer(*self.inputs(self.folder / "in.safetensors"), f"--output={results}", f"--weights={results}",
                       f"--logsumexp={results}")
            got = load_safetensors(results)
            self.assertEqual(sorted(got), ["logsumexp", "output", "weights"])
            self.assert_right(inputs, got["output"], got["weights"], got["logsumexp"])

    def test_bfloat16_of_numpy(self):
        """Which NumPy stores as two bytes of no type, in npy and npz files alike."""
        inputs = tensors(BFLOAT16)
        np.savez(self.folder / "in.npz", **inputs)
        results = self.folder / "out.npz"
        self.infer(*self.inputs(self.folder / "in.npz"), "--element_type=bf16", f"--output={self.folder / 'o.npy'}",
                   f"--weights={results}", f"--logsumexp={results}")
        output = np.load(self.folder / "o.npy", allow_pickle=False).view(BFLOAT16)
        with np.load(results, allow_pickle=False) as got:
            self.assert_right(inputs, output, got["weights"], got["logsumexp"])

    def test_names(self):
        """Of a model's layers, of other alphabets, and numpy.savez's own for arrays without one."""
        inputs = tensors()
        np.savez(self.folder / "in.npz", inputs["query"], **{"layers/0 κ": inputs["key"]}, value=inputs["value"])
        results = self.folder / "out.npz"
        self.infer(f"--query={self.folder}/in.npz:arr_0", f"--key={self.folder}/in.npz:layers/0 κ",
                   f"--value={self.folder}/in.npz", f"--output={results}:出力")
        with np.load(results, allow_pickle=False) as got:
            self.assertEqual(got.files, ["出力"])
            self.assertEqual(got["出力"].shape, (2, 4, 5, 6))

    def test_generate(self):
        for suffix in ("npz", "safetensors"):
            path = self.folder / f"x.{suffix}"
            done = self.run_attend("generate", f"--output={path}:x", "--shape=3,4", "--seed=1")
            self.assertEqual(done.returncode, 0, done.stderr)
            plain = self.folder / "x.npy"
            self.run_attend("generate", f"--output={plain}", "--shape=3,4", "--seed=1")
            got = np.load(path)["x"] if suffix == "npz" else load_file(path)["x"]
            np.testing.assert_array_equal(got, np.load(plain))

    def assert_refused(self, path, words):
        """One line that names the file, and nothing written."""
        before = sorted(self.folder.iterdir())
        done = self.run_attend("infer", "--address", self.address, *self.inputs(path),
                               f"--output={self.folder / 'o.npz'}")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertIn(str(path), done.stderr)
        self.assertIn(words, done.stderr)
        self.assertEqual(sorted(self.folder.iterdir()), before)

    def test_arrays_that_are_refused(self):
        inputs = tensors()
        for query, words in ((np.asfortranarray(inputs["query"]), "Fortran order"),
                             (inputs["query"].astype(np.float64), "float64"),
                             (inputs["query"].astype(">f4"), "big-endian"),
                             (inputs["query"].astype(np.int32), "'<i4'"),
                             (inputs["query"].astype(np.int64), "must be f32, bf16 or f16"),
                             (np.array([{}], object), "Python objects")):
            np.savez_compressed(self.folder / "in.npz", **(inputs | {"query": query}))
            self.assert_refused(self.folder / "in.npz", words)
        save_file(inputs | {"query": inputs["query"].astype(np.float64)}, self.folder / "in.safetensors")
        self.assert_refused(self.folder / "in.safetensors", "the elements are F64")

    def test_files_that_are_refused(self):
        inputs = tensors()
        np.savez(self.folder / "in.npz", **inputs)
        save_file(inputs, self.folder / "in.safetensors")
        for name in ("in.npz", "in.safetensors"):
            whole = (self.folder / name).read_bytes()
            path = self.folder / name
            path.write_bytes(whole[:len(whole) // 2])
            self.assert_refused(path, "")
            path.write_bytes(b"")
            self.assert_refused(path, "")
        np.savez(self.folder / "in.npz")
        self.assert_refused(self.folder / "in.npz", "no arrays at all")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
