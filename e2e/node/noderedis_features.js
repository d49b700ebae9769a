'use strict';

// node-redis' features, one scene each, in versions 5 and 6 and over both protocols. Each scene has database 0 for
// itself.

const assert = require('node:assert/strict');
const { env, log, main, scenes, signal, until, within } = require('./driver');

// A bench opens the connections of a scene and closes them.
class Bench {
  constructor(redis, options) {
    this.redis = redis;
    this.options = options;
    this.open = [];
  }

  async client(extra = {}) {
    // node-redis 6 gives a command five seconds, which the last of 10,000 may need on a busy machine.
    const patience = { commandOptions: { timeout: 60_000 } };
    const client = this.redis.createClient({ socket: { host: env.host, port: env.port }, ...patience, ...this.options, ...extra });
    client.on('error', (err) => log(err.message));
    this.open.push(client);
    return client.connect();
  }

  async close() {
    await this.open[0].flushDb();
    for (const client of this.open) if (client.isOpen) client.destroy();
  }
}

const blocked = (client, n) =>
  until(`${n} wait`, async () => (await client.info('clients')).includes(`blocked_clients:${n}`));

async function scripts(bench) {
  const grow = bench.redis.defineScript({
    SCRIPT: "redis.call('rpush', KEYS[1], ARGV[1]) return redis.call('llen', KEYS[1])",
    NUMBER_OF_KEYS: 1,
    parseCommand(parser, key, value) { parser.pushKey(key); parser.push(value); },
    transformReply: (reply) => reply,
  });
  const client = await bench.client({ scripts: { grow } });
  await client.scriptFlush();
  assert.equal(await client.grow('list', 'a'), 1);
  assert.equal(await client.grow('list', 'b'), 2);
  await client.scriptFlush();
  // In a MULTI the client sends EVAL for the first use and EVALSHA for those behind it.
  assert.deepEqual(await client.multi().grow('list', 'c').grow('list', 'd').exec(), [3, 4]);
  await client.scriptFlush();
  const sha = await client.scriptLoad('return ARGV[1]');
  assert.equal(await client.evalSha(sha, { arguments: ['x'] }), 'x');
  assert.deepEqual(await client.scriptExists([sha, '0'.repeat(40)]), [1, 0]);
  await assert.rejects(client.evalSha('0'.repeat(40)), /NOSCRIPT No matching script/);
  await assert.rejects(client.eval('return redis.call("nonsense")'), /Unknown Redis command called from script/);
  assert.deepEqual(await client.eval('return {1, "two", false, {3}}'), [1, 'two', null, [3]]);
  const three = await client.eval('redis.setresp(3) return redis.call("hgetall", KEYS[1])', { keys: ['none'] });
  assert.deepEqual(Array.isArray(three) ? three : Object.keys(three), []);
  await client.functionLoad("#!lua name=lib\nredis.register_function('twice', function(keys, args) return args[1] * 2 end)", { REPLACE: true });
  assert.equal(await client.fCall('twice', { arguments: ['21'] }), 42);
  await client.functionFlush();
}

async function pipelines(bench) {
  const client = await bench.client();
  const wrote = await Promise.all(Array.from({ length: 10_000 }, (_, i) => client.set(`key:${i}`, String(i))));
  assert.ok(wrote.every((reply) => reply === 'OK'));
  const read = await client.multi().get('key:1').incr('key:2').execAsPipeline();
  assert.deepEqual(read, ['1', 3]);
  const mixed = await Promise.allSettled([client.get('key:1'), client.lPush('key:1', 'x'), client.incr('key:1')]);
  assert.deepEqual(mixed.map(({ status }) => status), ['fulfilled', 'rejected', 'fulfilled']);
}

async function transactions(bench) {
  const client = await bench.client();
  const other = await bench.client();
  assert.deepEqual(await client.multi().set('a', '1').incr('a').get('a').exec(), ['OK', 2, '2']);
  await assert.rejects(client.multi().set('a', '1').lPush('a', 'x').exec(), (err) => {
    assert.equal(err.replies[0], 'OK');
    assert.match(err.replies[1].message, /WRONGTYPE/);
    return true;
  });
  await client.watch('a');
  await other.set('a', 'changed');
  await assert.rejects(client.multi().set('a', 'mine').exec(), bench.redis.WatchError);
  await client.watch('a');
  assert.deepEqual(await client.multi().set('a', 'mine').exec(), ['OK']);
}

