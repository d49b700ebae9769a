package scripting

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
)

// evalText is a script of 1,000 bytes that returns n.
func evalText(n int) []byte {
	body := fmt.Sprintf("return %d --", n)
	return []byte(body + strings.Repeat("x", 1000-len(body)))
}

func evaluate(t *testing.T, e *Engine, body []byte) {
	t.Helper()
	if reply, raised, err := e.Eval(nil, body, nil, nil, newFakeCaller(), 2); err != nil || raised || reply[0] == '-' {
		t.Fatalf("%.20q: %q, %v, %v", body, reply, raised, err)
	}
}

// TestEvalCacheIsBounded: of the scripts that came with EVAL the least recently used go, those that were loaded stay.
func TestEvalCacheIsBounded(t *testing.T) {
	const room = 8
	one := (&script{body: string(evalText(0))}).footprint()
	limit := room * one
	e := New(Options{EvalCacheBytes: func() int64 { return limit }})
	shaOf := func(n int) []byte {
		probe := New(Options{})
		sha, err := probe.Load(evalText(n))
		if err != nil {
			t.Fatal(err)
		}
		return []byte(sha)
	}
	if _, err := e.Load(evalText(-1)); err != nil {
		t.Fatal(err)
	}
	evaluate(t, e, evalText(0))
	for n := 1; n <= 100; n++ {
		evaluate(t, e, evalText(n))
		evaluate(t, e, evalText(0))
		if count, _ := e.Len(); count > room+1 {
			t.Fatalf("after %d scripts %d are cached", n, count)
		}
	}
	for n, want := range map[int]bool{-1: true, 0: true, 100: true, 99: true, 98: true, 80: false, 1: false} {
		if got := e.Exists(shaOf(n)); got != want {
			t.Errorf("script %d is cached: %v, want %v", n, got, want)
		}
	}
	// One that is loaded later stays as well, and does not count any more.
	if _, err := e.Load(evalText(100)); err != nil {
		t.Fatal(err)
	}
	limit = 0
	evaluate(t, e, evalText(101))
	for n, want := range map[int]bool{-1: true, 100: true, 101: true, 0: false} {
		if got := e.Exists(shaOf(n)); got != want {
			t.Errorf("without room, script %d is cached: %v, want %v", n, got, want)
		}
	}
	if e.cache.bytes != one {
		t.Errorf("%d bytes are counted, want %d", e.cache.bytes, one)
	}
	e.Flush()
	if count, size := e.Len(); count != 0 || size != 0 || e.cache.bytes != 0 {
		t.Errorf("after a flush: %d scripts, %d and %d bytes", count, size, e.cache.bytes)
	}
}

// TestFootprint holds the estimate against what scripts take.
func TestFootprint(t *testing.T) {
	for name, body := range map[string]string{"short": "return 1", "claim": claimBody,
		"long": strings.Repeat("do "+strings.ReplaceAll(claimBody, "return false", "")+" end ", 40), "data": "return {" + strings.Repeat("{1, 'x', true}, ", 500) + "}"} {
		const n = 200
		e := New(Options{EvalCacheBytes: func() int64 { return 1 << 40 }})
		var before, after runtime.MemStats
		runtime.GC()
		runtime.GC() // which takes what pools have kept in the first one
		runtime.ReadMemStats(&before)
		for i := range n {
			if err := e.Learn(fmt.Appendf(nil, "%s -- %d", body, i)); err != nil {
				t.Fatal(err)
			}
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		taken, estimate := int64(after.HeapAlloc-before.HeapAlloc), e.cache.bytes
		t.Logf("%s, %d bytes: %d bytes each, estimated %d", name, len(body), taken/n, estimate/n)
		if estimate < taken/2 || estimate > taken*4 {
			t.Errorf("%s: %d scripts take %d bytes, estimated as %d", name, n, taken, estimate)
		}
		runtime.KeepAlive(e)
	}
}

// TestRaised tells errors that end a script from those that it returns.
func TestRaised(t *testing.T) {
	for body, want := range map[string]bool{
		"return 1": false, "return {err='MY error script: x'}": false, "return redis.error_reply('MY error')": false,
		"return (": false, "error('x')": true, "redis.call('nosuch')": true, "redis.pcall('nosuch')": false,
		"return pcall(error, 'x')": false,
	} {
		_, raised, err := New(Options{}).Eval(nil, []byte(body), nil, nil, newFakeCaller(), 2)
		if err != nil || raised != want {
			t.Errorf("%s: raised is %v, %v; want %v", body, raised, err, want)
		}
	}
}
