'use strict';

// BullMQ over node-redis: "features" as the argument plays its scenes, otherwise it works on the ledger.

const { createClient } = require('redis');
const { env, log } = require('./driver');

// Each part of BullMQ gets a client of its own.
function connect() {
  const client = createClient({ socket: { host: env.host, port: env.port, reconnectStrategy: 200 } });
  client.on('error', (err) => log('client:', err.message));
  return client;
}

if (process.argv[2] === 'features') {
  process.argv.splice(2, 1);
  require('./bullmq_scenes').run('bullmq', connect);
} else {
  require('./bullmq_ledger').run(require('bullmq'), connect);
}
