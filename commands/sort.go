package commands

import (
	"bytes"
	"cmp"
	"errors"
	"slices"

	"codeq/commands/spec"
	"codeq/resp"
	"codeq/shard"
)

// sortCommands sort the elements of a list, set or sorted set. The keys that BY and GET build from the elements can't be
// told from the arguments: they are locked when they are reached.
func sortCommands() []Command {
	const acl = spec.CatDangerous | spec.CatList | spec.CatSet | spec.CatSortedSet
	const complexity = "O(N+M*log(M)), where N is the number of elements and M that of the elements returned; O(N) with a BY that does not sort"
	source, pattern := spec.FirstKey(spec.RO|spec.Access), spec.KeySpec{Flags: spec.RO | spec.Access}
	return []Command{
		{Command: spec.Command{Name: "sort",
			Syntax: "SORT key [BY pattern#1] [LIMIT offset count] [GET pattern#1 [GET pattern#1 ...]] [ASC | DESC] [ALPHA] [STORE destination#2]",
			Group:  spec.Generic, Since: "1.0.0", Complexity: complexity,
			Differs: "ALPHA compares bytes (Redis: by the locale, up to a NUL). A BY that does not sort leaves the elements of a set in our " +
				"order.",
			Summary: "Sorts the elements of a list, set or sorted set, and returns or stores them.",
			Flags:   spec.Write | spec.DenyOOM, ACL: acl,
			Keys: spec.Keys{source, pattern, {Flags: spec.OW | spec.Update}}, GetKeys: spec.SortKeys},
			Run: sortCommand, Reads: true},
		{Command: spec.Command{Name: "sort_ro",
			Syntax: "SORT_RO key [BY pattern#1] [LIMIT offset count] [GET pattern#1 [GET pattern#1 ...]] [ASC | DESC] [ALPHA]",
			Group:  spec.Generic, Since: "7.0.0", Complexity: complexity,
			Differs: "As SORT.",
			Summary: "Sorts the elements of a list, set or sorted set, and returns them.",
			Flags:   spec.ReadOnly, ACL: acl,
			Keys: spec.Keys{source, pattern}, GetKeys: spec.SortReadOnlyKeys},
			Run: sortCommand},
	}
}

// sorting is what a SORT asks for.
type sorting struct {
	by            *sortPattern // nil: by the elements themselves
	keepOrder     bool         // BY without a star: nothing is sorted
	get           []sortPattern
	offset, count int64
	desc, alpha   bool
	destination   []byte // nil: reply with the elements
}

// sortPattern is what BY and GET look up for an element: the string at a key in whose name the element takes the star's
// place, or a field of the hash there.
type sortPattern struct {
	element       bool // GET #: the element itself
	never         bool // without a star there is nothing to look up
	before, after []byte
	field         []byte // nil: the key holds a string
}

// sortItem is an element and what it is sorted by.
type sortItem struct {
	element []byte
	score   float64
	text    []byte // with ALPHA
	missing bool   // with BY: there is nothing at its key
}

// SORT key [BY pattern] [LIMIT offset count] [GET pattern [GET pattern ...]] [ASC | DESC] [ALPHA] [STORE destination]
// SORT_RO is the same without STORE.
func sortCommand(c *Call) error {
	s, err := parseSorting(c)
	if err != nil {
		return err
	}
	items, err := s.elements(c)
	if err != nil {
		return err
	}
	first, last := s.window(len(items))
	if !s.keepOrder {
		if err := s.weigh(c.DB(), items); err != nil {
			return err
		}
		slices.SortStableFunc(items, s.compare)
	}
	items = items[first:last]
	if s.destination != nil {
		return s.store(c, items)
	}
	c.Out.Array(len(items) * max(1, len(s.get)))
	return s.each(c.DB(), items, func(val []byte, ok bool) error {
		c.replyString(val, ok)
		return nil
	})
}

