'use strict';

// node-resque's features, one scene each, in a namespace of its own.

const assert = require('node:assert/strict');
const { MultiWorker, Plugins, Queue, Scheduler, Worker } = require('node-resque');
const { env, loadMs, log, main, signal, stages, until, wait, within } = require('./driver');

const farMs = 3_600_000;

class Stage {
  constructor(name) {
    this.name = name;
    this.open = [];
  }

  connection() {
    return { host: env.host, port: env.port, namespace: `resque-${this.name}` };
  }

  async start(each, run = true) {
    each.on('error', (err) => log(`${this.name}: ${err.message}`));
    this.open.push(each);
    if (each.connect) await each.connect();
    if (run && each.start) await each.start();
    return each;
  }

  queue(jobs = {}) { return this.start(new Queue({ connection: this.connection() }, jobs)); }

  worker(jobs, options = {}) {
    const name = `worker:${this.open.length}`;
    return this.start(new Worker({ connection: this.connection(), queues: ['jobs'], name, timeout: 20, ...options }, jobs));
  }

  scheduler(options = {}) {
    return this.start(new Scheduler({ connection: this.connection(), name: `scheduler:${this.open.length}`, timeout: 50, ...options }));
  }

  async close() {
    for (const each of this.open.slice(1).reverse()) await each.end();
    const { redis } = this.open[0].connection;
    const keys = [];
    for await (const some of redis.scanStream({ match: `resque-${this.name}:*` })) keys.push(...some);
    if (keys.length > 0) await redis.del(...keys);
    await this.open[0].end();
  }
}

// collect runs jobs of the class "note" and tells which arguments came, in order.
function collect() {
  const came = [];
  return { came, jobs: { note: { perform: async (...args) => { came.push(args); } } } };
}

async function order(stage) {
  const { came, jobs } = collect();
  const queue = await stage.queue(jobs);
  for (let n = 0; n < 50; n++) await queue.enqueue(n % 2 === 0 ? 'later' : 'first', 'note', [n]);
  assert.deepEqual((await queue.queues()).sort(), ['first', 'later']);
  assert.equal(await queue.length('later'), 25);
  assert.deepEqual(await queue.queued('first', 0, 0), [{ class: 'note', queue: 'first', args: [1] }]);
  await stage.worker(jobs, { queues: ['first', 'later'] });
  await until('all done', () => came.length === 50);
  const numbers = came.map(([n]) => n);
  assert.deepEqual(numbers, [...numbers.filter((n) => n % 2 === 1), ...numbers.filter((n) => n % 2 === 0)]);
}

async function everyQueue(stage) {
  const { came, jobs } = collect();
  const queue = await stage.queue(jobs);
  await stage.worker(jobs, { queues: ['*'] });
  for (const name of ['a', 'b', 'c']) await queue.enqueue(name, 'note', [name]);
  await until('all done', () => came.length === 3);
}

async function failures(stage) {
  const jobs = { fails: { perform: async (n) => { if (n === 1) throw new TypeError('no'); } } };
  const queue = await stage.queue(jobs);
  const worker = await stage.worker(jobs);
  for (const n of [1, 2]) await queue.enqueue('jobs', 'fails', [n]);
  await queue.enqueue('jobs', 'nobody', []);
  await until('two failed', async () => (await queue.failedCount()) === 2);
  const [first, second] = await queue.failed(0, -1);
  assert.deepEqual([first.exception, first.error, first.payload.args], ['TypeError', 'no', [1]]);
  assert.match(second.error, /No job defined/);
  await until('stats', async () => (await queue.stats())[`processed:${worker.name}`] === '1');
  assert.equal((await queue.stats()).failed, '2');
  await queue.removeFailed(second);
  await queue.retryAndRemoveFailed(first);
  await until('failed again', async () => (await queue.failedCount()) === 1 && (await queue.length('jobs')) === 0);
}

async function retries(stage) {
  const tried = [];
  const jobs = {
    third: {
      plugins: [Plugins.Retry], pluginOptions: { Retry: { retryLimit: 5, backoffStrategy: [10, 20] } },
      perform: async (text) => { tried.push(text); if (tried.length < 3) throw new Error(text); return text; },
    },
  };
  const queue = await stage.queue(jobs);
  const worker = await stage.worker(jobs);
  await stage.scheduler();
  // A job that is to be tried again counts as a success without a result.
  const succeeded = new Promise((resolve) => { worker.on('success', (q, job, result) => { if (result) resolve(result); }); });
  await queue.enqueue('jobs', 'third', ['ä€😀\r\n']);
  assert.equal(await within('success', succeeded), 'ä€😀\r\n');
  assert.equal(tried.length, 3);
  assert.equal(await queue.failedCount(), 0);
}

async function delays(stage) {
  const { came, jobs } = collect();
  const queue = await stage.queue(jobs);
  const soon = Date.now();
  await queue.enqueueAt(soon + farMs, 'jobs', 'note', ['late']);
  await queue.enqueueAt(soon + 2 * farMs, 'jobs', 'note', ['late']);
  await assert.rejects(queue.enqueueAt(soon + farMs, 'jobs', 'note', ['late']), /already enqueued/);
  assert.equal((await queue.timestamps()).length, 2);
  assert.deepEqual((await queue.delayedAt(soon + farMs)).tasks, [{ class: 'note', queue: 'jobs', args: ['late'] }]);
  assert.equal(Object.keys(await queue.allDelayed()).length, 2);
  assert.deepEqual((await queue.scheduledAt('jobs', 'note', ['late'])).length, 2);
  await queue.enqueueIn(500, 'jobs', 'note', ['soon']);
  await stage.scheduler();
  await stage.worker(jobs);
  await until('the early one', () => came.length === 1);
  assert.deepEqual(came, [['soon']]);
  assert.equal((await queue.delDelayed('jobs', 'note', ['late'])).length, 2);
  assert.deepEqual(await queue.scheduledAt('jobs', 'note', ['late']), []);
}

