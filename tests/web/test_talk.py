#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""smol serve in conversations: templates of models that think, states kept on disk.
usage: test_talk.py --smol PROGRAM"""
import os
import sys
import tempfile

from serving import Server, Tap, smol_argument, thinking_model

tap = Tap()
smol = smol_argument()
ON = {"logit_bias": {"1": -100, "4": -100}}  # no end: exact numbers of tokens
CLOSE = 1175  # the token that becomes </think>


def test_reasoning(s):
    body = {"messages": [{"role": "user", "content": "Tell me a story"}], "max_tokens": 30,
            "temperature": 0.7, "logprobs": True, "logit_bias": {**ON["logit_bias"], str(CLOSE): 4}}
    for seed in range(30):
        body["seed"] = seed
        whole = s.post("/v1/chat/completions", body).json["choices"][0]
        m = whole["message"]
        if m.get("reasoning_content") and m["content"]:
            break
    tap.ok(m.get("reasoning_content") and m["content"] and "</think>" not in m["reasoning_content"],
           "what is thought and what is said are apart", m)
    raw = b"".join(bytes(t["bytes"]) for t in whole["logprobs"]["content"]).decode("utf-8", "replace")
    thought, said = raw.split("</think>", 1)
    tap.ok((thought.lstrip(), said.lstrip()) == (m["reasoning_content"], m["content"]),
           "nothing is lost but the tag and the space behind it", [raw, m])
    _, events = s.stream("/v1/chat/completions", body)
    deltas = [e["choices"][0]["delta"] for e in events[:-1]]
    tap.ok("".join(d.get("reasoning_content", "") for d in deltas) == m["reasoning_content"] and
           "".join(d.get("content", "") for d in deltas) == m["content"], "the same in a stream", deltas)
    last = max(i for i, d in enumerate(deltas) if d.get("reasoning_content"))
    tap.ok(all(not d.get("content") for d in deltas[:last + 1]), "thoughts come first")
    streamed = [t for e in events[:-1] for t in (e["choices"][0]["logprobs"] or {}).get("content", [])]
    tap.ok(streamed == whole["logprobs"]["content"], "with the logprobs of all tokens")
    off = {**body, "chat_template_kwargs": {"enable_thinking": False}}
    r = s.post("/v1/chat/completions", off).json
    tap.ok("reasoning_content" not in r["choices"][0]["message"] and r["choices"][0]["message"]["content"],
           "no thoughts where they are switched off", r)
    on = s.post("/v1/chat/completions", {**body, "chat_template_kwargs": {"enable_thinking": True}}).json
    tap.ok(on["choices"][0]["message"] == m, "switched on is as by itself here", on)
    turns = body["messages"] + [m, {"role": "user", "content": "Go on"}]
    r = s.post("/v1/chat/completions", {**body, "messages": turns})
    tap.ok(r.status == 200, "the answer can be sent back with its thoughts", r.text)


def test_no_thinking():
    with Server(smol) as s:
        for value, status in ((False, 200), (None, 200), (True, 400)):
            r = s.chat(max_tokens=2, chat_template_kwargs={"enable_thinking": value})
            tap.ok(r.status == status and (status == 200 or r.json["error"]["param"] ==
                                           "chat_template_kwargs.enable_thinking"),
                   f"enable_thinking {value} where the template knows nothing of it", r.text)


class Talk:
    """A conversation from the client's side; each turn tells what the server had to read."""

    def __init__(self, first):
        self.messages, self.question = [], first

    def turn(self, s, question, max_tokens=12):
        self.messages.append({"role": "user", "content": self.question})
        before = s.metric("prompt_read_tokens_total")
        j = s.post("/v1/chat/completions", {"messages": self.messages, "max_tokens": max_tokens,
                                            "temperature": 0, **ON}).json
        self.read = s.metric("prompt_read_tokens_total") - before
        self.cached = j["usage"]["prompt_tokens_details"]["cached_tokens"]
        self.prompt, self.all = j["usage"]["prompt_tokens"], j["usage"]["total_tokens"]
        self.text = j["choices"][0]["message"]["content"]
        self.messages.append(j["choices"][0]["message"])
        self.question = question
        return self

    def copy(self):
        t = Talk(self.question)
        t.messages = list(self.messages)
        return t


