'use strict';

// bee-queue's features, one scene each.

const assert = require('node:assert/strict');
const { fork } = require('node:child_process');
const path = require('node:path');
const Queue = require('bee-queue');
const { env, loadMs, log, main, stages, until, wait, within } = require('./driver');

class Stage {
  constructor(name) {
    this.name = name;
    this.open = [];
  }

  async queue(options = {}) {
    const redis = { host: env.host, port: env.port };
    const queue = new Queue(this.name, { redis, delayedDebounce: 50, ...options });
    queue.on('error', (err) => log(`${this.name}: ${err.message}`));
    this.open.push(queue);
    return queue.ready();
  }

  async close() {
    for (const queue of this.open.slice(1)) await queue.close();
    await this.open[0].destroy();
    await this.open[0].close();
  }
}

function ended(job) {
  return within(`end of ${job.id}`, new Promise((resolve, reject) => {
    job.on('succeeded', resolve);
    job.on('failed', reject);
  }));
}

async function concurrency(stage) {
  const queue = await stage.queue();
  let now = 0;
  let most = 0;
  queue.process(5, async (job) => {
    most = Math.max(most, ++now);
    await wait(20);
    now--;
    return job.data.n * 2;
  });
  const jobs = Array.from({ length: 40 }, (_, n) => queue.createJob({ n }));
  const results = Promise.all(jobs.map(ended));
  for (const job of jobs) await job.save();
  assert.deepEqual(await results, jobs.map((job) => job.data.n * 2));
  assert.equal(most, 5);
}

async function retries(stage) {
  const queue = await stage.queue({ activateDelayedJobs: true });
  queue.backoffStrategies.set('tens', (job) => job.options.backoff.delay * (4 - job.options.retries));
  const tried = {};
  const retrying = [];
  queue.on('job retrying', (id) => retrying.push(id));
  queue.process(async (job) => {
    tried[job.id] = (tried[job.id] || 0) + 1;
    if (job.id === 'dies' || tried[job.id] < 3) throw new Error(`attempt ${tried[job.id]}`);
  });
  const add = (id, n, ...backoff) => {
    const job = queue.createJob({}).setId(id).retries(n);
    return (backoff.length > 0 ? job.backoff(...backoff) : job).save();
  };
  await Promise.all([add('at once', 3), add('fixed', 3, 'fixed', 30), add('exponential', 3, 'exponential', 20),
    add('custom', 3, 'tens', 10), add('dies', 1)]);
  await until('all settled', async () => {
    const { succeeded, failed } = await queue.checkHealth();
    return succeeded === 4 && failed === 1;
  });
  assert.deepEqual(tried, { 'at once': 3, fixed: 3, exponential: 3, custom: 3, dies: 2 });
  await until('retrying events', () => retrying.length === 9);
  assert.equal((await queue.getJobs('failed', { size: 10 }))[0].status, 'failed');
}

async function timeouts(stage) {
  const queue = await stage.queue();
  queue.process(() => new Promise(() => {}));
  const job = queue.createJob({}).timeout(50);
  const end = ended(job);
  await job.save();
  await assert.rejects(end, /timed out/);
}

async function delays(stage) {
  const queue = await stage.queue({ activateDelayedJobs: true });
  const done = [];
  const due = {};
  queue.process(async (job) => {
    assert.ok(Date.now() >= due[job.id], `${job.id} was early`);
    done.push(job.id);
  });
  for (const [id, delay] of [['c', 700], ['a', 200], ['b', 450]]) {
    due[id] = Date.now() + delay;
    await queue.createJob({}).setId(id).delayUntil(due[id]).save();
  }
  await until('three done', () => done.length === 3);
  assert.deepEqual(done, ['a', 'b', 'c']);
}

async function progress(stage) {
  const queue = await stage.queue();
  const listener = await stage.queue({ isWorker: false });
  const seen = [];
  listener.on('job progress', (id, value) => seen.push([id, value]));
  queue.process(async (job) => { job.reportProgress({ half: 'ä€😀' }); await wait(10); return 'x'; });
  const job = queue.createJob({}).setId('p');
  const end = ended(job);
  await job.save();
  assert.equal(await end, 'x');
  await until('progress', () => seen.length === 1);
  assert.deepEqual(seen, [['p', { half: 'ä€😀' }]]);
}