func parseSorting(c *Call) (*sorting, error) {
	s := &sorting{count: -1}
	readOnly := c.cmd.Has(spec.ReadOnly)
	a := c.args(1)
	for a.more() {
		switch {
		case a.token("ASC"):
			s.desc = false
		case a.token("DESC"):
			s.desc = true
		case a.token("ALPHA"):
			s.alpha = true
		case len(a.rest) > 2 && a.token("LIMIT"):
			s.offset, s.count = a.integer(), a.integer()
		case !readOnly && len(a.rest) > 1 && a.token("STORE"):
			s.destination = a.bytes()
		case len(a.rest) > 1 && a.token("BY"):
			pattern := parseSortPattern(a.bytes())
			s.by = &pattern
			// Once BY had no star, a later one doesn't make SORT sort again, as in Redis.
			s.keepOrder = s.keepOrder || !pattern.hasStar()
		case len(a.rest) > 1 && a.token("GET"):
			s.get = append(s.get, parseSortPattern(a.bytes()))
		default:
			a.fail(resp.ErrSyntax)
		}
	}
	return s, a.err
}

func parseSortPattern(text []byte) sortPattern {
	if string(text) == "#" {
		return sortPattern{element: true}
	}
	before, after, ok := bytes.Cut(text, []byte("*"))
	if !ok {
		return sortPattern{never: true}
	}
	p := sortPattern{before: before, after: after}
	// An arrow at the very end is part of the key's name.
	if name, field, ok := bytes.Cut(after, []byte("->")); ok && len(field) > 0 {
		p.after, p.field = name, field
	}
	return p
}

func (p *sortPattern) hasStar() bool { return !p.element && !p.never }

// lookup finds what the pattern names for an element. A key of another type counts as absent.
func (p *sortPattern) lookup(db shard.DB, element []byte) (val []byte, ok bool, err error) {
	switch {
	case p.element:
		return element, true, nil
	case p.never:
		return nil, false, nil
	}
	key := slices.Concat(p.before, element, p.after)
	if p.field == nil {
		val, ok, err = db.Get(key)
	} else {
		var h shard.Hash
		if h, err = db.Hash(key); err == nil {
			val, ok, err = h.Get(p.field)
		}
	}
	if errors.Is(err, shard.ErrWrongType) {
		return nil, false, nil
	}
	return val, ok, err
}

// elements reads the collection, in an order that matters only if it is kept.
func (s *sorting) elements(c *Call) (items []sortItem, err error) {
	db, key := c.DB(), c.key()
	kind, err := db.Type(key)
	if err != nil {
		return nil, err
	}
	add := func(element []byte) {
		items = append(items, sortItem{element: bytes.Clone(element)})
	}
	switch kind {
	case shard.KindNone:
		// A partitioned key that holds nothing is still of a type.
		err = shard.ErrWrongType
		for _, sortable := range [...]shard.Kind{shard.KindList, shard.KindSet, shard.KindZSet} {
			if errors.Is(err, shard.ErrWrongType) {
				err = db.CanHold(key, sortable)
			}
		}
	case shard.KindList:
		err = eachOfList(db, key, add)
	case shard.KindSet:
		err = eachOfSet(db, key, add)
		// What is stored, or seen by a script, must not depend on the order of a set.
		if s.keepOrder && (s.destination != nil || c.script) {
			s.keepOrder, s.by, s.alpha = false, nil, true
		}
	case shard.KindZSet:
		err = eachOfZSet(db, key, add)
	default:
		return nil, shard.ErrWrongType
	}
	if s.keepOrder && s.desc && kind != shard.KindSet {
		slices.Reverse(items)
	}
	return items, err
}

func eachOfList(db shard.DB, key []byte, fn func(element []byte)) error {
	l, err := db.List(key)
	if err != nil {
		return err
	}
	n, err := l.Len()
	if err != nil {
		return err
	}
	return l.Range(0, n-1, fn)
}

