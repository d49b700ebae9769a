'use strict';

// ioredis' features, one scene each, in versions 5 and 6 and over both protocols. Each scene has database 0 for itself.

const assert = require('node:assert/strict');
const { env, log, main, scenes, signal, until, within } = require('./driver');

const address = { host: env.host, port: env.port };

// A bench opens the connections of a scene and closes them.
class Bench {
  constructor(Redis, options) {
    this.Redis = Redis;
    this.options = options;
    this.open = [];
  }

  client(extra = {}) {
    const client = new this.Redis({ ...address, ...this.options, ...extra });
    client.on('error', (err) => log(err.message));
    this.open.push(client);
    return client;
  }

  async close() {
    const [first] = this.open;
    await first.flushdb();
    for (const client of this.open) client.disconnect();
  }
}

async function scripts(bench) {
  const redis = bench.client();
  const source = "redis.call('rpush', KEYS[1], ARGV[1]) return redis.call('llen', KEYS[1])";
  redis.defineCommand('grow', { numberOfKeys: 1, lua: source });
  await redis.script('FLUSH');
  // The first call meets a server that does not know the script, and so do those of a pipeline that holds it many times.
  assert.equal(await redis.grow('list', 'a'), 1);
  assert.equal(await redis.grow('list', 'b'), 2);
  await redis.script('FLUSH');
  const pipeline = redis.pipeline();
  for (let i = 3; i <= 20; i++) pipeline.grow('list', i);
  assert.deepEqual((await pipeline.exec()).map(([err, n]) => err || n), Array.from({ length: 18 }, (_, i) => i + 3));
  // EVAL makes the script known to an EVALSHA behind it in the same pipeline, and in the same MULTI.
  await redis.script('FLUSH');
  const text = `return ARGV[1] .. '${Date.now()}'`;
  const sha = require('node:crypto').createHash('sha1').update(text).digest('hex');
  const [[, one], [, two]] = await redis.pipeline().eval(text, 0, 'x').evalsha(sha, 0, 'x').exec();
  assert.equal(one, two);
  await redis.script('FLUSH');
  const [[, three], [, four]] = await redis.multi().eval(text, 0, 'x').evalsha(sha, 0, 'x').exec();
  assert.equal(three, four);
  await assert.rejects(redis.evalsha('0'.repeat(40), 0), /^ReplyError: NOSCRIPT No matching script/);
  await assert.rejects(redis.eval('return redis.call("lpush", KEYS[1])', 1, 'x'), /Wrong number of args calling Redis command from script/);
  await assert.rejects(redis.eval('return {err = "MINE of my own"}', 0), /^ReplyError: MINE of my own$/);
  assert.deepEqual(await redis.eval('return {1, "two", false, {3, 4.9}, {ok = "fine"}}', 0), [1, 'two', null, [3, 4], 'fine']);
  assert.deepEqual(await redis.evalBuffer('return ARGV[1]', 0, Buffer.from([0, 255, 13, 10])), Buffer.from([0, 255, 13, 10]));
  assert.deepEqual(await redis.script('EXISTS', sha, '0'.repeat(40)), [1, 0]);
}

async function pipelines(bench) {
  const redis = bench.client();
  const pipeline = redis.pipeline();
  for (let i = 0; i < 10_000; i++) pipeline.set(`key:${i}`, i);
  assert.ok((await pipeline.exec()).every(([err, reply]) => err === null && reply === 'OK'));
  const mixed = await redis.pipeline().get('key:1').lpush('key:1', 'x').incr('key:1').hgetall('none').exec();
  assert.deepEqual(mixed.map(([err, reply]) => (err ? err.message.split(' ')[0] : reply)), ['1', 'WRONGTYPE', 2, {}]);
  const automatic = bench.client({ enableAutoPipelining: true });
  const values = await Promise.all(Array.from({ length: 500 }, (_, i) => automatic.get(`key:${i + 2}`)));
  assert.deepEqual(values, Array.from({ length: 500 }, (_, i) => String(i + 2)));
}

async function transactions(bench) {
  const redis = bench.client();
  const other = bench.client();
  assert.deepEqual(await redis.multi().set('a', 1).incr('a').lpush('a', 1).get('a').exec().then((replies) =>
    replies.map(([err, reply]) => (err ? 'error' : reply))), ['OK', 2, 'error', '2']);
  await redis.watch('a');
  await other.set('a', 'changed');
  assert.equal(await redis.multi().set('a', 'mine').exec(), null);
  await redis.watch('a');
  assert.deepEqual(await redis.multi().set('a', 'mine').exec(), [[null, 'OK']]);
  await assert.rejects(redis.multi().set('a').get('a').exec(), /EXECABORT Transaction discarded/);
  await redis.multi({ pipeline: false });
  assert.equal(await redis.set('b', 1), 'QUEUED');
  assert.equal(await redis.discard(), 'OK');
  assert.equal(await redis.exists('b'), 0);
}

