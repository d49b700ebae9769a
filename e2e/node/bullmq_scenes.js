'use strict';

// BullMQ's features, one scene each. The parts of a scene (queues, workers, …) come from a stage, which closes and
// removes them when the scene is over.

const assert = require('node:assert/strict');
const { fork } = require('node:child_process');
const path = require('node:path');
const { env, loadMs, log, main, scenes, signal, until, wait, within } = require('./driver');

class Stage {
  // connect gives each part what BullMQ takes for a connection: an address, or a client of its own.
  constructor(bullmq, connect, name) {
    this.bullmq = bullmq;
    this.connection = connect;
    this.name = name;
    this.open = [];
    this.queues = [];
  }

  keep(part) {
    part.setMaxListeners(0);
    part.on('error', (err) => log(`${this.name}: ${err.message}`));
    this.open.push(part);
    return part;
  }

  queue(name = this.name, opts = {}) {
    const queue = this.keep(new this.bullmq.Queue(name, { connection: this.connection(), ...opts }));
    this.queues.push(queue);
    return queue;
  }

  worker(handle, opts = {}, name = this.name) {
    return this.keep(new this.bullmq.Worker(name, handle, { connection: this.connection(), ...opts }));
  }

  async events(opts = {}, name = this.name) {
    const events = this.keep(new this.bullmq.QueueEvents(name, { connection: this.connection(), ...opts }));
    await events.waitUntilReady();
    return events;
  }

  flows() {
    return this.keep(new this.bullmq.FlowProducer({ connection: this.connection() }));
  }

  async close() {
    for (const part of this.open.reverse()) {
      if (!this.queues.includes(part)) await part.close();
    }
    for (const queue of this.queues) {
      await queue.obliterate({ force: true });
      await queue.close();
    }
  }
}

const one = (scene) => async (bullmq, connect, name) => {
  const stage = new Stage(bullmq, connect, name);
  try {
    await scene(stage);
  } finally {
    await stage.close();
  }
};

const ids = (jobs) => jobs.map((job) => job.id);

async function concurrency(stage) {
  const queue = stage.queue();
  const events = await stage.events();
  let now = 0;
  let most = 0;
  stage.worker(async (job) => {
    most = Math.max(most, ++now);
    await wait(20);
    now--;
    return job.data.n * 2;
  }, { concurrency: 5 });
  const jobs = await Promise.all(Array.from({ length: 40 }, (_, n) => queue.add('double', { n })));
  const results = await Promise.all(jobs.map((job) => job.waitUntilFinished(events, 20_000)));
  assert.deepEqual(results, jobs.map((job) => job.data.n * 2));
  assert.equal(most, 5);
}

async function retries(stage) {
  const queue = stage.queue();
  const tried = {};
  stage.worker(async (job) => {
    (tried[job.name] ||= []).push(job.attemptsMade);
    if (job.name === 'hopeless') throw new stage.bullmq.UnrecoverableError('hopeless');
    if (job.name === 'dies' || job.attemptsMade < 2) throw new Error(`attempt ${job.attemptsMade}`);
  }, { settings: { backoffStrategy: (n) => n * 10 } });
  await queue.add('fixed', {}, { attempts: 3, backoff: { type: 'fixed', delay: 30 } });
  await queue.add('exponential', {}, { attempts: 3, backoff: { type: 'exponential', delay: 20, jitter: 0.5 } });
  await queue.add('custom', {}, { attempts: 3, backoff: { type: 'custom' } });
  await queue.add('at once', {}, { attempts: 3 });
  await queue.add('dies', {}, { attempts: 2, backoff: 10 });
  await queue.add('hopeless', {}, { attempts: 9 });
  await until('all settled', async () => (await queue.getJobCountByTypes('completed', 'failed')) === 6);
  for (const name of ['fixed', 'exponential', 'custom', 'at once']) assert.deepEqual(tried[name], [0, 1, 2], name);
  assert.deepEqual(tried.dies, [0, 1]);
  assert.deepEqual(tried.hopeless, [0]);
  const failed = await queue.getFailed();
  assert.deepEqual(failed.map((job) => job.failedReason).sort(), ['attempt 1', 'hopeless']);
  assert.equal(failed.find((job) => job.name === 'dies').stacktrace.length, 2);
}

