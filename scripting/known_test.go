package scripting

import "testing"

// TestKnownDifferences keeps what is known to differ from Redis 7.0, so that a change is noticed and told to users. The
// virtual machine decides these without asking us.
func TestKnownDifferences(t *testing.T) {
	e := New(Options{})
	for _, c := range []struct{ body, ours, redis string }{
		{"return #setmetatable({}, {__len = function() return 5 end})", ":5\r\n", ":0\r\n"},
		{"local t = {1, 2, 3} t[10] = 0 return #t", ":10\r\n", ":3\r\n"},
		{"return cjson.encode({b = 1, a = 2})", "$13\r\n{\"b\":1,\"a\":2}\r\n", "$13\r\n{\"a\":2,\"b\":1}\r\n"},
		{"return type(rawget(_G, '__redis__err__handler'))", "$3\r\nnil\r\n", "$8\r\nfunction\r\n"},
		{"return (pcall(string.dump, function() end))", "$-1\r\n", ":1\r\n"},
		{"return KEYS()", "-ERR user_script:1: attempt to call a table value script: 3985c2516543d64279efbc5d992bb58353f392e6, on @user_script:1.\r\n",
			"-ERR user_script:1: attempt to call global 'KEYS' (a table value) script: 3985c2516543d64279efbc5d992bb58353f392e6, on @user_script:1.\r\n"},
		{"return (select(2, pcall(function() local t = {} return t + 1 end)))", "$61\r\nuser_script:1: attempt to perform arithmetic on a table value\r\n",
			"$73\r\nuser_script:1: attempt to perform arithmetic on local 't' (a table value)\r\n"},
	} {
		if got := eval(t, e, c.body); got != c.ours {
			t.Errorf("%s: %q, want %q (Redis: %q)", c.body, got, c.ours, c.redis)
		}
	}
}
