#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""50 clients for SMOL_LOAD_SECONDS (120), beside them clients that are slow on purpose: every request
gets its answer or a clean 429, /health stays quick, memory within the budget, no descriptor is lost.
usage: test_load.py --smol PROGRAM"""
import http.client
import json
import os
import random
import socket
import subprocess
import sys
import threading
import time

from serving import Server, Tap, smol_argument, until

SECONDS = float(os.environ.get("SMOL_LOAD_SECONDS", "120"))
CLIENTS = 50
BUDGET = 60 << 20
tap = Tap()
count, wrong = {}, []
mu = threading.Lock()
end = 0.0


def note(what, good, detail=""):
    with mu:
        count[what] = count.get(what, 0) + 1
        if not good:
            wrong.append(f"{what}: {detail}")


def one_request(s, rng):
    """A request of some kind; the kinds of client there are."""
    kind = rng.choice(["plain", "stream", "stream", "text", "tokens", "leave", "wrong"])
    body = {"messages": [{"role": "user", "content": "Tell me about " + rng.choice(["ships", "rain"])}],
            "max_tokens": rng.randint(1, 12), "user": str(rng.randint(0, 9))}
    path = "/v1/chat/completions"
    if kind in ("stream", "leave"):
        body["stream"] = True
    elif kind == "text":
        path, body = "/v1/completions", {"prompt": "Once", "max_tokens": 4, "logprobs": 2}
    elif kind == "tokens":
        path, body = "/tokenize", {"content": "some words " * 50}
    elif kind == "wrong":
        body["temperature"] = "hot"
    c = http.client.HTTPConnection("127.0.0.1", s.port, timeout=120)
    try:
        c.request("POST", path, json.dumps(body))
        if kind == "leave":
            time.sleep(rng.random() * 0.2)
            note("left", True)
            return
        r = c.getresponse()
        text = r.read().decode()
        if r.status == 429:
            note("429", r.getheader("Retry-After") and "error" in json.loads(text), text[:200])
            time.sleep(0.05 + rng.random() * 0.2)
        elif kind == "wrong":
            note("400", r.status == 400 and '"temperature"' in text, text[:200])
        elif kind == "stream":
            note("streamed", r.status == 200 and text.endswith("data: [DONE]\n\n"), text[-200:])
        else:
            note(kind, r.status == 200 and json.loads(text), f"{r.status} {text[:200]}")
    except (OSError, http.client.HTTPException, ValueError) as e:
        note(kind, False, repr(e))
    finally:
        c.close()


def client(s, number):
    rng = random.Random(number)
    while time.monotonic() < end:
        one_request(s, rng)


def watch_health(port, seconds):
    """In a process of its own, which waits for no other client: prints how long each answer took."""
    took, until_ = [], time.monotonic() + seconds
    c = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    while time.monotonic() < until_:
        start = time.monotonic()
        c.request("GET", "/health")
        c.getresponse().read()
        took.append(time.monotonic() - start)
        time.sleep(0.02)
    print(json.dumps(took))


def slow_loris(s, seconds):
    """One byte a second; returns after how long the other side closed, None: not in time."""
    start = time.monotonic()
    k = socket.create_connection(("127.0.0.1", s.port), timeout=5)
    k.settimeout(1)
    text = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9999\r\nX-Slow: "
    for i in range(seconds):
        try:
            k.sendall(text[i:i + 1] if i < len(text) else b"a")
            if not k.recv(100):
                return time.monotonic() - start
        except TimeoutError:
            continue
        except OSError:
            return time.monotonic() - start
    return None


def deaf(s):
    """Asks for a long stream and never reads."""
    k = s.open_slow(logprobs=True, top_logprobs=20)
    k.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    return k


def descriptors(s):
    return len(os.listdir(f"/proc/{s.p.pid}/fd"))


def keep_alive(s, seconds):
    """Quick requests on one connection; how many were answered on it."""
    c = http.client.HTTPConnection("127.0.0.1", s.port, timeout=30)
    n, until_ = 0, time.monotonic() + seconds
    try:
        while time.monotonic() < until_:
            c.request("GET", "/health")
            n += c.getresponse().read() == b'{"status":"ok"}\n'
            time.sleep(0.2)
    except (OSError, http.client.HTTPException) as e:
        return f"{e!r} after {n} answers"
    finally:
        c.close()
    return n


def test_long():
    """What takes longer than any limit on silence: an answer, a connection that is used again."""
    with Server(smol_argument(), "--pool", "5", "--flash-limit", "1") as s:
        k, kept = s.open_slow(), []
        thread = threading.Thread(target=lambda: kept.append(keep_alive(s, 40)))
        thread.start()
        start, last = time.monotonic(), 0.0
        while time.monotonic() - start < 40:
            if not k.recv(65536):
                break
            last = time.monotonic() - start
        thread.join()
        tap.ok(last > 35, f"an answer still comes after {last:.0f} s")
        tap.ok(isinstance(kept[0], int) and kept[0] > 20, "a connection in use is not ended", kept)
        k.close()


def main():
    global end
    test_long()
    with Server(smol_argument(), "--memory", str(BUDGET), "--queue", "16", "--ctx", "256") as s:
        s.chat()
        before = descriptors(s)
        end = time.monotonic() + SECONDS
        loris = []
        threads = [threading.Thread(target=client, args=(s, i)) for i in range(CLIENTS)]
        threads += [threading.Thread(target=lambda: loris.append(slow_loris(s, 60))) for _ in range(5)]
        silent = [deaf(s) for _ in range(3)]
        watch = subprocess.Popen([sys.executable, __file__, "--watch", str(s.port), str(SECONDS)],
                                 stdout=subprocess.PIPE, text=True)
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        health = sorted(json.loads(watch.communicate(timeout=60)[0] or "[]"))
        for k in silent:
            k.close()
        answered = sum(count.get(k, 0) for k in ("plain", "streamed", "text", "tokens"))
        print(f"# {SECONDS:.0f} s: {count}", flush=True)
        tap.ok(not wrong and answered > 0, f"{answered} answers, {count.get('429', 0)} times 429, "
               f"{count.get('left', 0)} clients left; nothing else", "\n".join(wrong[:10]))
        p99 = health[int(len(health) * 0.99)] * 1000 if health else 1e9
        tap.ok(p99 < 50, f"/health: p99 {p99:.1f} ms of {len(health)}, goal < 50 ms")
        tap.ok(len(loris) == 5 and all(t and t < 40 for t in loris),
               "one byte a second is cut off after 30 s", loris)
        tap.ok(until(lambda: s.metric("requests_running") == 0 and s.metric("requests_waiting") == 0, 30),
               "nothing is left running")
        tap.ok(until(lambda: descriptors(s) <= before + 1, 40), "no descriptor is lost",
               [before, descriptors(s)])
        peak = s.metric("memory_peak_bytes")
        tap.ok(peak <= BUDGET, f"peak memory {peak / 1048576:.1f} of {BUDGET >> 20} MiB")
        tap.ok(s.chat().status == 200, "and it answers still")
        tap.ok(s.end() == 0, "exit 0")
    return tap.done()


if sys.argv[1] == "--watch":
    watch_health(int(sys.argv[2]), float(sys.argv[3]))
else:
    sys.exit(main())
