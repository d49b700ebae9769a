package scripting

import (
	"testing"
)

// claimBody is a claim script of the usual shape: it pops from the first list that has an element and answers the element
// with its payload.
const claimBody = `
local inprog, tasks = KEYS[1], KEYS[2]
local tries = tonumber(ARGV[1])
for i = 3, #KEYS do
  for _ = 1, tries do
    local id = redis.call('RPOP', KEYS[i])
    if not id then break end
    if redis.call('SADD', inprog, id) == 1 then
      return {id, redis.call('HGET', tasks, id)}
    end
  end
end
return false
`

// olderClaimBody claims from one list.
const olderClaimBody = `
local id = redis.call('RPOP', KEYS[1])
if not id then return false end
redis.call('SADD', KEYS[2], id)
return id
`

// cannedCaller answers as if each list had one element, without any work of its own.
type cannedCaller struct{}

func (cannedCaller) Begin(Flags) error { return nil }

func (cannedCaller) Wrote() bool { return true }

func (cannedCaller) Call(dst []byte, _ int, args [][]byte) ([]byte, error) {
	switch args[0][0] {
	case 'S':
		return append(dst, ":1\r\n"...), nil
	case 'H':
		return append(dst, "$9\r\n{\"id\":\"1\"\r\n"...), nil
	}
	return append(dst, "$6\r\ntask-1\r\n"...), nil
}

func bytesOf(words ...string) [][]byte {
	out := make([][]byte, len(words))
	for i, w := range words {
		out[i] = []byte(w)
	}
	return out
}

func claimKeys() [][]byte {
	keys := []string{"codeq:q:G:inprog", "codeq:tasks"}
	for p := 9; p >= 0; p-- {
		keys = append(keys, "codeq:q:G:pending:"+string(rune('0'+p)))
	}
	return bytesOf(keys...)
}

func loaded(t testing.TB, e *Engine, body string) []byte {
	t.Helper()
	sha, err := e.Load([]byte(body))
	if err != nil {
		t.Fatal(err)
	}
	return []byte(sha)
}

func TestClaimScripts(t *testing.T) {
	e := New(Options{})
	sha := loaded(t, e, claimBody)
	got, _, err := e.EvalSHA(nil, sha, claimKeys(), bytesOf("5"), cannedCaller{}, 2)
	if want := "*2\r\n$6\r\ntask-1\r\n$9\r\n{\"id\":\"1\"\r\n"; err != nil || string(got) != want {
		t.Errorf("claim: got %q, %v, want %q", got, err, want)
	}
	got, _, err = e.EvalSHA(nil, loaded(t, e, olderClaimBody), bytesOf("p", "i"), nil, cannedCaller{}, 2)
	if want := "$6\r\ntask-1\r\n"; err != nil || string(got) != want {
		t.Errorf("older claim: got %q, %v, want %q", got, err, want)
	}
}

func TestClaimAllocations(t *testing.T) {
	e := New(Options{})
	sha, keys := loaded(t, e, olderClaimBody), bytesOf("pending", "inprog")
	dst := make([]byte, 0, 256)
	n := testing.AllocsPerRun(100, func() {
		dst, _, _ = e.EvalSHA(dst[:0], sha, keys, nil, cannedCaller{}, 2)
	})
	// The string of the reply; anything beyond is a regression.
	if n > 1 {
		t.Errorf("a claim allocates %v times", n)
	}
}

func BenchmarkClaim(b *testing.B) {
	for name, body := range map[string]string{"ten lists": claimBody, "one list": olderClaimBody} {
		b.Run(name, func(b *testing.B) {
			e := New(Options{})
			sha, keys, args := loaded(b, e, body), claimKeys(), bytesOf("5")
			var dst []byte
			b.ReportAllocs()
			for b.Loop() {
				dst, _, _ = e.EvalSHA(dst[:0], sha, keys, args, cannedCaller{}, 2)
			}
		})
	}
}

func BenchmarkLoop(b *testing.B) {
	e := New(Options{})
	sha := loaded(b, e, "local s = 0 for i = 1, 100000 do s = s + i % 7 end return s")
	for b.Loop() {
		_, _, _ = e.EvalSHA(nil, sha, nil, nil, cannedCaller{}, 2)
	}
}
