'use strict';

// bull's features, one scene each. Every scene has a queue of its own name, of which it may open several instances.

const assert = require('node:assert/strict');
const { fork } = require('node:child_process');
const path = require('node:path');
const Queue = require('bull');
const { env, loadMs, log, main, signal, stages, until, wait, within } = require('./driver');

class Stage {
  constructor(name) {
    this.name = name;
    this.open = [];
  }

  queue(opts = {}) {
    const queue = new Queue(this.name, { redis: { host: env.host, port: env.port }, ...opts });
    queue.setMaxListeners(0);
    queue.on('error', (err) => log(`${this.name}: ${err.message}`));
    this.open.push(queue);
    return queue;
  }

  async close() {
    const [first, ...others] = this.open;
    for (const queue of others) await queue.close();
    await first.pause(true, true);
    await first.obliterate({ force: true });
    await first.close();
  }
}

const ids = (jobs) => jobs.map((job) => job.id);
const named = (jobIds, opts = {}) => jobIds.map((jobId) => ({ data: { jobId }, opts: { jobId, ...opts } }));

async function concurrency(stage) {
  const queue = stage.queue();
  let now = 0;
  let most = 0;
  queue.process(5, async (job) => {
    most = Math.max(most, ++now);
    await wait(20);
    now--;
    return job.data.n * 2;
  });
  const jobs = await Promise.all(Array.from({ length: 40 }, (_, n) => queue.add({ n })));
  assert.deepEqual(await Promise.all(jobs.map((job) => job.finished())), jobs.map((job) => job.data.n * 2));
  assert.equal(most, 5);
}

async function namedProcessors(stage) {
  const queue = stage.queue();
  queue.process('callback', (job, done) => done(null, 'called back'));
  queue.process('promise', 2, () => Promise.resolve('promised'));
  queue.process('*', async (job) => `any ${job.name}`);
  const jobs = await Promise.all(['callback', 'promise', 'other'].map((name) => queue.add(name, {})));
  assert.deepEqual(await Promise.all(jobs.map((job) => job.finished())), ['called back', 'promised', 'any other']);
}

async function retries(stage) {
  const queue = stage.queue({ settings: { backoffStrategies: { tens: (n) => n * 10 } } });
  const tried = {};
  queue.process('*', async (job) => {
    (tried[job.name] ||= []).push(job.attemptsMade);
    if (job.name === 'discarded') job.discard();
    if (['dies', 'discarded'].includes(job.name) || job.attemptsMade < 2) throw new Error(`attempt ${job.attemptsMade}`);
  });
  await queue.add('fixed', {}, { attempts: 3, backoff: 30 });
  await queue.add('exponential', {}, { attempts: 3, backoff: { type: 'exponential', delay: 20 } });
  await queue.add('custom', {}, { attempts: 3, backoff: { type: 'tens' } });
  await queue.add('at once', {}, { attempts: 3 });
  await queue.add('dies', {}, { attempts: 2 });
  await queue.add('discarded', {}, { attempts: 9 });
  await until('all settled', async () => (await queue.getCompletedCount()) === 4 && (await queue.getFailedCount()) === 2);
  for (const name of ['fixed', 'exponential', 'custom', 'at once']) assert.deepEqual(tried[name], [0, 1, 2], name);
  assert.deepEqual(tried.dies, [0, 1]);
  assert.deepEqual(tried.discarded, [0]);
  const failed = await queue.getFailed();
  assert.deepEqual(failed.map((job) => job.failedReason).sort(), ['attempt 0', 'attempt 1']);
  await assert.rejects(failed[0].finished(), /attempt/);
}

async function delays(stage) {
  const queue = stage.queue();
  const done = [];
  await queue.add({}, { delay: 60_000, jobId: 'promoted' });
  for (const [jobId, delay] of [['c', 600], ['a', 200], ['b', 400]]) await queue.add({}, { delay, jobId });
  assert.equal(await queue.getDelayedCount(), 4);
  queue.process(async (job) => {
    assert.ok(job.id === 'promoted' || Date.now() >= job.timestamp + job.opts.delay - 2, `${job.id} was early`);
    done.push(job.id);
  });
  await (await queue.getJob('promoted')).promote();
  await until('four done', () => done.length === 4);
  assert.deepEqual(done, ['promoted', 'a', 'b', 'c']);
}

