'use strict';

// bee-queue's ledger: tasks through two consumers, while the server may be killed. bee-queue has no priorities.

const Queue = require('bee-queue');
const { attempt, attempts, env, inLots, ledger, log, main, persist, plan, until } = require('./driver');

const queueName = 'ledger';
const stallIntervalMs = 2000;

// How often a consumer looks for delayed jobs whose time has come, even if the message that should have told it was lost
// with the server.
const delayedWindowMs = 2000;

// What the server says of a script that it does not know. Redis forgets scripts when it is restarted, and bee-queue
// loads its own only when it starts; the driver then does so again. codeq keeps them.
let unknownScripts = 0;

function heed(where, queue) {
  return async (err) => {
    log(`${where}:`, err.message);
    if (!/NOSCRIPT/.test(err.message)) return;
    unknownScripts++;
    await require('bee-queue/lib/lua').buildCache(queue.client).catch((again) => log('scripts:', again.message));
  };
}

function open(options) {
  const redis = { host: env.host, port: env.port, retry_strategy: () => 200 };
  const queue = new Queue(queueName, {
    redis, stallInterval: stallIntervalMs, nearTermWindow: delayedWindowMs, delayedDebounce: 50, ...options,
  });
  queue.on('error', heed('queue', queue));
  return queue;
}

// A job that is saved again under the same id is ignored, which makes it harmless.
function jobOf(queue, task) {
  const job = queue.createJob(task).setId(task.id).retries(attempts - 1).backoff('fixed', 50);
  if (task.delayMs > 0) job.delayUntil(Date.now() + task.delayMs);
  return job;
}

async function saveAll(queue, lot) {
  const errors = await queue.saveAll(lot.map((task) => jobOf(queue, task)));
  for (const err of errors.values()) throw err;
}

main(async () => {
  const tasks = plan(env.tasks, env.seed);
  const dying = tasks.filter((task) => task.dies).length;
  const queue = open({ isWorker: false, getEvents: false });
  await queue.ready();
  const consumers = [open({ activateDelayedJobs: true }), open({ activateDelayedJobs: true })];
  for (const consumer of consumers) {
    consumer.process(10, async (job) => attempt(job.data, attempts - job.options.retries));
    consumer.checkStalledJobs(stallIntervalMs, () => {});
  }

  await inLots(tasks, (task) => jobOf(queue, task).save(), (lot) => saveAll(queue, lot));
  const health = await until('all jobs settled', async () => {
    const now = await queue.checkHealth();
    return now.succeeded === tasks.length - dying && now.failed === dying && now;
  }, 120_000);
  ledger.note(`counts ${JSON.stringify(health)}, ${unknownScripts} times NOSCRIPT`);
  for (const job of await persist('getJobs', () => queue.getJobs('failed', { size: tasks.length }))) ledger.dead(job.id);

  await Promise.all(consumers.map((consumer) => consumer.close(1000).catch((err) => log('close:', err.message))));
  await persist('destroy', () => queue.destroy());
  await queue.close();
});
