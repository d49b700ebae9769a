package commands

import (
	"maps"
	"slices"

	"codeq/commands/spec"
	"codeq/resp"
	"codeq/shard"
)

// Publish and subscribe. A session's own subscriptions are kept with it, who has subscribed to what in the server's registry;
// see audiences.go. A message is a note of the transaction that publishes it, so it leaves when that is committed, and
// once; see notify.go. Subscriptions are of three kinds, which differ in words only, and PUBLISH reaches two of them.

func pubSubCommands() []Command {
	const (
		listen = spec.PubSubFlag | spec.NoScript | spec.Loading | spec.Stale
		send   = spec.PubSubFlag | spec.Loading | spec.Stale | spec.Fast
	)
	return append([]Command{
		{Command: spec.Command{Name: "subscribe", Syntax: "SUBSCRIBE channel [channel ...]",
			Group: spec.PubSub, Since: "2.0.0", Complexity: "O(N) where N is the number of channels",
			Summary: "Listens for messages to channels.", Flags: listen},
			Run: subscribe(channelKind), Scope: scopeSession},
		{Command: spec.Command{Name: "unsubscribe", Syntax: "UNSUBSCRIBE [channel [channel ...]]",
			Group: spec.PubSub, Since: "2.0.0", Complexity: "O(N) where N is the number of clients that listen to a channel",
			Summary: "Stops listening to channels, or to all.", Flags: listen},
			Run: unsubscribe(channelKind), Scope: scopeSession},
		{Command: spec.Command{Name: "psubscribe", Syntax: "PSUBSCRIBE <pattern> [<pattern> ...]",
			Group: spec.PubSub, Since: "2.0.0", Complexity: "O(N) where N is the number of patterns",
			Summary: "Listens for messages to all channels that match patterns.", Flags: listen},
			Run: subscribe(patternKind), Scope: scopeSession},
		{Command: spec.Command{Name: "punsubscribe", Syntax: "PUNSUBSCRIBE [pattern [pattern ...]]",
			Group: spec.PubSub, Since: "2.0.0",
			Complexity: "O(N+M) where N is the number of patterns given and M the number of patterns that anybody listens to",
			Summary:    "Stops listening to the channels that match patterns, or to those of all patterns.", Flags: listen},
			Run: unsubscribe(patternKind), Scope: scopeSession},
		{Command: spec.Command{Name: "ssubscribe", Syntax: "SSUBSCRIBE shardchannel [shardchannel ...]",
			Group: spec.PubSub, Since: "7.0.0", Complexity: "O(N) where N is the number of channels",
			Summary: "Listens for messages to shard channels.", Flags: listen,
			Keys: spec.Keys{spec.KeysFrom(1, spec.NotKey)}},
			Run: subscribe(shardKind), Scope: scopeSession},
		{Command: spec.Command{Name: "sunsubscribe", Syntax: "SUNSUBSCRIBE [shardchannel [shardchannel ...]]",
			Group: spec.PubSub, Since: "7.0.0", Complexity: "O(N) where N is the number of clients that listen to a channel",
			Summary: "Stops listening to shard channels, or to all.", Flags: listen,
			Keys: spec.Keys{spec.KeysFrom(1, spec.NotKey)}},
			Run: unsubscribe(shardKind), Scope: scopeSession},
		{Command: spec.Command{Name: "publish", Syntax: "PUBLISH channel message",
			Group: spec.PubSub, Since: "2.0.0",
			Complexity: "O(N+M) where N is the number of clients that listen to the channel and M the number of patterns that anybody listens to",
			Summary:    "Sends a message to a channel and returns how many clients get it.", Flags: send},
			Run: publish, Effects: true},
		{Command: spec.Command{Name: "spublish", Syntax: "SPUBLISH shardchannel message",
			Group: spec.PubSub, Since: "7.0.0", Complexity: "O(N) where N is the number of clients that listen to the channel",
			Summary: "Sends a message to a shard channel and returns how many clients get it.", Flags: send,
			Keys: spec.Keys{spec.FirstKey(spec.NotKey)}},
			Run: spublish, Effects: true},
	}, pubSubSubcommands()...)
}

