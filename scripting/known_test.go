package scripting

import "testing"

// TestKnownDifferences keeps what is known to differ from Redis 7.0, so that a change is noticed and told to users.
func TestKnownDifferences(t *testing.T) {
	e := New(Options{})
	for _, c := range []struct{ body, ours, redis string }{
		// There is no byte code of Lua's to write, and none is read.
		{"return (pcall(string.dump, function() end))", "$-1\r\n", ":1\r\n"},
		// Garbage is collected for the whole process.
		{"return collectgarbage('count')", ":0\r\n", ":61\r\n"},
		// An error in the function of load is answered as it was thrown, and not what Redis' own handler makes of it.
		{"return type(select(2, load(function() error('x') end)))", "$6\r\nstring\r\n", "$5\r\ntable\r\n"},
		// The whole text is read before it is parsed.
		{"local n = 0 load(function() n = n + 1 return n < 5 and 'x y' or nil end) return n", ":5\r\n", ":2\r\n"},
	} {
		if got := eval(t, e, c.body); got != c.ours {
			t.Errorf("%s: %q, want %q (Redis: %q)", c.body, got, c.ours, c.redis)
		}
	}
}
