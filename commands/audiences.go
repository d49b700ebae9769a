package commands

import (
	"hash/maphash"
	"slices"
	"sync"
	"sync/atomic"

	"codeq/resp"
)

// audiences are who listens to what. Messages to one channel, and the more so to different ones, are posted side by side: a
// publisher takes read locks only. It holds them while it posts, so that a session which has left an audience gets
// nothing more from it. These locks are leaves but for those of Post. A client that was killed leaves the audiences when its
// session ends, a moment later; it is counted nowhere from the kill on.
type audiences struct {
	channels channelTable
	shards   channelTable
	patterns patternTable
}

// table is one of the registries.
type table interface {
	join(name string, ss *session)
	leave(name string, ss *session)
	size(name []byte) int // how many listen to this name
	names() []string
}

func (a *audiences) of(kind subscriptionKind) table {
	switch kind {
	case patternKind:
		return &a.patterns
	case shardKind:
		return &a.shards
	}
	return &a.channels
}

// audienceStripes spread the channels over so many locks.
const audienceStripes = 64

// channelTable has the audiences of channels.
type channelTable struct {
	seed    maphash.Seed
	stripes [audienceStripes]channelStripe
}

type channelStripe struct {
	mu       sync.RWMutex
	channels map[string][]*session
}

func (t *channelTable) init() {
	t.seed = maphash.MakeSeed()
	for i := range t.stripes {
		t.stripes[i].channels = make(map[string][]*session)
	}
}

func (t *channelTable) stripe(hash uint64) *channelStripe { return &t.stripes[hash%audienceStripes] }

func (t *channelTable) join(name string, ss *session) {
	s := t.stripe(maphash.String(t.seed, name))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.channels[name] = append(s.channels[name], ss)
}

func (t *channelTable) leave(name string, ss *session) {
	s := t.stripe(maphash.String(t.seed, name))
	s.mu.Lock()
	defer s.mu.Unlock()
	if left := without(s.channels[name], ss); len(left) > 0 {
		s.channels[name] = left
	} else {
		delete(s.channels, name)
	}
}

// without takes a session out of an audience. Even of thousands of pointers the search takes microseconds.
func without(all []*session, ss *session) []*session {
	i := slices.Index(all, ss)
	if i < 0 {
		return all
	}
	last := len(all) - 1
	all[i], all[last] = all[last], nil
	return all[:last]
}

func (t *channelTable) size(name []byte) int {
	s := t.stripe(maphash.Bytes(t.seed, name))
	s.mu.RLock()
	defer s.mu.RUnlock()
	return present(s.channels[string(name)])
}

// present counts those of an audience that were not killed.
func present(all []*session) (n int) {
	for _, ss := range all {
		if !ss.conn.Killed() {
			n++
		}
	}
	return n
}

func (t *channelTable) names() (all []string) {
	for i := range t.stripes {
		s := &t.stripes[i]
		s.mu.RLock()
		for name, sessions := range s.channels {
			if present(sessions) > 0 {
				all = append(all, name)
			}
		}
		s.mu.RUnlock()
	}
	return all
}

// tell posts the message to all who listen to the channel.
func (t *channelTable) tell(pos uint64, kind subscriptionKind, channel, text []byte) {
	s := t.stripe(maphash.Bytes(t.seed, channel))
	s.mu.RLock()
	defer s.mu.RUnlock()
	m := message{kind: kind, channel: channel, text: text}
	for _, ss := range s.channels[string(channel)] {
		ss.hear(pos, &m)
	}
}

// patternTable has the audiences of patterns, in the order in which the patterns came up.
type patternTable struct {
	used atomic.Int64 // patterns: without any, no lock is taken

	mu     sync.RWMutex
	byName map[string]*patternAudience
	order  []*patternAudience
}

type patternAudience struct {
	pattern  string
	sessions []*session
}

func (t *patternTable) join(name string, ss *session) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.byName[name]
	if p == nil {
		if t.byName == nil {
			t.byName = make(map[string]*patternAudience)
		}
		p = &patternAudience{pattern: name}
		t.byName[name] = p
		t.order = append(t.order, p)
		t.used.Add(1)
	}
	p.sessions = append(p.sessions, ss)
}

func (t *patternTable) leave(name string, ss *session) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.byName[name]
	if p.sessions = without(p.sessions, ss); len(p.sessions) > 0 {
		return
	}
	delete(t.byName, name)
	i := slices.Index(t.order, p)
	t.order = slices.Delete(t.order, i, i+1)
	t.used.Add(-1)
}

func (t *patternTable) size(name []byte) int {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if p := t.byName[string(name)]; p != nil {
		return present(p.sessions)
	}
	return 0
}

func (t *patternTable) names() (all []string) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	for _, p := range t.order {
		if present(p.sessions) > 0 {
			all = append(all, p.pattern)
		}
	}
	return all
}

// each visits the audiences whose pattern the channel matches.
func (t *patternTable) each(channel []byte, visit func(*patternAudience)) {
	if t.used.Load() == 0 {
		return
	}
	t.mu.RLock()
	defer t.mu.RUnlock()
	for _, p := range t.order {
		if globMatch([]byte(p.pattern), channel) {
			visit(p)
		}
	}
}

// matching counts who listens to the channel by a pattern.
func (t *patternTable) matching(channel []byte) (n int) {
	t.each(channel, func(p *patternAudience) { n += present(p.sessions) })
	return n
}

// tell posts the message to all who listen to the channel by a pattern, once for each of these.
func (t *patternTable) tell(pos uint64, channel, text []byte) {
	t.each(channel, func(p *patternAudience) {
		m := message{kind: patternKind, pattern: p.pattern, channel: channel, text: text}
		for _, ss := range p.sessions {
			ss.hear(pos, &m)
		}
	})
}

// message is one message to an audience. It is encoded when the first session needs it, once for each protocol version.
type message struct {
	kind          subscriptionKind
	pattern       string
	channel, text []byte
	encoded       [2][]byte // RESP2, RESP3
}

func (m *message) bytes(proto int) []byte {
	encoded := &m.encoded[proto-2]
	if *encoded != nil {
		return *encoded
	}
	var out resp.Writer
	out.SetProto(proto)
	_, _, word := m.kind.words()
	if m.kind == patternKind {
		out.Push(4)
		writeStrings(&out, word, m.pattern)
	} else {
		out.Push(3)
		out.BulkString(word)
	}
	out.Bulk(m.channel)
	out.Bulk(m.text)
	*encoded = out.Bytes()
	return *encoded
}

// hear posts a message to the session. It may leave when the log has got to pos; see Acknowledge.
func (ss *session) hear(pos uint64, m *message) {
	for old := ss.heard.Load(); old < pos && !ss.heard.CompareAndSwap(old, pos); old = ss.heard.Load() {
	}
	ss.conn.Post(m.bytes(int(ss.proto.Load())))
}
