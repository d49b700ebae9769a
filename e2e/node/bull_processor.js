'use strict';

// What a consumer's own process runs for each job of the scene "sandbox".
module.exports = async (job) => {
  await job.progress(50);
  return job.data.n ** 3;
};
