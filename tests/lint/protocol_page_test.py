#!/usr/bin/env python3
"""Tests of protocol_page.py: each kind of disagreement is found."""

import pathlib
import tempfile
import unittest

import protocol_page

PROTO = """
message AttendRequest {
  // What for.
  string request_id = 6;
  repeated int64 lengths = 7;
}
"""
SOURCE = 'return InvalidArgument({.field = "a", .reason = "SCALE_NOT_FINITE"});\n'
PAGE = "`request_id` `lengths`\n| `SCALE_NOT_FINITE` | INVALID_ARGUMENT | what is wrong |\n"


def problems(page=PAGE, source=SOURCE, proto=PROTO):
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for path, text in (
            ("docs/protocol.md", page),
            ("server/codec.cc", source),
            ("proto/attend/v1/attention.proto", proto),
        ):
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text)
        return list(protocol_page.problems(root))


class ProtocolPageTest(unittest.TestCase):
    def test_agreement(self):
        self.assertEqual(problems(), [])

    def test_reason_that_is_not_described(self):
        found = problems(source=SOURCE + 'CheckRange("batch", "LENGTH_OUT_OF_RANGE")\n')
        self.assertEqual(found, ["docs/protocol.md does not describe the reason LENGTH_OUT_OF_RANGE"])

    def test_reason_that_is_gone(self):
        found = problems(source="")
        self.assertEqual(found, ["docs/protocol.md describes the reason SCALE_NOT_FINITE, which no source has"])

    def test_field_that_is_not_named(self):
        found = problems(page=PAGE.replace("`lengths`", ""))
        self.assertEqual(found, ["docs/protocol.md does not name AttendRequest.lengths"])


if __name__ == "__main__":
    unittest.main()