async function stalled(stage) {
  const stallInterval = 500;
  const queue = await stage.queue({ stallInterval });
  for (const id of ['a', 'b', 'c']) await queue.createJob({}).setId(id).save();
  // A consumer in a process of its own takes two jobs and is killed with them in its hands.
  const holder = fork(path.join(__dirname, 'bee_queue_holder.js'), [stage.name, String(stallInterval)]);
  await within('two jobs held', new Promise((resolve) => { holder.on('message', (n) => { if (n === 2) resolve(); }); }));
  const gone = new Promise((resolve) => { holder.on('exit', resolve); });
  holder.kill('SIGKILL');
  await gone;
  assert.equal((await queue.checkHealth()).active, 2);
  const seen = [];
  const done = [];
  queue.on('stalled', (id) => seen.push(id));
  queue.process(async (job) => { done.push(job.id); });
  queue.checkStalledJobs(stallInterval / 2, () => {});
  await until('all done', () => done.length === 3);
  assert.deepEqual(done.slice().sort(), ['a', 'b', 'c']);
  assert.equal(seen.length, 2);
}

async function gettersAndRemoval(stage) {
  const queue = await stage.queue();
  for (const id of ['a', 'b', 'c']) await queue.createJob({ id }).setId(id).save();
  await queue.createJob({ id: 'late' }).setId('late').delayUntil(Date.now() + 60_000).save();
  const list = async (kind) => (await queue.getJobs(kind, { start: 0, end: 10, size: 10 })).map((job) => job.id).sort();
  assert.deepEqual(await list('waiting'), ['a', 'b', 'c']);
  assert.deepEqual(await list('delayed'), ['late']);
  assert.deepEqual((await queue.getJob('b')).data, { id: 'b' });
  assert.equal(await queue.getJob('nobody'), null);
  await queue.removeJob('a');
  await (await queue.getJob('late')).remove();
  const { waiting, delayed } = await queue.checkHealth();
  assert.deepEqual({ waiting, delayed }, { waiting: 2, delayed: 0 });
  queue.process(async () => 'done');
  await until('two succeeded', async () => (await list('succeeded')).length === 2);
  assert.deepEqual(await list('succeeded'), ['b', 'c']);
}

async function removedWhenDone(stage) {
  const queue = await stage.queue({ removeOnSuccess: true, removeOnFailure: true });
  let ends = 0;
  queue.process(async (job) => { ends++; if (job.data.fails) throw new Error('no'); });
  await Promise.all([true, false, true, false].map((fails) => queue.createJob({ fails }).save()));
  await until('all ended', async () => ends === 4 && (await queue.checkHealth()).active === 0);
  const { succeeded, failed, newestJob } = await queue.checkHealth();
  assert.deepEqual({ succeeded, failed, newestJob }, { succeeded: 0, failed: 0, newestJob: 4 });
}

async function bulk(stage) {
  const count = 7000;
  const queue = await stage.queue({ storeJobs: false });
  const other = await stage.queue({ storeJobs: false });
  const errors = await queue.saveAll(Array.from({ length: count }, (_, n) => queue.createJob({ n })));
  assert.equal(errors.size, 0);
  assert.equal((await queue.checkHealth()).waiting, count);
  const times = new Map();
  for (const consumer of [queue, other]) {
    consumer.process(25, async (job) => { times.set(job.data.n, (times.get(job.data.n) || 0) + 1); });
  }
  await until('all done', () => times.size === count, loadMs);
  assert.ok([...times.values()].every((n) => n === 1));
  await until('all succeeded', async () => (await queue.checkHealth()).succeeded === count);
}

async function payloads(stage) {
  const queue = await stage.queue();
  queue.process(async (job) => job.data.text.length);
  for (const text of ['', '\r\n\0', 'ä€😀'.repeat(1000), 'x'.repeat(1 << 20)]) {
    const job = queue.createJob({ text }).setId(`id-${text.length}-ü`);
    const end = ended(job);
    await job.save();
    assert.equal(await end, text.length);
    assert.equal((await queue.getJob(job.id)).data.text, text);
  }
}

const all = {
  concurrency, retries, timeouts, delays, progress, stalled, gettersAndRemoval, removedWhenDone, bulk, payloads,
};

main(() => stages(all, Stage));
