package commands

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"codeq/supplier"
)

// slotID is an id in the slot, of 2 digits.
func slotID(slot, n int) string { return fmt.Sprintf("%02x%06x", slot, n) }

func (c *client) enqueueSlots(queue string, slots ...int) {
	for i, slot := range slots {
		c.send(fmt.Sprintf("q.enqueue %s p id %s", queue, slotID(slot, i)))
	}
}

// claimed is the ids that a claim has yielded.
func (c *client) claimed(line string) (ids []string) {
	words := strings.Fields(c.send(line))
	for i, word := range words {
		if word == "id" {
			ids = append(ids, words[i+2])
		}
	}
	return ids
}

func TestClaimSlots(t *testing.T) {
	s := startQueues(t)
	c := s.client()
	c.enqueueSlots("mail", 0x10, 0x10, 0xff, 0x10, 0x00, 0x7f, 0x80)
	for _, test := range []struct{ line, want string }{
		{"q.claim w share 3 of 4 commands 1 mail", "[ff000002]"},
		{"q.claim w share 3 of 4 commands 1 mail", "[]"},
		{"q.claim w count 9 slots 10-10 commands 1 mail", "[10000000 10000001 10000003]"},
		{"q.claim w slots 01-7e commands 1 mail", "[]"},
		{"q.claim w COUNT 9 Share 0 oF 2 commands 1 mail", "[00000004 7f000005]"},
		{"q.claim w commands 1 mail", "[80000006]"},
		{"q.claim w share 0 of 1 commands 1 mail", "[]"},
	} {
		if got := fmt.Sprint(c.claimed(test.line)); got != test.want {
			t.Errorf("%s: %s, want %s", test.line, got, test.want)
		}
	}
	c.send("hello 3")
	c.send("q.enqueue mail p id 20aa")
	if got := c.send("q.claim w share 0 of 2 commands 1 mail"); !strings.HasPrefix(got, "*1 %") {
		t.Errorf("RESP3: %s", got)
	}
}

// TestClaimSlotsOfSeveral: a queue is not left waiting because another one that is named before it has tasks.
func TestClaimSlotsOfSeveral(t *testing.T) {
	c := startQueues(t).client()
	slots := make([]int, 40)
	c.enqueueSlots("mail", slots...)
	for i := range slots {
		c.send(fmt.Sprintf("q.enqueue sms p id 01%06x", i))
	}
	taken := map[string]int{}
	for range slots {
		for _, id := range c.claimed("q.claim w share 0 of 2 commands 2 mail sms") {
			taken[id[:2]]++
		}
	}
	if taken["00"] < 10 || taken["01"] < 10 || taken["00"]+taken["01"] != len(slots) {
		t.Errorf("claimed %v", taken)
	}
	if got := c.claimed("q.claim w count 50 share 0 of 2 commands 2 mail sms"); len(got) != len(slots) {
		t.Errorf("%d of %d are left", len(got), len(slots))
	}
}

// TestClaimSlotsOfSpread: queues that are spread take turns on each shard, too.
func TestClaimSlotsOfSpread(t *testing.T) {
	c := startSpread(t, 2).client()
	const tasks = 40 // of each queue, on each shard
	var mails []string
	for ordinal := range 2 {
		for i := range tasks {
			mails = append(mails, idOn(ordinal, i))
			c.send("q.enqueue mail p id "+idOn(ordinal, i), "q.enqueue sms p id "+idOn(ordinal, tasks+i))
		}
	}
	taken := map[bool]int{}
	for range 2 * tasks {
		for _, id := range c.claimed("q.claim w share 0 of 1 commands 2 mail sms") {
			taken[slices.Contains(mails, id)]++
		}
	}
	if taken[true] < tasks/2 || taken[false] < tasks/2 {
		t.Errorf("claimed %d of the one and %d of the other", taken[true], taken[false])
	}
}

func TestClaimSlotsRefused(t *testing.T) {
	s := startQueues(t)
	c := s.client()
	c.enqueueSlots("mail", 0x10)
	const shares = " is not possible in the queue mail: with 256 slots there can be 1 to 256 shares, which count from 0"
	for line, want := range map[string]string{
		"share 4 of 4":               "-ERR SHARE 4 OF 4" + shares,
		"share -1 of 4":              "-ERR SHARE -1 OF 4" + shares,
		"share 0 of 257":             "-ERR SHARE 0 OF 257" + shares,
		"share 0 of 0":               "-ERR OF is out of range: give 1 to 2147483647",
		"share x of 4":               "-ERR value is not an integer or out of range",
		"share 0":                    "-ERR syntax error",
		"share 0 4":                  "-ERR syntax error",
		"share 0 of 4 slots 00-ff":   "-ERR syntax error",
		"slots 00-ff slots 00-ff":    "-ERR syntax error",
		"slots 00":                   "-ERR syntax error",
		"slots 3f-00":                "-ERR SLOTS 3f-00 is not possible in the queue mail: its slots are 00-ff, in 2 hexadecimal digits, the lower one first",
		"slots 000-0ff":              "-ERR SLOTS 000-0ff is not possible in the queue mail: its slots are 00-ff, in 2 hexadecimal digits, the lower one first",
		"slots 00-f-":                "-ERR SLOTS 00-f- is not possible in the queue mail: its slots are 00-ff, in 2 hexadecimal digits, the lower one first",
		"slots 00-fg":                "-ERR SLOTS 00-fg is not possible in the queue mail: its slots are 00-ff, in 2 hexadecimal digits, the lower one first",
		"block 10 slots - share 1":   "-ERR syntax error",
		"block 10 share 999 of 1000": "-ERR SHARE 999 OF 1000" + shares,
	} {
		c.want(want, "q.claim w "+line+" commands 1 mail")
	}
	c.want(":1", "llen codeq:q:mail:pending:0")
	c.send("set codeq:q:mail:pending:3 x")
	c.want("-WRONGTYPE Operation against a key holding the wrong kind of value", "q.claim w share 0 of 1 commands 1 mail")
	c.want(":1", "llen codeq:q:mail:pending:0")
}

