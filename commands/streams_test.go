package commands

import (
	"fmt"
	"testing"
	"time"

	"codeq/resp"
	"codeq/shard"
)

func TestStreamsLikeRedis(t *testing.T) {
	sameAsRedis(t, "streams.txt", streamCommands(), stringCommands(), keyCommands())
}

func TestStreamIDs(t *testing.T) {
	for _, test := range []struct {
		text    string
		partial bool
		want    shard.StreamID
		open    bool
		ok      bool
	}{
		{"1-2", false, shard.StreamID{Ms: 1, Seq: 2}, false, true},
		{"1", false, shard.StreamID{Ms: 1, Seq: 9}, false, true},
		{"1-*", false, shard.StreamID{}, false, false},
		{"1-*", true, shard.StreamID{Ms: 1}, true, true},
		{"1-**", true, shard.StreamID{}, false, false},
		{" 01-+2", false, shard.StreamID{Ms: 1, Seq: 2}, false, true},
		{"1-2\x00rubbish", false, shard.StreamID{Ms: 1, Seq: 2}, false, true},
		{"18446744073709551615-18446744073709551615", false, shard.LastStreamID(), false, true},
		{"18446744073709551616-1", false, shard.StreamID{}, false, false},
		{"-", false, shard.StreamID{}, false, false},
		{"+", false, shard.StreamID{}, false, false},
		{"1-", false, shard.StreamID{}, false, false},
		{"1--1", false, shard.StreamID{}, false, false},
		{"", false, shard.StreamID{}, false, false},
	} {
		id, open, ok := parseStreamID([]byte(test.text), 9, test.partial)
		if ok != test.ok || ok && (id != test.want || open != test.open) {
			t.Errorf("%q: %v, open %t, %t; want %v, open %t, %t", test.text, id, open, ok, test.want, test.open, test.ok)
		}
	}
}

// TestStreamClock: the ids that the server chooses, and what it tells of times.
func TestStreamClock(t *testing.T) {
	h := newHandlers(t, streamCommands())
	expect := func(line, want string) {
		t.Helper()
		if got := h.do(t, 2, splitLine(t, line)); got != want {
			t.Errorf("%s: got %q, want %q", line, got, want)
		}
	}
	bulk := func(text string) string { return fmt.Sprintf("$%d\r\n%s\r\n", len(text), text) }
	start := h.clock.NowMs()
	id := func(ms int64, seq int) string { return bulk(fmt.Sprintf("%d-%d", ms, seq)) }
	expect("XADD s * a b", id(start, 0))
	expect("XADD s * a b", id(start, 1))
	h.clock.Advance(time.Millisecond)
	expect("XADD s * a b", id(start+1, 0))
	h.clock.Advance(-time.Hour)
	expect("XADD s * a b", id(start+1, 1)) // never back
	h.clock.Advance(time.Hour + time.Second)
	last := fmt.Sprintf("%d-18446744073709551615", start+5000)
	expect("XADD s "+last+" a b", bulk(last))
	expect("XADD s * a b", id(start+5001, 0))

	expect("XGROUP CREATE s g 0", "+OK\r\n")
	entry := "*1\r\n*2\r\n$1\r\ns\r\n*1\r\n*2\r\n" + id(start, 0) + "*2\r\n$1\r\na\r\n$1\r\nb\r\n"
	expect("XREADGROUP GROUP g c COUNT 1 STREAMS s >", entry)
	consumer := func(idle int) string {
		return fmt.Sprintf("*1\r\n*6\r\n$4\r\nname\r\n$1\r\nc\r\n$7\r\npending\r\n:1\r\n$4\r\nidle\r\n:%d\r\n", idle)
	}
	expect("XINFO CONSUMERS s g", consumer(0))
	h.clock.Advance(1500 * time.Millisecond)
	expect("XINFO CONSUMERS s g", consumer(1500))
	pending := func(idle, deliveries int) string {
		return fmt.Sprintf("*1\r\n*4\r\n%s$1\r\nc\r\n:%d\r\n:%d\r\n", id(start, 0), idle, deliveries)
	}
	expect("XPENDING s g - + 10", pending(1500, 1))
	expect("XPENDING s g IDLE 1500 - + 10", pending(1500, 1))
	expect("XPENDING s g IDLE 1501 - + 10", "*0\r\n")
	first := fmt.Sprintf("%d-0", start)
	expect("XCLAIM s g c 1501 "+first, "*0\r\n")
	expect("XCLAIM s g c 1500 "+first+" JUSTID IDLE 700", "*1\r\n"+bulk(first))
	expect("XPENDING s g - + 10", pending(700, 1))
	expect("XINFO CONSUMERS s g", consumer(0))
	expect("XAUTOCLAIM s g c 701 0", "*3\r\n$3\r\n0-0\r\n*0\r\n*0\r\n")
	expect("XAUTOCLAIM s g c 700 0 JUSTID", "*3\r\n$3\r\n0-0\r\n*1\r\n"+bulk(first)+"*0\r\n")
	h.clock.Advance(time.Second)
	expect("XREADGROUP GROUP g nobody STREAMS s 0", "*1\r\n*2\r\n$1\r\ns\r\n*0\r\n")
	expect("XPENDING s g - + 10", pending(1000, 1))
	expect("XREADGROUP GROUP g c STREAMS s 0", entry)
	expect("XPENDING s g - + 10", pending(0, 2))
}

