// SPDX-License-Identifier: MIT
// The web page in Chromium. usage: node test_browser.mjs --smol PROGRAM [--shots FOLDER]
import fs from 'node:fs';
import { done, ok, packages, serve, skipAll, sleep, until } from './serving.mjs';

const { chromium } = packages('playwright-core');
const executablePath = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'].find(f => fs.existsSync(f));
const shots = process.argv.includes('--shots') ? process.argv[process.argv.indexOf('--shots') + 1] : null;
if (!executablePath) { skipAll('no chromium'); process.exit(0); }

const server = await serve('--pool', '12', '--flash-limit', '40,300');
const browser = await chromium.launch({ executablePath, args: ['--no-sandbox'] });
const problems = [], requests = [];
async function open(options) {
  const context = await browser.newContext({ viewport: { width: 1440, height: 900 }, colorScheme: 'dark', ...options });
  const page = await context.newPage();
  page.on('console', m => { if (m.type() === 'error') problems.push(m.text()); });
  page.on('pageerror', e => problems.push(String(e)));
  page.on('dialog', d => { problems.push('dialog: ' + d.message()); d.dismiss(); });
  page.on('request', r => requests.push(r.url()));
  await page.goto(server.url + '/');
  await until(async () => await page.textContent('#model') === 'tiny-moe');
  return page;
}
async function shot(page, name) { if (shots) await page.screenshot({ path: `${shots}/${name}.png` }); }
const answer = page => page.locator('.msg.assistant .body').last();
const idle = page => until(async () => await page.getAttribute('#send', 'aria-label') === 'Send', 120);

// ---- chat
let page = await open();
ok(await page.textContent('#model') === 'tiny-moe', 'the page says which model it is');
await shot(page, 'hello');
await page.fill('#text', 'Tell me about the sea');
await page.keyboard.press('Enter');
ok(await page.locator('.msg.user').count() === 1, 'a message is shown at once');
await until(async () => (await answer(page).count()) && (await answer(page).textContent()).length > 3);
const early = await answer(page).textContent();
ok(early.length > 3, 'the answer begins', early);
ok(await page.getAttribute('#send', 'aria-label') === 'Stop', 'the button stops it meanwhile');
const grew = await until(async () => (await answer(page).textContent()).length > early.length + 10 || await page.getAttribute('#send', 'aria-label') === 'Send');
ok(grew, 'it streams');
await idle(page);
ok(await page.locator('button[aria-label="Regenerate answer"]').count() === 1, 'a finished answer can be written anew');

// ---- stop
await page.fill('#text', 'Now a very long story about a ship, please, with every detail');
await page.click('#send');
await until(async () => (await page.locator('.msg.assistant').count()) === 2 && (await answer(page).textContent()).length > 3);
if (await page.getAttribute('#send', 'aria-label') === 'Stop') await page.click('#send');
await idle(page);
const stopped = await answer(page).textContent();
await sleep(400);
ok(await answer(page).textContent() === stopped && stopped.length > 0, 'stop stops', stopped);
ok(await until(async () => await server.metric('requests_running') === 0), 'on the server too');

// ---- regenerate, reload
await page.click('button[aria-label="Regenerate answer"]');
await until(async () => (await answer(page).textContent()).length > 0);
await idle(page);
ok(await page.locator('.msg').count() === 4, 'regenerate replaces the last answer');
const kept = await page.locator('.msg .body').allTextContents();
await page.reload();
await until(async () => await page.locator('.msg').count() === 4);
ok(JSON.stringify(await page.locator('.msg .body').allTextContents()) === JSON.stringify(kept), 'a reload finds it again', kept);
ok((await page.locator('.talk .open').first().textContent()).startsWith('Tell me about the sea'), 'in the list of conversations');

