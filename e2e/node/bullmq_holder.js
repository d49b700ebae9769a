'use strict';

// A worker that takes two jobs, tells its parent process, and holds them until it is killed.

const { env } = require('./driver');

const [packageName, queueName] = process.argv.slice(2);
const { Worker } = require(packageName);

let held = 0;
new Worker(queueName, () => {
  process.send(++held);
  return new Promise(() => {});
}, { connection: { host: env.host, port: env.port }, concurrency: 2, lockDuration: 1000, stalledInterval: 300 });