async function priorities(stage) {
  const queue = stage.queue();
  await queue.pause();
  for (const [jobId, priority] of Object.entries({ low: 9, middle: 5, middle2: 5, high: 1 })) {
    await queue.add({}, { jobId, priority });
  }
  await queue.add({}, { jobId: 'first', lifo: true });
  assert.deepEqual(await queue.getCountsPerPriority([1, 5, 9]), { 1: 1, 5: 2, 9: 1 });
  const done = [];
  queue.process(async (job) => { done.push(job.id); });
  await queue.resume();
  await until('all done', () => done.length === 5);
  assert.deepEqual(done, ['first', 'high', 'middle', 'middle2', 'low']);
}

async function rateLimits(stage) {
  const queue = stage.queue({ limiter: { max: 3, duration: 400 } });
  const times = [];
  queue.process(5, async () => { times.push(Date.now()); });
  await queue.addBulk(named(Array.from({ length: 9 }, (_, n) => `n${n}`)));
  await until('all done', () => times.length === 9);
  assert.ok(times[8] - times[0] >= 700, `nine jobs of three per 400 ms in ${times[8] - times[0]} ms`);
}

async function rateLimitsByGroup(stage) {
  const queue = stage.queue({ limiter: { max: 1, duration: 300, groupKey: 'group' } });
  const times = { a: [], b: [] };
  queue.process(5, async (job) => { times[job.data.group].push(Date.now()); });
  for (const group of ['a', 'b', 'a', 'b', 'a']) await queue.add({ group });
  await until('all done', () => times.a.length === 3 && times.b.length === 2);
  assert.ok(times.a[2] - times.a[0] >= 500);
}

async function repeats(stage) {
  const queue = stage.queue();
  const done = { every: 0, cron: 0, limited: 0 };
  queue.process('*', async (job) => { done[job.name]++; });
  await queue.add('every', {}, { repeat: { every: 200 } });
  await queue.add('cron', {}, { repeat: { cron: '* * * * * *', tz: 'Asia/Kolkata' } });
  await queue.add('limited', {}, { repeat: { every: 100, limit: 3 } });
  await until('runs', () => done.every >= 4 && done.cron >= 2 && done.limited === 3);
  const listed = await queue.getRepeatableJobs();
  assert.deepEqual(listed.map((r) => r.name).filter((name) => name !== 'limited').sort(), ['cron', 'every']);
  await queue.removeRepeatable('every', { every: 200 });
  // A run that begins meanwhile schedules the next one all the same: bull asks first and adds then. So what comes is removed again.
  await until('nothing scheduled', async () => {
    for (const { key } of await queue.getRepeatableJobs()) await queue.removeRepeatableByKey(key);
    return (await queue.getDelayedCount()) === 0 && (await queue.getRepeatableJobs()).length === 0;
  });
}

async function stalled(stage) {
  const settings = { lockDuration: 1000, stalledInterval: 300, guardInterval: 300 };
  const queue = stage.queue({ settings });
  await queue.addBulk(named(['a', 'b', 'c']));
  // A consumer in a process of its own takes two jobs and is killed with them in its hands.
  const holder = fork(path.join(__dirname, 'bull_holder.js'), [stage.name]);
  await within('two jobs held', new Promise((resolve) => { holder.on('message', (n) => { if (n === 2) resolve(); }); }));
  const gone = new Promise((resolve) => { holder.on('exit', resolve); });
  holder.kill('SIGKILL');
  await gone;
  assert.equal(await queue.getActiveCount(), 2);
  const seen = [];
  queue.on('stalled', (job) => seen.push(job.id));
  const done = [];
  queue.process(async (job) => { done.push(job.id); });
  await until('all done', () => done.length === 3);
  assert.deepEqual(done.slice().sort(), ['a', 'b', 'c']);
  await until('stalled events', () => seen.length === 2);
}

async function stalledForGood(stage) {
  const settings = { lockDuration: 200, stalledInterval: 150, guardInterval: 300, maxStalledCount: 0 };
  const queue = stage.queue({ settings: { ...settings, lockRenewTime: 1_000_000 } });
  await queue.add({}, { jobId: 'lost' });
  assert.equal((await queue.getNextJob()).id, 'lost');
  const other = stage.queue({ settings });
  const failed = signal();
  other.on('failed', (job, err) => failed.resolve(err.message));
  other.process(async () => 'never');
  assert.match(await within('failed', failed.promise), /stalled more than allowable limit/);
  assert.deepEqual(ids(await queue.getFailed()), ['lost']);
}

