# SPDX-License-Identifier: MIT
"""What the server tests share: TAP, a server of one's own, requests by the standard library."""
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from tap import MODEL, ROOT, Tap, smol_argument, thinking_model, until  # noqa: E402,F401


ON = {"logit_bias": {"1": -100, "4": -100}}  # no end: exact numbers of tokens
SLOW = ["--pool", "5", "--flash-limit", "4"]


def error_of(r):
    return (r.json or {}).get("error") or {}


def refused(tap, name, r, status, param=None, code=None):
    """One point: a refusal with this status, and an error object that says what."""
    e = error_of(r)
    good = r.status == status and bool(e.get("message")) and e.get("type") and "code" in e
    if param is not None:
        good = good and e.get("param") == param
    if code is not None:
        good = good and e.get("code") == code
    tap.ok(good, name, f"{r.status} {r.text[:300]}")


class Server:
    """smol serve on a port of the system's choice; a context that ends it."""

    def __init__(self, smol, *args, model=MODEL, wait=True, cache="off"):
        self.p = subprocess.Popen([smol, "serve", model, "--port", "0", "--threads", "2", "--no-learn",
                                   *args],
                                  stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True,
                                  env={**os.environ, "SMOL_CACHE": cache})
        self.lines = []
        self.ready = threading.Event()
        self.port = None
        threading.Thread(target=self._read, daemon=True).start()
        if wait and not self.ready.wait(120):
            self.p.kill()
            raise RuntimeError("the server did not start: " + "\n".join(self.lines))
        if wait and self.port is None:
            raise RuntimeError("the server ended: " + "\n".join(self.lines))

    def _read(self):
        for line in self.p.stderr:
            self.lines.append(line.rstrip("\n"))
            m = re.search(r"serving \S+ at http://\S+:(\d+)/", line)
            if m:
                self.port = int(m.group(1))
                self.ready.set()
        self.ready.set()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()

    def end(self, sig=signal.SIGTERM, seconds=45):
        if self.p.poll() is None:
            self.p.send_signal(sig)
        try:
            return self.p.wait(seconds)
        except subprocess.TimeoutExpired:
            self.p.kill()
            self.p.wait()
            return "did not end"

    def request(self, method, path, body=None, headers=None, timeout=60):
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        if body is not None and not isinstance(body, (bytes, str)):
            body = json.dumps(body)
        c.request(method, path, body, headers or {})
        r = c.getresponse()
        data = r.read()
        c.close()
        r.text = data.decode("utf-8", "replace")
        try:
            r.json = json.loads(data)
        except ValueError:
            r.json = None
        return r

    def post(self, path, body, **more):
        return self.request("POST", path, body, **more)

    def get(self, path, **more):
        return self.request("GET", path, **more)

    def chat(self, content="Hello", **more):
        timeout = more.pop("timeout", 60)
        body = {"messages": [{"role": "user", "content": content}], "max_tokens": 8, **more}
        return self.post("/v1/chat/completions", body, timeout=timeout)

    def stream(self, path, body):
        """The events of a stream as parsed objects; "[DONE]" last."""
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        c.request("POST", path, json.dumps({**body, "stream": True}))
        r = c.getresponse()
        text = r.read().decode()
        c.close()
        return r, [d if d == "[DONE]" else json.loads(d)
                   for d in re.findall(r"^data: (.*)$", text, re.M)]

    def raw(self, data, timeout=20, shut=False):
        """Send bytes, return all that comes back until the other side closes."""
        s = socket.create_connection(("127.0.0.1", self.port), timeout=timeout)
        out = b""
        try:
            s.sendall(data)
            if shut:
                s.shutdown(socket.SHUT_WR)
            while chunk := s.recv(65536):
                out += chunk
        except TimeoutError:
            out += b"<timeout>"
        except OSError:  # reset, or closed before we were done
            pass
        s.close()
        return out

    def metric(self, name):
        m = re.search(rf"^smol_{re.escape(name)} (\S+)$", self.get("/metrics").text, re.M)
        return float(m.group(1)) if m else None

    def open_slow(self, **more):
        """A stream that is being answered; the caller closes the socket."""
        s = socket.create_connection(("127.0.0.1", self.port), timeout=60)
        body = json.dumps({"messages": [{"role": "user", "content": "Tell me a story"}],
                           "stream": True, "logit_bias": {"1": -100, "4": -100}, **more}).encode()
        s.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: "
                  + str(len(body)).encode() + b"\r\n\r\n" + body)
        return s