// ---- flash view
await page.click('#show-flash');
await page.fill('#text', 'And what about the mountains?');
await page.keyboard.press('Enter');
const frames = () => page.evaluate(() => +document.body.dataset.frames || 0);
ok(await until(async () => await frames() >= 4), 'the flash view gets frames', await frames());
const picture = () => page.evaluate(() => document.getElementById('pool').toDataURL());
const one = await picture();
ok(await until(async () => await picture() !== one, 10), 'its picture moves');
await sleep(600);
await shot(page, 'chat-flash');
await idle(page);
const say = await page.textContent('#say');
ok(/layers × 12 slots for 32 experts/.test(await page.textContent('#shape')) && say.length > 3, 'it says what it shows', say);
ok(/MiB of/.test(await page.textContent('#v-mem')), 'memory against the budget', await page.textContent('#v-mem'));

// ---- what a model writes stays text
const evil = '<script>window.pwned=1</scr' + 'ipt><img src=x onerror="window.pwned=2"> [a](javascript:window.pwned=3) [b](https://example.com/) ![c](http://127.0.0.1:1/x.png)\n\n'
  + '<svg/onload=alert(1)>\n\n```html\n<script>window.pwned=4</scr' + 'ipt>\n```\n\n| a | b |\n|---|---|\n| **x** | `<b>y</b>` |\n\n1. one\n2. two\n   - three\n\n> quote\n\n## Title *it* `code`\n\n<a href="javascript:window.pwned=5" onclick="window.pwned=6">click</a>';
await page.route('**/v1/chat/completions', route => route.fulfill({
  contentType: 'text/event-stream',
  body: [...evil.match(/[\s\S]{1,7}/g).map(t => ({ choices: [{ index: 0, delta: { content: t }, finish_reason: null }] })), { choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] }]
    .map(o => `data: ${JSON.stringify(o)}\n\n`).join('') + 'data: [DONE]\n\n',
}));
await page.click('#new');
const prompt = '<script>window.pwned=7</scr' + 'ipt><img src=x onerror=window.pwned=8>';
await page.fill('#text', prompt);
await page.keyboard.press('Enter');
await until(async () => (await answer(page).count()) && (await answer(page).textContent()).includes('click'));
await idle(page);
ok(await page.locator('.msg.user .body').textContent() === prompt, 'a prompt with markup stays text');
const inside = await page.evaluate(() => ['script', 'img', 'svg.x', 'iframe', 'b', '[onclick]', '[onerror]'].map(q => document.querySelectorAll('.body ' + q).length));
ok(inside.every(x => x === 0) && await page.evaluate(() => window.pwned === undefined), 'nothing of an answer becomes markup or runs', inside);
ok(JSON.stringify(await page.evaluate(() => [...document.querySelectorAll('.body a')].map(a => a.href))) === '["https://example.com/","http://127.0.0.1:1/x.png"]', 'only web links are links, and pictures are not fetched');
ok(await page.locator('.body table td strong').count() === 1 && await page.locator('.body ol > li').count() === 2 && await page.locator('.body li li').count() === 1
   && await page.locator('.body figure pre code').textContent() === '<script>window.pwned=4</script>' && await page.locator('.body blockquote').count() === 1
   && await page.locator('.body h2 em').count() === 1, 'Markdown is shown');
await shot(page, 'markdown');
await page.unroute('**/v1/chat/completions');

// ---- keys, settings, names
await page.click('#show-settings');
ok(await page.locator('#settings').isVisible(), 'settings open');
await shot(page, 'settings');
await page.fill('#p-max_tokens', '5');
await page.selectOption('#p-theme', 'light');
ok(await page.getAttribute('html', 'data-theme') === 'light', 'light colours');
await page.keyboard.press('Escape');
await page.click('#new');
await page.fill('#text', 'Hello');
await page.keyboard.press('Enter');
await idle(page);
ok(/^[1-5] tokens/.test(await page.textContent('.msg.assistant .info')), 'parameters are used', await page.textContent('.msg.assistant .foot'));
await shot(page, 'light');
const nameless = await page.evaluate(() => [...document.querySelectorAll('button, textarea, input, select')].filter(e => !(e.getAttribute('aria-label') || e.textContent.trim() || (e.labels && e.labels.length))).map(e => e.outerHTML));
ok(nameless.length === 0, 'every control has a name', nameless);