async function delays(stage) {
  const queue = stage.queue();
  const done = [];
  const later = await queue.add('later', {}, { delay: 60_000, jobId: 'later' });
  await queue.add('promoted', {}, { delay: 60_000, jobId: 'promoted' });
  const due = new Map(); // adding takes its time on a busy machine
  for (const [id, delay] of [['c', 600], ['a', 200], ['b', 400]]) {
    due.set(id, (await queue.add('x', {}, { delay, jobId: id })).timestamp + delay);
  }
  assert.equal(await queue.getDelayedCount(), 5);
  assert.equal(await later.getState(), 'delayed');
  stage.worker(async (job) => {
    assert.ok(job.name !== 'x' || Date.now() >= job.timestamp + job.opts.delay - 2, `${job.id} was early`);
    done.push(job.id);
  });
  await (await queue.getJob('promoted')).promote();
  await later.changeDelay(800);
  await until('five done', () => done.length === 5);
  assert.ok(done.includes('promoted'));
  assert.deepEqual(done.filter((id) => id !== 'promoted'), [...[...due.keys()].sort((x, y) => due.get(x) - due.get(y)), 'later']);
}

async function priorities(stage) {
  const queue = stage.queue();
  const priorityOf = { low: 9, middle: 5, middle2: 5, high: 1, none: 0, sinks: 2, rises: 20 };
  for (const [jobId, priority] of Object.entries(priorityOf)) await queue.add('p', {}, { jobId, priority });
  await queue.add('last in', {}, { jobId: 'lifo', lifo: true });
  await (await queue.getJob('sinks')).changePriority({ priority: 30 });
  await (await queue.getJob('rises')).changePriority({ priority: 1 });
  assert.deepEqual(await queue.getCountsPerPriority([0, 1, 5, 9, 30]), { 0: 2, 1: 2, 5: 2, 9: 1, 30: 1 });
  assert.equal(await queue.getPrioritizedCount(), 6);
  assert.deepEqual(ids(await queue.getPrioritized()), ['high', 'rises', 'middle', 'middle2', 'low', 'sinks']);
  const done = [];
  stage.worker(async (job) => { done.push(job.id); });
  await until('all done', () => done.length === 8);
  assert.deepEqual(done, ['lifo', 'none', 'high', 'rises', 'middle', 'middle2', 'low', 'sinks']);
}

async function rateLimits(stage) {
  const queue = stage.queue();
  const times = [];
  let refused = false;
  const worker = stage.worker(async () => {
    if (!refused) {
      refused = true;
      await worker.rateLimit(300);
      throw stage.bullmq.Worker.RateLimitError();
    }
    times.push(Date.now());
  }, { limiter: { max: 3, duration: 400 }, concurrency: 10 });
  await queue.addBulk(Array.from({ length: 9 }, () => ({ name: 'limited', data: {} })));
  await until('a limit in force', async () => (await queue.getRateLimitTtl()) > 0);
  await until('all done', () => times.length === 9);
  assert.ok(times[8] - times[0] >= 700, `nine jobs of three per 400 ms in ${times[8] - times[0]} ms`);
  await worker.close();
  await queue.setGlobalRateLimit(2, 60_000);
  assert.deepEqual(await queue.getGlobalRateLimit(), { max: 2, duration: 60_000 });
  let handled = 0;
  stage.worker(async () => { handled++; });
  await queue.addBulk(Array.from({ length: 5 }, () => ({ name: 'limited', data: {} })));
  await until('the limit of all workers', async () => handled >= 2 && (await queue.getRateLimitTtl(2)) > 0);
  assert.ok(handled < 5, `${handled} handled`);
  await queue.removeGlobalRateLimit();
  await queue.removeRateLimitKey();
}