// blockedRead is a call of XREAD or XREADGROUP that waits.
type blockedRead struct {
	out    resp.Writer
	waiter *shard.Waiter
	over   bool
}

func (h *handlers) blockRead(t *testing.T, line string) *blockedRead {
	t.Helper()
	b := &blockedRead{}
	args := splitLine(t, line)
	cmd, _ := h.table.Resolve(args)
	c := &Call{Args: args, Out: &b.out, cmd: cmd, tx: h.tx}
	r := streamRead{out: &b.out}
	a := arguments{rest: args[1:]}
	h.tx.Begin(h.store.All())
	defer h.tx.End()
	ids := r.parse(c, &a)
	err := a.err
	if err == nil {
		err = r.resolve(c.DB(), ids)
	}
	if err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	try := func(tx *shard.Tx, key []byte) (bool, error) { return r.serve(tx.DB(0), key) }
	b.waiter = shard.NewWaiter(0, shard.KindStream, r.keys, try, func() { b.over = true })
	b.waiter.SetRivals(string(r.group))
	if err := h.tx.Block(b.waiter); err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	return b
}

// TestStreamsServeWaiting: what calls that wait are replied when something comes, against what Redis replies.
func TestStreamsServeWaiting(t *testing.T) {
	h := newHandlers(t, streamCommands(), stringCommands(), keyCommands())
	do := func(lines ...string) {
		for _, line := range lines {
			h.do(t, 2, splitLine(t, line))
		}
	}
	over := func(b *blockedRead, want string, wantErr error) {
		t.Helper()
		if !b.over || !b.waiter.Resume(h.store.NewTx()) {
			t.Fatalf("it waits; want %q, %v", want, wantErr)
		}
		_, _, err := b.waiter.Result()
		if got := string(b.out.Bytes()); got != want || err != wantErr {
			t.Errorf("got %q, %v; want %q, %v", got, err, want, wantErr)
		}
	}
	const entry = "*1\r\n*2\r\n$1\r\ns\r\n*1\r\n*2\r\n$3\r\n%s\r\n*2\r\n$1\r\na\r\n$1\r\nb\r\n"
	do("XADD s 1-1 a b", "XGROUP CREATE s g $", "XGROUP CREATE t g $ MKSTREAM")
	plain := h.blockRead(t, "XREAD BLOCK 0 STREAMS none s 0 $")
	one := h.blockRead(t, "XREADGROUP GROUP g c BLOCK 0 COUNT 1 STREAMS s t > >")
	two := h.blockRead(t, "XREADGROUP GROUP g d BLOCK 0 NOACK STREAMS s >")
	do("XADD s 1-2 a b")
	over(plain, fmt.Sprintf(entry, "1-2"), nil)
	over(one, fmt.Sprintf(entry, "1-2"), nil)
	do("XADD s 1-3 a b")
	over(two, fmt.Sprintf(entry, "1-3"), nil)
	const pending = "*4\r\n:1\r\n$3\r\n1-2\r\n$3\r\n1-2\r\n*1\r\n*2\r\n$1\r\nc\r\n$1\r\n1\r\n"
	if got := h.do(t, 2, splitLine(t, "XPENDING s g")); got != pending {
		t.Errorf("pending %q, want %q", got, pending)
	}
	group := h.blockRead(t, "XREADGROUP GROUP g c BLOCK 0 STREAMS s >")
	do("XACK s g 1-2", "XSETID s 1-5", "XGROUP CREATE s other 0", "XDEL s 1-3")
	if group.over {
		t.Error("served without an entry")
	}
	do("XGROUP DESTROY s g")
	over(group, "", resp.ErrStreamGroupGone)
	do("XGROUP CREATE s g $")
	group = h.blockRead(t, "XREADGROUP GROUP g c BLOCK 0 STREAMS s >")
	later := h.blockRead(t, "XREAD BLOCK 0 STREAMS s $")
	do("SET s string")
	over(group, "", resp.ErrStreamGone)
	do("DEL s", "XADD s 1-1 a b") // not behind what was last when the call began
	if later.over {
		t.Error("served with an entry of the past")
	}
	do("XADD s 1-6 a b")
	over(later, fmt.Sprintf(entry, "1-6"), nil)
}
