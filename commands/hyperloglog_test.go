package commands

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"
)

func TestHyperLogLogsLikeRedis(t *testing.T) {
	sameAsRedis(t, "hyperloglog.txt", hyperLogLogCommands(), stringCommands(), keyCommands(), listCommands())
}

func TestHyperLogLog(t *testing.T) {
	if err := testHyperLogLog(); err != nil {
		t.Error(err)
	}
}

// hllTwins are the handlers and a redis-server.
type hllTwins struct {
	t     *testing.T
	h     *handlers
	redis *realRedis
}

func newHLLTwins(t *testing.T) *hllTwins {
	return &hllTwins{t, newHandlers(t, hyperLogLogCommands(), stringCommands()), startRedis(t)}
}

// same compares the replies and returns them.
func (w *hllTwins) same(args ...string) string {
	w.t.Helper()
	words := make([][]byte, len(args))
	for i, arg := range args {
		words[i] = []byte(arg)
	}
	got, want := w.h.do(w.t, 2, words), w.redis.do(w.t, words)
	if got != want {
		w.t.Fatalf("%.80q\n got %.200q\nwant %.200q", args, got, want)
	}
	return got
}

// TestHyperLogLogBytes grows HyperLogLogs on both servers, from the first element until long after they have become
// dense, and compares replies and values byte for byte.
func TestHyperLogLogBytes(t *testing.T) {
	w := newHLLTwins(t)
	same := w.same
	rng := rand.New(rand.NewPCG(1, 2))
	became := map[string]bool{}
	for round := range 400 {
		key := fmt.Sprint("h", round%3)
		add := []string{"PFADD", key}
		for range 1 + rng.IntN(1+round/2) {
			add = append(add, fmt.Sprintf("%x", rng.Uint64N(1<<(8+8*(round%3)))))
		}
		same(add...)
		same("GET", key)
		became[same("PFDEBUG", "ENCODING", key)] = true
		switch round % 10 {
		case 3:
			same("PFCOUNT", key)
			same("GET", key)
		case 7:
			same("PFCOUNT", "h0", "h1", "h2")
		case 9:
			same("PFMERGE", fmt.Sprint("m", round%7), "h0", "h1")
			same("GET", fmt.Sprint("m", round%7))
		}
	}
	if !became["+sparse\r\n"] || !became["+dense\r\n"] {
		t.Errorf("only %v was met", became)
	}
	same("PFMERGE", "all", "h0", "h1", "h2", "m0", "m6")
	same("GET", "all")
	same("PFCOUNT", "all")
	same("PFDEBUG", "GETREG", "all")
}

// elementWith is an element whose hash puts the value into the register: the hash of eight bytes, undone step by step.
func elementWith(index int, value byte) string {
	multiplier, inverse := uint64(0xc6a4a7935bd1e995), uint64(1)
	for range 6 { // each step doubles the number of bits that are right
		inverse *= 2 - multiplier*inverse
	}
	hash := uint64(index)
	if value <= hllHashBits {
		hash |= 1 << (hllIndexBits + int(value) - 1)
	}
	h := (hash ^ hash>>47) * inverse
	h ^= h >> 47
	k := (h*inverse ^ hllSeed ^ 8*multiplier) * inverse
	k = (k ^ k>>47) * inverse
	return string(binary.LittleEndian.AppendUint64(nil, k))
}

// TestSparseRuns changes few registers again and again, so that runs are split and joined in every way, on both servers.
func TestSparseRuns(t *testing.T) {
	w := newHLLTwins(t)
	rng := rand.New(rand.NewPCG(3, 4))
	for n := range 6000 {
		key := fmt.Sprint("h", n/60)
		index, value := rng.IntN(14), byte(1+rng.IntN(4+n%60/20))
		if rng.IntN(10) == 0 {
			index = hllRegisterCount - 1 - rng.IntN(80)
		}
		element := elementWith(index, value)
		if i, v := registerOf([]byte(element)); i != index || v != value {
			t.Fatalf("register %d is %d, want %d, %d", i, v, index, value)
		}
		w.same("PFADD", key, element)
		w.same("GET", key)
		if n%60 == 59 {
			w.same("PFMERGE", key, fmt.Sprint("h", rng.IntN(1+n/60)))
			w.same("GET", key)
		}
	}
}

