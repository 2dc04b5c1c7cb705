#!/usr/bin/env python3
"""What the linker and the compiler put into the programs against attackers.

usage: hardening_test.py PROGRAM...
"""

import re
import subprocess
import sys
import unittest

PROGRAMS = sys.argv[1:]


def read_elf(program, *options):
    return subprocess.run(["readelf", "--wide", *options, program], check=True, capture_output=True, text=True).stdout


class HardeningTest(unittest.TestCase):
    def check_all(self, check):
        for program in PROGRAMS:
            with self.subTest(program=program):
                check(program)

    def test_is_loaded_anywhere(self):
        def check(program):
            self.assertRegex(read_elf(program, "--file-header"), r"Type:\s+DYN")
            self.assertRegex(read_elf(program, "--dynamic"), r"FLAGS_1.*\bPIE\b")
        self.check_all(check)

    def test_relocations_are_done_at_start_and_read_only(self):
        def check(program):
            self.assertIn("GNU_RELRO", read_elf(program, "--program-headers"))
            self.assertRegex(read_elf(program, "--dynamic"), r"\bNOW\b")
        self.check_all(check)

    def test_no_memory_is_both_written_and_run(self):
        def check(program):
            segments = re.findall(r"^\s+(LOAD|GNU_STACK)\s.*0x\w+\s+([RWE ]{3})\s+0x", read_elf(
                program, "--program-headers"), re.MULTILINE)
            self.assertIn("GNU_STACK", [kind for kind, _ in segments])
            for kind, flags in segments:
                self.assertFalse("W" in flags and "E" in flags, (kind, flags))
        self.check_all(check)

    def test_stacks_and_buffers_are_checked(self):
        def check(program):
            symbols = read_elf(program, "--dyn-syms")
            self.assertIn("__stack_chk_fail", symbols)
            self.assertRegex(symbols, r"__\w+_chk@GLIBC", "no function of libc that knows its buffer's size")
        self.check_all(check)

    def test_nothing_is_searched_where_others_could_write(self):
        def check(program):
            for path in re.findall(r"\((?:RPATH|RUNPATH)\).*\[(.*)\]", read_elf(program, "--dynamic")):
                self.assertTrue(all(part.startswith("/usr/") for part in path.split(":")), path)
        self.check_all(check)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
