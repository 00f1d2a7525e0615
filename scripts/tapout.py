# SPDX-License-Identifier: MIT
"""What the check scripts share: TAP output, the files of the project, C text without comments."""
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


class Tap:
    def __init__(self):
        self.n = 0
        self.failed = 0

    def point(self, good, name, details=()):
        self.n += 1
        self.failed += not good
        print(f"{'' if good else 'not '}ok {self.n} - {name}")
        for line in details:
            print(f"#   {line}")

    def skip(self, name, reason):
        self.n += 1
        print(f"ok {self.n} - {name} # SKIP {reason}")

    def done(self):
        print(f"1..{self.n}")
        sys.stdout.flush()
        sys.exit(1 if self.failed or not self.n else 0)


def c_files(*folders, suffixes=(".c", ".h")):
    """Paths relative to the root, sorted."""
    found = []
    for folder in folders:
        for at, dirs, names in os.walk(os.path.join(ROOT, folder)):
            dirs.sort()
            found += [os.path.relpath(os.path.join(at, n), ROOT) for n in names
                      if n.endswith(suffixes)]
    return sorted(found)


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as f:
        return f.read()


def code_of(text):
    """C text with comments, strings and character constants blanked; line breaks stay."""
    pattern = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)
    return pattern.sub(lambda m: '""' if m.group()[0] == '"' else
                       "".join(c if c == "\n" else " " for c in m.group()), text)
