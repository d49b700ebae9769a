package tests

// blockingScenes are about order, chains, types and transactions; see TestBlockingScenes.
func blockingScenes() []string {
	return []string{
		// Several keys: the first in the call's order that has something; of those that become ready together, the first that did.
		"x: RPUSH b 1\nx: RPUSH c 2\na: BLPOP a b c 0\na: BLPOP a b c 0",
		"a> BLPOP a b c 0\nx: MULTI\nx: RPUSH c 1\nx: RPUSH b 2\nx: RPUSH a 3\nx: EXEC\na<",
		"a> BLPOP a b c 0\nb> BLPOP c b a 0\nx: MULTI\nx: RPUSH b 1\nx: RPUSH c 2\nx: RPUSH a 3\nx: EXEC\na<\nb<",
		"a> BLPOP a a a 0\nb> BLPOP a a 0\nx: RPUSH a 1\na<\nb.",
		"a> BZPOPMIN a b 0\nx: MULTI\nx: ZADD b 1 m\nx: ZADD a 1 n\nx: EXEC\na<",
		"a> BLPOP a b 0\nx: EVAL 'redis.call(\"rpush\", KEYS[1], 1) redis.call(\"rpush\", KEYS[2], 2)' 2 b a\na<",
		"a> BLPOP a b 0\nx: MULTI\nx: RPUSH a 1\nx: LPOP a\nx: RPUSH b 2\nx: EXEC\na<",
		"a> BLPOP a b 0\nx: MULTI\nx: RPUSH a 1\nx: LPOP a\nx: RPUSH b 2\nx: RPUSH a 3\nx: EXEC\na<",
		"a> BLPOP a b 0\nb> BLPOP a b 0\nx: MULTI\nx: RPUSH b 1 2 3\nx: LPUSH a 4\nx: EXEC\na<\nb<",
		// First come, first served, also where each wants something else, or waits elsewhere, too.
		"a> BLPOP k 0\nb> BRPOP k 0\nc> BLMPOP 0 1 k LEFT COUNT 2\nd> BLMOVE k to LEFT LEFT 0\nx: RPUSH k 1 2 3 4 5 6 7\na<\nb<\nc<\nd<",
		"a> BLPOP k 0\nb> BLPOP j k 0\nc> BLPOP k 0\nx: RPUSH k 1 2\na<\nb<\nx: RPUSH j 3\nc.",
		"a> BLPOP k 0\nb> BLPOP k 0\nc> BLPOP k 0\na!\nx: RPUSH k 1\nb<\nx: RPUSH k 2\nc<",
		"a> BLPOP k 0\nb> BLPOP k 0\na.\na> BLPOP k 0\nx: RPUSH k 1\nb<\nx: RPUSH k 2\na<",
		"a> BLPOP k 0\nb> BZPOPMIN k 0\nc> XREAD BLOCK 0 STREAMS k $\nx: ZADD k 1 m\nb<\nx: XADD k 1-1 f v\nc<\nx: DEL k\nx: RPUSH k 1\na<",
		// Chains.
		"a> BLMOVE a b LEFT RIGHT 0\nb> BLMOVE b c LEFT RIGHT 0\nc> BLPOP c 0\nx: RPUSH a 1\na<\nb<\nc<",
		"c> BLPOP c 0\nb> BLMOVE b c LEFT RIGHT 0\na> BLMOVE a b LEFT RIGHT 0\nx: RPUSH a 1 2 3\na<\nb<\nc<",
		"a> BRPOPLPUSH a b 0\nb> BRPOPLPUSH b a 0\nx: RPUSH a 1\na<\nb<",
		"a> BRPOPLPUSH a b 0\nb> BRPOPLPUSH b a 0\nc> BLPOP a 0\nd> BLPOP b 0\nx: RPUSH a 1\na<\nb<\nc<\nd.",
		"a> BLMOVE a a LEFT RIGHT 0\nb> BLMOVE a a LEFT RIGHT 0\nc> BLPOP a 0\nx: RPUSH a 1 2\na<\nb<\nc<",
		"a> BLMOVE a b LEFT RIGHT 0\nb> BLPOP b 0\nc> BLPOP a b 0\nx: RPUSH a 1\na<\nb<\nc.",
		"a> BLMOVE a b LEFT RIGHT 0\nb> BLPOP b 0\nx: MULTI\nx: RPUSH b 1\nx: RPUSH a 2\nx: EXEC\na<\nb<",
		"a> BLMOVE a b LEFT RIGHT 0\nb> BLPOP b 0\nx: MULTI\nx: RPUSH a 2\nx: RPUSH b 1\nx: EXEC\na<\nb<",
		// Types: of the destination, and changing ones.
		"a> BLMOVE a b LEFT RIGHT 0\nb> BLPOP a 0\nx: SET b x\nx: RPUSH a 1\na<\nb<",
		"a> BRPOPLPUSH a b 0\nx: SADD b x\nx: RPUSH a 1\na<",
		"x: SET b x\na> BLMOVE a b LEFT RIGHT 0\nx: RPUSH a 1\na<",
		"x: SET b x\na> BLMOVE a b LEFT RIGHT 0\nx: DEL b\nx: RPUSH a 1\na<",
		"a> BLPOP k 0\nx: SET k v\nx: DEL k\nx: RPUSH k 1\na<",
		"a> BLPOP k 0\nx: MULTI\nx: RPUSH k 1\nx: SET k v\nx: EXEC\na.",
		"a> BLPOP k 0\nx: MULTI\nx: SET k v\nx: DEL k\nx: RPUSH k 1\nx: EXEC\na<",
		"a> BZPOPMIN k 0\nx: MULTI\nx: ZADD k 1 a\nx: DEL k\nx: RPUSH k 1\nx: EXEC\na.",
		// Within transactions and scripts nothing waits.
		"a: MULTI\na: BLPOP k 0\na: RPUSH k 1 2\na: BLPOP k 0\na: BRPOPLPUSH k k2 0\na: BLMOVE k k2 LEFT LEFT 0\na: BZPOPMAX k3 0\na: XREAD BLOCK 0 STREAMS k4 $\na: EXEC",
		"a: EVAL 'return redis.pcall(\"blmpop\", 0, 1, KEYS[1], \"left\")' 1 k\na: EVAL 'return redis.pcall(\"blpop\", KEYS[1], 0)' 1 k\na: EVAL 'return redis.pcall(\"bzmpop\", 0, 1, KEYS[1], \"min\")' 1 k",
		"a: EVAL 'return redis.pcall(\"xread\", \"block\", 0, \"streams\", KEYS[1], \"$\")' 1 k\na: EVAL 'return redis.pcall(\"xread\", \"streams\", KEYS[1], \"0\")' 1 k",
		"a> BLPOP k 0\nx: MULTI\nx: RPUSH k 1\nx: BLPOP k 0\nx: EXEC\na.",
		"a> BLPOP k 0\nx: MULTI\nx: RPUSH k 1\nx: RPUSH k 2\nx: BLPOP k 0\nx: EXEC\na<",
		"x: WATCH k\na> BLPOP k 0\ny: RPUSH k 1\na<\nx: MULTI\nx: PING\nx: EXEC",
		"x: RPUSH k 1\nx: WATCH to\na: BLMOVE k to LEFT LEFT 0\nx: MULTI\nx: PING\nx: EXEC",
		// Pipelines: what is behind waits, what is before is answered.
		"a> SET s 1 | BLPOP k 0 | GET s | LPUSH j 1 | BLPOP j 0 | PING\na<\nx: EXISTS j\nx: RPUSH k 1\na<\na<\na<\na<\na<",
		"a> BLPOP k 0 | BLPOP k 0 | BLPOP k 0\nx: RPUSH k 1 2\na<\na<\n#1\nx: RPUSH k 3\na<",
		"a> RPUSH k 1 | BLPOP k j 0 | BLPOP k j 0 | RPUSH j 9 | BLPOP j 0\na<\na<\nx: RPUSH j 2\na<\na<\na<",
		"b> BLMOVE k j LEFT LEFT 0\na> RPUSH k 1 | BLPOP i 0 | GET s\na<\nb<\nx: RPUSH i 1\na<\na<",
		"a> SCRIPT LOAD 'return 1' | BLPOP k 0 | EVALSHA e0e1f9fabfc9d4800c877a703b823ac0578ff8db 0\na<\nx: RPUSH k 1\na<\na<",
		"a> MULTI | RPUSH k 1 | EXEC | BLPOP j 0 | MULTI | LPOP k | EXEC\na<\na<\na<\nx: RPUSH j 1\na<\na<\na<\na<",
		"a> SELECT 1 | BLPOP k 0 | SELECT 0 | BLPOP k 0\na<\nx: RPUSH k 0\nx: SELECT 1\nx: RPUSH k 1\na<\na<\na<",
		"a> BLPOP k 0 | NOSUCH | BLPOP k | BLPOP k x\nx: RPUSH k 1\na<\na<\na<\na<",
		"a> BLPOP k 0 | QUIT | SET never 1\nx: RPUSH k 1\na<\na<\na<\nx: EXISTS never",
		"a> BLPOP k 0 | RESET | PING\nx: RPUSH k 1\na<\na<\na<",
		// What is served is gone before the next command of the pipeline.
		"a> BLPOP k 0\nx: RPUSH k 1 | LLEN k | LPOP k\na<",
		"a> BLPOP k 0\nx: RPUSH k 1 2 | LPOP k | RPUSH k 3\na<\nx: LRANGE k 0 -1",
		"a> BLPOP k 0\nb> BRPOP k 0\nx: RPUSH k 1 | RPUSH k 2 | RPUSH k 3 | LRANGE k 0 -1\na<\nb<",
		"a> BLPOP k 0\nx: RPUSH k 1 | DEL k | SET k v\na<",
		"a> BLPOP k 0\nx: SET k v | DEL k | RPUSH k 1 | LLEN k\na<",
		"a> BLPOP a b 0\nx: RPUSH b 1 | RPUSH a 2\na<",
		"a> BLPOP k 0\nx: SET s 1 | RPUSH k 1 | LTRIM k 1 0 | NOSUCH | RPUSH k 2\na<",
		"a> BZPOPMIN z 0\nx: ZADD z 1 a | ZCARD z | ZADD z 1 b | ZCARD z\na<",
		"a> BLMOVE k j LEFT LEFT 0\nx: RPUSH k 1 | LLEN j | BLPOP j 0 | LLEN k\na<",
		"a> BLPOP k 0\nx: SELECT 1 | RPUSH k 1 | MOVE k 0 | SELECT 0 | LLEN k\na<",
		"a> XREAD BLOCK 0 STREAMS s $\nx: XADD s 1-1 f v | XADD s 1-2 f v | DEL s\na<",
		"x: XGROUP CREATE s g $ MKSTREAM\na> XREADGROUP GROUP g c BLOCK 0 STREAMS s >\nx: XADD s 1-1 f v | XPENDING s g | XGROUP DESTROY s g\na<",
		"x: XGROUP CREATE s g $ MKSTREAM\na> XREADGROUP GROUP g c BLOCK 0 STREAMS s >\nx: FLUSHALL | XADD s 1-1 f v | XGROUP CREATE s g 0\na<",
		// Streams with several keys, groups and consumers.
		"x: XGROUP CREATE s g $ MKSTREAM\nx: XGROUP CREATE t g $ MKSTREAM\na> XREADGROUP GROUP g c BLOCK 0 STREAMS s t > >\nb> XREADGROUP GROUP g d BLOCK 0 STREAMS t >\nx: XADD t 1-1 f v\na<\nx: XADD t 1-2 f v\nb<\nx: XPENDING t g",
		"x: XGROUP CREATE s g $ MKSTREAM\nx: XGROUP CREATE s h $\na> XREADGROUP GROUP g c BLOCK 0 STREAMS s >\nb> XREADGROUP GROUP g d BLOCK 0 STREAMS s >\nc> XREADGROUP GROUP h e BLOCK 0 STREAMS s >\nd> XREAD BLOCK 0 STREAMS s $\nx: XADD s 1-1 f v\na<\nc<\nd<\nx: XADD s 1-2 f v\nb<",
		"x: XGROUP CREATE s g $ MKSTREAM\na> XREADGROUP GROUP g c BLOCK 0 STREAMS s >\nb> XREADGROUP GROUP g d BLOCK 0 STREAMS s >\na!\nx: XADD s 1-1 f v\nb<",
		"x: XGROUP CREATE s g $ MKSTREAM\na> XREADGROUP GROUP g c BLOCK 0 STREAMS s >\nb> XREADGROUP GROUP g d BLOCK 0 STREAMS s >\nx: CLIENT KILL ID @a\nx: XADD s 1-1 f v\nb<",
		"x: XGROUP CREATE s g $ MKSTREAM\na> XREADGROUP GROUP g c BLOCK 0 STREAMS s >\nb> XREADGROUP GROUP g d BLOCK 0 STREAMS s >\nx: MULTI\nx: CLIENT KILL ID @a\nx: XADD s 1-1 f v\nx: EXEC\nb<",
		"x: XADD s 1-1 f v\nx: XGROUP CREATE s g 0\nx: XDEL s 1-1\na> XREADGROUP GROUP g c BLOCK 0 STREAMS s >\nx: XADD s 1-2 f v\na<",
		"x: XADD s 1-1 f v\na> XREAD BLOCK 0 STREAMS s 1-1\nb> XREAD BLOCK 0 COUNT 2 STREAMS t s u 0 $ 0\nx: XADD s 1-2 f v\na<\nb<",
		"a> XREAD BLOCK 0 STREAMS s 5-5\nx: XADD s 1-1 f v\nx: XADD s 6-1 f v\na<",
		"x: SELECT 1\nx: XADD s 1-1 f v\na> XREAD BLOCK 0 STREAMS s $\nb> SELECT 1 | XREAD BLOCK 0 STREAMS s $\nb<\nx: XADD s 2-1 f v\nb<\na.",
		"x: XGROUP CREATE s g $ MKSTREAM\na> XREADGROUP GROUP g c BLOCK 0 STREAMS s >\nx: XGROUP DESTROY s g\na<\na: XREADGROUP GROUP g c BLOCK 0 STREAMS s >",
	}
}