async function events(stage) {
  const queue = stage.queue();
  const listener = stage.queue();
  const seen = [];
  const names = ['waiting', 'active', 'completed', 'failed', 'progress', 'drained', 'paused', 'resumed', 'duplicated'];
  for (const name of names) {
    listener.on(`global:${name}`, (id) => seen.push(typeof id === 'string' ? `${name} ${id}` : name));
  }
  await listener.isReady();
  let go = false;
  queue.process(async (job) => {
    await job.progress(50);
    await until('leave to go on', () => go);
    if (job.id === 'b') throw new Error('bad');
  });
  // The subscriptions are under way, so the first event is called for until it comes.
  await until('the first event', async () => {
    await queue.add({}, { jobId: 'g' });
    return seen.includes('duplicated g') || seen.includes('waiting g');
  });
  await queue.add({}, { jobId: 'b' });
  await queue.pause();
  await queue.resume();
  go = true;
  const expected = ['progress g', 'completed g', 'waiting b', 'active b', 'failed b', 'paused', 'resumed', 'drained'];
  await until(`events ${expected}`, () => expected.every((name) => seen.includes(name)));
}

async function pause(stage) {
  const queue = stage.queue();
  const done = [];
  await queue.pause();
  assert.equal(await queue.isPaused(), true);
  queue.process(async (job) => { done.push(job.id); });
  await queue.addBulk(named(['a', 'b']));
  assert.equal(await queue.getPausedCount(), 2);
  assert.deepEqual(done, []);
  await queue.resume();
  await until('two done', () => done.length === 2);
  await queue.pause(true);
  await queue.add({}, { jobId: 'c' });
  assert.equal(await queue.getWaitingCount(), 1);
  await queue.resume(true);
  await until('three done', () => done.length === 3);
  await queue.whenCurrentJobsFinished();
}

async function bulk(stage) {
  const count = 7000;
  const queue = stage.queue();
  await queue.addBulk(Array.from({ length: count }, (_, n) => ({ name: '__default__', data: { n }, opts: { removeOnComplete: 100 } })));
  assert.equal(await queue.count(), count);
  const times = new Map();
  for (const consumer of [queue, stage.queue()]) {
    consumer.process(25, async (job) => { times.set(job.data.n, (times.get(job.data.n) || 0) + 1); });
  }
  await until('all done', () => times.size === count, loadMs);
  assert.ok([...times.values()].every((n) => n === 1));
  await until('none left', async () => (await queue.getJobCountByTypes(['waiting', 'active'])) === 0);
  assert.equal(await queue.getCompletedCount(), 100);
}

async function removal(stage) {
  const queue = stage.queue();
  await queue.addBulk(named(['a', 'b', 'c', 'd']));
  await queue.addBulk(named(['late1', 'late2', 'late3'], { delay: 60_000 }));
  await (await queue.getJob('a')).remove();
  assert.equal(await queue.getJob('a'), null);
  await queue.removeJobs('late[12]');
  assert.deepEqual(await queue.getJobCounts(), { waiting: 3, active: 0, completed: 0, failed: 0, delayed: 1, paused: 0 });
  assert.deepEqual(await queue.clean(0, 'delayed'), ['late3']);
  await queue.empty();
  assert.equal(await queue.count(), 0);

  await queue.addBulk(named(['a', 'b', 'c', 'd']));
  let fail = true;
  queue.process(async () => { if (fail) throw new Error('no'); });
  await until('all failed', async () => (await queue.getFailedCount()) === 4);
  fail = false;
  await (await queue.getJob('a')).retry();
  await queue.retryJobs({ count: 2 });
  await until('all done', async () => (await queue.getCompletedCount()) === 4);
  assert.equal((await queue.clean(0, 'completed', 3)).length, 3);
}

