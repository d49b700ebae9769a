package shard

import "math"

// A task's result goes into another hash than the task, and has to be looked for there first, since a hash counts its fields and most often has
// never had this one. That it has not is known when the task is made or read, long before; so it is noted with the task, together with the
// moment at which it was so. See ADR 0029.

// Moment names a time from which on a shard knows what comes into its part of a hash: a field that was found lacking since then, and has not
// come, the hash still lacks. Zero is no moment. The cache forgets moments with the hash's object, and when very much has come; a
// field of which nothing is known any more is looked for.
type Moment uint32

// arrivals are the fields that a hash may have got since the last moment that was asked for.
type arrivals struct {
	since Moment   // zero: nobody has asked
	names *nameSet // nil: none came
}

// maxArrivals is how many names are kept before the moment is forgotten instead.
const maxArrivals = 1 << 16

// add notes a field that was not there.
func (a *arrivals) add(field []byte) {
	switch {
	case a.since == 0:
		return
	case a.names == nil:
		a.names = newNameSet(0)
	case a.names.n == maxArrivals:
		*a = arrivals{}
		return
	}
	a.names.add(field)
}

// Moment is the present for the fields of the shard that has this one. Behind four thousand million of them a shard does without, so that
// none comes twice: then it is zero.
func (h Hash) Moment(field []byte) (Moment, error) {
	s, o, err := h.home(field)
	if err != nil {
		return 0, err
	}
	return s.moment(o), nil
}

func (s *Shard) moment(o *object) Moment {
	if o.arrivals.since == 0 && s.moments < math.MaxUint32 {
		s.moments++
		o.arrivals.since = s.moments
	}
	return o.arrivals.since
}

// lacksSince tells whether the object surely has no such field, which it lacked at the moment.
func (o *object) lacksSince(field []byte, at Moment) bool {
	a := &o.arrivals
	return at != 0 && at == a.since && (a.names == nil || a.names.lacks(field))
}

// LacksSince tells whether the hash surely has no such field, which it lacked at the moment.
func (h Hash) LacksSince(field []byte, at Moment) (bool, error) {
	_, o, err := h.home(field)
	return err == nil && o.lacksSince(field, at), err
}

// Answers tells whether the cache knows of the field whether it is there, whatever was known at a moment.
func (h Hash) Answers(field []byte) (bool, error) {
	_, o, err := h.home(field)
	return err == nil && o.knows(field), err
}

// SetIdleSince is SetIdle for a field that was not there at the moment, which the caller forgets for this field in the same transaction.
func (h Hash) SetIdleSince(field, val []byte, at Moment) (created bool, err error) {
	s, o, err := h.writable(field)
	if err != nil {
		return false, err
	}
	if !o.lacksSince(field, at) {
		return h.SetIdle(field, val)
	}
	s.setIdle(o, field, val, 0, false) // nobody has that moment for the field any more, so it is no arrival
	return true, nil
}

// Note keeps with a field, if it is cached, since when another hash lacks one of the same name. It is forgotten with the value, when that is
// set again, and when the hash is renamed: the same field of another hash in its place may have a moment of its own then.
func (h Hash) Note(field []byte, lacking Moment) error {
	_, o, err := h.home(field)
	if err == nil && o.hash != nil {
		if el := o.hash.alive(field); el != nil {
			el.lacking, o.hash.noted = lacking, true
		}
	}
	return err
}

// Lacking reads fields together, as Fetch does, and calls fn with those that are not there, and the moment.
func (h Hash) Lacking(fields [][]byte, fn func(field []byte, now Moment)) error {
	if len(fields) == 0 {
		return nil
	}
	s, o, err := h.home(fields[0])
	if err != nil {
		return err
	}
	now := s.moment(o)
	return h.fetch(fields, func(field []byte) { fn(field, now) })
}

// forgetNotes forgets what Note and Memo have kept with the fields.
func (b *hashBody) forgetNotes() {
	if b.noted {
		for _, el := range b.rows {
			el.lacking = 0
		}
		b.noted = false
	}
}