// TestSlotDigitsOfBacklog: what waits when the number of digits changes is cut anew, on one shard or on many, and nothing of it is lost.
func TestSlotDigitsOfBacklog(t *testing.T) {
	for name, s := range map[string]*testServer{"hash": startQueues(t), "task": startSpread(t, 4)} {
		c := s.client()
		s.set("queues", "mail shard-prefix-len=1")
		c.enqueueSlots("mail", 0x10, 0xa0, 0xa1, 0xa2, 0xb0)
		for _, test := range []struct{ digits, slots, want string }{
			{"1", "slots b-f", "[b0000004]"},
			{"3", "slots a10-a10", "[a1000002]"},
			{"3", "share 0 of 16", "[]"},
			{"2", "share 9 of 256", "[]"},
			{"2", "slots a1-a2", "[a2000003]"},
			{"4", "share 0 of 2", "[10000000]"},
			{"1", "slots a-a", "[a0000001]"},
		} {
			s.set("queues", "mail shard-prefix-len="+test.digits)
			if got := fmt.Sprint(c.claimed("q.claim w " + test.slots + " commands 1 mail")); got != test.want {
				t.Errorf("%s, %s digits: %s yields %s, want %s", name, test.digits, test.slots, got, test.want)
			}
		}
		c.want(":0 :5", "llen codeq:q:mail:pending:0", "scard codeq:q:mail:inprog")
	}
}

// TestSlotDigitsChangeUnderWaiters: who waits for a share is served by the slots of the day.
func TestSlotDigitsChangeUnderWaiters(t *testing.T) {
	s := startQueues(t)
	dial := s.listen()
	c := s.client()
	low, high := dial(), dial()
	low.send("q.claim w block 0 share 0 of 2 commands 1 mail")
	s.untilBlocked(1)
	high.send("q.claim w block 0 share 1 of 2 commands 1 mail")
	s.untilBlocked(2)
	s.set("queues", "mail shard-prefix-len=1")
	c.send("q.enqueue mail p id f0aa")
	high.expectTask("f0aa")
	s.set("queues", "mail shard-prefix-len=4")
	c.send("q.enqueue mail p id 7fff01")
	low.expectTask("7fff01")
}

// TestClaimSlotsBothWays mixes claims by slot with others and with raw commands, and restarts nothing: the lists stay what they are.
func TestClaimSlotsBothWays(t *testing.T) {
	s := startQueues(t)
	c := s.client()
	c.enqueueSlots("mail", 1, 2, 3, 1, 2, 3, 1, 2, 3)
	if got := fmt.Sprint(c.claimed("q.claim w count 2 slots 02-02 commands 1 mail")); got != "[02000001 02000004]" {
		t.Errorf("claimed %s", got)
	}
	c.want("*7 $8 03000008 $8 02000007 $8 01000006 $8 03000005 $8 01000003 $8 03000002 $8 01000000", "lrange codeq:q:mail:pending:0 0 -1")
	c.want("$8 01000000", "rpop codeq:q:mail:pending:0")
	c.want(":1", "lrem codeq:q:mail:pending:0 1 03000005")
	c.send("q.abandon w 02000001")
	if got := fmt.Sprint(c.claimed("q.claim w count 2 slots 02-03 commands 1 mail")); got != "[02000001 03000002]" {
		t.Errorf("claimed %s", got)
	}
	c.send("rename codeq:q:mail:pending:0 codeq:q:post:pending:5")
	if got := fmt.Sprint(c.claimed("q.claim w count 9 slots 00-ff commands 1 post")); got != "[01000003 02000007 03000008 01000006]" {
		t.Errorf("claimed %s", got)
	}
}

