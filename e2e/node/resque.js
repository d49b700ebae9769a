'use strict';

// node-resque's ledger: tasks through two queues with three workers and a scheduler, while the server may be killed. It keeps
// Resque's own keys, so that Resque's Ruby workers could stand in their place.
//
// node-resque asks nobody whether a job got through: a worker takes a job off its list and notes it under its own name, where the next one
// takes its place, and what it says of a job's end is given up when the connection breaks. So a crash may cost each worker, and
// the scheduler, the one job that it had on its way. Those are sent again, as an operator would after such a crash.

const { Queue, Scheduler, Worker, Plugins } = require('node-resque');
const { attempt, attempts, env, inLots, ledger, log, main, persist, plan, until, wait } = require('./driver');

const urgent = 'urgent';
const ordinary = 'ordinary';
const queues = [urgent, ordinary];
const workerCount = 3;
const stallMs = 3000; // without anything under way, after which lost jobs are sent again

// The connection tries again for as long as it takes.
const connection = () => ({
  host: env.host, port: env.port, namespace: 'resque',
  options: { retryStrategy: () => 200, maxRetriesPerRequest: null },
});

const tried = new Map();
const done = new Set();

// A task that is meant to die goes on failing, also when it has been sent again.
function work(task) {
  const n = (tried.get(task.id) || 0) + 1;
  tried.set(task.id, n);
  attempt(task, task.dies ? Math.min(n, task.fails) : n);
  done.add(task.id);
}

const jobs = {
  work: { plugins: [Plugins.Retry], pluginOptions: { Retry: { retryLimit: attempts, retryDelay: 50 } }, perform: async (task) => work(task) },
};

const queueOf = (task) => (task.priority > 0 ? urgent : ordinary);

function heed(who, emitter) {
  emitter.on('error', (err) => log(`${who}:`, err.message));
  return emitter;
}

async function startWorker(n) {
  const worker = heed(`worker ${n}`, new Worker({ connection: connection(), queues, name: `ledger:${n}`, timeout: 20 }, jobs));
  await worker.connect();
  await worker.start();
  return worker;
}

// startScheduler starts a scheduler and, as whoever looks after the process would, the next one when it has stopped at an error. Errors
// with a code are its connection's, which tries again.
async function startScheduler() {
  const watch = { scheduler: null, over: false };
  const start = async () => {
    const scheduler = new Scheduler({ connection: connection(), timeout: 50, name: 'ledger' });
    scheduler.on('error', (err) => {
      log('scheduler:', err.message);
      if (err.code || watch.over || watch.scheduler !== scheduler) return;
      scheduler.connection.end();
      start().catch((again) => log('scheduler:', again.message));
    });
    watch.scheduler = scheduler;
    await scheduler.connect();
    await scheduler.start();
  };
  await start();
  return watch;
}

async function enqueue(queue, task) {
  if (task.delayMs > 0) await queue.enqueueIn(task.delayMs, queueOf(task), 'work', [task], true);
  else await queue.enqueue(queueOf(task), 'work', [task]);
}

// dead are the ids of the tasks that were given up.
async function dead(queue) {
  return new Set((await queue.failed(0, -1)).map((job) => job.payload.args[0].id));
}

// underWay tells whether anything waits or is worked on.
async function underWay(queue, workers) {
  const lengths = await Promise.all(queues.map((name) => queue.length(name)));
  return lengths.some((n) => n > 0) || workers.some((worker) => worker.working) || (await queue.timestamps()).length > 0;
}

// recover sends what was lost on its way again, once nothing has been under way for some time.
async function recover(queue, workers, tasks, state) {
  if (await underWay(queue, workers)) state.since = Date.now();
  if (Date.now() - state.since < stallMs) return;
  const given = await dead(queue);
  const lost = tasks.filter((task) => !done.has(task.id) && !given.has(task.id));
  if (lost.length > workerCount + 1) throw new Error(`${lost.length} tasks are nowhere; at most ${workerCount + 1} can have been on their way`);
  for (const task of lost) {
    ledger.note(`sent ${task.id} again, which was on its way`);
    await enqueue(queue, { ...task, delayMs: 0 });
  }
  state.since = Date.now();
}

async function awaitEnd(queue, workers, tasks) {
  const dying = tasks.filter((task) => task.dies).length;
  const state = { since: Date.now() };
  await until('all jobs settled', async () => {
    if (done.size === tasks.length - dying && (await dead(queue)).size === dying && !(await underWay(queue, workers))) return true;
    if (env.kill) await recover(queue, workers, tasks, state);
    return false;
  }, 120_000);
}

main(async () => {
  const tasks = plan(env.tasks, env.seed);
  const queue = heed('queue', new Queue({ connection: connection() }, jobs));
  await queue.connect();
  const workers = [];
  for (let n = 1; n <= workerCount; n++) workers.push(await startWorker(n));
  const watch = await startScheduler();

  await inLots(tasks, (task) => enqueue(queue, task), (lot) => Promise.all(lot.map((task) => enqueue(queue, task))));
  await awaitEnd(queue, workers, tasks);
  ledger.note(`stats ${JSON.stringify(await persist('stats', () => queue.stats()))}`);
  for (const id of await persist('failed', () => dead(queue))) ledger.dead(id);

  watch.over = true;
  await Promise.all([...workers, watch.scheduler].map((each) => each.end()));
  await wait(50); // the workers' last words
  await queue.connection.redis.del(queue.connection.key('failed'));
  await queue.end();
});