// blockingEnds are about how waiting ends other than by being served.
func blockingEnds() []string {
	return []string{
		"a> BLPOP k 0\nx: CLIENT UNBLOCK @a\na<\nx: CLIENT UNBLOCK @a",
		"a> BLPOP k 0 | PING\nx: CLIENT UNBLOCK @a TIMEOUT\na<\na<\nx: RPUSH k 1\nx: LLEN k",
		"a> BLPOP k 0 | PING\nx: CLIENT UNBLOCK @a ERROR\na<\na<\nx: RPUSH k 1\nx: LLEN k",
		"a> BLMOVE k l LEFT LEFT 0\nx: CLIENT UNBLOCK @a\na<\na> BRPOPLPUSH k l 0\nx: CLIENT UNBLOCK @a error\na<",
		"a> BRPOPLPUSH k l 0\na.\na> BLMPOP 0 1 k LEFT\na.\na> BZPOPMIN k 0\na.\na> BZMPOP 0 1 k MAX\na.\na> XREAD BLOCK 0 STREAMS k $\na.",
		"x: XGROUP CREATE s g $ MKSTREAM\na> XREADGROUP GROUP g c BLOCK 0 STREAMS s >\na.\na> XREADGROUP GROUP g c BLOCK 0 STREAMS s >\nx: CLIENT UNBLOCK @a ERROR\na<",
		"a> BLPOP k 0\nx: CLIENT UNBLOCK @a maybe\nx: CLIENT UNBLOCK x\nx: CLIENT UNBLOCK @a TIMEOUT x\nx: CLIENT UNBLOCK\nx: CLIENT UNBLOCK 99999999\nx: CLIENT UNBLOCK -1\nx: CLIENT UNBLOCK @x\na.",
		// Who was served, or told before, is not unblocked.
		"a> BLPOP k 0\nx: RPUSH k 1\nx: CLIENT UNBLOCK @a\na<",
		"a> BLPOP k 0\nx: CLIENT UNBLOCK @a ERROR\nx: CLIENT UNBLOCK @a\nx: RPUSH k 1\na<\nx: LLEN k",
		"a> BLPOP k j 0\nx: MULTI\nx: CLIENT UNBLOCK @a\nx: RPUSH k 1\nx: RPUSH j 1\nx: EXEC\na<",
		"a> BLPOP k 0\nx: MULTI\nx: RPUSH k 1\nx: CLIENT UNBLOCK @a\nx: EXEC\na<",
		"a> BLPOP k 0\nb> BLPOP k 0\nx: CLIENT UNBLOCK @a\nx: RPUSH k 1\na<\nb<",
		// Timeouts.
		"a: BLPOP k 0.01\na: BRPOP k j 0.01\na: BLMOVE k j LEFT LEFT 0.01\na: BRPOPLPUSH k j 0.01\na: BLMPOP 0.01 1 k LEFT\na: BZPOPMIN k 0.01\na: BZPOPMAX k 0.01\na: BZMPOP 0.01 1 k MIN\na: XREAD BLOCK 10 STREAMS k $\nx: RPUSH k 1\nx: LLEN k",
		"a: BLPOP k 0.05 | PING | RPUSH k 1",
		"a> BLPOP k 1e12\nx: RPUSH k 1\na<",
		"a> BLPOP k -0.00001\nx: RPUSH k 1\na<",
		"a> BLPOP k 9223372036854774\nx: RPUSH k 1\na<\na> XREAD BLOCK 9223372036854775807 STREAMS s $\na.",
		"a> BLPOP k 0\nb: BLPOP k 0.01\nx: RPUSH k 1\na<",
		"x: SET k v\na> BLPOP j 0\nx: RPUSH k 1\na.",
		// Ends of connections.
		"a> BLPOP k 0\nx: CLIENT KILL ID @a\na<\nx: RPUSH k 1\nx: LLEN k\n#0",
		"a> BLPOP k 0 | RPUSH never 1\na!\nx: RPUSH k 1\nx: LLEN k\nx: EXISTS never\n#0",
		"a> BLPOP k j 0\nb> BLMOVE k j LEFT LEFT 0\nx: CLIENT KILL ID @a\nx: RPUSH k 1\nb<\nx: LRANGE j 0 -1\n#0",
		"a> BLPOP k 0\nx: MULTI\nx: RPUSH k 1\nx: CLIENT KILL ID @a\nx: EXEC\nx: LLEN k",
		"a> BLPOP k 0\nx: MULTI\nx: CLIENT KILL ID @a\nx: RPUSH k 1\nx: EXEC\nx: LLEN k",
		"a> BLPOP k 0\nb> BZPOPMAX k 0\nc> XREAD BLOCK 0 STREAMS k $\n#3\nx: CLIENT KILL ID @a\nx: CLIENT KILL ID @b\nx: CLIENT KILL ID @c\na<\nb<\nc<",
		"a> BLPOP k 0\na!\nx: RPUSH k 1\nx: CLIENT UNBLOCK @a\nx: LPOP k",
	}
}
