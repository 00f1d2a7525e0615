#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""smol serve in conversations: templates of models that think. usage: test_talk.py --smol PROGRAM"""
import os
import struct
import sys
import tempfile

from serving import MODEL, Server, Tap, smol_argument

tap = Tap()
smol = smol_argument()
ON = {"logit_bias": {"1": -100, "4": -100}}  # no end: exact numbers of tokens
CLOSE = 1175  # the token that becomes </think>
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


def main():
    with tempfile.TemporaryDirectory() as folder:
        model = os.path.join(folder, "think.gguf")
        thinking_model(model)
        with Server(smol, model=model) as s:
            test_reasoning(s)
            tap.ok(s.end() == 0, "exit 0")
    test_no_thinking()
    return tap.done()


sys.exit(main())
