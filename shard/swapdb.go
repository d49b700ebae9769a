package shard

// SwapDB exchanges the contents of two databases, which must keep every key on the same shards. It is a swap of two
// keyspace ids on each shard (ADR 0005), whatever the databases hold. As in Redis, those who watch a key are told if it
// exists in either database, and those who wait for one are served if it is there now.
func (tx *Tx) SwapDB(a, b int) error {
	if a == b {
		return nil
	}
	for ordinal := range tx.store.shards {
		s, err := tx.shard(ordinal)
		if err == nil {
			err = s.swap(tx.nowMs, a, b)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// swap is SwapDB on one shard.
func (s *Shard) swap(nowMs int64, a, b int) error {
	spaces := s.state.spaces
	if spaces[a].keys == 0 && spaces[b].keys == 0 {
		return nil
	}
	s.touch()
	if err := s.notifySwap(nowMs, a, b); err != nil {
		return err
	}
	spaces[a], spaces[b] = spaces[b], spaces[a]
	s.cache.swap(a, b)
	s.wiped = true // aborting has to forget what is cached under the wrong database
	return s.readySwapped(nowMs, a, b)
}

// notifySwap notes, before the swap, that the keys of either database change, for those who watch one that exists in
// either or that the transaction has changed before.
func (s *Shard) notifySwap(nowMs int64, a, b int) error {
	for k, watchers := range s.watches {
		if k.db != a && k.db != b {
			continue
		}
		changes := false
		for _, db := range []int{a, b} {
			o, err := s.lookup(nowMs, db, []byte(k.key))
			if err != nil {
				return err
			}
			changes = changes || o.kind != KindNone || o.dirty && db == k.db
		}
		if !changes {
			continue
		}
		for _, w := range watchers {
			w.touched.Store(true)
		}
	}
	return nil
}

// readySwapped makes the commit serve those who wait for a key that the swap has brought.
func (s *Shard) readySwapped(nowMs int64, a, b int) error {
	for k := range s.queues {
		if k.db != a && k.db != b {
			continue
		}
		if k.kind == KindGroup || k.element != "" {
			s.awaited = true
			s.signals = append(s.signals, k)
			continue
		}
		o, err := s.lookup(nowMs, k.db, []byte(k.key))
		if err != nil {
			return err
		}
		if o.kind != k.kind {
			continue
		}
		if s.modify(o); o.stream != nil {
			o.stream.news = true
		}
	}
	return nil
}

// MoveKey moves the value at the key, with its deadline, to another database, which must not have the key. Only metadata
// rows change. It is not ok if the databases keep the key on different shards: then the value has to be copied.
func (d DB) MoveKey(key []byte, to DB) (ok bool, err error) {
	from, err := d.tx.store.placer.Place(d.n, key)
	if err != nil {
		return false, err
	}
	target, err := d.tx.store.placer.Place(to.n, key)
	if err != nil || from != target {
		return false, err
	}
	return true, d.fragments(key, func(s *Shard, o *object) error {
		if o.kind == KindNone {
			return nil
		}
		_, do, err := to.at(s.ordinal, key)
		if err != nil {
			return err
		}
		return s.rename(o, do)
	})
}
