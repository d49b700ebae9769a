package commands

import (
	"strconv"

	"codeq/config"
	"codeq/shard"
)

// Keyspace notifications. Handlers take a note of what they have done to a key, with Call.notify or, where there is no call,
// with shard.DB.Note, in the order in which Redis tells it; the store tells the server of all notes when they are committed.
// Unless notify-keyspace-events asks for them, a note costs a load and a comparison.

// notify takes a note of an event at a key of the call's database.
func (c *Call) notify(class shard.NoteClass, event string, key []byte) {
	c.DB().Note(class, event, key)
}

// notifyIf is notify if something has happened.
func (c *Call) notifyIf(happened bool, class shard.NoteClass, event string, key []byte) {
	if happened {
		c.notify(class, event, key)
	}
}

// noteRemoval notes that elements were taken from the collection at the key, and with the last of them the key.
func noteRemoval(db shard.DB, class shard.NoteClass, event string, key []byte) error {
	db.Note(class, event, key)
	if !db.Notes(shard.NoteGeneric) {
		return nil
	}
	defer db.NarrowTo(db.Widen()) // the key is there as long as one of its fragments is
	exists, err := db.Exists(key)
	if err == nil && !exists {
		db.Note(shard.NoteGeneric, eventDel, key)
	}
	return err
}

// eventDel is the event of a key that is gone, but not since it has expired.
const eventDel = "del"

// Bits of Server.spaces: by what events are published.
const (
	byKey uint32 = 1 << iota
	byEvent
)

// setNoted works out from the configuration which events there are notes of.
func (s *Server) setNoted(c *config.Config) {
	events := c.NotifyKeyspaceEvents
	var spaces uint32
	if events.Has('K') {
		spaces |= byKey
	}
	if events.Has('E') {
		spaces |= byEvent
	}
	var classes shard.NoteClass
	for _, of := range noteClasses() {
		if spaces != 0 && events.Has(of.letter) {
			classes |= of.class
		}
	}
	s.spaces.Store(spaces)
	s.store.SetNoted(classes)
}

// noteClass is a class of events with Redis' letter for it.
type noteClass struct {
	letter byte
	class  shard.NoteClass
}

func noteClasses() []noteClass {
	return []noteClass{
		{'g', shard.NoteGeneric}, {'$', shard.NoteString}, {'l', shard.NoteList}, {'s', shard.NoteSet}, {'h', shard.NoteHash},
		{'z', shard.NoteZSet}, {'t', shard.NoteStream}, {'x', shard.NoteExpired}, {'n', shard.NoteNew}, {'m', shard.NoteKeyMiss},
	}
}

// hear publishes the notes of a commit. It is the store's listener, and is called under the locks of the transaction.
func (s *Server) hear(pos uint64, notes []shard.Note) {
	for i := range notes {
		switch n := &notes[i]; n.Class {
		case shard.NotePublish:
			s.publish(pos, n.Key, n.Message)
		case shard.NoteSPublish:
			s.audiences.shards.tell(pos, shardKind, n.Key, n.Message)
		default:
			s.publishEvent(pos, n)
		}
	}
}

func (s *Server) publish(pos uint64, channel, text []byte) {
	s.audiences.channels.tell(pos, channelKind, channel, text)
	s.audiences.patterns.tell(pos, channel, text)
}

// publishEvent publishes a keyspace event in Redis' channels, by its key and then by its name.
func (s *Server) publishEvent(pos uint64, n *shard.Note) {
	var room [256]byte
	spaces := s.spaces.Load()
	if spaces&byKey != 0 {
		channel := append(appendSpace(room[:0], "__keyspace@", n.DB), n.Key...)
		s.publish(pos, channel, []byte(n.Event))
	}
	if spaces&byEvent != 0 {
		channel := append(appendSpace(room[:0], "__keyevent@", n.DB), n.Event...)
		s.publish(pos, channel, n.Key)
	}
}

func appendSpace(dst []byte, prefix string, db int) []byte {
	return append(strconv.AppendInt(append(dst, prefix...), int64(db), 10), "__:"...)
}