func eachOfSet(db shard.DB, key []byte, fn func(element []byte)) error {
	set, err := db.SetOf(key)
	if err != nil {
		return err
	}
	return set.Each(func(member []byte) bool { fn(member); return true })
}

// eachOfZSet visits the members in the order of their scores.
func eachOfZSet(db shard.DB, key []byte, fn func(element []byte)) error {
	z, err := db.ZSet(key)
	if err != nil {
		return err
	}
	n, err := z.Len()
	if err != nil {
		return err
	}
	return z.RangeByRank(0, n-1, false, func(member []byte, _ float64) bool { fn(member); return true })
}

// window is the part of n elements that LIMIT asks for.
func (s *sorting) window(n int) (first, last int) {
	size := int64(n)
	from := min(max(s.offset, 0), size)
	if s.count < 0 {
		return int(from), n
	}
	return int(from), int(from + min(s.count, size-from))
}

// weigh finds what each element is sorted by.
func (s *sorting) weigh(db shard.DB, items []sortItem) error {
	numeric := true
	for i := range items {
		item := &items[i]
		val, ok := item.element, true
		if s.by != nil {
			var err error
			if val, ok, err = s.by.lookup(db, item.element); err != nil {
				return err
			}
		}
		switch {
		case !ok:
			item.missing = true
		case s.alpha:
			item.text = val
		default:
			if item.score, ok = parseSortScore(val); !ok {
				numeric = false
			}
		}
	}
	if !numeric {
		return resp.ErrSortNotNumeric
	}
	return nil
}

// parseSortScore reads a number as C's strtod does, which here is not followed by a check for blanks before it: they are
// skipped, nothing at all is 0, and a NUL ends the number.
func parseSortScore(b []byte) (float64, bool) {
	text, _, _ := bytes.Cut(b, []byte{0})
	text = bytes.TrimLeft(text, " \t\n\v\f\r")
	if len(text) == 0 {
		// Blanks alone are no number, and then the text does not end where the number does.
		return 0, len(b) == 0 || b[0] == 0
	}
	return parseFloat(text)
}

// compare orders two elements.
func (s *sorting) compare(a, b sortItem) int {
	order := 0
	switch {
	case !s.alpha:
		if order = cmp.Compare(a.score, b.score); order == 0 {
			order = bytes.Compare(a.element, b.element)
		}
	case a.missing || b.missing:
		order = int(oneIf(b.missing) - oneIf(a.missing))
	default:
		order = bytes.Compare(a.text, b.text)
	}
	if s.desc {
		return -order
	}
	return order
}

// each visits the result: for each element what GET asks for, or else the element.
func (s *sorting) each(db shard.DB, items []sortItem, fn func(val []byte, ok bool) error) error {
	for i := range items {
		if len(s.get) == 0 {
			if err := fn(items[i].element, true); err != nil {
				return err
			}
			continue
		}
		for j := range s.get {
			val, ok, err := s.get[j].lookup(db, items[i].element)
			if err == nil {
				err = fn(val, ok)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// store replaces the destination by the list of the result, and removes it when that is empty. The result is complete
// before anything is written, since the destination may be the source or among what GET reads.
func (s *sorting) store(c *Call, items []sortItem) error {
	db := c.DB()
	if err := db.CanHold(s.destination, shard.KindList); err != nil {
		return err
	}
	var result memberList
	err := s.each(db, items, func(val []byte, _ bool) error {
		result.add(val)
		return nil
	})
	if err != nil {
		return err
	}
	deleted, err := db.Delete(s.destination)
	if err != nil {
		return err
	}
	list, err := db.List(s.destination)
	if err != nil {
		return err
	}
	for _, val := range result.members {
		if err := list.Push(shard.Tail, val); err != nil {
			return err
		}
	}
	if len(result.members) > 0 {
		c.notify(shard.NoteList, "sortstore", s.destination)
	} else {
		c.notifyIf(deleted, shard.NoteGeneric, eventDel, s.destination)
	}
	c.Out.Int(int64(len(result.members)))
	return nil
}
