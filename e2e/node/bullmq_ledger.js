'use strict';

// BullMQ's ledger: tasks of every kind through two workers, while the server may be killed.

const { attempt, attempts, env, inLots, ledger, log, main, persist, plan, until } = require('./driver');

const queueName = 'ledger';

// Locks and the look-out for stalled jobs are short, so that a crash of the server does not cost half a minute.
const workerOptions = { concurrency: 10, lockDuration: 5000, stalledInterval: 2000, maxStalledCount: 50 };

// A job that is added again under the same id is ignored, which makes it harmless.
function jobOf(task) {
  return {
    name: 'task',
    data: task,
    opts: {
      jobId: task.id, attempts, backoff: { type: 'fixed', delay: 50 },
      delay: task.delayMs || undefined, priority: task.priority || undefined,
    },
  };
}

function add(queue, task) {
  const { name, data, opts } = jobOf(task);
  return queue.add(name, data, opts);
}

// addBulk adds one by one when the server does not know the scripts, which Redis forgets when it is restarted: over
// node-redis BullMQ sends a bulk with EVALSHA alone. codeq keeps them.
async function addBulk(queue, lot) {
  try {
    await queue.addBulk(lot.map(jobOf));
  } catch (err) {
    if (!err.replies?.some((reply) => /NOSCRIPT/.test(reply?.message))) throw err;
    ledger.note('the server has forgotten the scripts');
    await Promise.all(lot.map((task) => add(queue, task)));
  }
}

function run(bullmq, connect = () => ({ host: env.host, port: env.port })) {
  main(async () => {
    const tasks = plan(env.tasks, env.seed);
    const dying = tasks.filter((task) => task.dies).length;
    const queue = new bullmq.Queue(queueName, { connection: connect() });
    queue.on('error', (err) => log('queue:', err.message));
    const workers = [1, 2].map(() => {
      const handle = async (job) => attempt(job.data, job.attemptsMade + 1);
      const worker = new bullmq.Worker(queueName, handle, { ...workerOptions, connection: connect() });
      worker.on('error', (err) => log('worker:', err.message));
      return worker;
    });

    await inLots(tasks, (task) => add(queue, task), (lot) => addBulk(queue, lot));
    const counts = await until('all jobs settled', async () => {
      const now = await queue.getJobCounts();
      return now.completed === tasks.length - dying && now.failed === dying && now;
    }, 120_000);
    ledger.note(`counts ${JSON.stringify(counts)}`);
    for (const job of await persist('getFailed', () => queue.getFailed(0, -1))) ledger.dead(job.id);

    await Promise.all(workers.map((worker) => worker.close()));
    await persist('obliterate', () => queue.obliterate());
    await queue.close();
  });
}

module.exports = { run };
