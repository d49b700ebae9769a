package shard

// Rename gives the value at src, which must exist, the name dst, and with it its deadline. What was at dst
// is removed. On one shard only metadata rows change; between shards the value is copied.
func (d DB) Rename(src, dst []byte) error {
	if string(src) == string(dst) {
		return nil
	}
	from, s, o, err := d.place(src)
	if err != nil {
		return err
	}
	to, ds, do, err := d.place(dst)
	if err != nil {
		return err
	}
	if !from.Partitioned && !to.Partitioned && s == ds {
		return s.rename(o, do)
	}
	return d.move(src, dst, to)
}

// rename moves the value of o to do, an object of the same shard.
func (s *Shard) rename(o, do *object) error {
	if err := s.remove(do); err != nil {
		return err
	}
	at := o.expireAt
	s.setDeadline(o, 0)
	s.modify(o)
	s.modify(do)
	do.kind, do.id, do.count, do.str, do.ordered = o.kind, o.id, o.count, o.str, o.ordered
	do.arrivals = arrivals{} // what it lacked was not what it is now
	if o.hash != nil {
		o.hash.forgetNotes()
	}
	do.chunked, do.list, do.hash, do.set, do.zset, do.stream = o.chunked, o.list, o.hash, o.set, o.zset, o.stream
	if do.stream != nil {
		do.stream.news, do.stream.row = true, nil
	}
	if do.list != nil && do.list.slots != nil {
		do.list.slots.news.any = true
	}
	if n := do.names(); n != nil && n.next != nil {
		s.unnamed = append(s.unnamed, do)
	}
	if len(s.queues) > 0 && o.track != nil && o.track.Departures {
		s.signalAll(o)
	}
	o.clear()
	if do.db != o.db {
		s.count(o.db.n, -1)
		s.count(do.db.n, 1)
	}
	s.setDeadline(do, at)
	s.noteNew(do)
	return nil
}

// move copies the value to dst on another shard, or over fragments, and deletes it at src.
func (d DB) move(src, dst []byte, to Placement) error {
	kind, err := d.Type(src)
	if err != nil {
		return err
	}
	if to.Partitioned && to.Kind != kind {
		return ErrWrongType
	}
	at, _, err := d.ExpireAt(src)
	if err == nil {
		err = d.CanExpire(dst, at)
	}
	if err != nil {
		return err
	}
	if _, err := d.Delete(dst); err != nil {
		return err
	}
	if err := d.copyValue(kind, src, dst); err != nil {
		return err
	}
	if _, err := d.SetExpireAt(dst, at); err != nil {
		return err
	}
	_, err = d.Delete(src)
	return err
}

// copyValue copies the value to a key that is absent.
func (d DB) copyValue(kind Kind, src, dst []byte) error {
	switch kind {
	case KindString:
		val, _, err := d.Get(src)
		if err != nil {
			return err
		}
		return d.Set(dst, val, 0)
	case KindList:
		return copyElements(d.List, src, dst, func(from, to List, put func(error) bool) error {
			n, err := from.Len()
			if err != nil || n == 0 {
				return err
			}
			return from.Range(0, n-1, func(val []byte) { put(to.Push(Tail, val)) })
		})
	case KindHash:
		return copyElements(d.Hash, src, dst, func(from, to Hash, put func(error) bool) error {
			return from.Each(func(field, val []byte) bool {
				_, err := to.Set(field, val)
				return put(err)
			})
		})
	case KindSet:
		return copyElements(d.SetOf, src, dst, func(from, to Set, put func(error) bool) error {
			return from.Each(func(member []byte) bool {
				_, err := to.Add(member)
				return put(err)
			})
		})
	case KindZSet:
		return copyElements(d.ZSet, src, dst, func(from, to ZSet, put func(error) bool) error {
			return from.Each(func(member []byte, score float64) bool {
				_, err := to.Set(member, score)
				return put(err)
			})
		})
	case KindStream:
		return d.copyStream(src, dst)
	}
	return ErrWrongType
}

// copyElements opens both collections and runs copy between them; put takes the error of each element and
// tells whether to go on.
func copyElements[C any](open func([]byte) (C, error), src, dst []byte, copy func(from, to C, put func(error) bool) error) error {
	from, err := open(src)
	if err != nil {
		return err
	}
	to, err := open(dst)
	if err != nil {
		return err
	}
	var failed error
	err = copy(from, to, func(err error) bool {
		failed = err
		return err == nil
	})
	if err != nil {
		return err
	}
	return failed
}
