// SPDX-License-Identifier: MIT
// What the tests with npm packages share: TAP, a server of one's own, the packages themselves.
import { spawn } from 'node:child_process';
import { createRequire } from 'node:module';

export const packages = createRequire(process.env.SMOL_WEB_MODULES + '/node_modules/x.js');
const smol = process.argv[process.argv.indexOf('--smol') + 1];
export const root = process.env.SMOL_SRC || '.';

let n = 0, failed = 0;
export function ok(good, name, remark) {
  n++;
  if (!good) failed++;
  console.log(`${good ? '' : 'not '}ok ${n} - ${name}`);
  if (!good && remark !== undefined)
    for (const line of String(typeof remark === 'string' ? remark : JSON.stringify(remark)).slice(0, 2000).split('\n')) console.log('#   ' + line);
  return good;
}
export function done() {
  console.log(`1..${n}`);
  process.exitCode = failed || !n ? 1 : 0;
}
export function skipAll(reason) {
  console.log(`ok 1 - not run # SKIP ${reason}\n1..1`);
}

export async function serve(...args) {
  const p = spawn(smol, ['serve', root + '/models/tiny-moe.gguf', '--port', '0', '--threads', '2', '--no-learn',
                        ...args],
                  { stdio: ['ignore', 'ignore', 'pipe'], env: { ...process.env, SMOL_CACHE: 'off' } });
  const lines = [];
  const ended = new Promise(resolve => p.on('exit', code => resolve(code)));
  const port = await new Promise((resolve, reject) => {
    let text = '';
    p.stderr.on('data', d => {
      text += d;
      lines.push(String(d));
      const m = /serving \S+ at http:\/\/\S+:(\d+)\//.exec(text);
      if (m) resolve(+m[1]);
    });
    p.on('exit', code => reject(new Error(`the server ended with ${code}: ${text}`)));
  });
  const url = `http://127.0.0.1:${port}`;
  return {
    url, port,
    async metric(name) {
      const m = new RegExp(`^smol_${name} (\\S+)$`, 'm').exec(await (await fetch(url + '/metrics')).text());
      return m ? +m[1] : null;
    },
    async end() { p.kill('SIGTERM'); return ended; },
  };
}
export const sleep = ms => new Promise(resolve => setTimeout(resolve, ms));
export async function until(condition, seconds = 30) {
  for (const end = Date.now() + seconds * 1000; Date.now() < end;) {
    if (await condition()) return true;
    await sleep(50);
  }
  return false;
}