async function pubsub(bench) {
  const client = await bench.client();
  const listener = await bench.client();
  const seen = [];
  const note = (text, channel) => seen.push([channel, text]);
  await listener.subscribe(['a', 'b'], note);
  await listener.pSubscribe('n?ws.*', note);
  await listener.sSubscribe('shard', note);
  assert.equal(await client.publish('a', 'ä€😀'), 1);
  assert.equal(await client.publish('news.x', 'hello'), 1);
  assert.equal(await client.sPublish('shard', 'hello'), 1);
  await until('three messages', () => seen.length === 3);
  assert.deepEqual(seen, [['a', 'ä€😀'], ['news.x', 'hello'], ['shard', 'hello']]);
  // With RESP3 a connection that listens may do everything else, too.
  if (bench.options.RESP === 3) assert.equal(await listener.set('k', 'v'), 'OK');
  await listener.unsubscribe(['a', 'b']);
  await listener.pUnsubscribe('n?ws.*');
  await listener.sUnsubscribe('shard');
  assert.deepEqual({ ...await client.pubSubNumSub(['a']) }, { a: 0 });
  // After a lost connection the client subscribes anew by itself.
  await listener.subscribe('c', note);
  await client.sendCommand(['CLIENT', 'KILL', 'TYPE', 'pubsub']);
  await until('subscribed again', async () => (await client.publish('c', 'again')) === 1);
  await until('the message', () => seen.some(([channel]) => channel === 'c'));
}

async function streams(bench) {
  const client = await bench.client();
  const reader = await bench.client();
  // Version 5 passes on what RESP3 says of streams as it is.
  const row = (entry) => (Array.isArray(entry) ? [entry[0], { [entry[1][0]]: entry[1][1] }] : [entry.id, { ...entry.message }]);
  const rows = (reply) => (Array.isArray(reply) ? reply[0].messages : reply.s).map(row);
  const waiting = reader.xRead({ key: 's', id: '0' }, { BLOCK: 20_000, COUNT: 10 });
  await blocked(client, 1);
  await client.xAdd('s', '1-1', { field: 'value' });
  assert.deepEqual(rows(await waiting), [['1-1', { field: 'value' }]]);
  await client.xGroupCreate('s', 'group', '0');
  await assert.rejects(client.xGroupCreate('s', 'group', '0'), /BUSYGROUP/);
  await client.xAdd('s', '2-0', { n: '2' }, { TRIM: { strategy: 'MAXLEN', strategyModifier: '~', threshold: 1000 } });
  const read = await client.xReadGroup('group', 'me', { key: 's', id: '>' });
  assert.deepEqual(rows(read), [['1-1', { field: 'value' }], ['2-0', { n: '2' }]]);
  assert.equal(await client.xAck('s', 'group', '1-1'), 1);
  const pending = await client.xPending('s', 'group');
  assert.deepEqual([pending.pending, pending.firstId, { ...pending.consumers[0] }], [1, '2-0', { name: 'me', deliveriesCounter: 1 }]);
  const claimed = await client.xAutoClaim('s', 'group', 'you', 0, '0');
  assert.deepEqual([claimed.nextId, claimed.messages.map(({ id }) => id), claimed.deletedMessages], ['0-0', ['2-0'], []]);
  assert.equal(await client.xRead({ key: 's', id: '$' }, { BLOCK: 10 }), null);
  const info = await client.xInfoStream('s');
  assert.equal(info.length, 2);
  assert.equal((await client.xInfoGroups('s'))[0].pending, 1);
  assert.equal((await client.xInfoConsumers('s', 'group')).length, 2);
}

async function blocking(bench) {
  const client = await bench.client();
  const first = await bench.client();
  const second = await bench.client();
  const a = first.blPop('list', 20);
  await blocked(client, 1);
  const b = second.blPop(['other', 'list'], 20);
  await blocked(client, 2);
  await client.rPush('list', ['one', 'two']);
  assert.deepEqual({ ...await a }, { key: 'list', element: 'one' });
  assert.deepEqual({ ...await b }, { key: 'list', element: 'two' });
  assert.equal(await first.blPop('list', 0.05), null);
  const moved = first.blMove('from', 'to', 'LEFT', 'RIGHT', 20);
  await blocked(client, 1);
  await client.lPush('from', 'x');
  assert.equal(await moved, 'x');
  const least = first.bzPopMin('z', 20);
  await blocked(client, 1);
  await client.zAdd('z', [{ score: 5, value: 'five' }, { score: 1.5, value: 'one' }]);
  assert.deepEqual({ ...await least }, { key: 'z', value: 'one', score: 1.5 });
  const many = first.blmPop(20, ['l1', 'l2'], 'LEFT', { COUNT: 2 });
  await blocked(client, 1);
  await client.rPush('l2', ['a', 'b', 'c']);
  assert.deepEqual(await many, ['l2', ['a', 'b']]);
  // A pool that works on several connections at once.
  const pool = bench.redis.createClientPool({ socket: { host: env.host, port: env.port }, ...bench.options }, { maximum: 4 });
  await pool.connect();
  const pops = [1, 2, 3].map(() => pool.blPop('jobs', 20));
  await blocked(client, 3);
  await client.rPush('jobs', ['1', '2', '3']);
  assert.deepEqual((await Promise.all(pops)).map(({ element }) => element).sort(), ['1', '2', '3']);
  await pool.close();
}

