package shard

import "slices"

// mergeBatch is the number of entries that are taken from each fragment at a time.
const mergeBatch = 64

// fragmentRun is one fragment's part in a merge: entries read ahead, in order.
type fragmentRun struct {
	s     *Shard
	o     *object
	ahead []scored
	last  scored // the last entry that was read
	begun bool
	ended bool
}

// merge walks the fragments of a partitioned sorted set as one, by reading ahead in each. walk restarts a
// fragment's walk each time and what was taken before is skipped; the batches double, so that the skipping
// costs no more than the reading.
func (z ZSet) merge(rev bool, walk func(s *Shard, o *object, take func(scored) bool) error, fn func(scored) bool) error {
	var runs []*fragmentRun
	err := z.each(func(s *Shard, o *object) error {
		runs = append(runs, &fragmentRun{s: s, o: o})
		return nil
	})
	if err != nil {
		return err
	}
	order := compareScored
	if rev {
		order = func(a, b scored) int { return compareScored(b, a) }
	}
	for size := mergeBatch; ; {
		for _, r := range runs {
			if len(r.ahead) == 0 && !r.ended {
				if err := r.read(size, order, walk); err != nil {
					return err
				}
				size *= 2
			}
		}
		runs = slices.DeleteFunc(runs, func(r *fragmentRun) bool { return len(r.ahead) == 0 })
		if len(runs) == 0 {
			return nil
		}
		first := slices.MinFunc(runs, func(a, b *fragmentRun) int { return order(a.ahead[0], b.ahead[0]) })
		if !fn(first.ahead[0]) {
			return nil
		}
		first.ahead = first.ahead[1:]
	}
}

// read takes the next entries of the fragment.
func (r *fragmentRun) read(size int, order func(a, b scored) int, walk func(s *Shard, o *object, take func(scored) bool) error) error {
	r.ended = true
	begun, last := r.begun, r.last
	r.ahead = r.ahead[:0:0]
	err := walk(r.s, r.o, func(e scored) bool {
		if begun && order(e, last) <= 0 {
			return true
		}
		if len(r.ahead) == size {
			r.ended = false
			return false
		}
		r.ahead = append(r.ahead, e)
		r.last, r.begun = e, true
		return true
	})
	return err
}
