'use strict';

require('./bullmq_ledger').run(require('bullmq'));