async function schedulers(stage) {
  const queue = stage.queue();
  const done = { every: 0, cron: 0, limited: 0 };
  stage.worker(async (job) => { done[job.name]++; });
  await queue.upsertJobScheduler('tick', { every: 200 }, { name: 'every', data: { a: 1 }, opts: { priority: 2 } });
  await queue.upsertJobScheduler('second', { pattern: '* * * * * *', tz: 'Asia/Kolkata' }, { name: 'cron' });
  await queue.upsertJobScheduler('few', { every: 100, limit: 3 }, { name: 'limited' });
  await until('runs', () => done.every >= 5 && done.cron >= 2 && done.limited === 3);
  assert.equal(await queue.getJobSchedulersCount(), 3);
  assert.equal(await queue.removeJobScheduler('few'), true);
  const tick = await queue.getJobScheduler('tick');
  assert.equal(tick.every, 200);
  assert.deepEqual(tick.template, { data: { a: 1 }, opts: { priority: 2 } });
  assert.equal((await queue.getJobScheduler('second')).tz, 'Asia/Kolkata');
  await queue.upsertJobScheduler('tick', { every: 60_000 }, { name: 'every' });
  assert.deepEqual((await queue.getJobSchedulers()).map((s) => s.key).sort(), ['second', 'tick']);
  assert.equal(await queue.removeJobScheduler('tick'), true);
  assert.equal(await queue.removeJobScheduler('tick'), false);
  assert.equal(await queue.removeJobScheduler('second'), true);
  await until('nothing scheduled', async () => (await queue.getDelayedCount()) === 0);
}

async function repeatables(stage) {
  const queue = stage.queue();
  if (typeof queue.getRepeatableJobs !== 'function') return;
  let done = 0;
  stage.worker(async () => { done++; });
  await queue.add('again', {}, { repeat: { every: 150 } });
  await queue.add('later', {}, { repeat: { pattern: '0 0 1 1 *' } });
  await until('three runs', () => done >= 3);
  const listed = await queue.getRepeatableJobs();
  assert.deepEqual(listed.map((r) => r.name).sort(), ['again', 'later']);
  assert.equal(await queue.removeRepeatable('again', { every: 150 }), true);
  assert.equal(await queue.removeRepeatableByKey(listed.find((r) => r.name === 'later').key), true);
  assert.deepEqual(await queue.getRepeatableJobs(), []);
}

async function flows(stage) {
  const parents = stage.queue();
  const kids = stage.queue(`${stage.name}-kids`);
  const events = await stage.events();
  const leaf = (n, opts) => ({ name: 'leaf', queueName: kids.name, data: { n }, opts });
  const tree = (name, ...children) => ({ name, queueName: parents.name, data: {}, children });
  const flow = stage.flows();
  const added = await flow.addBulk([
    tree('sum', leaf(1), leaf(2), { name: 'middle', queueName: kids.name, data: { n: 10 }, children: [leaf(4), leaf(8)] }),
    tree('single', leaf(7)),
  ]);
  assert.equal(await added[0].job.getState(), 'waiting-children');
  const shown = await flow.getFlow({ queueName: parents.name, id: added[0].job.id });
  assert.equal(shown.children.length, 3);
  assert.deepEqual(await added[0].job.getDependenciesCount(), { processed: 0, unprocessed: 3, failed: 0, ignored: 0 });

  const total = (values) => Object.values(values).reduce((sum, n) => sum + n, 0);
  stage.worker(async (job) => job.data.n + total(await job.getChildrenValues()), { concurrency: 3 }, kids.name);
  stage.worker(async (job) => total(await job.getChildrenValues()));
  assert.equal(await added[0].job.waitUntilFinished(events), 1 + 2 + 10 + 12);
  assert.equal(await added[1].job.waitUntilFinished(events), 7);
  const { processed } = await added[0].job.getDependencies();
  assert.equal(Object.keys(processed).length, 3);
}

async function flowFailures(stage) {
  const parents = stage.queue();
  const kids = stage.queue(`${stage.name}-kids`);
  const events = await stage.events();
  stage.worker(async (job) => {
    if (job.data.fails) throw new Error('child failed');
    return 1;
  }, {}, kids.name);
  stage.worker(async (job) => ({
    values: Object.values(await job.getChildrenValues()),
    ignored: Object.values(await job.getIgnoredChildrenFailures()),
  }));
  const family = (name, opts) => stage.flows().add({
    name, queueName: parents.name, children: [
      { name: 'bad', queueName: kids.name, data: { fails: true }, opts },
      { name: 'good', queueName: kids.name, data: {} },
    ],
  });
  const ignoring = await family('ignores', { ignoreDependencyOnFailure: true });
  assert.deepEqual(await ignoring.job.waitUntilFinished(events), { values: [1], ignored: ['child failed'] });
  const removing = await family('removes', { removeDependencyOnFailure: true });
  assert.deepEqual(await removing.job.waitUntilFinished(events), { values: [1], ignored: [] });
  const failing = await family('fails', { failParentOnFailure: true });
  await assert.rejects(failing.job.waitUntilFinished(events), /child .* failed/);
  const going = await family('goes on', { continueParentOnFailure: true });
  assert.equal((await going.job.waitUntilFinished(events)).ignored[0], 'child failed');
}

