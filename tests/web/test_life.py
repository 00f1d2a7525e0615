#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The life of a server, with the standard library alone: its budget, its line, clients that leave,
keys, what it shows of itself, and how it ends. usage: test_life.py --smol PROGRAM"""
import functools
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

import serving
from serving import MODEL, SLOW, Server, Tap, smol_argument, until

tap = Tap()
smol = smol_argument()
refused = functools.partial(serving.refused, tap)


def test_budget():
    """Whatever clients do, the server stays within a budget that leaves no room beside the plan."""
    post = "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n"

    def bytes_of(path, o):
        body = json.dumps(o).encode()
        return (post % (path, len(body))).encode() + body
    with Server(smol, "--memory", "40M") as s:
        longest = {"content": "a 1 . " * 170000}
        wide = s.post("/tokenize", {"content": " " * 16}).json["tokens"]
        refused("an answer that is too long", s.post("/tokenize", {**longest, "with_pieces": True}), 413)
        refused("and of a long text", s.post("/detokenize", {"tokens": wide * 150000}), 413)
        refused("a prompt of a megabyte", s.post("/v1/completions", {"prompt": longest["content"]}), 400,
                "prompt", "context_length_exceeded")
        request, deaf = bytes_of("/tokenize", {"content": longest["content"][:500000]}), []
        for _ in range(12):  # a megabyte each that nobody reads
            c = socket.create_connection(("127.0.0.1", s.port), timeout=30)
            c.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            c.sendall(request)
            deaf.append(c)
        tap.ok(until(lambda: sum(s.metric("responses_total{class=\"%dxx\"}" % k) for k in (2, 4)) >= 15, 30),
               "clients that do not read are answered")
        tap.ok(s.chat(max_tokens=2).status == 200, "so are the others")
        peak, budget = s.metric("memory_peak_bytes"), s.metric("memory_budget_bytes")
        tap.memory(smol, peak <= budget, f"peak {peak / 1048576:.1f} of {budget / 1048576:.0f} MiB")
        for c in deaf:
            c.close()


def test_leaving(s):
    before = s.metric("cancelled_total")
    running = s.open_slow()
    running.recv(1000)
    waiting = [s.open_slow() for _ in range(3)]
    tap.ok(until(lambda: s.metric("requests_waiting") == 3), "three wait while one is answered")
    start = time.monotonic()
    for c in waiting + [running]:
        c.close()
    tap.ok(until(lambda: s.metric("requests_running") == 0 and s.metric("requests_waiting") == 0),
           "a client that leaves gives its place back")
    tap.ok(s.metric("cancelled_total") == before + 4 and time.monotonic() - start < 5,
           "four were given up at once", [before, s.metric("cancelled_total")])
    r = s.chat("Hello", max_tokens=3)
    tap.ok(r.status == 200, "and the next one is answered", r.text)
    half = s.open_slow(max_tokens=4)
    half.shutdown(socket.SHUT_WR)
    half.settimeout(20)
    try:
        while half.recv(65536):
            pass
        tap.ok(True, "a half-closed connection ends cleanly")
    except OSError as e:
        tap.ok(isinstance(e, ConnectionError), "a half-closed connection ends cleanly", e)


def test_watchers(s):
    """Clients that hang up leave nothing behind."""
    def come_and_go(n):
        for _ in range(n):
            c = socket.create_connection(("127.0.0.1", s.port), timeout=30)
            c.sendall(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
            c.recv(1000)
            c.close()
    come_and_go(600)  # as many buffers as there ever are at a time
    before = s.metric("memory_bytes")
    come_and_go(1500)
    more = s.metric("memory_bytes") - before
    tap.memory(smol, more < 500000, "1500 watchers that came and went", f"{more:.0f} bytes more")


def test_full():
    with Server(smol, "--queue", "2", *SLOW) as s:
        running = s.open_slow()
        running.recv(1000)
        waiting = []
        for n in (1, 2):  # in this order
            waiting.append(s.open_slow(max_tokens=1, user="greedy"))
            tap.ok(until(lambda: s.metric("requests_waiting") == n), f"{n} in the line")
        r = s.chat(user="greedy")
        refused("a full line is 429", r, 429, None, "queue_full")
        tap.ok(r.getheader("Retry-After"), "with Retry-After")
        health = []
        for _ in range(20):
            start = time.monotonic()
            s.get("/health")
            health.append(time.monotonic() - start)
        tap.ok(sorted(health)[-2] < 0.5, "/health answers at once meanwhile", health)
        r = s.chat(temperature="hot")
        tap.ok(r.status == 400, "what is wrong is told at once, however long the line", r.text)
        other = s.open_slow(max_tokens=1, user="modest")
        waiting[1].settimeout(20)
        tap.ok(b" 429 " in waiting[1].recv(1000), "a greedy client's newest makes room for another's")
        for c in [running, other] + waiting:
            c.close()


def test_keys():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "keys")
        with open(path, "w") as f:
            f.write("# ours\nsk-one\n\n  sk-two  \n")
        os.chmod(path, 0o600)
        with Server(smol, "--api-key-file", path, "--cors", "https://app.example") as s:
            tap.ok(s.get("/health").status == 200 and s.get("/").status == 200,
                   "/health and the page need no key")
            refused("no key", s.get("/v1/models"), 401, None, "missing_api_key")
            for bad in ("Bearer sk-on", "Bearer sk-one2", "Bearer", "Bearer ", "Basic sk-one", "sk-one",
                        "Bearer # ours", "Bearer " + "x" * 5000):
                r = s.get("/v1/models", headers={"Authorization": bad})
                tap.ok(r.status == 401 and r.getheader("WWW-Authenticate"), f"not {bad[:20]!r}", r.status)
            for good in ("Bearer sk-one", "bearer sk-two"):
                tap.ok(s.get("/v1/models", headers={"Authorization": good}).status == 200, good)
            refused("nothing without a key, however wrong", s.post("/v1/completions", b"{"), 401)
            for path_ in ("/metrics", "/events"):
                tap.ok(s.get(path_).status == 401, path_ + " needs a key")
            page = {"Origin": "https://app.example", "Authorization": "Bearer sk-one"}
            r = s.get("/v1/models", headers=page)
            tap.ok(r.getheader("Access-Control-Allow-Origin") == "https://app.example", "CORS when asked")
            r = s.request("OPTIONS", "/v1/chat/completions", headers={
                "Origin": "https://app.example", "Access-Control-Request-Method": "POST",
                "Access-Control-Request-Headers": "authorization,content-type"})
            tap.ok(r.status == 204 and r.getheader("Access-Control-Allow-Headers") ==
                   "authorization,content-type", "its question beforehand", r.status)
            tap.ok(s.get("/v1/models", headers={**page, "Origin": "https://evil.example"}).status == 403,
                   "other origins stay out")
        for name, content, mode in (("empty", "# nothing\n", 0o600), ("blank inside", "a b\n", 0o600)):
            with open(path, "w") as f:
                f.write(content)
            p = subprocess.run([smol, "serve", MODEL, "--port", "0", "--api-key-file", path],
                               capture_output=True, text=True, timeout=60)
            tap.ok(p.returncode == 1 and path in p.stderr, f"a key file that is {name} is refused",
                   p.stderr)


def test_events(s):
    c = socket.create_connection(("127.0.0.1", s.port), timeout=30)
    c.sendall(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
    f = c.makefile("rb")
    seen, name = [], None
    running = s.open_slow(max_tokens=60)
    while len(seen) < 6:
        line = f.readline()
        if not line:
            break
        if line.startswith(b"event: "):
            name = line[7:].strip()
        elif line.startswith(b"data: ") and name:
            seen.append((name, json.loads(line[6:])))
    running.close()
    c.close()
    until(lambda: s.metric("requests_running") == 0)
    spent, all_ = s.metric("flash_view_seconds_total"), (s.metric("decode_seconds_total") +
                                                         s.metric("prompt_seconds_total"))
    tap.ok(0 < spent < 0.01 * all_, f"the view costs {100 * spent / all_:.2f} % of the time, < 1 %")
    plan = seen[0][1]
    frames = [o for n, o in seen if n == b"frame"]
    tap.ok(seen[0][0] == b"plan" and plan["pools"] == 5 and plan["slots"] == 5 and
           plan["experts"] == 32 and plan["budget"] >= plan["planned"] > 0, "what lives where", plan)
    tap.ok(len(frames) >= 3 and all(len(o["pools"]) == 5 and all(len(p) == 5 for p in o["pools"])
                                    for o in frames), "frames of the pools", frames[:1])
    states = set("".join("".join(o["pools"]) for o in frames))
    tap.ok("m" in states and states <= set(" ~.hmpP"), "misses are seen", states)
    tap.ok(frames[-1]["misses"] > frames[0]["misses"] and frames[-1]["bytes"] > frames[0]["bytes"] and
           frames[-1]["rss"] > 1 << 20, "figures move", [frames[0], frames[-1]])


def test_ends():
    s = Server(smol, *SLOW)
    got = {}
    t = threading.Thread(target=lambda: got.update(r=s.chat("A story", max_tokens=12)))
    t.start()
    until(lambda: s.metric("requests_running") == 1)
    code = s.end()
    t.join()
    tap.ok(code == 0 and got["r"].status == 200 and got["r"].json["usage"]["completion_tokens"] > 0,
           "SIGTERM: what is under way is finished, exit 0", [code, s.lines])
    s = Server(smol, *SLOW)
    c = s.open_slow()
    c.recv(1000)
    s.p.send_signal(signal.SIGINT)
    until(lambda: any("stopping" in line for line in s.lines))  # else two signals become one
    start = time.monotonic()
    code = s.end(signal.SIGINT)
    tap.ok(code == 0 and time.monotonic() - start < 5, "the second signal ends it at once", code)
    rest = b""
    while more := c.recv(65536):
        rest += more
    tap.ok(b'"code":"shutting_down"' in rest.replace(b'": ', b'":') and b"[DONE]" not in rest and
           b'"length"' not in rest, "a stream that is cut ends with an error", rest[-500:])
    c.close()
    s = Server(smol, *SLOW)
    t = threading.Thread(target=lambda: got.update(r=s.chat("A story", max_tokens=400, **serving.ON)))
    t.start()
    until(lambda: s.metric("requests_running") == 1)
    s.p.send_signal(signal.SIGTERM)
    until(lambda: any("stopping" in line for line in s.lines))
    s.end()
    t.join()
    refused("an answer that is cut is 503", got["r"], 503, None, "shutting_down")
    # a request that is read while the signals come, behind long texts
    s = Server(smol, *SLOW)
    c, text = s.open_slow(), json.dumps({"content": "a 1 . " * 160000})
    c.recv(1000)
    held = [threading.Thread(target=lambda: s.post("/tokenize", text)) for _ in range(2)]
    held.append(threading.Thread(target=s.chat))
    for t in held:
        t.start()
        time.sleep(0.05)
    s.p.send_signal(signal.SIGINT)
    until(lambda: any("stopping" in line for line in s.lines))
    start = time.monotonic()
    code = s.end(signal.SIGINT)
    for t in held:
        t.join()
    tap.ok(code == 0 and time.monotonic() - start < 8, "nor does what was still being read go on", code)
    c.close()
    with Server(smol) as s:
        p = subprocess.run([smol, "serve", MODEL, "--port", str(s.port)], capture_output=True, text=True,
                           timeout=60)
        tap.ok(p.returncode == 1 and f"cannot listen on 127.0.0.1 port {s.port}" in p.stderr,
               "a port that is taken", p.stderr)
    p = subprocess.run([smol, "serve", MODEL, "--host", "300.1.1.1"], capture_output=True, text=True, timeout=60)
    tap.ok(p.returncode == 1 and "300.1.1.1 port 8080: there is no such address" in p.stderr,
           "an address that is none", p.stderr)
    p = subprocess.run([smol, "serve", MODEL + ".not"], capture_output=True, text=True, timeout=60)
    tap.ok(p.returncode == 1 and "tiny-moe.gguf.not" in p.stderr, "a model that is not there", p.stderr)
    p = subprocess.run([smol, "serve", MODEL, "--port", "0", "--memory", "2M"], capture_output=True,
                       text=True, timeout=60)
    tap.ok(p.returncode == 3, "a budget that is too small", p.stderr)


def main():
    with Server(smol, *SLOW) as s:
        test_events(s)
        test_leaving(s)
        test_watchers(s)
        tap.ok(s.end() == 0, "exit 0")
    test_budget()
    test_full()
    test_keys()
    test_ends()
    return tap.done()


sys.exit(main())
