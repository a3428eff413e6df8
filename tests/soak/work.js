// SPDX-License-Identifier: Apache-2.0
//
// work.js: worker threads that compress, hash, sort and throw, by numbers of their own; what
// comes of it is the same at each run.
//
// node work.js SECONDS: at least so long, a digest for each round; a line each time it changes,
// which is once.
'use strict';
const crypto = require('crypto');
const zlib = require('zlib');
const { Worker, isMainThread, parentPort, workerData } = require('worker_threads');

const WORKERS = 3;
const STEPS = 200;

/** A generator of numbers below @c n, always the same ones for a seed. */
function numbers(seed) {
  let state = seed + 1;
  return n => {
    state = (Math.imul(state, 1103515245) + 12345) & 0x7fffffff;
    return (state >>> 8) % n;
  };
}

function work(seed) {
  const next = numbers(seed);
  const hash = crypto.createHash('sha256');
  const kept = new Map();
  for (let i = 0; i < STEPS; i++) {
    const data = Buffer.alloc(next(20000), String.fromCharCode(65 + i % 26));
    for (let at = 0; at < data.length; at += 7)
      data[at] = next(256);
    const packed = zlib.deflateSync(data);
    if (!zlib.inflateSync(packed).equals(data))
      throw new Error('what was compressed is not the same');
    kept.set('key' + next(50), packed);
    try {
      hash.update(data.subarray(0, 16).toString('hex')[next(40)]);
    } catch (error) {
      hash.update(error.name);
    }
  }
  for (const key of [...kept.keys()].sort())
    hash.update(kept.get(key));
  return hash.digest('hex').slice(0, 8);
}

function inWorker(seed) {
  return new Promise((resolve, reject) => {
    const worker = new Worker(__filename, { workerData: seed });
    worker.on('message', resolve);
    worker.on('error', reject);
  });
}

async function main(seconds) {
  const end = Date.now() + seconds * 1000;
  let last = '';
  do {
    const now = (await Promise.all([...Array(WORKERS).keys()].map(inWorker))).join('');
    if (now !== last)
      console.log(now);
    last = now;
  } while (Date.now() < end);
}

if (isMainThread)
  main(Number(process.argv[2]));
else
  parentPort.postMessage(work(workerData));