async function scans(bench) {
  const client = await bench.client();
  const names = Array.from({ length: 3000 }, (_, i) => `k:${i}`);
  await Promise.all(names.map((name, i) => client.multi().set(name, '1').hSet('hash', name, '1').sAdd('set', name)
    .zAdd('zset', { score: i, value: name }).execAsPipeline()));
  const count = async (iterator) => {
    const found = new Set();
    for await (const part of iterator) for (const item of part) found.add(item.field || item.value || item);
    return found.size;
  };
  assert.equal(await count(client.scanIterator({ MATCH: 'k:*', COUNT: 100 })), 3000);
  assert.equal(await count(client.scanIterator({ TYPE: 'hash' })), 1);
  assert.equal(await count(client.hScanIterator('hash', { COUNT: 50 })), 3000);
  assert.equal(await count(client.sScanIterator('set')), 3000);
  assert.equal(await count(client.zScanIterator('zset', { MATCH: 'k:1*' })), 1111);
}

async function replies(bench) {
  const client = await bench.client();
  await client.hSet('h', { a: '1', b: 'two' });
  assert.deepEqual({ ...await client.hGetAll('h') }, { a: '1', b: 'two' });
  assert.deepEqual({ ...await client.hGetAll('none') }, {});
  assert.deepEqual(await client.hmGet('h', ['a', 'none']), ['1', null]);
  assert.deepEqual((await client.hRandFieldCountWithValues('h', 5)).length, 2);
  await client.zAdd('z', [{ score: Infinity, value: 'inf' }, { score: 0.5, value: 'half' }, { score: 1e21, value: 'big' }]);
  assert.deepEqual((await client.zRangeWithScores('z', 0, -1)).map(({ score }) => score), [0.5, 1e21, Infinity]);
  assert.equal(await client.zScore('z', 'none'), null);
  assert.deepEqual(await client.zmScore('z', ['half', 'none']), [0.5, null]);
  assert.equal(await client.zIncrBy('z', -Infinity, 'half'), -Infinity);
  assert.deepEqual((await client.zPopMin('z')).value, 'half');
  await client.sAdd('s', ['a', 'b']);
  assert.deepEqual([...await client.sMembers('s')].sort(), ['a', 'b']);
  assert.deepEqual(await client.smIsMember('s', ['a', 'c']), [1, 0]);
  await client.geoAdd('g', { longitude: 13.4, latitude: 52.5, member: 'berlin' });
  assert.equal(Math.round(Number((await client.geoPos('g', 'berlin'))[0].longitude) * 10), 134);
  assert.equal(Object.keys(await client.configGet('appendf*')).includes('appendfsync'), true);
  assert.equal((await client.memoryUsage('h')) > 0, true);
  assert.equal((await client.lcsIdx('h1', 'h2')).len, 0);
  assert.ok((await client.commandInfo(['get']))[0].arity === 2);
  await assert.rejects(client.sendCommand(['NONSENSE']), /unknown command/);
  await assert.rejects(client.set('k', 'v', { EX: -1 }), /invalid expire time/);
  assert.equal(await client.set('k', 'v', { expiration: { type: 'EX', value: 100 }, condition: 'NX' }), 'OK');
  assert.equal(await client.set('k', 'w', { condition: 'NX' }), null);
}

async function connections(bench) {
  const other = await bench.client();
  const client = await bench.client({ database: 9, name: 'named' });
  await client.set('k', 'v');
  assert.equal(await client.clientGetName(), 'named');
  assert.equal(await other.get('k'), null);
  assert.equal((await client.clientInfo()).db, 9);
  const id = await client.clientId();
  await other.sendCommand(['CLIENT', 'KILL', 'ID', String(id)]);
  await until('back again', () => client.get('k').then((value) => value === 'v', () => false));
  assert.equal(await client.clientGetName(), 'named');
  assert.ok((await other.clientList()).some(({ name }) => name === 'named'));
  await client.del('k');
  // A command that is called off while it waits for its turn is not sent.
  const halted = new AbortController();
  const late = client.withAbortSignal(halted.signal).set('never', '1');
  halted.abort();
  await assert.rejects(late);
  assert.equal(await client.exists('never'), 0);
  await client.close();
  assert.equal(client.isOpen, false);
}

async function monitoring(bench) {
  const client = await bench.client();
  const seen = signal();
  const watcher = await bench.client();
  await watcher.monitor((line) => { if (/"echo" "seen"/i.test(line)) seen.resolve(); });
  await client.echo('seen');
  await within('monitor', seen.promise);
}

const all = { scripts, pipelines, transactions, pubsub, streams, blocking, scans, replies, connections, monitoring };

const versions = {
  'node-redis 5': ['redis5', { RESP: 2 }],
  'node-redis 5 with RESP3': ['redis5', { RESP: 3, unstableResp3: true }],
  'node-redis 6': ['redis', { RESP: 2 }],
  'node-redis 6 with RESP3': ['redis', { RESP: 3 }],
};

main(() => scenes(Object.fromEntries(Object.entries(versions).flatMap(([version, [packageName, options]]) =>
  Object.entries(all).map(([name, scene]) => [`${name} over ${version}`, async () => {
    const bench = new Bench(require(packageName), options);
    try {
      await scene(bench);
    } finally {
      await bench.close();
    }
  }])))));
