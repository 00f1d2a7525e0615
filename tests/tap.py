# SPDX-License-Identifier: MIT
"""What tests of the program in Python share: TAP, the program to test, waiting."""
import os
import struct
import sys
import time

ROOT = os.path.abspath(os.environ.get("SMOL_SRC", "."))
MODEL = os.path.join(ROOT, "models/tiny-moe.gguf")


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

    def memory(self, program, good, name, remark=None):
        """A point about the program's memory, which sanitizers multiply."""
        with open(program, "rb") as f:
            code = f.read()
        if b"__asan_init" in code or b"__tsan_init" in code:
            self.skip(name, "a sanitizer has memory of its own")
        else:
            self.ok(good, name, remark)

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


TEMPLATE = (b"{% for m in messages %}<role>{{'HUMAN' if m.role == 'user' else m.role | upper}}</role>"
            b"{{m.content}}<|role_end|>{% endfor %}<role>ASSISTANT</role>"
            b"{% if enable_thinking is not defined or enable_thinking %}<think>{% endif %}")


def thinking_model(path):
    """tiny-moe with a template that opens a reasoning part, and a token that closes it."""
    with open(MODEL, "rb") as f:
        data = f.read()
    key = b"tokenizer.chat_template"
    at = data.index(key) + len(key) + 4
    n = struct.unpack("<Q", data[at:at + 8])[0]
    template = TEMPLATE + b"{#" + b" " * (n - len(TEMPLATE) - 4) + b"#}"
    data = data[:at + 8] + template + data[at + 8 + n:]
    eight = struct.pack("<Q", 8)
    data = data.replace(eight + "\u0120little".encode(), eight + b"</think>", 1)
    with open(path, "wb") as f:
        f.write(data)