// TestBecomingDense meets the two limits of the sparse representation one element at a time.
func TestBecomingDense(t *testing.T) {
	w := newHLLTwins(t)
	for _, value := range []byte{31, 32, 33, 50, 51} {
		key := fmt.Sprint("v", value)
		w.same("PFADD", key, "a", elementWith(99, value))
		w.same("PFDEBUG", "ENCODING", key)
		w.same("GET", key)
		w.same("PFCOUNT", key)
	}
	rng := rand.New(rand.NewPCG(5, 6))
	full := 0
	for n := range 8 {
		key := fmt.Sprint("full", n)
		for {
			w.same("PFADD", key, fmt.Sprint(rng.Uint32()))
			length := w.same("STRLEN", key)
			if length == ":3000\r\n" {
				full++
			}
			if length == fmt.Sprintf(":%d\r\n", hllDenseBytes) {
				break
			}
		}
		w.same("GET", key)
	}
	if full == 0 {
		t.Error("none had the longest sparse representation")
	}
}

// TestEstimatesLikeRedis fills registers with all values, up to the highest, and compares the estimates.
func TestEstimatesLikeRedis(t *testing.T) {
	w := newHLLTwins(t)
	rng := rand.New(rand.NewPCG(7, 8))
	for n := range 40 {
		key := fmt.Sprint("h", n%4)
		add := []string{"PFADD", key}
		for range 4000 {
			index := rng.IntN(hllRegisterCount)
			add = append(add, elementWith(index, byte(1+rng.IntN(1+n)+rng.IntN(13))))
		}
		w.same(add...)
		w.same("PFCOUNT", key)
		w.same("PFCOUNT", "h0", "h1", "h2", "h3")
	}
	for _, values := range []struct{ lowest, number int }{
		{hllHashBits - 2, 4}, {hllHashBits - 1, 2}, {hllHashBits, 1}, {hllHashBits + 1, 1},
	} {
		key := fmt.Sprint("all", values.lowest)
		add := []string{"PFADD", key}
		for i := range hllRegisterCount {
			add = append(add, elementWith(i, byte(values.lowest+i%values.number)))
		}
		w.same(add...)
		w.same("PFCOUNT", key)
		w.same("GET", key)
	}
}

// TestRegisters writes every value to the registers of the dense representation and reads it back beside others.
func TestRegisters(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	h := make(hyperLogLog, hllDenseBytes)
	var want hllRegisters
	for range 200_000 {
		i, value := rng.IntN(hllRegisterCount), byte(rng.IntN(1<<hllRegisterBits))
		h.setRegister(i, value)
		want[i] = value
	}
	for i, value := range want {
		if got := h.register(i); got != value {
			t.Fatalf("register %d is %d, want %d", i, got, value)
		}
	}
	if !bytes.Equal(h[:hllHeaderBytes], make([]byte, hllHeaderBytes)) {
		t.Error("the header was changed")
	}
}

// TestHyperLogLogOfAnyBytes gives values that no server wrote to all readers: they answer or refuse, and change nothing
// that they were given.
func TestHyperLogLogOfAnyBytes(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 3000 {
		runs := make([]byte, rng.IntN(60))
		for i := range runs {
			runs[i] = byte(rng.Uint32())
		}
		draft := newDraft()
		value := append(draft.hyperLogLog[:hllHeaderBytes:hllHeaderBytes], runs...)
		if rng.IntN(2) == 0 { // as many registers as there have to be
			value = appendRun(value, 0, max(1, hllRegisterCount-registersOf(runs)))
		}
		before := string(value)
		d := hllDraft{hyperLogLog: value}
		for range 20 {
			if d.raise(rng.IntN(hllRegisterCount), byte(1+rng.IntN(51))) != nil {
				break
			}
		}
		var registers hllRegisters
		if d.mergeInto(&registers) == nil && registers.estimate() < 0 {
			t.Fatalf("%x counts %d", before, registers.estimate())
		}
		if string(value) != before {
			t.Fatalf("%x was changed in place", before)
		}
	}
}

// registersOf counts the registers of the runs.
func registersOf(runs []byte) (n int) {
	for len(runs) > 0 {
		r := firstRun(runs)
		n += r.length
		runs = runs[min(r.bytes, len(runs)):]
	}
	return n
}