async function pubsub(bench) {
  const redis = bench.client();
  const listener = bench.client();
  const seen = [];
  listener.on('message', (channel, text) => seen.push([channel, text]));
  listener.on('pmessage', (pattern, channel, text) => seen.push([pattern, channel, text]));
  listener.on('messageBuffer', (channel, bytes) => assert.ok(Buffer.isBuffer(bytes)));
  assert.equal(await listener.subscribe('a', 'b'), 2);
  assert.equal(await listener.psubscribe('n?ws.*'), 3);
  assert.equal(await redis.publish('a', 'ä€😀'), 1);
  assert.equal(await redis.publish('news.x', 'hello'), 1);
  assert.equal(await redis.publish('nobody', 'hello'), 0);
  await until('two messages', () => seen.length === 2);
  assert.deepEqual(seen, [['a', 'ä€😀'], ['n?ws.*', 'news.x', 'hello']]);
  if ((bench.options.protocol || 2) === 2) await assert.rejects(listener.get('a'), /subscriber mode/);
  assert.deepEqual(await redis.pubsub('NUMSUB', 'a', 'z'), ['a', 1, 'z', 0]);
  // After a lost connection the client subscribes anew by itself.
  await redis.client('KILL', 'TYPE', 'pubsub');
  await until('subscribed again', async () => (await redis.publish('b', 'again')) === 1);
  await until('the message', () => seen.some(([channel, text]) => channel === 'b' && text === 'again'));
  assert.equal(await listener.unsubscribe('a', 'b'), 1);
  assert.equal(await listener.punsubscribe(), 0);
}

async function streams(bench) {
  const redis = bench.client();
  const reader = bench.client();
  const waiting = reader.xread('BLOCK', 20_000, 'COUNT', 10, 'STREAMS', 's', 't', '$', '$');
  const id = await until('an entry that is read', async () => {
    await redis.xadd('s', 'MAXLEN', '~', 1000, '*', 'field', 'value');
    return Promise.race([waiting, redis.ping().then(() => false)]);
  });
  assert.deepEqual(id[0][1][0][1], ['field', 'value']);
  await redis.del('s');
  for (let i = 1; i <= 5; i++) await redis.xadd('s', `${i}-0`, 'n', i);
  assert.equal(await redis.xgroup('CREATE', 's', 'group', '0'), 'OK');
  await assert.rejects(redis.xgroup('CREATE', 's', 'group', '0'), /BUSYGROUP/);
  const [[, entries]] = await redis.xreadgroup('GROUP', 'group', 'me', 'COUNT', 3, 'STREAMS', 's', '>');
  assert.deepEqual(entries, [['1-0', ['n', '1']], ['2-0', ['n', '2']], ['3-0', ['n', '3']]]);
  assert.equal(await redis.xack('s', 'group', '1-0'), 1);
  assert.deepEqual(await redis.xpending('s', 'group'), [2, '2-0', '3-0', [['me', '2']]]);
  assert.deepEqual(await redis.xautoclaim('s', 'group', 'you', 0, '0', 'COUNT', 1), ['3-0', [['2-0', ['n', '2']]], []]);
  assert.equal(await redis.xread('BLOCK', 10, 'STREAMS', 's', '$'), null);
  assert.deepEqual(await redis.xrevrange('s', '+', '-', 'COUNT', 1), [['5-0', ['n', '5']]]);
  const blocked = reader.xreadgroup('GROUP', 'group', 'me', 'BLOCK', 20_000, 'STREAMS', 'gone', '>').catch((err) => err.message);
  assert.match(await blocked, /NOGROUP/);
}

async function blocking(bench) {
  const redis = bench.client();
  const first = bench.client();
  const second = bench.client();
  const clientsBlocked = (n) => until(`${n} wait`, async () => (await redis.info('clients')).includes(`blocked_clients:${n}`));
  const a = first.blpop('list', 20);
  await clientsBlocked(1);
  const b = second.brpop('other', 'list', 20);
  await clientsBlocked(2);
  await redis.rpush('list', 'one', 'two');
  assert.deepEqual(await a, ['list', 'one']);
  assert.deepEqual(await b, ['list', 'two']);
  assert.equal(await first.blpop('list', 0.05), null);
  const moved = first.blmove('from', 'to', 'LEFT', 'RIGHT', 20);
  const popped = second.brpoplpush('to', 'last', 20);
  await clientsBlocked(2);
  await redis.lpush('from', 'x');
  assert.equal(await moved, 'x');
  assert.equal(await popped, 'x');
  const least = first.bzpopmin('z', 20);
  await clientsBlocked(1);
  await redis.zadd('z', 5, 'five', 1.5, 'one');
  assert.deepEqual((await least).map(String), ['z', 'one', '1.5']);
  // Commands behind a blocked one wait for it.
  const order = [];
  const both = [first.blpop('late', 20).then(() => order.push('pop')), first.ping().then(() => order.push('ping'))];
  await clientsBlocked(1);
  await redis.rpush('late', 'x');
  await Promise.all(both);
  assert.deepEqual(order, ['pop', 'ping']);
  // A client that goes away while it waits takes nothing with it.
  const leaving = bench.client({ retryStrategy: null });
  leaving.blpop('kept', 0).catch(() => {});
  await clientsBlocked(1);
  leaving.disconnect();
  await clientsBlocked(0);
  await redis.rpush('kept', 'x');
  assert.equal(await redis.llen('kept'), 1);
  const id = await first.client('ID');
  const freed = first.blpop('never', 0);
  await clientsBlocked(1);
  const rejected = assert.rejects(freed, /UNBLOCKED/); // whose answer comes first is open
  await redis.client('UNBLOCK', id, 'ERROR');
  await rejected;
}