func pubSubSubcommands() []Command {
	const ask = spec.PubSubFlag | spec.Loading | spec.Stale
	return []Command{
		{Command: spec.Command{Name: "pubsub", Group: spec.PubSub, Since: "2.8.0", Complexity: "Depends on subcommand",
			Summary: "Holds the commands that tell who listens to what."}},
		{Command: spec.Command{Name: "pubsub|channels", Syntax: "PUBSUB CHANNELS [pattern]",
			Group: spec.PubSub, Since: "2.8.0", Complexity: "O(N) where N is the number of channels",
			Summary: "Lists the channels that anybody listens to.", Flags: ask},
			Run: pubSubChannels(channelKind)},
		{Command: spec.Command{Name: "pubsub|help", Syntax: "PUBSUB HELP",
			Group: spec.PubSub, Since: "6.2.0", Complexity: "O(1)",
			Summary: "Describes the subcommands.", Flags: spec.Loading | spec.Stale},
			Run: helpCommand},
		{Command: spec.Command{Name: "pubsub|numpat", Syntax: "PUBSUB NUMPAT",
			Group: spec.PubSub, Since: "2.8.0", Complexity: "O(1)",
			Summary: "Counts the patterns that anybody listens to.", Flags: ask},
			Run: pubSubNumPat},
		{Command: spec.Command{Name: "pubsub|numsub", Syntax: "PUBSUB NUMSUB [channel [channel ...]]",
			Group: spec.PubSub, Since: "2.8.0", Complexity: "O(N) where N is the number of channels asked for",
			Summary: "Counts the clients that listen to channels.", Flags: ask},
			Run: pubSubNumSub(channelKind)},
		{Command: spec.Command{Name: "pubsub|shardchannels", Syntax: "PUBSUB SHARDCHANNELS [pattern]",
			Group: spec.PubSub, Since: "7.0.0", Complexity: "O(N) where N is the number of shard channels",
			Summary: "Lists the shard channels that anybody listens to.", Flags: ask},
			Run: pubSubChannels(shardKind)},
		{Command: spec.Command{Name: "pubsub|shardnumsub", Syntax: "PUBSUB SHARDNUMSUB [shardchannel [shardchannel ...]]",
			Group: spec.PubSub, Since: "7.0.0", Complexity: "O(N) where N is the number of shard channels asked for",
			Summary: "Counts the clients that listen to shard channels.", Flags: ask},
			Run: pubSubNumSub(shardKind)},
	}
}

// subscriptionKind is what a session listens to.
type subscriptionKind uint8

const (
	channelKind subscriptionKind = iota
	patternKind
	shardKind
	subscriptionKinds
)

// words are what the messages about subscriptions of a kind, and to them, begin with.
func (k subscriptionKind) words() (joined, left, message string) {
	switch k {
	case patternKind:
		return "psubscribe", "punsubscribe", "pmessage"
	case shardKind:
		return "ssubscribe", "sunsubscribe", "smessage"
	}
	return "subscribe", "unsubscribe", "message"
}

// subscriptions are what one session listens to. They belong to its goroutine.
type subscriptions struct {
	names [subscriptionKinds]map[string]struct{}
	total int
	// undo is what EXEC has changed so far, in case that it has to be carried out again.
	undo []subscriptionChange
}

// subscriptionChange is one subscription that has begun or ended.
type subscriptionChange struct {
	kind   subscriptionKind
	name   string
	joined bool
}

// count is the number that a confirmation tells: channels and patterns count together.
func (s *subscriptions) count(kind subscriptionKind) int {
	if kind == shardKind {
		return len(s.names[shardKind])
	}
	return len(s.names[channelKind]) + len(s.names[patternKind])
}

// join makes the session listen, unless it does already, and tells whether it did not.
func (ss *session) join(kind subscriptionKind, name string) bool {
	s := &ss.subs
	if _, already := s.names[kind][name]; already {
		return false
	}
	if s.names[kind] == nil {
		s.names[kind] = make(map[string]struct{})
	}
	s.names[kind][name] = struct{}{}
	ss.server.audiences.of(kind).join(name, ss)
	ss.subscriptionsChanged(1)
	return true
}

// leave makes the session listen no more, and tells whether it did before. When it returns, nothing more will be posted
// to the session.
func (ss *session) leave(kind subscriptionKind, name string) bool {
	s := &ss.subs
	if _, ok := s.names[kind][name]; !ok {
		return false
	}
	delete(s.names[kind], name)
	ss.server.audiences.of(kind).leave(name, ss)
	ss.subscriptionsChanged(-1)
	return true
}

func (ss *session) subscriptionsChanged(by int) {
	s := &ss.subs
	s.total += by
	ss.change(func(v *view) {
		for kind := range s.names {
			v.subscribed[kind] = len(s.names[kind])
		}
	})
	ss.conn.SetListening(s.total > 0 || ss.monitoring)
}

// leaveAll ends all subscriptions.
func (ss *session) leaveAll() {
	for kind := range subscriptionKinds {
		for name := range ss.subs.names[kind] {
			ss.leave(kind, name)
		}
	}
}

// undoSubscriptions takes back what EXEC has changed.
func (ss *session) undoSubscriptions() {
	for _, change := range slices.Backward(ss.subs.undo) {
		if change.joined {
			ss.leave(change.kind, change.name)
		} else {
			ss.join(change.kind, change.name)
		}
	}
	ss.subs.undo = nil
}

