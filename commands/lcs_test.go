package commands

import (
	"math/rand/v2"
	"testing"
)

func TestLCSLikeRedis(t *testing.T) {
	sameAsRedis(t, "lcs.txt", lcsCommands(), stringCommands(), listCommands())
}

// TestCommonSubsequences checks of random strings that what is found is in both, in order, and as long as the table says.
func TestCommonSubsequences(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	word := func() []byte {
		b := make([]byte, rng.IntN(30))
		for i := range b {
			b[i] = "abc"[rng.IntN(3)]
		}
		return b
	}
	for range 500 {
		x, y := word(), word()
		came := newBitTable(len(x), len(y))
		length := fillLCS(x, y, came)
		if other := fillLCS(y, x, nil); other != length {
			t.Fatalf("%s, %s: %d one way, %d the other", x, y, length, other)
		}
		found, i, j := 0, len(x), len(y)
		for _, m := range traceLCS(x, y, came) {
			if m.inX+m.length > i || m.inY+m.length > j || string(x[m.inX:m.inX+m.length]) != string(y[m.inY:m.inY+m.length]) {
				t.Fatalf("%s, %s: bad match %+v", x, y, m)
			}
			i, j = m.inX, m.inY
			found += m.length
		}
		if found != length {
			t.Fatalf("%s, %s: found %d bytes of %d", x, y, found, length)
		}
	}
}