async function scans(bench) {
  const redis = bench.client();
  const pipeline = redis.pipeline();
  for (let i = 0; i < 3000; i++) pipeline.set(`k:${i}`, i).hset('hash', `f${i}`, i).sadd('set', i).zadd('zset', i, `m${i}`);
  await pipeline.exec();
  const collect = (stream) => within('end of a scan', new Promise((resolve, reject) => {
    const found = [];
    stream.on('data', (part) => found.push(...part)).on('end', () => resolve(found)).on('error', reject);
  }));
  assert.equal(new Set(await collect(redis.scanStream({ match: 'k:*', count: 100 }))).size, 3000);
  assert.equal(new Set(await collect(redis.scanStream({ type: 'zset' }))).size, 1);
  const fields = await collect(redis.hscanStream('hash', { count: 50 }));
  assert.equal(fields.length, 6000);
  assert.equal(new Set(await collect(redis.sscanStream('set'))).size, 3000);
  assert.equal((await collect(redis.zscanStream('zset', { match: 'm1*' }))).length, 2 * 1111);
}

async function replies(bench) {
  const redis = bench.client();
  await redis.hset('h', { a: 1, b: 'two' });
  assert.deepEqual(await redis.hgetall('h'), { a: '1', b: 'two' });
  assert.deepEqual(await redis.hmget('h', 'a', 'none'), ['1', null]);
  await redis.zadd('z', '+inf', 'inf', 1e21, 'big', 0.1, 'tenth');
  assert.deepEqual((await redis.zrange('z', 0, -1, 'WITHSCORES')).flat().map(String), 
    ['tenth', '0.10000000000000001', 'big', '1e+21', 'inf', 'inf']);
  await redis.set('n', '9223372036854775807');
  await assert.rejects(redis.incr('n'), /increment or decrement would overflow/);
  assert.equal(await redis.get('n'), '9223372036854775807');
  const strings = bench.client({ stringNumbers: true });
  assert.equal(await strings.decr('n'), '9223372036854775806');
  assert.deepEqual(await redis.getBuffer('n'), Buffer.from('9223372036854775806'));
  await assert.rejects(redis.call('nonsense', 'a'), /unknown command/);
  await assert.rejects(redis.get(), /wrong number of arguments/);
  assert.equal(await redis.set('t', 1, 'PX', 60_000, 'NX'), 'OK');
  assert.equal(await redis.set('t', 2, 'NX'), null);
  assert.ok((await redis.pttl('t')) > 50_000);
  assert.deepEqual((await redis.time()).length, 2);
  assert.equal((await redis.call('COMMAND', 'GETKEYS', 'eval', 'x', '2', 'a', 'b')).join(), 'a,b');
}

async function connections(bench) {
  const redis = bench.client({ db: 9, connectionName: 'named', keyPrefix: 'pre:' });
  await redis.set('k', 'v');
  assert.equal(await redis.client('GETNAME'), 'named');
  const plain = bench.client();
  assert.equal(await plain.get('pre:k'), null);
  await plain.select(9);
  assert.equal(await plain.get('pre:k'), 'v');
  // A client whose connection is killed comes back to its database, and sends again what was not answered.
  const id = await redis.client('ID');
  await plain.client('KILL', 'ID', id);
  assert.equal(await redis.get('k'), 'v');
  assert.notEqual(await redis.client('ID'), id);
  const seen = signal();
  const monitor = await redis.monitor();
  monitor.on('monitor', (time, args) => { if (args[0].toLowerCase() === 'echo') seen.resolve(args); });
  await plain.echo('seen');
  assert.deepEqual((await within('monitor', seen.promise)).slice(1), ['seen']);
  monitor.disconnect();
  await redis.del('k');
  const lazy = bench.client({ lazyConnect: true, enableOfflineQueue: false });
  await lazy.connect();
  assert.equal(await lazy.quit(), 'OK');
  await plain.select(0);
}

const all = { scripts, pipelines, transactions, pubsub, streams, blocking, scans, replies, connections };

const versions = {
  'ioredis 5': ['ioredis5', {}],
  'ioredis 6': ['ioredis', { protocol: 2 }],
  'ioredis 6 with RESP3': ['ioredis', { protocol: 3 }],
};

main(() => scenes(Object.fromEntries(Object.entries(versions).flatMap(([version, [packageName, options]]) =>
  Object.entries(all).map(([name, scene]) => [`${name} over ${version}`, async () => {
    const bench = new Bench(require(packageName).Redis, options);
    try {
      await scene(bench);
    } finally {
      await bench.close();
    }
  }])))));
