#!/usr/bin/env python3
"""Proves that includes point one way only (docs/architecture.md, "Layers").

usage: layers.py ROOT

Headers of the system are reachable from every target, so that the build alone cannot prove this. Prints each violation
as path:line: reason, and exits with 1 if there is one.
"""

import pathlib
import re
import sys

# What a part of the tree may include of the project. A file's part is the longest prefix that fits its path.
PARTS = {
    "core/": {"core"},
    "proto/": {"proto"},
    "server/": {"server", "core", "proto", "server proto"},
    "client/": {"client", "proto", "client proto"},
    "tests/testing/": {"core", "tests"},
    "tests/": {"core", "server", "client", "proto", "server proto", "client proto", "tests"},
}

# What an include belongs to, by its path.
OWNERS = [
    (re.compile(r"core/"), "core"),
    (re.compile(r"server/"), "server"),
    (re.compile(r"client/"), "client"),
    (re.compile(r"tests/"), "tests"),
    (re.compile(r"proto/|attend/v1/"), "proto"),
    (re.compile(r"google/rpc/|grpc/health/|grpc/reflection/"), "server proto"),
    (re.compile(r"attend/client/"), "client proto"),
]

# Libraries that core knows nothing of.
FOREIGN_TO_CORE = re.compile(r"(grpc|grpcpp|google|spdlog|prometheus|httplib|nlohmann|CLI)(/|\.h)|syslog\.h")
# Files of core that may name oneDNN, and those that may hold SIMD or choose its targets.
ONEDNN_FILES = re.compile(r"core/onednn_\w+\.(h|cc)$")
SIMD_FILES = re.compile(r"core/((softmax|packing|row_products|score_transform|visibility|element_load)(_\w+)?(-inl)?\.(h|cc)|tile_kernels\.cc)$")
ONEDNN_NAMES = re.compile(r"\bdnnl(_\w+|::\w+)")
SIMD_NAMES = re.compile(r"\b(HWY_\w+|hwy::\w+|_mm\d*_\w+|__m(128|256|512)\w*)")
# Core does not log, print, read the environment, exit or abort.
CORE_WORDS = re.compile(
    r"\b(?P<call>getenv|secure_getenv|setenv|putenv|abort|exit|_exit|_Exit|quick_exit|terminate|printf|fprintf|vprintf|"
    r"vfprintf|puts|fputs|putchar|perror|syslog)\s*\(|"
    r"\b(?P<stream>std::(?:cout|cerr|clog))\b|\b(?P<environment>environ)\b")

INCLUDE = re.compile(r'\s*#\s*include\s*[<"]([^>"]+)[>"]')
COMMENTS_AND_STRINGS = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.DOTALL)


def is_test(path):
    return path.startswith("tests/") or path.endswith(("_test.cc", "_fixture.h"))


def blank_out(match):
    """Keeps the lines of what is taken away."""
    return re.sub(r"[^\n]", " ", match.group())


def allowed_owners(path):
    prefixes = [prefix for prefix in PARTS if path.startswith(prefix)]
    allowed = PARTS[max(prefixes, key=len)]
    return allowed | {"tests"} if is_test(path) else allowed


def check_include(path, included):
    """Yields what is wrong with one include."""
    owner = next((name for pattern, name in OWNERS if pattern.match(included)), None)
    if owner is not None and owner not in allowed_owners(path):
        yield f'includes "{included}", which belongs to {owner}'
    if not path.startswith("core/"):
        return
    if FOREIGN_TO_CORE.match(included) and owner is None:
        yield f'includes "{included}", which core knows nothing of'
    if "dnnl" in included and not ONEDNN_FILES.match(path):
        yield f'includes "{included}" outside of core/onednn_*'
    if re.match(r"hwy/|\w*intrin\.h", included) and not SIMD_FILES.match(path):
        yield f'includes "{included}" outside of the SIMD files'


def check_words(path, line):
    """Yields what is wrong with one line of core without its comments and strings."""
    if match := ONEDNN_NAMES.search(line):
        if not ONEDNN_FILES.match(path):
            yield f"names {match.group()} outside of core/onednn_*"
    if match := SIMD_NAMES.search(line):
        if not SIMD_FILES.match(path):
            yield f"names {match.group()} outside of the SIMD files"
    if match := CORE_WORDS.search(line):
        if not is_test(path):
            word = next(group for group in match.groups() if group)
            yield f"names {word}: core does not print, read the environment, exit or abort"


def check_file(root, path):
    text = (root / path).read_text(encoding="utf-8")
    for number, line in enumerate(text.splitlines(), start=1):
        if match := INCLUDE.match(line):
            for reason in check_include(path, match.group(1)):
                yield f"{path}:{number}: {reason}"
    if not path.startswith("core/"):
        return
    for number, line in enumerate(COMMENTS_AND_STRINGS.sub(blank_out, text).splitlines(), start=1):
        for reason in check_words(path, line):
            yield f"{path}:{number}: {reason}"


def sources(root):
    """Paths, relative to the root, of every C++ file in a part of the tree."""
    for prefix in PARTS:
        if prefix == "tests/testing/":
            continue  # found under tests/
        for path in sorted((root / prefix).rglob("*")):
            if path.suffix in {".h", ".cc"} and path.is_file():
                yield path.relative_to(root).as_posix()


def check_tree(root):
    """Every violation in the tree, and how many files were looked at."""
    paths = list(sources(root))
    return [violation for path in paths for violation in check_file(root, path)], len(paths)


def main(arguments):
    if len(arguments) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    violations, files = check_tree(pathlib.Path(arguments[0]))
    for violation in violations:
        print(violation)
    print(f"{files} files, {len(violations)} violations")
    return 1 if violations or files == 0 else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
