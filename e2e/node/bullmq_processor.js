'use strict';

// What a worker's own process runs for each job of the scene "sandbox".
module.exports = async (job) => {
  await job.updateProgress(50);
  return job.data.n ** 3;
};
