'use strict';

const { env } = require('./driver');

require('./bullmq_ledger').run(require('bullmq5'), () => ({ host: env.host, port: env.port }));
