package commands

import (
	"bytes"
	"math/rand/v2"
	"runtime"
	"testing"
)

// TestCommandQueue queues random commands, again and again in the same memory, and finds them as they were.
func TestCommandQueue(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	var q commandQueue
	for range 20 {
		var want [][][]byte
		for range random.IntN(300) {
			args := make([][]byte, 1+random.IntN(5))
			for i := range args {
				args[i] = bytes.Repeat([]byte{byte(random.Uint32())}, random.IntN(1<<random.IntN(18)))
			}
			sent := make([][]byte, len(args))
			for i, arg := range args {
				sent[i] = bytes.Clone(arg)
			}
			q.add(nil, sent)
			for i := range sent {
				clear(sent[i]) // the reader's buffer is written anew
			}
			want = append(want, args)
		}
		var size int64
		for i, args := range want {
			got := q.steps[i].args
			if len(got) != len(args) {
				t.Fatalf("command %d has %d words, not %d", i, len(got), len(args))
			}
			for k := range args {
				if !bytes.Equal(got[k], args[k]) || cap(got[k]) > len(got[k]) {
					t.Fatalf("word %d of command %d has %d bytes, room for %d", k, i, len(got[k]), cap(got[k]))
				}
			}
			size += footprint(args)
		}
		if len(q.steps) != len(want) || q.size != size {
			t.Fatalf("%d commands of %d bytes, not %d of %d", len(q.steps), q.size, len(want), size)
		}
		q.reset()
		if n := cap(q.bytes.last); n > maxKeptQueue || cap(q.words.last) > maxKeptPositions || cap(q.steps) > maxKeptSteps || q.size != 0 {
			t.Fatalf("an empty queue keeps room for %d bytes, %d words and %d steps, and counts %d",
				n, cap(q.words.last), cap(q.steps), q.size)
		}
	}
}

// TestCommandQueueMemory queues many commands, for which not much more may be allocated than they take.
func TestCommandQueueMemory(t *testing.T) {
	for _, length := range []int{1, 100, 5000, 40000, 64 << 10} {
		args := [][]byte{[]byte("rpush"), []byte("list"), make([]byte, length)}
		var q commandQueue
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		var want int64
		for want < 16<<20 {
			q.steps = q.steps[:0] // which grow as any slice does
			q.add(nil, args)
			want += footprint(args) - stepBytes
		}
		runtime.ReadMemStats(&after)
		if took := int64(after.TotalAlloc - before.TotalAlloc); took > want+want/4 {
			t.Errorf("arguments of %d bytes: %d bytes were allocated for %d", length, took, want)
		}
	}
}
