#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The API of smol serve from outside, with the standard library alone.
usage: test_server.py --smol PROGRAM"""
import functools
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time

import serving
from serving import MODEL, ON, ROOT, Server, Tap, error_of, smol_argument

tap = Tap()
smol = smol_argument()
refused = functools.partial(serving.refused, tap)


# ---- answers ------------------------------------------------------------------------------------

def test_basics(s):
    r = s.get("/health")
    tap.ok(r.status == 200 and r.json == {"status": "ok"}, "/health", r.text)
    r = s.get("/v1/models")
    m = r.json["data"][0]
    tap.ok(m["id"] == "tiny-moe" and m["object"] == "model" and m["context_length"] == 512,
           "/v1/models", r.text)
    tap.ok(abs(m["created"] - time.time()) < 600, "there since the server began", m)
    tap.ok(s.get("/v1/models/tiny-moe").json["id"] == "tiny-moe", "one model by name")
    refused("a model that is not there", s.get("/v1/models/gpt-9"), 404)
    r = s.get("/")
    tap.ok(r.status == 200 and r.text.startswith("<!DOCTYPE html>")
           and "default-src 'none'" in r.getheader("Content-Security-Policy")
           and "unsafe" not in r.getheader("Content-Security-Policy"), "the page and its policy")
    r = s.request("HEAD", "/")
    tap.ok(r.status == 200 and r.text == "" and int(r.getheader("Content-Length")) > 10000, "HEAD")


def test_chat(s):
    r = s.chat(max_tokens=12, temperature=0, **ON)
    j = r.json
    c = j["choices"][0]
    tap.ok(r.status == 200 and j["object"] == "chat.completion" and j["model"] == "tiny-moe"
           and c["message"]["role"] == "assistant" and c["message"]["content"]
           and c["finish_reason"] == "length" and c["logprobs"] is None, "a chat", r.text)
    u = j["usage"]
    tap.ok(u["completion_tokens"] == 12 and u["total_tokens"] == u["prompt_tokens"] + 12,
           "its usage", u)
    parts = [{"type": "text", "text": "Hel"}, {"type": "text", "text": "lo"}]
    again = s.chat(parts, max_tokens=12, temperature=0, **ON).json
    tap.ok(again["choices"][0]["message"] == c["message"], "content in parts is the same text")
    now = s.post("/v1/chat/completions", {"messages": [{"role": "user", "content": "Hello"}],
                                          "max_completion_tokens": 3, **ON}).json
    tap.ok(now["usage"]["completion_tokens"] == 3, "max_completion_tokens alone")
    r = s.chat(max_tokens=0)
    tap.ok(r.status == 200 and r.json["choices"][0]["message"]["content"] == "", "no token at all")
    one, two, other = (s.chat(max_tokens=20, temperature=1, seed=n).json["choices"][0]["message"]
                       ["content"] for n in (7, 7, 8))
    tap.ok(one == two != other, "a seed repeats an answer", [one, two, other])


def test_stream(s):
    body = {"messages": [{"role": "user", "content": "Once upon a time"}], "max_tokens": 40, "seed": 3, **ON}
    whole = s.post("/v1/chat/completions", body).json["choices"][0]
    r, events = s.stream("/v1/chat/completions", {**body, "stream_options": {"include_usage": True}})
    tap.ok(r.getheader("Content-Type").startswith("text/event-stream"), "a stream of events")
    tap.ok(events[-1] == "[DONE]", "it ends with [DONE]")
    chunks = [e for e in events[:-1] if e["choices"]]
    text = "".join(e["choices"][0]["delta"].get("content", "") for e in chunks)
    tap.ok(text == whole["message"]["content"], "the stream is the whole answer", [text, whole])
    tap.ok(chunks[0]["choices"][0]["delta"]["role"] == "assistant" and
           all(e["object"] == "chat.completion.chunk" and e["id"] == chunks[0]["id"] for e in chunks),
           "chunks belong together")
    tap.ok([e["choices"][0]["finish_reason"] for e in chunks if e["choices"][0]["finish_reason"]]
           == [whole["finish_reason"]] and chunks[-1]["choices"][0]["finish_reason"],
           "the last chunk says why it ended")
    tap.ok(events[-2]["choices"] == [] and events[-2]["usage"]["completion_tokens"] == 40 and
           all(e["usage"] is None for e in chunks), "usage behind it when asked for", events[-2])
    _, plain = s.stream("/v1/chat/completions", body)
    tap.ok(all("usage" not in e for e in plain[:-1]), "and not when not")


def test_completions(s):
    out = subprocess.run([smol, "run", MODEL, "-p", "Once upon a time", "-n", "24", "--temp", "0",
                          "--raw", "--quiet"], capture_output=True, text=True, check=True).stdout
    body = {"prompt": "Once upon a time", "max_tokens": 24, "temperature": 0}
    r = s.post("/v1/completions", body).json
    tap.ok(r["object"] == "text_completion" and r["choices"][0]["text"] == out[:-1],
           "a completion is what `run --raw` prints", [r, out])
    ids = s.post("/tokenize", {"content": "Once upon a time"}).json["tokens"]
    by_id = s.post("/v1/completions", {**body, "prompt": ids}).json
    tap.ok(by_id["choices"][0]["text"] == out[:-1], "a prompt of token ids")
    _, events = s.stream("/v1/completions", body)
    tap.ok("".join(e["choices"][0]["text"] for e in events[:-1]) == out[:-1], "streamed")
    text = r["choices"][0]["text"]
    word = text.split()[3]
    cut = s.post("/v1/completions", {**body, "stop": word}).json["choices"][0]
    tap.ok(cut["text"] == text[:text.index(word)] and cut["finish_reason"] == "stop",
           "a stop string cuts exactly before it", [cut, text, word])
    middle = text[4:9]
    cut = s.post("/v1/completions", {**body, "stop": ["@@@@", middle]}).json["choices"][0]
    tap.ok(cut["text"] == text[:text.index(middle)], "also in the middle of tokens", [cut, text])
    _, events = s.stream("/v1/completions", {**body, "stop": [middle]})
    tap.ok("".join(e["choices"][0]["text"] for e in events[:-1]) == text[:text.index(middle)],
           "and in a stream nothing of it was sent")


def test_logprobs(s):
    body = {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 10, "temperature": 0,
            "logprobs": True, "top_logprobs": 4, **ON}
    c = s.post("/v1/chat/completions", body).json["choices"][0]
    lp = c["logprobs"]["content"]
    text = b"".join(bytes(t["bytes"]) for t in lp).decode("utf-8", "replace")
    tap.ok(len(lp) == 10 and text == c["message"]["content"], "logprobs of every token", c)
    tap.ok(all(len(t["top_logprobs"]) == 4 and t["top_logprobs"][0]["logprob"] >= t["logprob"] and
               t["top_logprobs"] == sorted(t["top_logprobs"], key=lambda x: -x["logprob"]) and
               t["logprob"] <= 0 for t in lp), "alternatives in order, the likeliest first", lp[0])
    _, events = s.stream("/v1/chat/completions", body)
    streamed = [t for e in events[:-1] for t in (e["choices"][0]["logprobs"] or {}).get("content", [])]
    tap.ok(streamed == lp, "the same in a stream", streamed[:1])
    c = s.post("/v1/completions", {"prompt": "Hello", "max_tokens": 6, "temperature": 0,
                                   "logprobs": 2}).json["choices"][0]
    lp = c["logprobs"]
    tap.ok("".join(lp["tokens"]) == c["text"] and len(lp["token_logprobs"]) == 6 and
           all(len(t) == 2 for t in lp["top_logprobs"]) and lp["text_offset"][0] == 0,
           "logprobs of a completion", lp)
    first = s.post("/tokenize", {"content": c["text"]}).json["tokens"][0]
    banned = s.post("/v1/completions", {"prompt": "Hello", "max_tokens": 6, "temperature": 0,
                                        "logit_bias": {str(first): -100}}).json["choices"][0]
    tap.ok(banned["text"] != c["text"], "logit_bias -100 bans a token", [banned, c])
    forced = s.post("/v1/completions", {"prompt": "Hello", "max_tokens": 4, "temperature": 0,
                                        "logit_bias": {str(first): 100}}).json["choices"][0]
    tap.ok(s.post("/tokenize", {"content": forced["text"]}).json["tokens"].count(first) >= 3,
           "and 100 makes it come", forced)


def test_effects(s):
    """Every parameter of the draw changes an answer."""
    def text(**more):
        body = {"prompt": "Once upon a time there was", "max_tokens": 16, "seed": 3, "temperature": 0.9, **ON}
        return s.post("/v1/completions", {**body, **more}).json["choices"][0]["text"]
    greedy = {"temperature": 0, "max_tokens": 40}
    dry = {**greedy, "dry_multiplier": 0.4, "dry_allowed_length": 1}
    alike = [name for name, value, beside in (
        ("temperature", 0.01, {"top_k": 0, "min_p": 0}), ("top_p", 0.05, {}), ("top_k", 1, {}), ("min_p", 0.9, {}),
        ("typical_p", 0.05, {"top_k": 0, "min_p": 0}), ("seed", 4, {}), ("frequency_penalty", 2, {}),
        ("presence_penalty", 2, greedy), ("repeat_penalty", 50, {}), ("repeat_last_n", 1, {**greedy, "repeat_penalty": 3}),
        ("dry_multiplier", 50, {**greedy, "dry_allowed_length": 1}), ("dry_base", 30, dry),
        ("dry_allowed_length", 9, dry), ("dry_penalty_last_n", 2, dry))
             if text(**beside) == text(**{**beside, name: value})]
    tap.ok(not alike, "each of 14 parameters has an effect", alike)


def test_tokens(s):
    text = "Hello wörld, 123 😊 <|role_end|>"
    r = s.post("/tokenize", {"content": text, "parse_special": False}).json["tokens"]
    tap.ok(s.post("/detokenize", {"tokens": r}).json["content"] == text, "there and back", r)
    special = s.post("/tokenize", {"content": text}).json["tokens"]
    tap.ok(4 in special and 4 not in r, "control tokens only where they are wanted", special)
    pieces = s.post("/tokenize", {"content": "Hello you", "with_pieces": True}).json["tokens"]
    tap.ok("".join(p["piece"] for p in pieces) == "Hello you", "with pieces", pieces)
    tap.ok(s.post("/tokenize", {"content": ""}).json == {"tokens": []}, "an empty text")


def test_prefix(s):
    first = s.chat("Tell me about the sea", max_tokens=16, temperature=0).json
    messages = [{"role": "user", "content": "Tell me about the sea"},
                first["choices"][0]["message"], {"role": "user", "content": "And the sky?"}]
    second = s.post("/v1/chat/completions", {"messages": messages, "max_tokens": 4}).json
    u = second["usage"]
    cached, prompt = u["prompt_tokens_details"]["cached_tokens"], u["prompt_tokens"]
    first_all = first["usage"]["total_tokens"]
    tap.ok(first_all - 2 <= cached < prompt and second["timings"]["prompt_n"] == prompt - cached,
           "a second turn reads only what is new", [u, first["usage"]])


def same_but_for_time(text):
    """What differs from run to run, left out."""
    return re.sub(r'("id":"[a-z]+-|"created":|"[a-z_]*(?:_ms|_per_second)":)[0-9a-f.e+-]+', r"\1…", text)


def test_readme():
    """The transcript in the README is what comes out."""
    with open(os.path.join(ROOT, "README.md"), encoding="utf-8") as f:
        shown = re.findall(r"^    \$ (curl .*)\n    (.*)$", f.read(), re.M)
    if not shutil.which("curl"):
        tap.skip("the README's transcript", "no curl")
        return
    with Server(smol, "--memory", "60M") as s:
        for command, expected in shown:
            out = subprocess.run(shlex.split(command.replace(":8080/", f":{s.port}/")), timeout=60,
                                 capture_output=True, text=True).stdout.rstrip("\n")
            tap.ok(same_but_for_time(out) == same_but_for_time(expected), "README: " + command[:60], out)
    tap.ok(len(shown) == 2, "two calls of curl in the README")


# ---- refusals -----------------------------------------------------------------------------------

WRONG = {"temperature": ["hot", -1, 1e9, True, [], {}], "top_p": ["x", 2, -0.1], "top_k": [1.5, "3", -4],
         "min_p": ["x", 7], "typical_p": [3], "seed": ["x", 1.5], "stop": [5, [5], {}, "", ["a"] * 17, [""]],
         "max_tokens": ["many", -3, 1.5], "max_completion_tokens": [-1, "x"],
         "frequency_penalty": ["x", 3], "presence_penalty": [[], -3], "repeat_penalty": ["x", 0],
         "repeat_last_n": [-1, "x", 1048577], "dry_multiplier": ["x"], "dry_base": [-1],
         "dry_allowed_length": [0.5, 0], "dry_penalty_last_n": ["x"], "logit_bias": [[], "x", 3],
         "logprobs": [3, "yes"], "n": [2, 0, "x"], "user": [5, {}], "stream": ["yes", 1],
         "stream_options": [{"include_usage": True}, 3], "model": [4],
         "messages": ["x", 3, {}, []], "tools": [[{"type": "function"}], {"a": 1}],
         "tool_choice": ["auto", {}], "response_format": [{"type": "json_object"}, "text", {"type": "json_schema", "schema": {"type": "object"}},
                             {"type": "json_schema", "json_schema": {"name": "a", "schema": {"type": "object"}}}],
         "functions": [[{}]], "modalities": [["audio"]], "audio": [{}], "prediction": [{}],
         "reasoning_effort": ["high"], "store": [True], "metadata": [{"a": "b"}],
         "chat_template_kwargs": [3, [], {"enable_thinking": "no"}, {"enable_thinking": 0}, {"x": 1}],
         "service_tier": ["flex"], "parallel_tool_calls": [True], "web_search_options": [{}]}
FINE = {"tools": [None, []], "chat_template_kwargs": [None, {}], "tool_choice": ["none"], "response_format": [{"type": "text"}],
        "store": [False], "n": [1, None], "stop": [None, "abc"], "temperature": [None, 0, 1, 1.5],
        "user": ["me"], "parallel_tool_calls": [False], "service_tier": ["auto"], "seed": [-5, 2**62],
        "logit_bias": [{}, None], "modalities": [["text"]], "model": ["tiny-moe", None]}


def test_fields(s):
    bad = []
    for field, values in WRONG.items():
        for value in values:
            r = s.chat(**{field: value})
            e = error_of(r)
            if r.status != 400 or not e.get("param", "") or not e["param"].startswith(field):
                bad.append([field, value, r.status, r.text[:200]])
    tap.ok(not bad, f"{sum(map(len, WRONG.values()))} wrong values are refused with the field's name",
           bad)
    bad = [[f, v] for f, values in FINE.items() for v in values
           if s.chat(max_tokens=1, **{f: v} if f != "max_tokens" else {}).status != 200]
    tap.ok(not bad, "values that ask for nothing special are fine", bad)
    refused("an unknown field", s.chat(frobnicate=1), 400, "frobnicate", "unknown_parameter")
    refused("another model", s.chat(model="gpt-9"), 404, "model", "model_not_found")
    refused("a wrong value inside", s.chat(stream=True, stream_options={"include_usage": "yes"}), 400,
            "stream_options.include_usage")
    refused("top_logprobs without logprobs", s.chat(top_logprobs=2), 400, "top_logprobs")
    refused("21 alternatives", s.chat(logprobs=True, top_logprobs=21), 400, "top_logprobs")
    refused("a bias on no token", s.chat(logit_bias={"99999": 1}), 400, "logit_bias.99999")
    refused("a bias out of range", s.chat(logit_bias={"5": 101}), 400, "logit_bias.5")
    refused("both limits, different", s.chat(max_tokens=3, max_completion_tokens=4), 400, "max_tokens")

    def chat(*messages):
        return s.post("/v1/chat/completions", {"messages": list(messages)})
    user = {"role": "user", "content": "x"}
    refused("a role that is none", chat({"role": "robot", "content": "x"}), 400, "messages[0].role")
    refused("no role", chat({"content": "x"}), 400, "messages[0].role")
    refused("no content", chat(user, {"role": "user"}), 400, "messages[1].content")
    refused("a picture", chat({"role": "user", "content": [{"type": "image_url"}]}), 400,
            "messages[0].content[0].type")
    refused("a field in a message", chat({**user, "name": "Ann"}), 400, "messages[0].name")
    refused("a tool call", chat(user, {"role": "assistant", "content": None, "tool_calls": [{}]}, user),
            400, "messages[1].tool_calls")
    refused("a message that is none", chat("x"), 400, "messages[0]")
    refused("no messages", s.post("/v1/chat/completions", {}), 400, "messages")
    refused("no prompt", s.post("/v1/completions", {}), 400, "prompt")
    refused("two prompts", s.post("/v1/completions", {"prompt": ["a", "b"]}), 400, "prompt")
    refused("a token that is none", s.post("/v1/completions", {"prompt": [1, 6144]}), 400, "prompt[1]")
    refused("echo", s.post("/v1/completions", {"prompt": "a", "echo": True}), 400, "echo")
    refused("a prompt of a chat", s.chat(prompt="x"), 400, "prompt")
    refused("tokenize without content", s.post("/tokenize", {}), 400, "content")
    refused("detokenize of text", s.post("/detokenize", {"tokens": "x"}), 400, "tokens")
    refused("a prompt longer than the context", s.chat("word " * 2000), 400, "messages",
            "context_length_exceeded")


def test_bodies(s):
    path = "/v1/chat/completions"
    for name, body in (("no body", b""), ("broken JSON", b'{"messages": ['), ("a number", b"5"),
                       ("a list", b"[]"), ("a bare word", b"messages"),
                       ("10,000 levels", b'{"messages":' + b"[" * 10000 + b"]" * 10000 + b"}"),
                       ("invalid UTF-8", b'{"messages":[{"role":"user","content":"\xff\xfe"}]}'),
                       ("half a surrogate", b'{"prompt":"\\ud800"}'),
                       ("a NUL", b'{"messages":[{"role":"user","content":"a\\u0000b"}]}'),
                       ("a field twice", b'{"messages":[],"messages":[]}'),
                       ("a huge number", b'{"seed":1' + b"0" * 400 + b"}"),
                       ("something behind it", b'{"messages":[]} x')):
        refused("refused: " + name, s.post(path, body), 400)
    r = s.post(path, b'{"messages":[{"role":"user","content":"a\\u0000b"}]}')
    tap.ok("U+0000" in error_of(r).get("message", ""), "a NUL is called that", r.text)
    r = s.post(path, b'{"messages":[' + b"[],[]," * 100000 + b"[]]}")
    tap.ok(r.status in (400, 413) and error_of(r), "a small body that makes a big tree", r.text)
    try:
        r = s.post(path, b" " * (2 << 20))
        refused("a body over the limit", r, 413)
    except (ConnectionError, BrokenPipeError):
        tap.ok(True, "a body over the limit")
    refused("an unknown path", s.get("/v2/chat"), 404)
    for method, target in (("GET", path), ("DELETE", path), ("POST", "/health"), ("PUT", "/")):
        r = s.request(method, target)
        tap.ok(r.status == 405 and r.getheader("Allow"), f"{method} {target}", r.status)


def test_origins(s):
    body = {"prompt": "a", "max_tokens": 1}
    here = f"http://127.0.0.1:{s.port}"
    tap.ok(s.post("/v1/completions", body, headers={"Origin": here}).status == 200, "our own page")
    for origin in ("https://example.com", "null", "http://127.0.0.1:1"):
        r = s.post("/v1/completions", body, headers={"Origin": origin})
        tap.ok(r.status == 403 and r.getheader("Access-Control-Allow-Origin") is None,
               f"a page of {origin}", r.text)
    r = s.get("/v1/models", headers={"Host": f"evil.example:{s.port}"})
    tap.ok(r.status == 403, "a name that is not ours", r.text)
    r = s.get("/v1/models", headers={"Host": f"localhost:{s.port}"})
    tap.ok(r.status == 200, "localhost is")


# ---- hard cases -----------------------------------------------------------------------------------

def test_hostile(s):
    hostile = (("no HTTP", b"hello\r\n\r\n"), ("nothing", b""), ("zeros", bytes(5000)),
               ("a header without end", b"GET / HTTP/1.1\r\nX: " + b"a" * (1 << 20)),
               ("a million headers", b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 200000 + b"\r\n"),
               ("a negative length", b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n"
                b"Content-Length: -5\r\n\r\n"),
               ("a huge length", b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n"
                b"Content-Length: 99999999999999\r\n\r\n"),
               ("a broken chunk", b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n"
                b"Transfer-Encoding: chunked\r\n\r\nzz\r\n"),
               ("half a request", b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n"
                b"Content-Length: 100\r\n\r\n{\"pro"))
    for name, data in hostile:
        out = s.raw(data, shut=True)
        good = out.startswith(b"HTTP/1.1 4") and out.count(b'\r\n\r\n{"error":{"message":') == 1
        tap.ok(out == b"" or good, "an error object, or closed: " + name, out[:200])
    two = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
    out = s.raw(two + two.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
    tap.ok(out.count(b'{"status":"ok"}') == 2, "two requests at once on one connection", out)
    body = b'{"prompt":"a","max_tokens":3}'
    post = (b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n"
            % len(body)) + body
    out = s.raw(post + post + two.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
    tap.ok(out.count(b"text_completion") == 2, "also while one is answered", out)
    big = json.dumps({"content": "x" * 200000}).encode()
    tokenize = (b"POST /tokenize HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                b"Content-Length: %d\r\n\r\n" % len(big)) + big
    out = s.raw(post + tokenize)
    tap.ok(out.count(b"text_completion") == 1 and out.count(b'{"tokens":[') == 1,
           "and a large body behind a small one", out[:500])
    for name, data in hostile[3:5]:
        for _ in range(5):
            s.raw(data, shut=True)
        out = s.raw(tokenize)
        tap.ok(out.startswith(b"HTTP/1.1 200"), f"a large body right behind five of: {name}", out[:200])
    out = s.raw(post.replace(b"Content-Length", b"Content-Length: 5\r\nContent-Length"))
    tap.ok(out.startswith(b"HTTP/1.1 400") and out.count(b"HTTP/1.1") == 1, "two lengths that differ", out[:300])
    lost = sum(b" 200 " not in s.raw(b"GET /health HTTP/1.0\r\n\r\n") for _ in range(800))
    tap.ok(not lost, "800 connections one after the other", f"{lost} got no answer")
    out = s.raw(b"GET /health HTTP/1.0\r\n\r\n")
    tap.ok(b" 200 " in out and b'"ok"' in out, "HTTP/1.0", out)
    tap.ok(s.get("/health").status == 200, "and it lives")


def test_idle(s):
    """Nobody asks: no processor time, no growth; few mappings, however many experts (U64, U19)."""
    def used():
        with open(f"/proc/{s.p.pid}/stat") as f:
            words = f.read().rsplit(")", 1)[1].split()
        return int(words[11]) + int(words[12]), int(words[21])
    s.chat(max_tokens=4)
    time.sleep(0.4)  # the end of the answer: its state is kept, threads go to sleep
    before = used()
    time.sleep(0.8)
    after = used()
    tap.ok(after[0] - before[0] <= 1 and after[1] <= before[1], "idle: no processor time, the same memory",
           [before, after])
    with open(f"/proc/{s.p.pid}/maps") as f:
        n = len(f.readlines())
    tap.memory(smol, n < 300, "few mappings", n)


def main():
    with Server(smol, "--memory", "60M") as s:
        for test in (test_basics, test_chat, test_stream, test_completions, test_logprobs, test_effects,
                     test_tokens, test_prefix, test_fields, test_bodies, test_origins, test_hostile):
            test(s)
        test_idle(s)
        tap.memory(smol, s.metric("memory_peak_bytes") < 60 << 20, "within its budget of 60 MiB",
                   s.metric("memory_peak_bytes"))
        tap.ok(s.end() == 0, "exit 0")
    test_readme()
    return tap.done()


sys.exit(main())
