package tests

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"codeq/internal/peer"
)

const (
	// duelSessions is how many connections each server gets, so that WATCH has something to see.
	duelSessions = 2
	// duelDatabases is how many databases the generator's SELECT can reach.
	duelDatabases = 3
	// duelBatch is the most commands that are sent before their replies are read.
	duelBatch = 6
	// duelCheck is how many steps pass between comparisons of the whole state.
	duelCheck = 500
	// duelContext is how many earlier commands a difference shows.
	duelContext = 12
)

// duel sends the same random commands to two servers and compares.
type duel struct {
	seed     uint64
	proto    int
	gen      *gen
	families []family
	total    int // of all weights
	sides    [2]*side
	sessions [duelSessions]session
	history  []sent
	step     int
	accepted map[string]int // how often each command was answered by something other than an error
}

// side is one of the two servers.
type side struct {
	name  string
	conns [duelSessions]*peer.Conn
	admin *peer.Conn // looks at the state and evens out random choices
}

// session is what both servers' connection of one number has seen.
type session struct {
	db      int
	inMulti bool
	queue   []sent
}

type sent struct {
	session int
	row     *row
	args    []string
}

// difference is what a duel ends with when the servers disagree.
type difference struct {
	what    string
	replies [2]string
	context []sent
	duel    *duel
}

func (e *difference) Error() string {
	var b strings.Builder
	d := e.duel
	fmt.Fprintf(&b, "-seed=%d step %d RESP%d: %s\n", d.seed, d.step, d.proto, e.what)
	for i, side := range d.sides {
		fmt.Fprintf(&b, "  %-9s %q\n", side.name+":", e.replies[i])
	}
	b.WriteString("last commands on the same keys (session, command):\n")
	for _, c := range e.context {
		fmt.Fprintf(&b, "  %d %q\n", c.session, c.args)
	}
	return b.String()
}

// differ makes the error, with the last commands that share a key with args or touch all keys.
func (d *duel) differ(what string, args []string, a, b []byte) error {
	e := &difference{what: what, replies: [2]string{string(a), string(b)}, duel: d}
	for i := len(d.history) - 1; i >= 0 && len(e.context) < duelContext; i-- {
		if d.history[i].related(args, strings.HasPrefix(what, "EXEC")) {
			e.context = append(e.context, d.history[i])
		}
	}
	slices.Reverse(e.context)
	return e
}

// related reports whether the command has a key among args or concerns all keys; in a transaction's context also
// whether it begins or ends one or decides on its fate.
func (c *sent) related(args []string, transaction bool) bool {
	switch strings.ToUpper(c.args[0]) {
	case "FLUSHALL", "FLUSHDB", "SELECT":
		return true
	case "MULTI", "EXEC", "DISCARD", "WATCH", "UNWATCH":
		return transaction
	}
	return slices.ContainsFunc(c.args[1:], func(arg string) bool {
		return slices.Contains(args, arg) && slices.Contains(allKeys(), arg)
	})
}

func newDuel(t *testing.T, seed uint64, proto int, a, b *peer.Server) *duel {
	t.Helper()
	d := &duel{seed: seed, proto: proto, gen: &gen{rng: newRand(seed, uint64(proto))}, families: families(),
		accepted: map[string]int{}}
	for _, f := range d.families {
		for _, r := range f.rows {
			d.total += r.weight
		}
	}
	for i, server := range []*peer.Server{a, b} {
		side := &side{name: string(server.Kind()), admin: server.DialForTest(t)}
		for j := range side.conns {
			side.conns[j] = server.DialForTest(t)
			if err := side.conns[j].Hello(proto); err != nil {
				t.Fatal(err)
			}
		}
		for _, command := range [][]string{{"FLUSHALL"}, {"SCRIPT", "FLUSH"}} {
			if _, err := side.admin.Call(command...); err != nil {
				t.Fatal(err)
			}
		}
		d.sides[i] = side
	}
	return d
}