// ---- a conversation longer than the context; two tabs
const words = n => Array.from({ length: 40 }, (_, i) => 'word' + (n * 40 + i)).join(' ');
await page.evaluate(messages => {
  localStorage.setItem('smol.talk.long', JSON.stringify({ id: 'long', title: 'Long', messages }));
  localStorage.setItem('smol.talks', JSON.stringify([{ id: 'long', title: 'Long' }]));
  localStorage.setItem('smol.last', '"long"');
}, Array.from({ length: 20 }, (_, i) => ({ role: i % 2 ? 'assistant' : 'user', content: words(i) })));
await page.reload();
await until(async () => await page.locator('.msg').count() === 20);
ok(problems.length === 0, 'no error so far', problems);
for (let turn = 0; turn < 2; turn++) {
  await page.fill('#text', 'Go on');
  await page.keyboard.press('Enter');
  await idle(page);
}
const refused = problems.splice(0).length; // the browser writes down what the server refused
ok(refused <= 1, 'the server is asked once more at most', refused);
const info = await page.locator('.msg.assistant .info').allTextContents();
ok(info.length === 2 && info.every(t => /the oldest \d+ messages are left out/.test(t)) && await page.locator('.msg .error').count() === 0, 'a conversation goes on when the context is full', [info, await page.locator('.msg .error').allTextContents()]);
ok(info[0].replace(/.*oldest/, '') === info[1].replace(/.*oldest/, ''), 'and leaves out more only when it is full again', info);
const tab = await page.context().newPage();
await tab.goto(server.url + '/');
await until(async () => await tab.locator('.talk').count() === 1);
for (const [p, text] of [[page, 'In the first tab'], [tab, 'In the second tab']]) {
  await p.bringToFront();
  await p.click('#new');
  await p.fill('#text', text);
  await p.keyboard.press('Enter');
  await idle(p);
}
ok(await until(async () => await page.locator('.talk').count() === 3, 5), 'a tab sees the conversations of the other', await page.locator('.talk').allTextContents());
await page.reload();
ok(await until(async () => await page.locator('.talk').count() === 3, 5), 'and loses none of its own', await page.locator('.talk').allTextContents());
await tab.close();

// ---- a television: arrow keys and Enter alone
const tv = await open({ viewport: { width: 1920, height: 1080 } });
await tv.keyboard.press('ArrowUp');
const seen = new Set();
for (const key of ['ArrowUp', 'ArrowUp', 'ArrowUp', 'ArrowRight', 'ArrowRight', 'ArrowRight', 'ArrowLeft', 'ArrowDown', 'ArrowDown', 'ArrowDown', 'ArrowLeft', 'ArrowUp', 'ArrowUp']) {
  await tv.keyboard.press(key);
  seen.add(await tv.evaluate(() => document.activeElement.id || document.activeElement.className || document.activeElement.textContent));
}
ok(seen.size >= 5 && !seen.has(''), 'arrow keys reach the controls', [...seen]);
await tv.evaluate(() => document.getElementById('text').focus());
for (let i = 0; i < 8 && await tv.evaluate(() => !document.activeElement.closest('.ideas')); i++) await tv.keyboard.press('ArrowUp');
await tv.keyboard.press('Enter');
ok(await until(async () => await tv.locator('.msg.assistant').count() === 1), 'Enter on a suggestion asks it');
await tv.click('#show-flash');
await idle(tv);
await shot(tv, 'tv');
ok(await tv.evaluate(() => parseFloat(getComputedStyle(document.documentElement).fontSize)) >= 19, 'letters are larger there');

