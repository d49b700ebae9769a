'use strict';

// A consumer that takes two jobs, tells its parent process, and holds them until it is killed.

const Queue = require('bee-queue');
const { env } = require('./driver');

const [name, stallInterval] = process.argv.slice(2);
const queue = new Queue(name, { redis: { host: env.host, port: env.port }, stallInterval: Number(stallInterval) });

let held = 0;
queue.process(2, () => {
  process.send(++held);
  return new Promise(() => {});
});
