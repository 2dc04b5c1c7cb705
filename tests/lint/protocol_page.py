#!/usr/bin/env python3
"""Checks that docs/protocol.md says what the sources say: every field of the contract, every reason of an error.

usage: protocol_page.py ROOT
"""

import pathlib
import re
import sys

REASON = re.compile(r'"([A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+)"')
# Lines that have reasons: as a member of a violation, or as an argument of a check or of a refusal.
REASON_CONTEXT = re.compile(r"reason|_OUT_OF_RANGE|_MISMATCH|_COUNT|_FINITE|refuse\(")


def reasons_in_sources(root):
    """The UPPER_SNAKE words that sources of core and server use as reasons."""
    found = set()
    for folder in ("core", "server"):
        for path in sorted((root / folder).glob("*.cc")):
            if path.name.endswith("_test.cc"):
                continue
            for line in path.read_text().splitlines():
                if REASON_CONTEXT.search(line):
                    found.update(REASON.findall(line))
    return found


def reasons_in_page(page):
    codes = "INVALID_ARGUMENT|UNIMPLEMENTED|RESOURCE_EXHAUSTED"
    return set(re.findall(rf"^\| `([A-Z][A-Z0-9_]+)` \| (?:{codes}) \|", page, re.M))


def fields_in_contract(proto):
    """(message, field) for every field of every message."""
    for message, body in re.findall(r"^message (\w+) \{\n(.*?)^\}", proto, re.M | re.S):
        for field in re.findall(r"^  (?:repeated |optional )?[\w.]+ (\w+) = \d+;", body, re.M):
            yield message, field


def problems(root):
    page = (root / "docs/protocol.md").read_text()
    proto = (root / "proto/attend/v1/attention.proto").read_text()
    used, described = reasons_in_sources(root), reasons_in_page(page)
    for reason in sorted(used - described):
        yield f"docs/protocol.md does not describe the reason {reason}"
    for reason in sorted(described - used):
        yield f"docs/protocol.md describes the reason {reason}, which no source has"
    for message, field in fields_in_contract(proto):
        if f"`{field}`" not in page:
            yield f"docs/protocol.md does not name {message}.{field}"


def main(arguments):
    if len(arguments) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    found = list(problems(pathlib.Path(arguments[0])))
    for problem in found:
        print(problem)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
