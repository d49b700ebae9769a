'use strict';

const { env } = require('./driver');

require('./bullmq_ledger').run(require('bullmq'), () => ({ host: env.host, port: env.port }));