async function leaders(stage) {
  const queue = await stage.queue();
  const one = await stage.scheduler({ leaderLockTimeout: 60 });
  await until('a leader', async () => (await queue.leader()) === one.name);
  const other = await stage.scheduler({ leaderLockTimeout: 60 });
  await wait(200);
  assert.equal(other.leader, false);
  stage.open.splice(stage.open.indexOf(one), 1);
  await one.end();
  await until('the next leader', async () => (await queue.leader()) === other.name && other.leader);
}

async function locks(stage) {
  const running = signal();
  let now = 0;
  let most = 0;
  const jobs = {
    single: {
      plugins: [Plugins.JobLock], pluginOptions: { JobLock: { enqueueTimeout: 100 } },
      perform: async () => { most = Math.max(most, ++now); await running.promise; now--; },
    },
    unique: { plugins: [Plugins.QueueLock, Plugins.DelayQueueLock], perform: async () => {} },
  };
  const queue = await stage.queue(jobs);
  assert.equal(await queue.enqueue('other', 'unique', ['x']), true);
  assert.equal(await queue.enqueue('other', 'unique', ['x']), false);
  assert.equal(await queue.enqueue('other', 'unique', ['y']), true);
  await queue.enqueueIn(farMs, 'other', 'unique', ['z']);
  assert.equal(await queue.enqueue('other', 'unique', ['z']), false);
  assert.equal(Object.keys(await queue.locks()).length, 3);
  assert.equal(await queue.delLock('lock:unique:other:["x"]'), 1);
  assert.equal(await queue.enqueue('other', 'unique', ['x']), true);

  await stage.scheduler();
  for (let n = 0; n < 2; n++) await queue.enqueue('jobs', 'single', []);
  for (let n = 0; n < 2; n++) await stage.worker(jobs);
  await until('one runs, one waits', async () => now === 1 && (await queue.scheduledAt('jobs', 'single', [])).length === 1);
  running.resolve();
  await until('both ran', async () => now === 0 && (await queue.stats()).processed === '2');
  assert.equal(most, 1);
}

async function stuckWorkers(stage) {
  const never = signal();
  const jobs = { hangs: { perform: () => never.promise } };
  const queue = await stage.queue(jobs);
  const worker = await stage.worker(jobs);
  await queue.enqueue('jobs', 'hangs', [7]);
  await until('it hangs', async () => (await queue.allWorkingOn())[worker.name]?.payload?.args[0] === 7);
  assert.deepEqual(await queue.workers(), { [worker.name]: 'jobs' });
  clearInterval(worker.pingTimer); // as if its process had died
  const scheduler = await stage.scheduler({ stuckWorkerTimeout: 1000, retryStuckJobs: false });
  await within('cleaned', new Promise((resolve) => { scheduler.on('cleanStuckWorker', (name) => { if (name === worker.name) resolve(); }); }));
  assert.deepEqual(await queue.workers(), {});
  assert.equal((await queue.failed(0, -1))[0].exception, 'Worker Timeout (killed manually)');
  await queue.retryStuckJobs();
  assert.equal(await queue.length('jobs'), 1);
  never.resolve();
  await until('it ended', () => !worker.working);
}

async function removal(stage) {
  const { jobs } = collect();
  const queue = await stage.queue(jobs);
  for (const n of [1, 2, 1, 3, 1]) await queue.enqueue('jobs', 'note', [n]);
  await queue.enqueue('jobs', 'other', []);
  assert.equal(await queue.del('jobs', 'note', [1], 2), 2);
  assert.equal(await queue.delByFunction('jobs', 'note'), 3);
  assert.equal(await queue.length('jobs'), 1);
  await queue.delQueue('jobs');
  assert.deepEqual([await queue.queues(), await queue.length('jobs')], [[], 0]);
}

async function manyWorkers(stage) {
  const times = new Map();
  const jobs = { count: { perform: async (n) => { times.set(n, (times.get(n) || 0) + 1); await wait(1); } } };
  const queue = await stage.queue(jobs);
  const count = 1000;
  await Promise.all(Array.from({ length: count }, (_, n) => queue.enqueue('jobs', 'count', [n])));
  await stage.start(new MultiWorker({
    connection: stage.connection(), queues: ['jobs'], name: 'many', timeout: 20, checkTimeout: 20,
    minTaskProcessors: 2, maxTaskProcessors: 8, maxEventLoopDelay: 100,
  }, jobs));
  await until('all done', async () => times.size === count && (await queue.stats()).processed === String(count), loadMs);
  assert.ok([...times.values()].every((n) => n === 1));
}

async function payloads(stage) {
  const { came, jobs } = collect();
  const queue = await stage.queue(jobs);
  const texts = ['', '\r\n\0', 'ä€😀'.repeat(1000), 'x'.repeat(1 << 20), '[]', '1e400'];
  for (const text of texts) await queue.enqueue('jobs', 'note', [text, { deep: [text.length, null, true, 0.1] }]);
  await stage.worker(jobs);
  await until('all done', () => came.length === texts.length);
  assert.deepEqual(came, texts.map((text) => [text, { deep: [text.length, null, true, 0.1] }]));
}

const all = {
  order, everyQueue, failures, retries, delays, leaders, locks, stuckWorkers, removal, manyWorkers, payloads,
};

main(() => stages(all, Stage));