async function waitingChildren(stage) {
  const parents = stage.queue();
  const kids = stage.queue(`${stage.name}-kids`);
  const events = await stage.events();
  stage.worker(async (job) => job.data.n, {}, kids.name);
  stage.worker(async (job, token) => {
    if (!job.data.split) {
      for (const n of [1, 2, 3]) {
        await kids.add('part', { n }, { parent: { id: job.id, queue: job.queueQualifiedName } });
      }
      await job.updateData({ split: true });
      if (await job.moveToWaitingChildren(token)) throw new stage.bullmq.WaitingChildrenError();
    }
    return Object.values(await job.getChildrenValues()).sort();
  });
  const job = await parents.add('splits', {});
  assert.deepEqual(await job.waitUntilFinished(events), [1, 2, 3]);
}

async function stalled(stage) {
  const queue = stage.queue();
  const events = await stage.events();
  const seen = [];
  events.on('stalled', ({ jobId }) => seen.push(jobId));
  await queue.addBulk(['a', 'b', 'c'].map((jobId) => ({ name: 'held', data: {}, opts: { jobId } })));
  // A worker in a process of its own takes two jobs and is killed with them in its hands.
  const holder = fork(path.join(__dirname, 'bullmq_holder.js'), [stage.bullmq.packageName, stage.name]);
  await within('two jobs held', new Promise((resolve) => { holder.on('message', (n) => { if (n === 2) resolve(); }); }));
  const gone = new Promise((resolve) => { holder.on('exit', resolve); });
  holder.kill('SIGKILL');
  await gone;
  assert.equal(await queue.getActiveCount(), 2);
  const done = [];
  stage.worker(async (job) => { done.push(job.id); }, { lockDuration: 1000, stalledInterval: 300 });
  await until('all done', () => done.length === 3);
  assert.deepEqual(done.slice().sort(), ['a', 'b', 'c']);
  await until('stalled events', () => seen.length === 2);
}

async function stalledForGood(stage) {
  const queue = stage.queue();
  const worker = stage.worker(null, { lockDuration: 200, skipLockRenewal: true });
  await queue.add('lost', {}, { jobId: 'lost' });
  assert.equal((await worker.getNextJob('token')).id, 'lost');
  const other = stage.worker(async () => 'never', { stalledInterval: 150, maxStalledCount: 0, lockDuration: 200 });
  const failed = signal();
  other.on('failed', (job, err) => failed.resolve(err.message));
  assert.match(await within('failed', failed.promise), /stalled more than allowable limit/);
  assert.deepEqual(ids(await queue.getFailed()), ['lost']);
}

async function events(stage) {
  const queue = stage.queue();
  const live = await stage.events({ lastEventId: '0-0' });
  const seen = [];
  const names = ['added', 'waiting', 'active', 'completed', 'failed', 'progress', 'delayed', 'drained', 'removed',
    'paused', 'resumed', 'duplicated', 'retries-exhausted', 'cleaned', 'deduplicated'];
  for (const name of names) live.on(name, ({ jobId }) => seen.push(jobId ? `${name} ${jobId}` : name));
  let go = false;
  stage.worker(async (job) => {
    await job.updateProgress({ half: true });
    await until('leave to go on', () => go);
    if (job.name === 'bad') throw new Error('bad');
  });
  await queue.add('good', {}, { jobId: 'g' });
  await queue.add('good', {}, { jobId: 'g' });
  await queue.add('bad', {}, { jobId: 'b', attempts: 2, backoff: 20 });
  await queue.add('late', {}, { jobId: 'l', delay: 60_000 });
  await queue.remove('l');
  await queue.pause();
  await queue.resume();
  go = true;
  const expected = ['added g', 'waiting g', 'active g', 'progress g', 'completed g', 'duplicated g', 'added b', 'delayed b',
    'failed b', 'retries-exhausted b', 'added l', 'delayed l', 'removed l', 'paused', 'resumed', 'drained'];
  await until(`events ${expected}`, () => expected.every((name) => seen.includes(name)));
  // A listener that comes later reads the stream from its beginning.
  const replayed = [];
  const late = await stage.events({ lastEventId: '0-0', autorun: false });
  for (const name of names) late.on(name, ({ jobId }) => replayed.push(jobId ? `${name} ${jobId}` : name));
  late.run();
  await until('all events again', () => expected.every((name) => replayed.includes(name)));
  if (stage.bullmq.QueueEventsProducer) {
    const producer = stage.keep(new stage.bullmq.QueueEventsProducer(stage.name, { connection: stage.connection() }));
    const own = signal();
    live.on('own', (args) => own.resolve(args.word));
    await producer.publishEvent({ eventName: 'own', word: 'hello' });
    assert.equal(await within('own event', own.promise), 'hello');
  }
  assert.ok(Number.isInteger(await queue.trimEvents(1)));
}