// TestClaimWaitsForSlots: a task goes to the first of those who wait for its slot, or for all; others keep their place.
func TestClaimWaitsForSlots(t *testing.T) {
	s := startQueues(t)
	dial := s.listen()
	c := s.client()
	waiting := int64(0)
	wait := func(option string) *wired {
		w := dial()
		w.send("q.claim w block 0 " + option + " commands 2 sms mail")
		waiting++
		s.untilBlocked(waiting)
		return w
	}
	high, low, otherHigh, all, lateHigh := wait("slots 80-ff"), wait("share 0 of 2"), wait("share 1 of 2"), wait(""), wait("slots f0-ff")
	enqueue := func(slot int, to *wired) {
		t.Helper()
		id := slotID(slot, int(waiting))
		c.send("q.enqueue mail p id " + id)
		to.expectTask(id)
		waiting--
		s.untilBlocked(waiting)
	}
	enqueue(0xf0, high)
	enqueue(0xf0, otherHigh)
	enqueue(0xf0, all)
	enqueue(0x10, low)
	enqueue(0xff, lateHigh)
	c.want(":0", "llen codeq:q:mail:pending:0")
	left := wait("slots 00-0f")
	c.send("q.enqueue mail p id 10aaaa")
	c.want(":1", "llen codeq:q:mail:pending:0")
	c.send("q.pause mail", "q.enqueue mail p id 01aaaa")
	c.want(":2", "llen codeq:q:mail:pending:0")
	c.send("q.resume mail")
	left.expectTask("01aaaa")
}

// TestManySlotWaiters: each of many workers, on shares that overlap, gets a task of its share, and none goes to two.
func TestManySlotWaiters(t *testing.T) {
	s := startQueues(t)
	dial := s.listen()
	c := s.client()
	const n = 32
	workers := make([]*wired, n)
	for i := range n {
		workers[i] = dial()
		workers[i].send(fmt.Sprintf("q.claim w%d block 0 share %d of %d commands 1 mail", i, i, n))
		s.untilBlocked(int64(i + 1))
	}
	for i := range n {
		slot := (i * 13 % n) * (256 / n)
		c.send(fmt.Sprintf("q.enqueue mail p id %s", slotID(slot, i)))
		worker := workers[int(supplier.Slot([]byte(slotID(slot, i)), 2))/(256/n)]
		worker.expectTask(slotID(slot, i))
	}
	s.untilBlocked(0)
	c.want(fmt.Sprintf(":%d :0", n), "scard codeq:q:mail:inprog", "llen codeq:q:mail:pending:0")
}

// TestOldBacklogIsFound: tasks that waited before the queue was first claimed by slot are found, however many there are, also by who waits;
// and again when the slots are cut anew.
func TestOldBacklogIsFound(t *testing.T) {
	s := startQueues(t)
	dial := s.listen()
	c := s.client()
	const n = 3500 // several steps of the index
	c.send("q.enqueue mail p id fe0001", "q.enqueue mail p id ff0001")
	ids := make([]string, n)
	for i := range ids {
		ids[i] = slotID(i%16, i)
	}
	c.send("rpush codeq:q:mail:pending:0 " + strings.Join(ids, " "))
	for digits, claim := range map[string]string{"2": "slots fe-fe", "3": "slots ff0-ff0"} {
		s.set("queues", "mail shard-prefix-len="+digits)
		w := dial()
		w.send("q.claim w block 0 " + claim + " commands 1 mail")
		w.expectTask(claim[6:8] + "0001")
	}
	c.want(fmt.Sprintf(":%d", n), "llen codeq:q:mail:pending:0")
}

// TestClaimSlotsSpread: shares cover the tasks of a queue that is spread over shards, each its own, and who waits for a share is told of
// its tasks on whatever shard.
func TestClaimSlotsSpread(t *testing.T) {
	s := startSpread(t, 4)
	dial := s.listen()
	c := s.client()
	const n, shares = 60, 3
	for i := range n {
		c.send("q.enqueue mail p id " + slotID(i*4, i))
	}
	for share := range shares {
		var got []string
		for ids := []string{""}; len(ids) > 0; got = append(got, ids...) {
			ids = c.claimed(fmt.Sprintf("q.claim w count 7 share %d of %d commands 1 mail", share, shares))
		}
		low, high := share*256/shares, (share+1)*256/shares-1
		for i := range n {
			want := 0
			if slot := i * 4; low <= slot && slot <= high {
				want = 1
			}
			if found := strings.Count(strings.Join(got, " "), slotID(i*4, i)); found != want {
				t.Errorf("share %d had %s %d times, want %d", share, slotID(i*4, i), found, want)
			}
		}
	}
	c.want(fmt.Sprintf(":0 :%d", n), "llen codeq:q:mail:pending:0", "scard codeq:q:mail:inprog")
	first := dial()
	first.send("q.claim w block 0 share 0 of 2 commands 1 mail")
	s.untilBlocked(1)
	for i := range 8 { // at home on different shards
		last, id := dial(), slotID(0xf0, 100+i)
		last.send("q.claim w block 0 share 1 of 2 commands 1 mail")
		s.untilBlocked(2)
		c.send("q.enqueue mail p id " + id)
		last.expectTask(id)
		s.untilBlocked(1)
	}
	c.send("q.enqueue mail p id " + slotID(0x01, 200))
	first.expectTask(slotID(0x01, 200))
}