// restricted tells whether the session may only change its subscriptions, or end: in RESP2 its client could not tell a reply
// from a message.
func (ss *session) restricted() bool { return ss.subs.total > 0 && ss.view.proto == 2 }

// allowedSubscribed tells the commands that a restricted session may send.
func allowedSubscribed(name string) bool {
	switch name {
	case "subscribe", "unsubscribe", "psubscribe", "punsubscribe", "ssubscribe", "sunsubscribe", "ping", "quit", "reset":
		return true
	}
	return false
}

// SUBSCRIBE channel [channel ...]
// PSUBSCRIBE pattern [pattern ...]
// SSUBSCRIBE shardchannel [shardchannel ...]
func subscribe(kind subscriptionKind) Handler {
	word, _, _ := kind.words()
	return func(c *Call) error {
		if c.exec && kind == shardKind {
			return resp.ErrShardSubscribeInExec
		}
		for _, name := range c.args(0).all() {
			c.confirmChange(kind, string(name), true)
			c.confirm(word, name, c.session.subs.count(kind))
		}
		return nil
	}
}

// UNSUBSCRIBE [channel [channel ...]]
// PUNSUBSCRIBE [pattern [pattern ...]]
// SUNSUBSCRIBE [shardchannel [shardchannel ...]]
func unsubscribe(kind subscriptionKind) Handler {
	_, word, _ := kind.words()
	return func(c *Call) error {
		subs := &c.session.subs
		names := c.args(0).all()
		if len(names) == 0 {
			for _, name := range slices.Sorted(maps.Keys(subs.names[kind])) {
				names = append(names, []byte(name))
			}
		}
		for _, name := range names {
			c.confirmChange(kind, string(name), false)
			c.confirm(word, name, subs.count(kind))
		}
		if len(names) == 0 {
			c.confirm(word, nil, subs.count(kind))
		}
		return nil
	}
}

// confirmChange begins or ends a subscription. What was posted before it ended comes before the confirmation; not so within
// EXEC, whose reply may be taken back.
func (c *Call) confirmChange(kind subscriptionKind, name string, join bool) {
	ss := c.session
	changed := false
	if join {
		changed = ss.join(kind, name)
	} else {
		changed = ss.leave(kind, name)
	}
	switch {
	case c.exec && changed:
		ss.subs.undo = append(ss.subs.undo, subscriptionChange{kind, name, join})
	case !c.exec && !join:
		ss.conn.TakePosted()
	}
}

// confirm tells the client of a change to its subscriptions, of none if there is no name. CLIENT REPLY does not keep it back.
func (c *Call) confirm(word string, name []byte, count int) {
	c.session.pushed = true
	c.Out.Push(3)
	c.Out.BulkString(word)
	if name == nil {
		c.Out.Null()
	} else {
		c.Out.Bulk(name)
	}
	c.Out.Int(int64(count))
}

// PUBLISH channel message
func publish(c *Call) error {
	a := &c.server.audiences
	n := a.of(channelKind).size(c.key()) + a.patterns.matching(c.key())
	if n > 0 {
		c.tx.Note(shard.Note{Class: shard.NotePublish, Key: c.key(), Message: c.Args[2]})
	}
	c.Out.Int(int64(n))
	return nil
}

// SPUBLISH shardchannel message
func spublish(c *Call) error {
	n := c.server.audiences.of(shardKind).size(c.key())
	if n > 0 {
		c.tx.Note(shard.Note{Class: shard.NoteSPublish, Key: c.key(), Message: c.Args[2]})
	}
	c.Out.Int(int64(n))
	return nil
}

// PUBSUB CHANNELS [pattern]
// PUBSUB SHARDCHANNELS [pattern]
func pubSubChannels(kind subscriptionKind) Handler {
	return func(c *Call) error {
		if len(c.Args) > 3 {
			return resp.ErrSubcommandArgs("PUBSUB", c.Args[1])
		}
		names := c.server.audiences.of(kind).names()
		if len(c.Args) == 3 {
			names = slices.DeleteFunc(names, func(name string) bool { return !globMatch(c.Args[2], []byte(name)) })
		}
		slices.Sort(names)
		c.Out.Array(len(names))
		writeStrings(c.Out, names...)
		return nil
	}
}

// PUBSUB NUMPAT
func pubSubNumPat(c *Call) error {
	c.Out.Int(int64(len(c.server.audiences.patterns.names())))
	return nil
}

// PUBSUB NUMSUB [channel [channel ...]]
// PUBSUB SHARDNUMSUB [shardchannel [shardchannel ...]]
func pubSubNumSub(kind subscriptionKind) Handler {
	return func(c *Call) error {
		channels := c.args(1).all()
		c.Out.Array(2 * len(channels))
		for _, channel := range channels {
			c.Out.Bulk(channel)
			c.Out.Int(int64(c.server.audiences.of(kind).size(channel)))
		}
		return nil
	}
}