async function pause(stage) {
  const queue = stage.queue();
  const done = [];
  const worker = stage.worker(async (job) => { done.push(job.id); });
  await queue.pause();
  assert.equal(await queue.isPaused(), true);
  await queue.addBulk(['a', 'b'].map((jobId) => ({ name: 'x', data: {}, opts: { jobId } })));
  await queue.add('p', {}, { jobId: 'p', priority: 3 });
  assert.equal((await queue.getJobCounts('paused', 'wait', 'prioritized')).completed, undefined);
  assert.deepEqual(done, []);
  await queue.resume();
  await until('three done', () => done.length === 3);
  await worker.pause();
  await queue.add('x', {}, { jobId: 'd' });
  assert.equal(await queue.getWaitingCount(), 1);
  worker.resume();
  await until('four done', () => done.length === 4);
}

async function bulk(stage) {
  const count = 7000;
  const queue = stage.queue();
  await queue.addBulk(Array.from({ length: count }, (_, n) => ({ name: 'bulk', data: { n }, opts: { removeOnComplete: 100 } })));
  assert.equal(await queue.count(), count);
  const times = new Map();
  for (let i = 0; i < 2; i++) {
    stage.worker(async (job) => { times.set(job.data.n, (times.get(job.data.n) || 0) + 1); }, { concurrency: 50 });
  }
  await until('all done', () => times.size === count, loadMs);
  assert.ok([...times.values()].every((n) => n === 1));
  await until('none left', async () => (await queue.getJobCountByTypes('wait', 'active')) === 0);
  assert.equal(await queue.getCompletedCount(), 100);
}

async function removal(stage) {
  const queue = stage.queue();
  const names = ['a', 'b', 'c', 'd'];
  const addAll = (opts = {}) => queue.addBulk(names.map((n) => ({ name: n, data: {}, opts: { jobId: `${n}${opts.delay || ''}`, ...opts } })));
  await addAll();
  await addAll({ delay: 60_000 });
  assert.equal(await queue.remove('a'), 1);
  assert.equal(await queue.getJob('a'), undefined);
  await (await queue.getJob('b60000')).remove();
  assert.deepEqual((await queue.clean(0, 2, 'delayed')).length, 2);
  await queue.drain();
  assert.deepEqual(await queue.getJobCounts('wait', 'delayed'), { wait: 0, delayed: 1 });
  await queue.drain(true);
  assert.equal(await queue.getDelayedCount(), 0);

  await addAll({ removeOnFail: { age: 3600 } });
  let fail = true;
  const worker = stage.worker(async () => { if (fail) throw new Error('no'); });
  await until('all failed', async () => (await queue.getFailedCount()) === 4);
  await assert.rejects((await queue.getJob('a')).retry('completed'), /not in the completed state/);
  fail = false;
  await (await queue.getJob('a')).retry();
  await queue.retryJobs({ count: 2 });
  await until('all done', async () => (await queue.getCompletedCount()) === 4);
  await worker.pause();
  await addAll({ delay: 60_001 });
  await queue.promoteJobs({ count: 2 });
  assert.equal(await queue.getWaitingCount(), 4);
  assert.equal((await queue.clean(0, 100, 'completed')).length, 4);
  assert.equal((await queue.clean(0, 100, 'wait')).length, 4);
}

