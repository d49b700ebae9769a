'use strict';

// A consumer that takes two jobs, tells its parent process, and holds them until it is killed.

const Queue = require('bull');
const { env } = require('./driver');

const settings = { lockDuration: 1000, stalledInterval: 300, guardInterval: 300 };
const queue = new Queue(process.argv[2], { redis: { host: env.host, port: env.port }, settings });

let held = 0;
queue.process(2, () => {
  process.send(++held);
  return new Promise(() => {});
});