def continued(name, t, had):
    tap.ok(t.read == t.prompt - t.cached and had - 2 <= t.cached < t.prompt, name,
           f"read {t.read} of {t.prompt}, {t.cached} cached, {had} had been read or written")


def states(folder):
    return sorted(os.path.join(folder, f) for f in os.listdir(folder) if f.endswith(".state"))


def test_restart(folder):
    a = Talk("Tell me about the sea and the ships that sail on it")
    with Server(smol, cache=folder) as s:
        a.turn(s, "And the sky?")
        had = a.all
        tap.ok(not states(folder), "nothing is written while a conversation may go on")
        tap.ok(s.end() == 0 and len(states(folder)) == 1, "its state is kept at the end",
               os.listdir(folder))
    tap.ok(os.stat(states(folder)[0]).st_mode & 0o77 == 0, "readable by its owner alone")
    plain = a.copy()
    with Server(smol) as s:
        plain.turn(s, "")
    tap.ok(plain.cached == 0 and plain.read == plain.prompt, "without it all is read again")
    damaged = a.copy()
    with Server(smol, cache=folder) as s:
        a.turn(s, "")
        continued("a second turn reads only what is new after a restart", a, had)
        tap.ok(a.text == plain.text, "and says the same", [a.text, plain.text])
    path = states(folder)[0]
    with open(path, "r+b") as f:
        f.seek(-200, os.SEEK_END)
        byte = f.read(1)[0]
        f.seek(-200, os.SEEK_END)
        f.write(bytes([byte ^ 1]))
    with Server(smol, cache=folder) as s:
        damaged.turn(s, "")
        tap.ok(damaged.text == plain.text and damaged.read == damaged.prompt, "a damaged state harms nothing",
               [damaged.read, damaged.text])
        tap.ok(any("a kept state is not used" in line for line in s.lines), "and is said", s.lines)


def test_two_talks(folder):
    a, b = Talk("Tell me about the sea and the ships"), Talk("What is the best way to bake bread?")
    with Server(smol, cache=folder) as s:
        a.turn(s, "Is it deep?").turn(s, "And wide?")
        had_a = a.all
        b.turn(s, "With salt?")
        tap.ok(b.cached < 16 and len(states(folder)) == 1, "another conversation: the first is kept",
               [b.cached, states(folder)])
        b.turn(s, "And water?")
        had_b = b.all
        a.turn(s, "")
        continued("back to the first", a, had_a)
        b.turn(s, "")
        continued("and to the second", b, had_b)
        n = len(states(folder))
        for k in range(5):
            s.chat(f"{k}: a single question that nobody asks again", max_tokens=2)
        tap.ok(len(states(folder)) <= n + 1, "single requests write nothing", states(folder))


def test_no_folder(folder):
    path = os.path.join(folder, "file")
    with open(path, "w") as f:
        f.write("x")
    with Server(smol, cache=path) as s:
        tap.ok(s.chat(max_tokens=20, **ON).status == 200 and s.end() == 0 and
               any("is not kept" in line for line in s.lines), "a folder that is none is said", s.lines)


def main():
    with tempfile.TemporaryDirectory() as folder:
        model = os.path.join(folder, "think.gguf")
        thinking_model(model)
        with Server(smol, model=model) as s:
            test_reasoning(s)
            tap.ok(s.end() == 0, "exit 0")
    test_no_thinking()
    for test in (test_restart, test_two_talks, test_no_folder):
        with tempfile.TemporaryDirectory() as folder:
            test(folder)
    return tap.done()


sys.exit(main())