async function getters(stage) {
  const queue = stage.queue({ metrics: { maxDataPoints: 10 } });
  queue.process(async (job) => { await job.log('one'); await job.log('two'); return job.id; });
  await queue.addBulk(named(['a', 'b', 'c']));
  await until('all done', async () => (await queue.getCompletedCount()) === 3);
  await queue.addBulk(named(['d', 'e'], { delay: 60_000 }));
  assert.deepEqual(ids(await queue.getJobs(['completed', 'delayed'], 0, 10, true)).sort(), ['a', 'b', 'c', 'd', 'e']);
  assert.deepEqual(ids(await queue.getCompleted(0, 1)), ['c', 'b']);
  assert.deepEqual(await queue.getJobLogs('a'), { logs: ['one', 'two'], count: 2 });
  const job = await queue.getJob('b');
  assert.equal(job.returnvalue, 'b');
  assert.equal(await job.getState(), 'completed');
  assert.equal(await (await queue.getJob('d')).isDelayed(), true);
  assert.equal(await queue.getJob('nobody'), null);
  assert.equal((await queue.getWorkers()).length, 1);
  assert.equal((await queue.getMetrics('completed')).meta.count, 3);
}

async function debounce(stage) {
  const queue = stage.queue();
  const first = await queue.add({}, { debounce: { id: 'd', ttl: 200 } });
  assert.equal((await queue.add({}, { debounce: { id: 'd', ttl: 200 } })).id, first.id);
  await until('the time is over', async () => (await queue.add({}, { debounce: { id: 'd', ttl: 200 } })).id !== first.id);
}

async function sandbox(stage) {
  const queue = stage.queue();
  queue.process(2, path.join(__dirname, 'bull_processor.js'));
  const jobs = await Promise.all([1, 2, 3].map((n) => queue.add({ n })));
  assert.deepEqual(await Promise.all(jobs.map((job) => job.finished())), [1, 8, 27]);
  assert.equal((await queue.getJob(jobs[0].id)).progress(), 50);
}

async function byHand(stage) {
  const queue = stage.queue();
  await queue.addBulk(named(['a', 'b']));
  const a = await queue.getNextJob();
  assert.equal(await a.isActive(), true);
  await assert.rejects(stage.queue().getJob('a').then((job) => job.remove()), /locked|[Cc]ould not remove/);
  const [data, id] = await a.moveToCompleted({ ok: 'ä€😀' }, false);
  assert.ok(data);
  assert.equal(id, 'b');
  const b = await queue.getJob('b');
  await b.update({ changed: true });
  await b.moveToFailed({ message: 'by hand' }, false);
  assert.deepEqual((await queue.getJob('b')).data, { changed: true });
  assert.equal((await queue.getJob('b')).failedReason, 'by hand');
  assert.deepEqual((await queue.getJob('a')).returnvalue, { ok: 'ä€😀' });
}

async function payloads(stage) {
  const queue = stage.queue();
  queue.process(async (job) => job.data.text.length);
  for (const text of ['', '\r\n\0', 'ä€😀'.repeat(1000), 'x'.repeat(1 << 20)]) {
    const job = await queue.add({ text }, { jobId: `id-${text.length}-ü` });
    assert.equal(await job.finished(), text.length);
    assert.equal((await queue.getJob(job.id)).data.text, text);
  }
}

async function contention(stage) {
  const count = 1500;
  const times = new Map();
  const queue = stage.queue();
  for (let i = 0; i < 5; i++) {
    stage.queue().process(3, async (job) => { times.set(job.id, (times.get(job.id) || 0) + 1); });
  }
  await Promise.all(Array.from({ length: count }, (_, n) => queue.add({ n }, { removeOnComplete: true })));
  await until('all done', () => times.size === count);
  assert.ok([...times.values()].every((n) => n === 1));
  await until('nothing kept', async () => (await queue.getJobCountByTypes(['waiting', 'active', 'completed'])) === 0);
}

async function prefixes(stage) {
  const queue = stage.queue({ prefix: '{tagged}' });
  queue.process(async () => 'done');
  assert.equal(await (await queue.add({})).finished(), 'done');
}

const all = {
  concurrency, namedProcessors, retries, delays, priorities, rateLimits, rateLimitsByGroup, repeats, stalled, stalledForGood,
  events, pause, bulk, removal, getters, debounce, sandbox, byHand, payloads, contention, prefixes,
};

main(() => stages(all, Stage));
