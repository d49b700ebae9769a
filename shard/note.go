package shard

import "unsafe"

// Notes are what a transaction tells those who listen: keyspace events, and messages of PUBLISH. They are kept in their
// order, told when they are committed, and forgotten with whatever is aborted, so that nobody hears twice, or falsely, of
// what was done again with other locks.

// NoteClass is what a note is about. The classes of keyspace events are those of Redis' notify-keyspace-events.
type NoteClass uint32

// The classes, one bit each.
const (
	NoteGeneric NoteClass = 1 << iota // any kind of value
	NoteString
	NoteList
	NoteSet
	NoteHash
	NoteZSet
	NoteStream
	NoteExpired  // a key is removed since its deadline has passed
	NoteNew      // a key comes into being
	NoteKeyMiss  // a command that reads finds no key
	NotePublish  // a message to a channel
	NoteSPublish // a message to a shard channel
)

// Note is one thing to tell. Its bytes are valid while the listener runs.
type Note struct {
	Class   NoteClass
	DB      int    // of the key
	Event   string // the event's name; empty for a message
	Key     []byte // or the channel
	Message []byte
}

// Listen sets who is told of notes, before the first transaction. The listener is called when a transaction with notes has
// been committed, under its locks, so that what happens to one key is told in its order. pos is the log position to wait
// for, with Wait, before a note may leave the process. It may be called by many goroutines at a time.
func (st *Store) Listen(hear func(pos uint64, notes []Note)) { st.listener.Store(&hear) }

// SetNoted says of which classes of keyspace events transactions take notes.
func (st *Store) SetNoted(classes NoteClass) { st.noted.Store(uint32(classes)) }

// Notes tells whether transactions take notes of events of the class.
func (st *Store) Notes(class NoteClass) bool { return st.noted.Load()&uint32(class) != 0 }

// Note takes a note of an event, if the class is wanted.
func (d DB) Note(class NoteClass, event string, key []byte) {
	if d.tx.store.Notes(class) {
		d.tx.Note(Note{Class: class, DB: d.n, Event: event, Key: key})
	}
}

// Notes tells whether transactions take notes of events of the class.
func (d DB) Notes(class NoteClass) bool { return d.tx.store.Notes(class) }

// Note takes a note, whatever its class.
func (tx *Tx) Note(n Note) {
	n.Key, n.Message = tx.keepBytes(n.Key), tx.keepBytes(n.Message)
	tx.notes = append(tx.notes, n)
	tx.occupy(noteOverhead + 2*(len(n.Key)+len(n.Message)))
}

// noteOverhead is what a note takes in memory besides its bytes.
const noteOverhead = int(unsafe.Sizeof(Note{}))

// keepBytes copies b. When the copy's memory moves, earlier notes keep what they have.
func (tx *Tx) keepBytes(b []byte) []byte {
	start := len(tx.noteBuf)
	tx.noteBuf = append(tx.noteBuf, b...)
	return tx.noteBuf[start:len(tx.noteBuf):len(tx.noteBuf)]
}

// noteOf is Note for the shard's own events.
func (s *Shard) noteOf(class NoteClass, event string, o *object) {
	if s.store.Notes(class) {
		s.tx.Note(Note{Class: class, DB: o.db.n, Event: event, Key: []byte(o.key)})
	}
}

// noteNew notes a key that comes into being.
func (s *Shard) noteNew(o *object) { s.noteOf(NoteNew, "new", o) }

// maxKeptNotes and maxKeptNoteBytes bound what a transaction keeps for later notes.
const (
	maxKeptNotes     = 1024
	maxKeptNoteBytes = 64 << 10
)

// tellNotes tells the notes of what has been committed.
func (tx *Tx) tellNotes() {
	if len(tx.notes) == 0 {
		return
	}
	if hear := tx.store.listener.Load(); hear != nil {
		(*hear)(tx.Position(), tx.notes)
	}
	tx.dropNotes()
}

func (tx *Tx) dropNotes() {
	if len(tx.notes) == 0 {
		return
	}
	clear(tx.notes)
	tx.notes, tx.noteBuf = tx.notes[:0], tx.noteBuf[:0]
	if cap(tx.notes) > maxKeptNotes {
		tx.notes = nil
	}
	if cap(tx.noteBuf) > maxKeptNoteBytes {
		tx.noteBuf = nil
	}
}