// draw draws a row by weight and a command of it.
func (d *duel) draw() (*row, []string) {
	at := d.gen.rng.IntN(d.total)
	for i := range d.families {
		f := &d.families[i]
		for j := range f.rows {
			if at -= f.rows[j].weight; at < 0 {
				return &f.rows[j], d.gen.draw(f, &f.rows[j])
			}
		}
	}
	panic("weights do not add up")
}

// run sends so many commands, compares replies and now and then the whole state.
func (d *duel) run(steps int) error {
	for check := duelCheck; d.step < steps; {
		if err := d.batch(d.gen.rng.IntN(duelSessions)); err != nil {
			return err
		}
		if d.step >= check {
			check += duelCheck
			if err := d.compareState(); err != nil {
				return err
			}
		}
	}
	return d.compareState()
}

// batch sends one command, or some at once, on a session.
func (d *duel) batch(s int) error {
	size := 1
	if d.gen.chance(20) {
		size += d.gen.rng.IntN(duelBatch)
	}
	var batch []sent
	for len(batch) < size {
		r, args := d.draw()
		if r.alone == nil && d.gen.chance(8) {
			r, args = d.gen.wrap(r, args)
		}
		if d.sessions[s].inMulti && d.gen.chance(12) {
			r, args = &row{name: "EXEC", equal: exact}, []string{"EXEC"}
		}
		if r.alone != nil && (d.sessions[s].inMulti || len(batch) > 0) {
			continue
		}
		c := sent{s, r, args}
		d.history = append(d.history, c)
		d.step++
		if r.alone != nil {
			return r.alone(d, s, r, args)
		}
		batch = append(batch, c)
		if len(args) == 1 && strings.EqualFold(args[0], "MULTI") {
			break // what may follow depends on the reply
		}
	}
	var out []byte
	for _, c := range batch {
		out = peer.AppendCommand(out, c.args...)
	}
	for _, side := range d.sides {
		if err := side.conns[s].Write(out); err != nil {
			return fmt.Errorf("%s: %w", side.name, err)
		}
	}
	for _, c := range batch {
		raw, err := d.read(s, c.args)
		if err != nil {
			return err
		}
		if err := d.judge(&d.sessions[s], c, raw); err != nil {
			return err
		}
	}
	return nil
}

// read reads one reply from each side.
func (d *duel) read(s int, args []string) (raw [2][]byte, err error) {
	for i, side := range d.sides {
		if raw[i], err = side.conns[s].Read(); err != nil {
			return raw, d.differ(fmt.Sprintf("%q: reading from %s: %v", args, side.name, err), args, raw[0], nil)
		}
	}
	return raw, nil
}

// exchange sends one command to both sides and reads the replies.
func (d *duel) exchange(s int, r *row, args []string) ([2][]byte, error) {
	for _, side := range d.sides {
		if err := side.conns[s].Send(args...); err != nil {
			return [2][]byte{}, fmt.Errorf("%s: %w", side.name, err)
		}
	}
	raw, err := d.read(s, args)
	if err == nil && raw[0][0] != '-' {
		d.accepted[r.name]++
	}
	return raw, err
}

// judge compares the replies to one command and notes what they do to the session.
func (d *duel) judge(s *session, c sent, raw [2][]byte) error {
	wrong := func() error { return d.differ(fmt.Sprintf("%q", c.args), c.args, raw[0], raw[1]) }
	a, errA := peer.Parse(raw[0])
	b, errB := peer.Parse(raw[1])
	if errA != nil || errB != nil {
		return wrong()
	}
	name := strings.ToUpper(c.args[0])
	d.answered(c.row, a)
	switch {
	case len(c.args) == 1 && name == "EXEC" && s.inMulti:
		if !d.sameExec(s, a, b) {
			return d.differ(fmt.Sprintf("EXEC of %q", commands(s.queue)), flat(s.queue), raw[0], raw[1])
		}
		*s = session{db: s.db}
		return nil
	case s.inMulti && string(raw[0]) == "+QUEUED\r\n":
		s.queue = append(s.queue, c)
		if !bytes.Equal(raw[0], raw[1]) {
			return wrong()
		}
		return nil
	}
	if !bytes.Equal(raw[0], raw[1]) && !c.row.equal(a, b) {
		return wrong()
	}
	ok := string(raw[0]) == "+OK\r\n"
	switch {
	case ok && name == "MULTI":
		s.inMulti = true
	case ok && name == "DISCARD":
		*s = session{db: s.db}
	case ok && name == "SELECT":
		s.selected(c.args)
	}
	return nil
}

