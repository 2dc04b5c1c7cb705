#!/usr/bin/env python3
"""Shows that layers.py catches what it is there for, and lets through what is allowed."""

import pathlib
import tempfile
import unittest

import layers


def check(path, text):
    """The violations of a tree with one file."""
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, encoding="utf-8")
        violations, files = layers.check_tree(root)
        assert files == 1
        return violations


def include(name):
    return f'#include "{name}"\n'


class LayersTest(unittest.TestCase):
    def assert_caught(self, path, text):
        self.assertNotEqual(check(path, text), [], f"{path}: {text}")

    def assert_allowed(self, path, text):
        self.assertEqual(check(path, text), [])

    def test_core_includes_nothing_above_it(self):
        for name in ["server/settings.h", "client/tensor.h", "proto/wire/bulk_bytes.h", "attend/v1/attention.pb.h",
                     "google/rpc/status.pb.h", "tests/testing/oracle.h"]:
            self.assert_caught("core/softmax.cc", include(name))

    def test_core_knows_no_service_library(self):
        for name in ["grpcpp/grpcpp.h", "grpc/grpc.h", "google/protobuf/message.h", "spdlog/spdlog.h", "httplib.h",
                     "prometheus/counter.h", "nlohmann/json.hpp", "CLI/CLI.hpp", "syslog.h"]:
            self.assert_caught("core/softmax.cc", include(name))
            self.assert_caught("core/softmax_test.cc", include(name))
            self.assert_caught("core/softmax.cc", f"  #  include <{name}>\n")

    def test_core_does_not_print_read_the_environment_exit_or_abort(self):
        for line in ['std::getenv("X");', "abort();", "std::exit(1);", 'printf("x");', "std::cerr << 1;", "exit (2);",
                     "std::terminate();", "extern char** environ;"]:
            self.assert_caught("core/softmax.cc", line)
            self.assert_allowed("server/main.cc", line)

    def test_comments_strings_and_longer_names_are_no_calls(self):
        text = '// never abort()\n/* exit(1)\n printf() */ x = "getenv(";\non_exit(1);\n'
        self.assert_allowed("core/softmax.cc", text)
        self.assert_allowed("core/clock_test.cc", 'setenv("TZ", "", 1);')

    def test_a_line_after_a_comment_keeps_its_number(self):
        self.assertEqual(len(check("core/clock.cc", "/* a\n b */\n\nabort();\n")), 1)
        self.assertIn("core/clock.cc:4:", check("core/clock.cc", "/* a\n b */\n\nabort();\n")[0])

    def test_onednn_stays_in_its_files(self):
        for text in [include("oneapi/dnnl/dnnl.hpp"), "dnnl::memory m;", "dnnl_status_t s;"]:
            self.assert_caught("core/tiled_attention.cc", text)
            self.assert_caught("core/matmul_test.cc", text)
            self.assert_allowed("core/onednn_matmul.cc", text)
        self.assert_allowed("core/tile_kernels.cc", include("core/onednn_matmul.h"))

    def test_simd_stays_in_its_files(self):
        for text in [include("hwy/highway.h"), include("immintrin.h"), "HWY_EXPORT(Exp);", "__m256 x;",
                     "_mm256_add_ps(a, b);"]:
            self.assert_caught("core/tiled_attention.cc", text)
            self.assert_allowed("core/softmax.cc", text)

    def test_client_and_server_do_not_see_each_other(self):
        self.assert_caught("client/load.cc", include("server/settings.h"))
        self.assert_caught("client/load.cc", include("core/clock.h"))
        self.assert_caught("client/load.cc", include("google/rpc/status.pb.h"))
        self.assert_caught("client/load_test.cc", include("server/settings.h"))
        self.assert_caught("server/main.cc", include("client/tensor.h"))
        self.assert_caught("server/main.cc", include("attend/client/v1/error_details.pb.h"))

    def test_the_wire_sees_neither(self):
        for name in ["server/settings.h", "client/tensor.h", "core/clock.h"]:
            self.assert_caught("proto/wire/bulk_bytes.h", include(name))

    def test_only_tests_include_tests(self):
        self.assert_caught("server/main.cc", include("tests/testing/oracle.h"))
        self.assert_caught("client/load.h", include("tests/testing/oracle.h"))
        self.assert_allowed("client/load_test.cc", include("tests/testing/oracle.h"))
        self.assert_allowed("core/softmax_test.cc", include("tests/testing/oracle.h"))

    def test_what_tests_share_depends_on_core_alone(self):
        self.assert_caught("tests/testing/oracle.cc", include("server/settings.h"))
        self.assert_caught("tests/testing/oracle.cc", include("attend/v1/attention.pb.h"))
        self.assert_allowed("tests/testing/oracle.cc", include("core/attention_problem.h"))
        self.assert_allowed("tests/integration/wire_test.cc", include("client/tensor.h") + include("server/settings.h"))

    def test_what_is_allowed(self):
        self.assert_allowed("server/codec.cc", include("core/clock.h") + include("proto/wire/bulk_bytes.h")
                            + include("grpc/health/v1/health.pb.h") + include("grpcpp/grpcpp.h"))
        self.assert_allowed("client/load.cc", include("attend/v1/attention.pb.h") + include("client/tensor.h"))
        self.assert_allowed("core/clock.cc", include("core/clock.h") + "#include <cstdint>\n")

    def test_an_empty_tree_is_not_proof(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(layers.main([folder]), 1)


if __name__ == "__main__":
    unittest.main()