async function getters(stage) {
  const queue = stage.queue();
  const worker = stage.worker(async (job) => { await job.log('one'); await job.log('two'); return job.id; },
    { name: 'eager', metrics: { maxDataPoints: 10 } });
  await worker.waitUntilReady();
  await stage.events();
  await queue.addBulk(['a', 'b', 'c'].map((jobId) => ({ name: 'x', data: { jobId }, opts: { jobId } })));
  await until('all done', async () => (await queue.getCompletedCount()) === 3);
  await queue.addBulk(['d', 'e'].map((jobId) => ({ name: 'x', data: {}, opts: { jobId, delay: 60_000 } })));
  assert.deepEqual(ids(await queue.getJobs(['completed', 'delayed'], 0, 10, true)).sort(), ['a', 'b', 'c', 'd', 'e']);
  assert.deepEqual(ids(await queue.getCompleted(0, 1)), ['c', 'b']);
  assert.deepEqual(ids(await queue.getJobs('completed', 0, 0, true)), ['a']);
  const counts = await queue.getJobCounts();
  assert.equal(counts.completed, 3);
  assert.equal(counts.delayed, 2);
  assert.deepEqual(await queue.getJobLogs('a'), { logs: ['one', 'two'], count: 2 });
  assert.deepEqual(await queue.getJobLogs('a', 0, 0, false), { logs: ['two'], count: 2 });
  assert.equal((await queue.getJob('b')).returnvalue, 'b');
  assert.equal(await queue.getJob('nobody'), undefined);
  assert.equal(await queue.getJobState('nobody'), 'unknown');
  assert.deepEqual((await queue.getWorkers()).map((w) => w.rawname.split(':').pop()), ['eager']);
  assert.equal(await queue.getWorkersCount(), 1);
  assert.equal((await queue.getQueueEvents()).length, 1);
  assert.equal((await queue.getMetrics('completed')).meta.count, 3);
  assert.match(await queue.exportPrometheusMetrics(), /completed"} 3/);
  assert.ok((await queue.getMeta()).version);
}

async function deduplication(stage) {
  const queue = stage.queue();
  const first = await queue.add('x', { n: 1 }, { deduplication: { id: 'simple' } });
  const second = await queue.add('x', { n: 2 }, { deduplication: { id: 'simple' } });
  assert.equal(second.id, first.id);
  assert.equal(await queue.getDeduplicationJobId('simple'), first.id);
  assert.equal(await queue.removeDeduplicationKey('simple'), 1);
  assert.notEqual((await queue.add('x', { n: 3 }, { deduplication: { id: 'simple' } })).id, first.id);
  const throttle = { id: 'throttle', ttl: 200 };
  const third = await queue.add('x', { n: 4 }, { deduplication: throttle });
  assert.equal((await queue.add('x', { n: 5 }, { deduplication: throttle })).id, third.id);
  await until('the throttle is over', async () => (await queue.add('x', {}, { deduplication: throttle })).id !== third.id);
  const debounce = { id: 'debounce', ttl: 300, extend: true, replace: true };
  for (const n of [1, 2, 3]) await queue.add('late', { n }, { deduplication: debounce, delay: 300 });
  const seen = [];
  stage.worker(async (job) => { if (job.name === 'late') seen.push(job.data.n); });
  await until('the last of the debounced', () => seen.length > 0);
  await until('all done', async () => (await queue.getJobCountByTypes('wait', 'active', 'delayed')) === 0);
  assert.deepEqual(seen, [3]);
}

async function globalConcurrency(stage) {
  const queue = stage.queue();
  await queue.setGlobalConcurrency(2);
  assert.equal(await queue.getGlobalConcurrency(), 2);
  let now = 0;
  let most = 0;
  let done = 0;
  for (let i = 0; i < 3; i++) {
    stage.worker(async () => {
      most = Math.max(most, ++now);
      await wait(20);
      now--;
      done++;
    }, { concurrency: 4 });
  }
  await queue.addBulk(Array.from({ length: 20 }, () => ({ name: 'x', data: {} })));
  await until('all done', () => done === 20);
  assert.equal(most, 2);
  assert.equal(await queue.isMaxed(), false);
  await queue.removeGlobalConcurrency();
}

async function sandbox(stage) {
  const queue = stage.queue();
  const events = await stage.events();
  stage.worker(path.join(__dirname, 'bullmq_processor.js'), { concurrency: 2 });
  const jobs = await queue.addBulk([1, 2, 3].map((n) => ({ name: 'cube', data: { n } })));
  assert.deepEqual(await Promise.all(jobs.map((job) => job.waitUntilFinished(events, 20_000))), [1, 8, 27]);
  assert.equal((await queue.getJob(jobs[0].id)).progress, 50);
}

async function byHand(stage) {
  const queue = stage.queue();
  const worker = stage.worker(null, { lockDuration: 30_000 });
  await queue.addBulk(['a', 'b', 'c'].map((jobId) => ({ name: 'x', data: {}, opts: { jobId } })));
  const a = await worker.getNextJob('t1');
  assert.equal(await a.getState(), 'active');
  assert.equal(await a.extendLock('t1', 40_000), 1);
  await assert.rejects(queue.getJob('a').then((job) => job.remove()), /locked/);
  await assert.rejects(a.moveToCompleted('x', 'other token'), /[Ll]ock/);
  const [data, id] = await a.moveToCompleted({ ok: 'ä€😀' }, 't1', true);
  assert.ok(data);
  assert.equal(id, 'b');
  const b = await stage.bullmq.Job.fromId(queue, 'b');
  await b.moveToFailed(new Error('by hand'), 't1', false);
  const c = await worker.getNextJob('t2');
  await c.moveToDelayed(Date.now() + 50, 't2');
  const again = await until('the delayed job', () => worker.getNextJob('t3'));
  assert.equal(again.id, 'c');
  await again.updateData({ changed: true });
  await again.updateProgress(42);
  await again.moveToCompleted(null, 't3', false);
  assert.deepEqual((await queue.getJob('c')).data, { changed: true });
  assert.deepEqual((await queue.getJob('a')).returnvalue, { ok: 'ä€😀' });
  assert.deepEqual(await queue.getJobCounts('completed', 'failed', 'wait', 'active'), { completed: 2, failed: 1, wait: 0, active: 0 });
}

async function payloads(stage) {
  const queue = stage.queue();
  const events = await stage.events();
  stage.worker(async (job) => job.data.text.length);
  const texts = ['', '\r\n\0', 'ä€😀'.repeat(1000), 'x'.repeat(1 << 20)];
  for (const text of texts) {
    const job = await queue.add('näme', { text }, { jobId: `id-${text.length}-ü` });
    assert.equal(await job.waitUntilFinished(events, 20_000), text.length);
    assert.equal((await queue.getJob(job.id)).data.text, text);
  }
  await assert.rejects(queue.add('x', { text: 'x'.repeat(100) }, { sizeLimit: 50 }), /exceeds the limit/);
}

async function contention(stage) {
  const count = 1500;
  const queue = stage.queue();
  const times = new Map();
  for (let i = 0; i < 6; i++) {
    stage.worker(async (job) => { times.set(job.id, (times.get(job.id) || 0) + 1); }, { concurrency: 3 });
  }
  await Promise.all(Array.from({ length: count }, (_, n) => queue.add('x', { n }, { removeOnComplete: true })));
  await until('all done', () => times.size === count);
  assert.ok([...times.values()].every((n) => n === 1));
  await until('nothing kept', async () => (await queue.getJobCountByTypes('wait', 'active', 'completed')) === 0);
}

async function prefixes(stage) {
  const opts = { prefix: '{tagged}' };
  const queue = stage.queue(stage.name, opts);
  const events = await stage.events(opts);
  stage.worker(async () => 'done', opts);
  assert.equal(await (await queue.add('x', {})).waitUntilFinished(events), 'done');
}

const all = {
  concurrency, retries, delays, priorities, rateLimits, schedulers, repeatables, flows, flowFailures, waitingChildren,
  stalled, stalledForGood, events, pause, bulk, removal, getters, deduplication, globalConcurrency, sandbox, byHand,
  payloads, contention, prefixes,
};

function run(packageName, connect = () => ({ host: env.host, port: env.port })) {
  const bullmq = { ...require(packageName), packageName };
  const named = Object.entries(all).map(([name, scene]) => [name, () => one(scene)(bullmq, connect, name)]);
  main(() => scenes(Object.fromEntries(named)));
}

module.exports = { run };
