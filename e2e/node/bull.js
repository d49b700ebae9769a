'use strict';

// bull's ledger: tasks of every kind through two consumers, while the server may be killed.

const Queue = require('bull');
const { attempt, attempts, env, inLots, ledger, log, main, persist, plan, until } = require('./driver');

const queueName = 'ledger';

// Locks and the look-out for stalled jobs are short, so that a crash of the server does not cost half a minute.
const settings = { lockDuration: 5000, stalledInterval: 2000, guardInterval: 500, maxStalledCount: 50 };

// A job that is added again under the same id is ignored, which makes it harmless.
function jobOf(task) {
  return {
    data: task,
    opts: {
      jobId: task.id, attempts, backoff: { type: 'fixed', delay: 50 },
      delay: task.delayMs || undefined, priority: task.priority || undefined,
    },
  };
}

function open() {
  const queue = new Queue(queueName, { redis: { host: env.host, port: env.port, maxRetriesPerRequest: null }, settings });
  queue.on('error', (err) => log('queue:', err.message));
  return queue;
}

function consume(consumer) {
  consumer.process(10, async (job) => attempt(job.data, job.attemptsMade + 1)).catch((err) => log('process:', err.message));
  return consumer;
}

main(async () => {
  const tasks = plan(env.tasks, env.seed);
  const dying = tasks.filter((task) => task.dies).length;
  const queue = open();
  const consumers = [consume(open()), consume(open())];

  await inLots(tasks,
    (task) => { const { data, opts } = jobOf(task); return queue.add(data, opts); },
    (lot) => queue.addBulk(lot.map(jobOf)));
  const counts = await until('all jobs settled', async () => {
    const now = await queue.getJobCounts();
    return now.completed === tasks.length - dying && now.failed === dying && now;
  }, 120_000);
  ledger.note(`counts ${JSON.stringify(counts)}`);
  for (const job of await persist('getFailed', () => queue.getFailed(0, -1))) ledger.dead(job.id);

  await Promise.all(consumers.map((consumer) => consumer.close()));
  await persist('obliterate', () => queue.obliterate());
  await queue.close();
});