// ---- a phone
const phone = await open({ viewport: { width: 390, height: 844 }, isMobile: true, hasTouch: true, deviceScaleFactor: 2 });
await phone.fill('#text', 'Hello there');
await phone.tap('#send');
await until(async () => (await answer(phone).count()) && (await answer(phone).textContent()).length > 3);
await shot(phone, 'phone');
ok(await phone.evaluate(() => document.documentElement.scrollWidth <= innerWidth), 'nothing is wider than a phone');
await phone.tap('#show-flash');
await until(async () => await phone.evaluate(() => +document.body.dataset.frames || 0) > 3);
await sleep(300);
await shot(phone, 'phone-flash');
ok(await phone.locator('#pool').isVisible(), 'the flash view takes the screen there');
await phone.keyboard.press('Escape');
await phone.tap('#menu');
ok(await phone.locator('#new').isVisible(), 'conversations slide in');
await shot(phone, 'phone-side');
await phone.touchscreen.tap(370, 700);
ok(await phone.locator('#new').isHidden(), 'and a tap beside them closes them');

// ---- the narrowest phone, the longest words
const narrow = await open({ viewport: { width: 360, height: 740 }, isMobile: true, hasTouch: true, deviceScaleFactor: 2, colorScheme: 'light' });
const german = 'Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamtengesellschaft';
const long = `## ${german}\n\nDie **${german}** hat \`${german}\` und https://example.com/${german}\n\n- Eins ${german}\n- zwei\n\n| Wort | Bedeutung |\n|---|---|\n| Rindfleischetikettierungsüberwachungsaufgabenübertragungsgesetz | ein Gesetz |\n\n\`\`\`c\nstatic const char *const the_longest_name_of_them_all = "${german}"; /* goes on */\n\`\`\``;
await narrow.route('**/v1/chat/completions', route => route.fulfill({ contentType: 'text/event-stream',
  body: `data: ${JSON.stringify({ choices: [{ index: 0, delta: { content: long }, finish_reason: 'stop' }] })}\n\ndata: [DONE]\n\n` }));
await narrow.fill('#text', german);
await narrow.tap('#send');
await until(async () => await narrow.locator('.msg.assistant figure').count() === 1);
await shot(narrow, 'narrow');
const spill = () => narrow.evaluate(() => [...document.querySelectorAll('#log *, #flash *, header *')].filter(e => { const r = e.getBoundingClientRect(); return r.width && r.right > innerWidth + 1 && !e.closest('.wide, pre'); }).map(e => e.outerHTML.slice(0, 80)));
ok((await spill()).length === 0 && await narrow.evaluate(() => document.documentElement.scrollWidth <= innerWidth), 'long words stay on a narrow phone', await spill());
ok(await narrow.evaluate(() => [...document.querySelectorAll('.body td')].every(e => e.getBoundingClientRect().height < 70)), 'a table scrolls instead of cutting its words to letters');
await narrow.unroute('**/v1/chat/completions');
await narrow.tap('#show-flash');
await narrow.evaluate(() => document.getElementById('text').focus());
await fetch(server.url + '/v1/completions', { method: 'POST', body: JSON.stringify({ prompt: 'Once', max_tokens: 30, logit_bias: { 1: -100, 4: -100 } }) });
await until(async () => await narrow.evaluate(() => +document.body.dataset.frames || 0) > 3);
await shot(narrow, 'narrow-flash');
ok((await spill()).length === 0 && await narrow.evaluate(() => [...document.querySelectorAll('.tile .v')].every(e => e.scrollWidth <= e.clientWidth + 1)), 'so do the figures of the flash view', await spill());
await narrow.keyboard.press('Escape');
await narrow.tap('#show-settings');
await shot(narrow, 'narrow-settings');
ok(await narrow.evaluate(() => { const d = document.getElementById('settings'); return d.scrollWidth <= d.clientWidth && d.getBoundingClientRect().right <= innerWidth; }), 'and the settings');

ok(requests.every(u => u.startsWith(server.url) || u.startsWith('data:')), 'no request leaves the server', requests.filter(u => !u.startsWith(server.url)));
ok(problems.length === 0, 'no error in the console', problems);
await browser.close();
ok(await server.end() === 0, 'the server ends with 0');
done();
