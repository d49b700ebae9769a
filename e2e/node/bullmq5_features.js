'use strict';

require('./bullmq_scenes').run('bullmq5');
