'use strict';

// What every driver shares: the environment that the harness gives, the events that it reads on stdout, the tasks of
// a ledger, and the running of scenes. It knows no client.

const { setTimeout: wait } = require('node:timers/promises');

const env = {
  host: process.env.CODEQ_HOST || '127.0.0.1',
  port: Number(process.env.CODEQ_PORT || 6379),
  tasks: Number(process.env.E2E_TASKS || 1000),
  seed: Number(process.env.E2E_SEED || 1),
  kill: process.env.E2E_KILL === '1',
};

// Scenes that wait for something the server owes them give up after this time.
const patienceMs = 30_000;
// Thousands of jobs take seconds, and on a machine that is busy with other things more than a minute.
const loadMs = 180_000;
// A scene that takes longer hangs.
const sceneMs = 240_000;

function emit(event) {
  process.stdout.write(JSON.stringify(event) + '\n');
}

const ledger = {
  enqueued: (id, promise = {}) => emit({ event: 'enqueued', id, dies: promise.dies, fails: promise.fails }),
  done: (id) => emit({ event: 'done', id }),
  failed: (id, attempt) => emit({ event: 'failed', id, attempt }),
  dead: (id) => emit({ event: 'dead', id }),
  note: (text) => emit({ event: 'note', text }),
};

function log(...words) {
  console.error(new Date().toISOString().slice(11, 23), ...words);
}

// numbers returns a generator of fractions that the seed fixes (mulberry32).
function numbers(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
  };
}

// attempts is how often a task is tried before it is given up.
const attempts = 4;

// plan draws the tasks of a ledger: most succeed at once, some fail before they succeed, some fail until their
// attempts are used up, some wait for their time, some jump the queue.
function plan(count, seed) {
  const fraction = numbers(seed);
  return Array.from({ length: count }, (_, i) => {
    const drawn = fraction();
    const task = { id: `task-${i}`, fails: 0, dies: false, delayMs: 0, priority: 0 };
    if (drawn < 0.03) Object.assign(task, { dies: true, fails: attempts });
    else if (drawn < 0.13) task.fails = 1 + Math.floor(fraction() * 2);
    else if (drawn < 0.23) task.delayMs = 100 + Math.floor(fraction() * 900);
    else if (drawn < 0.4) task.priority = 1 + Math.floor(fraction() * 9);
    return task;
  });
}

// attempt is what a worker does with a task that it gets for the nth time, counted from 1.
function attempt(task, n) {
  if (n <= task.fails) {
    ledger.failed(task.id, n);
    throw new Error(task.dies ? 'meant to die' : 'meant to be tried again');
  }
  ledger.done(task.id);
}

// inLots hands over half of the tasks one by one, ten at a time, the rest in bulks of 50, each again until it worked.
async function inLots(tasks, single, bulk) {
  const half = Math.floor(tasks.length / 2);
  for (let i = 0; i < half; i += 10) {
    await Promise.all(tasks.slice(i, Math.min(i + 10, half)).map(async (task) => {
      await persist('add', () => single(task));
      ledger.enqueued(task.id, task);
    }));
  }
  for (let i = half; i < tasks.length; i += 50) {
    const lot = tasks.slice(i, i + 50);
    await persist('add in bulk', () => bulk(lot));
    for (const task of lot) ledger.enqueued(task.id, task);
  }
}

// persist calls step again while it fails: a killed server takes what was on its way with it, and every step that is
// given here can be repeated without harm.
async function persist(what, step) {
  for (;;) {
    try {
      return await step();
    } catch (err) {
      if (!env.kill) throw err;
      log(`${what} again after: ${err.message}`);
      await wait(200);
    }
  }
}

// until waits for a condition and returns its value. An error while it is looked at counts as not yet if the server is
// going to be killed.
async function until(what, condition, limitMs = patienceMs) {
  const end = Date.now() + limitMs;
  for (;;) {
    const value = await (env.kill ? Promise.resolve(condition()).catch(() => false) : condition());
    if (value) return value;
    if (Date.now() > end) throw new Error(`waited in vain: ${what}`);
    await wait(20);
  }
}

// signal is a promise that others resolve.
function signal() {
  let resolve;
  const promise = new Promise((r) => { resolve = r; });
  return { promise, resolve };
}

async function within(what, promise, limitMs = patienceMs) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`waited in vain: ${what}`)), limitMs);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}

// main runs a driver and ends the process: open handles of a client must not keep it alive.
function main(drive) {
  process.on('unhandledRejection', (err) => {
    // Clients with a connection that a killed server closed reject promises nobody holds.
    log('unhandled:', err && err.stack);
    if (!env.kill) process.exit(1);
  });
  drive().then(
    () => {
      emit({ event: 'end' });
      process.stdout.write('', () => process.exit(0));
    },
    (err) => {
      log(err.stack);
      process.exit(1);
    },
  );
}

// scenes runs functions by name, one after the other; in the ledger a scene is a task. Those named on the command
// line, or all. A scene that fails does not keep the others from running.
async function scenes(all, setup) {
  const chosen = process.argv.slice(2);
  const failed = [];
  for (const [name, scene] of Object.entries(all)) {
    if (chosen.length > 0 && !chosen.includes(name)) continue;
    ledger.enqueued(name);
    const started = Date.now();
    try {
      await within(`end of ${name}`, scene(setup), sceneMs);
      ledger.done(name);
      log(`${name}: ${Date.now() - started} ms`);
    } catch (err) {
      failed.push(name);
      log(`${name} failed: ${err.stack}`);
    }
  }
  if (failed.length > 0) throw new Error(`failed: ${failed.join(', ')}`);
}

// stages has each scene play on a Stage of its own, made with the scene's name and closed in the end.
function stages(all, Stage) {
  return scenes(Object.fromEntries(Object.entries(all).map(([name, scene]) => [name, async () => {
    const stage = new Stage(name);
    try {
      await scene(stage);
    } finally {
      await stage.close();
    }
  }])));
}

module.exports = {
  attempt, attempts, env, inLots, ledger, loadMs, log, main, numbers, persist, plan, scenes, signal, stages, until, wait,
  within,
};
