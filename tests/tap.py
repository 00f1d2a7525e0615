# SPDX-License-Identifier: MIT
"""What tests of the program in Python share: TAP, the program to test, waiting."""
import os
import sys
import time


class Tap:
    def __init__(self):
        self.n = self.failed = 0

    def ok(self, good, name, remark=None):
        self.n += 1
        self.failed += not good
        print(f"{'' if good else 'not '}ok {self.n} - {name}", flush=True)
        if not good and remark is not None:
            for line in str(remark)[:2000].split("\n"):
                print(f"#   {line}", flush=True)
        return good

    def skip(self, name, reason):
        self.n += 1
        print(f"ok {self.n} - {name} # SKIP {reason}", flush=True)

    def done(self):
        print(f"1..{self.n}")
        return 1 if self.failed or not self.n else 0


def until(condition, seconds=10):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.05)
    return False


def smol_argument():
    return os.path.abspath(sys.argv[sys.argv.index("--smol") + 1])