func (d *duel) answered(r *row, reply peer.Reply) {
	if reply.Kind != '-' && reply.Str != "QUEUED" {
		d.accepted[r.name]++
	}
}

// sameExec compares the replies of EXEC one by one, each as its command asks for.
func (d *duel) sameExec(s *session, a, b peer.Reply) bool {
	if a.Kind != '*' || a.Null || len(a.Elems) != len(s.queue) || len(b.Elems) != len(s.queue) || a.Kind != b.Kind {
		return exact(a, b)
	}
	for i, c := range s.queue {
		if !c.row.equal(a.Elems[i], b.Elems[i]) {
			return false
		}
		if strings.EqualFold(c.args[0], "SELECT") && a.Elems[i].Str == "OK" {
			s.selected(c.args)
		}
	}
	return true
}

func (s *session) selected(args []string) {
	// The servers accepted it, so it is a number.
	s.db, _ = strconv.Atoi(args[1])
}

func commands(queue []sent) (out [][]string) {
	for _, c := range queue {
		out = append(out, c.args)
	}
	return out
}

func flat(queue []sent) (out []string) {
	for _, c := range queue {
		out = append(out, c.args...)
	}
	return out
}

// seedsToReachAll is the number of seeds after which a command that never succeeded is a fault of the generator.
const seedsToReachAll = 20

// checkReached wants every declared command to have succeeded at some time; one that only ever fails proves little.
func checkReached(t *testing.T, accepted [2]map[string]int) {
	t.Helper()
	for _, f := range families() {
		for _, r := range f.rows {
			if accepted[0][r.name]+accepted[1][r.name] == 0 && r.name != unknownCommand {
				t.Errorf("%s was never answered but by an error", r.name)
			}
		}
	}
}

// differentialSeeds is how many seeds a target gets. In the short form the default configuration gets most: what differs in the
// others is where a key lies.
func differentialSeeds(opts peer.Options) int {
	if !isDefault(opts) && *seedsFlag == 0 && !full() {
		return 6
	}
	return pick(*seedsFlag, seedsToReachAll, 200)
}

// TestDifferential sends the same random commands to redis-server and to the server under test and wants the same
// replies and the same state. Against itself Redis must agree, or the test would be wrong.
func TestDifferential(t *testing.T) {
	eachTargetAtOnce(t, shardedTargets(), func(t *testing.T, opts peer.Options) {
		if opts.Kind == peer.Redis {
			opts.AppendFsync = ""
		}
		first, seeds := seed(t), differentialSeeds(opts)
		accepted := [2]map[string]int{{}, {}} // by protocol
		for i := range accepted {
			t.Run(fmt.Sprint("RESP", 2+i), func(t *testing.T) {
				t.Parallel()
				reference, server := peer.ForTest(t, peer.Options{Kind: peer.Redis}), peer.ForTest(t, opts)
				for n := range (seeds + 1 - i) / 2 {
					d := newDuel(t, first+uint64(n), 2+i, reference, server)
					d.accepted = accepted[i]
					if err := d.run(*stepsFlag); err != nil {
						t.Fatal(err)
					}
				}
			})
		}
		t.Cleanup(func() {
			if seeds >= seedsToReachAll && !t.Failed() {
				checkReached(t, accepted)
			}
			t.Logf("%d seeds of %d commands", seeds, *stepsFlag)
		})
	})
}
