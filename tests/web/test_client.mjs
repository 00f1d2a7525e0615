// SPDX-License-Identifier: MIT
// The openai package against the server. usage: node test_client.mjs --smol PROGRAM
import { done, ok, packages, serve, until } from './serving.mjs';

const { OpenAI } = packages('openai');
const server = await serve('--pool', '6', '--flash-limit', '12', '--queue', '2');
const client = new OpenAI({ baseURL: server.url + '/v1', apiKey: 'none', maxRetries: 0 });
const model = 'tiny-moe';
const user = content => [{ role: 'user', content }];
const goOn = { 1: -100, 4: -100 }; // no token that ends the answer

async function fails(kind, promise) {
  try { await promise; } catch (e) { return e instanceof kind ? e : null; }
  return null;
}

const models = [];
for await (const m of await client.models.list()) models.push(m.id);
ok(models.length === 1 && models[0] === model, 'models.list', models);
ok((await client.models.retrieve(model)).id === model, 'models.retrieve');

const chat = await client.chat.completions.create({ model, messages: user('Hello'), max_tokens: 12, temperature: 0, logit_bias: goOn });
ok(chat.choices[0].message.content.length > 0 && chat.choices[0].finish_reason === 'length' && chat.usage.completion_tokens === 12, 'chat.completions.create', chat);

let text = '', finish = null, usage = null, chunks = 0;
const stream = await client.chat.completions.create({ model, messages: user('Hello'), max_tokens: 12, temperature: 0, logit_bias: goOn, stream: true, stream_options: { include_usage: true } });
for await (const c of stream) {
  chunks++;
  text += c.choices[0]?.delta?.content ?? '';
  finish = c.choices[0]?.finish_reason ?? finish;
  usage = c.usage ?? usage;
}
ok(text === chat.choices[0].message.content && finish === 'length' && chunks > 5, 'a stream gives the same text', [text, finish, chunks]);
ok(usage && usage.completion_tokens === 12, 'with its usage', usage);

const helper = client.chat.completions.stream({ model, messages: user('Hello'), max_completion_tokens: 12, temperature: 0, logit_bias: goOn });
ok(await helper.finalContent() === text, 'the stream helper of the package', text);

const word = text.trim().split(/\s+/)[2];
const cut = await client.chat.completions.create({ model, messages: user('Hello'), max_tokens: 12, temperature: 0, logit_bias: goOn, stop: [word] });
ok(cut.choices[0].message.content === text.slice(0, text.indexOf(word)) && cut.choices[0].finish_reason === 'stop', 'a stop string', [cut.choices[0], text]);

const lp = await client.chat.completions.create({ model, messages: user('Hello'), max_tokens: 6, temperature: 0, logit_bias: goOn, logprobs: true, top_logprobs: 3 });
const tokens = lp.choices[0].logprobs.content;
ok(tokens.length === 6 && tokens.every(t => t.top_logprobs.length === 3 && t.logprob <= 0) && tokens.map(t => t.token).join('') === lp.choices[0].message.content, 'logprobs', tokens);

const old = await client.completions.create({ model, prompt: 'Once upon a time', max_tokens: 8, temperature: 0, seed: 1 });
ok(old.choices[0].text.length > 0 && old.object === 'text_completion', 'completions.create', old);

const seeded = () => client.chat.completions.create({ model, messages: user('Tell me'), max_tokens: 10, temperature: 1, seed: 42 });
ok((await seeded()).choices[0].message.content === (await seeded()).choices[0].message.content, 'a seed repeats an answer');

let e = await fails(OpenAI.BadRequestError, client.chat.completions.create({ model, messages: user('x'), temperature: 'hot' }));
ok(e && e.status === 400 && e.param === 'temperature' && e.code === 'invalid_type', 'a wrong value is a BadRequestError with its field', e);
e = await fails(OpenAI.BadRequestError, client.chat.completions.create({ model, messages: user('x'), tools: [{ type: 'function', function: { name: 'f' } }] }));
ok(e && e.param === 'tools', 'what is not supported too', e);
e = await fails(OpenAI.NotFoundError, client.chat.completions.create({ model: 'gpt-9', messages: user('x') }));
ok(e && e.code === 'model_not_found', 'another model is a NotFoundError', e);
e = await fails(OpenAI.BadRequestError, client.chat.completions.create({ model, messages: user('word '.repeat(2000)) }));
ok(e && e.code === 'context_length_exceeded', 'a prompt that is too long', e);

const before = await server.metric('cancelled_total');
const long = await client.chat.completions.create({ model, messages: user('Tell me a story'), stream: true, logit_bias: goOn });
for await (const c of long) if (c.choices[0]?.delta?.content) break; // leaving the loop aborts it
ok(await until(async () => await server.metric('cancelled_total') === before + 1 && await server.metric('requests_running') === 0), 'leaving a stream stops the answer');

const controller = new AbortController();
const plain = client.chat.completions.create({ model, messages: user('Tell me a story'), logit_bias: goOn }, { signal: controller.signal });
plain.catch(() => {});
await until(async () => await server.metric('requests_running') === 1);
controller.abort();
ok(await fails(OpenAI.APIUserAbortError, plain), 'abort');
ok(await until(async () => await server.metric('requests_running') === 0), 'and the server stops too');

const busy = new AbortController();
const many = Array.from({ length: 3 }, (_, i) => client.chat.completions.create({ model, messages: user('Story ' + i), logit_bias: goOn }, { signal: busy.signal }));
many.forEach(p => p.catch(() => {}));
await until(async () => await server.metric('requests_waiting') === 2);
ok(await fails(OpenAI.RateLimitError, client.chat.completions.create({ model, messages: user('me too') })), 'a full line is a RateLimitError');
busy.abort();
await Promise.allSettled(many);
ok(await until(async () => await server.metric('requests_waiting') === 0 && await server.metric('requests_running') === 0), 'all of them gone');
ok(await server.end() === 0, 'the server ends with 0');
done();
